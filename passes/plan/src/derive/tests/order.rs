//! What cannot be read when it is read: tasks of stages, phases, loops.

use super::untimely;
use insta::assert_snapshot;

/// What is wrong about a plan of so many stages; lines are instruction, stage and phase.
fn judged(n_stages: usize, figures: &str, lines: &[(&str, usize, &str)]) -> String {
    let stages: Vec<String> = (0..n_stages).map(|stage| format!("{stage}:")).collect();
    let plan = figures.replace('\'', "\\\"");
    let header =
        format!("frontend_attributes={{phzc.stages=\"{}\",phzc.plan=\"{{{plan}}}\"}}", stages.join(";"));
    let line = |(text, stage, phase): &(&str, usize, &str)| {
        format!(
            "{text}, sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}\n"
        )
    };
    let lines: String = lines.iter().map(line).collect();
    untimely(&header, &format!("ENTRY e {{\n{lines}}}"))
}

const X: (&str, usize, &str) = ("x = f32[4] parameter(0)", 0, "fwd");

#[test]
fn nothing_forward_reads_what_is_backward() {
    let lines = |phase: &'static str| {
        [X, ("g = f32[4] negate(x)", 1, "bwd"), ("ROOT b = f32[4] add(x, g)", 1, phase)]
    };
    assert_eq!(judged(2, "", &lines("bwd")), "ok");
    assert_snapshot!(judged(2, "", &lines("fwd")), @r#"error: `b` (stage 1, forward) reads `g` (stage 1, backward) of the same microbatch, but its forward parts run before its backward parts: say `phzc.phase="bwd"` of the reader, or `fwd` of what it reads"#);
}

#[test]
fn phases_bind_with_one_stage_and_one_microbatch() {
    let lines = [X, ("g = f32[4] negate(x)", 0, "bwd"), ("ROOT b = f32[4] add(x, g)", 0, "fwd")];
    assert!(judged(1, "", &lines).starts_with("error: `b` (stage 0, forward) reads `g` (stage 0, backward)"));
}

#[test]
fn forward_goes_from_the_first_stage_to_the_last() {
    let lines = |stages: [usize; 2]| {
        [X, ("h = f32[4] negate(x)", stages[0], "fwd"), ("ROOT y = f32[4] negate(h)", stages[1], "fwd")]
    };
    assert_eq!(judged(3, "", &lines([0, 2])), "ok");
    assert_snapshot!(judged(3, "", &lines([2, 1])), @"error: `y` (stage 1, forward) reads `h` (stage 2, forward) of the same microbatch, but forward goes from the first stage to the last: say a later `phzc.stage` of the reader, or an earlier one of what it reads");
}

#[test]
fn backward_goes_from_the_last_stage_to_the_first() {
    let lines = |stages: [usize; 2]| {
        [X, ("d = f32[4] negate(x)", stages[0], "bwd"), ("ROOT c = f32[4] negate(d)", stages[1], "bwd")]
    };
    assert_eq!(judged(3, "", &lines([2, 0])), "ok");
    assert_snapshot!(judged(3, "", &lines([0, 1])), @"error: `c` (stage 1, backward) reads `d` (stage 0, backward) of the same microbatch, but backward goes from the last stage to the first: say an earlier `phzc.stage` of the reader, or a later one of what it reads");
}

#[test]
fn stages_that_share_devices_are_in_the_order_of_stages_too() {
    let lines = [X, ("h = f32[4] negate(x)", 2, "fwd"), ("ROOT y = f32[4] negate(h)", 1, "fwd")];
    let found = judged(4, "'schedule':'interleaved:2'", &lines);
    assert!(found.starts_with("error: `y` (stage 1, forward) reads `h` (stage 2, forward)"), "{found}");
}

#[test]
fn nothing_forward_or_backward_reads_what_is_updated() {
    let lines = |phase: &'static str| {
        [X, ("v = f32[4] negate(x)", 1, "upd"), ("ROOT y = f32[4] negate(v)", 0, phase)]
    };
    assert_eq!(judged(2, "", &lines("upd")), "ok");
    for (phase, name) in [("fwd", "forward"), ("bwd", "backward")] {
        let wanted = format!(
            "error: `y` (stage 0, {name}) reads `v` (stage 1, update), but the update runs once, after all microbatches: say `phzc.phase=\"upd\"` of the reader, or an earlier phase of what it reads"
        );
        assert_eq!(judged(2, "", &lines(phase)), wanted);
    }
}

#[test]
fn gradients_of_weights_are_named_as_such_where_they_are_put_off() {
    let lines = [
        X,
        ("w = f32[4] negate(x)", 1, "bwd"),
        ("v = f32[4] negate(w)", 1, "bwd"),
        ("ROOT y = f32[4] negate(v)", 1, "upd"),
    ];
    assert_eq!(judged(2, "'schedule':'zero-bubble'", &lines), "ok");
}

#[test]
fn tuples_are_seen_through() {
    let lines = |index: usize| {
        let pick: &str = if index == 0 {
            "p = f32[4] get-tuple-element(t), index=0"
        } else {
            "p = f32[4] get-tuple-element(t), index=1"
        };
        judged(
            2,
            "",
            &[
                X,
                ("h = f32[4] negate(x)", 0, "fwd"),
                ("g = f32[4] negate(h)", 1, "bwd"),
                ("t = (f32[4], f32[4]) tuple(h, g)", 1, "bwd"),
                (pick, 1, "bwd"),
                ("ROOT y = f32[4] negate(p)", 1, "fwd"),
            ],
        )
    };
    assert_eq!(lines(0), "ok");
    assert!(lines(1).starts_with("error: `y` (stage 1, forward) reads `g` (stage 1, backward)"));
}

#[test]
fn what_passes_a_barrier_is_there_when_all_that_passes_it_is() {
    let lines = |phase: &'static str| {
        [
            X,
            ("h = f32[4] negate(x)", 0, "fwd"),
            ("g = f32[4] negate(h)", 1, "bwd"),
            ("t = (f32[4], f32[4]) tuple(h, g)", 1, "bwd"),
            ("held = (f32[4], f32[4]) opt-barrier(t)", 1, "bwd"),
            ("p = f32[4] get-tuple-element(held), index=0", 1, "bwd"),
            ("ROOT y = f32[4] negate(p)", 1, phase),
        ]
    };
    assert_eq!(judged(2, "", &lines("bwd")), "ok");
    assert!(
        judged(2, "", &lines("fwd"))
            .starts_with("error: `y` (stage 1, forward) waits at a barrier for `g` (stage 1, backward)")
    );
}

#[test]
fn constants_and_what_is_made_of_them_alone_are_made_where_they_are_read() {
    let lines = [
        X,
        ("c = f32[] constant(1)", 1, "upd"),
        ("b = f32[4] broadcast(c), dimensions={}", 1, "bwd"),
        ("ROOT y = f32[4] add(x, b)", 0, "fwd"),
    ];
    assert_eq!(judged(2, "", &lines), "ok");
}

#[test]
fn what_is_put_off_is_named_as_a_gradient_of_a_weight() {
    let lines = [
        X,
        ("u = f32[4] negate(x)", 1, "upd"),
        ("w = f32[4] negate(u)", 1, "bwd"),
        ("ROOT y = f32[4] negate(w)", 1, "upd"),
    ];
    let wrong =
        |name: &str| format!("error: `w` (stage 1, {name}) reads `u` (stage 1, update), but the update");
    assert!(judged(2, "'schedule':'zero-bubble'", &lines).starts_with(&wrong("weight gradient")));
    assert!(judged(2, "", &lines).starts_with(&wrong("backward")));
}

/// A loop of stage 1, in whose body one instruction has these notes.
fn loop_with(stage: usize, phase: &str) -> String {
    loop_of("n = f32[4] negate(p)", stage, phase)
}

/// The same of an instruction `n`.
fn loop_of(instr: &str, stage: usize, phase: &str) -> String {
    let notes = |stage: usize, phase: &str| {
        format!(
            "sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}"
        )
    };
    let (own, other) = (notes(1, "fwd"), notes(stage, phase));
    let text = format!(
        "body {{
        p = f32[4] parameter(0), sharding={{replicated}}
        c = f32[4] constant({{1, 2, 3, 4}}), sharding={{replicated}}
        {instr}, {other}
        ROOT m = f32[4] add(p, n), {own}
        }}
        condition {{
        p = f32[4] parameter(0), sharding={{replicated}}
        ROOT k = pred[] constant(true), sharding={{replicated}}
        }}
        ENTRY e {{
        x = f32[4] parameter(0), {own}
        ROOT w = f32[4] while(x), condition=condition, body=body, {own}
        }}"
    );
    untimely("frontend_attributes={phzc.stages=\"0:;1:\",phzc.plan=\"{}\"}", &text)
}

#[test]
fn all_that_a_loop_runs_is_one_task() {
    assert_eq!(loop_with(1, "fwd"), "ok");
    assert_snapshot!(loop_with(0, "fwd"), @"error: `n` (stage 0, forward) is run by `w` (stage 1, forward): all that a loop or a branch runs is one task, say its stage and phase");
    assert!(
        loop_with(1, "bwd").starts_with("error: `n` (stage 1, backward) is run by `w` (stage 1, forward)")
    );
}

#[test]
fn constants_of_a_loop_are_of_any_task_and_effects_are_not() {
    assert_eq!(loop_of("n = f32[4] negate(c)", 0, "bwd"), "ok");
    let effect = "n = f32[4] custom-call(c), custom_call_target=\"log\", custom_call_has_side_effect=true";
    assert!(loop_of(effect, 0, "fwd").starts_with("error: `n` (stage 0, forward) is run by `w`"));
    assert_eq!(loop_of(effect, 1, "fwd"), "ok");
}

#[test]
fn notes_that_cannot_be_read_are_errors_of_a_plan() {
    let note = |note: &str| {
        let text = format!("ENTRY e {{ ROOT x = f32[4] parameter(0), frontend_attributes={{{note}}} }}");
        untimely("frontend_attributes={phzc.plan=\"{}\"}", &text)
    };
    assert_snapshot!(note("phzc.phase=\"forward\""), @"error: `x` is in phase `forward`: a phase is `fwd`, `bwd` or `upd`");
    assert_snapshot!(note("phzc.stage=\"1\""), @"error: `x` is in stage `1` of 1 stage");
    assert_snapshot!(note("phzc.phase=upd"), @"error: `x` has a note `phzc.phase` that is not in quotes");
}
