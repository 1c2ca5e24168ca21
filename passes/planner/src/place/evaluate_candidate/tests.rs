//! What follows a text that does not fit, and what is known of a problem before anything is tried.

use super::super::candidate::tests::staged;
use super::super::tests::{EXAMPLES, cluster, with_problem};
use super::*;
use phzc_ir::parse;
use phzc_testing::perceptron::perceptron;

fn draft(memory_bytes: Option<f64>) -> Draft {
    let text = parse("ENTRY e { ROOT x = f32[4] parameter(0) }").expect("legal");
    Draft { text, is_whole: true, memory_bytes, allowed: None, gains: None }
}

/// What comes after layouts taken to need `before` bytes, of 100 there are, whose text needed `least`: the
/// limit of the next layouts, which are taken to need `after`, and whether they are of use.
fn next(before: Option<f64>, least: Option<f64>, after: Option<f64>) -> (Option<f64>, bool) {
    let mut texts = Texts::new(100.0);
    least.into_iter().for_each(|least| _ = texts.add(staged(1.0, least)));
    let asked = std::cell::Cell::new(None);
    let again = |limit: f64, moves_again: bool| {
        assert!(!moves_again);
        asked.set(Some(limit));
        Some(draft(after))
    };
    let found = leaner(&draft(before), &texts, &again).is_some();
    (asked.get(), found)
}

#[test]
fn layouts_that_need_less_are_asked_for_in_proportion() {
    let limit = 0.95 * 80.0 * 100.0 / 200.0;
    assert_eq!(next(Some(80.0), Some(200.0), Some(40.0)), (Some(limit), true));
    assert_eq!(next(Some(80.0), Some(200.0), None), (Some(limit), true));
    assert_eq!(next(Some(80.0), Some(200.0), Some(79.95)), (Some(limit), false));
    assert_eq!(next(Some(80.0), Some(200.0), Some(79.9)), (Some(limit), true));
    // Where nothing is known of these layouts, or of a text, all there is.
    assert_eq!(next(None, Some(200.0), Some(90.0)), (Some(100.0), true));
    assert_eq!(next(None, None, Some(90.0)), (Some(100.0), true));
    assert_eq!(next(Some(80.0), None, Some(40.0)), (None, false));
}

#[test]
fn once_a_text_fits_no_leaner_layouts_are_asked_for() {
    assert_eq!(next(Some(80.0), Some(99.0), Some(40.0)), (None, false));
}

#[test]
fn a_problem_knows_its_microbatches_and_stages() {
    with_problem(parse(EXAMPLES[2].1).expect("legal"), &cluster(), "", |problem| {
        let (fewest, most) = problem.fewest_and_most();
        assert_eq!((fewest, Some(&most)), (1, problem.counts.last()));
        let counts = |wanted: usize| problem.stage_counts(wanted).ok();
        assert_eq!(counts(0), Some((vec![1], vec![2, 4])));
        assert_eq!([counts(1), counts(2)], [Some((vec![1], vec![])), Some((vec![], vec![2]))]);
        // Three stages are of different sizes; five need a device more than there are.
        assert_eq!([counts(3), counts(5)], [Some((vec![], vec![])), None]);
        assert!(!problem.is_late() && problem.may_save() == 1.35);
    });
}

#[test]
fn options_narrow_the_problem() {
    let counts = |options: &str| {
        let mut found = None;
        with_problem(parse(EXAMPLES[2].1).expect("legal"), &cluster(), options, |problem| {
            found = problem.stage_counts(0).ok();
        });
        found
    };
    assert_eq!(counts("schedule=interleaved"), Some((vec![], vec![2, 4])));
    assert_eq!(counts("groups=2"), Some((vec![], vec![2])));
    assert_eq!(counts("groups=1+3"), Some((vec![], vec![4])));
    with_problem(
        parse(EXAMPLES[2].1).expect("legal"),
        &cluster(),
        "recompute=never,groups=equal",
        |problem| {
            assert_eq!(problem.may_save(), 1.0);
            assert!(!problem.may_be_unequal(0) && problem.stage_counts(3).is_err());
        },
    );
}

#[test]
fn a_program_that_fewer_layers_stand_for_is_measured_late() {
    with_problem(perceptron(40), &cluster(), "", |problem| assert!(problem.is_late()));
    with_problem(perceptron(40), &cluster(), "microbatches=4", |problem| assert!(!problem.is_late()));
    with_problem(perceptron(7), &cluster(), "", |problem| assert!(!problem.is_late()));
}
