//! Searches that end early, counted in candidates.

use super::super::tests::{EXAMPLES, cluster};
use super::*;
use phzc_ir::{Module, parse, print};
use phzc_plan::plan_note;

/// The plan of an example, what was shown of the search, and the warnings; interrupted once there have been
/// so many plans.
fn search(options: &str, n_plans: usize) -> (Module, Vec<String>, Vec<String>) {
    let (mut module, cluster) = (parse(EXAMPLES[2].1).expect("a program"), cluster());
    let (shown, found) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let progress = |phrase: &str| shown.lock().expect("no panic").push(phrase.to_owned());
    let is_requested = || found.load(Ordering::SeqCst) >= n_plans;
    let has_plan = || {
        found.fetch_add(1, Ordering::SeqCst);
    };
    let interrupt = Interrupt { is_requested: &is_requested, has_plan: &has_plan };
    let mut cx = Context { progress: &progress, interrupt, ..Context::new(&cluster) };
    let pipeline = crate::testing::pipeline(&format!("fuse,shard,place{{{options}}}"));
    for step in pipeline.expect("a legal pipeline").steps {
        step.run(&mut module, &mut cx).expect("a plan");
    }
    let warnings = cx.warnings.iter().map(ToString::to_string).collect();
    (module, shown.into_inner().expect("no panic"), warnings)
}

/// How a search ended.
fn stop(plan: &Module) -> String {
    let note = plan_note::read(plan);
    note.get("stop").and_then(serde_json::Value::as_str).expect("noted").to_owned()
}

fn figure(plan: &Module, name: &str) -> f64 {
    plan_note::read(plan).get(name).and_then(serde_json::Value::as_f64).expect("noted")
}

/// How many candidates the last line has as done, and of how many.
fn counts(shown: &[String]) -> (usize, usize) {
    let lines = shown.iter().rev().filter_map(|line| line.strip_prefix("place: ")?.split_once(" of "));
    let found = lines.filter_map(|(done, rest)| Some((done, rest.split_once(" candidates")?.0)));
    let (done, known) = found.map(|(a, b)| (a.parse(), b.parse())).next().expect("candidates");
    (done.expect("a number"), known.expect("a number"))
}

#[test]
fn all_candidates_are_shown_with_the_best_its_bound_and_its_gap() {
    let (plan, shown, warnings) = search("", usize::MAX);
    let (done, known) = counts(&shown);
    assert_eq!((done, warnings.len()), (known, 0));
    assert!(known > 5, "{shown:?}");
    let last = shown.last().expect("lines");
    let gap = format!(", gap {:.1} %", 100.0 * figure(&plan, "gap"));
    assert!(last.contains(", best ") && last.contains(", bound ") && last.ends_with(&gap), "{last}");
}

#[test]
fn a_search_ends_after_as_many_candidates_as_are_allowed() {
    let mut before_secs = f64::INFINITY;
    for n_candidates in 1..=3 {
        let options = format!("max-plans={n_candidates}");
        let (plan, shown, _) = search(&options, usize::MAX);
        assert_eq!((counts(&shown).0, stop(&plan).as_str()), (n_candidates, "limit"));
        assert_eq!(print(&plan), print(&search(&options, usize::MAX).0), "{options}");
        let secs = figure(&plan, "planned_secs");
        assert!(secs <= before_secs, "{options}");
        before_secs = secs;
    }
}

#[test]
fn a_gap_ends_a_search_as_soon_as_a_plan_is_so_near_to_the_bound() {
    let (all, (n_all, _)) = {
        let (plan, shown, _) = search("", usize::MAX);
        (plan, counts(&shown))
    };
    // There is a bound once both candidates on all devices are evaluated.
    let (first, ..) = search("max-plans=2", usize::MAX);
    let percent = 100.0 * figure(&first, "gap") + 0.01;
    let (near, shown, _) = search(&format!("gap={percent}"), usize::MAX);
    assert_eq!((stop(&near).as_str(), counts(&shown).0), ("gap", 2));
    assert!(counts(&shown).0 < n_all);
    assert!(figure(&near, "gap") <= percent / 100.0);
    // No plan is so near.
    let percent = 100.0 * figure(&all, "gap") - 0.01;
    let (far, ..) = search(&format!("gap={percent}"), usize::MAX);
    assert_eq!((stop(&far), figure(&far, "planned_secs")), (stop(&all), figure(&all, "planned_secs")));
}

#[test]
fn who_interrupts_gets_the_best_plan_so_far_and_is_told() {
    let (limited, ..) = search("max-plans=2", usize::MAX);
    let (plan, _, warnings) = search("", 2);
    assert_eq!(warnings, ["interrupted: the best plan of 2 candidates"]);
    assert_eq!(stop(&plan), "interrupted");
    assert_eq!(figure(&plan, "planned_secs"), figure(&limited, "planned_secs"));
    assert!(figure(&plan, "lower_bound_secs") <= figure(&limited, "lower_bound_secs"));
}

#[test]
fn several_plans_are_listed_as_far_as_they_were_found() {
    let (plan, _, warnings) = search("top=9", 12);
    assert_eq!((stop(&plan).as_str(), warnings.len()), ("interrupted", 1));
}

#[test]
fn a_gap_is_percent() {
    let error = |value: &str| {
        let errors = crate::testing::pipeline(&format!("place{{gap={value}}}"));
        errors.expect_err("not percent").iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for value in ["120", "-1", "much"] {
        let said = format!("expected percent from 0 to 100, found `{value}`");
        assert_eq!(error(value).split(';').next(), Some(&*said));
    }
}

/// A control with these options, and what it shows.
fn controlled(options: &[(&'static str, &str)], property: impl FnOnce(&SearchControl, &Mutex<Vec<String>>)) {
    let (cluster, shown) = (cluster(), Mutex::new(Vec::new()));
    let progress = |phrase: &str| shown.lock().expect("no panic").push(phrase.to_owned());
    let values = options.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    let cx = Context { progress: &progress, ..Context::new(&cluster) };
    property(&SearchControl::new(&Options { values }, &cx), &shown);
}

fn placed(secs: f64) -> Evaluated {
    Evaluated::Placed(Box::new(super::super::candidate::tests::placed(secs, secs)))
}

#[test]
fn progress_is_counted_and_shows_the_best_plan_and_its_bound() {
    controlled(&[], |control, shown| {
        control.know(4);
        control.evaluated(&placed(2.5));
        control.evaluated(&placed(4e-3));
        control.evaluated(&placed(5.0));
        control.skipped();
        control.bounded(3e-3);
        control.bounded_beside(4e-6);
        control.bounded(3e-3);
        control.laid_out(2, 3);
        control.bounding();
        let shown = shown.lock().expect("no panic").clone();
        assert_eq!(
            shown[..4],
            [
                "place: 0 of 4 candidates",
                "place: 1 of 4 candidates, best 2.50 s",
                "place: 2 of 4 candidates, best 4.00 ms",
                "place: 3 of 4 candidates, best 4.00 ms",
            ]
        );
        assert_eq!(
            shown[4..],
            [
                "place: 4 of 4 candidates, best 4.00 ms",
                "place: 4 of 4 candidates, best 4.00 ms, bound 3.00 ms, gap 25.0 %",
                "place: 4 of 4 candidates, best 4.00 ms, bound 4.00 us, gap 99.9 %",
                "place: layouts 2 of 3, best 4.00 ms, bound 4.00 us, gap 99.9 %",
                "place: lower bound, best 4.00 ms, bound 4.00 us, gap 99.9 %",
            ]
        );
        assert_eq!((control.n_evaluated(), control.may_end(), control.ended()), (3, false, None));
    });
}

#[test]
fn options_end_a_search_once_there_is_a_plan() {
    controlled(&[("max-plans", "2")], |control, _| {
        assert!(control.may_end());
        control.evaluated(&Evaluated::Slower);
        control.evaluated(&Evaluated::Slower);
        assert!(!control.ends());
        control.evaluated(&placed(1.0));
        assert!(control.ends() && control.ended() == Some(End::Limit));
    });
    controlled(&[("gap", "25")], |control, _| {
        assert!(control.may_end());
        control.evaluated(&placed(4.0));
        assert!(!control.ends());
        control.bounded(2.9);
        assert!(!control.ends());
        control.bounded(3.0);
        assert!(control.ends() && control.ended() == Some(End::Gap));
    });
}

#[test]
fn a_part_of_a_search_counts_as_one_candidate_and_is_ended_by_the_user_alone() {
    controlled(&[("max-plans", "1")], |control, shown| {
        control.know(2);
        let part = control.part();
        part.evaluated(&placed(1.0));
        part.evaluated(&placed(1.0));
        part.written(30);
        assert!(!part.may_end() && !part.ends());
        control.written(12);
        control.join(&part);
        assert_eq!((control.n_evaluated(), control.n_instrs()), (2, 42));
        assert_eq!(
            shown.lock().expect("no panic").last().map(String::as_str),
            Some("place: 1 of 2 candidates")
        );
    });
}
