//! What the rules mean: a term is a function from device to local array, and both sides of a rule are the
//! same function. Evaluated on a 2x2 mesh with random integers, for every layout of a small tensor.

mod simulate;

use super::*;
use egg::{ENodeOrVar, PatternAst, RecExpr, Runner, SimpleScheduler};
use indexmap::IndexMap;
use simulate::{Local, Meaning, N_AXES, meaning, sources};

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

fn meaning_of(pattern: &PatternAst<Move>, leaf: &Local, numbers: &IndexMap<Var, usize>) -> Option<Meaning> {
    let mut meanings: Vec<Option<Meaning>> = Vec::new();
    for node in terms(pattern, numbers) {
        meanings.push(meaning(&node, leaf, |id| meanings[usize::from(id)].clone()));
    }
    meanings.pop().expect("no pattern is empty")
}

/// How often both sides of a rule have one type, and how often they then mean different things.
fn compare(from: &PatternAst<Move>, to: &PatternAst<Move>, sources: &[(Typing, Local)]) -> [usize; 2] {
    let mut vars: Vec<Var> = Vec::new();
    for node in from.iter().chain(to.iter()) {
        match node {
            ENodeOrVar::Var(var) if *var != variable("?t") && !vars.contains(var) => vars.push(*var),
            _ => {}
        }
    }
    let [mut n_equal_types, mut n_wrong] = [0, 0];
    for (typing, leaf) in sources {
        for numbers in assignments(&vars, typing.dims.len()) {
            let axes = [variable("?a"), variable("?b")].map(|var| numbers.get(&var));
            let found = type_of(from, typing, &numbers);
            let is_same_axis = axes[0].is_some() && axes[0] == axes[1];
            if is_same_axis || found != type_of(to, typing, &numbers) || !matches!(found, Type::Value(..)) {
                continue;
            }
            let [left, right] = [from, to].map(|side| meaning_of(side, leaf, &numbers));
            n_equal_types += 1;
            n_wrong += usize::from(left.is_none() || left != right);
        }
    }
    [n_equal_types, n_wrong]
}

fn ast(text: &str) -> PatternAst<Move> {
    parse(text).ast
}

/// Whether some instance of two terms, whatever their types, means different things.
fn differ(from: &str, to: &str) -> bool {
    let vars = ["?a", "?b", "?d", "?e"].map(variable);
    let (from, to) = (ast(from), ast(to));
    let is_told = |leaf: &Local, numbers: &IndexMap<Var, usize>| {
        let sides = [&from, &to].map(|side| meaning_of(side, leaf, numbers));
        sides.iter().all(Option::is_some) && sides[0] != sides[1]
    };
    let sources = sources(&[4, 4]);
    sources.iter().any(|(_, leaf)| assignments(&vars, 2).iter().any(|numbers| is_told(leaf, numbers)))
}

#[test]
fn both_sides_of_every_rule_mean_the_same() {
    let mut n_fired: IndexMap<String, usize> = IndexMap::new();
    for dims in [&[4, 4, 4][..], &[2, 2, 2, 2]] {
        let sources = sources(dims);
        for rule in rules(N_AXES, dims.len()) {
            let sides = rule.searcher.get_pattern_ast().zip(rule.applier.get_pattern_ast());
            let (from, to) = sides.expect("both sides are patterns");
            let [n_equal_types, n_wrong] = compare(from, to, &sources);
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
fn unsound_rules_have_types_that_differ() {
    let sources = sources(&[4, 4]);
    let fires = |from: &str, to: &str| compare(&ast(from), &ast(to), &sources)[0] > 0;
    assert!(!fires("(f (ar ?a ?t))", "(ar ?a (f ?t))"));
    assert!(!fires("(sl ?a ?d ?t)", "(rs ?a ?d ?t)"));
    assert!(!fires("(ag 0 ?d (ag 1 ?d ?t))", "(ag 1 ?d (ag 0 ?d ?t))"));
    assert!(!fires("(sl 0 ?d (sl 1 ?d ?t))", "(sl 1 ?d (sl 0 ?d ?t))"));
    assert!(!fires("?t", "(sl ?a ?d ?t)"));
}

#[test]
fn after_saturation_every_class_means_one_thing() {
    for (typing, leaf) in sources(&[4, 4]) {
        let whole =
            |typing: &Typing| Typing { mesh: typing.mesh.clone(), dims: typing.dims.clone(), ..*typing };
        let mut graph = Graph::new(whole(&typing));
        for seed in seeds(typing.source) {
            graph.add_expr(&seed);
        }
        let runner = Runner::<Move, Typing>::new(whole(&typing)).with_egraph(graph);
        let graph = runner.with_scheduler(SimpleScheduler).run(&rules(N_AXES, 2)).egraph;
        let mut known: IndexMap<Id, Meaning> = IndexMap::new();
        let mut n_before = usize::MAX;
        while n_before != known.len() {
            n_before = known.len();
            for class in graph.classes() {
                for node in &class.nodes {
                    let child = |id: Id| known.get(&graph.find(id)).cloned();
                    let Some(found) = meaning(node, &leaf, child) else { continue };
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
        source: (Layout::REPLICATED, 0),
    };
    let wrong = Rewrite::new("wrong", parse("(sl ?a ?d ?t)"), parse("?t")).expect("it is well-formed");
    let mut graph = Graph::new(typing());
    graph.add_expr(&"(sl 0 1 x)".parse().expect("it is well-formed"));
    Runner::<Move, Typing>::new(typing()).with_egraph(graph).run(&[wrong]);
}
