//! In which order a plan's stages run, and what that makes of their times and memory.
//!
//! With `t` a stage's time for one of `N` microbatches, all of it occupied:
//!
//! | schedule | milliseconds of a step | microbatches in flight, stage `s` of `S` |
//! |---|---|---|
//! | GPipe | `(N - 1) (max f + max b) + sum t` | `N` |
//! | 1F1B | `(N - 1) max t + sum t` | `min(S - s, N)` |
//! | zero-bubble (Qi et al., ICLR 2024, ZB-H1) | `(N - x) max t + x sum t` | `min(S, N)` |
//! | interleaved, `v` parts (Narayanan et al., SC 2021) | `(N - 1/v) max T + sum T / v`, `T` of a device | by its order |
//!
//! These are exact for equal stages. `x` is the share of a bubble that stays when gradients of parameters
//! fill it, `1 - 2 w / t` with `w` their time in the whole model on one device. [`Machine::replayed_ms`]
//! replays a plan task by task.

use super::plan::weight_gradient_ms;
use super::{Machine, PipelinePlan, StageParts};
use crate::schedule::{Pipeline, Schedule};
use phzc_ir::{Diagnostic, Result};

/// The order in which the stages of a plan run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanSchedule {
    /// All forwards, then all backwards.
    GPipe,
    /// One forward, one backward.
    #[default]
    OneFOneB,
    /// The same, with gradients of parameters in idle moments.
    ZeroBubble,
    /// One forward, one backward, each group of devices having so many stages.
    Interleaved(usize),
}

/// The least share of a bubble that stays.
const LEAST_FILL: f64 = 0.05;
/// The most parts of an interleaved pipeline's devices.
pub const MAX_CHUNKS: usize = 8;

impl PlanSchedule {
    /// Stages of each group of devices.
    pub fn n_chunks(self) -> usize {
        match self {
            PlanSchedule::Interleaved(n_chunks) => n_chunks.max(1),
            _ => 1,
        }
    }

    /// Microbatches in flight in the stage that is `from_end` stages from the end, itself counted.
    pub fn in_flight(self, from_end: usize, n_stages: usize, n_microbatches: usize) -> usize {
        let most = match self {
            PlanSchedule::GPipe => n_microbatches,
            PlanSchedule::OneFOneB | PlanSchedule::Interleaved(_) => from_end,
            PlanSchedule::ZeroBubble => n_stages,
        };
        most.min(n_microbatches)
    }
}

impl std::fmt::Display for PlanSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanSchedule::GPipe => f.write_str("gpipe"),
            PlanSchedule::OneFOneB => f.write_str("1f1b"),
            PlanSchedule::ZeroBubble => f.write_str("zero-bubble"),
            PlanSchedule::Interleaved(n_chunks) => write!(f, "interleaved:{n_chunks}"),
        }
    }
}

impl std::str::FromStr for PlanSchedule {
    type Err = Diagnostic;
    fn from_str(text: &str) -> Result<PlanSchedule> {
        let chunks = |text: &str| text.parse().ok().filter(|n_chunks| (2..=MAX_CHUNKS).contains(n_chunks));
        match text {
            "gpipe" => Ok(PlanSchedule::GPipe),
            "1f1b" => Ok(PlanSchedule::OneFOneB),
            "zero-bubble" => Ok(PlanSchedule::ZeroBubble),
            "interleaved" => Ok(PlanSchedule::Interleaved(2)),
            _ => {
                text.strip_prefix("interleaved:").and_then(chunks).map(PlanSchedule::Interleaved).ok_or_else(
                    || {
                        let known = "`gpipe`, `1f1b`, `zero-bubble`, `interleaved` or `interleaved:V`";
                        let message = format!("expected a schedule, {known}, found `{text}`");
                        Diagnostic::error(message)
                            .help(format!("V, the stages of a device, is 2 to {MAX_CHUNKS}"))
                    },
                )
            }
        }
    }
}

impl Machine {
    /// Milliseconds of a step in closed form.
    pub(super) fn step_ms(&self, plan: &PipelinePlan, parts: &[StageParts]) -> f64 {
        let n = self.n_microbatches(plan.microbatch);
        let n_groups = plan.n_groups().max(1);
        let mut group_ms = vec![0.0; n_groups];
        parts.iter().enumerate().for_each(|(stage, part)| group_ms[stage % n_groups] += part.both_ms());
        let (sum_ms, longest_ms) = (group_ms.iter().sum::<f64>(), most(group_ms.iter().copied()));
        let fill = self.fill(plan.schedule);
        match plan.schedule {
            PlanSchedule::GPipe => {
                let phases = most(parts.iter().map(|part| part.forward_ms))
                    + most(parts.iter().map(|part| part.backward_ms));
                (n - 1.0) * phases + sum_ms
            }
            _ => (n - fill) * longest_ms + fill * sum_ms,
        }
    }

    /// The share of a stage's time for a microbatch that filling and draining the pipeline costs.
    pub fn fill(&self, schedule: PlanSchedule) -> f64 {
        match schedule {
            PlanSchedule::GPipe | PlanSchedule::OneFOneB => 1.0,
            PlanSchedule::Interleaved(n_chunks) => 1.0 / n_chunks.max(1) as f64,
            PlanSchedule::ZeroBubble => self.unfilled(),
        }
    }

    /// Of a bubble the share that gradients of parameters do not fill, by the smallest split that was
    /// measured.
    fn unfilled(&self) -> f64 {
        let Some(rows) = self.tables.rows.values().next() else { return 1.0 };
        let sum = |value: &dyn Fn(usize) -> f64| self.chain.rows.iter().map(|&row| value(row)).sum::<f64>();
        let both_ms = sum(&|row| rows[row].both_ms());
        let weight_ms = sum(&|row| weight_gradient_ms(&rows[row]));
        if both_ms > 0.0 { (1.0 - 2.0 * weight_ms / both_ms).clamp(LEAST_FILL, 1.0) } else { 1.0 }
    }

    /// MiB on a device of each group.
    pub(super) fn memory_mib(&self, plan: &PipelinePlan, parts: &[StageParts]) -> Vec<f64> {
        let n_groups = plan.n_groups().max(1);
        let memory_mib = |group: usize| {
            let own = parts.iter().skip(group).step_by(n_groups);
            let state_mib = own.clone().map(|part| part.state_mib).sum::<f64>();
            state_mib + most(own.map(|part| part.spare_mib)) + self.in_flight_mib(plan, parts, group)
        };
        (0..n_groups.min(parts.len())).map(memory_mib).collect()
    }

    /// MiB of the microbatches in flight on a device of a group.
    fn in_flight_mib(&self, plan: &PipelinePlan, parts: &[StageParts], group: usize) -> f64 {
        let n_groups = plan.n_groups().max(1);
        match (&self.own, plan.schedule.n_chunks()) {
            (None, _) => parts[group].kept_mib * (n_groups - group) as f64,
            (Some(_), 1) => {
                let n_microbatches = self.n_microbatches(plan.microbatch) as usize;
                let in_flight = plan.schedule.in_flight(n_groups - group, n_groups, n_microbatches);
                parts[group].kept_mib * in_flight as f64
            }
            _ => {
                let own = parts.iter().skip(group).step_by(n_groups).map(|part| part.kept_mib);
                self.pipeline(plan, parts).interleaved_held(group, n_groups, &own.collect::<Vec<f64>>())
            }
        }
    }

    fn pipeline(&self, plan: &PipelinePlan, parts: &[StageParts]) -> Pipeline {
        let secs = |ms: fn(&StageParts) -> f64| parts.iter().map(|part| ms(part) / 1e3).collect();
        Pipeline {
            forward_secs: secs(|part| part.forward_ms),
            backward_secs: secs(|part| part.backward_ms),
            weight_secs: secs(|part| part.weight_gradient_ms),
            send_secs: vec![0.0; parts.len().saturating_sub(1)],
            n_microbatches: self.n_microbatches(plan.microbatch) as usize,
        }
    }

    /// Milliseconds of a step by the replay of its schedule, transfers keeping both ends busy. `None` where
    /// some split was not measured.
    pub fn replayed_ms(&self, plan: &PipelinePlan) -> Option<f64> {
        let parts = self.parts(plan)?;
        let pipeline = self.pipeline(plan, &parts);
        let secs = match plan.schedule {
            PlanSchedule::GPipe => pipeline.simulate(Schedule::GPipe).step_secs(),
            PlanSchedule::OneFOneB => pipeline.simulate(Schedule::OneFOneB).step_secs(),
            PlanSchedule::Interleaved(_) => pipeline.simulate_interleaved(plan.n_groups()).step_secs(),
            PlanSchedule::ZeroBubble => pipeline.simulate(Schedule::ZeroBubble).step_secs(),
        };
        Some(secs * 1e3)
    }
}

fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, f64::max)
}
