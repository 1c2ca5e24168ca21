//! ZeRO's stages: which of parameters, gradients and optimizer states are split over devices that have
//! different data.

use super::labels::source;
use super::products::ForwardProduct;
use crate::derive::{Facts, Phase};
use crate::pricing::AxisMask;
use phzc_analysis::graph::{Graph, NodeKind, TensorId};
use phzc_ir::{MAX_AXES, Opcode};
use std::collections::{BTreeMap, BTreeSet};

/// How forward products use a weight.
#[derive(Default)]
struct Use {
    stage: usize,
    /// Axes along which its products have different data.
    data: AxisMask,
    /// Axes that split it there.
    own: AxisMask,
}

/// Bytes that are split over data, and all.
#[derive(Clone, Copy, Default)]
struct Share {
    split_bytes: f64,
    all_bytes: f64,
}

#[derive(Clone, Copy, Default)]
struct Shares {
    states: Share,
    gradients: Share,
    parameters: Share,
}

/// ZeRO's stage of each pipeline stage, by the larger part of the bytes; `None` where no weight that is
/// updated meets different data on different devices.
pub fn zero_stages(
    module: &phzc_ir::Module,
    facts: &Facts,
    graph: &Graph,
    products: &[ForwardProduct],
) -> Vec<Option<u8>> {
    let mut shares = vec![Shares::default(); facts.header.meshes.len()];
    for (param, used) in uses(graph, products) {
        let data = used.data & !used.own;
        let (_, instr, leaf) = graph.tensors[param as usize].home;
        let home = &facts.comps[module.entry.index()][instr.index()].leaves[leaf as usize];
        let outputs = graph.aliases.iter().filter(|(_, aliased)| *aliased == param);
        if data == 0 || home.stage != used.stage || outputs.clone().next().is_none() {
            continue;
        }
        let own = &mut shares[used.stage];
        own.parameters.add(facts, graph, param, data);
        for &(output, _) in outputs {
            for read in update_reads((module, facts, graph), output, param) {
                let is_state = graph.tensors[read as usize].param.is_some();
                let share = if is_state { &mut own.states } else { &mut own.gradients };
                share.add(facts, graph, read, data);
            }
        }
    }
    shares.iter().map(Shares::zero).collect()
}

/// The weights that products read, as inputs of the program.
fn uses(graph: &Graph, products: &[ForwardProduct]) -> BTreeMap<TensorId, Use> {
    let mut found: BTreeMap<TensorId, Use> = BTreeMap::new();
    for product in products {
        let read = product.weight.and_then(|slot| source(graph, product.node.operands[slot]));
        if let Some(param) = read {
            let used = found.entry(param).or_default();
            used.stage = product.stage;
            used.data |= product.axes.data | product.axes.context;
            used.own |= product.weight_axes;
        }
    }
    found
}

/// What the update that makes an output reads of the output's size: optimizer states and gradients.
fn update_reads(
    (module, facts, graph): (&phzc_ir::Module, &Facts, &Graph),
    output: TensorId,
    param: TensorId,
) -> Vec<TensorId> {
    let n_elements = |id: TensorId| graph.tensors[id as usize].dims.iter().product::<i64>();
    let (mut work, mut seen, mut found) = (vec![output], BTreeSet::from([output, param]), Vec::new());
    while let Some(id) = work.pop() {
        let def = graph.tensors[id as usize].def;
        let node = &graph.nodes[def as usize];
        let phase = facts.comps[node.comp.index()].get(node.instr.index()).map(|own| own.phase);
        if node.kind == NodeKind::Op && phase == Some(Phase::Update) {
            let alike = node.operands.iter().filter(|&&it| n_elements(it) == n_elements(output));
            work.extend(alike.filter(|&&it| !graph.tensors[it as usize].is_free && seen.insert(it)));
        } else if id != param && graph.opcode(module, def) != Some(Opcode::Broadcast) {
            found.push(id);
        }
    }
    found
}

impl Share {
    fn add(&mut self, facts: &Facts, graph: &Graph, id: TensorId, data: AxisMask) {
        let tensor = &graph.tensors[id as usize];
        let (comp, instr, leaf) = tensor.home;
        let layout = facts.comps[comp.index()][instr.index()].leaves[leaf as usize].layout;
        let is_split = (0..MAX_AXES).any(|axis| data >> axis & 1 == 1 && layout.dim_of(axis).is_some());
        self.all_bytes += tensor.bytes;
        self.split_bytes += if is_split { tensor.bytes } else { 0.0 };
    }

    fn is_split(&self) -> bool {
        self.all_bytes > 0.0 && self.split_bytes >= 0.5 * self.all_bytes
    }
}

impl Shares {
    fn zero(&self) -> Option<u8> {
        let has_states = self.states.all_bytes > 0.0;
        match () {
            () if self.parameters.all_bytes == 0.0 => None,
            () if self.parameters.is_split() => Some(3),
            () if self.gradients.is_split() && (self.states.is_split() || !has_states) => Some(2),
            () if self.states.is_split() => Some(1),
            () => Some(0),
        }
    }
}
