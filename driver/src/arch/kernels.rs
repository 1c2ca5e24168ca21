//! The kernels of each layer of a training step: forward, backward and update as they are in the program.
//!
//! They are those that the report of a plan prices ([`phzc_passes::report`]), so that a layer takes what the
//! program takes once it is planned on the accelerator. A program without a backward part has none.

use super::scale::Batch;
use phzc_arch::program::{Kernel, Kernels};
use phzc_cost::roofline::FLOPS_PER_TRANSCENDENTAL;
use phzc_ir::notes::Phase;
use phzc_ir::{CompId, InstrId, Module, Result};
use phzc_passes::derive::{Facts, derive};
use phzc_passes::graph::{Graph, Node, NodeId, NodeKind, TensorId};
use phzc_passes::pricing::{Kernel as Runs, Local};
use phzc_passes::report::{InstrKernel, instr_kernels};
use std::collections::BTreeMap;

/// The kernels of a program by its layers.
pub(super) struct ProgramKernels<'a> {
    module: &'a Module,
    facts: Facts,
    /// By instruction: its layer.
    layers: BTreeMap<(CompId, InstrId), usize>,
    n_layers: usize,
}

impl<'a> ProgramKernels<'a> {
    /// Of a program with notes of phases; `forward` has the layers of its forward part. `None` where it has
    /// no backward part.
    ///
    /// # Errors
    /// When its notes cannot be read.
    pub fn of(
        module: &'a Module,
        graph: &Graph,
        batch: &Batch,
        forward: &[Option<usize>],
    ) -> Result<Option<Self>> {
        let facts = derive(module)?;
        let is_backward = |own: &phzc_passes::derive::InstrFacts| {
            own.phase == Phase::Backward && matches!(own.kernel, Runs::Matrix)
        };
        if !facts.comps.iter().flatten().any(is_backward) {
            return Ok(None);
        }
        let found = Finder { module, graph, batch, forward, facts: &facts }.layers();
        let mut layers = BTreeMap::new();
        for (node, layer) in graph.nodes.iter().zip(found) {
            layers.entry((node.comp, node.instr)).or_insert(layer);
        }
        let n_layers = forward.iter().flatten().max().map_or(1, |last| last + 1);
        Ok(Some(ProgramKernels { module, facts, layers, n_layers }))
    }

    /// By layer, for a microbatch that is a `share` of the program's batch.
    pub fn at(&self, share: f64) -> Vec<Kernels> {
        let mut found = vec![Kernels::default(); self.n_layers];
        for one in instr_kernels(self.module, &self.facts, share) {
            let layer = self.layers.get(&(one.comp, one.instr)).copied().unwrap_or(0);
            let own = &mut found[layer];
            let part = match one.phase {
                Phase::Forward => &mut own.forward,
                Phase::Backward => &mut own.backward,
                Phase::Update => &mut own.update,
            };
            kernels(&one).into_iter().for_each(|kernel| Kernels::add(part, kernel));
        }
        found
    }
}

/// The kernel of an instruction, and what is copied beside it.
fn kernels(one: &InstrKernel) -> Vec<Kernel> {
    let copied = Kernel {
        product: None,
        tensor_ops: 0.0,
        vector_ops: 0.0,
        bytes: one.spilled_bytes,
        times: one.times,
    };
    let mut found = Vec::from_iter((one.spilled_bytes > 0.0).then_some(copied));
    if one.local.kernel != Runs::Nothing {
        found.push(kernel(&one.local, one.times));
    }
    found
}

fn kernel(Local { work, product, kernel, .. }: &Local, times: f64) -> Kernel {
    let is_matrix = matches!(kernel, Runs::Matrix | Runs::Attention(_));
    let shape = product.filter(|_| is_matrix).map(|it| [it.batch, it.rows, it.columns, it.sums(work.flops)]);
    let (tensor_ops, vector_ops) = match (is_matrix, shape) {
        (true, Some(_)) => (0.0, 0.0),
        (true, None) => (work.flops, 0.0),
        _ => (work.products, work.flops - work.products + work.transcendentals * FLOPS_PER_TRANSCENDENTAL),
    };
    let product = shape.map(|sizes| sizes.map(|size| size.round().max(1.0) as u64));
    Kernel { product, tensor_ops, vector_ops, bytes: work.bytes, times }
}

/// Finds the layers of backward and update nodes.
struct Finder<'a> {
    module: &'a Module,
    graph: &'a Graph,
    batch: &'a Batch,
    forward: &'a [Option<usize>],
    facts: &'a Facts,
}

impl Finder<'_> {
    /// By node. A backward contraction is in the layer of the forward one that shares an operand with it;
    /// what else is backward in the first layer of the gradients that it reads; an update in that of the
    /// parameter.
    fn layers(&self) -> Vec<usize> {
        let mut found: Vec<Option<usize>> = Vec::with_capacity(self.graph.nodes.len());
        for (id, node) in self.graph.nodes.iter().enumerate() {
            let layer = match self.phase(node) {
                Phase::Forward => self.forward[id],
                Phase::Backward if node.is_contraction => {
                    self.shared(node).or_else(|| self.of_gradients(node, &found))
                }
                Phase::Backward => self.of_gradients(node, &found),
                Phase::Update => self.of_parameter(node).or_else(|| self.of_gradients(node, &found)),
            };
            found.push(layer);
        }
        found.into_iter().map(|layer| layer.unwrap_or(0)).collect()
    }

    fn phase(&self, node: &Node) -> Phase {
        self.facts.comps[node.comp.index()].get(node.instr.index()).map_or(Phase::Forward, |own| own.phase)
    }

    fn node(&self, tensor: TensorId) -> (NodeId, &Node) {
        let id = self.graph.tensors[tensor as usize].def;
        (id, &self.graph.nodes[id as usize])
    }

    /// The first layer with a forward contraction of its kind, a product or a look-up, that reads an operand
    /// of this one, or what that one only renames.
    fn shared(&self, node: &Node) -> Option<usize> {
        let is_product = self.is_product(node);
        node.operands.iter().filter_map(|tensor| self.reader(self.source(*tensor), is_product)).min()
    }

    fn is_product(&self, node: &Node) -> bool {
        let op = self.module.comp(node.comp).instr(node.instr).op;
        phzc_ir::flops::is_contraction(op)
    }

    /// What a tensor is a copy of in another shape or type.
    fn source(&self, mut tensor: TensorId) -> TensorId {
        loop {
            let (_, node) = self.node(tensor);
            let n_elements = |id: TensorId| self.graph.tensors[id as usize].dims.iter().product::<i64>();
            match node.operands[..] {
                [only]
                    if node.kind == NodeKind::Op
                        && n_elements(only) == n_elements(tensor)
                        && node.work.flops + node.work.transcendentals == 0.0 =>
                {
                    tensor = only
                }
                _ => return tensor,
            }
        }
    }

    /// The first layer whose forward products, or look-ups, read a tensor, also through copies of it.
    fn reader(&self, tensor: TensorId, is_product: bool) -> Option<usize> {
        let (mut open, mut first): (Vec<TensorId>, Option<usize>) = (vec![tensor], None);
        while let Some(tensor) = open.pop() {
            for (reader, _) in &self.graph.tensors[tensor as usize].uses {
                let (id, node) = (*reader as usize, &self.graph.nodes[*reader as usize]);
                if self.phase(node) != Phase::Forward || node.kind == NodeKind::Source {
                    continue;
                }
                if node.is_contraction {
                    let found = self.forward[id].filter(|_| self.is_product(node) == is_product);
                    first = first.into_iter().chain(found).min();
                } else {
                    open.extend(node.results.iter().filter(|it| self.source(**it) == self.source(tensor)));
                }
            }
        }
        first
    }

    /// The first layer of what it reads that is backward, else the last of what is forward.
    fn of_gradients(&self, node: &Node, found: &[Option<usize>]) -> Option<usize> {
        let made = |is_forward: bool| {
            let nodes = node.operands.iter().map(|tensor| self.node(*tensor));
            let of_phase = nodes.filter(move |(_, node)| {
                node.kind != NodeKind::Source && (self.phase(node) == Phase::Forward) == is_forward
            });
            of_phase.filter_map(|(id, _)| found.get(id as usize).copied().flatten())
        };
        made(false).min().or_else(|| made(true).max())
    }

    /// The layer that first reads a parameter that it reads.
    fn of_parameter(&self, node: &Node) -> Option<usize> {
        let is_parameter = |id: &&TensorId| {
            self.graph.tensors[**id as usize].param.is_some() && !self.batch.has_data[**id as usize]
        };
        let layers = node.operands.iter().filter(is_parameter).flat_map(|id| {
            let uses = self.graph.tensors[*id as usize].uses.iter();
            uses.filter_map(|(reader, _)| self.forward[*reader as usize])
        });
        layers.min()
    }
}
