//! What may stay a sum that is still to be done: one summand per device, added up only where somebody needs
//! the sum.
//!
//! A *sum* is a value that adds something up (a product, a reduction), or is linear in sums: gradients that
//! are added, what a loop adds up from zero, what it stacks. Reducing after the last of these ops instead of
//! after the first moves each sum once (rules L1, L2, L5 of reference/cfp-alpa.md 7.4).

use crate::batch::has_batch;
use crate::graph::is_shaped;
use crate::graph::{Graph, Node, NodeId, NodeKind, TensorId};
use phzc_ir::ops::linear::{Linear, Summands, is_zero};
use phzc_ir::{FactorKind, Module, Reducer, View};
use smallvec::smallvec;

/// The sums of a graph.
#[derive(Debug, Default)]
pub struct Sums {
    /// Per node: the operands (a bit each) that are summands where its result is; none: it is not linear in
    /// sums.
    pub summands: Vec<Summands>,
    /// Per node: whether it joins sums that do not run over the batch, or leads such a one to where it is
    /// joined.
    pub joins: Vec<bool>,
}

impl Sums {
    /// Finds the sums.
    pub fn find(module: &Module, graph: &Graph) -> Sums {
        let finder = Finder::new(module, graph);
        let all = 0..graph.nodes.len() as NodeId;
        let summands: Vec<Summands> = all.map(|id| finder.summands(id).unwrap_or(0)).collect();
        let joins = joins(graph, &finder, &summands);
        Sums { summands, joins }
    }
}

struct Finder<'a> {
    graph: &'a Graph,
    /// Per node: the ways in which it is linear.
    linear: Vec<Linear>,
    /// Per tensor: whether it is a sum.
    is_sum: Vec<bool>,
    /// Per tensor: whether it is zero, which is a summand of any sum.
    is_zero: Vec<bool>,
}

impl<'a> Finder<'a> {
    fn new(module: &Module, graph: &'a Graph) -> Finder<'a> {
        let is_nothing = |tensor: &crate::graph::Tensor| {
            tensor.is_free && is_zero(&module.comp(tensor.home.0).instrs, tensor.home.1)
        };
        let mut finder = Finder {
            graph,
            linear: graph.nodes.iter().map(|node| linear(module, node)).collect(),
            is_sum: (0..graph.tensors.len() as TensorId).map(|id| is_shaped(graph, id)).collect(),
            is_zero: graph.tensors.iter().map(is_nothing).collect(),
        };
        // What a loop carries is taken for a sum until its next value is none.
        while finder.narrow() {}
        finder
    }

    /// Takes out values that are no sums; whether there were any.
    fn narrow(&mut self) -> bool {
        let mut is_changed = false;
        for (id, node) in self.graph.nodes.iter().enumerate() {
            let is_sum = makes_sum(node) || self.summands(id as NodeId).is_some();
            for &result in &node.results {
                let known = &mut self.is_sum[result as usize];
                is_changed |= *known && !is_sum;
                *known &= is_sum;
            }
        }
        is_changed
    }

    /// The operands that are summands, all of them sums or zero and one of them no zero.
    fn summands(&self, id: NodeId) -> Option<Summands> {
        let node = &self.graph.nodes[id as usize];
        let fits = |summands: &&Summands| {
            let mut operands = slots(node, **summands).map(|slot| node.operands[slot] as usize);
            operands.clone().all(|it| self.is_sum[it] || self.is_zero[it])
                && operands.any(|it| self.is_sum[it])
        };
        self.linear[id as usize].iter().find(fits).copied()
    }
}

/// The operands of a set.
fn slots(node: &Node, summands: Summands) -> impl Iterator<Item = usize> + Clone {
    (0..node.operands.len().min(64)).filter(move |slot| summands >> slot & 1 == 1)
}

fn linear(module: &Module, node: &Node) -> Linear {
    match node.kind {
        NodeKind::Source => Linear::new(),
        NodeKind::Carry | NodeKind::Join => smallvec![(1 << node.operands.len().min(63)) - 1],
        NodeKind::Op => {
            let view = View::new(module, node.comp, node.instr);
            let is_flat = view.n_operands() == node.operands.len() && node.results.len() == 1;
            if is_flat { (view.instr.op.def().linear)(&view) } else { Linear::new() }
        }
    }
}

/// Whether a node adds up along a loop of its own, and combines in no other way.
fn makes_sum(node: &Node) -> bool {
    let reducers = || node.rule.factors.iter().filter(|factor| matches!(factor.kind, FactorKind::Reduce(_)));
    let adds = reducers().all(|factor| factor.kind == FactorKind::Reduce(Reducer::Add));
    node.results.len() == 1 && adds && reducers().any(|factor| factor.size > 1)
}

/// Nodes that join several sums, and those that only lead up to them.
///
/// Values with a batch dimension are left out: these are activations, which are needed whole at once.
fn joins(graph: &Graph, finder: &Finder, summands: &[Summands]) -> Vec<bool> {
    let has_batch = has_batch(graph);
    let may_join = |id: usize| {
        let node = &graph.nodes[id];
        summands[id] != 0
            && !makes_sum(node)
            && node.results.iter().all(|&it| finder.is_sum[it as usize] && !has_batch[it as usize])
    };
    let mut joins: Vec<bool> =
        (0..graph.nodes.len()).map(|id| may_join(id) && summands[id].count_ones() > 1).collect();
    for id in (0..graph.nodes.len()).rev() {
        let mut readers = graph.nodes[id].results.iter().flat_map(|&it| &graph.tensors[it as usize].uses);
        let leads = |&(reader, slot): &(NodeId, u32)| {
            joins[reader as usize] && summands[reader as usize] >> slot & 1 == 1
        };
        joins[id] |= may_join(id) && readers.clone().next().is_some() && readers.all(leads);
    }
    joins
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of a program that join sums, or lead to where they are joined.
    fn joining(text: &str) -> String {
        let aliases = "input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }";
        let header = if text.contains("tuple(w, v") { aliases } else { "is_scheduled=false" };
        let module = phzc_ir::parse(&format!("HloModule m, {header}\n{text}")).expect("a legal program");
        let graph = Graph::build(&module);
        let sums = Sums::find(&module, &graph);
        let joins = graph.nodes.iter().zip(&sums.joins).filter(|(_, joins)| **joins);
        joins.map(|(node, _)| &*module.comp(node.comp).instr(node.instr).name).collect::<Vec<_>>().join(" ")
    }

    /// Two gradients of one weight, from two microbatches or two readings.
    const GRADIENTS: &str = "x = f32[64,32] parameter(0)
  y = f32[64,16] parameter(1)
  g = f32[32,16] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  z = f32[64,16] parameter(2)
  h = f32[32,16] dot(x, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}";

    #[test]
    fn gradients_that_are_added_may_wait_for_their_sum() {
        assert_eq!(joining(&format!("ENTRY e {{ {GRADIENTS} ROOT s = f32[32,16] add(g, h) }}")), "s");
    }

    #[test]
    fn what_leads_to_where_they_are_added_waits_too() {
        let text =
            format!("ENTRY e {{ {GRADIENTS} n = f32[32,16] negate(g) ROOT s = f32[32,16] add(n, h) }}");
        assert_eq!(joining(&text), "n s");
    }

    #[test]
    fn a_product_of_sums_is_not_linear_in_both() {
        assert_eq!(joining(&format!("ENTRY e {{ {GRADIENTS} ROOT s = f32[32,16] multiply(g, h) }}")), "");
    }

    #[test]
    fn activations_are_added_up_at_once() {
        let text = "ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,16] parameter(1)
  v = f32[32,16] parameter(2)
  a = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,16] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,16] add(a, b)
  ROOT t = (f32[32,16], f32[32,16], f32[64,16]) tuple(w, v, s)
}";
        assert_eq!(joining(text), "");
    }

    #[test]
    fn a_largest_value_is_no_sum() {
        let text = format!(
            "max {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }}
ENTRY e {{ {GRADIENTS}
  zero = f32[] constant(0)
  m = f32[16] reduce(g, zero), dimensions={{0}}, to_apply=max
  n = f32[16] reduce(h, zero), dimensions={{0}}, to_apply=max
  ROOT s = f32[16] add(m, n) }}"
        );
        assert_eq!(joining(&text), "");
    }
}
