//! Texts of one draft, and what they show of the memory that the chain may plan with.

use super::candidate::Staged;
use phzc_ir::Module;
use std::collections::BTreeMap;

/// A text that needs less than planned by more than this could use what is left.
const ROOM: f64 = 1.05;
/// How many more texts are made once one fits, to use what is left.
const MAX_MORE: usize = 2;

/// The texts that were made so far.
pub struct Texts {
    pub limits: Limits,
    /// The fastest that fits.
    pub best: Option<Staged>,
    /// Of those that do not, the one that needs least.
    pub leanest: Option<Leanest>,
    /// Texts made since one fits, that one included.
    n_more: usize,
}

/// A text that does not fit.
pub struct Leanest {
    /// Bytes of the stage that needs most.
    pub peak_bytes: f64,
    /// The text and that stage, unless the text is large.
    pub text: Option<(Module, usize)>,
}

/// Texts of more instructions are not kept for the sake of an explanation.
const MAX_KEPT: usize = 100_000;

impl Leanest {
    /// Of a text.
    pub fn new(staged: Staged) -> Leanest {
        let (peak_bytes, stage) = (staged.peak_bytes(), staged.largest_stage());
        let is_small = staged.text.entry().instrs.len() <= MAX_KEPT;
        Leanest { peak_bytes, text: is_small.then_some((staged.text, stage)) }
    }
}

impl Texts {
    /// None so far.
    pub fn new(usable_bytes: f64) -> Texts {
        let limits = Limits { usable_bytes, of: BTreeMap::new() };
        Texts { limits, best: None, leanest: None, n_more: 0 }
    }

    /// Adds one; whether another one, with the limits as they are now, could be better.
    pub fn add(&mut self, staged: Staged) -> bool {
        let (peak_bytes, count) = (staged.peak_bytes(), staged.plan.n_microbatches);
        let before = self.limits.of(count);
        let now = self.limits.correct(count, staged.cut_bytes, peak_bytes);
        let has_room = staged.is_limited && now > ROOM * before;
        let is_fitting = peak_bytes <= self.limits.usable_bytes;
        match is_fitting {
            true => self.best = Some(staged.or_faster(self.best.take())),
            false if self.leanest.as_ref().is_some_and(|other| other.peak_bytes <= peak_bytes) => {}
            false => self.leanest = Some(Leanest::new(staged)),
        }
        self.n_more += usize::from(self.best.is_some());
        self.best.is_none() || self.n_more <= MAX_MORE && (has_room || !is_fitting)
    }
}

/// How much memory the chain may plan with, per number of microbatches: as texts have shown.
pub struct Limits {
    /// What a device has to use.
    pub usable_bytes: f64,
    of: BTreeMap<usize, f64>,
}

impl Limits {
    /// Nothing is known yet.
    pub fn new(usable_bytes: f64) -> Limits {
        Limits { usable_bytes, of: BTreeMap::new() }
    }

    /// What the chain may plan with for a number of microbatches, by what texts have shown.
    pub fn of(&self, n_microbatches: usize) -> f64 {
        self.of.get(&n_microbatches).copied().unwrap_or(self.usable_bytes)
    }

    /// Whether no text of so many microbatches has been made.
    pub fn is_guess(&self, n_microbatches: usize) -> bool {
        !self.of.contains_key(&n_microbatches)
    }

    /// The same, now that the text of a cut of `cut_bytes` is known to need `peak_bytes`. What the chain does
    /// not know of is there whatever it saves; where that would leave nothing, or the text has room left, no
    /// more than in proportion.
    fn correct(&mut self, n_microbatches: usize, cut_bytes: f64, peak_bytes: f64) -> f64 {
        let (usable, before) = (self.usable_bytes, self.of(n_microbatches));
        let [sum, ratio] = [cut_bytes + usable - peak_bytes, cut_bytes * usable / peak_bytes];
        let limit = match peak_bytes <= usable {
            true => 0.99 * sum.min(ratio),
            false if sum > 0.0 => (0.99 * sum).min(0.98 * before),
            false => 0.95 * ratio,
        };
        self.of.insert(n_microbatches, limit);
        limit
    }
}

#[cfg(test)]
mod tests;
