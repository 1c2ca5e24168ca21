//! The rewrite rules over data movements, one line each, and the types that keep them sound.
//!
//! A term is a distributed value: `x` is the tensor as it lies, `(ag a d t)` gathers mesh axis `a`
//! on dimension `d`, `sl` slices, `rs` and `ar` reduce a partial value, `a2a` moves an axis between
//! dimensions, `cp` hands a dimension from one axis to another of its size, and `(f t)` is an op.
//! Under `f`, `x` is all operands of the op at once and a dimension is a loop of the op: an axis that
//! splits a loop splits it in every operand that has it. Every e-class is one value with one layout;
//! merging two classes of different layouts is a bug and panics (reference/cfp-alpa.md 7.3, 7.4:
//! M1–M5, P1, P2).

mod typing;

pub use typing::{Kinds, Type, Typing};

use egg::{Analysis, DidMerge, EGraph, Id, Language, Pattern, Rewrite, Subst, Var, define_language};

define_language! {
    /// Movements of one tensor, or of an op's operands.
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

/// An e-graph of movements.
pub type Graph = EGraph<Move, Typing>;

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
    texts(n_axes, rank).into_iter().map(sound).collect()
}

/// The rules that split an op's loops from within: operands are gathered slices (M1), and so is the
/// result (P1) or it is reduced (P2). Enough to find every way to split an op whose operands are whole.
pub fn splits(n_axes: usize, n_loops: usize) -> Vec<Rewrite<Move, Typing>> {
    let is_wanted = |(name, ..): &Text| name.starts_with("M1") || matches!(name.as_str(), "P1-gather" | "P2");
    texts(n_axes, n_loops).into_iter().filter(is_wanted).map(sound).collect()
}

/// A rule as text: its name, its left and its right side.
type Text = (String, String, String);

fn texts(n_axes: usize, rank: usize) -> Vec<Text> {
    let text = |name: &str, from: &str, to: &str| (name.to_owned(), from.to_owned(), to.to_owned());
    let pairs = (0..n_axes).flat_map(|axis| (0..rank).map(move |dim| (axis, dim)));
    let mut rules: Vec<Text> = pairs.flat_map(|(axis, dim)| along(axis, dim)).collect();
    rules.extend(MEET.iter().map(|(name, from, to)| text(name, from, to)));
    for (name, from, to) in COMMUTE {
        rules.push(text(name, from, to));
        rules.push(text(&format!("{name}-back"), to, from));
    }
    rules.extend(OP.iter().map(|(name, from, to)| text(name, from, to)));
    rules
}

/// The rules that name an axis and a dimension.
fn along(axis: usize, dim: usize) -> [Text; 2] {
    let name = |rule: &str| format!("{rule}-{axis}-{dim}");
    [
        // M1: a whole value is the gathering of its slices.
        (name("M1"), "?t".to_owned(), format!("(ag {axis} {dim} (sl {axis} {dim} ?t))")),
        // M3: an all-reduce is a reduce-scatter and an all-gather.
        (name("M3"), format!("(ar {axis} ?t)"), format!("(ag {axis} {dim} (rs {axis} {dim} ?t))")),
    ]
}

/// M2 to M4: two movements in a row are one, or none.
const MEET: &[(&str, &str, &str)] = &[
    ("M2", "(sl ?a ?d (ag ?a ?d ?t))", "?t"),
    ("M3", "(sl ?a ?d (ar ?a ?t))", "(rs ?a ?d ?t)"),
    ("M4-swap", "(sl ?a ?e (ag ?a ?d ?t))", "(a2a ?a ?d ?e ?t)"),
    ("M4-gather", "(ag ?a ?e (a2a ?a ?d ?e ?t))", "(ag ?a ?d ?t)"),
    ("M4-reduce", "(a2a ?a ?d ?e (rs ?a ?d ?t))", "(rs ?a ?e ?t)"),
    ("M4-permute", "(sl ?b ?d (ag ?a ?d ?t))", "(cp ?a ?b ?d ?t)"),
];

/// P1: an op works tile by tile along its pass loops, so it may run before a movement or after it.
/// P2: along a loop that it reduces, its results on the tiles are partial.
const OP: &[(&str, &str, &str)] = &[
    ("P1-gather", "(f (ag ?a ?d ?t))", "(ag ?a ?d (f ?t))"),
    ("P1-slice", "(f (sl ?a ?d ?t))", "(sl ?a ?d (f ?t))"),
    ("P1-swap", "(f (a2a ?a ?d ?e ?t))", "(a2a ?a ?d ?e (f ?t))"),
    ("P1-permute", "(f (cp ?a ?b ?d ?t))", "(cp ?a ?b ?d (f ?t))"),
    ("P2", "(f (ag ?a ?d ?t))", "(ar ?a (f ?t))"),
];

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
fn sound((name, from, to): Text) -> Rewrite<Move, Typing> {
    let (from, to): (Pattern<Move>, Pattern<Move>) = (parse(&from), parse(&to));
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
