//! Numbers as C++ streams print them: CFP's and Alpa's dumps have such.

/// Six significant digits, the shorter of `0.789642` and `1.63084e+10`: C's `%g`.
pub fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.abs());
    }
    let n_decimals = (5 - exponent) as usize;
    trimmed(&format!("{value:.n_decimals$}")).to_owned()
}

/// Without the zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_those_of_the_readme_of_cfp() {
        assert_eq!(general(16_308_400_000.0), "1.63084e+10");
        assert_eq!(general(0.789_642), "0.789642");
        assert_eq!(general(0.129_48), "0.12948");
        assert_eq!([0.0, 20.5, 1e-5, 999_999.5, -3.0].map(general), ["0", "20.5", "1e-05", "1e+06", "-3"]);
        assert_eq!(general(f64::INFINITY), "inf");
    }
}
