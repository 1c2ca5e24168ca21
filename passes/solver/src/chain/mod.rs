//! The chain problem: which contiguous stages of a chain of units run on which groups of devices.
//!
//! ```text
//! units    0 1 2 3 4 5 6 7 8 …        stages   [0..3) on 2 devices, [3..7) on 4, …
//! ```
//!
//! A step of `N` microbatches takes `(N - 1) max t + sum t`, where `t` is a stage's time for one microbatch.
//! What a stage takes depends on its units, its number of devices, how many microbatches it holds in flight
//! (its place from the end), and what links lie around it; a [`Stages`] says so, from measured tables
//! ([`profiled`]) or otherwise. It gives two figures: one that no way to run the stage is below, and one of a
//! way that was found. The search ([`search`]) proves with the first and plans with the second.

mod memo;
pub mod phaze;
pub mod profiled;
mod reach;
mod refine;
mod search;
mod sums;
#[cfg(test)]
mod tests;
mod top;

pub use search::{Best, Effort, Stop, TOLERANCE, search};
pub use top::{Part, Within, ranked, top};

pub use memo::Twin;

use memo::{Memo, Rows};
use refine::Asked;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A stage, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Its first unit.
    pub start: usize,
    /// The unit after its last.
    pub end: usize,
    /// Its devices.
    pub n_devices: usize,
    /// What links lie before and after it ([`Stages::links`]).
    pub links: u8,
    /// Microbatches that it holds at once: 1 in the last stage, one more in each before.
    pub in_flight: usize,
}

/// What stages of a chain take.
pub trait Stages: Sync {
    /// Units in the chain.
    fn n_units(&self) -> usize;
    /// Devices, all of which are used.
    fn n_devices(&self) -> usize;
    /// Numbers of devices that a stage may have.
    fn groups(&self) -> &[usize];
    /// The most stages.
    fn max_stages(&self) -> usize;
    /// The fewest stages.
    fn min_stages(&self) -> usize {
        1
    }
    /// Whether a stage may have these devices.
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool;
    /// What the links around these devices are, as far as times depend on it.
    fn links(&self, first_device: usize, n_devices: usize) -> u8;
    /// A bound from below on devices times milliseconds of the units before this one; it rises with the unit.
    fn busy_before(&self, unit: usize) -> f64;
    /// Cuts of one kind differ only by what lies before them: one more layer in front makes a stage slower,
    /// never faster.
    fn kind(&self, unit: usize) -> usize;
    /// Whether a stage that ends at a cut of kind `a` is never slower than one that ends later, at a cut of
    /// kind `b`.
    fn is_better_end(&self, a: usize, b: usize) -> bool;
    /// No way to run the stage within its memory takes fewer milliseconds; infinite where none fits.
    fn lower_ms(&self, span: &Span) -> f64;
    /// Milliseconds of a way that was found; infinite where none was.
    fn upper_ms(&self, span: &Span) -> f64;
    /// A bound that takes no time: no more than [`Self::lower_ms`]; where stages are swept it is no less for
    /// more units.
    fn quick_ms(&self, _span: &Span) -> f64 {
        0.0
    }
    /// One of the two figures if it is no more than `cap`; else one above it, infinite where it was not
    /// looked how far.
    fn ms_within(&self, span: &Span, side: Side, _cap: f64) -> f64 {
        match side {
            Side::Lower => self.lower_ms(span),
            Side::Upper => self.upper_ms(span),
        }
    }
    /// Whether the chain is cut before this unit when a first plan is looked for.
    fn is_coarse(&self, _unit: usize) -> bool {
        true
    }
    /// Where stages that end at a unit have others that take the same.
    fn twin(&self, end: usize) -> Twin {
        Twin { from: 0, end }
    }
    /// Whether the bounds of all stages with one end come together: then those with other ends are dear.
    fn is_swept(&self) -> bool {
        false
    }
    /// A closer bound of a stage, and milliseconds of the best way if that takes less than `cap` and is
    /// known.
    fn refined(&self, span: &Span, _cap: f64, _effort: usize) -> [f64; 2] {
        [self.lower_ms(span), f64::INFINITY]
    }
    /// What was done so far to know what stages take, in steps of about a tenth of a microsecond.
    fn work(&self) -> u64 {
        0
    }
    /// How often the slowest stage's time counts beside the sum of all: microbatches less one.
    fn rounds(&self) -> f64;
}

/// Which of a stage's two figures is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The bound.
    Lower,
    /// What was found.
    Upper,
}

/// One chain with what has been asked of it.
pub struct Solver<'a, S> {
    stages: &'a S,
    /// Units by the kind of the cut before them.
    kinds: Vec<Vec<usize>>,
    /// Kinds at which the chain is cut, the best ends first.
    order: Vec<usize>,
    /// Per unit: whether the chain is cut before it.
    is_cut: Vec<bool>,
    /// Per kind: the kinds at which it is better to end, itself among them.
    better: Vec<Vec<usize>>,
    memo: Arc<[Memo; 2]>,
    asked: Arc<Asked>,
}

/// Coarse are units of which there is one in as many.
const COARSE: usize = 4;
/// By how much, relatively, sums of milliseconds may differ by rounding.
const ROUNDING: f64 = 1.0 + 1e-9;

impl<'a, S: Stages> Solver<'a, S> {
    /// A solver that has been asked nothing.
    pub fn new(stages: &'a S) -> Solver<'a, S> {
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        for unit in 0..stages.n_units() {
            let kind = stages.kind(unit);
            kinds.resize(kinds.len().max(kind + 1), Vec::new());
            kinds[kind].push(unit);
        }
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        let better_than =
            |&b: &usize| order.iter().copied().filter(|&a| a == b || stages.is_better_end(a, b)).collect();
        let better: Vec<Vec<usize>> = order.iter().map(better_than).collect();
        order.sort_by_key(|&kind| better[kind].len());
        let is_cut = vec![true; stages.n_units()];
        Solver { stages, kinds, order, is_cut, better, memo: Default::default(), asked: Default::default() }
    }

    /// A solver of other stages that have the same units and take the same.
    fn like<'b, R: Stages>(&self, stages: &'b R) -> Solver<'b, R> {
        let (kinds, order, better) = (self.kinds.clone(), self.order.clone(), self.better.clone());
        Solver {
            stages,
            kinds,
            order,
            is_cut: self.is_cut.clone(),
            better,
            memo: self.memo.clone(),
            asked: self.asked.clone(),
        }
    }

    /// The solver that cuts at coarse units only, if they are few.
    fn coarse(&self) -> Option<Solver<'a, S>> {
        let is_coarse = |unit: usize| self.stages.is_coarse(unit);
        let is_cut: Vec<bool> = (0..self.stages.n_units()).map(is_coarse).collect();
        let n_cuts = is_cut.iter().filter(|&&is_cut| is_cut).count();
        let mut solver = self.like(self.stages);
        let units = |kind: usize| self.kinds[kind].iter().all(|&unit| is_cut[unit]);
        solver.order.retain(|&kind| units(kind));
        solver.is_cut = is_cut;
        (n_cuts * COARSE <= self.stages.n_units()).then_some(solver)
    }

    fn ms(&self, span: Span, side: Side) -> f64 {
        self.in_rows(&self.rows(&span, side), span, side)
    }

    /// What is known of the stages that differ from one by their first unit.
    fn rows(&self, span: &Span, side: Side) -> Rows {
        self.memo[side as usize].rows(span, self.stages.twin(span.end))
    }

    /// A stage's figure, its rows at hand.
    fn in_rows(&self, rows: &Rows, span: Span, side: Side) -> f64 {
        rows.get_or(&span, |twin| match side {
            Side::Lower => self.stages.lower_ms(twin),
            Side::Upper => self.stages.upper_ms(twin),
        })
    }

    /// A stage's figure if it is no more than `cap`, else one above it, its rows at hand.
    fn within(&self, rows: &Rows, span: Span, side: Side, cap: f64) -> f64 {
        if self.stages.quick_ms(&span) > cap {
            return f64::INFINITY;
        }
        rows.within(&span, cap, |twin| self.stages.ms_within(twin, side, cap))
    }

    /// Whether the stage stays below `cap`; the bound is asked first, for it is cheap.
    fn fits(&self, lower: &Rows, span: Span, cap: f64, side: Side) -> bool {
        let is_below = |rows: &Rows, side: Side| self.within(rows, span, side, cap) <= cap;
        is_below(lower, Side::Lower) && (side == Side::Lower || is_below(&self.rows(&span, side), side))
    }

    /// The stage before one that leaves `used` devices to those after it.
    fn span(&self, start: usize, end: usize, used: usize, n_devices: usize, in_flight: usize) -> Span {
        let first = self.stages.n_devices() - used - n_devices;
        Span { start, end, n_devices, links: self.stages.links(first, n_devices), in_flight }
    }

    /// What a stage of `n_devices`, `used` of the devices being taken on one side, leaves to others, if as
    /// many as `left` allows can have it.
    fn leaves(&self, used: usize, n_devices: usize, left: &RangeInclusive<usize>) -> Option<usize> {
        let rest = self.stages.n_devices().checked_sub(used + n_devices)?;
        let most = self.stages.groups().iter().max().copied().unwrap_or(1);
        let least = rest.div_ceil(most).max(*left.start());
        (least <= rest.min(*left.end())).then_some(rest)
    }

    /// A bound from below on a plan with a slowest stage of at least `cap`; it rises with `cap`.
    ///
    /// The sum is at least one stage of `cap`, and all work on the largest groups. What devices cannot be
    /// idle bounds it too: `sum g t >= busy` and `t <= cap` give `sum t >= n cap - (K cap - busy) / min g`,
    /// where that rises with `cap`.
    fn bound(&self, n_stages: usize, cap: f64) -> f64 {
        let busy = self.stages.busy_before(self.stages.n_units());
        let groups = self.stages.groups();
        let [least, most] = [groups.iter().min(), groups.iter().max()].map(|size| size.copied().unwrap_or(1));
        let (rounds, n_devices) = (self.stages.rounds(), self.stages.n_devices());
        // The other stages have no more than the largest groups.
        let least = least.max(n_devices.saturating_sub((n_stages - 1) * most)) as f64;
        let sum = cap.max(busy / most as f64);
        if rounds + (n_stages as f64) < n_devices as f64 / least {
            return cap * rounds + sum;
        }
        let idle = (cap * n_devices as f64 - busy).max(0.0) / least;
        cap * rounds + sum.max(cap * n_stages as f64 - idle)
    }

    /// The cap below which [`Self::bound`] stays below `cost`.
    fn cap_of(&self, n_stages: usize, cost: f64) -> f64 {
        let (mut low, mut high) = (0.0, cost / self.stages.rounds().max(1.0));
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            match self.bound(n_stages, middle) < cost {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// What a plan takes.
    fn cost(&self, spans: &[Span], side: Side) -> f64 {
        let ms: Vec<f64> = spans.iter().map(|&span| self.ms(span, side)).collect();
        ms.iter().copied().fold(0.0, f64::max) * self.stages.rounds() + ms.iter().sum::<f64>()
    }
}
