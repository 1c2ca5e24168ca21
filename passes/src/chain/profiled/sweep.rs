//! Sweeps over a stage's operators, from its end to its front, with memory at a price: the best split and recomputation of each operator
//! for every start at once.

use super::Span;
use super::mixed::{Mixed, Way};
use phzc_cost::profile::OpProfile;

/// How an operator runs: twice its way, plus one where it is recomputed.
pub type Code = usize;

/// What is known of the best stage from an operator on, that operator running in a given way.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    /// Milliseconds and the price of the bytes.
    value: f64,
    ms: f64,
    weight_mib: f64,
    state_mib: f64,
    kept_mib: f64,
    reserved: [f64; 2],
    /// What the run of recomputed operators holds that begins here, and the most that any run holds.
    run_mib: f64,
    peak_mib: f64,
}

/// A price of memory.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Milliseconds for a MiB.
    pub ms_per_mib: f64,
    /// Whether the allocator's reserve is bounded by the parameters, and not by what the operators need.
    pub is_by_weight: bool,
}

/// A sweep that goes on where it stopped.
pub struct Sweep {
    /// The operator that it reached.
    start: usize,
    prices: Vec<Price>,
    /// Per price and code.
    paths: Vec<Vec<Path>>,
    least_reserved: [f64; 2],
    /// Per operator, from the end: the bound of a stage that begins there, and the price at which one fits.
    pub cells: Vec<Cell>,
}

/// What sweeps say of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// No way to run it takes fewer milliseconds.
    pub lower_ms: f64,
    /// Position of the price at which the fastest one that fits was found.
    pub price: Option<usize>,
    upper_ms: f64,
}

/// Per operator, from the end, and code: the code of the next one.
pub type Trail = Vec<Vec<Code>>;

impl Sweep {
    /// A sweep that has not begun.
    pub fn new(end: usize, prices: Vec<Price>) -> Sweep {
        let paths = vec![Vec::new(); prices.len()];
        Sweep { start: end, prices, paths, least_reserved: [0.0; 2], cells: Vec::new() }
    }

    /// Goes on to the start of the stage.
    pub fn reach(&mut self, of: &Mixed, span: &Span, mut trail: Option<&mut Trail>) {
        while self.start > span.start {
            self.advance(of, span, trail.as_deref_mut());
        }
    }

    /// The best code of the first operator under the first price.
    pub fn best_first(&self, of: &Mixed, span: &Span) -> Code {
        let value = |code: Code| self.as_first(of, span, 0, code).0;
        (0..self.paths[0].len()).min_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap_or(0)
    }

    /// Adds one operator in front.
    fn advance(&mut self, of: &Mixed, span: &Span, mut trail: Option<&mut Trail>) {
        let op = self.start - 1;
        let ways = of.ways(span.n_devices);
        if self.start < span.end {
            let least = |value: fn(&OpProfile) -> f64| {
                ways.iter().map(|way| value(&way.profiles[op])).fold(f64::INFINITY, f64::min)
            };
            self.least_reserved[0] = self.least_reserved[0].max(least(|it| it.forward_reserved_mib));
            self.least_reserved[1] = self.least_reserved[1].max(least(|it| it.backward_reserved_mib));
        }
        for at in 0..self.prices.len() {
            let codes = 0..2 * ways.len();
            let made: Vec<(Path, Code)> = codes.map(|code| self.path(of, span, op, at, code)).collect();
            if let Some(trail) = trail.as_deref_mut() {
                trail.push(made.iter().map(|made| made.1).collect());
            }
            self.paths[at] = made.into_iter().map(|made| made.0).collect();
        }
        self.start = op;
        self.cells.push(self.cell(of, span));
    }

    /// The best stage from an operator on that runs by `code`, and the code of the next operator in it.
    fn path(&self, of: &Mixed, span: &Span, op: usize, at: usize, code: Code) -> (Path, Code) {
        let ways = of.ways(span.n_devices);
        let (way, is_recomputed) = (&ways[code / 2], code % 2 == 1);
        if is_recomputed && !of.is_free(op) {
            return (Path { value: f64::INFINITY, ..Path::default() }, 0);
        }
        let (profile, kept_mib) = (&way.profiles[op], way.kept_mib[op]);
        let in_flight = span.in_flight as f64;
        let price = self.prices[at];
        let mut ms = profile.both_ms() + if is_recomputed { profile.forward_ms } else { 0.0 };
        let state_mib = profile.state_mib + f64::from(u8::from(price.is_by_weight)) * profile.weight_mib;
        let is_last = self.start == span.end;
        if is_last {
            ms += way.send_after_ms(op, span);
        }
        let value = ms + price.ms_per_mib * (state_mib + in_flight * kept_mib);
        let (weight_mib, own_state_mib) = (profile.weight_mib, profile.state_mib);
        let own = Path { value, ms, weight_mib, state_mib: own_state_mib, kept_mib, ..Path::default() };
        if is_last {
            return (own, 0);
        }
        let is_cut = of.ends_run(op + 1);
        let saved = if is_cut { 0.0 } else { price.ms_per_mib * in_flight * kept_mib };
        let (next, move_ms, gain) =
            self.best_next(ways, code / 2, op, at, if is_recomputed { saved } else { 0.0 });
        let runs_on = is_recomputed && next % 2 == 1;
        let after = &self.paths[at][next];
        let run_mib = if runs_on { kept_mib + if is_cut { 0.0 } else { after.run_mib } } else { 0.0 };
        let reserved = [profile.forward_reserved_mib, profile.backward_reserved_mib];
        let path = Path {
            value: own.value + after.value + move_ms - gain,
            ms: own.ms + after.ms + move_ms,
            weight_mib: own.weight_mib + after.weight_mib,
            state_mib: own.state_mib + after.state_mib,
            kept_mib: after.kept_mib + if runs_on && !is_cut { 0.0 } else { kept_mib },
            reserved: [reserved[0].max(after.reserved[0]), reserved[1].max(after.reserved[1])],
            run_mib,
            peak_mib: after.peak_mib.max(run_mib),
        };
        (path, next)
    }

    /// The best way of the next operator: its code, the milliseconds of bringing the value there, and what not keeping it is worth.
    fn best_next(&self, ways: &[Way], from: usize, op: usize, at: usize, saved: f64) -> (Code, f64, f64) {
        let mut best = (f64::INFINITY, (0, 0.0, 0.0));
        for (to, way) in ways.iter().enumerate() {
            let move_ms = way.moves_ms[from][op + 1];
            for code in [2 * to, 2 * to + 1] {
                let gain = if code % 2 == 1 { saved } else { 0.0 };
                let value = self.paths[at][code].value + move_ms - gain;
                if value < best.0 {
                    best = (value, (code, move_ms, gain));
                }
            }
        }
        best.1
    }

    /// A stage that begins with a path: its value, milliseconds and MiB.
    fn as_first(&self, of: &Mixed, span: &Span, at: usize, code: Code) -> (f64, f64, f64) {
        let path = &self.paths[at][code];
        let way = &of.ways(span.n_devices)[code / 2];
        let (input_mib, send_ms) = (way.profiles[self.start].input_mib, way.send_before_ms(self.start, span));
        let in_flight = span.in_flight as f64;
        let value = path.value + send_ms + self.prices[at].ms_per_mib * in_flight * input_mib;
        let reserve_mib = (path.reserved[0] + path.reserved[1]).max(path.weight_mib);
        let mib = path.state_mib + in_flight * (path.kept_mib + input_mib) + path.peak_mib + reserve_mib;
        (value, path.ms + send_ms, mib)
    }

    fn cell(&self, of: &Mixed, span: &Span) -> Cell {
        let mut cell = Cell { lower_ms: f64::NEG_INFINITY, price: None, upper_ms: f64::INFINITY };
        let needed_mib = self.least_reserved[0] + self.least_reserved[1];
        for (at, price) in self.prices.iter().enumerate() {
            let mut least = f64::INFINITY;
            for code in 0..self.paths[at].len() {
                let (value, ms, mib) = self.as_first(of, span, at, code);
                least = least.min(value);
                if value.is_finite() && mib <= of.limit_mib() && ms < cell.upper_ms {
                    (cell.upper_ms, cell.price) = (ms, Some(at));
                }
            }
            let limit_mib = of.limit_mib() - if price.is_by_weight { 0.0 } else { needed_mib };
            cell.lower_ms = cell.lower_ms.max(least - price.ms_per_mib * limit_mib);
        }
        cell
    }
}
