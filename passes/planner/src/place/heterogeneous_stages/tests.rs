//! Sizes of stages: which are worth a look, and what they must beat.

use super::super::tests::{cluster, with_problem};
use super::*;
use phzc_cost::Cluster;
use phzc_ir::parse;
use phzc_testing::perceptron::perceptron;

#[test]
fn sizes_are_as_far_apart_as_their_ratio() {
    assert_eq!((far(4, 4), far(4, 2)), (0.0, far(1, 2)));
    assert!(far(8, 1) > far(4, 1) && (far(8, 1) - 8.0_f64.ln()).abs() < 1e-12);
}

const PROGRAM: &str = "ENTRY e { x = f32[4] parameter(0) c = f32[] constant(2)
    wide = f32[4] broadcast(c), dimensions={} t = (f32[4], f32[4]) tuple(x, wide)
    v = f32[4] get-tuple-element(t), index=0 y = f32[4] multiply(v, wide)
    ROOT out = (f32[4], f32[4]) tuple(y, x) }";

#[test]
fn arrays_of_constants_are_free() {
    let module = parse(PROGRAM).expect("legal");
    let is_free = free_arrays(&module);
    let names = module.entry().iter().filter(|(id, _)| is_free[id.index()]);
    assert_eq!(names.map(|(_, instr)| &*instr.name).collect::<Vec<_>>(), ["c", "wide"]);
}

#[test]
fn a_barrier_is_where_all_that_reads_its_parts_is() {
    let text = "ENTRY e { x = f32[4] parameter(0) t = (f32[4], f32[4]) tuple(x, x)
        b = (f32[4], f32[4]) opt-barrier(t) v = f32[4] get-tuple-element(b), index=0
        w = f32[4] get-tuple-element(b), index=1 u = f32[4] tanh(v) y = f32[4] tanh(w)
        ROOT out = (f32[4], f32[4]) tuple(u, y) }";
    let of = |stages: [usize; 8]| with_tuples(&parse(text).expect("legal"), stages.to_vec());
    assert_eq!(of([0, 0, 0, 0, 0, 2, 2, 0]), [0, 2, 2, 2, 2, 2, 2, 0]);
    // Of readers in several stages each takes its part from where the barrier was.
    assert_eq!(of([0, 0, 0, 0, 0, 2, 1, 0]), [0, 0, 0, 0, 0, 2, 1, 0]);
}

#[test]
fn tuples_go_with_the_loop_that_reads_them() {
    let text = "c { p = (f32[4]) parameter(0) ROOT n = pred[] constant(false) }
        b { ROOT p = (f32[4]) parameter(0) }
        ENTRY e { x = f32[4] parameter(0) t = (f32[4]) tuple(x)
        ROOT l = (f32[4]) while(t), condition=c, body=b }";
    assert_eq!(with_tuples(&parse(text).expect("legal"), vec![0, 0, 1]), [0, 1, 1]);
}

/// The perceptron's problem on a cluster.
fn with(cluster: &Cluster, options: &str, property: impl FnOnce(&Problem)) {
    with_problem(perceptron(7), cluster, options, property);
}

#[test]
fn of_very_many_devices_stages_have_different_sizes_only_where_that_is_asked_for() {
    // Of at most 48 units on 64 devices, and on 128.
    for (name, is_huge) in [("a100-8x8", false), ("a100-8x16", true)] {
        let cluster = Cluster::named(name).expect("built in");
        with(&cluster, "max-plans=1", |problem| {
            assert_eq!([0, 2, 3].map(|wanted| problem.is_huge(wanted)), [is_huge, is_huge, false], "{name}");
        });
        with(&cluster, "groups=8+16", |problem| assert!(!problem.is_huge(0)));
    }
}

#[test]
fn sizes_that_do_not_divide_the_devices_are_laid_out_for_themselves() {
    with(&cluster(), "", |problem| {
        let sizes =
            |wanted: usize| problem.missing(&[], wanted).iter().map(Sketch::n_devices).collect::<Vec<_>>();
        assert_eq!([sizes(0), sizes(2), sizes(3)], [vec![], vec![2, 1], vec![2, 1]]);
        let known = [problem.laid_out(2).expect("layouts")];
        let sizes: Vec<usize> = problem.missing(&known, 3).iter().map(Sketch::n_devices).collect();
        assert_eq!(sizes, [1]);
    });
}

#[test]
fn a_plan_with_other_sizes_must_be_faster_by_more_than_its_error() {
    let placed = |secs| Evaluated::Placed(Box::new(super::super::candidate::tests::placed(secs, 0.5)));
    with(&cluster(), "", |problem| {
        let to_beat = problem.to_beat_secs(&[placed(3.0), Evaluated::Slower, placed(2.0)]);
        assert!((to_beat - 0.998 * 2.0).abs() < 1e-12);
        assert_eq!(problem.to_beat_secs(&[]), f64::INFINITY);
    });
    with_problem(perceptron(40), &cluster(), "", |problem| {
        assert!((problem.to_beat_secs(&[placed(2.0)]) - 0.98 * 2.0).abs() < 1e-12);
    });
}

#[test]
fn equal_stages_are_as_many_as_take_the_fewest_seconds_and_fit() {
    with(&cluster(), "", |problem| {
        let made: Vec<Sketch> = [2, 1].into_iter().filter_map(|size| problem.laid_out(size)).collect();
        let (chosen, drafts) = (made.iter().collect::<Vec<_>>(), made.iter().map(Sketch::draft).collect());
        let (short, drafts): (Short, Vec<Draft>) = (Short::itself(problem.plain), drafts);
        let mut sizes = Sizes::new(&short, &drafts, problem.layers(&chosen, &drafts, |_| 0).expect("layers"));
        let on = |n_devices, wanted| EqualStages { kind: 0, n_devices, wanted };
        let n_equal = |n_devices, wanted| sizes.equal(on(n_devices, wanted), 2).len();
        assert_eq!([n_equal(4, 0), n_equal(4, 2), n_equal(2, 0), n_equal(4, 3)], [2, 1, 2, 0]);
        assert!(sizes.equal(EqualStages { kind: 1, ..on(4, 0) }, 2).is_empty());
        // Two stages on one device each take their sum and the slower one for each further microbatch.
        let mut secs = |n_devices, limit| sizes.equal_secs(problem, on(n_devices, n_devices), (2, limit));
        let ([one, both], [_, alone]) = (secs(2, f64::INFINITY), secs(1, f64::INFINITY));
        assert!(one < both && both < 2.0 * one && both < alone, "{one} {both} {alone}");
        assert_eq!(secs(2, 1.0), [f64::INFINITY; 2]);
    });
}
