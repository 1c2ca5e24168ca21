//! Small fleets, every plan of which can be tried.

use super::bound::Bounding;
use super::front::{Point, Told};
use super::orders::orders;
use super::pareto::{Wish, may_be_missed, wanted};
use super::search::Problem;
use super::*;
use phzc_cost::fasop::{Degrees, Placement, Times};

const FLEET: &str = r#"
price_basis = "made up"
per_node = 2
[[nodes]]
device = "fast"
count = [0, 2]
between_bits_per_sec = 1e11
inside_bits_per_sec = 1e12
usd_per_hour = 30.0
memory_gib = 16.0
[[nodes]]
device = "slow"
count = [0, 2]
between_bits_per_sec = 1e10
inside_bits_per_sec = 1e11
usd_per_hour = 8.0
memory_gib = 8.0
[model]
hidden = 512
seq = 256
vocab = 8000
heads = 8
batch = 8
layers = ["embedding", "6 x layer", "head"]
shares_embedding = true
[times.fast]
1 = [0.001, 0.01, 0.004]
[times.slow]
1 = [0.002, 0.02, 0.01]
"#;

fn sweep() -> Sweep {
    Sweep::parse(FLEET).unwrap_or_else(|error| panic!("{error}"))
}

/// All cuts of `n` entries into so many stages.
fn cuts(n: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![n]];
    }
    let rest =
        |first: usize| cuts(n - first, stages - 1).into_iter().map(move |it| [&[first][..], &it].concat());
    (1..=n + 1 - stages).flat_map(rest).collect()
}

/// Degrees of one node count, all microbatches.
fn degrees(stages: usize, data: usize) -> impl Iterator<Item = Degrees> {
    [1, 2, 4].into_iter().filter(move |it| 8 % (data * it) == 0).map(move |micro_batch| Degrees {
        tensor: 1,
        data,
        stages,
        micro_batch,
    })
}

/// Entries that either kind is fast at.
fn crossed() -> Sweep {
    let slow = FLEET.replace("[0.002, 0.02, 0.01]", "[0.002, 0.02, 0.001]");
    Sweep::parse(&slow.replace("0.001, 0.01, 0.004", "0.001, 0.01, 0.04"))
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn no_cut_beats_the_bound_and_the_search_finds_the_best_of_all() {
    for sweep in [sweep(), crossed()] {
        check_all_cuts(&sweep);
    }
}

fn check_all_cuts(sweep: &Sweep) {
    for variant in [Variant::Faithful, Variant::Strict] {
        let problem = Problem { fleet: &sweep.fleet, model: &sweep.model, variant };
        let mut least = f64::INFINITY;
        for order in orders(&[1, 2], &sweep.fleet).list {
            for it in degrees(6, 1).chain(degrees(3, 2)) {
                let (fleet, model) = (&sweep.fleet, &sweep.model);
                let placement = Placement { fleet, model, variant, order: order.clone(), degrees: it };
                let times = Times::of(&placement);
                let bounding = Bounding::new(&placement, &times);
                let (bound, _) = bounding.least(f64::INFINITY).expect("there are enough entries");
                check_limits((&bounding, &placement), &cuts(8, it.stages), bound);
                let costs = cuts(8, it.stages).into_iter().map(|cut| placement.cost(&cut));
                let fastest = costs.filter(|it| it.fits).map(|it| it.step_secs).fold(f64::INFINITY, f64::min);
                assert!(bounding.glance_secs() <= bound * (1.0 + 1e-12), "{order:?} {it:?}");
                assert!(bound <= fastest * (1.0 + 1e-12), "{order:?} {it:?}: {bound} {fastest}");
                least = least.min(fastest);
            }
        }
        let best = problem.best(&[1, 2]);
        let plan = best.plan.expect("it fits");
        assert!(plan.cost.step_secs <= least * (1.0 + 1e-12), "{plan:?}: {least}");
        assert!(best.bound_secs <= plan.cost.step_secs);
    }
}

/// Beginnings that are left out under a limit are of no cut below it; a cut's critical path bounds all
/// others.
fn check_limits((bounding, placement): (&Bounding, &Placement), cuts: &[Vec<usize>], bound: f64) {
    assert_eq!(bounding.least(1.01 * bound).map(|(secs, _)| secs), Some(bound));
    assert_eq!(bounding.least(0.99 * bound), None);
    let paths = cuts.iter().step_by(5).map(|cut| bounding.path(cut));
    for (path, cut) in paths.flat_map(|path| cuts.iter().map(move |cut| (path.clone(), cut))) {
        let secs = placement.cost(cut).step_secs;
        assert!(bounding.secs_along(&path, cut) <= secs * (1.0 + 1e-12), "{cut:?}");
    }
}

#[test]
fn what_a_count_and_a_rate_may_be_is_said() {
    let error = |from: &str, to: &str| {
        let Err(found) = Sweep::parse(&FLEET.replacen(from, to, 1)) else { panic!("`{to}` is wrong") };
        found.message
    };
    assert!(error("[0, 2]", "-1").starts_with("expected a number of nodes, or the fewest and the most"));
    assert!(error("1e11", "[[1]]").starts_with("expected bits per second, or points"));
    let growth = error("[times.fast]", "[growth]\nfast = \"linear\"\n[times.fast]");
    assert!(growth.starts_with("expected a list with one of these per group of layers"), "{growth}");
}

#[test]
fn clusters_are_all_numbers_of_each_kind_but_none() {
    assert_eq!(clusters(&[[0, 1], [0, 1]]), [vec![0, 1], vec![1, 0], vec![1, 1]]);
}

fn point(n: usize, step_secs: f64, usd: f64, bound_secs: f64) -> Point {
    let plan = Told {
        step_secs,
        usd,
        expected_secs: step_secs,
        egress_usd: 0.0,
        kwh: 0.0,
        order: Vec::new(),
        tensor: 1,
        data: 1,
        stages: 1,
        micro_batch: 1,
        cut: Vec::new(),
        memory_gib: 1.0,
    };
    Point {
        counts: vec![n],
        bound_secs: Some(bound_secs),
        any_order_secs: Some(bound_secs),
        plan: Some(plan),
    }
}

#[test]
fn a_point_stays_that_nothing_else_beats_in_both() {
    let points = [point(1, 4.0, 1.0, 4.0), point(2, 2.0, 2.0, 2.0), point(3, 3.0, 2.5, 3.0)];
    let counts = |objective, [max_secs, max_usd]: [Option<f64>; 2]| -> Vec<usize> {
        let wish = Wish { objective, max_secs, max_usd };
        wanted(&points, &wish).iter().map(|point| point.counts[0]).collect()
    };
    assert_eq!(counts("pareto", [None, None]), [2, 1]);
    assert_eq!(counts("time", [None, Some(1.5)]), [1]);
    assert_eq!(counts("price", [Some(3.5), None]), [2]);
}

/// What may be missed of points within limits.
fn missed(points: &[Point], [max_secs, max_usd]: [Option<f64>; 2], objective: &str) -> Option<f64> {
    let wish = Wish { objective, max_secs, max_usd };
    may_be_missed(points, &wanted(points, &wish), &wish)
}

const NO_LIMITS: [Option<f64>; 2] = [None, None];

#[test]
fn what_may_be_missed_is_how_much_better_than_all_points_a_bound_is() {
    // Ten per cent below its own plan, and no other is near.
    let known = missed(&[point(1, 1.1, 1.1, 1.0)], NO_LIMITS, "pareto").expect("bounds are known");
    assert!((known - 0.1).abs() < 1e-12);
    // Another cluster is as fast as the bound, and cheaper.
    let two = [point(1, 1.1, 1.1, 1.0), point(2, 1.0, 0.5, 1.0)];
    assert_eq!(missed(&two, NO_LIMITS, "pareto"), Some(0.0));
    let unknown = Point { bound_secs: None, ..point(1, 1.1, 1.1, 1.0) };
    assert_eq!(missed(&[unknown], NO_LIMITS, "pareto"), None);
}

#[test]
fn of_energy_as_much_may_be_missed_as_a_bound_is_below_its_plan() {
    let with = |kwh: f64, point: Point| {
        let plan = point.plan.map(|plan| Told { kwh, ..plan });
        Point { plan, ..point }
    };
    // The second draws more and may draw a fourth less than it does.
    let points = [with(1.0, point(1, 1.1, 1.1, 1.1)), with(1.2, point(2, 1.0, 2.0, 0.75))];
    let known = missed(&points, NO_LIMITS, "energy").expect("bounds are known");
    assert!((known - (1.0 / 0.9 - 1.0)).abs() < 1e-12, "{known}");
}

#[test]
fn what_may_be_missed_is_compared_with_points_within_limits_only() {
    // The second is as fast as the first can be, and too dear to be chosen instead.
    let points = [point(1, 1.1, 1.1, 1.0), point(2, 1.0, 0.99, 1.0), point(3, 2.0, 0.2, 2.0)];
    let known = missed(&points[..1], [None, Some(1.2)], "pareto").expect("bounds are known");
    assert!((known - 0.1).abs() < 1e-12);
    // A cluster whose bound is beyond the limit is no choice.
    assert_eq!(
        missed(&[point(1, 1.0, 1.0, 1.0), point(2, 3.0, 0.3, 2.0)], [Some(1.5), None], "pareto"),
        Some(0.0)
    );
    // Of what is asked for in time alone, a cheaper plan is none that was missed.
    assert_eq!(missed(&points[1..], NO_LIMITS, "time"), Some(0.0));
    assert_eq!(missed(&points, [Some(0.5), None], "pareto"), None, "nothing is chosen");
}

#[test]
fn degrees_are_those_that_the_kinds_in_use_were_measured_with_and_that_divide_a_node() {
    let fast = "1 = [0.001, 0.01, 0.004]\n2 = [0.001, 0.005, 0.002]\n4 = [0.001, 0.001, 0.001]";
    let text = FLEET.replace("per_node = 2", "per_node = 6").replace("1 = [0.001, 0.01, 0.004]", fast);
    let sweep = Sweep::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let problem = Problem { fleet: &sweep.fleet, model: &sweep.model, variant: Variant::Strict };
    let most = |counts: &[usize]| problem.degrees(counts).iter().map(|it| it.tensor).max();
    assert_eq!([most(&[1, 0]), most(&[1, 1])], [Some(2), Some(1)]);
}

#[test]
fn wrong_files_say_which_key_and_what_is_right() {
    let error = |from: &str, to: &str| {
        let error = Sweep::parse(&FLEET.replace(from, to)).expect_err("it is wrong");
        error.message.to_string()
    };
    insta::assert_snapshot!(error("memory_gib = 8.0", "memory_gib = -8.0"), @"`memory_gib`: expected a positive number, found `-8`");
    insta::assert_snapshot!(error("6 x layer", "6 x lair"), @"`layers`: expected `embedding`, `layer`, `head` or `12 x layer`, found `lair`");
    insta::assert_snapshot!(error("[times.slow]", "[times.slw]"), @"`times.slow`: no layer of this device was measured");
    insta::assert_snapshot!(error("[0.002, 0.02, 0.01]", "[0.002, 0.02]"), @"`times.slow`: expected 3 values, one per group of `layers`, found 2");
    insta::assert_snapshot!(error("count = [0, 2]", "count = [3, 2]"), @"`count`: expected a number or a range up to 1024, found `[3, 2]`");
    insta::assert_snapshot!(error("count = [0, 2]", "count = 0"), @"`count`: expected a node of some kind, found none");
    insta::assert_snapshot!(error("[0.002, 0.02, 0.01]", "[0.0002, 0.002, 0.001]"), @"`nodes`: the fastest device comes first, found `fast` before `slow`");
    insta::assert_snapshot!(error("[times.slow]", "[growth]\nslwo = [\"linear\"]\n[times.slow]"), @"`slwo`: no node has this device");
    insta::assert_snapshot!(error("per_node = 2", "per_nod = 2"), @"unknown field `per_nod`, expected one of `price_basis`, `per_node`, `nodes`, `links`, `egress_usd_per_gb`, `model`, `times`, `growth`");
    insta::assert_snapshot!(error("\"made up\"", "\"\""), @"`price_basis`: say where the prices come from, and of when");
}
