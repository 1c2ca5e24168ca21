//! What a step gets done: `throughput: 418,000 tokens/s, MFU 31.2 %, HFU 32.5 %`.

use phzc_io::units::percent;
use phzc_passes::report::Throughput;

/// One line; nothing where the program has no products and no data.
pub(crate) fn text(it: &Throughput) -> String {
    let rate = |per_sec: Option<f64>, what: &str| per_sec.map(|value| format!("{} {what}/s", count(value)));
    // A program without products uses nothing of the peak.
    let used = |share: Option<f64>, what: &str| {
        share.filter(|share| *share > 0.0).map(|share| format!("{what} {}", percent(share)))
    };
    let parts = [
        rate(it.tokens_per_sec, "tokens"),
        rate(it.samples_per_sec, "samples"),
        used(it.mfu, "MFU"),
        used(it.hfu, "HFU"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("throughput: {}\n", parts.join(", ")) }
}

/// Three digits at least, thousands apart: `418,667`, `41.9`.
pub(crate) fn count(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let is_start = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let groups = digits.char_indices().map(|(at, digit)| match is_start(at) {
        true => format!(",{digit}"),
        false => digit.to_string(),
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::{count, text};
    use phzc_passes::report::Throughput;

    #[test]
    fn counts_have_thousands_apart_and_a_digit_after_the_point_when_small() {
        assert_eq!(
            [0.25, 99.94, 100.4, 418_667.3, 1e6].map(count),
            ["0.2", "99.9", "100", "418,667", "1,000,000"]
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let tokens = Throughput {
            tokens_per_sec: Some(5e3),
            mfu: Some(0.25),
            hfu: Some(0.5),
            ..Throughput::default()
        };
        assert_eq!(text(&tokens), "throughput: 5,000 tokens/s, MFU 25.0 %, HFU 50.0 %\n");
        assert_eq!(text(&Throughput { mfu: Some(0.0), hfu: Some(0.0), ..Throughput::default() }), "");
    }
}
