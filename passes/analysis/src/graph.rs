//! The planning graph: every array value of the program once, with the nodes that make and read it.
//!
//! Tuples disappear: `tuple`, `get-tuple-element` and `opt-barrier` only rename values. A value that
//! a loop carries is one tensor with a `Carry` node that joins its first value and the body's result;
//! the result of a `conditional` is one tensor with a `Join` node over the branches' roots.

use indexmap::IndexMap;
use phzc_ir::flops;
use phzc_ir::loops::unknown_trips;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    CompId, DType, Diagnostic, Dims, FactorKind, InstrId, Key, Module, Opcode, Payload, Rule, Shape, View,
    Work,
};
use smallvec::SmallVec;

/// A tensor's position in [`Graph::tensors`].
pub type TensorId = u32;
/// A node's position in [`Graph::nodes`].
pub type NodeId = u32;

/// A module as tensors and nodes.
#[derive(Debug, Default)]
pub struct Graph {
    /// Every array value.
    pub tensors: Vec<Tensor>,
    /// Every instruction that computes, in program order (bodies before what follows their loop).
    pub nodes: Vec<Node>,
    /// Per computation and instruction: the tensors of its value's leaves.
    pub values: Vec<Vec<SmallVec<[TensorId; 1]>>>,
    /// Entry-output tensors with the entry-parameter tensor that each shares its buffer with.
    pub aliases: Vec<(TensorId, TensorId)>,
    /// The entry's result leaves.
    pub outputs: Vec<TensorId>,
    /// Loops whose trip count is unknown (taken as 1).
    pub unknown_loops: Vec<Diagnostic>,
}

/// An array value.
#[derive(Debug)]
pub struct Tensor {
    /// Sizes; empty for scalars, tokens and opaque values.
    pub dims: Dims,
    /// Element type.
    pub dtype: DType,
    /// Bytes of the whole tensor.
    pub bytes: f64,
    /// The node that makes it.
    pub def: NodeId,
    /// Nodes that read it, with the operand position.
    pub uses: Vec<(NodeId, u32)>,
    /// The instruction and leaf that name it.
    pub home: (CompId, InstrId, u32),
    /// It depends on constants only, so every device can make any part of it.
    pub is_free: bool,
    /// The entry parameter that it is.
    pub param: Option<u32>,
    /// How many tensors it stands for (layer repetition).
    pub weight: f64,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// An entry parameter.
    Source,
    /// An instruction.
    Op,
    /// A loop-carried value: operands are its first value and the body's result.
    Carry,
    /// A conditional's result: operands are the branches' results.
    Join,
}

/// A computation step.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Its instruction.
    pub comp: CompId,
    /// Its instruction.
    pub instr: InstrId,
    /// Tensors it reads, one per operand leaf.
    pub operands: SmallVec<[TensorId; 4]>,
    /// Tensors it makes.
    pub results: SmallVec<[TensorId; 1]>,
    /// Its loops.
    pub rule: Rule,
    /// Executions per step.
    pub trips: f64,
    /// FLOPs, transcendentals and bytes of one execution, all devices together.
    pub work: Work,
    /// A product of two tensors that sums over a loop: dot, convolution, gather, scatter.
    pub is_contraction: bool,
    /// How many nodes it stands for (layer repetition).
    pub weight: f64,
}

impl Tensor {
    /// Whether it has at most one element: such a value is on every device.
    pub fn is_scalar(&self) -> bool {
        self.dims.iter().all(|&size| size == 1)
    }
}

impl Graph {
    /// The graph of a flattened module (no calls, no fusions).
    pub fn build(module: &Module) -> Graph {
        let values = module.comps.iter().map(|comp| vec![SmallVec::new(); comp.instrs.len()]).collect();
        let mut builder = Builder { module, graph: Graph { values, ..Graph::default() } };
        let outputs = builder.comp(module.entry, None, 1.0);
        let mut graph = builder.graph;
        graph.outputs = outputs.to_vec();
        graph.aliases = aliases(module, &graph);
        graph.mark_uses();
        graph.mark_free(module);
        graph.mark_contractions();
        graph
    }

    /// A node's opcode; `None` for nodes that stand for no instruction of their own.
    pub fn opcode(&self, module: &Module, node: NodeId) -> Option<Opcode> {
        let node = &self.nodes[node as usize];
        (node.kind == NodeKind::Op).then(|| module.comp(node.comp).instr(node.instr).op)
    }

    fn mark_uses(&mut self) {
        for (id, node) in self.nodes.iter().enumerate() {
            for (slot, &tensor) in node.operands.iter().enumerate() {
                self.tensors[tensor as usize].uses.push((id as NodeId, slot as u32));
            }
        }
    }

    /// Constants and iotas are free, and so is what is computed from free tensors alone.
    fn mark_free(&mut self, module: &Module) {
        for id in 0..self.nodes.len() {
            let node = &self.nodes[id];
            let operands_free = node.operands.iter().all(|&tensor| self.tensors[tensor as usize].is_free);
            let is_source = match self.opcode(module, id as NodeId) {
                Some(Opcode::Constant | Opcode::Iota) => true,
                Some(_) => !node.operands.is_empty() && !node.rule.is_fallback,
                None => false,
            };
            for result in self.nodes[id].results.clone() {
                self.tensors[result as usize].is_free = is_source && operands_free;
            }
        }
    }

    fn mark_contractions(&mut self) {
        for node in &mut self.nodes {
            let tensors = node.operands.iter().map(|&id| &self.tensors[id as usize]);
            let n_tensors = tensors.filter(|tensor| !tensor.is_free && !tensor.is_scalar()).count();
            let reduces = node.rule.factors.iter().any(|factor| matches!(factor.kind, FactorKind::Reduce(_)));
            node.is_contraction = n_tensors >= 2 && reduces && node.kind == NodeKind::Op;
        }
    }
}

struct Builder<'a> {
    module: &'a Module,
    graph: Graph,
}

type Leaves = SmallVec<[TensorId; 1]>;

impl Builder<'_> {
    /// Adds a computation whose parameters are `args` (new tensors for the entry); returns the root's leaves.
    fn comp(&mut self, id: CompId, args: Option<&[Leaves]>, trips: f64) -> Leaves {
        let module = self.module;
        for (instr_id, instr) in module.comp(id).iter() {
            let leaves = match (instr.op, &instr.payload) {
                (Opcode::Parameter, Payload::Parameter(number)) => match args {
                    Some(args) => args.get(*number as usize).cloned().unwrap_or_default(),
                    None => self.source(id, instr_id, *number),
                },
                (Opcode::Tuple | Opcode::OptBarrier, _) => self.operand_leaves(id, instr_id),
                (Opcode::GetTupleElement, _) => self.element(id, instr_id),
                (Opcode::While, _) => self.loop_(id, instr_id, trips),
                (Opcode::Conditional, _) => self.branches(id, instr_id, trips),
                _ => self.op(id, instr_id, trips),
            };
            self.graph.values[id.index()][instr_id.index()] = leaves;
        }
        self.leaves(id, module.comp(id).root)
    }

    fn leaves(&self, comp: CompId, instr: InstrId) -> Leaves {
        self.graph.values[comp.index()][instr.index()].clone()
    }

    fn operand_leaves(&self, comp: CompId, instr: InstrId) -> Leaves {
        let operands = &self.module.comp(comp).instr(instr).operands;
        operands.iter().flat_map(|&operand| self.leaves(comp, operand)).collect()
    }

    fn element(&self, comp: CompId, id: InstrId) -> Leaves {
        let computation = self.module.comp(comp);
        let instr = computation.instr(id);
        let index = instr.int(Key::Index).unwrap_or(0) as usize;
        let tuple = computation.instr(instr.operands[0]);
        let start: usize = tuple.shape.parts().iter().take(index).map(Shape::n_leaves).sum();
        let leaves = self.leaves(comp, instr.operands[0]);
        leaves.iter().copied().skip(start).take(instr.shape.n_leaves()).collect()
    }

    fn tensor(&mut self, shape: &Shape, home: (CompId, InstrId, u32)) -> TensorId {
        let (dims, dtype, bytes) = match shape.as_array() {
            Some(array) => (array.dims.clone(), array.dtype, array.bytes()),
            None => (Dims::new(), DType::Pred, 0.0),
        };
        let tensor = Tensor {
            dims,
            dtype,
            bytes,
            def: 0,
            uses: Vec::new(),
            home,
            is_free: false,
            param: None,
            weight: 1.0,
        };
        self.graph.tensors.push(tensor);
        (self.graph.tensors.len() - 1) as TensorId
    }

    /// New tensors for the leaves of an instruction's value.
    fn result_tensors(&mut self, comp: CompId, id: InstrId) -> Leaves {
        let module = self.module;
        let shapes = module.comp(comp).instr(id).shape.leaves();
        shapes.iter().enumerate().map(|(leaf, shape)| self.tensor(shape, (comp, id, leaf as u32))).collect()
    }

    fn node(&mut self, node: Node) {
        let id = self.graph.nodes.len() as NodeId;
        for &result in &node.results {
            self.graph.tensors[result as usize].def = id;
        }
        self.graph.nodes.push(node);
    }

    fn source(&mut self, comp: CompId, id: InstrId, number: u32) -> Leaves {
        let leaves = self.result_tensors(comp, id);
        for &leaf in &leaves {
            self.graph.tensors[leaf as usize].param = Some(number);
            self.identity(NodeKind::Source, comp, id, &[], leaf, 1.0);
        }
        leaves
    }

    /// A node whose operands and result all have the dimensions of `result`.
    fn identity(
        &mut self,
        kind: NodeKind,
        comp: CompId,
        instr: InstrId,
        operands: &[TensorId],
        result: TensorId,
        trips: f64,
    ) {
        let mut rule = Rule::default();
        let map = rule.fresh(&self.graph.tensors[result as usize].dims.clone(), FactorKind::Pass);
        rule.operands = vec![map.clone(); operands.len()];
        rule.results = vec![map];
        let (operands, results) = (operands.into(), SmallVec::from_slice(&[result]));
        self.node(Node {
            kind,
            comp,
            instr,
            operands,
            results,
            rule,
            trips,
            work: Work::default(),
            is_contraction: false,
            weight: 1.0,
        });
    }

    fn op(&mut self, comp: CompId, id: InstrId, trips: f64) -> Leaves {
        let view = View::new(self.module, comp, id);
        let operands: SmallVec<[TensorId; 4]> = self.operand_leaves(comp, id).into_iter().collect();
        let results = self.result_tensors(comp, id);
        let rule = phzc_ir::ops::split_rule(&view);
        let work = Work { bytes: flops::bytes(&view), ..flops::executed(&view) };
        let node = Node {
            kind: NodeKind::Op,
            comp,
            instr: id,
            operands,
            results: results.clone(),
            rule,
            trips,
            work,
            is_contraction: false,
            weight: 1.0,
        };
        self.node(node);
        results
    }

    fn loop_(&mut self, comp: CompId, id: InstrId, trips: f64) -> Leaves {
        let instr = self.module.comp(comp).instr(id);
        let count = phzc_ir::trip::trip_count(self.module, comp, id);
        if count.is_none() {
            self.graph.unknown_loops.push(unknown_trips(instr));
        }
        let inner = trips * count.unwrap_or(1).max(1) as f64;
        let first = self.operand_leaves(comp, id);
        let carried = self.result_tensors(comp, id);
        let args = [carried.clone()];
        if let Some(condition) = instr.comp(Key::Condition) {
            self.comp(condition, Some(&args), inner);
        }
        let Some(body) = instr.comp(Key::Body) else { return carried };
        let next = self.comp(body, Some(&args), inner);
        for ((&first, &next), &result) in first.iter().zip(&next).zip(&carried) {
            let operands = if next == result { vec![first] } else { vec![first, next] };
            self.identity(NodeKind::Carry, comp, id, &operands, result, trips);
        }
        carried
    }

    fn branches(&mut self, comp: CompId, id: InstrId, trips: f64) -> Leaves {
        let instr = self.module.comp(comp).instr(id);
        let results = self.result_tensors(comp, id);
        let mut roots: Vec<Leaves> = Vec::new();
        for (branch, body) in control_comps(instr).into_iter().enumerate() {
            let args: Vec<Leaves> = instr
                .operands
                .get(branch + 1)
                .map(|&operand| self.leaves(comp, operand))
                .into_iter()
                .collect();
            roots.push(self.comp(body, Some(&args), trips));
        }
        for (leaf, &result) in results.iter().enumerate() {
            let operands: Vec<TensorId> = roots.iter().filter_map(|root| root.get(leaf).copied()).collect();
            self.identity(NodeKind::Join, comp, id, &operands, result, trips);
        }
        results
    }
}

/// Output leaves that reuse a parameter's buffer: the header's list, read as text.
fn aliases(module: &Module, graph: &Graph) -> Vec<(TensorId, TensorId)> {
    let mut params: IndexMap<(u32, u32), TensorId> = IndexMap::new();
    for (id, tensor) in graph.tensors.iter().enumerate() {
        if let Some(number) = tensor.param {
            params.insert((number, tensor.home.2), id as TensorId);
        }
    }
    let root = &module.entry().root().shape;
    let starts = root.part_starts();
    let numbered = module.entry().params();
    let pairs = module.attr("input_output_alias").map(alias_pairs).unwrap_or_default();
    let find = |(out, number, index): (Vec<u32>, u32, Vec<u32>)| {
        let param = module.entry().instr(*numbered.get(number as usize)?);
        let of = |shape: &Shape, starts: &[usize], index: &[u32]| {
            let index: Vec<usize> = index.iter().map(|&part| part as usize).collect();
            shape.leaf_at(starts, &index).map(|(leaf, _)| leaf as u32)
        };
        let out_leaf = of(root, &starts, &out)?;
        let param_leaf = of(&param.shape, &param.shape.part_starts(), &index)?;
        let output = graph.outputs.get(out_leaf as usize)?;
        Some((*output, *params.get(&(number, param_leaf))?))
    };
    pairs.into_iter().filter_map(find).collect()
}

/// `{0}: (0, {}, may-alias)` as (output index, parameter, parameter index).
pub fn alias_pairs(text: &str) -> Vec<(Vec<u32>, u32, Vec<u32>)> {
    let ints =
        |text: &str| -> Vec<u32> { text.split(',').filter_map(|part| part.trim().parse().ok()).collect() };
    let pair = |piece: &str| {
        let (out, rest) = piece.split_once('}')?;
        let out = ints(out.rsplit('{').next()?);
        let (number, rest) = rest.split_once('(')?.1.split_once(',')?;
        let index = rest.split_once('{')?.1.split('}').next()?;
        Some((out, number.trim().parse().ok()?, ints(index)))
    };
    text.split(')').filter_map(pair).collect()
}

/// Whether a tensor has a layout worth deciding.
pub fn is_shaped(graph: &Graph, tensor: TensorId) -> bool {
    let tensor = &graph.tensors[tensor as usize];
    !tensor.is_free && !tensor.is_scalar()
}
