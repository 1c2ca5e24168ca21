//! What became of the stage counts, and the best of them.

use super::search_control::{End, SearchControl};
use phzc_ir::{Diagnostic, Module, Result};
use phzc_plan::derive::header;
use phzc_plan::plan_note;
use phzc_plan::report::Plan;

/// A program with its stages and microbatches.
pub struct Placement {
    /// The planned program.
    pub text: Module,
    /// Seconds of a step, as the report of the text says.
    pub time_secs: f64,
    /// No plan on as many stages takes less.
    lower_bound_secs: f64,
    /// Why the search over layouts stopped.
    stop: String,
    n_stages: usize,
    n_microbatches: usize,
    /// Whether it computes something again, or has microbatches.
    pub is_eased: bool,
    is_again: bool,
    /// What the report says of it.
    pub plan: Box<Plan>,
    /// Why more plans were not made, had there been any.
    pub end: Option<End>,
}

/// What became of one stage count.
pub enum Evaluated {
    Placed(Box<Placement>),
    /// It takes longer than another count, provably or as it seems.
    Slower,
    /// No plan that was tried fits in memory.
    TooLarge(Diagnostic),
    Impossible(Diagnostic),
}

impl Evaluated {
    /// Seconds of a step; infinite if there is no plan.
    pub fn time_secs(&self) -> f64 {
        match self {
            Evaluated::Placed(placement) => placement.time_secs,
            _ => f64::INFINITY,
        }
    }

    /// The microbatches of a plan.
    pub fn n_microbatches(&self) -> Option<usize> {
        match self {
            Evaluated::Placed(placement) => Some(placement.n_microbatches),
            _ => None,
        }
    }

    /// Drops a placement that another one beats: texts of many layers are large.
    pub fn drop_slower(&mut self, best_secs: f64) {
        match self {
            Evaluated::Placed(placement) if placement.time_secs > best_secs => {
                *self = Evaluated::Slower;
            }
            _ => {}
        }
    }

    /// The faster of two; of equal ones the first.
    pub fn or_faster(self, other: Evaluated) -> Evaluated {
        if other.time_secs() < self.time_secs() { other } else { self }
    }
}

/// What is known of all texts of one stage count.
#[derive(Clone)]
pub struct Bound {
    pub lower_bound_secs: f64,
    pub stop: String,
}

/// A text with stages.
pub struct Staged {
    pub text: Module,
    /// What the report says of it, by the schedule that it was cut for.
    pub plan: Plan,
    /// The same by the schedule that it names, where that is another one.
    pub reordered: Option<Plan>,
    /// Seconds of a step by the schedule that it names.
    pub time_secs: f64,
    /// The memory of its largest stage, as the chain has it.
    pub cut_bytes: f64,
    /// Whether it computes something again.
    pub is_again: bool,
    /// Whether it would be cut otherwise were there memory enough.
    pub is_limited: bool,
    /// Whether every stage is worth its devices, as far as that was asked.
    pub is_of_use: bool,
}

impl Staged {
    /// Bytes that the device with most to hold needs.
    pub fn peak_bytes(&self) -> f64 {
        (0..self.plan.stages.len()).map(|stage| self.stage_bytes(stage)).fold(0.0, f64::max)
    }

    /// Bytes that a stage needs, on unlike devices in proportion to what is the first kind's limit.
    fn stage_bytes(&self, stage: usize) -> f64 {
        let limit_bytes = self.plan.memory_limit_bytes;
        limit_bytes * self.plan.stages[stage].memory_share(limit_bytes)
    }

    /// The stage that needs most.
    pub fn largest_stage(&self) -> usize {
        let peak_bytes = self.peak_bytes();
        (0..self.plan.stages.len()).find(|&stage| self.stage_bytes(stage) == peak_bytes).unwrap_or(0)
    }

    /// The faster of two; of equal ones the other.
    pub fn or_faster(self, other: Option<Staged>) -> Staged {
        match other {
            Some(other) if other.time_secs <= self.time_secs => other,
            _ => self,
        }
    }

    /// The placement, with what is known of all like it.
    pub fn placed(self, n_stages: usize, bound: Bound) -> Placement {
        let Staged { text, plan, reordered, time_secs, is_again, .. } = self;
        let Bound { lower_bound_secs, stop } = bound;
        let n_microbatches = plan.n_microbatches;
        let is_eased = is_again || n_microbatches > 1;
        Placement {
            text,
            time_secs,
            lower_bound_secs,
            stop,
            n_stages,
            n_microbatches,
            is_eased,
            is_again,
            plan: Box::new(reordered.unwrap_or(plan)),
            end: None,
        }
    }
}

/// The fastest placement, with a bound over all that may be chosen.
///
/// # Errors
/// Why there is none.
pub fn pick(
    tried: impl Iterator<Item = Evaluated>,
    bound_secs: impl FnOnce(&Placement) -> f64,
    control: &SearchControl,
) -> Result<Placement> {
    let (mut best, mut refusal): (Option<Placement>, Option<Diagnostic>) = (None, None);
    for result in tried {
        match result {
            Evaluated::Placed(found) => {
                if best.as_ref().is_none_or(|best| found.time_secs < best.time_secs) {
                    best = Some(*found);
                }
            }
            Evaluated::Impossible(error) | Evaluated::TooLarge(error) => refusal = refusal.or(Some(error)),
            Evaluated::Slower => {}
        }
    }
    let mut best = best.ok_or_else(|| refusal.unwrap_or_else(no_stage_count))?;
    let bound_secs = bound_secs(&best);
    best.end = control.ended();
    best.note(bound_secs);
    Ok(best)
}

fn no_stage_count() -> Diagnostic {
    let error = Diagnostic::error("no stage count is possible");
    error.help("leave `stages`, `microbatches` and `groups` of `place` open, or `forbid` less")
}

impl Placement {
    /// No plan takes less, as the note says.
    pub fn lower_bound_secs(&self) -> f64 {
        let noted = plan_note::read(&self.text).get("lower_bound_secs").and_then(serde_json::Value::as_f64);
        noted.unwrap_or(0.0)
    }

    /// Whether it is of the plans that `shard` bounds: one stage, the whole batch, each value made once.
    pub fn is_plain(&self) -> bool {
        self.n_stages == 1 && !self.is_eased
    }

    /// Whether its stages have different numbers of devices.
    pub fn is_unequal(&self) -> bool {
        let meshes = header(&self.text).map(|header| header.meshes).unwrap_or_default();
        meshes.iter().any(|mesh| mesh.n_devices() != meshes[0].n_devices())
    }

    /// Whether it computes something again.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Whether it is the whole batch on all devices.
    fn is_whole(&self) -> bool {
        let plan = plan_note::read(&self.text);
        self.n_stages == 1 && plan.get("n_microbatches").is_some_and(|count| *count == 1)
    }

    /// Seconds of a step in the model that bounds it. What `shard` planned is the whole batch on all devices,
    /// each value made once: nothing else is of its model.
    pub(super) fn planned_secs(&self) -> f64 {
        let plan = plan_note::read(&self.text);
        let noted = plan.get("planned_secs").and_then(serde_json::Value::as_f64);
        let is_shards = self.is_whole() && !self.is_eased && !plan.contains_key(plan_note::STRAGGLER);
        noted.filter(|_| is_shards).unwrap_or(self.time_secs)
    }

    /// Adds what was decided to the plan's note.
    pub(super) fn note(&mut self, bound_secs: f64) {
        let (is_whole, planned_secs) = (self.is_whole(), self.planned_secs());
        // The report may have a shade less than the planner's sum: no plan is below its own bound.
        let reached_secs = planned_secs.min(self.time_secs);
        let bound_secs = bound_secs.min(reached_secs);
        let gap = (reached_secs - bound_secs) / reached_secs;
        let is_own_bound = is_whole && bound_secs >= self.lower_bound_secs.min(reached_secs);
        let stop = match (self.end, is_own_bound) {
            _ if is_whole && gap <= 1e-9 => "optimal",
            (Some(end), _) => end.as_str(),
            (None, true) if self.is_eased => "memory-gap",
            (None, true) => self.stop.as_str(),
            (None, false) => "stages-open",
        };
        let gap = if gap <= 1e-9 { 0.0 } else { gap };
        let figures = [
            ("planned_secs", planned_secs.into()),
            ("lower_bound_secs", bound_secs.into()),
            ("gap", gap.into()),
            ("stop", stop.into()),
            ("fits", true.into()),
        ];
        plan_note::set(&mut self.text, &figures);
    }
}

#[cfg(test)]
pub(super) mod tests;
