//! Bounds of mixed stages, memory at a price, for all stages with one end: operators are added in front.
//!
//! ```text
//! reserve |  level  |  level  |  level ...    of a level: operators that reserve no more than its upper end, and the limit less its
//!                                             lower end. The least of all levels is a bound.
//! ```
//!
//! The bound is Lagrange's: at any price, the least of milliseconds and priced bytes, less the price of the
//! limit, is below every stage that fits. Operators are told apart by their degrees and by whether they, and
//! what follows, are recomputed; which dimension is split is chosen for each alone. What a recomputed run
//! holds while it is made again is not counted: `exact.rs` does.

use super::super::Span;
use super::mixed::{Mixed, Way};

/// Prices that are tried; the first is nothing, the last more than any stage that fits has to pay.
pub const N_PRICES: usize = 9;
/// A figure per price.
type Priced = [f64; N_PRICES];
const NEVER: Priced = [f64::INFINITY; N_PRICES];
/// Lower ends of what operators reserve, as parts of the limit.
const LEVELS: [f64; 3] = [0.0, 0.14, 0.27];
/// States of an operator: not recomputed; recomputed and kept; recomputed and dropped, as the next one is
/// recomputed too.
const N_STATES: usize = 3;
/// Slower moves are not made.
pub const MAX_MOVE_MS: f64 = 1e4;

/// What no stage that begins with an operator is below: of its class, per state.
type States = [Priced; N_STATES];

/// A sweep that goes on where it stopped.
pub struct Sweep {
    start: usize,
    prices: Priced,
    /// The ways with the same degrees.
    classes: Vec<Vec<usize>>,
    /// Per level and class.
    values: Vec<Vec<States>>,
    least_reserved: [f64; 2],
    /// Per operator, from the end: the bound of a stage that begins there.
    bounds: Vec<f64>,
}

impl Sweep {
    /// A sweep that has not begun, for the ways of a group of devices.
    pub fn new(end: usize, prices: Priced, ways: &[Way]) -> Sweep {
        let classes = classes(ways);
        let values = vec![vec![[[0.0; N_PRICES]; N_STATES]; classes.len()]; LEVELS.len()];
        Sweep { start: end, prices, classes, values, least_reserved: [0.0; 2], bounds: Vec::new() }
    }

    /// No way of a stage takes fewer milliseconds; and how many operators were added to know it.
    pub fn lower_ms(&mut self, of: &Mixed, span: &Span) -> (f64, u64) {
        let n_made = self.start.saturating_sub(span.start) as u64;
        while self.start > span.start {
            self.advance(of, span);
        }
        (self.bounds[span.end - 1 - span.start], n_made)
    }

    /// Adds one operator in front.
    fn advance(&mut self, of: &Mixed, span: &Span) {
        let (op, ways, n) = (self.start - 1, of.ways(span.n_devices), self.classes.len());
        let is_last = self.start == span.end;
        let moves_ms: Vec<f64> = match is_last {
            true => vec![0.0; n * n],
            false => (0..n * n).map(|at| self.move_ms(ways, at / n, at % n, op + 1)).collect(),
        };
        let own: Vec<Vec<[Priced; 3]>> =
            self.classes.iter().map(|class| self.own(of, span, class, op)).collect();
        let made = |(level, after): (usize, &Vec<States>)| -> Vec<States> {
            let of_class = |class: usize| {
                self.made(of, span, op, after, &moves_ms[class * n..(class + 1) * n], &own[class][level])
            };
            (0..n).map(of_class).collect()
        };
        let values = self.values.iter().enumerate().map(made).collect();
        self.values = values;
        if !is_last {
            let own = ways.iter().map(|way| &way.profiles[op]);
            let forward = own.clone().map(|it| it.forward_reserved_mib).fold(f64::INFINITY, f64::min);
            let backward = own.map(|it| it.backward_reserved_mib).fold(f64::INFINITY, f64::min);
            self.least_reserved = [self.least_reserved[0].max(forward), self.least_reserved[1].max(backward)];
        }
        self.start = op;
        let bound = self.bound(of, span);
        self.bounds.push(bound);
    }

    /// The least milliseconds of bringing an operator's input from one class to another.
    fn move_ms(&self, ways: &[Way], class: usize, other: usize, next: usize) -> f64 {
        let moves = self.classes[other].iter().map(|&to| ways[to].moves_ms[self.classes[class][0]][next]);
        moves.fold(f64::INFINITY, f64::min)
    }

    /// Per level what an operator takes in each state.
    fn own(&self, of: &Mixed, span: &Span, class: &[usize], op: usize) -> Vec<[Priced; 3]> {
        let ways = of.ways(span.n_devices);
        let mut own = vec![[NEVER; 3]; LEVELS.len()];
        for way in class.iter().map(|&way| &ways[way]) {
            let values: Vec<[f64; 3]> =
                self.prices.iter().map(|&price| own_values(way, span, op, price)).collect();
            for (level, own) in own.iter_mut().enumerate() {
                let most_mib = LEVELS.get(level + 1).map_or(f64::INFINITY, |end| end * of.limit_mib());
                if is_allowed(way, span, op, most_mib) {
                    for (price, value) in values.iter().enumerate() {
                        (0..3).for_each(|state| own[state][price] = own[state][price].min(value[state]));
                    }
                }
            }
        }
        own
    }

    /// An operator of a class in front of what follows.
    fn made(
        &self,
        of: &Mixed,
        span: &Span,
        op: usize,
        after: &[States],
        moves_ms: &[f64],
        own: &[Priced; 3],
    ) -> States {
        let [mut plain, mut run] = [NEVER; 2];
        if op + 1 == span.end {
            plain = [0.0; N_PRICES];
        } else {
            for (states, &move_ms) in
                after.iter().zip(moves_ms).filter(|(_, move_ms)| **move_ms <= MAX_MOVE_MS)
            {
                for price in 0..N_PRICES {
                    plain[price] = plain[price].min(states[0][price] + move_ms);
                    run[price] = run[price].min(states[1][price].min(states[2][price]) + move_ms);
                }
            }
        }
        let is_cut = op + 1 < span.end && of.ends_run(op + 1);
        let mut made = [NEVER; N_STATES];
        for price in 0..N_PRICES {
            let any = plain[price].min(run[price]);
            made[0][price] = own[0][price] + any;
            if of.is_free(op) {
                made[1][price] = own[1][price] + if is_cut { any } else { plain[price] };
                made[2][price] = own[2][price] + if is_cut { f64::INFINITY } else { run[price] };
            }
        }
        made
    }

    /// The least bound of all levels, each by its best price.
    fn bound(&self, of: &Mixed, span: &Span) -> f64 {
        let ways = of.ways(span.n_devices);
        let input = |class: &Vec<usize>, price: f64| {
            let each = class.iter().map(|&way| {
                let mib = ways[way].profiles[self.start].input_mib * span.in_flight as f64;
                ways[way].send_before_ms(self.start, span) + price * mib
            });
            each.fold(f64::INFINITY, f64::min)
        };
        let inputs: Vec<Priced> =
            self.classes.iter().map(|class| self.prices.map(|price| input(class, price))).collect();
        let reserved_mib = self.least_reserved[0] + self.least_reserved[1];
        let of_level = |(level, values): (usize, &Vec<States>)| {
            let left_mib = of.limit_mib() - reserved_mib.max(LEVELS[level] * of.limit_mib());
            let by_price = (0..N_PRICES).map(|price| {
                let states = values
                    .iter()
                    .zip(&inputs)
                    .flat_map(|(states, input)| states.iter().map(move |state| state[price] + input[price]));
                states.fold(f64::INFINITY, f64::min) - self.prices[price] * left_mib
            });
            by_price.fold(f64::NEG_INFINITY, f64::max)
        };
        self.values.iter().enumerate().map(of_level).fold(f64::INFINITY, f64::min)
    }
}

/// The ways with the same degrees.
pub fn classes(ways: &[Way]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        match classes.iter_mut().find(|class| ways[class[0]].class == way.class) {
            Some(class) => class.push(at),
            None => classes.push(vec![at]),
        }
    }
    classes
}

/// Whether an operator may reserve what a way does; the last one of a stage always may.
pub fn is_allowed(way: &Way, span: &Span, op: usize, most_mib: f64) -> bool {
    let profile = &way.profiles[op];
    op + 1 == span.end || profile.forward_reserved_mib + profile.backward_reserved_mib <= most_mib
}

/// Milliseconds and the price of the bytes of an operator: not recomputed, recomputed and kept, recomputed
/// and dropped.
pub fn own_values(way: &Way, span: &Span, op: usize, ms_per_mib: f64) -> [f64; 3] {
    let profile = &way.profiles[op];
    let send_ms = if op + 1 == span.end { way.send_after_ms(op, span) } else { 0.0 };
    let dropped = profile.both_ms() + send_ms + ms_per_mib * profile.state_mib;
    let kept = dropped + ms_per_mib * span.in_flight as f64 * way.kept_mib[op];
    [kept, kept + profile.forward_ms, dropped + profile.forward_ms]
}
