//! The stacks whose configurations are searched, and what each restricts (docs/exports.md, "What a stack cannot
//! say"). Whether a plan can be said is judged by the export itself.

use super::super::arguments::Arguments;
use super::Degrees;
use crate::export::Stack;
use phzc_ir::counted;
use phzc_passes::report::Plan;

/// A stack whose configurations are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// Megatron-LM.
    Megatron,
    /// torchtitan.
    Torchtitan,
    /// `DeepSpeed`.
    Deepspeed,
    /// PyTorch's FSDP2.
    Fsdp,
    /// `MaxText`.
    Maxtext,
}

/// What a stack restricts.
pub struct Restrictions {
    pub target: Target,
    /// What people call it.
    pub name: &'static str,
    /// How its configurations are called.
    pub noun: &'static str,
    /// Whether tensor parallelism has sequences in parts.
    pub has_sequence: bool,
    /// Stages of ZeRO; of one copy the first counts.
    pub zero: &'static [u8],
    /// Whether device groups hold several stages.
    pub has_chunks: bool,
    /// What is recomputed where memory is short, the least first.
    pub recompute: &'static [&'static str],
    allows: fn(Degrees, usize) -> bool,
}

const NOTHING: &str = "";
const SELECTIVE: &str = " --recompute-granularity selective";
const FULL: &str = " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";

const STACKS: [Restrictions; 5] = [
    Restrictions {
        target: Target::Megatron,
        name: "Megatron-LM",
        noun: "arguments",
        has_sequence: true,
        zero: &[1],
        has_chunks: true,
        recompute: &[NOTHING, SELECTIVE, FULL],
        allows: |_, _| true,
    },
    // FSDP splits parameters too, or copies are whole.
    Restrictions {
        target: Target::Torchtitan,
        name: "torchtitan",
        noun: "degrees",
        has_sequence: true,
        zero: &[0, 3],
        has_chunks: true,
        recompute: &[NOTHING, FULL],
        allows: |_, _| true,
    },
    // Its pipeline takes ZeRO-1 at most, and AutoTP ZeRO-2 at most and no pipeline.
    Restrictions {
        target: Target::Deepspeed,
        name: "DeepSpeed",
        noun: "degrees",
        has_sequence: false,
        zero: &[0, 1, 3],
        has_chunks: false,
        recompute: &[NOTHING, FULL],
        allows: |it, _| {
            let is_zero_3 = it.zero == 3;
            !(it.pipeline > 1 && (is_zero_3 || it.tensor > 1) || it.tensor > 1 && is_zero_3)
        },
    },
    // Without a schedule there is no pipeline.
    Restrictions {
        target: Target::Fsdp,
        name: "FSDP2",
        noun: "degrees",
        has_sequence: true,
        zero: &[0, 3],
        has_chunks: false,
        recompute: &[NOTHING, FULL],
        allows: |it, _| it.pipeline == 1,
    },
    // Microbatches go around the stages in whole rounds.
    Restrictions {
        target: Target::Maxtext,
        name: "MaxText",
        noun: "degrees",
        has_sequence: true,
        zero: &[0, 1, 3],
        has_chunks: false,
        recompute: &[NOTHING, FULL],
        allows: |it, n_microbatches| n_microbatches.is_multiple_of(it.pipeline),
    },
];

impl Target {
    /// What it restricts.
    pub fn restrictions(self) -> &'static Restrictions {
        STACKS.iter().find(|it| it.target == self).unwrap_or(&STACKS[0])
    }
}

impl Restrictions {
    /// Whether the stack has such degrees, with so many microbatches.
    pub(super) fn allows(&self, degrees: Degrees, n_microbatches: usize) -> bool {
        (self.allows)(degrees, n_microbatches)
    }

    /// Asks for what Megatron-LM's arguments do not say: ZeRO's stage exactly, and the order of microbatches.
    pub(super) fn ask(&self, asked: &mut Arguments, degrees: Degrees) {
        if self.target != Target::Megatron {
            (asked.zero, asked.is_exact) = (degrees.zero, true);
        }
        asked.is_gpipe = self.target == Target::Maxtext;
    }

    /// Weights that have to be gathered may make a plan share out otherwise than it was asked to.
    ///
    /// # Errors
    /// When it is not as the stack shares out.
    pub fn check_zero(&self, plan: &Plan) -> Result<(), String> {
        let zero = zero(plan);
        // Who shares states out may share gradients out too, unless its writer says otherwise.
        match self.zero.contains(&zero) || zero == 2 && self.zero.contains(&1) {
            true => Ok(()),
            false => Err(format!("{} has no ZeRO-{zero}", self.name)),
        }
    }

    /// What says a plan: Megatron-LM's arguments, or the degrees of other stacks.
    pub(super) fn words(&self, arguments: String, plan: &Plan, degrees: Degrees) -> String {
        if self.target == Target::Megatron {
            return arguments;
        }
        let Degrees { tensor, pipeline, micro_batch, n_chunks, .. } = degrees;
        let data = plan.n_devices / (tensor * pipeline);
        let sequence = if tensor > 1 && self.has_sequence { ", sequence parallel" } else { "" };
        let chunks = if n_chunks > 1 { format!(", {n_chunks} stages per device") } else { String::new() };
        let recomputes = if arguments.ends_with(FULL) { "everything" } else { "nothing" };
        format!(
            "data {data}, tensor {tensor}{sequence}, pipeline {pipeline}{chunks}, ZeRO-{}, {} per microbatch, \
             {recomputes} is recomputed",
            zero(plan),
            counted(micro_batch, "sample")
        )
    }

    /// Its writer, where all that a plan has must be said.
    pub fn writer(&self) -> Option<Stack> {
        match self.target {
            // Its own arguments are priced: what they do is the plan.
            Target::Megatron => None,
            Target::Torchtitan => Some(Stack::Torchtitan),
            Target::Deepspeed => Some(Stack::Deepspeed),
            Target::Fsdp => Some(Stack::Fsdp),
            Target::Maxtext => Some(Stack::Maxtext),
        }
    }
}

/// The most that the stages of a plan share out.
fn zero(plan: &Plan) -> u8 {
    let of_stages = plan.stages.iter().filter_map(|stage| stage.parallelism.as_ref()?.zero_stage);
    of_stages.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_have_their_own_degrees() {
        let degrees = Degrees { tensor: 2, pipeline: 2, micro_batch: 1, n_chunks: 1, zero: 1 };
        let allows = |target: Target, degrees| target.restrictions().allows(degrees, 3);
        assert!(allows(Target::Megatron, degrees) && allows(Target::Torchtitan, degrees));
        assert!(!allows(Target::Deepspeed, degrees), "AutoTP has no pipeline");
        assert!(!allows(Target::Deepspeed, Degrees { pipeline: 1, zero: 3, ..degrees }), "nor ZeRO-3");
        assert!(allows(Target::Deepspeed, Degrees { pipeline: 1, ..degrees }));
        assert!(!allows(Target::Fsdp, degrees), "no schedule");
        assert!(!allows(Target::Maxtext, degrees), "three microbatches are no rounds of two stages");
    }
}
