//! When instructions run, and which phases are no true ones.

use super::*;
use phzc_ir::eval::Array;
use phzc_ir::{DType, parse, verify};

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n";
/// `x` is data, `w` is updated; `h` is a microbatch's, `s` a sum over both.
const GIVEN: [(&str, &str, usize); 3] = [
    ("x = f32[2] parameter(0)", "fwd", 0),
    ("w = f32[2] parameter(1)", "fwd", 0),
    ("h = f32[2] negate(x)", "fwd", 0),
];
const SUM: &str = "s = f32[2] all-reduce(h), replica_groups={{0,1}}, to_apply=add";

/// The program of one device, its lines each with a phase and a stage; `w` is replaced.
fn local(lines: &[(&str, &str, usize)]) -> Module {
    let line = |(text, phase, stage): &(&str, &str, usize)| {
        format!("{text}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.of_stage=\"{stage}\"}}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    let header = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }";
    let module = parse(&format!("{header}\n{ADD}ENTRY e {{\n{lines}}}")).expect("legal");
    assert_eq!(verify(&module), []);
    module
}

fn plan(n_devices: usize, schedule: &str) -> Plan {
    let schedule = schedule.parse().expect("a schedule");
    Plan { n_stages: 2, n_microbatches: 2, shares: std::iter::once(0..2).collect(), n_devices, schedule }
}

/// What is untrue about the phases of these lines after the given ones, for two microbatches on one device.
fn untrue(lines: &[(&str, &str, usize)]) -> String {
    let all: Vec<_> = GIVEN.iter().chain(lines).copied().collect();
    let array = |x: f32| Value::Array(Array::from_vec(DType::F32, &[2], vec![x, 2.0]).expect("its type"));
    let parts = [vec![array(1.0), array(3.0)], vec![array(2.0), array(3.0)]];
    let found = honest::check(&local(&all), &plan(1, "1f1b"), &parts);
    found.map_or_else(|error| error.message, |()| "nothing".to_owned())
}

const ROOT: (&str, &str, usize) = ("ROOT t = (f32[2]) tuple(v)", "upd", 0);

#[test]
fn sums_for_an_update_are_true_phases() {
    let lines = |phase| [(SUM, phase, 0), ("v = f32[2] add(w, s)", "upd", 0), ROOT];
    assert_eq!([untrue(&lines("bwd")), untrue(&lines("fwd"))], ["nothing"; 2]);
}

#[test]
fn an_update_reads_no_part_of_a_microbatch() {
    let lines = |read: &'static str| [(SUM, "bwd", 0), (read, "upd", 0), ROOT];
    let wrong = untrue(&lines("v = f32[2] add(s, h)"));
    insta::assert_snapshot!(wrong, @"`v` of phase `upd` reads `h`, of which each microbatch has a part of its own");
    assert_eq!(untrue(&lines("v = f32[2] add(s, w)")), "nothing");
}

#[test]
fn a_sum_itself_may_be_the_updates() {
    assert_eq!(untrue(&[(SUM, "upd", 0), ("v = f32[2] add(w, s)", "upd", 0), ROOT]), "nothing");
}

#[test]
fn forward_and_backward_read_nothing_that_the_update_makes() {
    let wrong = untrue(&[
        (SUM, "bwd", 0),
        ("v = f32[2] add(w, s)", "upd", 0),
        ("q = f32[2] negate(v)", "bwd", 0),
        ("ROOT t = (f32[2], f32[2]) tuple(v, q)", "upd", 0),
    ]);
    insta::assert_snapshot!(wrong, @"`q` of phase `bwd` reads `v`, which the update makes");
}

#[test]
fn constants_are_the_updates_whoever_reads_them() {
    let lines = [
        ("c = f32[2] constant({1, 2})", "upd", 0),
        ("d = f32[2] negate(c)", "upd", 0),
        ("q = f32[2] multiply(h, d)", "bwd", 0),
        ("s = f32[2] all-reduce(q), replica_groups={{0,1}}, to_apply=add", "bwd", 0),
        ("v = f32[2] add(w, s)", "upd", 0),
        ROOT,
    ];
    assert_eq!(untrue(&lines), "nothing");
}

/// What is untrue where a negated sum of one phase and stage is read in another.
fn later(sum: (&'static str, usize), reader: (&'static str, usize)) -> String {
    untrue(&[
        (SUM, sum.0, sum.1),
        ("q = f32[2] negate(s)", reader.0, reader.1),
        ("v = f32[2] add(w, q)", "upd", 0),
        ROOT,
    ])
}

#[test]
fn a_sum_is_read_by_no_task_that_comes_before_it() {
    let late = |phase: &str| format!("`q` of phase `{phase}` reads `s`, of a task that comes later");
    assert_eq!(later(("bwd", 0), ("fwd", 0)), late("fwd"));
    assert_eq!(later(("fwd", 1), ("fwd", 0)), late("fwd"));
    assert_eq!(later(("bwd", 0), ("bwd", 1)), late("bwd"));
    for (sum, reader) in [(("fwd", 0), ("fwd", 0)), (("fwd", 0), ("fwd", 1)), (("bwd", 1), ("bwd", 0))] {
        assert_eq!(later(sum, reader), "nothing", "{sum:?} {reader:?}");
    }
    assert_eq!([later(("fwd", 1), ("bwd", 0)), later(("bwd", 0), ("bwd", 0))], ["nothing"; 2]);
}

/// What is untrue where a backward instruction reads the sum for the update.
fn of_sum(read: &'static str) -> String {
    untrue(&[(SUM, "bwd", 0), (read, "bwd", 0), ("v = f32[2] add(w, q)", "upd", 0), ROOT])
}

#[test]
fn what_reads_a_sum_beside_a_part_of_a_microbatch_is_untrue() {
    insta::assert_snapshot!(of_sum("q = f32[2] multiply(s, h)"), @"`q` of phase `bwd` reads `s`, a sum over all microbatches");
}

#[test]
fn what_is_linear_in_a_sum_is_as_good_for_each_microbatch() {
    let wrong = "`q` of phase `bwd` reads `s`, a sum over all microbatches";
    let linear = ["negate(s)", "multiply(s, w)", "add(s, s)", "divide(s, w)"];
    assert_eq!(linear.map(|op| of_sum(&*format!("q = f32[2] {op}").leak())), ["nothing"; 4]);
    let other = ["tanh(s)", "multiply(s, s)", "divide(w, s)", "add(s, w)"];
    assert_eq!(other.map(|op| of_sum(&*format!("q = f32[2] {op}").leak())), [wrong; 4]);
    assert_eq!(of_sum("q = f32[2] all-reduce(s), replica_groups={{0},{1}}, to_apply=add"), "nothing");
}

#[test]
fn a_sum_that_no_update_is_made_of_may_be_read_by_anything() {
    let lines = [
        (SUM, "bwd", 0),
        ("q = f32[2] tanh(s)", "bwd", 0),
        ("v = f32[2] negate(w)", "upd", 0),
        ("ROOT t = (f32[2], f32[2]) tuple(v, q)", "upd", 0),
    ];
    assert_eq!(untrue(&lines), "nothing");
}

#[test]
fn without_phases_an_output_may_be_made_of_anything() {
    let lines =
        |phase| [(SUM, phase, 0), ("v = f32[2] tanh(s)", phase, 0), ("ROOT t = (f32[2]) tuple(v)", "fwd", 0)];
    assert_eq!(untrue(&lines("fwd")), "nothing");
    assert_eq!(untrue(&lines("bwd")), "`v` of phase `bwd` reads `s`, a sum over all microbatches");
}

/// The sum of one microbatch is there before the barrier, that of all need not be.
#[test]
fn what_passes_a_barrier_beside_a_sum_is_none() {
    let lines = |index: usize| {
        let g = format!("g = f32[2] get-tuple-element(b), index={index}");
        untrue(&[
            (SUM, "bwd", 0),
            ("p = (f32[2], f32[2]) tuple(s, w)", "bwd", 0),
            ("b = (f32[2], f32[2]) opt-barrier(p)", "bwd", 0),
            (&g, "bwd", 0),
            ("q = f32[2] tanh(g)", "bwd", 0),
            ("v = f32[2] add(w, q)", "upd", 0),
            ROOT,
        ])
    };
    assert_eq!(lines(1), "nothing");
    assert!(lines(0).starts_with("`q` of phase `bwd` reads `s`"));
}

#[test]
fn what_passes_a_barrier_with_a_gradient_is_no_forward_value() {
    let lines = |phase: &'static str| {
        [
            ("g = f32[2] multiply(h, h)", "bwd", 0),
            ("held = (f32[2], f32[2]) tuple(h, g)", "bwd", 0),
            ("barrier = (f32[2], f32[2]) opt-barrier(held)", "bwd", 0),
            ("first = f32[2] get-tuple-element(barrier), index=0", "bwd", 0),
            ("again = f32[2] negate(first)", phase, 0),
            ("s = f32[2] all-reduce(again), replica_groups={{0,1}}, to_apply=add", "bwd", 0),
            ("v = f32[2] add(w, s)", "upd", 0),
            ROOT,
        ]
    };
    assert_eq!(untrue(&lines("bwd")), "nothing");
    let wrong =
        "`again` of phase `fwd` reads `g`, of a task that comes later, with which it passes a barrier";
    assert_eq!(untrue(&lines("fwd")), wrong);
}

#[test]
fn every_device_has_a_result_of_every_microbatch() {
    let sum = "s = f32[2] all-reduce(h), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=add";
    let lines = [(sum, "bwd", 0), ("v = f32[2] add(w, s)", "upd", 0), ROOT];
    let all: Vec<_> = GIVEN.iter().chain(&lines).copied().collect();
    let array = |x: f32| Value::Array(Array::from_vec(DType::F32, &[2], vec![x, 0.0]).expect("its type"));
    let parts = [1.0, 2.0, 3.0, 4.0].map(|x| vec![array(x), array(10.0)]).to_vec();
    let module = local(&all);
    let replay = Replay::new(&module, plan(2, "1f1b")).expect("stages are numbers");
    let made = replay.run(parts, &Options::default()).expect("it can be run");
    let first: Vec<f64> = made.iter().map(|value| value.leaves()[0].to_f64_vec()[0]).collect();
    assert_eq!(first, [10.0 - 4.0, 10.0 - 6.0, 10.0 - 4.0, 10.0 - 6.0]);
}

/// When the lines after the given ones run, for so many devices.
fn times(n_devices: usize, schedule: &str, lines: &[(&str, &str, usize)]) -> Vec<When> {
    let all: Vec<_> = GIVEN.iter().chain(lines).copied().collect();
    when(&local(&all), &plan(n_devices, schedule)).expect("stages are numbers").split_off(2)
}

#[test]
fn tasks_are_of_a_stage_and_a_part_and_sums_come_after_all() {
    let lines = [
        ("c = f32[2] constant({1, 2})", "upd", 0),
        ("k = f32[2] multiply(h, c)", "fwd", 1),
        ("q = f32[2] multiply(k, h)", "bwd", 1),
        ("s = f32[2] all-reduce(q), replica_groups={{0,1}}, to_apply=add", "bwd", 0),
        ("y = f32[2] negate(s)", "bwd", 0),
        ("v = f32[2] add(w, w)", "upd", 0),
        ("ROOT t = (f32[2], f32[2]) tuple(v, y)", "upd", 0),
    ];
    let task = When::Task;
    let wanted = [
        task(0, Part::Forward),
        When::Anywhere,
        task(1, Part::Forward),
        task(1, Part::Backward),
        When::After,
        When::After,
        When::After,
        When::Anywhere,
    ];
    assert_eq!(times(1, "1f1b", &lines), wanted);
}

#[test]
fn a_sum_over_the_devices_of_one_microbatch_is_in_its_task() {
    let over = |groups: &'static str| {
        let sum = format!("s = f32[2] all-reduce(h), replica_groups={groups}, to_apply=add").leak();
        times(2, "1f1b", &[(&*sum, "fwd", 1), ROOT_OF_SUM])[1]
    };
    let own = When::Task(1, Part::Forward);
    assert_eq!([over("{{0,1},{2,3}}"), over("{{0},{1},{2},{3}}")], [own; 2]);
    assert_eq!([over("{{0,2},{1,3}}"), over("{{0,1,2,3}}"), over("{{0,1},{3,2,1}}")], [When::After; 3]);
}

const ROOT_OF_SUM: (&str, &str, usize) = ("ROOT t = (f32[2]) tuple(s)", "upd", 0);

#[test]
fn gradients_of_weights_are_put_off_where_backward_is_split() {
    let lines = [
        ("d = f32[2] multiply(h, w)", "bwd", 1),
        ("g = f32[2] multiply(d, h)", "bwd", 1),
        ("e = f32[2] negate(d)", "bwd", 0),
        ("f = f32[2] multiply(e, h)", "bwd", 0),
        ("s = f32[2] all-reduce(g), replica_groups={{0,1}}, to_apply=add", "bwd", 1),
        ("r = f32[2] all-reduce(f), replica_groups={{0,1}}, to_apply=add", "bwd", 0),
        ("ROOT t = (f32[2], f32[2]) tuple(s, r)", "upd", 0),
    ];
    let parts = |schedule: &str| -> Vec<Part> {
        let part = |when: When| match when {
            When::Task(_, part) => Some(part),
            _ => None,
        };
        times(1, schedule, &lines).into_iter().filter_map(part).collect()
    };
    let (forward, backward, weight) = (Part::Forward, Part::Backward, Part::WeightGradient);
    assert_eq!(parts("1f1b"), [forward, backward, backward, backward, backward]);
    assert_eq!(parts("zero-bubble"), [forward, backward, weight, weight, weight]);
}

#[test]
fn a_stage_that_is_no_number_is_named() {
    let text = phzc_ir::print(&local(&[GIVEN[0], GIVEN[1], ("ROOT h = f32[2] negate(x)", "fwd", 7)]));
    let module = parse(&text.replace("\"7\"", "\"last\"")).expect("legal");
    let error = when(&module, &plan(1, "1f1b")).expect_err("it is no number");
    assert_eq!(error.message, "`h` has no stage but `last`");
}
