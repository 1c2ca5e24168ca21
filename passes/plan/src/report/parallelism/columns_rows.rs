//! How Megatron would split a program's products: a weight by columns, the one that reads its result by rows,
//! and so on (Shoeybi et al., "Megatron-LM", 2019, section 3); no model is known by name.
//!
//! A product whose data are whole is split by columns, if that split can be carried on, op by op, to products
//! that sum over it (rows), or to the end of the program: the head. Where it meets a value that is not split
//! so, as the residual stream is, or an op that cannot keep it, the product is not split.

use super::labels::{Label, Labels};
use super::products::{ForwardProduct, products};
use crate::derive::Facts;
use phzc_analysis::batch::data;
use phzc_analysis::graph::{Graph, Node, NodeKind, TensorId};
use phzc_ir::{FactorId, FactorKind, Module, Part};
use std::collections::BTreeSet;

/// What splits a dimension of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// Nothing.
    Nothing,
    /// Tensor parallelism.
    Tensor,
    /// Groups of experts.
    Expert,
    /// Data parallelism.
    Batch,
    /// Context parallelism.
    Places,
    /// The same in what is summed up over tensor parallelism, where Megatron's sequence parallelism leaves each
    /// device a part.
    SummedPlaces,
}

/// A value of the program, by its instruction's name, and what splits each of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitValue {
    /// The instruction.
    pub name: String,
    /// Per dimension.
    pub dims: Vec<Splits>,
    /// Whether it is an input of the program, whose layout is also how it is stored.
    pub is_input: bool,
}

/// How a program's values are split by degrees of parallelism.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnsRows {
    /// The inputs of a step.
    pub data: Vec<SplitValue>,
    /// Weights as products read them; with one part, those that nothing splits too.
    pub weights: Vec<SplitValue>,
    /// Results of products.
    pub results: Vec<SplitValue>,
    /// Products with a weight that cannot be split so.
    pub whole: Vec<String>,
}

/// How the products of the forward part are split into `tensor` parts; with one part nothing is by columns or
/// rows. Phases are those that `fuse` has noted.
pub fn columns_rows(module: &Module, facts: &Facts, tensor: i64) -> ColumnsRows {
    let graph = Graph::build(module);
    let labels = Labels::new(module, &graph);
    let forward = products(module, facts, &graph, &labels);
    let mut finder = Finder::new(&graph, &labels, facts, &forward, tensor);
    while finder.pass() {}
    finder.found(module)
}

/// A split dimension of a tensor, and the products by columns that it comes from.
#[derive(Clone, Debug, Default)]
struct Carried {
    dim: usize,
    roots: BTreeSet<usize>,
}

/// What has become of a product.
#[derive(Clone, Debug, Default)]
struct Choice {
    /// Dimensions of its weight that can be columns, from which on those that have failed are behind.
    columns: Vec<usize>,
    n_failed: usize,
    /// The dimension of the weight that is summed over in parts.
    rows: Option<usize>,
}

struct Finder<'a> {
    graph: &'a Graph,
    labels: &'a Labels,
    facts: &'a Facts,
    products: &'a [ForwardProduct<'a>],
    /// Parts of tensor parallelism.
    tensor: i64,
    choices: Vec<Choice>,
    carried: Vec<Option<Carried>>,
    /// Per tensor: dimensions along which any device can make any part, a bit each.
    free: Vec<u64>,
    failed: BTreeSet<usize>,
}

impl<'a> Finder<'a> {
    fn new(
        graph: &'a Graph,
        labels: &'a Labels,
        facts: &'a Facts,
        products: &'a [ForwardProduct<'a>],
        tensor: i64,
    ) -> Finder<'a> {
        let n = graph.tensors.len();
        let (carried, free) = (vec![None; n], vec![0; n]);
        let choices = products.iter().map(|product| choice(product, tensor)).collect();
        let failed = BTreeSet::new();
        Finder { graph, labels, facts, products, tensor, choices, carried, free, failed }
    }

    /// Carries all splits from products by columns to products by rows; whether some have failed, and all is
    /// to be done again.
    fn pass(&mut self) -> bool {
        self.carried.fill(None);
        self.failed.clear();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            let phase = self.facts.comps[node.comp.index()].get(node.instr.index()).map(|own| own.phase);
            if node.kind == NodeKind::Source || phase != Some(crate::derive::Phase::Forward) {
                continue;
            }
            let product =
                self.products.iter().position(|it| std::ptr::eq(it.node, &raw const self.graph.nodes[at]));
            match product.filter(|&product| self.products[product].weight.is_some()) {
                Some(product) => self.weighted(product),
                None => self.carry(node),
            }
        }
        let failed = std::mem::take(&mut self.failed);
        failed.iter().for_each(|&root| self.choices[root].n_failed += 1);
        !failed.is_empty()
    }

    /// A product with a weight: by rows if its data are split where it sums, by columns if they are whole.
    fn weighted(&mut self, at: usize) {
        let product = &self.products[at];
        let (node, slot) = (product.node, product.weight.unwrap_or(1));
        let split = self.split_of(node, 1 - slot);
        self.choices[at].rows = None;
        let Some((factor, roots)) = split else {
            if let Some(dim) = self.choices[at].column() {
                let loops = &node.rule.operands[slot][dim];
                if let Some(factor) = outermost(node, loops) {
                    self.put(node, factor, BTreeSet::from([at]));
                }
            }
            return;
        };
        let of_weight =
            node.rule.operands[slot].iter().position(|loops| outermost(node, loops) == Some(factor));
        match (node.rule.part(factor), of_weight) {
            (Part::Sums, Some(dim)) => self.choices[at].rows = Some(dim),
            _ => self.failed.extend(roots),
        }
    }

    /// Any other op: what it reads split it makes split, where all that it reads is split alike.
    fn carry(&mut self, node: &Node) {
        self.spread(node);
        for slot in 0..node.operands.len() {
            let Some((factor, roots)) = self.split_of(node, slot) else { continue };
            let is_kept =
                matches!(node.rule.factors[factor as usize].kind, FactorKind::Pass | FactorKind::Reduce(_));
            if !is_kept || (0..node.operands.len()).any(|other| self.is_whole(node, other, factor)) {
                self.failed.extend(roots);
            } else {
                self.put(node, factor, roots);
            }
        }
    }

    /// Whether an operand that depends on data has a loop that it is not split by, nor free along.
    fn is_whole(&self, node: &Node, slot: usize, factor: FactorId) -> bool {
        let tensor = node.operands[slot] as usize;
        let dims = node.rule.operands[slot].iter().enumerate();
        let has = |(dim, loops): (usize, &smallvec::SmallVec<[FactorId; 2]>)| {
            let is_split = self.split_of(node, slot).is_some_and(|(own, _)| own == factor);
            loops.contains(&factor) && !is_split && self.free[tensor] >> dim.min(63) & 1 == 0
        };
        self.labels.is_data[tensor] && dims.into_iter().any(has)
    }

    /// The loop that splits an operand, and where the split comes from.
    fn split_of(&self, node: &Node, slot: usize) -> Option<(FactorId, BTreeSet<usize>)> {
        let carried = self.carried[node.operands[slot] as usize].as_ref()?;
        let factor = outermost(node, node.rule.operands[slot].get(carried.dim)?)?;
        Some((factor, carried.roots.clone()))
    }

    /// Notes that a node's results are split by a loop, as far as they have it.
    fn put(&mut self, node: &Node, factor: FactorId, roots: BTreeSet<usize>) {
        for (&result, map) in node.results.iter().zip(&node.rule.results) {
            if let Some(dim) = map.iter().position(|loops| outermost(node, loops) == Some(factor)) {
                self.carried[result as usize]
                    .get_or_insert_with(|| Carried { dim, ..Carried::default() })
                    .roots
                    .extend(&roots);
            } else if map.iter().any(|loops| loops.contains(&factor)) {
                self.failed.extend(&roots);
            }
        }
    }

    /// Notes along which dimensions a result can be made in any part: those that no operand that depends on
    /// data has.
    fn spread(&mut self, node: &Node) {
        for (&result, map) in node.results.iter().zip(&node.rule.results) {
            for (dim, loops) in map.iter().enumerate().take(64) {
                let Some(factor) = outermost(node, loops) else { continue };
                if !(0..node.operands.len()).any(|slot| self.has(node, slot, factor)) {
                    self.free[result as usize] |= 1 << dim;
                }
            }
        }
    }

    fn has(&self, node: &Node, slot: usize, factor: FactorId) -> bool {
        let tensor = node.operands[slot] as usize;
        let mut dims = node.rule.operands[slot].iter().enumerate();
        self.labels.is_data[tensor]
            && dims.any(|(dim, loops)| loops.contains(&factor) && self.free[tensor] >> dim.min(63) & 1 == 0)
    }

    fn found(&self, module: &Module) -> ColumnsRows {
        let mut found = ColumnsRows::default();
        for id in data(self.graph) {
            let dims = self.graph.tensors[id as usize].dims.len();
            let of = |dim| [Splits::Batch, Splits::Places, Splits::Nothing][usize::min(dim, 2)];
            found.data.extend(self.value(module, id, (0..dims).map(of).collect()));
        }
        for (product, choice) in self.products.iter().zip(&self.choices) {
            let node = product.node;
            let weight = product.weight.map(|slot| self.weight_dims(product, choice, slot));
            let is_split = weight.as_ref().is_none_or(|dims| dims.iter().any(|dim| *dim != Splits::Nothing));
            if self.tensor > 1 && !is_split {
                found.whole.push(module.comp(node.comp).instr(node.instr).name.to_string());
                continue;
            }
            let weight = product.weight.zip(weight);
            let weight = weight.and_then(|(slot, dims)| self.value(module, node.operands[slot], dims));
            found.weights.extend(weight);
            if !product.is_expert {
                let dims = self.result_dims(node.results[0], choice.rows.is_some());
                found.results.extend(self.value(module, node.results[0], dims));
            }
        }
        found
    }

    /// What splits the result of a product; no axis splits two dimensions.
    fn result_dims(&self, result: TensorId, is_sum: bool) -> Vec<Splits> {
        let split = self.carried[result as usize].as_ref().map(|carried| carried.dim);
        let places = if is_sum { Splits::SummedPlaces } else { Splits::Places };
        let mut dims: Vec<Splits> = Vec::new();
        for dim in 0..self.graph.tensors[result as usize].dims.len() {
            let splits = match self.labels.of_dim(result, dim) {
                _ if split == Some(dim) => Splits::Tensor,
                Label::Batch => Splits::Batch,
                Label::Place => places,
                Label::Width => Splits::Nothing,
            };
            dims.push(if dims.contains(&splits) { Splits::Nothing } else { splits });
        }
        dims
    }

    fn weight_dims(&self, product: &ForwardProduct, choice: &Choice, slot: usize) -> Vec<Splits> {
        let node = product.node;
        let split = choice.rows.or_else(|| choice.column());
        let map = node.rule.operands[slot].iter().enumerate();
        map.map(|(dim, loops)| match outermost(node, loops) {
            _ if split == Some(dim) => Splits::Tensor,
            Some(factor) if product.is_expert && node.rule.part(factor) == Part::Batch => Splits::Expert,
            _ => Splits::Nothing,
        })
        .collect()
    }

    fn value(&self, module: &Module, tensor: TensorId, dims: Vec<Splits>) -> Option<SplitValue> {
        let (comp, instr, _) = self.graph.tensors[tensor as usize].home;
        let name = module.comp(comp).instr(instr).name.to_string();
        let is_input = self.graph.tensors[tensor as usize].param.is_some();
        (!dims.is_empty()).then_some(SplitValue { name, dims, is_input })
    }
}

impl Choice {
    fn column(&self) -> Option<usize> {
        self.columns.get(self.n_failed).copied().filter(|_| self.rows.is_none())
    }
}

/// The dimensions of a product's weight that can be split by columns.
fn choice(product: &ForwardProduct, tensor: i64) -> Choice {
    let Some(slot) = product.weight.filter(|_| tensor > 1) else { return Choice::default() };
    let (node, own) = (product.node, [Part::Rows, Part::Columns][slot]);
    let is_own = |loops: &smallvec::SmallVec<[FactorId; 2]>| {
        let factor = outermost(node, loops).filter(|&factor| node.rule.part(factor) == own);
        factor.is_some_and(|factor| node.rule.factors[factor as usize].size % tensor == 0)
    };
    let dims = node.rule.operands[slot].iter().enumerate();
    Choice {
        columns: dims.filter(|(_, loops)| is_own(loops)).map(|(dim, _)| dim).collect(),
        ..Choice::default()
    }
}

fn outermost(node: &Node, loops: &[FactorId]) -> Option<FactorId> {
    loops.iter().copied().find(|&factor| node.rule.factors[factor as usize].size > 1)
}

#[cfg(test)]
mod tests;
