//! Layouts on all devices for less memory than there is, over all meshes.
//!
//! `shard` chooses within a limit by its own sum of what is alive, the text needs another amount. Where its
//! choice turns out too large, the best that fits may lie on another mesh. The limits that are tried, rungs,
//! do not depend on the memory: a device with more of it comes past the choices of one with less.

use super::candidate::{Evaluated, Staged};
use super::evaluate_candidate::Draft;
use super::limits::Limits;
use super::{Problem, Recompute, materialize_plan};
use crate::shard::model::Goal;
use crate::shard::solve_over;
use phzc_plan::plan_note;
use phzc_solver::choose::Stop;

/// Each rung is this share of the one above, the first of all a byte.
const STEP: f64 = 0.95;

/// How many choices are made, each for less memory than the one before needs.
const MAX_CHOICES: usize = 4;

impl Problem<'_> {
    /// All devices as one stage and the batch as a whole, in the fastest layouts whose text fits; only where
    /// memory decides.
    pub(super) fn with_less_memory(&self) -> Evaluated {
        let is_open = self.recompute != Recompute::All && self.subject.short.is_none();
        let whole = Problem { counts: vec![1], ..self.clone() };
        let usable = self.cluster.accelerator.usable_bytes();
        let first = whole.measured(self.sharded.clone(), (1, 1), None).ok();
        let Some(first) = first.filter(|first| is_open && first.peak_bytes() > usable) else {
            return Evaluated::Slower;
        };
        let (mut best, mut limit_bytes) = (Evaluated::Slower, usable * usable / first.peak_bytes());
        for _ in 0..MAX_CHOICES {
            let Some(draft) = whole.lean_draft(rung_below(limit_bytes)) else { break };
            let cut = whole.cut(&draft, 1, &Limits::new(usable), true);
            let peak_bytes = cut.as_ref().ok().and_then(|it| Some(it.as_ref()?.peak_bytes()));
            if let Ok(Some(staged)) = cut.map(|it| it.filter(|staged| staged.peak_bytes() <= usable)) {
                let is_done = !staged.is_limited;
                best = best.or_faster(whole.lean(staged));
                if is_done {
                    break;
                }
            }
            let too_large = peak_bytes.map_or(1.0, |bytes| (usable / bytes).min(1.0));
            limit_bytes = draft.memory_bytes.unwrap_or(limit_bytes) * too_large;
        }
        best
    }

    /// The best layouts that need so little by `shard`'s sum.
    fn lean_draft(&self, limit_bytes: f64) -> Option<Draft> {
        let goal = Goal { weights: [1.0; 3], memory_bytes: Some(limit_bytes) };
        let (input, meshes) =
            (self.subject.input(self.cluster, false, &[]), self.meshes(self.cluster.n_devices()));
        let solved = solve_over(input, &meshes, &goal, f64::INFINITY).filter(|solved| solved.fits)?;
        let mut text = materialize_plan::sharded(self, input, &solved, false);
        plan_note::set(&mut text, &[("planned_secs", solved.choice.cost.into())]);
        Some(Draft {
            text,
            is_whole: true,
            memory_bytes: Some(solved.choice.memory),
            allowed: None,
            gains: None,
        })
    }

    fn lean(&self, staged: Staged) -> Evaluated {
        let mut bound = self.noted_bound();
        Stop::MemoryGap.as_str().clone_into(&mut bound.stop);
        Evaluated::Placed(Box::new(staged.placed(1, bound)))
    }
}

/// The largest rung below so many bytes.
fn rung_below(bytes: f64) -> f64 {
    STEP.powf((bytes.ln() / STEP.ln()).floor() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EXAMPLES, cluster, run};
    use super::{STEP, rung_below};
    use phzc_plan::report;

    #[test]
    fn rungs_are_the_same_from_wherever_one_comes() {
        for bytes in [7e5, 1e9, 3.3e10] {
            let rung = rung_below(bytes);
            assert!((STEP * STEP * bytes..bytes).contains(&rung), "{bytes}: {rung}");
            assert_eq!(rung_below(0.5 * (rung + bytes.min(rung / STEP))), rung);
        }
    }

    /// A deeper program with a loop: `tests/long/place.rs`.
    #[test]
    fn with_more_memory_one_stage_takes_no_longer() {
        let (mut cluster, mut bytes, mut before_secs) = (cluster(), f64::INFINITY, 0.0);
        for at in 0..4 {
            let (placed, _) = run(EXAMPLES[2].1, "fuse,shard,place{stages=1}", &cluster);
            let plan = report::plan(&placed, &cluster).expect("a placed module");
            let (secs, needed) = (plan.time_secs, plan.stages[0].memory_bytes);
            assert!(secs >= before_secs * 0.999, "limit {at}: {secs} after {before_secs}");
            assert!(needed <= cluster.accelerator.usable_bytes(), "limit {at}: {needed} bytes");
            before_secs = f64::max(secs, before_secs);
            bytes = if at == 0 { needed } else { 0.81 * bytes };
            cluster.accelerator.hbm_bytes = 0.99 * bytes / cluster.accelerator.usable;
        }
    }
}
