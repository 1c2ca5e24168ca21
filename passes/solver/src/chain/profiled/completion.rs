//! Bounds on what the operators behind one of a mixed stage take, memory at a price: what [`super::exact`]
//! leaves ways out by.

use super::super::Span;
use super::mixed::{Mixed, Way};
use super::sweep::{MAX_MOVE_MS, classes, is_allowed, own_values};

/// Lower ends of what operators reserve, as parts of the limit: each part of the ways is looked through for
/// itself.
pub const LEVELS: [f64; 9] = [0.0, 0.05, 0.1, 0.14, 0.18, 0.22, 0.27, 0.33, 0.42];

/// What operators of a level reserve at most.
pub fn most_reserved_mib(of: &Mixed, level: usize) -> f64 {
    LEVELS.get(level + 1).map_or(f64::INFINITY, |end| end * of.limit_mib())
}

/// Parts of the prices between the two neighbours of the best one.
const N_BETWEEN: usize = 8;

/// Bounds on what follows an operator: milliseconds and priced bytes.
pub struct Completion {
    /// The prices.
    pub prices: Vec<f64>,
    /// The ways by their degrees.
    classes: Vec<Vec<usize>>,
    /// Per way: its class.
    pub class_of: Vec<usize>,
    /// Per operator, class and price: what follows if it is recomputed no more, and if it is.
    pub after: Vec<Vec<[f64; 2]>>,
    /// Per operator: MiB that those behind reserve at least, in the forward and in the backward part.
    pub reserved_mib: Vec<[f64; 2]>,
}

impl Completion {
    /// All of a stage, for the ways of a level.
    pub fn new(of: &Mixed, span: &Span, level: usize, prices: Vec<f64>) -> Completion {
        let ways = of.ways(span.n_devices);
        let classes = classes(ways);
        let class_of =
            (0..ways.len()).filter_map(|way| classes.iter().position(|class| class.contains(&way))).collect();
        let n_ops = span.end - span.start;
        let empty = vec![[0.0; 2]; classes.len() * prices.len()];
        let mut completion = Completion {
            prices,
            classes,
            class_of,
            after: vec![empty; n_ops],
            reserved_mib: vec![[0.0; 2]; n_ops],
        };
        for op in (span.start..span.end - 1).rev() {
            let at = op - span.start;
            completion.reserved_mib[at] = completion.reserved_behind(of, span, op, level);
            completion.after[at] = completion.behind(of, span, op, ways, level);
        }
        completion
    }

    fn reserved_behind(&self, of: &Mixed, span: &Span, op: usize, level: usize) -> [f64; 2] {
        let behind = self.reserved_mib[op + 1 - span.start];
        if op + 2 >= span.end {
            return behind;
        }
        let (ways, most_mib) = (of.ways(span.n_devices), most_reserved_mib(of, level));
        let mut least = [f64::INFINITY; 2];
        for way in ways.iter().filter(|way| is_allowed(way, span, op + 1, most_mib)) {
            let profile = &way.profiles[op + 1];
            least = [least[0].min(profile.forward_reserved_mib), least[1].min(profile.backward_reserved_mib)];
        }
        [behind[0].max(least[0]), behind[1].max(least[1])]
    }

    /// Per class and price: what follows an operator.
    fn behind(&self, of: &Mixed, span: &Span, op: usize, ways: &[Way], level: usize) -> Vec<[f64; 2]> {
        let (n, n_prices, next) = (self.classes.len(), self.prices.len(), op + 1);
        let mut behind = vec![[f64::INFINITY; 2]; n * n_prices];
        let most_mib = most_reserved_mib(of, level);
        for way in ways.iter().enumerate() {
            if !is_allowed(way.1, span, next, most_mib) {
                continue;
            }
            for (at, &ms_per_mib) in self.prices.iter().enumerate() {
                let value = self.value(of, span, next, way, (at, ms_per_mib));
                for class in 0..n {
                    let move_ms = way.1.moves_ms[self.classes[class][0]][next];
                    if move_ms <= MAX_MOVE_MS {
                        let into = &mut behind[class * n_prices + at];
                        *into = [into[0].min(move_ms + value[0]), into[1].min(move_ms + value[1])];
                    }
                }
            }
        }
        behind
    }

    /// What an operator takes with all behind it: not recomputed, and recomputed.
    fn value(
        &self,
        of: &Mixed,
        span: &Span,
        op: usize,
        (at, way): (usize, &Way),
        (price, ms_per_mib): (usize, f64),
    ) -> [f64; 2] {
        let own = own_values(way, span, op, ms_per_mib);
        let [plain, run] = self.after[op - span.start][self.class_of[at] * self.prices.len() + price];
        if op + 1 == span.end {
            return [own[0], if of.is_free(op) { own[1] } else { f64::INFINITY }];
        }
        let goes_on = if of.ends_run(op + 1) { own[1] } else { own[2] };
        let recomputed = if of.is_free(op) { (own[1] + plain).min(goes_on + run) } else { f64::INFINITY };
        [own[0] + plain.min(run), recomputed]
    }
}

/// Nothing, and prices around the one with the best bound.
pub fn around(prices: &[f64], bounds: &[f64]) -> Vec<f64> {
    let best =
        (0..bounds.len()).max_by(|&a, &b| bounds[a].total_cmp(&bounds[b]).then(b.cmp(&a))).unwrap_or(0);
    let next =
        prices[best..].iter().copied().find(|&price| price > prices[best]).unwrap_or(2.0 * prices[best]);
    let before = prices[..best].last().copied().unwrap_or(0.0);
    let between = |at: usize| before + (next - before) * at as f64 / N_BETWEEN as f64;
    let mut all: Vec<f64> = (0..=N_BETWEEN).map(between).chain([0.0]).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_tried_between_the_neighbours_of_the_best_one() {
        let all = around(&[0.0, 1.0, 2.0, 4.0], &[1.0, 3.0, 3.0, 2.0]);
        // The first of the best ones is 1: eight parts from 0 to 2.
        assert_eq!(all, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]);
        let last = around(&[0.0, 1.0, 2.0], &[1.0, 2.0, 3.0]);
        assert_eq!((last[0], last[1], last[2], last[9]), (0.0, 1.0, 1.375, 4.0));
        assert_eq!(around(&[0.0, 0.0, 8.0], &[5.0, 5.0, 1.0])[..3], [0.0, 1.0, 2.0]);
    }
}
