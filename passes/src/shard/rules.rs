//! The rewrite rules over data movements, one line each, and the types that keep them sound.
//!
//! A term is a distributed value: `x` is the tensor as it lies, `(ag a d t)` gathers mesh axis `a`
//! on dimension `d`, `sl` slices, `rs` and `ar` reduce a partial value, `a2a` moves an axis between
//! dimensions, `cp` hands a dimension from one axis to another of its size, and `(f t)` is an op
//! that works tile by tile. Every e-class is one value with one layout; merging two classes of
//! different layouts is a bug and panics (reference/cfp-alpa.md 7.3, 7.4: M1–M5, P1, P2).

use egg::{Analysis, DidMerge, EGraph, Id, Language, Pattern, Rewrite, Subst, Var, define_language};
use phzc_ir::{Dims, Layout, Mesh};

define_language! {
    /// Movements of one tensor.
    #[allow(missing_docs, reason = "the module says what each is")]
    pub enum Move {
        Num(u8),
        "x" = Leaf,
        "ag" = AllGather([Id; 3]),
        "sl" = Slice([Id; 3]),
        "rs" = ReduceScatter([Id; 3]),
        "ar" = AllReduce([Id; 2]),
        "a2a" = AllToAll([Id; 4]),
        "cp" = Permute([Id; 4]),
        "f" = Apply([Id; 1]),
    }
}

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

/// Types the terms of one tensor on one mesh.
pub struct Typing {
    /// The mesh.
    pub mesh: Mesh,
    /// The tensor's sizes.
    pub dims: Dims,
    /// How the tensor lies.
    pub source: (Layout, u8),
}

/// An e-graph of movements.
pub type Graph = EGraph<Move, Typing>;

impl Typing {
    /// The axis that splits `dim` into its smallest tiles.
    fn minor(&self, layout: Layout, dim: usize) -> Option<usize> {
        layout.axes_of(dim).last()
    }

    fn gather(&self, layout: Layout, axis: usize, dim: usize) -> Option<Layout> {
        (self.minor(layout, dim) == Some(axis)).then(|| layout.with(axis, None))
    }

    /// `dim` split further by `axis`, which must become the minor-most one there.
    fn slice(&self, layout: Layout, axis: usize, dim: usize) -> Option<Layout> {
        let is_free = axis < self.mesh.n_axes() && dim < self.dims.len() && layout.dim_of(axis).is_none();
        let is_minor = layout.axes_of(dim).all(|other| other < axis);
        let split = layout.with(axis, Some(dim));
        (is_free && is_minor && split.divides(&self.dims, &self.mesh)).then_some(split)
    }

    fn permute(&self, layout: Layout, from: usize, to: usize, dim: usize) -> Option<Layout> {
        let same = self.mesh.sizes.get(from) == self.mesh.sizes.get(to);
        let gathered = self.gather(layout, from, dim).filter(|_| same && from != to)?;
        if layout.dim_of(to).is_some() { None } else { self.slice(gathered, to, dim) }
    }

    /// The type of a node from its children's.
    pub fn type_of(&self, node: &Move, child: impl Fn(Id) -> Type) -> Type {
        let num = |id: Id| match child(id) {
            Type::Num(number) => Some(number as usize),
            _ => None,
        };
        let value = |id: Id| match child(id) {
            Type::Value(layout, partial, applied) => Some((layout, partial, applied)),
            _ => None,
        };
        let typed = || -> Option<Type> {
            Some(match *node {
                Move::Num(number) => Type::Num(number),
                Move::Leaf => Type::Value(self.source.0, self.source.1, false),
                Move::Apply([t]) => {
                    let (layout, partial, applied) = value(t)?;
                    if applied || partial != 0 { return None } else { Type::Value(layout, 0, true) }
                }
                Move::AllGather([axis, dim, t]) => {
                    let (layout, partial, applied) = value(t)?;
                    Type::Value(self.gather(layout, num(axis)?, num(dim)?)?, partial, applied)
                }
                Move::Slice([axis, dim, t]) => {
                    let (layout, partial, applied) = value(t)?;
                    let axis = num(axis)?;
                    let is_whole = partial >> axis & 1 == 0;
                    Type::Value(self.slice(layout, axis, num(dim)?).filter(|_| is_whole)?, partial, applied)
                }
                Move::ReduceScatter([axis, dim, t]) => {
                    let ((layout, partial, applied), axis) = (value(t)?, num(axis)?);
                    let split = self.slice(layout, axis, num(dim)?).filter(|_| partial >> axis & 1 == 1)?;
                    Type::Value(split, partial & !(1 << axis), applied)
                }
                Move::AllReduce([axis, t]) => {
                    let ((layout, partial, applied), axis) = (value(t)?, num(axis)?);
                    let is_partial = axis < 8 && partial >> axis & 1 == 1;
                    if is_partial {
                        Type::Value(layout, partial & !(1 << axis), applied)
                    } else {
                        return None;
                    }
                }
                Move::AllToAll([axis, from, to, t]) => {
                    let ((layout, partial, applied), axis) = (value(t)?, num(axis)?);
                    let gathered = self.gather(layout, axis, num(from)?).filter(|_| num(from) != num(to))?;
                    Type::Value(self.slice(gathered, axis, num(to)?)?, partial, applied)
                }
                Move::Permute([from, to, dim, t]) => {
                    let (layout, partial, applied) = value(t)?;
                    let (from, to) = (num(from)?, num(to)?);
                    let is_whole = partial >> to & 1 == 0;
                    Type::Value(
                        self.permute(layout, from, to, num(dim)?).filter(|_| is_whole)?,
                        partial,
                        applied,
                    )
                }
            })
        };
        typed().unwrap_or(Type::Bad)
    }
}

impl Analysis<Move> for Typing {
    type Data = Type;

    fn make(graph: &mut Graph, node: &Move, _: Id) -> Type {
        graph.analysis.type_of(node, |id| graph[id].data)
    }

    fn merge(&mut self, a: &mut Type, b: Type) -> DidMerge {
        assert_eq!(*a, b, "a rewrite rule joined values of different layouts");
        DidMerge(false, false)
    }
}

/// The rules for tensors of `rank` dimensions on `n_axes` mesh axes.
pub fn rules(n_axes: usize, rank: usize) -> Vec<Rewrite<Move, Typing>> {
    let mut rules = Vec::new();
    let mut rule = |name: String, from: &str, to: &str| rules.push(sound(name, from, to));
    for axis in 0..n_axes {
        for dim in 0..rank {
            // M1: a whole value is the gathering of its slices.
            rule(format!("M1-{axis}-{dim}"), "?t", &format!("(ag {axis} {dim} (sl {axis} {dim} ?t))"));
            // M3: an all-reduce is a reduce-scatter and an all-gather.
            rule(
                format!("M3-{axis}-{dim}"),
                &format!("(ar {axis} ?t)"),
                &format!("(ag {axis} {dim} (rs {axis} {dim} ?t))"),
            );
        }
    }
    rule("M2".into(), "(sl ?a ?d (ag ?a ?d ?t))", "?t");
    rule("M3".into(), "(sl ?a ?d (ar ?a ?t))", "(rs ?a ?d ?t)");
    rule("M4-swap".into(), "(sl ?a ?e (ag ?a ?d ?t))", "(a2a ?a ?d ?e ?t)");
    rule("M4-gather".into(), "(ag ?a ?e (a2a ?a ?d ?e ?t))", "(ag ?a ?d ?t)");
    rule("M4-reduce".into(), "(a2a ?a ?d ?e (rs ?a ?d ?t))", "(rs ?a ?e ?t)");
    rule("M4-permute".into(), "(sl ?b ?d (ag ?a ?d ?t))", "(cp ?a ?b ?d ?t)");
    for (name, from, to) in COMMUTE {
        rule((*name).into(), from, to);
        rule(format!("{name}-back"), to, from);
    }
    // P1, P2 with movements on the operand: an op that works tile by tile may run before or after.
    rule("P1-gather".into(), "(f (ag ?a ?d ?t))", "(ag ?a ?d (f ?t))");
    rule("P1-slice".into(), "(f (sl ?a ?d ?t))", "(sl ?a ?d (f ?t))");
    rule("P1-swap".into(), "(f (a2a ?a ?d ?e ?t))", "(a2a ?a ?d ?e (f ?t))");
    rules
}

/// M5: movements on different axes commute (types forbid it where one dimension's order would break).
const COMMUTE: &[(&str, &str, &str)] = &[
    ("M5-ag-ag", "(ag ?a ?d (ag ?b ?e ?t))", "(ag ?b ?e (ag ?a ?d ?t))"),
    ("M5-ag-sl", "(ag ?a ?d (sl ?b ?e ?t))", "(sl ?b ?e (ag ?a ?d ?t))"),
    ("M5-ag-a2a", "(ag ?a ?d (a2a ?b ?e ?g ?t))", "(a2a ?b ?e ?g (ag ?a ?d ?t))"),
    ("M5-sl-sl", "(sl ?a ?d (sl ?b ?e ?t))", "(sl ?b ?e (sl ?a ?d ?t))"),
    ("M5-sl-a2a", "(sl ?a ?d (a2a ?b ?e ?g ?t))", "(a2a ?b ?e ?g (sl ?a ?d ?t))"),
    ("M5-a2a-a2a", "(a2a ?a ?d ?h (a2a ?b ?e ?g ?t))", "(a2a ?b ?e ?g (a2a ?a ?d ?h ?t))"),
    ("M5-ar-ar", "(ar ?a (ar ?b ?t))", "(ar ?b (ar ?a ?t))"),
    ("M5-ar-rs", "(ar ?a (rs ?b ?e ?t))", "(rs ?b ?e (ar ?a ?t))"),
    ("M5-rs-rs", "(rs ?a ?d (rs ?b ?e ?t))", "(rs ?b ?e (rs ?a ?d ?t))"),
    ("M5-ar-ag", "(ar ?a (ag ?b ?e ?t))", "(ag ?b ?e (ar ?a ?t))"),
    ("M5-ar-sl", "(ar ?a (sl ?b ?e ?t))", "(sl ?b ?e (ar ?a ?t))"),
];

/// A rule that fires only where the right side has the type of the left one, and is no movement
/// of one axis past another that shares its name.
fn sound(name: String, from: &str, to: &str) -> Rewrite<Move, Typing> {
    let (from, to): (Pattern<Move>, Pattern<Move>) = (parse(from), parse(to));
    let right = to.clone();
    let distinct: Vec<(Var, Var)> = [("?a", "?b")].iter().map(|(a, b)| (variable(a), variable(b))).collect();
    let condition = move |graph: &mut Graph, class: Id, subst: &Subst| {
        let differ = distinct.iter().all(|&(a, b)| match (subst.get(a), subst.get(b)) {
            (Some(&a), Some(&b)) => graph.find(a) != graph.find(b),
            _ => true,
        });
        differ
            && matches!(graph[class].data, Type::Value(..))
            && pattern_type(graph, &right, subst) == graph[class].data
    };
    Rewrite::new(name, from, egg::ConditionalApplier { condition, applier: to })
        .expect("rules are well-formed")
}

fn parse(text: &str) -> Pattern<Move> {
    text.parse().expect("rules are well-formed")
}

fn variable(text: &str) -> Var {
    text.parse().expect("variables are well-formed")
}

/// The type that a pattern's instance has, without adding it to the graph.
fn pattern_type(graph: &Graph, pattern: &Pattern<Move>, subst: &Subst) -> Type {
    let mut types: Vec<Type> = Vec::with_capacity(pattern.ast.len());
    for node in pattern.ast.iter() {
        let found = match node {
            egg::ENodeOrVar::Var(var) => subst.get(*var).map_or(Type::Bad, |&id| graph[id].data),
            egg::ENodeOrVar::ENode(node) => {
                let bad = node.children().iter().any(|&id| types[usize::from(id)] == Type::Bad);
                if bad { Type::Bad } else { graph.analysis.type_of(node, |id| types[usize::from(id)]) }
            }
        };
        types.push(found);
    }
    types.last().copied().unwrap_or(Type::Bad)
}

#[cfg(test)]
mod tests;
