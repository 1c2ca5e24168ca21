//! A plan computes what its program does; tests/long has every mesh and pipeline on all examples.

mod asked;

use super::*;
use crate::testing::{EXAMPLES, passed, slow_8};

/// Asserts that the plan computes the same.
fn check(name: &str, text: &str, pipeline: &str) -> Verified {
    let original = phzc_ir::parse(text).expect("a legal program");
    let planned = passed(text, pipeline, &slow_8()).expect("it has a plan");
    let verified = verify(&original, &planned, &Settings::default())
        .unwrap_or_else(|error| panic!("{name}, {pipeline}: {error:?}"));
    let wrong = verified.outputs.iter().position(|output| !output.is_equal());
    assert_eq!(wrong, None, "{name}, {pipeline}: {:?}", wrong.map(|at| &verified.outputs[at]));
    verified
}

/// Compares two programs, the second as a plan for one device.
fn between(program: &str, plan: &str) -> Verified {
    let [program, plan] = [program, plan].map(|text| phzc_ir::parse(text).expect("a legal program"));
    verify(&program, &plan, &Settings::default()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// A moment that decays, of a gradient of a millionth, and a second result.
const MOMENT: &str = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
    ENTRY e { m = f32[8] parameter(0) g = f32[8] parameter(1) d = f32[] constant(0.9) s = f32[] constant(1e-6)
    ds = f32[8] broadcast(d), dimensions={} ss = f32[8] broadcast(s), dimensions={}
    a = f32[8] multiply(m, ds) b = f32[8] multiply(g, ss) n = f32[8] add(a, b) y = f32[8] tanh(g)
    ROOT t = (f32[8], f32[8]) tuple(n, y) }";

#[test]
fn a_wrong_decay_and_a_wrong_addend_of_a_moment_differ() {
    for (right, wrong) in [("constant(0.9)", "constant(3)"), ("constant(1e-6)", "constant(2e-6)")] {
        let verified = between(MOMENT, &MOMENT.replace(right, wrong));
        assert!(!verified.outputs[0].is_equal() && verified.n_steps == 1, "{wrong}: {verified:?}");
    }
    assert_eq!(between(MOMENT, MOMENT).n_steps, 2);
}

/// Compares a program with itself in microbatches; lines are instruction and phase, `x` the data, `w` the
/// weight.
fn in_microbatches(lines: &[(&str, &str)]) -> Verified {
    let given = [
        ("x = f32[8,4] parameter(0)", "fwd"),
        ("w = f32[4] parameter(1)", "fwd"),
        ("zero = f32[] constant(0)", "fwd"),
    ];
    let line = |(text, phase): &(&str, &str)| {
        let sharding = match text.split_once(" = ").is_some_and(|(_, shape)| shape.starts_with('(')) {
            true if text.starts_with("ROOT") => "{{replicated}}",
            true => "{{replicated}, {replicated}}",
            false => "{replicated}",
        };
        format!("{text}, sharding={sharding}, frontend_attributes={{phzc.phase=\"{phase}\"}}\n")
    };
    let body: String = given.iter().chain(lines).map(line).collect();
    let header = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }";
    let add = "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }";
    let notes = "frontend_attributes={phzc.plan=\"{\\\"n_microbatches\\\":2}\"}";
    between(
        &format!("{header}\n{add}\nENTRY e {{ {body} }}"),
        &format!("{header}, {notes}\n{add}\nENTRY e {{ {body} }}"),
    )
}

/// Recomputation waits behind a barrier for a gradient: of its own microbatch, not of all.
#[test]
fn what_waits_for_a_gradient_does_not_wait_for_all_microbatches() {
    let found = in_microbatches(&[
        ("a = f32[8,4] tanh(x)", "fwd"),
        ("g = f32[4] reduce(a, zero), dimensions={0}, to_apply=add", "bwd"),
        ("t = (f32[8,4], f32[4]) tuple(x, g)", "bwd"),
        ("b = (f32[8,4], f32[4]) opt-barrier(t)", "bwd"),
        ("held = f32[8,4] get-tuple-element(b), index=0", "bwd"),
        ("again = f32[8,4] tanh(held)", "bwd"),
        ("h = f32[4] reduce(again, zero), dimensions={0}, to_apply=add", "bwd"),
        ("both = f32[4] multiply(g, h)", "upd"),
        ("v = f32[4] add(w, both)", "upd"),
        ("ROOT r = (f32[4]) tuple(v)", "upd"),
    ]);
    assert_eq!((found.verdict(), found.is_replayed), (Verdict::Equal, true));
}

#[test]
fn a_count_of_samples_is_there_before_all_microbatches() {
    let found = in_microbatches(&[
        ("one = f32[] constant(1)", "fwd"),
        ("ones = f32[8] broadcast(one), dimensions={}", "fwd"),
        ("n = f32[] reduce(ones, zero), dimensions={0}, to_apply=add", "fwd"),
        ("many = f32[8] broadcast(n), dimensions={}", "fwd"),
        ("share = f32[8] divide(ones, many)", "fwd"),
        ("shares = f32[8,4] broadcast(share), dimensions={0}", "fwd"),
        ("y = f32[8,4] multiply(x, shares)", "fwd"),
        ("g = f32[4] reduce(y, zero), dimensions={0}, to_apply=add", "bwd"),
        ("v = f32[4] add(w, g)", "upd"),
        ("ROOT r = (f32[4]) tuple(v)", "upd"),
    ]);
    assert_eq!((found.verdict(), found.is_replayed), (Verdict::Equal, true));
}

/// Bounds beyond what numbers usually are: ReLU6, gradients that are clipped.
#[test]
fn what_cuts_off_large_numbers_is_not_left_out() {
    let text = |line: &str| {
        format!(
            "HloModule m\nENTRY e {{ x = f32[64,64] parameter(0) w = f32[64,64] parameter(1)
             h = f32[64,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
             lo = f32[] constant(-20) hi = f32[] constant(20) his = f32[64,64] broadcast(hi), dimensions={{}}
             p = pred[64,64] compare(h, his), direction=LT ROOT y = f32[64,64] {line} }}"
        )
    };
    for (whole, cut) in [
        ("clamp(lo, h, hi)", "copy(h)"),
        ("clamp(lo, x, hi)", "copy(x)"),
        ("minimum(h, his)", "copy(h)"),
        ("select(p, h, his)", "copy(h)"),
    ] {
        assert_eq!(between(&text(whole), &text(cut)).verdict(), Verdict::Differs, "{whole}");
        assert_eq!(between(&text(whole), &text(whole)).verdict(), Verdict::Equal, "{whole}");
    }
}

#[test]
fn what_changes_nothing_the_second_time_depends_on_its_input_all_the_same() {
    let text = "HloModule m\nENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] abs(x) }";
    assert_eq!(between(text, text).dark, Dark::default());
}

#[test]
fn two_outputs_have_no_buffer_together_and_none_too_small() {
    let text = |alias: &str| {
        format!(
            "HloModule m, input_output_alias={{ {alias} }}
             ENTRY e {{ x = f32[4] parameter(0) y = f32[8] parameter(1) ROOT t = (f32[4], f32[8]) tuple(x, y) }}"
        )
    };
    let [program, plan] = ["{0}: (0, {}, may-alias)", "{0}: (1, {}, may-alias)"]
        .map(|alias| phzc_ir::parse(&text(alias)).expect("a legal program"));
    let failed = verify(&program, &plan, &Settings::default()).expect_err("it has too little room");
    assert!(failed.error.message.contains("which is `f32[8]`, but is `f32[4]`"), "{failed:?}");
}

/// XLA asks for as many bytes, not for one type; in 64-bit floats they are no longer as many.
#[test]
fn a_float_may_reuse_the_buffer_of_an_integer() {
    let text = |alias: &str| {
        format!(
            "HloModule m, input_output_alias={{ {alias} }}
             ENTRY e {{ n = s32[4] parameter(0) y = f32[4] convert(n) ROOT t = (f32[4], s32[4]) tuple(y, n) }}"
        )
    };
    let found = between(&text("{1}: (0, {}, may-alias)"), &text("{0}: (0, {}, may-alias)"));
    assert_eq!(found.verdict(), Verdict::Equal);
}

#[test]
fn the_second_step_takes_what_the_first_returned() {
    // Counters begin with 1 to 3: only the second step takes the other branch.
    let program = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
        ENTRY e { n = s32[] parameter(0) x = f32[] parameter(1) k = s32[] constant(8) o = s32[] add(n, k)
        c = pred[] compare(n, k), direction=LT two = f32[] constant(2) three = f32[] constant(3)
        a = f32[] multiply(x, two) b = f32[] multiply(x, three) y = f32[] select(c, a, b)
        ROOT t = (s32[], f32[]) tuple(o, y) }";
    let verified = between(program, &program.replace("constant(3)", "constant(4)"));
    let differs: Vec<bool> = verified.outputs.iter().map(|output| !output.is_equal()).collect();
    assert_eq!((verified.n_steps, differs), (2, vec![false, true]), "{verified:?}");
}

#[test]
fn a_plan_computes_the_same_in_lock_step_and_replayed() {
    let (name, text) = EXAMPLES[0];
    let verified = check(name, text, "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}");
    assert_eq!((verified.n_stages, verified.n_devices, verified.is_replayed), (1, 8, false));
    for (schedule, n_stages) in [("1f1b", 2), ("zero-bubble", 2), ("interleaved:2", 4)] {
        let options = format!("stages=2,microbatches=4,schedule={schedule}");
        let verified = check(name, text, &format!("fuse,shard,place{{{options}}}"));
        assert!(verified.is_replayed, "{schedule}");
        assert_eq!((verified.n_stages, verified.n_microbatches), (n_stages, 4), "{schedule}");
    }
}

/// A product whose rounding each of 28 rounds of the logistic map doubles.
fn chaos() -> String {
    let round = |n: usize| {
        let next = n + 1;
        format!(
            "o{n} = f32[8,8] subtract(ones, v{n}) p{n} = f32[8,8] multiply(v{n}, o{n})
            v{next} = f32[8,8] multiply(p{n}, fours)"
        )
    };
    let rounds: Vec<String> = (0..28).map(round).collect();
    format!(
        "HloModule m
        ENTRY e {{ x = f32[8,4096] parameter(0) w = f32[4096,8] parameter(1)
        s = f32[8,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        f = f32[8,8] floor(s) v0 = f32[8,8] subtract(s, f)
        one = f32[] constant(1) ones = f32[8,8] broadcast(one), dimensions={{}}
        four = f32[] constant(4) fours = f32[8,8] broadcast(four), dimensions={{}} {}
        last = f32[] constant(1.5) lasts = f32[8,8] broadcast(last), dimensions={{}}
        ROOT z = f32[8,8] multiply(v28, lasts) }}",
        rounds.join("\n")
    )
}

#[test]
fn rounding_that_depth_amplifies_is_told_from_an_error_by_pieces() {
    let (text, settings) = (chaos(), Settings::default());
    let original = phzc_ir::parse(&text).expect("a legal program");
    let pipeline = "fuse,shard{mesh=8,pin={^x$=[-,x]}},place{stages=1,microbatches=1}";
    let planned = passed(&text, pipeline, &slow_8()).expect("it has a plan");
    let [program, plan] = widen(&[original.clone(), planned.clone()]).expect("it may be widened");
    let whole = compared(&program, &plan, &settings).expect("it can be run");
    assert!(whole.may_be_rounding() && whole.outputs[0].error > 1e-12, "{whole:?}");
    let verified = verify(&original, &planned, &settings).expect("it can be run");
    assert!(verified.verdict() == Verdict::Equal && verified.pieces.is_some(), "{verified:?}");
    // Pieces are too short to amplify rounding: even an error of 1e-12 is none.
    for number in ["1.50000001", "1.50000000000075"] {
        let wrong = phzc_ir::print(&planned).replace("constant(1.5)", &format!("constant({number})"));
        let wrong = phzc_ir::parse(&wrong).expect("a legal plan");
        let verified = verify(&original, &wrong, &settings).expect("it can be run");
        assert!(verified.verdict() == Verdict::Differs && verified.may_be_rounding(), "{verified:?}");
    }
}
