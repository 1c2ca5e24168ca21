//! All devices as one stage: the program as `shard` left it, or with less memory.

use super::candidate::{Bound, Evaluated};
use super::evaluate_candidate::Draft;
use super::{Problem, Recompute, materialize_plan};
use crate::shard::model::{Goal, Input};
use crate::shard::solve_on;
use phzc_ir::{Mesh, notes};
use phzc_plan::plan_note;
use phzc_solver::choose::Stop;

impl Problem<'_> {
    /// All devices as one stage, as `shard` left it, if that fits.
    pub fn as_sharded(&self) -> Evaluated {
        let (usable, bound) = (self.cluster.accelerator.usable_bytes(), self.noted_bound());
        if self.recompute == Recompute::All {
            return Evaluated::Slower;
        }
        match self.measured(self.sharded.clone(), (1, 1), None) {
            Ok(staged) if staged.peak_bytes() <= usable => {
                Evaluated::Placed(Box::new(staged.placed(1, bound)))
            }
            _ => Evaluated::Slower,
        }
    }

    /// Whether one stage is as `shard` left it, and memory had no say in that.
    pub fn is_as_sharded(&self, tried: &Evaluated) -> bool {
        let is_tight = self.noted_bound().stop == Stop::MemoryGap.as_str();
        matches!(tried, Evaluated::Placed(placement) if !placement.is_eased && !is_tight)
    }

    /// The bound that `shard` noted.
    pub(super) fn noted_bound(&self) -> Bound {
        let plan = plan_note::read(self.sharded);
        let stop = plan.get("stop").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let lower_bound_secs = plan.get("lower_bound_secs").and_then(serde_json::Value::as_f64);
        Bound { lower_bound_secs: lower_bound_secs.unwrap_or(0.0), stop }
    }

    /// All devices as one stage: `shard`'s plan as it stands if it fits, else one that needs less memory.
    ///
    /// Where nothing fits, phases are tasks of their own, as in a pipeline: more is stored between them, and
    /// what is computed again is less often alive until a gradient at the end of the text has read it.
    pub fn unstaged(&self) -> Evaluated {
        if self.recompute == Recompute::All {
            return self.unstaged_by(true);
        }
        match self.unstaged_by(false) {
            Evaluated::TooLarge(error) => match self.unstaged_by(true) {
                placed @ Evaluated::Placed(_) => placed,
                _ => Evaluated::TooLarge(error),
            },
            found => found,
        }
    }

    fn unstaged_by(&self, in_tasks: bool) -> Evaluated {
        let mut text = self.sharded.clone();
        materialize_plan::note_tasks(&mut text, in_tasks);
        let draft = Draft { text, is_whole: true, memory_bytes: None, allowed: None, gains: None };
        let mesh =
            self.sharded.note(notes::MESH).and_then(|mesh| Mesh::parse(&mesh).ok()).unwrap_or_default();
        let again = |n_microbatches: usize, limit: f64, moves_again: bool| {
            let goal = Goal { weights: [1.0; 3], memory_bytes: Some(limit) };
            let input = self.subject.input(self.cluster, in_tasks, &[]);
            let input = Input { n_microbatches, moves_again, ..input };
            let solved = solve_on(input, &mesh, &goal)?;
            let mut text = materialize_plan::sharded(self, input, &solved, in_tasks);
            plan_note::set(&mut text, &[("planned_secs", solved.choice.cost.into())]);
            let is_whole = self.subject.short.is_none();
            Some(Draft {
                text,
                is_whole,
                memory_bytes: Some(solved.choice.memory),
                allowed: None,
                gains: None,
            })
        };
        let (fewest, most) = self.fewest_and_most();
        let bound = self.noted_bound();
        let tried = self.within_memory(1, draft, bound.clone(), |limit, moves| again(fewest, limit, moves));
        let is_too_large = matches!(tried, Evaluated::TooLarge(_));
        let wanted = if is_too_large { most } else { tried.n_microbatches().unwrap_or(1) };
        let usable = self.cluster.accelerator.usable_bytes();
        let is_new = wanted > 1 && !(is_too_large && wanted == fewest);
        match Some(wanted).filter(|_| is_new).and_then(|wanted| again(wanted, usable, false)) {
            Some(draft) => {
                let again = |limit, moves| again(wanted, limit, moves);
                tried.or_faster(self.within_memory(1, draft, bound, again))
            }
            None => tried,
        }
    }
}
