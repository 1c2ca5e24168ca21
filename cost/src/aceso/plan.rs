//! A pipeline plan and what it takes.

use super::Machine;
use crate::profile::OpSplit;

/// How one operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpChoice {
    /// Devices that share each sample.
    pub tensor: u32,
    /// Replicas that share the microbatch.
    pub data: u32,
    /// Which dimension the tensor-parallel devices split.
    pub algo: u32,
    /// Whether the backward part runs it forward again.
    pub recompute: bool,
}

/// One stage.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelinePlan {
    /// Samples of a microbatch over all replicas.
    pub microbatch: u32,
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

/// Where a stage lies, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    is_far_before: bool,
    is_far_after: bool,
    in_flight: usize,
}

impl OpChoice {
    /// The split whose row says what it takes.
    pub fn split(&self, microbatch: u32) -> Option<OpSplit> {
        let batch = microbatch.checked_div(self.data)?;
        (batch * self.data == microbatch).then_some(OpSplit { batch, tensor: self.tensor, algo: self.algo })
    }
}

impl Machine {
    /// What a plan takes: milliseconds of a step, and MiB of the fullest device. `None` where some split was not measured.
    pub fn price(&self, plan: &PipelinePlan) -> Option<StageCost> {
        let costs: Vec<StageCost> =
            (0..plan.stages.len()).map(|stage| self.price_stage(plan, stage)).collect::<Option<_>>()?;
        let longest_ms = costs.iter().map(|cost| cost.ms).fold(0.0, f64::max);
        let sum_ms: f64 = costs.iter().map(|cost| cost.ms).sum();
        let ms = longest_ms * (self.n_microbatches(plan.microbatch) - 1.0) + sum_ms;
        Some(StageCost { ms, mib: costs.iter().map(|cost| cost.mib).fold(0.0, f64::max) })
    }

    /// What one stage of a plan takes: milliseconds of a microbatch.
    pub fn price_stage(&self, plan: &PipelinePlan, stage: usize) -> Option<StageCost> {
        let first: usize = plan.stages[..stage].iter().map(|stage| stage.n_devices).sum();
        let after = first + plan.stages[stage].n_devices;
        let is_border = |device: usize| device > 0 && device.is_multiple_of(self.devices_per_node);
        let position = Position {
            is_far_before: is_border(first),
            is_far_after: is_border(after),
            in_flight: plan.stages.len() - stage,
        };
        self.price_ops(plan.microbatch, &plan.stages[stage], position)
    }

    fn price_ops(&self, microbatch: u32, stage: &StageChoice, position: Position) -> Option<StageCost> {
        let (ops, n_ops) = (&stage.ops, stage.ops.len());
        let (mut ms, mut weight_mib, mut kept_mib) = (0.0, 0.0, 0.0);
        let (mut run_mib, mut peak_mib, mut reserved) = (0.0f64, 0.0f64, [0.0f64; 2]);
        for (at, choice) in ops.iter().enumerate() {
            let op = stage.start + at;
            let profile = self.profile(op, microbatch, choice)?;
            ms += profile.both_ms() + if choice.recompute { profile.forward_ms } else { 0.0 };
            ms += match at {
                0 => self.tables.send_ms(profile.input_mib, position.is_far_before),
                _ => self.reshard_ms(&ops[at - 1], choice, profile.input_mib),
            };
            weight_mib += profile.weight_mib;
            let next = ops.get(at + 1);
            let own_mib = profile.activation_mib * self.chain.kept[op];
            let runs_on = choice.recompute && next.is_some_and(|next| next.recompute);
            run_mib = if runs_on { run_mib + own_mib } else { 0.0 };
            peak_mib = peak_mib.max(run_mib);
            // The last operator of a run keeps its result, and so does the last of a layer.
            if !runs_on || self.chain.ends_runs[op + 1] {
                (kept_mib, run_mib) = (kept_mib + own_mib, 0.0);
            }
            match next {
                Some(_) => {
                    reserved[0] = reserved[0].max(profile.forward_reserved_mib);
                    reserved[1] = reserved[1].max(profile.backward_reserved_mib);
                }
                None => ms += self.tables.send_ms(profile.output_mib, position.is_far_after),
            }
            kept_mib += if at == 0 { profile.input_mib } else { 0.0 };
        }
        debug_assert!(n_ops > 0, "a stage has operators");
        let in_flight_mib = kept_mib * position.in_flight as f64;
        let reserve_mib = (reserved[0] + reserved[1]).max(weight_mib);
        Some(StageCost { ms, mib: weight_mib * self.state_copies + in_flight_mib + peak_mib + reserve_mib })
    }
}
