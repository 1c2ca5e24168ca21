//! A pipeline plan and what it takes.

use super::{Machine, PlanSchedule, Step};
use crate::profile::{OpProfile, OpSplit};
use std::ops::Range;

/// How one operator runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpChoice {
    /// Devices that share each sample.
    pub tensor: u32,
    /// Replicas that share the microbatch.
    pub data: u32,
    /// Which dimension the tensor-parallel devices split.
    pub algo: u32,
    /// Whether the backward part runs it forward again.
    pub recompute: bool,
    /// What the replicas share: nothing, the optimizer's state, gradients too, parameters too.
    pub zero: u32,
}

/// One stage; in an interleaved pipeline, one part of a device group's operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageChoice {
    /// Its first operator.
    pub start: usize,
    /// Its devices.
    pub n_devices: usize,
    /// How its operators run.
    pub ops: Vec<OpChoice>,
}

/// A pipeline plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelinePlan {
    /// Samples of a microbatch over all replicas.
    pub microbatch: u32,
    /// In which order stages run; Aceso's cost knows 1F1B only.
    pub schedule: PlanSchedule,
    /// The stages in the chain's order.
    pub stages: Vec<StageChoice>,
}

/// What a stage or a plan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageCost {
    /// Milliseconds: of one microbatch in a stage, or of a step.
    pub ms: f64,
    /// MiB on one device.
    pub mib: f64,
}

/// What a stage takes for one microbatch, transfers, recomputation and the share of what happens once a step
/// inside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageParts {
    /// Milliseconds of the forward part.
    pub forward_ms: f64,
    /// Milliseconds of the backward part.
    pub backward_ms: f64,
    /// Milliseconds of it that only make gradients of parameters, on which no stage waits.
    pub weight_gradient_ms: f64,
    /// MiB of parameters, gradients and the optimizer's state.
    pub state_mib: f64,
    /// MiB that a recomputed run holds, and that the allocator has in reserve.
    pub spare_mib: f64,
    /// MiB that one microbatch in flight keeps.
    pub kept_mib: f64,
}

/// What lies around a stage, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Position {
    is_far_before: bool,
    is_far_after: bool,
    /// How often what each device of the stage receives has to leave a device of the one before, or after.
    crowded_before: f64,
    crowded_after: f64,
}

impl OpChoice {
    /// The split whose row says what it takes.
    pub fn split(&self, microbatch: u32) -> Option<OpSplit> {
        let batch = microbatch.checked_div(self.data)?;
        (batch * self.data == microbatch).then_some(OpSplit { batch, tensor: self.tensor, algo: self.algo })
    }
}

impl PipelinePlan {
    /// Groups of devices; in an interleaved pipeline each has several stages.
    pub fn n_groups(&self) -> usize {
        self.stages.len() / self.schedule.n_chunks()
    }

    /// Devices.
    pub fn n_devices(&self) -> usize {
        self.stages[..self.n_groups()].iter().map(|stage| stage.n_devices).sum()
    }

    /// The devices of a stage; virtual stages of one group share theirs.
    fn devices(&self, stage: usize) -> Option<Range<usize>> {
        let groups = &self.stages[..stage % self.n_groups().max(1)];
        let first = groups.iter().map(|stage| stage.n_devices).sum();
        Some(first..first + self.stages.get(stage)?.n_devices)
    }

    fn step(&self) -> Step {
        Step { microbatch: self.microbatch, n_devices: self.n_devices(), is_pipeline: self.stages.len() > 1 }
    }
}

impl StageParts {
    /// Milliseconds of both parts.
    pub fn both_ms(&self) -> f64 {
        self.forward_ms + self.backward_ms
    }
}

impl Machine {
    /// What a plan takes: milliseconds of a step, and MiB of the fullest device. `None` where some split was
    /// not measured.
    pub fn price(&self, plan: &PipelinePlan) -> Option<StageCost> {
        let parts = self.parts(plan)?;
        let mib = self.memory_mib(plan, &parts).into_iter().fold(0.0, f64::max);
        Some(StageCost { ms: self.step_ms(plan, &parts), mib })
    }

    /// What one stage of a plan takes: milliseconds of a microbatch, and MiB on one of its devices.
    pub fn price_stage(&self, plan: &PipelinePlan, stage: usize) -> Option<StageCost> {
        let parts = self.parts(plan)?;
        let mib = self.memory_mib(plan, &parts)[stage % plan.n_groups()];
        Some(StageCost { ms: parts[stage].both_ms(), mib })
    }

    /// What the stages of a plan take. `None` where some split was not measured.
    pub fn parts(&self, plan: &PipelinePlan) -> Option<Vec<StageParts>> {
        (0..plan.stages.len()).map(|stage| self.stage_parts(plan, stage)).collect()
    }

    /// Milliseconds of a step that the cost adds to the measured time of a stage's operators. `None` where
    /// some split was not measured.
    pub fn added_ms(&self, plan: &PipelinePlan, stage: usize) -> Option<f64> {
        let (step, choice) = (plan.step(), &plan.stages[stage]);
        let added = |(at, own): (usize, &OpChoice)| {
            let rows = self.tables.rows.get(&own.split(plan.microbatch)?)?;
            let adjusted = self.profile(choice.start + at, own, &step)?;
            Some(adjusted.both_ms() - rows[self.chain.rows[choice.start + at]].both_ms())
        };
        let all: Vec<f64> = choice.ops.iter().enumerate().map(added).collect::<Option<_>>()?;
        Some(all.into_iter().sum::<f64>() * self.n_microbatches(plan.microbatch))
    }

    fn position(&self, plan: &PipelinePlan, stage: usize) -> Position {
        let own = plan.devices(stage).expect("a stage of the plan");
        let before = stage.checked_sub(1).and_then(|before| plan.devices(before));
        let after = plan.devices(stage + 1);
        let node = |device: usize| device / self.devices_per_node;
        let [is_far_before, is_far_after] = match plan.schedule.n_chunks() {
            1 => [own.start, own.end].map(|at| at > 0 && at.is_multiple_of(self.devices_per_node)),
            _ => [
                before.as_ref().is_some_and(|before| node(before.end - 1) != node(own.start)),
                after.as_ref().is_some_and(|after| node(own.end - 1) != node(after.start)),
            ],
        };
        let crowded = |other: Option<Range<usize>>| match (other, &self.own) {
            (Some(other), Some(_)) => (own.len() as f64 / other.len() as f64).max(1.0),
            _ => 1.0,
        };
        let (crowded_before, crowded_after) = (crowded(before), crowded(after));
        Position { is_far_before, is_far_after, crowded_before, crowded_after }
    }

    /// A chosen operator's row with the terms of the cost.
    fn profile(&self, op: usize, choice: &OpChoice, step: &Step) -> Option<OpProfile> {
        let rows = self.tables.rows.get(&choice.split(step.microbatch)?)?;
        Some(self.adjusted(op, &rows[self.chain.rows[op]], choice, step))
    }

    fn stage_parts(&self, plan: &PipelinePlan, stage: usize) -> Option<StageParts> {
        let (step, choice) = (plan.step(), &plan.stages[stage]);
        let profile = |(at, own): (usize, &OpChoice)| self.profile(choice.start + at, own, &step);
        let profiles: Vec<OpProfile> = choice.ops.iter().enumerate().map(profile).collect::<Option<_>>()?;
        let [forward_ms, backward_ms] = self.stage_ms(choice, &profiles, self.position(plan, stage));
        let weight_gradient_ms = profiles.iter().map(weight_gradient_ms).sum();
        let state_mib = profiles.iter().map(|profile| profile.state_mib).sum();
        let [kept_mib, spare_mib] = self.stage_mib(choice, &profiles);
        Some(StageParts { forward_ms, backward_ms, weight_gradient_ms, state_mib, spare_mib, kept_mib })
    }

    /// Milliseconds of the forward and the backward part.
    fn stage_ms(&self, stage: &StageChoice, profiles: &[OpProfile], position: Position) -> [f64; 2] {
        let last = stage.ops.len() - 1;
        let send = (
            self.send_before_ms(stage.start, profiles[0].input_mib, position.is_far_before),
            self.send_after_ms(stage.start + last, profiles[last].output_mib, position.is_far_after),
        );
        let [mut forward_ms, mut backward_ms] =
            [send.0 * position.crowded_before, send.1 * position.crowded_after];
        for (at, (choice, profile)) in stage.ops.iter().zip(profiles).enumerate() {
            forward_ms += profile.forward_ms;
            backward_ms += profile.backward_ms + if choice.recompute { profile.forward_ms } else { 0.0 };
            if at > 0 {
                forward_ms +=
                    self.reshard_ms(stage.start + at, &stage.ops[at - 1], choice, profile.input_mib);
            }
        }
        [forward_ms, backward_ms]
    }

    /// MiB that a microbatch keeps, and MiB that a recomputed run holds and the allocator has in reserve.
    fn stage_mib(&self, stage: &StageChoice, profiles: &[OpProfile]) -> [f64; 2] {
        let mut kept_mib = profiles[0].input_mib;
        let (mut run_mib, mut peak_mib, mut reserved) = (0.0f64, 0.0f64, [0.0f64; 2]);
        for (at, profile) in profiles.iter().enumerate() {
            let op = stage.start + at;
            let next = stage.ops.get(at + 1);
            let own_mib = profile.activation_mib * self.chain.kept[op];
            let runs_on = stage.ops[at].recompute && next.is_some_and(|next| next.recompute);
            run_mib += if runs_on { own_mib } else { 0.0 };
            // The last operator of a run keeps its result, and so does the last of a layer.
            if !runs_on || self.chain.ends_runs[op + 1] {
                let is_forgotten =
                    self.forgets_last_run && next.is_none() && at > 0 && self.chain.kept[op - 1] != 1.0;
                peak_mib = peak_mib.max(if is_forgotten { 0.0 } else { run_mib });
                (kept_mib, run_mib) = (kept_mib + own_mib, 0.0);
            }
            if next.is_some() {
                reserved[0] = reserved[0].max(profile.forward_reserved_mib);
                reserved[1] = reserved[1].max(profile.backward_reserved_mib);
            }
        }
        let weight_mib: f64 = profiles.iter().map(|profile| profile.weight_mib).sum();
        [kept_mib, peak_mib + (reserved[0] + reserved[1]).max(weight_mib)]
    }
}

/// Of an operator with parameters half of the measured backward part is taken to be their gradients: two
/// products of one size.
pub(super) fn weight_gradient_ms(profile: &OpProfile) -> f64 {
    if profile.weight_mib > 0.0 { (0.5 * profile.backward_ms).min(profile.forward_ms) } else { 0.0 }
}

#[cfg(test)]
mod tests;
