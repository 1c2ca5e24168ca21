//! Choices against brute force, and what is known of them.

use super::testing::{brute_force, dense_problem, small_problem, timed_problem, transformer};
use super::*;

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn elimination_finds_what_brute_force_finds() {
    for seed in 0..500 {
        let problem = small_problem(seed);
        let (best, _) = brute_force(&problem);
        match choose(&problem, &Limits::default()) {
            Ok(choice) => {
                assert!(close(choice.cost, best), "seed {seed}: {} instead of {best}", choice.cost);
                assert_eq!(choice.stop, Stop::Optimal);
            }
            Err(infeasible) => assert!(best == f64::INFINITY && infeasible.proved, "seed {seed}"),
        }
    }
}

#[test]
fn the_optimum_under_a_memory_limit_lies_between_bound_and_cost() {
    let mut optimal = 0;
    for seed in 0..500 {
        let mut problem = small_problem(seed);
        problem.memory_limit = Some(30.0 * problem.nodes.len() as f64);
        let (best, least) = brute_force(&problem);
        match choose(&problem, &Limits::default()) {
            Ok(choice) => {
                let between = choice.lower_bound <= best * (1.0 + 1e-9) && best <= choice.cost * (1.0 + 1e-9);
                assert!(between, "seed {seed}: {} <= {best} <= {}", choice.lower_bound, choice.cost);
                assert!(Some(choice.memory) <= problem.memory_limit, "seed {seed}");
                optimal += usize::from(choice.stop == Stop::Optimal);
            }
            Err(infeasible) => {
                assert_eq!(best, f64::INFINITY, "seed {seed}");
                assert_eq!(infeasible, Infeasible { least_memory: least, proved: true }, "seed {seed}");
            }
        }
    }
    assert!(optimal > 30, "only {optimal} proved best");
}

#[test]
fn within_a_limit_at_every_time_the_optimum_is_found() {
    let (mut n_optimal, mut n_all) = (0, 0);
    for problem in (0..1200).map(timed_problem).filter(|problem| problem.stars.is_empty()) {
        let (best, _) = brute_force(&problem);
        match choose(&problem, &Limits::default()) {
            Ok(choice) => {
                let between = choice.lower_bound <= best + 1e-9 && best <= choice.cost + 1e-9;
                assert!(between, "{} <= {best} <= {}", choice.lower_bound, choice.cost);
                assert!(Some(choice.memory) <= problem.memory_limit);
                n_optimal += usize::from(close(choice.cost, best));
                n_all += 1;
            }
            Err(infeasible) => assert!(best == f64::INFINITY || !infeasible.proved),
        }
    }
    assert!(n_all > 60 && 100 * n_optimal >= 97 * n_all, "{n_optimal} of {n_all} are best");
}

#[test]
fn a_problem_whose_choices_are_all_forbidden_has_none_however_it_is_searched() {
    let differ = |row: usize, col: usize| if row == col { f64::INFINITY } else { 0.0 };
    let table = Arc::new(Table::from_fn(2, 2, differ));
    let ends = [(0, 1), (1, 2), (2, 0)];
    let edge = |(a, b)| Edge { a, b, cost: table.clone() };
    let nodes = vec![Node::new(vec![1.0, 1.0], vec![0.0, 0.0]); 3];
    let problem = Problem { nodes, edges: ends.map(edge).to_vec(), ..Problem::default() };
    let none = Infeasible { least_memory: f64::INFINITY, proved: true };
    assert_eq!(choose(&problem, &Limits::default()), Err(none.clone()));
    let reduced = reduce::reduce(&problem).expect("every option has a partner");
    let found = bound_and_prune::minimise(&reduced, &Limits::default());
    assert_eq!(found.err(), Some(none));
}

#[test]
fn without_a_limit_nodes_that_follow_others_change_nothing() {
    for seed in 0..400 {
        let problem = Problem { memory_limit: None, ..timed_problem(seed) };
        let (best, _) = brute_force(&problem);
        match choose(&problem, &Limits::default()) {
            Ok(choice) => assert!(close(choice.cost, best), "seed {seed}: {} for {best}", choice.cost),
            Err(infeasible) => assert!(best == f64::INFINITY && infeasible.proved, "seed {seed}"),
        }
    }
}

#[test]
fn memory_is_that_of_the_fullest_time() {
    let usage = |alive, bytes: f64| Usage { alive, bytes: vec![bytes] };
    let node = Node { cost: vec![1.0], usages: vec![usage(0..2, 3.0), usage(4..5, 1.0)] };
    let other = Node { cost: vec![1.0], usages: vec![usage(2..4, 3.5), usage(1..3, 1.0)] };
    let problem = Problem { nodes: vec![node, other], ..Problem::default() };
    assert_eq!(problem.memory(&[0, 0]), 4.5);
}

#[test]
fn message_passing_finds_what_brute_force_finds_or_says_how_far_it_is() {
    let (mut n_exact, mut n_all) = (0, 0);
    for problem in (0..300).map(small_problem).chain((0..100).map(|seed| dense_problem(seed, 7, 4))) {
        let (best, _) = brute_force(&problem);
        let Ok(choice) = choose(&problem, &Limits { max_table: 0, ..Limits::default() }) else {
            continue;
        };
        assert!(choice.lower_bound <= best + 1e-9 && best <= choice.cost + 1e-9, "{choice:?} for {best}");
        assert!(close(choice.cost, best) || choice.stop == Stop::Width);
        n_exact += usize::from(choice.stop == Stop::Optimal);
        n_all += 1;
    }
    assert!(2 * n_exact > n_all, "{n_exact} of {n_all} proved best");
}

#[test]
fn a_problem_of_96_layers_with_two_hubs_is_solved_to_the_optimum() {
    let choice = choose(&transformer(96, 6), &Limits::default()).unwrap();
    assert_eq!(choice.stop, Stop::Optimal);
    assert_eq!(choice.gap(), 0.0);
}

#[test]
fn a_table_that_was_made_before_is_the_table() {
    let problem = transformer(12, 5);
    let mut apart = problem.clone();
    apart.edges.iter_mut().for_each(|edge| edge.cost = Arc::new(Table::clone(&edge.cost)));
    assert_eq!(choose(&problem, &Limits::default()), choose(&apart, &Limits::default()));
}

#[test]
fn the_same_problem_gives_the_same_choice() {
    let mut problem = transformer(8, 4);
    problem.memory_limit = Some(40.0 * 48.0);
    let limits = Limits { max_table: 1 << 10, ..Limits::default() };
    assert_eq!(choose(&problem, &limits), choose(&problem, &limits));
}
