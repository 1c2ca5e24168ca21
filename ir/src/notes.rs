//! The names of phzc's notes: what a plan says in a program's text, as `frontend_attributes` of its header
//! and its instructions.

/// Of the header: the passes that ran.
pub const PASSES: &str = "phzc.passes";
/// Of the header: the cluster that the program is planned for.
pub const CLUSTER: &str = "phzc.cluster";
/// Of the header: the planner's figures, as JSON.
pub const PLAN: &str = "phzc.plan";
/// Of the header: the mesh that every layout is of.
pub const MESH: &str = "phzc.mesh";
/// Of the header: the mesh of each stage where there are several: `0:x=4;1:x=2,y=2`.
pub const STAGES: &str = "phzc.stages";
/// Of the header: the replicas of all stages, each with how many microbatches it runs and the first device of
/// each of its device groups: `13:0;3:32`.
pub const REPLICAS: &str = "phzc.replicas";
/// Of the header: the program is what each device of this mesh runs: shapes are local, collectives explicit.
pub const SPMD: &str = "phzc.spmd";
/// Of the header: whose partitioner the text is to be read as.
pub const PARTITIONER: &str = "phzc.partitioner";
/// Of the header: the task of a stage that the module is.
pub const TASK: &str = "phzc.task";
/// Of the header: the parameters and results that have become one per layer: `parameters=3x12;results=1x12`.
pub const UNSTACKED: &str = "phzc.unstacked";
/// Of an instruction: the number of its ParallelBlock.
pub const BLOCK: &str = "phzc.block";
/// Of an instruction: `fwd`, `bwd` or `upd`.
pub const PHASE: &str = "phzc.phase";
/// Of an instruction: the fused attention that it is part of ([`crate::AttentionNote`]).
pub const ATTENTION: &str = "phzc.attention";
/// Of an instruction: its pipeline stage.
pub const STAGE: &str = "phzc.stage";
/// Of an instruction in a program that devices of all stages run: its pipeline stage.
pub const OF_STAGE: &str = "phzc.of_stage";
/// Of an instruction within a pass: the one that it is made for. No text that is written has it.
pub const SOURCE: &str = "phzc.source";
/// Of a contraction: Alpa's name of its strategy.
pub const STRATEGY: &str = "phzc.strategy";
/// Of a change of layout: the collective that it is.
pub const MOVE: &str = "phzc.move";
/// Of a copy that a plan makes where another layout is needed: the instruction whose value it makes again.
pub const REMADE: &str = "phzc.remade";
/// Of an instruction: the mesh axes over which its results are summands.
pub const PARTIAL: &str = "phzc.partial";
/// Of an instruction: its layout was given: `pin`, `1` by the program, or `open:` and the dimensions that the
/// program leaves open, as a set of bits in hexadecimal.
pub const GIVEN: &str = "phzc.given";
/// Of an instruction: the number of the parameter whose gradient it is.
pub const GRAD: &str = "phzc.grad";
/// Of a loop: how often it runs, as the user said.
pub const TRIPS: &str = "phzc.trips";
/// Of a custom call: what the user's table says of its kernel, lines of TOML in one.
pub const KERNEL: &str = "phzc.kernel";
/// Of a device's parameter or result: the layout of the whole value.
pub const GLOBAL: &str = "phzc.global";

/// A part of a training step, as [`PHASE`] says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Computes the outputs; all of an inference program. `fwd`, or no note.
    #[default]
    Forward,
    /// Computes gradients: `bwd`.
    Backward,
    /// Computes new parameters, once per step: `upd`.
    Update,
}

impl Phase {
    /// The phase that a note names; no note and unknown ones, which are a problem of a plan, are forward.
    pub fn parse(note: Option<&str>) -> Phase {
        match note {
            Some("bwd") => Phase::Backward,
            Some("upd") => Phase::Update,
            _ => Phase::Forward,
        }
    }

    /// The phase where one task runs forward and backward parts: they are one.
    #[must_use]
    pub fn in_one_task(self) -> Phase {
        if self == Phase::Backward { Phase::Forward } else { self }
    }

    /// The note's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Forward => "fwd",
            Phase::Backward => "bwd",
            Phase::Update => "upd",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_read_as_it_is_written_and_none_is_forward() {
        let all = [Phase::Forward, Phase::Backward, Phase::Update];
        assert_eq!(all.map(|phase| Phase::parse(Some(phase.as_str()))), all);
        assert_eq!([None, Some("forward")].map(Phase::parse), [Phase::Forward; 2]);
    }
}
