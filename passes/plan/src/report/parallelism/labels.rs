//! What the loops of a program run over: samples (the batch), places within a sample (a sequence), or neither
//! (features).

use phzc_analysis::batch::{batch_dims_of, data};
use phzc_analysis::graph::{Graph, Node, NodeKind, TensorId};
use phzc_ir::dtype::Class;
use phzc_ir::rule::TensorMap;
use phzc_ir::{FactorId, FusionKind, Module};

/// Per tensor, by position in the graph: what its dimensions run over, a bit each.
pub struct Labels {
    /// Whether it depends on the data: an activation. The others are weights, and what follows from them.
    pub is_data: Vec<bool>,
    batch: Vec<u64>,
    places: Vec<u64>,
}

/// What a loop runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Samples.
    Batch,
    /// Places within a sample.
    Place,
    /// Features, heads, experts.
    Width,
}

impl Labels {
    /// The labels of a program: of its data, the first dimension is the batch, the others are places.
    pub fn new(module: &Module, graph: &Graph) -> Labels {
        let data = data_of(module, graph);
        let n_tensors = graph.tensors.len();
        let batch = batch_dims_of(graph, data.iter().copied());
        let mut labels = Labels { is_data: vec![false; n_tensors], batch, places: vec![0; n_tensors] };
        for id in data.into_iter().map(|id| id as usize) {
            labels.is_data[id] = true;
            labels.places[id] = (1..graph.tensors[id].dims.len().min(64)).fold(0, |all, dim| all | 1 << dim);
        }
        while labels.follow(graph) {}
        labels
    }

    /// One round from operands to results; whether anything has changed. Values that loops carry lead back to
    /// earlier nodes.
    fn follow(&mut self, graph: &Graph) -> bool {
        let mut is_changed = false;
        for node in &graph.nodes {
            if !node.operands.iter().any(|&id| self.is_data[id as usize]) {
                continue;
            }
            for &result in &node.results {
                is_changed |= !self.is_data[result as usize];
                self.is_data[result as usize] = true;
            }
            for (&result, map) in node.results.iter().zip(&node.rule.results) {
                let found = self.places_of(node, map);
                is_changed |= found & !self.places[result as usize] != 0;
                self.places[result as usize] |= found;
            }
        }
        is_changed
    }

    /// The dimensions of a result that some loop over places makes.
    fn places_of(&self, node: &Node, map: &TensorMap) -> u64 {
        let dims = map.iter().enumerate().take(64);
        let found = dims.filter(|(_, loops)| loops.iter().any(|&factor| self.is_place(node, factor)));
        found.fold(0, |all, (dim, _)| all | 1 << dim)
    }

    /// Of a dimension that runs over samples and places, the outermost loop has the samples.
    fn is_place(&self, node: &Node, factor: FactorId) -> bool {
        let is_of = |(&id, map): (&TensorId, &TensorMap)| {
            map.iter().enumerate().take(64).any(|(dim, loops)| {
                let is_batch = self.batch[id as usize] >> dim & 1 == 1 && loops.len() > 1;
                let is_outer = is_batch && outermost(node, loops) == Some(factor);
                self.places[id as usize] >> dim & 1 == 1 && loops.contains(&factor) && !is_outer
            })
        };
        node.operands.iter().zip(&node.rule.operands).any(is_of)
    }

    fn is_batch(&self, node: &Node, factor: FactorId) -> bool {
        let is_of = |(&id, map): (&TensorId, &TensorMap)| {
            map.iter().enumerate().take(64).any(|(dim, loops)| {
                self.batch[id as usize] >> dim & 1 == 1 && outermost(node, loops) == Some(factor)
            })
        };
        node.operands.iter().zip(&node.rule.operands).any(is_of)
    }

    /// What a loop of a node runs over, by the node's operands.
    pub fn of_loop(&self, node: &Node, factor: FactorId) -> Label {
        match () {
            () if self.is_batch(node, factor) => Label::Batch,
            () if self.is_place(node, factor) => Label::Place,
            () => Label::Width,
        }
    }

    /// What a dimension of a tensor runs over.
    pub fn of_dim(&self, tensor: TensorId, dim: usize) -> Label {
        match dim < 64 {
            true if self.batch[tensor as usize] >> dim & 1 == 1 => Label::Batch,
            true if self.places[tensor as usize] >> dim & 1 == 1 => Label::Place,
            _ => Label::Width,
        }
    }
}

fn outermost(node: &Node, loops: &[FactorId]) -> Option<FactorId> {
    loops.iter().copied().find(|&factor| node.rule.factors[factor as usize].size > 1)
}

/// The inputs that are data. Where no output takes an input's place, inference, those are the integers among
/// them, or else what the first product reads first.
fn data_of(module: &Module, graph: &Graph) -> Vec<TensorId> {
    if !graph.aliases.is_empty() {
        return data(graph).collect();
    }
    let is_index = |&id: &TensorId| {
        let tensor = &graph.tensors[id as usize];
        let is_int = matches!(tensor.dtype.class(), Class::Signed | Class::Unsigned);
        tensor.param.is_some() && !tensor.is_scalar() && is_int
    };
    let ints: Vec<TensorId> = (0..graph.tensors.len() as TensorId).filter(is_index).collect();
    if ints.is_empty() { first_read(module, graph).into_iter().collect() } else { ints }
}

fn first_read(module: &Module, graph: &Graph) -> Option<TensorId> {
    let product = (0..graph.nodes.len()).find(|&node| {
        let op = graph.opcode(module, node as u32);
        op.is_some_and(|op| op.def().fusion == FusionKind::Matrix)
    })?;
    source(graph, *graph.nodes[product].operands.first()?)
}

/// The input that a tensor is, moved, converted or cut.
pub fn source(graph: &Graph, mut tensor: TensorId) -> Option<TensorId> {
    // A chain visits no node twice, but a loop's first value and its body's may name one another.
    for _ in 0..graph.nodes.len() {
        let node = &graph.nodes[graph.tensors[tensor as usize].def as usize];
        if node.kind == NodeKind::Source {
            return Some(tensor);
        }
        let given = node.operands.iter().filter(|&&id| !graph.tensors[id as usize].is_free);
        let bytes = |id: TensorId| graph.tensors[id as usize].bytes;
        tensor = match node.kind {
            NodeKind::Op => given.copied().reduce(|a, b| if bytes(b) > bytes(a) { b } else { a })?,
            _ => *node.operands.first()?,
        };
    }
    None
}
