//! What the rules mean: a term is a function from device to local arrays, and both sides of a rule are the
//! same function. Evaluated on a 2x2 mesh with random integers, for every layout of a few small ops'
//! operands.

mod never;
mod simulate;

use super::*;
use egg::{ENodeOrVar, PatternAst, RecExpr, Runner, SimpleScheduler};
use indexmap::IndexMap;
use phzc_ir::FactorKind::{Pass, Reduce, Replicate};
use phzc_ir::{Dims, FactorKind, Layout, Mesh, Reducer};
use simulate::{Case, Meaning, N_AXES, Op, cases, meaning};

/// An op of two dimensions that works on every element.
const ELEMENTWISE: Op = (&[Pass, Pass], &[&[true, true]]);

/// Ops of three loops: elementwise, a running sum, reductions of each kind, a product of two matrices.
const OPS: &[Op] = &[
    (&[Pass, Pass, Pass], &[&[true, true, true]]),
    (&[Pass, Replicate, Pass], &[&[true, true, true]]),
    (&[Pass, Reduce(Reducer::Add), Reduce(Reducer::Add)], &[&[true, true, true]]),
    (&[Reduce(Reducer::Max), Pass, Replicate], &[&[true, true, true]]),
    (&[Pass, Reduce(Reducer::Add), Pass], &[&[true, true, false], &[false, true, true]]),
];

/// Operands of all ops.
fn all_cases() -> Vec<Case> {
    let four = (&[Pass, Pass, Reduce(Reducer::Min), Pass][..], &[&[true, true, true, true][..]][..]);
    OPS.iter().flat_map(|&op| cases(&[4, 4, 4], op)).chain(cases(&[2, 2, 2, 2], four)).collect()
}

/// Every way to stand numbers for the variables of a pattern, `?t` aside.
fn assignments(vars: &[Var], n_values: usize) -> Vec<IndexMap<Var, usize>> {
    let n_all = n_values.pow(vars.len() as u32);
    let digit = |code: usize, at: usize| code / n_values.pow(at as u32) % n_values;
    (0..n_all)
        .map(|code| vars.iter().enumerate().map(|(at, &var)| (var, digit(code, at))).collect())
        .collect()
}

/// The pattern's nodes with numbers for variables and the tensor for `?t`.
fn terms<'a>(
    pattern: &'a PatternAst<Move>,
    numbers: &'a IndexMap<Var, usize>,
) -> impl Iterator<Item = Move> + 'a {
    pattern.iter().map(|node| match node {
        ENodeOrVar::Var(var) => numbers.get(var).map_or(Move::Leaf, |&number| Move::Num(number as u8)),
        ENodeOrVar::ENode(node) => node.clone(),
    })
}

fn type_of(pattern: &PatternAst<Move>, typing: &Typing, numbers: &IndexMap<Var, usize>) -> Type {
    let mut types: Vec<Type> = Vec::new();
    for node in terms(pattern, numbers) {
        types.push(typing.type_of(&node, |id| types[usize::from(id)]));
    }
    types.pop().expect("no pattern is empty")
}

fn meaning_of(pattern: &PatternAst<Move>, case: &Case, numbers: &IndexMap<Var, usize>) -> Option<Meaning> {
    let mut meanings: Vec<Option<Meaning>> = Vec::new();
    for node in terms(pattern, numbers) {
        meanings.push(meaning(&node, case, |id| meanings[usize::from(id)].clone()));
    }
    meanings.pop().expect("no pattern is empty")
}

/// How often both sides of a rule have one type, and how often they then mean different things.
fn compare(from: &PatternAst<Move>, to: &PatternAst<Move>, cases: &[&Case]) -> [usize; 2] {
    let counts = cases.iter().map(|case| compare_as(&case.typing, from, to, case));
    counts.fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]])
}

/// The same for one op's operands, with types by `typing`.
fn compare_as(typing: &Typing, from: &PatternAst<Move>, to: &PatternAst<Move>, case: &Case) -> [usize; 2] {
    let mut vars: Vec<Var> = Vec::new();
    for node in from.iter().chain(to.iter()) {
        match node {
            ENodeOrVar::Var(var) if *var != variable("?t") && !vars.contains(var) => vars.push(*var),
            _ => {}
        }
    }
    let [mut n_equal_types, mut n_wrong] = [0, 0];
    for numbers in assignments(&vars, typing.dims.len()) {
        let axes = [variable("?a"), variable("?b")].map(|var| numbers.get(&var));
        let found = type_of(from, typing, &numbers);
        let is_same_axis = axes[0].is_some() && axes[0] == axes[1];
        if is_same_axis || found != type_of(to, typing, &numbers) || !matches!(found, Type::Value(..)) {
            continue;
        }
        let [left, right] = [from, to].map(|side| meaning_of(side, case, &numbers));
        n_equal_types += 1;
        n_wrong += usize::from(left.is_none() || left != right);
    }
    [n_equal_types, n_wrong]
}

fn ast(text: &str) -> PatternAst<Move> {
    parse(text).ast
}

/// Whether some instance of two terms, whatever their types, means different things for an op.
fn differ(op: Op, from: &str, to: &str) -> bool {
    let vars = ["?a", "?b", "?d", "?e"].map(variable);
    let (from, to) = (ast(from), ast(to));
    let is_told = |case: &Case, numbers: &IndexMap<Var, usize>| {
        let sides = [&from, &to].map(|side| meaning_of(side, case, numbers));
        sides.iter().all(Option::is_some) && sides[0] != sides[1]
    };
    let cases = cases(&[4, 4], op);
    cases.iter().any(|case| assignments(&vars, 2).iter().any(|numbers| is_told(case, numbers)))
}

#[test]
fn both_sides_of_every_rule_mean_the_same() {
    let mut n_fired: IndexMap<String, usize> = IndexMap::new();
    let cases = all_cases();
    for rank in [3, 4] {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.typing.dims.len() == rank).collect();
        for rule in rules(N_AXES, rank) {
            let sides = rule.searcher.get_pattern_ast().zip(rule.applier.get_pattern_ast());
            let (from, to) = sides.expect("both sides are patterns");
            let [n_equal_types, n_wrong] = compare(from, to, &cases);
            assert_eq!(n_wrong, 0, "{}: {from} is not {to} in {n_wrong} of {n_equal_types} cases", rule.name);
            *n_fired.entry(rule.name.to_string()).or_default() += n_equal_types;
        }
    }
    let idle: Vec<&String> =
        n_fired.iter().filter(|(_, n_fired)| **n_fired == 0).map(|(name, _)| name).collect();
    assert!(idle.is_empty(), "these never fire: {idle:?}");
}

#[test]
fn terms_that_differ_are_told_apart() {
    let differ = |from: &str, to: &str| differ(ELEMENTWISE, from, to);
    // A sum of squares is no square of a sum; a part is no whole; summands are no sum.
    assert!(differ("(f (ar ?a ?t))", "(ar ?a (f ?t))"));
    assert!(differ("(sl ?a ?d ?t)", "(rs ?a ?d ?t)"));
    assert!(differ("(ar ?a (ag ?a ?d ?t))", "(ag ?a ?d ?t)"));
    // Tiles of one dimension have an order.
    assert!(differ("(ag 0 ?d (ag 1 ?d ?t))", "(ag 1 ?d (ag 0 ?d ?t))"));
    assert!(differ("(sl 0 ?d (sl 1 ?d ?t))", "(sl 1 ?d (sl 0 ?d ?t))"));
    // Dimensions and axes are not interchangeable.
    assert!(differ("(a2a ?a 0 1 ?t)", "(a2a ?a 1 0 ?t)"));
    assert!(differ("(cp 0 1 ?d ?t)", "(cp 1 0 ?d ?t)"));
    assert!(differ("(sl ?a ?e (ag ?a ?d ?t))", "?t"));
}

#[test]
fn reductions_that_differ_are_told_apart() {
    let gathered = "(f (ag ?a ?d ?t))";
    for kind in [Reduce(Reducer::Add), Reduce(Reducer::Max)] {
        let op: Op = (&[kind, Pass], &[&[true, true]]);
        // A part's reduction is not the whole one, a kept dimension is no sum, a summed one no tile.
        assert!(differ(op, gathered, "(f ?t)"), "P2 without its all-reduce");
        assert!(differ(op, gathered, "(ar ?a (f ?t))"), "P2 along a pass loop");
        assert!(differ(op, gathered, "(ag ?a ?d (f ?t))"), "P1 along a loop that is reduced");
        assert!(differ(op, "(f (ar ?a ?t))", "(ar ?a (f ?t))"), "a reduction before the op");
    }
    let running: Op = (&[Replicate, Pass], &[&[true, true]]);
    assert!(differ(running, gathered, "(ag ?a ?d (f ?t))"), "P1 along a loop that has to be whole");
    // A maximum of sums is no sum of maxima: no loop of such an op may be split.
    let both: Op = (&[Reduce(Reducer::Max), Reduce(Reducer::Add)], &[&[true, true]]);
    assert!(differ(both, gathered, "(ar ?a (f ?t))"), "P2 of two reductions");
}

#[test]
fn wrong_types_are_caught_by_values() {
    let p2 = [ast("(f (ag ?a ?d ?t))"), ast("(ar ?a (f ?t))")];
    let p1 = [ast("(f (ag ?a ?d ?t))"), ast("(ag ?a ?d (f ?t))")];
    let n_wrong = |sides: &[PatternAst<Move>; 2], kinds: [FactorKind; 2], said: [FactorKind; 2]| {
        let cases = cases(&[4, 4], (&kinds, &[&[true, true]]));
        let n_wrong = |case: &Case| {
            let typing = Typing { kinds: Kinds::from_slice(&said), ..case.typing.clone() };
            compare_as(&typing, &sides[0], &sides[1], case)[1]
        };
        cases.iter().map(n_wrong).sum::<usize>()
    };
    let sum = [Reduce(Reducer::Add), Pass];
    assert_eq!(n_wrong(&p2, sum, sum), 0);
    assert!(n_wrong(&p1, sum, [Pass, Pass]) > 0, "a sum said to be elementwise");
    assert!(n_wrong(&p1, [Replicate, Pass], [Pass, Pass]) > 0, "a running sum said to be elementwise");
    assert!(n_wrong(&p2, [Pass, Pass], sum) > 0, "an elementwise op said to sum");
}

#[test]
fn unsound_rules_have_types_that_differ() {
    let cases = all_cases();
    let cases: Vec<&Case> = cases.iter().collect();
    let fires = |from: &str, to: &str| compare(&ast(from), &ast(to), &cases)[0] > 0;
    assert!(!fires("(f (ag ?a ?d ?t))", "(f ?t)"));
    assert!(!fires("(f (ag ?a ?d ?t))", "(ar ?a (f (ag ?a ?d ?t)))"));
    assert!(!fires("(f (sl ?a ?d ?t))", "(f ?t)"));
    assert!(!fires("(f (ar ?a ?t))", "(ar ?a (f ?t))"));
    assert!(!fires("(sl ?a ?d ?t)", "(rs ?a ?d ?t)"));
    assert!(!fires("(ag 0 ?d (ag 1 ?d ?t))", "(ag 1 ?d (ag 0 ?d ?t))"));
    assert!(!fires("(sl 0 ?d (sl 1 ?d ?t))", "(sl 1 ?d (sl 0 ?d ?t))"));
    assert!(!fires("?t", "(sl ?a ?d ?t)"));
}

#[test]
fn after_saturation_every_class_means_one_thing() {
    let matrix_product: Op =
        (&[Pass, Reduce(Reducer::Add), Pass], &[&[true, true, false], &[false, true, true]]);
    let sum: Op = (&[Pass, Reduce(Reducer::Add)], &[&[true, true]]);
    let two = [ELEMENTWISE, sum].into_iter().flat_map(|op| cases(&[4, 4], op));
    for case in two.chain(cases(&[4, 2, 2], matrix_product)) {
        let typing = &case.typing;
        let mut graph = Graph::new(typing.clone());
        for seed in seeds(typing.source) {
            graph.add_expr(&seed);
        }
        let runner = Runner::<Move, Typing>::new(typing.clone()).with_egraph(graph);
        let graph = runner.with_scheduler(SimpleScheduler).run(&rules(N_AXES, typing.dims.len())).egraph;
        let mut known: IndexMap<Id, Meaning> = IndexMap::new();
        let mut n_before = usize::MAX;
        while n_before != known.len() {
            n_before = known.len();
            for class in graph.classes() {
                for node in &class.nodes {
                    let child = |id: Id| known.get(&graph.find(id)).cloned();
                    let Some(found) = meaning(node, &case, child) else { continue };
                    let first = known.entry(class.id).or_insert_with(|| found.clone());
                    assert_eq!(*first, found, "{node} of {:?}", class.data);
                }
            }
        }
        assert!(known.len() > 4);
    }
}

/// The tensor, the tensor gathered whole, and an op on it.
fn seeds((layout, partial): (Layout, u8)) -> Vec<RecExpr<Move>> {
    let mut term = "x".to_owned();
    for axis in (0..N_AXES).filter(|axis| partial >> axis & 1 == 1) {
        term = format!("(ar {axis} {term})");
    }
    for axis in (0..N_AXES).rev() {
        if let Some(dim) = layout.dim_of(axis) {
            term = format!("(ag {axis} {dim} {term})");
        }
    }
    let read = |text: String| text.parse().expect("terms are well-formed");
    vec![read("x".to_owned()), read(format!("(f {term})")), read(term)]
}

#[test]
#[should_panic(expected = "a rewrite rule joined values of different layouts")]
fn a_rule_that_joins_different_layouts_is_caught() {
    let typing = || Typing {
        mesh: Mesh::new(&[2, 2]),
        dims: Dims::from_slice(&[4, 4]),
        kinds: Kinds::from_slice(&[Pass, Pass]),
        source: (Layout::REPLICATED, 0),
    };
    let wrong = Rewrite::new("wrong", parse("(sl ?a ?d ?t)"), parse("?t")).expect("it is well-formed");
    let mut graph = Graph::new(typing());
    graph.add_expr(&"(sl 0 1 x)".parse().expect("it is well-formed"));
    Runner::<Move, Typing>::new(typing()).with_egraph(graph).run(&[wrong]);
}
