//! Bounds of mixed stages that see what the allocator reserves and what a recomputed run holds: memory at a price, in boxes of both.
//!
//! ```text
//! held    |  box  |  box  |  box ...    of a box: operators that reserve no more than its upper end, runs that hold no more than its
//! reserve |  box  |  box  |  box ...    upper end, and the limit less its lower ends. The least of all boxes is a bound.
//! ```
//!
//! The bound is Lagrange's: at any price, the least of milliseconds and priced bytes, less the price of the limit, is below every stage
//! that fits. Operators are added in front, and a bound is known for each start. They are told apart by their degrees and by how many
//! follow in their recomputed run; which dimension is split is chosen for each alone.

use super::super::Span;
use super::mixed::{Mixed, Way};

/// A price of memory.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Milliseconds for a MiB.
    pub ms_per_mib: f64,
    /// Whether the allocator's reserve is bounded by the parameters, and not by what the operators need.
    pub is_by_weight: bool,
}

/// Operators of a recomputed run that are told apart; in longer runs what the first of them hold is not counted.
const MAX_RUN: usize = 8;
/// States of an operator: not recomputed, or in a run of so many from there on.
pub const N_STATES: usize = MAX_RUN + 1;
/// Lower ends of what operators reserve, and of what runs hold, as parts of the limit.
const ENDS: [&[f64]; 2] =
    [&[0.0, 0.05, 0.1, 0.14, 0.18, 0.22, 0.27, 0.33, 0.42], &[0.0, 0.02, 0.05, 0.08, 0.12, 0.17, 0.24, 0.35]];
/// How many parts of the limit operators' reserves are told apart by.
pub const RESERVES: usize = ENDS[0].len();
/// Slower moves are not made.
pub const MAX_MOVE_MS: f64 = 1e4;

/// A box: positions in [`ENDS`], of what is reserved and of what runs hold.
pub type Box = [usize; 2];

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
const MAX_BEST: usize = 3;

/// A sweep that goes on where it stopped.
pub struct Boxes {
    pub start: usize,
    prices: Vec<Price>,
    /// The ways with the same degrees.
    pub classes: Vec<Vec<usize>>,
    /// The boxes that differ so far and are not empty.
    rows: Vec<Box>,
    /// Which ends differ from the ones below them so far.
    is_told: [Vec<bool>; 2],
    /// Whether there is one box, whatever differs.
    is_one: bool,
    /// Whether there is an operator.
    is_begun: bool,
    /// Per class and state: the least value per box and price; nothing where no stage begins so.
    pub values: Vec<Vec<f64>>,
    /// Those of the operator after, to be written over.
    spare: Vec<Vec<f64>>,
    /// Per class and class of the next operator: milliseconds of bringing the value there.
    moves_ms: Vec<f64>,
    /// Per class and state: MiB that the run holds at least.
    held_mib: Vec<f64>,
    least_reserved: [f64; 2],
    /// Per operator, from the end: the boxes with the least bounds of a stage that begins there, the least first.
    pub best: Vec<Vec<Bounded>>,
}

impl Boxes {
    /// A sweep that has not begun, for the ways of a group of devices.
    pub fn new(end: usize, prices: Vec<Price>, ways: &[Way]) -> Boxes {
        let classes = classes(ways);
        let n = classes.len() * N_STATES;
        Boxes {
            start: end,
            classes,
            rows: vec![[0, 0]],
            is_told: ENDS.map(|ends| (0..ends.len()).map(|at| at == 0).collect()),
            values: vec![Vec::new(); n],
            moves_ms: Vec::new(),
            spare: vec![Vec::new(); n],
            is_one: false,
            is_begun: false,
            prices,
            held_mib: vec![f64::INFINITY; n],
            least_reserved: [0.0; 2],
            best: Vec::new(),
        }
    }

    /// The sweep of one box.
    pub fn one(of: &Mixed, span: &Span, row: Box, price: Price) -> Boxes {
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
    pub fn advance(&mut self, of: &Mixed, span: &Span) {
        let (op, ways) = (self.start - 1, of.ways(span.n_devices));
        let is_last = self.start == span.end;
        let n = self.classes.len();
        let next_ms = |at: usize| if is_last { 0.0 } else { self.move_ms(ways, at / n, at % n, op + 1) };
        self.moves_ms = (0..n * n).map(next_ms).collect();
        let held_mib = match is_last {
            true => vec![0.0; self.held_mib.len()],
            false => self.held(of, ways, op),
        };
        if !is_last {
            self.see_reserves(of, ways, op);
            held_mib.iter().filter(|mib| mib.is_finite()).for_each(|&mib| self.tell(of, 1, mib));
        }
        let mut made = std::mem::take(&mut self.spare);
        let any: Vec<Vec<f64>> = (0..self.classes.len()).map(|class| self.any(class)).collect();
        for class in 0..self.classes.len() {
            let own = self.own(of, span, class, op);
            for state in 0..N_STATES {
                let at = class * N_STATES + state;
                made[at].clear();
                if state == 0 || of.is_free(op) {
                    self.after(of, (class, state), op, &any, &mut made[at]);
                    self.add_own(of, &own[state.min(2)], held_mib[at], &mut made[at]);
                }
            }
        }
        self.spare = std::mem::replace(&mut self.values, made);
        (self.held_mib, self.start) = (held_mib, op);
        self.is_begun = true;
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
            for values in self.values.iter_mut().filter(|values| !values.is_empty()) {
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
                let from = |state: usize| self.least_held(class, state);
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

    /// What the run of the next operator holds at least, over the classes that can follow.
    fn least_held(&self, class: usize, state: usize) -> f64 {
        let n = self.classes.len();
        let others = (0..n).filter(|other| self.moves_ms[class * n + other] <= MAX_MOVE_MS);
        others.map(|other| self.held_mib[other * N_STATES + state]).fold(f64::INFINITY, f64::min)
    }

    /// The least milliseconds of bringing an operator's input from one class to another.
    pub fn move_ms(&self, ways: &[Way], class: usize, other: usize, next: usize) -> f64 {
        let moves = self.classes[other].iter().map(|&to| ways[to].moves_ms[self.classes[class][0]][next]);
        moves.fold(f64::INFINITY, f64::min)
    }

    /// The states in which the next operator can be.
    pub fn next_states(of: &Mixed, op: usize, state: usize) -> std::ops::Range<usize> {
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

    /// The least values of all states of a class.
    fn any(&self, class: usize) -> Vec<f64> {
        let mut any = vec![f64::INFINITY; self.rows.len() * self.prices.len()];
        for values in &self.values[class * N_STATES..(class + 1) * N_STATES] {
            least_of(&mut any, values, 0.0);
        }
        any
    }

    /// The values of what follows an operator in a state; none where nothing can.
    fn after(
        &self,
        of: &Mixed,
        (class, state): (usize, usize),
        op: usize,
        any: &[Vec<f64>],
        after: &mut Vec<f64>,
    ) {
        let n = self.rows.len() * self.prices.len();
        if !self.is_begun {
            after.resize(if state < 2 { n } else { 0 }, 0.0);
            return;
        }
        let states = Self::next_states(of, op, state);
        for (other, any) in any.iter().enumerate() {
            let move_ms = self.moves_ms[class * self.classes.len() + other];
            if move_ms > MAX_MOVE_MS {
                continue;
            }
            let each = self.values[other * N_STATES..].get(states.clone()).unwrap_or_default();
            let all = std::slice::from_ref(any);
            for values in if states.len() == N_STATES { all } else { each } {
                if !values.is_empty() {
                    after.resize(n, f64::INFINITY);
                    least_of(after, values, move_ms);
                }
            }
        }
    }

    /// Per kind of state what an operator takes, by end of the reserve and price: not recomputed, recomputed and kept, recomputed and dropped.
    fn own(&self, of: &Mixed, span: &Span, class: usize, op: usize) -> [Vec<f64>; 3] {
        let ways = of.ways(span.n_devices);
        let mut own = [const { Vec::new() }; 3];
        for at in 0..ENDS[0].len() {
            let most_mib = most_reserved_mib(of, [at, 0]);
            for price in &self.prices {
                let mut least = [f64::INFINITY; 3];
                for way in self.classes[class].iter().map(|&way| &ways[way]) {
                    if self.is_told[0][at] && is_allowed(way, span, op, most_mib) {
                        let value = own_values(way, span, op, price);
                        least = [0, 1, 2].map(|kind| least[kind].min(value[kind]));
                    }
                }
                own.iter_mut().zip(least).for_each(|(own, least)| own.push(least));
            }
        }
        own
    }

    fn add_own(&self, of: &Mixed, own: &[f64], held_mib: f64, values: &mut [f64]) {
        let n_prices = self.prices.len();
        for (values, &[reserved, held]) in values.chunks_mut(n_prices).zip(&self.rows) {
            let most_mib = ENDS[1].get(held + 1).map_or(f64::INFINITY, |end| end * of.limit_mib());
            match held_mib > most_mib {
                true => values.fill(f64::INFINITY),
                false => values.iter_mut().zip(&own[reserved * n_prices..]).for_each(|(it, own)| *it += own),
            }
        }
    }

    fn drop_empty(&mut self) {
        if self.is_one {
            return;
        }
        let n_prices = self.prices.len();
        let is_empty = |row: usize| {
            let first =
                |values: &Vec<f64>| values.get(row * n_prices).is_none_or(|value| value.is_infinite());
            self.values.iter().all(first)
        };
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

/// The ways with the same degrees.
pub fn classes(ways: &[Way]) -> Vec<Vec<usize>> {
    let degrees = |way: &Way| (way.choice.tensor, way.choice.data);
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        match classes.iter_mut().find(|class| degrees(&ways[class[0]]) == degrees(way)) {
            Some(class) => class.push(at),
            None => classes.push(vec![at]),
        }
    }
    classes
}

fn least_of(into: &mut [f64], from: &[f64], more: f64) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = into.min(from + more));
}

/// What is reserved at least in a box.
pub fn least_reserved_mib(of: &Mixed, row: Box) -> f64 {
    ENDS[0][row[0]] * of.limit_mib()
}

/// What operators of a box reserve at most.
pub fn most_reserved_mib(of: &Mixed, row: Box) -> f64 {
    ENDS[0].get(row[0] + 1).map_or(f64::INFINITY, |end| end * of.limit_mib())
}

/// Whether an operator may reserve what a way does; the last one of a stage always may.
pub fn is_allowed(way: &Way, span: &Span, op: usize, most_mib: f64) -> bool {
    let profile = &way.profiles[op];
    op + 1 == span.end || profile.forward_reserved_mib + profile.backward_reserved_mib <= most_mib
}

/// Milliseconds and the price of the bytes of an operator: not recomputed, recomputed and kept, recomputed and dropped.
pub fn own_values(way: &Way, span: &Span, op: usize, price: &Price) -> [f64; 3] {
    let profile = &way.profiles[op];
    let send_ms = if op + 1 == span.end { way.send_after_ms(op, span) } else { 0.0 };
    let state_mib = profile.state_mib + f64::from(u8::from(price.is_by_weight)) * profile.weight_mib;
    let dropped = profile.both_ms() + send_ms + price.ms_per_mib * state_mib;
    let kept = dropped + price.ms_per_mib * span.in_flight as f64 * way.kept_mib[op];
    [kept, kept + profile.forward_ms, dropped + profile.forward_ms]
}
