//! Phases that follow from sums over microbatches, and programs that cannot run in microbatches.

use super::run_on;
use insta::assert_snapshot;

const ADD: &str = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n";

/// What `check` says of a step in which `w` is updated and `x` is data; lines are instruction and phase.
fn step(n_microbatches: usize, lines: &[(&str, &str)]) -> String {
    let plan = format!("{{\\\"n_microbatches\\\":{n_microbatches}}}");
    let header = format!(
        "input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}, frontend_attributes={{phzc.plan=\"{plan}\"}}"
    );
    let given = [
        ("x = f32[8,4] parameter(0)", "fwd"),
        ("w = f32[4] parameter(1)", "fwd"),
        ("zero = f32[] constant(0)", "fwd"),
    ];
    let line =
        |(text, phase): &(&str, &str)| format!("{text}, frontend_attributes={{phzc.phase=\"{phase}\"}}\n");
    let lines: String = given.iter().chain(lines).map(line).collect();
    run_on("auto", &header, &format!("{ADD}ENTRY e {{\n{lines}}}"))
}

const GRADIENT: (&str, &str) = ("g = f32[4] reduce(x, zero), dimensions={0}, to_apply=add", "bwd");

#[test]
fn what_each_microbatch_has_a_part_of_is_not_the_update_s() {
    let lines = |phase: &'static str| {
        [
            ("y = f32[8,4] negate(x)", "fwd"),
            ("g = f32[4] reduce(y, zero), dimensions={0}, to_apply=add", phase),
            ("v = f32[4] add(w, g)", "upd"),
            ("ROOT t = (f32[4]) tuple(v)", "upd"),
        ]
    };
    assert_eq!(step(1, &lines("bwd")), "ok");
    assert_eq!(step(1, &lines("fwd")), "ok");
    assert_snapshot!(step(1, &lines("upd")), @r#"error: `g` (stage 0, update) reads `y` (stage 0, forward), of which each microbatch makes a part of its own, but the update runs once, after all microbatches: say `phzc.phase="bwd"` of the reader, or `fwd`"#);
}

#[test]
fn what_needs_a_whole_sum_for_the_update_is_the_update_s() {
    let lines = |phase: &'static str| {
        [GRADIENT, ("v = f32[4] add(w, g)", phase), ("ROOT t = (f32[4]) tuple(v)", "upd")]
    };
    assert_eq!(step(1, &lines("upd")), "ok");
    assert_snapshot!(step(1, &lines("bwd")), @r#"error: `v` (stage 0, backward) reads `g` (stage 0, backward), a sum to which each microbatch adds, and is not linear in it: done for each microbatch it is not what it is of the whole sum; say `phzc.phase="upd"` of the reader"#);
}

#[test]
fn what_is_linear_in_a_sum_may_be_done_for_each_microbatch() {
    let lines = |op: &'static str| {
        [GRADIENT, (op, "bwd"), ("v = f32[4] add(w, s)", "upd"), ("ROOT t = (f32[4]) tuple(v)", "upd")]
    };
    for op in ["s = f32[4] add(g, g)", "s = f32[4] multiply(w, g)", "s = f32[4] negate(g)"] {
        assert_eq!(step(4, &lines(op)), "ok", "{op}");
    }
    for op in ["s = f32[4] multiply(g, g)", "s = f32[4] divide(w, g)", "s = f32[4] tanh(g)"] {
        assert!(step(4, &lines(op)).contains("`s` (stage 0, backward) reads `g`"), "{op}");
    }
}

#[test]
fn what_is_not_linear_in_a_sum_may_be_handed_out_but_not_updated_with() {
    let lines = |last: [(&'static str, &'static str); 2]| {
        [GRADIENT, ("m = f32[4] exponential(g)", "fwd"), ("v = f32[4] add(w, g)", "upd"), last[0], last[1]]
    };
    // A figure for its reader: no phase says more.
    let forward = ("g = f32[4] reduce(x, zero), dimensions={0}, to_apply=add", "fwd");
    let handed_out = [("ROOT t = (f32[4], f32[4]) tuple(v, m)", "upd"), ("n = f32[4] negate(w)", "upd")];
    let mut lines_out = lines(handed_out);
    (lines_out[0], lines_out[3], lines_out[4]) = (forward, handed_out[1], handed_out[0]);
    assert_eq!(step(4, &lines_out), "ok");
    let mut updated = lines([("u = f32[4] add(v, m)", "upd"), ("ROOT t = (f32[4]) tuple(u)", "upd")]);
    updated[0] = forward;
    assert!(step(4, &updated).contains("`m` (stage 0, forward) reads `g` (stage 0, forward), a sum"));
}

/// The mean over the batch is taken from each sample, as a norm over the batch does.
const NORM: [(&str, &str); 6] = [
    ("g = f32[4] reduce(x, zero), dimensions={0}, to_apply=add", "fwd"),
    ("m = f32[8,4] broadcast(g), dimensions={1}", "fwd"),
    ("n = f32[8,4] subtract(x, m)", "fwd"),
    ("s = f32[4] reduce(n, zero), dimensions={0}, to_apply=add", "bwd"),
    ("v = f32[4] add(w, s)", "upd"),
    ("ROOT t = (f32[4]) tuple(v)", "upd"),
];

#[test]
fn no_microbatch_needs_a_sum_over_all_of_them() {
    assert_eq!(step(1, &NORM), "ok");
    assert_snapshot!(step(2, &NORM), @"error: `m` (stage 0, forward) of each microbatch reads `g` (stage 0, forward), a sum over all 2 microbatches, which is there after the last one; plan with `place{microbatches=1}`");
}

/// A mean divides by how many samples there are, which a program may count: by adding up ones.
#[test]
fn a_count_of_samples_is_no_sum_over_microbatches() {
    let lines = [
        ("one = f32[] constant(1)", "fwd"),
        ("ones = f32[8] broadcast(one), dimensions={}", "fwd"),
        ("n = f32[] reduce(ones, zero), dimensions={0}, to_apply=add", "fwd"),
        ("ns = f32[8,4] broadcast(n), dimensions={}", "fwd"),
        ("many = f32[8] broadcast(n), dimensions={}", "fwd"),
        ("share = f32[8] divide(ones, many)", "fwd"),
        ("shares = f32[8,4] broadcast(share), dimensions={0}", "fwd"),
        ("y = f32[8,4] multiply(x, shares)", "fwd"),
        ("z = f32[8,4] divide(y, ns)", "fwd"),
        ("g = f32[4] reduce(z, zero), dimensions={0}, to_apply=add", "bwd"),
        ("v = f32[4] add(w, g)", "upd"),
        ("ROOT t = (f32[4]) tuple(v)", "upd"),
    ];
    assert_eq!(step(4, &lines), "ok");
}

#[test]
fn samples_of_other_microbatches_cannot_be_read() {
    let lines = [
        ("y = f32[8,4] reverse(x), dimensions={0}", "fwd"),
        ("g = f32[4] reduce(y, zero), dimensions={0}, to_apply=add", "bwd"),
        ("v = f32[4] add(w, g)", "upd"),
        ("ROOT t = (f32[4]) tuple(v)", "upd"),
    ];
    assert_eq!(step(1, &lines), "ok");
    assert_snapshot!(step(2, &lines), @"error: `y` (stage 0, forward) cannot run in 2 microbatches: it cannot work on operand 0 split on `microbatches`: neighbours would have to exchange elements; plan with `place{microbatches=1}`");
}

#[test]
fn microbatches_divide_the_batch() {
    let lines = [GRADIENT, ("v = f32[4] add(w, g)", "upd"), ("ROOT t = (f32[4]) tuple(v)", "upd")];
    assert_eq!(step(4, &lines), "ok");
    assert_snapshot!(step(3, &lines), @"error: `x` has a batch dimension of 8, which cannot be cut into 3 microbatches");
    assert!(step(0, &lines).contains("expected 1 to 1048576 microbatches, found `0`"));
}

#[test]
fn state_that_only_the_update_reads_is_no_data() {
    // An average of weights that is handed in, not out.
    let lines = |phase: &'static str| {
        [
            GRADIENT,
            ("e = f32[4] parameter(2)", "fwd"),
            ("half = f32[] constant(0.5)", "fwd"),
            ("c = f32[4] broadcast(half), dimensions={}", "fwd"),
            ("f = f32[4] multiply(e, c)", phase),
            ("fw = f32[4] add(f, w)", phase),
            ("v = f32[4] add(fw, g)", "upd"),
            ("ROOT t = (f32[4]) tuple(v)", "upd"),
        ]
    };
    assert_eq!(step(1, &lines("upd")), "ok");
    // What an update reads beside a microbatch's part is data.
    let of_data = [
        GRADIENT,
        ("e = f32[8,4] parameter(2)", "fwd"),
        ("h = f32[8,4] negate(x)", "fwd"),
        ("ee = f32[8,4] multiply(e, h)", "upd"),
        ("v = f32[4] add(w, g)", "upd"),
        ("ROOT t = (f32[4], f32[8,4]) tuple(v, ee)", "upd"),
    ];
    assert_snapshot!(step(1, &of_data), @r#"error: `ee` (stage 0, update) reads `h` (stage 0, forward), of which each microbatch makes a part of its own, but the update runs once, after all microbatches: say `phzc.phase="bwd"` of the reader, or `fwd`"#);
}

#[test]
fn zeros_beside_something_else_are_no_zeros() {
    let lines = |of: &'static str| {
        [
            GRADIENT,
            ("zs = f32[4] broadcast(zero), dimensions={}", "bwd"),
            (of, "bwd"),
            ("s = f32[4] add(g, k)", "bwd"),
            ("v = f32[4] add(w, s)", "upd"),
            ("ROOT t = (f32[4]) tuple(v)", "upd"),
        ]
    };
    assert_eq!(step(4, &lines("k = f32[4] multiply(w, zs)")), "ok");
    assert_eq!(step(4, &lines("k = f32[4] add(zs, zs)")), "ok");
    let wrong = step(4, &lines("k = f32[4] add(w, zs)"));
    assert!(wrong.starts_with("error: `s` (stage 0, backward) reads `g`"), "{wrong}");
    let wrong = step(4, &lines("k = f32[4] negate(w)"));
    assert!(wrong.starts_with("error: `s` (stage 0, backward) reads `g`"), "{wrong}");
}

#[test]
fn state_beside_a_sum_that_the_update_reads_is_no_data() {
    let lines = [
        GRADIENT,
        ("e = f32[4] parameter(2)", "fwd"),
        ("f = f32[4] multiply(e, g)", "upd"),
        ("v = f32[4] add(w, f)", "upd"),
        ("ROOT t = (f32[4]) tuple(v)", "upd"),
    ];
    assert_eq!(step(1, &lines), "ok");
}

#[test]
fn what_only_an_update_reads_beside_another_input_is_state() {
    let lines = [
        GRADIENT,
        ("e = f32[8,4] parameter(2)", "fwd"),
        ("ee = f32[8,4] multiply(e, x)", "upd"),
        ("v = f32[4] add(w, g)", "upd"),
        ("ROOT t = (f32[4], f32[8,4]) tuple(v, ee)", "upd"),
    ];
    assert_eq!(step(1, &lines), "ok");
}

/// A loop that adds up gradients from a first value on; its result is `l`.
fn in_loop(first: &str, inner: &str, phase: &str) -> String {
    let note = |phase: &str| format!("frontend_attributes={{phzc.phase=\"{phase}\"}}");
    let (fwd, own, upd) = (note("fwd"), note(phase), note("upd"));
    let text = format!(
        "{ADD}body {{
        p = (f32[4], f32[8,4]) parameter(0)
        a = f32[4] get-tuple-element(p), index=0
        y = f32[8,4] get-tuple-element(p), index=1
        z = f32[] constant(0)
        g = f32[4] reduce(y, z), dimensions={{0}}, to_apply=add
        n = f32[4] {inner}
        ROOT t = (f32[4], f32[8,4]) tuple(n, y)
        }}
        condition {{
        p = (f32[4], f32[8,4]) parameter(0)
        ROOT k = pred[] constant(true)
        }}
        ENTRY e {{
        x = f32[8,4] parameter(0), {fwd}
        w = f32[4] parameter(1), {fwd}
        zero = f32[] constant(0)
        none = f32[4] broadcast(zero), dimensions={{}}
        t = (f32[4], f32[8,4]) tuple({first}, x)
        l = (f32[4], f32[8,4]) while(t), condition=condition, body=body, {own}
        s = f32[4] get-tuple-element(l), index=0
        v = f32[4] add(w, s), {upd}
        ROOT r = (f32[4]) tuple(v), {upd}
        }}"
    );
    let header = "input_output_alias={ {0}: (1, {}, may-alias) }, frontend_attributes={phzc.plan=\"{\\\"n_microbatches\\\":2}\"}";
    run_on("auto", header, &text)
}

#[test]
fn what_a_loop_makes_of_data_in_a_later_round_is_a_part_of_each_microbatch() {
    let note = |phase: &str| format!("frontend_attributes={{phzc.phase=\"{phase}\"}}");
    let upd = note("upd");
    let text = format!(
        "{ADD}body {{ p = (f32[8,4], f32[8,4]) parameter(0)
        c = f32[8,4] get-tuple-element(p), index=0
        y = f32[8,4] get-tuple-element(p), index=1
        n = f32[8,4] add(c, y)
        ROOT t = (f32[8,4], f32[8,4]) tuple(n, y) }}
        condition {{ p = (f32[8,4], f32[8,4]) parameter(0) ROOT k = pred[] constant(true) }}
        ENTRY e {{
        x = f32[8,4] parameter(0)
        w = f32[4] parameter(1)
        zero = f32[] constant(0)
        none = f32[8,4] broadcast(zero), dimensions={{}}
        t = (f32[8,4], f32[8,4]) tuple(none, x)
        l = (f32[8,4], f32[8,4]) while(t), condition=condition, body=body
        s = f32[8,4] get-tuple-element(l), index=0
        u = f32[8,4] negate(s), {upd}
        r = f32[4] reduce(u, zero), dimensions={{0}}, to_apply=add, {upd}
        v = f32[4] add(w, r), {upd}
        ROOT o = (f32[4]) tuple(v), {upd} }}"
    );
    let header = "input_output_alias={ {0}: (1, {}, may-alias) }, frontend_attributes={phzc.plan=\"{}\"}";
    let found = run_on("auto", header, &text);
    assert!(found.starts_with("error: `u` (stage 0, update) reads "), "{found}");
}

#[test]
fn loops_add_up_from_zeros_and_hand_on_nothing_but_sums() {
    assert_eq!(in_loop("none", "add(a, g)", "bwd"), "ok");
    let found = in_loop("none", "multiply(g, g)", "bwd");
    assert!(
        found.starts_with("error: `n` (stage 0, backward) reads `g` (stage 0, backward), a sum"),
        "{found}"
    );
    let found = in_loop("w", "add(a, g)", "bwd");
    assert!(found.contains("(stage 0, backward) reads"), "{found}");
    let found = in_loop("none", "add(a, g)", "upd");
    assert!(
        found.contains("`l` (stage 0, update) reads `x` (stage 0, forward), of which each microbatch makes"),
        "{found}"
    );
}

/// Gradients of a loop over layers, the last first, are added to rows of a stack that starts as zeros.
#[test]
fn rows_of_a_stack_of_zeros_add_up_in_a_loop() {
    let text = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
below { s = (s32[], f32[2,4], f32[8,4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(2)
    ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[2,4], f32[8,4]) parameter(0)  i = s32[] get-tuple-element(s), index=0
    stack = f32[2,4] get-tuple-element(s), index=1  x = f32[8,4] get-tuple-element(s), index=2
    zero = f32[] constant(0)  none = s32[] constant(0)  one = s32[] constant(1)
    at = s32[] subtract(one, i)  g = f32[4] reduce(x, zero), dimensions={0}, to_apply=add  row = f32[1,4] reshape(g)
    old = f32[1,4] dynamic-slice(stack, at, none), dynamic_slice_sizes={1,4}  sum = f32[1,4] add(old, row)
    new = f32[2,4] dynamic-update-slice(stack, sum, at, none)  next = s32[] add(i, one)
    ROOT t = (s32[], f32[2,4], f32[8,4]) tuple(next, new, x) }
ENTRY e { x = f32[8,4] parameter(0)  w = f32[2,4] parameter(1)  zero = f32[] constant(0)  start = s32[] constant(0)
    stack = f32[2,4] broadcast(zero), dimensions={}  t = (s32[], f32[2,4], f32[8,4]) tuple(start, stack, x)
    loop = (s32[], f32[2,4], f32[8,4]) while(t), condition=below, body=body, frontend_attributes={phzc.phase=\"bwd\"}
    g = f32[2,4] get-tuple-element(loop), index=1
    v = f32[2,4] add(w, g), frontend_attributes={phzc.phase=\"upd\"}
    ROOT r = (f32[2,4]) tuple(v) }";
    let header = "input_output_alias={ {0}: (1, {}, may-alias) }, frontend_attributes={phzc.plan=\"{\\\"n_microbatches\\\":1}\"}";
    assert_eq!(run_on("auto", header, text), "ok");
}
