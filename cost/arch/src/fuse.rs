//! Fusion: operators of a graph as they are read, and the layer that greedy fusion makes of them.
//!
//! A contraction takes in the function that is its only reader and reads nothing else of the layer; an
//! arithmetic function does so with one behind it; both as often as they can.
//! Source: WHAM's fusion as Phaze uses it, `reference/phaze.md`, section 2.

use crate::estimate::{Layer, Work};
use crate::mapping::Nest;
use crate::mapping::vector::Function;

/// What an operator does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A contraction, by its forward pass.
    Contraction(Nest),
    /// An elementwise function or a reduction.
    Function(Function),
    /// Softmax over rows of so many columns.
    Softmax {
        /// Elements of a row.
        columns: u64,
    },
    /// A change of layout, which can be fused behind a contraction.
    Layout,
    /// Nothing that takes time.
    Free,
}

/// An operator of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct RawOp {
    /// What it does.
    pub kind: Kind,
    /// Elements of its result.
    pub output: u64,
    /// Elements of each input.
    pub inputs: Vec<u64>,
}

/// Readers and operands of the operators that are left, and what each has taken in.
struct Fusion<'a> {
    ops: &'a [RawOp],
    readers: Vec<Vec<usize>>,
    operands: Vec<Vec<usize>>,
    absorbed: Vec<Vec<usize>>,
    is_gone: Vec<bool>,
}

/// The layer of these operators, with edges `(before, after)`, and by operator of it the position of the one
/// that took the others in; operators keep their order.
pub fn fuse(ops: &[RawOp], edges: &[(usize, usize)]) -> (Layer, Vec<usize>) {
    let mut fusion = Fusion::new(ops, edges);
    for at in 0..ops.len() {
        while let Some(next) = fusion.next(at) {
            fusion.absorb(at, next);
        }
    }
    fusion.layer()
}

impl<'a> Fusion<'a> {
    fn new(ops: &'a [RawOp], edges: &[(usize, usize)]) -> Fusion<'a> {
        let n = ops.len();
        let (mut readers, mut operands) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for &(from, to) in edges {
            if !readers[from].contains(&to) {
                readers[from].push(to);
                operands[to].push(from);
            }
        }
        Fusion { ops, readers, operands, absorbed: vec![Vec::new(); n], is_gone: vec![false; n] }
    }

    /// The operator that one can take in.
    fn next(&self, at: usize) -> Option<usize> {
        let [next] = self.readers[at][..] else { return None };
        let is_alone = self.operands[next].len() == 1 && !self.is_gone[at];
        let fits = match (&self.ops[at].kind, &self.ops[next].kind) {
            (Kind::Contraction(_), Kind::Function(_) | Kind::Layout) => true,
            (Kind::Function(head), Kind::Function(_)) => *head != Function::Sine,
            _ => false,
        };
        (is_alone && fits).then_some(next)
    }

    fn absorb(&mut self, at: usize, next: usize) {
        self.is_gone[next] = true;
        let taken = std::mem::take(&mut self.absorbed[next]);
        self.absorbed[at].push(next);
        self.absorbed[at].extend(taken);
        self.readers[at] = std::mem::take(&mut self.readers[next]);
        for reader in &self.readers[at] {
            self.operands[*reader].iter_mut().filter(|it| **it == next).for_each(|it| *it = at);
        }
    }

    fn layer(&self) -> (Layer, Vec<usize>) {
        let kept: Vec<usize> = (0..self.ops.len()).filter(|at| !self.is_gone[*at]).collect();
        let mut position = vec![0; self.ops.len()];
        kept.iter().enumerate().for_each(|(to, from)| position[*from] = to);
        let mut edges = Vec::new();
        for from in &kept {
            edges.extend(self.readers[*from].iter().map(|to| (position[*from], position[*to])));
        }
        (Layer { ops: kept.iter().map(|at| self.work(*at)).collect(), edges, kernels: None }, kept)
    }

    fn work(&self, at: usize) -> Option<Work> {
        let (op, fused) = (&self.ops[at], self.functions(at));
        Some(match &op.kind {
            Kind::Contraction(nest) => Work::Contraction {
                nest: *nest,
                fused,
                is_moved: self.absorbed[at].iter().any(|it| self.ops[*it].kind == Kind::Layout),
            },
            Kind::Softmax { columns } => {
                Work::Softmax { rows: op.output / (*columns).max(1), columns: *columns }
            }
            Kind::Function(head) if !fused.is_empty() => {
                let functions = std::iter::once(*head).chain(fused).collect();
                Work::Chain { functions, output: op.output }
            }
            Kind::Function(head) => {
                Work::Elementwise { function: *head, output: op.output, inputs: op.inputs.clone() }
            }
            Kind::Layout | Kind::Free => return None,
        })
    }

    /// The functions that an operator has taken in.
    fn functions(&self, at: usize) -> Vec<Function> {
        let function = |it: &usize| match self.ops[*it].kind {
            Kind::Function(function) => Some(function),
            _ => None,
        };
        self.absorbed[at].iter().filter_map(function).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: Kind) -> RawOp {
        RawOp { kind, output: 64, inputs: vec![64] }
    }

    fn check(kinds: &[Kind], edges: &[(usize, usize)]) -> String {
        let ops: Vec<RawOp> = kinds.iter().cloned().map(op).collect();
        let (layer, _) = fuse(&ops, edges);
        let name = |work: &Option<Work>| match work {
            Some(Work::Contraction { fused, .. }) => format!("product{fused:?}"),
            Some(Work::Chain { functions, .. }) => format!("chain{functions:?}"),
            Some(Work::Elementwise { function, .. }) => format!("{function:?}"),
            Some(Work::Softmax { .. }) => "softmax".to_owned(),
            None => "-".to_owned(),
        };
        let names: Vec<String> = layer.ops.iter().map(name).collect();
        format!("{} {:?}", names.join(" "), layer.edges)
    }

    fn product() -> Kind {
        Kind::Contraction(Nest::product(8, 8, 8))
    }

    #[test]
    fn a_product_takes_in_the_function_that_alone_reads_it() {
        let kinds = [product(), Kind::Function(Function::Sigmoid), product()];
        assert_eq!(check(&kinds, &[(0, 1), (1, 2)]), "product[Sigmoid] product[] [(0, 1)]");
    }

    #[test]
    fn a_function_of_two_results_stays_apart() {
        let kinds = [product(), product(), Kind::Function(Function::Simple)];
        assert_eq!(check(&kinds, &[(0, 2), (1, 2)]), "product[] product[] Simple [(0, 2), (1, 2)]");
    }

    #[test]
    fn functions_behind_each_other_become_a_chain() {
        let kinds = [Function::Power, Function::Mean, Function::Simple].map(Kind::Function);
        assert_eq!(check(&kinds, &[(0, 1), (1, 2)]), "chain[Power, Mean, Simple] []");
    }

    #[test]
    fn what_takes_no_time_separates_functions() {
        let kinds = [Kind::Function(Function::Simple), Kind::Free, Kind::Function(Function::Simple)];
        assert_eq!(check(&kinds, &[(0, 1), (1, 2)]), "Simple - Simple [(0, 1), (1, 2)]");
    }
}
