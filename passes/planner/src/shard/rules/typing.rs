//! The types of terms: a layout, the axes that the value is partial over, and whether `f` has run.

use super::Move;
use egg::{Id, Language};
use phzc_ir::{Dims, FactorKind, Layout, MAX_AXES, Mesh};
use smallvec::SmallVec;

/// What an e-class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An axis or a dimension.
    Num(u8),
    /// A tensor in this layout, partial over these axes (a bit each), after `f` or before.
    Value(Layout, u8, bool),
    /// No program means this; conditions keep rules from making it.
    Bad,
}

impl Type {
    fn number(self) -> Option<usize> {
        match self {
            Type::Num(number) => Some(number as usize),
            _ => None,
        }
    }

    fn value(self) -> Option<(Layout, u8, bool)> {
        match self {
            Type::Value(layout, partial, applied) => Some((layout, partial, applied)),
            _ => None,
        }
    }
}

/// What an op does with each of its loops.
pub type Kinds = SmallVec<[FactorKind; 8]>;

/// Types the terms of one tensor on one mesh.
#[derive(Clone)]
pub struct Typing {
    /// The mesh.
    pub mesh: Mesh,
    /// The tensor's sizes, or those of the op's loops.
    pub dims: Dims,
    /// What `f` does with each of them.
    pub kinds: Kinds,
    /// How the tensor lies.
    pub source: (Layout, u8),
}

impl Typing {
    /// The axis that splits `dim` into its smallest tiles.
    fn minor(&self, layout: Layout, dim: usize) -> Option<usize> {
        layout.axes_of(dim).last()
    }

    /// `dim` no longer split by `axis`, which must be the minor-most one there.
    fn gather(&self, layout: Layout, axis: usize, dim: usize) -> Option<Layout> {
        (self.minor(layout, dim) == Some(axis)).then(|| layout.with(axis, None))
    }

    /// What `f` makes of operands in this layout: it is partial over the axes of loops that it reduces.
    ///
    /// `None` where a loop is split that has to be whole, or one of several that reduce differently.
    fn apply(&self, layout: Layout) -> Option<(Layout, u8)> {
        let mut reducers = self.kinds.iter().filter(|kind| matches!(kind, FactorKind::Reduce(_)));
        let first = reducers.next();
        let is_one = reducers.all(|reducer| Some(reducer) == first);
        (0..self.mesh.n_axes()).try_fold((layout, 0), |(made, partial), axis| {
            match layout.dim_of(axis).map(|dim| self.kinds[dim]) {
                None | Some(FactorKind::Pass) => Some((made, partial)),
                Some(FactorKind::Reduce(_)) if is_one => Some((made.with(axis, None), partial | 1 << axis)),
                Some(_) => None,
            }
        })
    }

    /// Whether a value has this dimension: the result of `f` has no loop that is reduced.
    fn has(&self, dim: usize, applied: bool) -> bool {
        !(applied && matches!(self.kinds.get(dim), Some(FactorKind::Reduce(_))))
    }

    /// `dim` split further by `axis`, which must become the minor-most one there.
    fn slice(&self, layout: Layout, axis: usize, dim: usize) -> Option<Layout> {
        let is_free = axis < self.mesh.n_axes() && dim < self.dims.len() && layout.dim_of(axis).is_none();
        let is_minor = layout.axes_of(dim).all(|other| other < axis);
        let split = layout.with(axis, Some(dim));
        (is_free && is_minor && split.divides(&self.dims, &self.mesh)).then_some(split)
    }

    /// `dim` split by `to` in place of `from`, an axis of the same size.
    fn permute(&self, layout: Layout, from: usize, to: usize, dim: usize) -> Option<Layout> {
        let same = self.mesh.sizes.get(from) == self.mesh.sizes.get(to);
        let gathered = self.gather(layout, from, dim).filter(|_| same && from != to)?;
        if layout.dim_of(to).is_some() { None } else { self.slice(gathered, to, dim) }
    }

    /// The type of a node from its children's.
    pub fn type_of(&self, node: &Move, child: impl Fn(Id) -> Type) -> Type {
        let typed = match *node {
            Move::Num(number) => Some(Type::Num(number)),
            Move::Leaf => Some(Type::Value(self.source.0, self.source.1, false)),
            Move::Apply([t]) => match child(t) {
                Type::Value(layout, 0, false) => {
                    self.apply(layout).map(|(to, sums)| Type::Value(to, sums, true))
                }
                _ => None,
            },
            _ => self.moved(node, child),
        };
        typed.unwrap_or(Type::Bad)
    }

    /// The type after a movement.
    fn moved(&self, node: &Move, child: impl Fn(Id) -> Type) -> Option<Type> {
        let (&value, numbers) = node.children().split_last()?;
        let (at, partial, applied) = child(value).value()?;
        let numbers: SmallVec<[usize; 3]> =
            numbers.iter().map(|&id| child(id).number()).collect::<Option<_>>()?;
        let is_partial = |axis: usize| axis < MAX_AXES && partial >> axis & 1 == 1;
        let slice = |layout, axis, dim| self.slice(layout, axis, dim).filter(|_| self.has(dim, applied));
        let (layout, reduced) = match (node, &numbers[..]) {
            (Move::AllGather(_), &[axis, dim]) => (self.gather(at, axis, dim)?, 0),
            (Move::Slice(_), &[axis, dim]) if !is_partial(axis) => (slice(at, axis, dim)?, 0),
            (Move::ReduceScatter(_), &[axis, dim]) if is_partial(axis) => (slice(at, axis, dim)?, 1 << axis),
            (Move::AllReduce(_), &[axis]) if is_partial(axis) => (at, 1 << axis),
            (Move::AllToAll(_), &[axis, from, to]) if from != to => {
                (slice(self.gather(at, axis, from)?, axis, to)?, 0)
            }
            (Move::Permute(_), &[from, to, dim]) if !is_partial(to) => (self.permute(at, from, to, dim)?, 0),
            _ => return None,
        };
        Some(Type::Value(layout, partial & !reduced, applied))
    }
}
