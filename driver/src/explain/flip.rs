//! At which speed of communication another choice is as good, all else as it is.

use phzc_passes::explanation::Considered;

/// A choice's seconds, and those of communication among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub all_secs: f64,
    pub moved_secs: f64,
}

impl Cost {
    /// Of a strategy.
    pub fn of_strategy(row: &Considered) -> Cost {
        let moved = row.terms.iter().filter(|term| !term.moves.is_empty());
        Cost { all_secs: row.secs(), moved_secs: moved.map(|term| term.secs).sum() }
    }
}

/// Beyond this factor nobody builds links, and the model of messages says little.
const MOST: f64 = 100.0;

/// How many times as fast all communication has to be for another choice to take no longer than the one that
/// is chosen; `None` where no speed does that. Latency is taken to shrink like the rest.
pub(super) fn speed(chosen: Cost, other: Cost) -> Option<f64> {
    let more_moved = other.moved_secs - chosen.moved_secs;
    let less_done = (chosen.all_secs - chosen.moved_secs) - (other.all_secs - other.moved_secs);
    let factor = more_moved / less_done;
    (other.all_secs > chosen.all_secs && (1.0 / MOST..=MOST).contains(&factor)).then_some(factor)
}

/// `as fast with communication 1.8x as fast`.
pub(super) fn text(factor: f64) -> String {
    match factor >= 1.0 {
        true => format!("with communication {factor:.2}x as fast"),
        false => format!("with communication {:.2}x as slow", 1.0 / factor),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, speed, text};

    fn cost(all_secs: f64, moved_secs: f64) -> Cost {
        Cost { all_secs, moved_secs }
    }

    #[test]
    fn what_moves_more_and_does_less_wins_on_faster_links() {
        // 4 + 2 / f against 2 + 6 / f: equal at f = 2.
        assert_eq!(speed(cost(6.0, 2.0), cost(8.0, 6.0)), Some(2.0));
        // What moves less and does more wins on slower ones: 2 + 6 / f against 8 + 3 / f at f = 0.5.
        assert_eq!(speed(cost(8.0, 6.0), cost(11.0, 3.0)), Some(0.5));
        assert_eq!(
            [2.0, 0.5].map(text),
            ["with communication 2.00x as fast", "with communication 2.00x as slow"]
        );
    }

    #[test]
    fn what_is_worse_at_every_speed_never_wins() {
        assert_eq!(speed(cost(6.0, 2.0), cost(8.0, 2.0)), None);
        assert_eq!(speed(cost(6.0, 2.0), cost(8.0, 3.0)), None);
        assert_eq!(speed(cost(6.0, 2.0), cost(5.0, 1.0)), None);
    }
}
