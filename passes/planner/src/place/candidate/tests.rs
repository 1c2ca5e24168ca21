//! Candidates, their notes, and the best of them.

use super::*;
use crate::place::tests::{EXAMPLES, cluster, run};
use phzc_pass::pass::{Context, Options};
use phzc_plan::report;

/// The perceptron on one stage, as if it took so long and its stage needed so many bytes.
pub(in crate::place) fn staged(time_secs: f64, memory_bytes: f64) -> Staged {
    let (text, _) = run(EXAMPLES[2].1, "fuse,shard,place{stages=1,microbatches=1}", &cluster());
    let mut plan = report::plan(&text, &cluster()).expect("a placed module");
    plan.stages[0].memory_bytes = memory_bytes;
    plan.time_secs = 2.0 * time_secs;
    let (reordered, cut_bytes, is_of_use) = (None, 80.0, true);
    Staged { text, plan, reordered, time_secs, cut_bytes, is_again: false, is_limited: false, is_of_use }
}

fn bound(lower_bound_secs: f64) -> Bound {
    Bound { lower_bound_secs, stop: "layouts".to_owned() }
}

/// A placement of one stage, and what `shard` planned it to take.
pub(in crate::place) fn placed(time_secs: f64, planned_secs: f64) -> Placement {
    let mut staged = staged(time_secs, 1.0);
    plan_note::set(&mut staged.text, &[("planned_secs", planned_secs.into())]);
    staged.placed(1, bound(0.5 * planned_secs))
}

fn figures(placement: &Placement) -> (f64, f64, f64, String) {
    let plan = plan_note::read(&placement.text);
    let figure = |name: &str| plan[name].as_f64().expect("a figure");
    let stop = plan["stop"].as_str().expect("a word").to_owned();
    (figure("planned_secs"), figure("lower_bound_secs"), figure("gap"), stop)
}

#[test]
fn the_largest_stage_is_the_one_with_most_bytes() {
    let mut it = staged(1.0, 5.0);
    for memory_bytes in [7.0, 6.0] {
        it.plan.stages.push(it.plan.stages[0].clone());
        it.plan.stages.last_mut().expect("a stage").memory_bytes = memory_bytes;
    }
    assert_eq!((it.peak_bytes(), it.largest_stage()), (7.0, 1));
}

#[test]
fn of_two_the_faster_and_of_equal_ones_the_earlier_is_kept() {
    let faster = |a: f64, b: f64| staged(a, 1.0).or_faster(Some(staged(b, 2.0))).peak_bytes();
    assert_eq!([faster(1.0, 2.0), faster(2.0, 1.0), faster(1.0, 1.0)], [1.0, 2.0, 2.0]);
    let evaluated = |secs: f64| Evaluated::Placed(Box::new(placed(secs, secs)));
    assert_eq!(evaluated(2.0).or_faster(evaluated(1.0)).time_secs(), 1.0);
    assert_eq!(evaluated(2.0).or_faster(Evaluated::Slower).time_secs(), 2.0);
    assert_eq!(Evaluated::Slower.n_microbatches(), None);
    assert_eq!(evaluated(2.0).n_microbatches(), Some(1));
}

#[test]
fn what_another_plan_beats_is_dropped() {
    for (best_secs, is_kept) in [(1.0, false), (2.0, true), (3.0, true)] {
        let mut it = Evaluated::Placed(Box::new(placed(2.0, 2.0)));
        it.drop_slower(best_secs);
        assert_eq!(it.time_secs().is_finite(), is_kept, "{best_secs}");
    }
}

#[test]
fn a_note_has_the_gap_to_the_bound_and_why_the_search_stopped() {
    let noted = |change: fn(&mut Placement), bound_secs: f64| {
        let mut it = placed(5.0, 4.0);
        change(&mut it);
        it.note(bound_secs);
        figures(&it)
    };
    let word = str::to_owned;
    // Of its own kind `shard` knows that none takes less than half.
    assert_eq!(noted(|_| {}, 3.0), (4.0, 3.0, 0.25, word("layouts")));
    assert_eq!(noted(|_| {}, 1.0), (4.0, 1.0, 0.75, word("stages-open")));
    assert_eq!(noted(|_| {}, 9.0), (4.0, 4.0, 0.0, word("optimal")));
    assert_eq!(noted(|it| it.end = Some(End::Gap), 3.0), (4.0, 3.0, 0.25, word("gap")));
    // Whoever computes again is not in the model of `shard`: the text's time counts.
    assert_eq!(noted(|it| it.is_eased = true, 4.0), (5.0, 4.0, 0.2, word("memory-gap")));
    assert_eq!(noted(|it| it.n_stages = 2, 5.0), (5.0, 5.0, 0.0, word("stages-open")));
}

#[test]
fn a_plain_plan_is_one_stage_that_computes_each_value_once() {
    let it = |n_stages: usize, is_again: bool| {
        Staged { is_again, ..staged(1.0, 1.0) }.placed(n_stages, bound(0.0))
    };
    assert!(it(1, false).is_plain() && !it(2, false).is_plain() && !it(1, true).is_plain());
    assert!(it(1, true).is_again() && it(1, true).is_eased && !it(1, false).is_eased);
    assert!(!it(1, false).is_unequal());
}

#[test]
fn the_fastest_is_picked_or_the_first_refusal() {
    let cluster = cluster();
    let control = SearchControl::new(&Options::default(), &Context::new(&cluster));
    let refusal = |text: &str| Evaluated::Impossible(Diagnostic::error(text));
    let all = [3.0, 2.0, 4.0, 2.0].map(|secs| Evaluated::Placed(Box::new(placed(secs, secs))));
    let first = [refusal("no"), Evaluated::Slower];
    let best = pick(first.into_iter().chain(all), |best| 0.5 * best.time_secs, &control);
    let Ok(best) = best else { panic!("there are plans") };
    assert_eq!((best.time_secs, best.lower_bound_secs()), (2.0, 1.0));
    let none = pick([refusal("too few"), refusal("other")].into_iter(), |_| 0.0, &control);
    assert_eq!(none.err().map(|error| error.message), Some("too few".to_owned()));
    let none = pick([Evaluated::Slower].into_iter(), |_| 0.0, &control);
    assert_eq!(none.err().map(|error| error.message), Some("no stage count is possible".to_owned()));
}
