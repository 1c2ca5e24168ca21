//! A split carried op by op, from products by columns to products by rows.

use super::{ForwardProduct, Labels};
use crate::derive::{Facts, Phase};
use phzc_analysis::graph::{Graph, Node, NodeKind};
use phzc_ir::{FactorId, FactorKind, Part};
use std::collections::BTreeSet;

/// A split dimension of a tensor, and the products by columns that it comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    pub dim: usize,
    roots: BTreeSet<usize>,
}

/// What has become of a product.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    /// Dimensions of its weight that can be columns, from which on those that have failed are behind.
    columns: Vec<usize>,
    n_failed: usize,
    /// The dimension of the weight that is summed over in parts.
    pub rows: Option<usize>,
}

/// Carries splits through the forward part.
pub(super) struct Finder<'a> {
    pub graph: &'a Graph,
    pub labels: &'a Labels,
    facts: &'a Facts,
    pub products: &'a [ForwardProduct<'a>],
    /// Parts of tensor parallelism.
    pub tensor: i64,
    /// Per product.
    pub choices: Vec<Choice>,
    /// Per tensor.
    pub carried: Vec<Option<Carried>>,
    /// Per tensor: dimensions along which any device can make any part, a bit each.
    free: Vec<u64>,
    failed: BTreeSet<usize>,
    /// Products whose columns something else than a product sums up.
    reduced: BTreeSet<usize>,
    /// Products whose columns are summed up by one by rows.
    by_rows: BTreeSet<usize>,
}

impl<'a> Finder<'a> {
    pub fn new(
        graph: &'a Graph,
        labels: &'a Labels,
        facts: &'a Facts,
        products: &'a [ForwardProduct<'a>],
        tensor: i64,
    ) -> Finder<'a> {
        let n = graph.tensors.len();
        let (carried, free) = (vec![None; n], vec![0; n]);
        let choices = products.iter().map(|product| choice(product, tensor)).collect();
        let [failed, reduced, by_rows] = std::array::from_fn(|_| BTreeSet::new());
        Finder { graph, labels, facts, products, tensor, choices, carried, free, failed, reduced, by_rows }
    }

    /// When a node runs.
    pub fn phase(&self, node: &Node) -> Option<Phase> {
        self.facts.comps[node.comp.index()].get(node.instr.index()).map(|own| own.phase)
    }

    /// Carries all splits from products by columns to products by rows; whether some have failed, and all is
    /// to be done again.
    pub fn pass(&mut self) -> bool {
        self.carried.fill(None);
        self.reduced.clear();
        self.by_rows.clear();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            if node.kind == NodeKind::Source || self.phase(node) != Some(Phase::Forward) {
                continue;
            }
            let product =
                self.products.iter().position(|it| std::ptr::eq(it.node, &raw const self.graph.nodes[at]));
            match product.filter(|&product| self.products[product].weight.is_some()) {
                Some(product) => self.weighted(product),
                None => self.carry(node),
            }
        }
        // Norms sum up the residual stream, the loss the head: only a stream that is split has both.
        let mut failed = std::mem::take(&mut self.failed);
        failed.extend(self.reduced.intersection(&self.by_rows));
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
            (Part::Sums, Some(dim)) => {
                self.choices[at].rows = Some(dim);
                self.by_rows.extend(roots);
            }
            _ => self.failed.extend(roots),
        }
    }

    /// Any other op: what it reads split it makes split, where all that it reads is split alike.
    fn carry(&mut self, node: &Node) {
        self.spread(node);
        for slot in 0..node.operands.len() {
            let Some((factor, roots)) = self.split_of(node, slot) else { continue };
            let kind = node.rule.factors[factor as usize].kind;
            let is_kept = matches!(kind, FactorKind::Pass | FactorKind::Reduce(_));
            if !is_kept || (0..node.operands.len()).any(|other| self.is_whole(node, other, factor)) {
                self.failed.extend(roots);
                continue;
            }
            if matches!(kind, FactorKind::Reduce(_)) {
                self.reduced.extend(&roots);
            }
            self.put(node, factor, roots);
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
        // Heads may be fewer than parts.
        if node.rule.factors[factor as usize].size % self.tensor != 0 {
            self.failed.extend(roots);
            return;
        }
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
}

impl Choice {
    /// The dimension that is columns, if one is.
    pub fn column(&self) -> Option<usize> {
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

/// The loop that an axis splits, of those of a dimension.
pub(super) fn outermost(node: &Node, loops: &[FactorId]) -> Option<FactorId> {
    loops.iter().copied().find(|&factor| node.rule.factors[factor as usize].size > 1)
}
