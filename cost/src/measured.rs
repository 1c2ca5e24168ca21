//! Measured times of kernels and collectives: a plan is priced by these first, by formulas after.
//!
//! A kernel or collective has a key, its canonical text, and a class of which it is one: `product`, `loop`,
//! `all-reduce/4`. What was measured alone has its own time. A segment, what a device runs between two
//! collectives, was measured whole, and so was a plan's step: the times of what is in it are brought to
//! add up to it (`measured/fit.rs`). Another kernel takes its formula's time, times what those of its class
//! nearest to it take over theirs.

mod fit;

pub use fit::Segment;

use std::collections::BTreeMap;

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// It was measured alone; where it is in segments or steps, brought to add up to these.
    Measured,
    /// It was measured with others only: with what runs between two collectives, or in a step.
    Segment,
    /// A formula, scaled by what others of its class were measured to take.
    Scaled,
    /// A formula.
    Formula,
}

impl Source {
    /// The word for it in dumps.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Segment => "segment",
            Source::Scaled => "scaled",
            Source::Formula => "formula",
        }
    }

    /// Whether it is a measurement of the very thing.
    pub fn is_measured(self) -> bool {
        matches!(self, Source::Measured | Source::Segment)
    }
}

/// A kernel or a collective, and what it takes by formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Canonical text; equal kernels have equal keys.
    pub key: String,
    /// What it is one of.
    pub class: String,
    /// Seconds by formula.
    pub formula_secs: f64,
}

/// What was measured on one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    known: BTreeMap<String, (f64, Source)>,
    classes: BTreeMap<String, Class>,
}

/// Of one class: by the logarithm of the formula's seconds, that of measured over formula's.
#[derive(Clone, Debug, Default, PartialEq)]
struct Class {
    points: Vec<(f64, f64)>,
    /// The least that any of it takes, over what the formula says.
    least: f64,
}

impl Measured {
    /// From what was measured alone, in seconds by key, and together: segments, then steps.
    pub fn new(items: &[Item], alone_secs: &BTreeMap<String, f64>, together: &[Vec<Segment>]) -> Measured {
        let known = fit::fitted(items, alone_secs, together);
        let mut points: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for item in items.iter().filter(|item| item.formula_secs > 0.0) {
            if let Some((secs, _)) = known.get(&item.key).filter(|(secs, _)| *secs > 0.0) {
                let point = (item.formula_secs.ln(), (secs / item.formula_secs).ln());
                points.entry(&item.class).or_default().push(point);
            }
        }
        let classes = points.into_iter().map(|(class, points)| (class.to_owned(), Class::new(points)));
        let classes = classes.collect();
        Measured { known, classes }
    }

    /// Seconds of a kernel or collective that a formula has a time for.
    pub fn secs(&self, key: &str, class: &str, formula_secs: f64) -> (f64, Source) {
        if let Some(known) = self.known.get(key) {
            return *known;
        }
        match self.classes.get(class) {
            Some(class) if formula_secs > 0.0 => {
                (formula_secs * class.ratio(formula_secs.ln()), Source::Scaled)
            }
            _ => (formula_secs, Source::Formula),
        }
    }

    /// The least that anything of a class takes, over what the formula says; at most 1.
    pub fn least_ratio(&self, class: &str) -> f64 {
        self.classes.get(class).map_or(1.0, |class| class.least.min(1.0))
    }

    /// How far times of a class lie from their formulas: what one that was not measured may be off,
    /// relatively.
    pub fn spread(&self, class: &str) -> f64 {
        self.classes.get(class).map_or(1.0, Class::spread)
    }
}

impl Class {
    fn new(mut points: Vec<(f64, f64)>) -> Class {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let least = points.iter().map(|point| point.1.exp()).fold(f64::INFINITY, f64::min);
        Class { points: points.chunk_by(|a, b| a.0 == b.0).map(mean).collect(), least }
    }

    /// Measured over formula's at the logarithm of the formula's seconds: between the two neighbours, or that
    /// of the last.
    fn ratio(&self, at: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 < at);
        let (Some(low), Some(high)) = (self.points.get(above.saturating_sub(1)), self.points.get(above))
        else {
            return self.points.last().map_or(1.0, |point| point.1.exp());
        };
        let share = if high.0 > low.0 { ((at - low.0) / (high.0 - low.0)).clamp(0.0, 1.0) } else { 0.0 };
        (low.1 + share * (high.1 - low.1)).exp()
    }

    fn spread(&self) -> f64 {
        let mean = mean(&self.points).1;
        let square: f64 = self.points.iter().map(|point| (point.1 - mean).powi(2)).sum();
        (square / self.points.len() as f64).sqrt().clamp(0.1, 1.0)
    }
}

fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    (points.iter().map(|it| it.0).sum::<f64>() / n, points.iter().map(|it| it.1).sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, class: &str, formula_secs: f64) -> Item {
        Item { key: key.to_owned(), class: class.to_owned(), formula_secs }
    }

    fn measured() -> Measured {
        let items = [item("a", "loop", 1.0), item("b", "loop", 4.0), item("c", "product", 1.0)];
        let alone = [("a", 2.0), ("b", 32.0)].map(|(key, secs)| (key.to_owned(), secs));
        Measured::new(&items, &BTreeMap::from(alone), &[])
    }

    #[test]
    fn what_was_measured_takes_that_and_others_of_its_class_as_their_neighbours_do() {
        assert_eq!(measured().secs("a", "loop", 1.0), (2.0, Source::Measured));
        let (secs, source) = measured().secs("new", "loop", 2.0);
        assert_eq!(source, Source::Scaled);
        // Twice and eight times: four times between them.
        assert!((secs - 8.0).abs() < 1e-9, "{secs}");
        assert!((measured().secs("new", "loop", 0.1).0 - 0.2).abs() < 1e-12);
        assert!((measured().secs("new", "loop", 10.0).0 - 80.0).abs() < 1e-9);
        assert_eq!(measured().secs("c", "product", 1.0), (1.0, Source::Formula));
    }

    #[test]
    fn the_least_ratio_is_that_of_the_fastest_and_never_above_one() {
        assert_eq!(measured().least_ratio("loop"), 1.0);
        let items = [item("a", "loop", 1.0)];
        let fast = Measured::new(&items, &BTreeMap::from([("a".to_owned(), 0.25)]), &[]);
        assert_eq!(fast.least_ratio("loop"), 0.25);
        assert_eq!(fast.least_ratio("product"), 1.0);
    }

    #[test]
    fn nothing_known_of_a_class_is_as_uncertain_as_can_be() {
        assert_eq!(measured().spread("product"), 1.0);
        assert!((measured().spread("loop") - 2f64.ln()).abs() < 1e-12);
    }
}
