//! How Megatron would split a program's products: a weight by columns, the one that reads its result by rows,
//! and so on (Shoeybi et al., "Megatron-LM", 2019, section 3); no model is known by name.
//!
//! A product whose data are whole is split by columns, if that split can be carried on, op by op, to products
//! that sum over it (rows), or to the end of the program: the head. Where it meets a value that is not split
//! so, as the residual stream is, or an op that cannot keep it, the product is not split.

mod carry;

use super::labels::{Label, Labels};
use super::products::{ForwardProduct, products};
use crate::derive::{Facts, Phase};
use carry::{Choice, Finder, outermost};
use phzc_analysis::batch::data;
use phzc_analysis::graph::{Graph, Node, NodeKind, TensorId};
use phzc_ir::{Module, Part};

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
    /// The same in what reads a sum over tensor parallelism, where Megatron's sequence parallelism leaves
    /// each device a part.
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
    /// Results of products, and what reads those of products by rows: the residual stream.
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

impl Finder<'_> {
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
                let result = node.results[0];
                found.results.extend(self.value(module, result, self.result_dims(result, false)));
                let sums = self.readers(result).filter(|_| choice.rows.is_some());
                let sum = |it: TensorId| self.value(module, it, self.result_dims(it, true));
                found.results.extend(sums.filter_map(sum));
            }
        }
        found
    }

    /// What the forward part makes of a value, element by element: a layout of its own is that after the sum.
    fn readers(&self, of: TensorId) -> impl Iterator<Item = TensorId> {
        let is_reader = move |node: &&Node| node.kind == NodeKind::Op && node.operands.contains(&of);
        let dims = |id: TensorId| &self.graph.tensors[id as usize].dims;
        let forward = self.graph.nodes.iter().filter(|node| self.phase(node) == Some(Phase::Forward));
        let readers = forward.filter(is_reader).filter(|node| !node.is_contraction);
        readers.map(|node| node.results[0]).filter(move |&it| dims(it) == dims(of))
    }

    /// What splits the result of a product, or what reads its sum; no axis splits two dimensions.
    fn result_dims(&self, result: TensorId, is_after_sum: bool) -> Vec<Splits> {
        let split = self.carried[result as usize].as_ref().map(|carried| carried.dim);
        let places = if is_after_sum { Splits::SummedPlaces } else { Splits::Places };
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

#[cfg(test)]
mod tests;
