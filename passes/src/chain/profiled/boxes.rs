//! Bounds of mixed stages that see what the allocator reserves and what a recomputed run holds: memory at a price, in boxes of both.
//!
//! ```text
//! held    |  box  |  box  |  box ...    of a box: operators that reserve no more than its upper end, runs that hold no more than its
//! reserve |  box  |  box  |  box ...    upper end, and the limit less its lower ends. The least of all boxes is a bound.
//! ```
//!
//! As in [`super::sweep`] an operator is added in front of a stage, and a bound is known for each start. Operators are told apart by
//! their degrees and by how many follow in their recomputed run; which dimension is split is chosen for each alone.

use super::super::Span;
use super::mixed::{Mixed, Way};
use super::sweep::{Code, Price};

/// Operators of a recomputed run that are told apart; in longer runs what the first of them hold is not counted.
const MAX_RUN: usize = 8;
/// States of an operator: not recomputed, or in a run of so many from there on.
const N_STATES: usize = MAX_RUN + 1;
/// Lower ends of what operators reserve, and of what runs hold, as parts of the limit.
const ENDS: [&[f64]; 2] = [
    &[0.0, 0.04, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.32, 0.37, 0.42, 0.5],
    &[0.0, 0.02, 0.04, 0.06, 0.08, 0.11, 0.14, 0.18, 0.23, 0.3, 0.4],
];
/// Slower moves are not made.
const MAX_MOVE_MS: f64 = 1e4;

/// A box: positions in [`ENDS`], of what is reserved and of what runs hold.
type Box = [usize; 2];

/// What is known of a box.
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    /// The box.
    pub row: Box,
    /// No way in it takes fewer milliseconds.
    pub lower_ms: f64,
    /// The price that says so.
    pub ms_per_mib: f64,
}

/// The most boxes that are kept of a stage.
const MAX_BEST: usize = 10;

/// A sweep that goes on where it stopped.
pub struct Boxes {
    start: usize,
    prices: Vec<Price>,
    /// The ways with the same degrees.
    classes: Vec<Vec<usize>>,
    /// The boxes that differ so far and are not empty.
    rows: Vec<Box>,
    /// Which ends differ from the ones below them so far.
    is_told: [Vec<bool>; 2],
    /// Whether there is one box, whatever differs.
    is_one: bool,
    /// Per class and state: the least value per box and price.
    values: Vec<Vec<f64>>,
    /// Per class and state: MiB that the run holds at least.
    held_mib: Vec<f64>,
    least_reserved: [f64; 2],
    /// Per operator, from the end: the boxes with the least bounds of a stage that begins there, the least first.
    pub best: Vec<Vec<Bounded>>,
}

impl Boxes {
    /// A sweep that has not begun, for the ways of a group of devices.
    pub fn new(end: usize, prices: Vec<Price>, ways: &[Way]) -> Boxes {
        let degrees = |way: &Way| (way.choice.tensor, way.choice.data);
        let mut classes: Vec<Vec<usize>> = Vec::new();
        for (at, way) in ways.iter().enumerate() {
            match classes.iter_mut().find(|class| degrees(&ways[class[0]]) == degrees(way)) {
                Some(class) => class.push(at),
                None => classes.push(vec![at]),
            }
        }
        let n = classes.len() * N_STATES;
        Boxes {
            start: end,
            classes,
            rows: vec![[0, 0]],
            is_told: ENDS.map(|ends| (0..ends.len()).map(|at| at == 0).collect()),
            values: vec![vec![f64::INFINITY; prices.len()]; n],
            is_one: false,
            prices,
            held_mib: vec![f64::INFINITY; n],
            least_reserved: [0.0; 2],
            best: Vec::new(),
        }
    }

    /// The sweep of one box.
    fn one(of: &Mixed, span: &Span, row: Box, price: Price) -> Boxes {
        let mut boxes = Boxes::new(span.end, vec![price], of.ways(span.n_devices));
        boxes.rows = vec![row];
        boxes.is_one = true;
        boxes.is_told[0] = (0..ENDS[0].len()).map(|at| at == row[0]).collect();
        boxes
    }

    /// Goes on to the start of the stage.
    pub fn reach(&mut self, of: &Mixed, span: &Span) {
        while self.start > span.start {
            self.advance(of, span);
        }
    }

    /// Adds one operator in front.
    fn advance(&mut self, of: &Mixed, span: &Span) {
        let (op, ways) = (self.start - 1, of.ways(span.n_devices));
        let is_last = self.start == span.end;
        let held_mib = match is_last {
            true => vec![0.0; self.held_mib.len()],
            false => self.held(of, ways, op),
        };
        if !is_last {
            self.see_reserves(of, ways, op);
            held_mib.iter().filter(|mib| mib.is_finite()).for_each(|&mib| self.tell(of, 1, mib));
        }
        let mut values = Vec::with_capacity(held_mib.len());
        for class in 0..self.classes.len() {
            let own = self.own(of, span, class, op);
            for state in 0..N_STATES {
                let is_free = state == 0 || of.is_free(op);
                let after = if is_free { self.after(of, ways, (class, state), op, is_last) } else { None };
                let held_mib = held_mib[class * N_STATES + state];
                values.push(self.with_own(of, after, &own[state.min(2)], held_mib));
            }
        }
        (self.values, self.held_mib, self.start) = (values, held_mib, op);
        self.drop_empty();
        if !self.is_one {
            let best = self.bounds(of, span);
            self.best.push(best);
        }
    }

    /// What an operator's ways reserve: what none is below, and which boxes differ by it.
    fn see_reserves(&mut self, of: &Mixed, ways: &[Way], op: usize) {
        let mut least = [f64::INFINITY; 2];
        for profile in ways.iter().map(|way| &way.profiles[op]) {
            let [forward, backward] = [profile.forward_reserved_mib, profile.backward_reserved_mib];
            least = [least[0].min(forward), least[1].min(backward)];
            self.tell(of, 0, forward + backward);
        }
        self.least_reserved = [0, 1].map(|part| self.least_reserved[part].max(least[part]));
    }

    /// From now on the boxes with some MiB among their ends differ from those below.
    fn tell(&mut self, of: &Mixed, axis: usize, mib: f64) {
        let at = ENDS[axis].partition_point(|end| end * of.limit_mib() < mib).saturating_sub(1);
        if self.is_one || std::mem::replace(&mut self.is_told[axis][at], true) {
            return;
        }
        let below = (0..at).rev().find(|&below| self.is_told[axis][below]).unwrap_or(0);
        let n_prices = self.prices.len();
        for row in (0..self.rows.len()).filter(|&row| self.rows[row][axis] == below).collect::<Vec<_>>() {
            let mut told = self.rows[row];
            told[axis] = at;
            self.rows.push(told);
            for values in &mut self.values {
                values.extend_from_within(row * n_prices..(row + 1) * n_prices);
            }
        }
    }

    /// Per class and state: MiB that an operator's run holds at least; infinite where there is no such run.
    fn held(&self, of: &Mixed, ways: &[Way], op: usize) -> Vec<f64> {
        let mut held = Vec::with_capacity(self.held_mib.len());
        for (class, of_class) in self.classes.iter().enumerate() {
            let kept = of_class.iter().map(|&way| ways[way].kept_mib[op]);
            let kept_mib = kept.fold(f64::INFINITY, f64::min);
            for state in 0..N_STATES {
                let from = |state: usize| self.least_over(ways, class, op + 1, state, |at, _| self.held_mib[at]);
                held.push(match state {
                    0 | 1 => 0.0,
                    _ if of.ends_run(op + 1) => f64::INFINITY,
                    MAX_RUN => from(state).min(from(state - 1) + kept_mib),
                    _ => from(state - 1) + kept_mib,
                });
            }
        }
        held
    }

    /// The least over the classes of the next operator that can follow.
    fn least_over(
        &self,
        ways: &[Way],
        class: usize,
        next: usize,
        state: usize,
        value: impl Fn(usize, f64) -> f64,
    ) -> f64 {
        let each = (0..self.classes.len()).filter_map(|other| {
            let move_ms = self.move_ms(ways, class, other, next);
            (move_ms <= MAX_MOVE_MS).then(|| value(other * N_STATES + state, move_ms))
        });
        each.fold(f64::INFINITY, f64::min)
    }

    fn move_ms(&self, ways: &[Way], class: usize, other: usize, next: usize) -> f64 {
        let moves = self.classes[other].iter().map(|&to| ways[to].moves_ms[self.classes[class][0]][next]);
        moves.fold(f64::INFINITY, f64::min)
    }

    /// The states in which the next operator can be.
    fn next_states(of: &Mixed, op: usize, state: usize) -> std::ops::Range<usize> {
        let is_cut = of.ends_run(op + 1);
        match state {
            0 => 0..N_STATES,
            1 if is_cut => 0..N_STATES,
            1 => 0..1,
            _ if is_cut => 0..0,
            MAX_RUN => MAX_RUN - 1..N_STATES,
            _ => state - 1..state,
        }
    }

    /// The values of what follows an operator in a state; `None` where nothing can.
    fn after(
        &self,
        of: &Mixed,
        ways: &[Way],
        (class, state): (usize, usize),
        op: usize,
        is_last: bool,
    ) -> Option<Vec<f64>> {
        let n = self.rows.len() * self.prices.len();
        if is_last {
            return (state < 2).then(|| vec![0.0; n]);
        }
        let mut after = vec![f64::INFINITY; n];
        for other in 0..self.classes.len() {
            let move_ms = self.move_ms(ways, class, other, op + 1);
            if move_ms <= MAX_MOVE_MS {
                for next in Self::next_states(of, op, state) {
                    let values = &self.values[other * N_STATES + next];
                    after.iter_mut().zip(values).for_each(|(into, from)| *into = into.min(from + move_ms));
                }
            }
        }
        Some(after)
    }

    /// Per kind of state what an operator takes, by end of the reserve and price: not recomputed, recomputed and kept, recomputed and dropped.
    fn own(&self, of: &Mixed, span: &Span, class: usize, op: usize) -> [Vec<f64>; 3] {
        let ways = of.ways(span.n_devices);
        let mut own = [const { Vec::new() }; 3];
        for at in 0..ENDS[0].len() {
            let most_mib = ENDS[0].get(at + 1).map_or(f64::INFINITY, |end| end * of.limit_mib());
            for price in &self.prices {
                let mut least = [f64::INFINITY; 3];
                for way in self.classes[class].iter().map(|&way| &ways[way]) {
                    if self.is_told[0][at] && is_allowed(way, span, op, most_mib) {
                        let value = own_values(of, way, span, op, price);
                        least = [0, 1, 2].map(|kind| least[kind].min(value[kind]));
                    }
                }
                own.iter_mut().zip(least).for_each(|(own, least)| own.push(least));
            }
        }
        own
    }

    fn with_own(&self, of: &Mixed, after: Option<Vec<f64>>, own: &[f64], held_mib: f64) -> Vec<f64> {
        let n_prices = self.prices.len();
        let Some(mut values) = after else { return vec![f64::INFINITY; self.rows.len() * n_prices] };
        for (values, &[reserved, held]) in values.chunks_mut(n_prices).zip(&self.rows) {
            let most_mib = ENDS[1].get(held + 1).map_or(f64::INFINITY, |end| end * of.limit_mib());
            match held_mib > most_mib {
                true => values.fill(f64::INFINITY),
                false => values.iter_mut().zip(&own[reserved * n_prices..]).for_each(|(it, own)| *it += own),
            }
        }
        values
    }

    fn drop_empty(&mut self) {
        if self.is_one {
            return;
        }
        let n_prices = self.prices.len();
        let is_empty = |row: usize| self.values.iter().all(|values| values[row * n_prices].is_infinite());
        let is_kept: Vec<bool> = (0..self.rows.len()).map(|row| !is_empty(row)).collect();
        if is_kept.iter().all(|&it| it) {
            return;
        }
        let mut kept = is_kept.iter();
        self.rows.retain(|_| *kept.next().unwrap_or(&false));
        for values in &mut self.values {
            let chunks = values.chunks(n_prices).zip(&is_kept).filter(|(_, is_kept)| **is_kept);
            *values = chunks.flat_map(|(chunk, _)| chunk.iter().copied()).collect();
        }
    }

    /// The bounds of the boxes, each with the price that gives it; the least of them bounds the stage.
    fn bounds(&self, of: &Mixed, span: &Span) -> Vec<Bounded> {
        let first = self.as_first(of, span);
        let rows = first.chunks(self.prices.len()).zip(&self.rows);
        let bounded = |(values, row): (&[f64], &Box)| {
            let bounds = values.iter().zip(&self.prices).map(|(value, price)| {
                let ms_per_mib = price.ms_per_mib;
                let lower_ms = value - ms_per_mib * self.left_mib(of, row, price);
                Bounded { row: *row, lower_ms, ms_per_mib }
            });
            bounds.max_by(|a, b| a.lower_ms.total_cmp(&b.lower_ms))
        };
        let mut best: Vec<Bounded> = rows.filter_map(bounded).collect();
        best.sort_by(|a, b| a.lower_ms.total_cmp(&b.lower_ms));
        best.truncate(MAX_BEST);
        best
    }

    /// MiB of the limit that a box leaves to state and activations.
    fn left_mib(&self, of: &Mixed, &[reserved, held]: &Box, price: &Price) -> f64 {
        let needed_mib = self.least_reserved[0] + self.least_reserved[1];
        let reserve_mib = needed_mib.max(ENDS[0][reserved] * of.limit_mib());
        of.limit_mib() * (1.0 - ENDS[1][held]) - if price.is_by_weight { 0.0 } else { reserve_mib }
    }

    /// Per box and price: the value of a stage that begins here.
    fn as_first(&self, of: &Mixed, span: &Span) -> Vec<f64> {
        let (ways, n_prices) = (of.ways(span.n_devices), self.prices.len());
        let mut first = vec![f64::INFINITY; self.rows.len() * n_prices];
        for (class, of_class) in self.classes.iter().enumerate() {
            let input = |price: &Price| {
                let each = of_class.iter().map(|&way| {
                    let mib = ways[way].profiles[self.start].input_mib * span.in_flight as f64;
                    ways[way].send_before_ms(self.start, span) + price.ms_per_mib * mib
                });
                each.fold(f64::INFINITY, f64::min)
            };
            let inputs: Vec<f64> = self.prices.iter().map(input).collect();
            for values in &self.values[class * N_STATES..(class + 1) * N_STATES] {
                for (first, values) in first.chunks_mut(n_prices).zip(values.chunks(n_prices)) {
                    let sums = values.iter().zip(&inputs).map(|(value, input)| value + input);
                    first.iter_mut().zip(sums).for_each(|(first, sum)| *first = first.min(sum));
                }
            }
        }
        first
    }
}

/// Whether an operator may reserve what a way does; the last one of a stage always may.
fn is_allowed(way: &Way, span: &Span, op: usize, most_mib: f64) -> bool {
    let profile = &way.profiles[op];
    op + 1 == span.end || profile.forward_reserved_mib + profile.backward_reserved_mib <= most_mib
}

/// Milliseconds and the price of the bytes of an operator: not recomputed, recomputed and kept, recomputed and dropped.
fn own_values(of: &Mixed, way: &Way, span: &Span, op: usize, price: &Price) -> [f64; 3] {
    let profile = &way.profiles[op];
    let send_ms = if op + 1 == span.end { way.send_after_ms(op, span) } else { 0.0 };
    let copies = of.state_copies() + f64::from(u8::from(price.is_by_weight));
    let dropped = profile.both_ms() + send_ms + price.ms_per_mib * copies * profile.weight_mib;
    let kept = dropped + price.ms_per_mib * span.in_flight as f64 * way.kept_mib[op];
    [kept, kept + profile.forward_ms, dropped + profile.forward_ms]
}

/// The best operators of a stage in one box, memory at a price; `None` where there are none.
pub fn in_box(of: &Mixed, span: &Span, row: Box, ms_per_mib: f64) -> Option<Vec<Code>> {
    let price = Price { ms_per_mib, is_by_weight: false };
    let mut boxes = Boxes::one(of, span, row, price);
    let mut values = Vec::new();
    while boxes.start > span.start {
        boxes.advance(of, span);
        values.push(boxes.values.iter().map(|values| values[0]).collect::<Vec<f64>>());
    }
    let (ways, most_mib) = (of.ways(span.n_devices), ENDS[0].get(row[0] + 1).map_or(f64::INFINITY, |end| end * of.limit_mib()));
    let mut codes: Vec<Code> = Vec::new();
    let mut at: Option<(usize, usize)> = None;
    for op in span.start..span.end {
        let now = &values[span.end - 1 - op];
        let mut best = (f64::INFINITY, (0, 0, 0));
        for class in 0..boxes.classes.len() {
            let move_ms = at.map_or(0.0, |(before, _)| boxes.move_ms(ways, before, class, op));
            let states = at.map_or(0..N_STATES, |(_, before)| Boxes::next_states(of, op - 1, before));
            if move_ms > MAX_MOVE_MS {
                continue;
            }
            for state in states {
                let rest = now[class * N_STATES + state] + move_ms;
                if rest > best.0 {
                    continue;
                }
                let allowed = boxes.classes[class].iter().filter(|&&way| is_allowed(&ways[way], span, op, most_mib));
                let own = |way: usize| {
                    let entry = codes.last().map_or_else(
                        || ways[way].send_before_ms(op, span) + ms_per_mib * ways[way].profiles[op].input_mib * span.in_flight as f64,
                        |&last| ways[way].moves_ms[last / 2][op],
                    );
                    own_values(of, &ways[way], span, op, &price)[state.min(2)] + entry
                };
                let way = allowed.min_by(|&&a, &&b| own(a).total_cmp(&own(b)));
                if let Some(&way) = way && (rest < best.0) {
                    best = (rest, (class, state, way));
                }
            }
        }
        if best.0.is_infinite() {
            return None;
        }
        let (class, state, way) = best.1;
        codes.push(2 * way + usize::from(state > 0));
        at = Some((class, state));
    }
    Some(codes)
}
