//! Which schedule a text runs in: the one that is asked for, or the fastest that fits.
//!
//! Cuts are made for the schedule that is asked for, else for 1F1B. Then the other schedules are tried on the text of the cut, as the report has
//! them. Zero-bubble fills bubbles with gradients of weights. GPipe is faster than 1F1B where sends are slow: fewer of them are
//! waited for; it needs memory for all microbatches.

use super::Problem;
use super::chain::Layers;
use super::cut::{Chain, Order};
use super::note;
use super::outcome::Staged;
use crate::check::memory_of;
use crate::derive::Facts;
use phzc_cost::Schedule;
use phzc_ir::Module;

/// The schedule that is asked for; none where the fastest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(Option<Schedule>);

/// Another schedule must be faster by this share: rounding is no reason.
const FASTER: f64 = 1e-6;

impl Wanted {
    /// By its name; `auto` and others are none.
    pub fn parse(word: &str) -> Wanted {
        Wanted(word.parse().ok())
    }

    /// Notes the schedule that is asked for.
    pub fn note(self, text: &mut Module) {
        if let Wanted(Some(schedule)) = self {
            note::set(text, &[("schedule", schedule.as_str().into())]);
        }
    }

    /// The share of 1F1B's least time, every stage once and the slowest for each further microbatch, that no schedule falls below: where
    /// bubbles may be filled, the stages' work remains, `B` of `S + B - 1`.
    pub fn fill(self, n_stages: usize, most_microbatches: usize) -> f64 {
        match self.0 {
            Some(Schedule::OneFOneB | Schedule::GPipe) => 1.0,
            _ => most_microbatches as f64 / (n_stages + most_microbatches - 1) as f64,
        }
    }
}

impl Problem<'_> {
    /// The chain for a number of microbatches, to be cut for the schedule that is asked for.
    pub(super) fn chain(&self, layers: &mut Layers, n_microbatches: usize) -> Chain {
        let Wanted(wanted) = self.schedule;
        let order = wanted.map_or(Order::Open(self.cluster.accelerator.usable_bytes()), Order::Given);
        Chain { order, ..layers.chain(n_microbatches) }
    }

    /// Gives a text another schedule than 1F1B if that is faster, replayed as well as reported, and fits.
    pub(super) fn reorder(&self, staged: &mut Staged, mut facts: Facts) {
        let usable = self.cluster.accelerator.usable_bytes();
        let is_open = self.schedule == Wanted(None) && facts.header.meshes.len() > 1;
        if !is_open || staged.peak_bytes() > usable {
            return;
        }
        let pipeline = staged.plan.pipeline();
        // 1F1B's closed form is an estimate from above: like is compared with like.
        let to_beat = (1.0 - FASTER) * pipeline.simulate(Schedule::OneFOneB).step_secs();
        let others = [Schedule::ZeroBubble, Schedule::GPipe];
        let mut faster: Vec<(f64, Schedule)> =
            others.map(|schedule| (pipeline.step_secs(schedule), schedule)).to_vec();
        faster.retain(|(secs, _)| *secs < to_beat);
        faster.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, schedule) in faster {
            facts.header.schedule = schedule;
            let stages = memory_of(&staged.text, &facts, self.cluster).stages;
            if stages.iter().all(|stage| stage.peak_bytes <= usable) {
                Wanted(Some(schedule)).note(&mut staged.text);
                staged.time_secs = staged.plan.secs_by(schedule);
                return;
            }
        }
    }
}
