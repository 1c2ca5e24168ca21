//! What single instructions cost: the figures that dumps carry as remarks.

use super::price::{local, op_runs, product_dtype, step_runs};
use crate::derive::{Facts, InstrFacts, Nature, Step, planned_comps};
use crate::memory::memory_by_instr;
use crate::pricing::{self, AxisMask, Kernel, Local};
use phzc_cost::{Cluster, Collective, Source};
use phzc_ir::{CompId, InstrId, Module};

/// What an instruction costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstrCosts {
    /// What takes time: the kernel first, then what is copied out of one to be moved, then the collectives.
    pub parts: Vec<Cost>,
    /// Bytes of its value on one device, of one microbatch.
    pub value_bytes: f64,
    /// Bytes in use on one device while it runs.
    pub memory_bytes: f64,
}

/// A kernel of an instruction, what is copied out of one to be moved, or a collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What it takes its time for.
    pub bound: Bound,
    /// How often in one step: loops and microbatches multiplied out.
    pub times: u64,
    /// Seconds of one time.
    pub secs: f64,
    /// Bytes of one time on one device: a kernel's memory traffic, a collective's message.
    pub bytes: f64,
    /// Where the seconds come from.
    pub source: Source,
}

/// What bounds a kernel, or that it is a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The matrix units.
    Matrix,
    /// The vector units.
    Vector,
    /// Memory traffic.
    Memory,
    /// Its launch, which takes longer than the rest.
    Launch,
    /// The collective and the mesh axes that it goes over.
    Collective(Collective, AxisMask),
}

/// The costs of every instruction, by computation; none of computations that ops apply to scalars.
pub fn costs_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Vec<InstrCosts>> {
    let memory = memory_by_instr(module, facts);
    let mut found = vec![Vec::new(); module.comps.len()];
    for comp in planned_comps(module) {
        let ids = (0..module.comp(comp).instrs.len()).map(InstrId::new);
        let costs = |id: InstrId| InstrCosts {
            parts: parts(module, facts, cluster, comp, id),
            value_bytes: value_bytes(facts, &facts.comps[comp.index()][id.index()]),
            memory_bytes: memory[comp.index()][id.index()],
        };
        found[comp.index()] = ids.map(costs).collect();
    }
    found
}

/// What takes time of an instruction.
pub(super) fn parts(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    comp: CompId,
    id: InstrId,
) -> Vec<Cost> {
    let (instr, own) = (module.comp(comp).instr(id), &facts.comps[comp.index()][id.index()]);
    let cluster = facts.header.around(cluster, own.stage);
    let executions = facts.executions[comp.index()];
    let (op, moved) = (op_runs(facts, comp, id, instr), step_runs(facts, own));
    let local = local(own, product_dtype(module, comp, instr), op);
    let (secs, source) = pricing::op_price(cluster, &local);
    let kernel = Cost {
        bound: bound(cluster, &local),
        times: (op.times * executions) as u64,
        secs,
        bytes: local.work.bytes,
        source,
    };
    let mesh = &facts.header.meshes[own.stage];
    let times = (moved.times * executions) as u64;
    let collective = |step: &Step| {
        let (bound, bytes) = (Bound::Collective(step.kind, step.axes), step.bytes * moved.share);
        let (secs, source) = pricing::collective_price(cluster, mesh, step.kind, step.axes, bytes);
        Cost { bound, times, secs, bytes, source }
    };
    let spilled = own.spilled_bytes.map(|bytes| {
        let bytes = bytes.map(|bytes| bytes * moved.share);
        let (secs, source) = pricing::spill_price(cluster, bytes);
        let is_short = cluster.accelerator.launch_secs > 0.5 * secs;
        let bound = if is_short { Bound::Launch } else { Bound::Memory };
        Cost { bound, times, secs, bytes: bytes.iter().sum(), source }
    });
    let all = std::iter::once(kernel).chain(spilled).chain(own.steps.iter().map(collective));
    all.filter(|cost| cost.secs > 0.0).collect()
}

fn bound(cluster: &Cluster, local: &Local) -> Bound {
    let device = &cluster.accelerator;
    let (compute_secs, memory_secs) =
        (pricing::compute_secs(cluster, local), device.memory_secs(local.work.bytes));
    let is_launched = matches!(local.kernel, Kernel::Vector | Kernel::Matrix);
    match local.kernel {
        _ if is_launched && device.launch_secs > compute_secs.max(memory_secs) => Bound::Launch,
        _ if compute_secs < memory_secs => Bound::Memory,
        Kernel::Matrix | Kernel::Attention(Some(_)) => Bound::Matrix,
        _ if 2.0 * pricing::inner_products_secs(cluster, local) > compute_secs => Bound::Matrix,
        Kernel::Attention(None) => Bound::Memory,
        Kernel::Nothing | Kernel::Fused | Kernel::Joined | Kernel::Vector => Bound::Vector,
    }
}

/// Of what is there once per microbatch a part.
fn value_bytes(facts: &Facts, own: &InstrFacts) -> f64 {
    let n_parts = facts.header.n_microbatches as f64;
    let share = |nature: Option<&Nature>| if nature == Some(&Nature::Part) { 1.0 / n_parts } else { 1.0 };
    own.bytes.iter().enumerate().map(|(leaf, bytes)| bytes * share(own.natures.get(leaf))).sum()
}
