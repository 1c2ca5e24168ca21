//! What the searches find and how much they look at. The other tests say that a choice is right; a bound that
//! prunes less, a step that goes the wrong way or a tie that falls otherwise shows here alone. Plans are
//! reproducible, so every line is exact: one that changes is a change of behaviour, to be read before it is
//! taken over.

use super::testing::{dense_problem, small_problem, timed_problem, transformer};
use super::*;
use insta::assert_snapshot;

/// What is found of some problems, added up.
fn found<E>(
    problems: impl Iterator<Item = Problem>,
    choose: impl Fn(&Problem) -> Result<Choice, E>,
) -> String {
    let (mut n_optimal, mut n_none, mut sum) = (0, 0, Choice::default_sum());
    for problem in problems {
        let Ok(choice) = choose(&problem) else {
            n_none += 1;
            continue;
        };
        n_optimal += usize::from(choice.stop == Stop::Optimal);
        sum.cost += choice.cost;
        sum.lower_bound += choice.lower_bound;
        sum.memory += choice.memory;
        sum.evaluations += choice.evaluations;
    }
    let Choice { cost, lower_bound, memory, evaluations, .. } = sum;
    // How much is looked at depends on the last bits of sums a little.
    let evaluations = evaluations as f64;
    format!(
        "{n_optimal} optimal, {n_none} without; cost {cost:.9}, bound {lower_bound:.9}, memory {memory}; {evaluations:.1e} evaluations"
    )
}

impl Choice {
    fn default_sum() -> Choice {
        let (cost, memory, lower_bound) = (0.0, 0.0, 0.0);
        Choice { option: Vec::new(), cost, memory, lower_bound, stop: Stop::Optimal, evaluations: 0 }
    }
}

/// With tables of at most so many entries.
fn within(max_table: usize) -> impl Fn(&Problem) -> Result<Choice, Infeasible> {
    move |problem| choose(problem, &Limits { max_table, ..Limits::default() })
}

fn limited(problem: Problem, memory_per_node: f64) -> Problem {
    let memory_limit = Some(memory_per_node * problem.nodes.len() as f64);
    Problem { memory_limit, ..problem }
}

#[test]
fn small_problems() {
    assert_snapshot!(found((0..300).map(small_problem), within(1 << 22)), @"225 optimal, 75 without; cost 1272.159622497, bound 1272.159622497, memory 53243; 6.3e3 evaluations");
    assert_snapshot!(found((0..300).map(small_problem), within(0)), @"211 optimal, 75 without; cost 1273.275926310, bound 1265.740968036, memory 53393; 7.6e5 evaluations");
    assert_snapshot!(found((0..300).map(|seed| small_problem(seed).without_stars()), within(1 << 22)), @"218 optimal, 82 without; cost 1394.184163240, bound 1394.184163240, memory 52053; 3.6e3 evaluations");
    assert_snapshot!(found((0..60).map(small_problem), |problem| choose_by_ilp(problem, &MicroLp::default())), @"46 optimal, 14 without; cost 245.582157173, bound 245.582157173, memory 10422; 6.0e0 evaluations");
}

#[test]
fn small_problems_within_a_memory_limit() {
    let of = |per_node: f64, max_table: usize| {
        found((0..200).map(|seed| limited(small_problem(seed), per_node)), within(max_table))
    };
    assert_snapshot!(of(20.0, 1 << 22), @"11 optimal, 189 without; cost 58.544228347, bound 58.544228347, memory 660; 6.4e4 evaluations");
    assert_snapshot!(of(35.0, 1 << 22), @"76 optimal, 124 without; cost 449.396984801, bound 449.396984801, memory 10991; 5.3e5 evaluations");
    assert_snapshot!(of(35.0, 16), @"76 optimal, 124 without; cost 449.396984801, bound 449.396984801, memory 10991; 7.7e5 evaluations");
    assert_snapshot!(of(50.0, 1 << 22), @"138 optimal, 62 without; cost 837.771806699, bound 837.771806699, memory 28558; 7.7e5 evaluations");
}

#[test]
fn memory_over_time() {
    assert_snapshot!(found((0..300).map(timed_problem), within(1 << 22)), @"97 optimal, 203 without; cost 454.528234663, bound 454.528234663, memory 932; 1.8e7 evaluations");
    let unlimited = |seed| Problem { memory_limit: None, ..timed_problem(seed) };
    assert_snapshot!(found((0..300).map(unlimited), within(1 << 22)), @"217 optimal, 83 without; cost 1278.762077307, bound 1278.762077307, memory 3633; 4.5e3 evaluations");
}

#[test]
fn dense_problems() {
    assert_snapshot!(found((0..30).map(|seed| dense_problem(seed, 7, 4)), within(1 << 22)), @"30 optimal, 0 without; cost 265.889598716, bound 265.889598716, memory 102.10962464690402; 6.5e5 evaluations");
    assert_snapshot!(found((0..30).map(|seed| dense_problem(seed, 7, 4)), within(0)), @"2 optimal, 0 without; cost 267.924174461, bound 243.795080702, memory 102.94369038231046; 2.6e6 evaluations");
    assert_snapshot!(found((0..4).map(|seed| dense_problem(seed, 14, 5)), within(1 << 8)), @"0 optimal, 0 without; cost 142.909300619, bound 103.665528671, memory 30.290268660168508; 2.9e6 evaluations");
    assert_snapshot!(found((0..10).map(|seed| limited(dense_problem(seed, 7, 4), 0.4)), within(1 << 22)), @"10 optimal, 0 without; cost 93.796900536, bound 93.796900536, memory 25.572074771901917; 1.4e6 evaluations");
}

#[test]
fn layers_with_hubs() {
    assert_snapshot!(found([transformer(6, 4)].into_iter(), within(1 << 22)), @"1 optimal, 0 without; cost 14.404816523, bound 14.404816523, memory 1743; 1.3e6 evaluations");
    assert_snapshot!(found([transformer(4, 3)].into_iter(), within(1 << 9)), @"1 optimal, 0 without; cost 9.464742868, bound 9.464742868, memory 1235; 5.5e5 evaluations");
    assert_snapshot!(found([limited(transformer(3, 2), 40.0)].into_iter(), within(1 << 22)), @"1 optimal, 0 without; cost 7.954028833, bound 7.954028833, memory 789; 7.6e6 evaluations");
}
