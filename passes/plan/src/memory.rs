//! Memory of one device per stage, with all stages that it holds, by liveness over the text in program order.
//!
//! A value lives from its instruction to its last reader. Values that fusion keeps in registers
//! ([`crate::pricing::is_materialised`]) have no memory, but keep what they are made of alive. Views, tuples
//! and their elements, and what a loop passes on unchanged, are the buffers of their operands. Parameters
//! live throughout; an output that reuses a parameter's buffer costs nothing if the parameter has been read
//! for the last time by then. An elementwise op or an update may write over an operand of the same size that
//! dies there. A loop adds the peak of its body beyond what it carries; a conditional that of its largest
//! branch. With microbatches see [`crate::derive::Nature`]: the sweep has one, under way; what the others in
//! flight keep is in `held.rs`, where devices hold several stages in `shared.rs`, and what all share, such as
//! accumulators, in `lasting.rs`. `check` has its own figure, by a replay of all tasks, which is never
//! larger. Bytes are those of XLA's unpadded buffers; fragmentation is in the device's usable fraction.

mod by_instr;
mod describe;
mod held;
mod lasting;
mod live;
mod role;
mod shared;
mod sweep;
#[cfg(test)]
mod tests;

pub use by_instr::memory_by_instr;
pub use describe::{amount, at_peak, largest_at_peak, remedy};
pub use shared::GroupMemory;

use crate::derive::{Facts, aliased, derive};
use held::Held;
use lasting::Lasting;
use live::{Live, live};
use phzc_cost::Cluster;
use phzc_ir::{CompId, InstrId, Module, Result};
use rayon::prelude::*;
use role::roles;
use shared::Shared;
use sweep::Sweep;

/// What one device of each stage needs, and what it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// One per stage.
    pub stages: Vec<StageMemory>,
    /// What a program can use of a device's memory, in bytes.
    pub limit_bytes: f64,
}

/// What one device of a stage needs: the same of all stages that it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageMemory {
    /// The most bytes in use at once, parameters included.
    pub peak_bytes: f64,
    /// Bytes of parameters.
    pub parameter_bytes: f64,
    /// The entry's instruction at which the peak is.
    pub at: Option<InstrId>,
}

/// Memory of a planned module on a cluster.
///
/// # Errors
/// When the header's notes cannot be read.
pub fn memory(module: &Module, cluster: &Cluster) -> Result<Memory> {
    Ok(memory_of(module, &derive(module)?, cluster))
}

/// The same, of facts that are known already.
pub fn memory_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Memory {
    let n_groups = facts.header.n_groups();
    let groups: Vec<StageMemory> = with_sweep(module, facts, |sweep| {
        let group = |group| Sweep { group, n_held: in_flight(facts, group), ..sweep }.entry();
        (0..n_groups).into_par_iter().map(group).collect()
    });
    let stages = (0..facts.header.meshes.len()).map(|stage| groups[facts.header.group(stage)].clone());
    Memory { stages: stages.collect(), limit_bytes: cluster.accelerator.usable_bytes() }
}

/// Per stage, per number of microbatches: the most bytes that a device needs while it holds the activations
/// of that many, from none to as many as the schedule lets it hold; the last is its peak. Each stage has
/// devices of its own.
pub fn memory_held(module: &Module, facts: &Facts) -> Vec<Vec<f64>> {
    with_sweep(module, facts, |sweep| {
        let holding = |group, n_held| Sweep { group, n_held, ..sweep }.entry().peak_bytes;
        let stage = |stage| (0..=in_flight(facts, stage)).map(|n_held| holding(stage, n_held)).collect();
        (0..facts.header.meshes.len()).map(stage).collect()
    })
}

/// What a device of each group needs as it holds more or less, where groups hold several stages each.
pub fn memory_shared(module: &Module, facts: &Facts) -> Option<Vec<GroupMemory>> {
    let interleaving = facts.header.interleaving()?;
    with_sweep(module, facts, |sweep| {
        let shared = sweep.shared?;
        let idle = shared.idle();
        let memory = |group| {
            let kept_bytes: Vec<f64> =
                facts.header.stages_of(group).map(|stage| shared.kept_bytes[stage]).collect();
            let peak_bytes = Sweep { group, n_held: 1, ..sweep }.entry().peak_bytes;
            let idle = Sweep { group, n_held: 0, shared: Some(&idle), ..sweep }.entry();
            let base_bytes = peak_bytes - interleaving.most_held(group, &kept_bytes);
            GroupMemory { idle_bytes: idle.peak_bytes, base_bytes, kept_bytes }
        };
        Some((0..facts.header.n_groups()).map(memory).collect())
    })
}

/// Does with a plan's text what needs its liveness: a sweep of no group yet.
fn with_sweep<T>(module: &Module, facts: &Facts, then: impl FnOnce(Sweep) -> T) -> T {
    let of = |index: usize| live(module, CompId::new(index), &facts.comps[index]);
    let is_planned = |index: usize| !facts.comps[index].is_empty();
    let lives: Vec<Option<Live>> =
        (0..module.comps.len()).map(|index| is_planned(index).then(|| of(index))).collect();
    let live = lives[module.entry.index()].as_ref();
    let (aliases, roles) = (aliased(module), roles(module));
    let held = live.and_then(|live| Held::of_plan(module, facts, live));
    let shared = live.and_then(|live| Shared::new(module, facts, live));
    let lasting = live.and_then(|live| Lasting::new(module, facts, live));
    let (held, shared, lasting) = (held.as_ref(), shared.as_ref(), lasting.as_ref());
    let (lives, aliases, roles, group, n_held) = (&lives, &aliases, &roles, 0, 0);
    then(Sweep { module, facts, lives, aliases, roles, held, shared, lasting, group, n_held })
}

/// The most microbatches of which a stage holds anything at once.
fn in_flight(facts: &Facts, stage: usize) -> usize {
    let header = &facts.header;
    header.schedule.n_in_flight(stage, header.meshes.len(), header.n_own_microbatches())
}
