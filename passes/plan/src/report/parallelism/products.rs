//! The products of the forward part, and what each mesh axis does in them: data, tensor, context or expert
//! parallelism.

use super::labels::{Label, Labels};
use crate::derive::{Facts, Phase, is_added};
use crate::pricing::AxisMask;
use phzc_analysis::graph::{Graph, Node, NodeKind};
use phzc_ir::{FactorId, FusionKind, Module, Part, Product};

/// A product of the forward part.
pub struct ForwardProduct<'a> {
    pub node: &'a Node,
    pub stage: usize,
    /// Of all devices, per step.
    pub flops: f64,
    /// The operand that does not depend on the data, if one does not.
    pub weight: Option<usize>,
    /// Whether it is many products, each with a weight of its own.
    pub is_expert: bool,
    pub axes: Axes,
    /// The axes that split the weight.
    pub weight_axes: AxisMask,
}

/// The mesh axes that split a product, by what they split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Axes {
    /// Samples.
    pub data: AxisMask,
    /// Features of a weight or heads: rows, columns or sums of a matrix that all samples share.
    pub tensor: AxisMask,
    /// Places of a sample, while the weight is whole.
    pub context: AxisMask,
    /// Products that have weights of their own.
    pub expert: AxisMask,
}

/// The products of the forward part, in program order; what a plan adds is left out.
pub fn products<'a>(
    module: &Module,
    facts: &Facts,
    graph: &'a Graph,
    labels: &Labels,
) -> Vec<ForwardProduct<'a>> {
    let product = |node: &'a Node| {
        let own = facts.comps[node.comp.index()].get(node.instr.index())?;
        let instr = module.comp(node.comp).instr(node.instr);
        let is_product = node.kind == NodeKind::Op && instr.op.def().fusion == FusionKind::Matrix;
        if !is_product || own.phase != Phase::Forward || is_added(instr) {
            return None;
        }
        Product::of(&node.rule)?;
        // A product without sums is no product of matrices: masks are made so.
        let rule = &node.rule;
        let mut loops = (0..rule.factors.len()).map(|at| (at as FactorId, rule.factors[at].size));
        loops.find(|&(factor, size)| size > 1 && rule.part(factor) == Part::Sums)?;
        let is_data = [0, 1].map(|slot| labels.is_data[node.operands[slot] as usize]);
        let weight = match is_data {
            [true, true] => None,
            [true, false] => Some(1),
            [false, true] => Some(0),
            // A weight made of weights: no activations are split.
            [false, false] => return None,
        };
        let flops = node.work.flops * node.trips;
        let mut product = ForwardProduct {
            node,
            stage: own.stage,
            flops,
            weight,
            is_expert: false,
            axes: Axes::default(),
            weight_axes: 0,
        };
        product.is_expert = product.has_experts(labels);
        for (axis, factor) in own.split.iter().enumerate().filter_map(|(axis, it)| Some((axis, (*it)?))) {
            product.split(axis, factor, labels);
        }
        Some(product)
    };
    graph.nodes.iter().filter_map(product).collect()
}

impl ForwardProduct<'_> {
    fn has_experts(&self, labels: &Labels) -> bool {
        let (rule, is_own) = (&self.node.rule, self.weight.is_some());
        let is_expert = |(index, size): (usize, i64)| {
            let factor = index as FactorId;
            size > 1 && rule.part(factor) == Part::Batch && labels.of_loop(self.node, factor) != Label::Batch
        };
        is_own && rule.factors.iter().map(|factor| factor.size).enumerate().any(is_expert)
    }

    /// Notes what an axis splits.
    fn split(&mut self, axis: usize, factor: FactorId, labels: &Labels) {
        let (part, label) = (self.node.rule.part(factor), labels.of_loop(self.node, factor));
        let of_weight = self.weight.map(|slot| [Part::Rows, Part::Columns][slot]);
        let axes = &mut self.axes;
        let role = match (of_weight, label) {
            (None, Label::Batch) => &mut axes.data,
            (None, Label::Place) => &mut axes.context,
            (None, Label::Width) => &mut axes.tensor,
            (Some(of_weight), _) if part == Part::Sums || part == of_weight => &mut axes.tensor,
            (Some(_), Label::Batch) => &mut axes.data,
            (Some(_), _) if part == Part::Batch => &mut axes.expert,
            // What experts get is neither samples nor a sequence, but it is cut like samples.
            (Some(_), Label::Width) if self.is_expert => &mut axes.data,
            (Some(_), _) => &mut axes.context,
        };
        *role |= 1 << axis;
        let is_of_weight =
            |slot: usize| self.node.rule.operands[slot].iter().any(|dim| dim.contains(&factor));
        self.weight_axes |= if self.weight.is_some_and(is_of_weight) { 1 << axis } else { 0 };
    }
}
