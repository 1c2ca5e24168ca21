//! Numbers as a person reads them: three digits and a unit.

/// `12.3 ms`.
pub fn secs(value: f64) -> String {
    scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])
}

/// `1.23 kWh`.
pub fn energy(kwh: f64) -> String {
    scaled(kwh, &[(1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh")])
}

/// `1.50 GiB`.
pub fn bytes(value: f64) -> String {
    let kib = 1024.0;
    if value.abs() < kib {
        return format!("{value:.0} B");
    }
    scaled(value, &[(kib * kib * kib, "GiB"), (kib * kib, "MiB"), (kib, "KiB")])
}

/// `12.5 %` of a fraction of one.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

/// The value in the largest unit that leaves at least one before the point.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let Some(&smallest) = units.last() else { return value.to_string() };
    let (size, name) = units.iter().copied().find(|(size, _)| value.abs() >= *size).unwrap_or(smallest);
    // A sum of nothing is -0.0.
    let number = value / size + 0.0;
    let digits = match number.abs() {
        n if n == 0.0 || n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            [0.0, -0.0, 1.5, 0.01234, 2e-6, 3e-10].map(secs),
            ["0 ns", "0 ns", "1.50 s", "12.3 ms", "2.00 us", "0.30 ns"]
        );
        assert_eq!(
            [0.0, 64.0, 1023.0, 1536.0, 1e12].map(bytes),
            ["0 B", "64 B", "1023 B", "1.50 KiB", "931 GiB"]
        );
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!([2.0, 0.0123, 1.5e-6].map(energy), ["2.00 kWh", "12.3 Wh", "1.50 mWh"]);
        assert_eq!(secs(f64::INFINITY), "inf s");
    }
}
