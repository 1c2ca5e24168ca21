//! From the text of a planned module to facts about every instruction: layouts, the loops that are split,
//! the part of the work that one device does, and the communication that the layouts imply.
//!
//! Nothing here knows how the plan was made: layouts come from `sharding={…}`, loops from the factor rules,
//! stage and phase from phzc's notes. Preconditions: a verified module whose calls and fusions are inlined.
//! `check` judges these facts, [`crate::report`] prices them.

mod agree;
pub mod aliases;
mod deferred_wgrad;
mod fused;
mod header;
mod listed;
mod local;
mod loops;
mod micro;
mod moves;
mod ops;
pub mod order;
mod origin;
mod parts;
mod read;
mod replicas;
mod scatter;
mod shifts;
mod split;
mod sums;
#[cfg(test)]
mod tests;

pub use deferred_wgrad::{Turn, deferred_by_schedule, put_off, put_off_of, put_off_of_plan};
pub use header::{Header, header, is_planned};
pub use listed::{known, listed};
pub use loops::{Loops, OpStep, loops};
pub use micro::Nature;
pub use moves::{Move, moves};
pub use ops::{is_added, is_move};
pub use order::is_made_of_constants;
pub use origin::{is_naming, operand_origins, origin, origin_by, origins};
pub use parts::{BatchSplit, batch_splits, batch_splits_of};
pub use phzc_ir::notes::Phase;
pub use phzc_ir::{Aliased, aliased};
pub use read::{element_start, local_bytes};
pub use replicas::{Replica, note_of};
pub use scatter::{Readers, sliced_layout};
pub use sums::{is_linear, left, reductions};

use crate::partitioned::partitioned;
use crate::pricing::{AxisMask, Kernel};
use local::GroupAxes;
use ops::Deriver;
use phzc_cost::Collective;
use phzc_ir::device_groups::Devices;
use phzc_ir::{
    AttentionNote, CompId, DType, FactorId, InstrId, Layout, MAX_AXES, Module, Opcode, Product, Result, Work,
    flops,
};
use smallvec::SmallVec;

/// What the text of a module says about its plan.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Meshes, microbatches and the planner's own figures.
    pub header: Header,
    /// Per computation and instruction; empty for computations that ops apply to scalars.
    pub comps: Vec<Vec<InstrFacts>>,
    /// How often each computation runs in one step; loops of unknown length run once.
    pub executions: Vec<f64>,
    /// Everything that is not as it should be, in program order.
    pub problems: Vec<Problem>,
}

/// What the text says about one instruction.
#[derive(Clone, Debug, Default)]
pub struct InstrFacts {
    /// The layout of each leaf of its value.
    pub leaves: SmallVec<[Leaf; 1]>,
    /// Bytes of each leaf on one device.
    pub bytes: SmallVec<[f64; 1]>,
    /// The pipeline stage that runs it.
    pub stage: usize,
    /// The part of the step that it belongs to.
    pub phase: Phase,
    /// The fused attention that it is part of.
    pub attention: Option<AttentionNote>,
    /// How each leaf of its value relates to microbatches.
    pub natures: SmallVec<[Nature; 1]>,
    /// Mesh axes that split its loops.
    pub axes: AxisMask,
    /// Per mesh axis, the loop of its rule that it splits.
    pub split: [Option<FactorId>; MAX_AXES],
    /// What one device does in one execution: flops of its part, bytes between memory and cores.
    pub work: Work,
    /// The loops of the product that it is, one device's part.
    pub product: Option<Product>,
    /// How it runs.
    pub kernel: Kernel,
    /// Whether its value has a place in memory, its own or its operand's.
    pub in_memory: bool,
    /// Whether its value has memory of its own.
    pub is_allocated: bool,
    /// Bytes that one device writes and reads beside its kernel ([`crate::pricing::spill_secs`]).
    pub spilled_bytes: Option<[f64; 2]>,
    /// Bytes that one device reads of each operand leaf.
    pub reads: SmallVec<[f64; 3]>,
    /// Communication of one execution.
    pub steps: Vec<Step>,
}

/// A layout and the stage whose mesh it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// Which mesh axes split which dimension.
    pub layout: Layout,
    /// The stage.
    pub stage: usize,
    /// The axes over which it is a sum that is still to be done, one summand per device.
    pub partial: AxisMask,
}

/// A collective that an instruction does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Which.
    pub kind: Collective,
    /// The mesh axes whose devices talk.
    pub axes: AxisMask,
    /// Element type of the message.
    pub dtype: DType,
    /// Message bytes on one device, in NCCL's convention (see [`crate::pricing::collective_secs`]).
    pub bytes: f64,
    /// Whether the plan does not say so: a partitioner would have to insert it.
    pub is_implicit: bool,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its computation.
    pub comp: CompId,
    /// The instruction.
    pub instr: InstrId,
    /// Whether no partitioner could go on from here; the others cost time but not sense.
    pub is_fatal: bool,
    /// What is wrong.
    pub message: String,
}

/// Reads a planned module.
///
/// # Errors
/// When the header's notes cannot be read.
pub fn derive(module: &Module) -> Result<Facts> {
    let header = header(module)?;
    let executions = flops::multiplicities(module, flops::Runs::Trips);
    let comps = vec![Vec::new(); module.comps.len()];
    let groups = GroupAxes::new(devices(module, &header));
    let facts = Facts { header, comps, executions, problems: Vec::new() };
    let mut deriver = Deriver { module, facts, groups };
    for comp in planned_comps(module) {
        deriver.comp(comp);
    }
    agree::check(module, &mut deriver.facts);
    let aliases = aliases::problems(module, &deriver.facts);
    deriver.facts.problems.extend(aliases);
    let ends = sums::ends(module, &deriver.facts);
    deriver.facts.problems.extend(ends);
    micro::natures(module, &mut deriver.facts);
    deriver.facts.problems.sort_by_key(|problem| (problem.comp, problem.instr));
    Ok(deriver.facts)
}

/// The devices that run a module.
fn devices(module: &Module, header: &Header) -> Devices {
    let flat = Devices { n_replicas: 1, n_partitions: header.n_replica_devices(), first: None };
    partitioned(module).map_or(flat, |it| it.devices)
}

/// The entry and all that it runs as loops and branches, callees first.
pub fn planned_comps(module: &Module) -> Vec<CompId> {
    let mut found = vec![false; module.comps.len()];
    found[module.entry.index()] = true;
    for index in (0..module.comps.len()).rev().filter(|&index| index <= module.entry.index()) {
        if found[index] {
            let inner = module.comps[index].instrs.iter().flat_map(control_flow);
            inner.for_each(|comp| found[comp.index()] = true);
        }
    }
    (0..found.len()).filter(|&index| found[index]).map(CompId::new).collect()
}

/// Gives the instructions of loops and branches what the entry's instruction has that runs them.
pub fn with_callees<T: Copy + Default>(module: &Module, entry: Vec<T>) -> Vec<Vec<T>> {
    let none = |comp: &phzc_ir::Computation| vec![T::default(); comp.instrs.len()];
    let mut found: Vec<Vec<T>> = module.comps.iter().map(none).collect();
    found[module.entry.index()] = entry;
    for comp in planned_comps(module).into_iter().rev() {
        for (id, instr) in module.comp(comp).iter() {
            let own = found[comp.index()][id.index()];
            control_flow(instr).into_iter().for_each(|callee: CompId| found[callee.index()].fill(own));
        }
    }
    found
}

/// The computations that a loop or a conditional runs.
pub fn control_flow(instr: &phzc_ir::Instr) -> SmallVec<[CompId; 2]> {
    match instr.op {
        Opcode::While | Opcode::Conditional => instr.called().collect(),
        _ => SmallVec::new(),
    }
}
