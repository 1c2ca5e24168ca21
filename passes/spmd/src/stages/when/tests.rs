//! In which part of which stage instructions run.

use super::*;

/// `name: task` of the entry's instructions but parameters; each is given with phase and stage.
fn tasks(is_split: bool, lines: &[(&str, &str, &str)]) -> String {
    let line = |(text, phase, stage): &(&str, &str, &str)| {
        format!("{text}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.of_stage=\"{stage}\"}}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    let add = "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }";
    let module = phzc_ir::parse(&format!("HloModule m\n{add}\nENTRY e {{\n{lines}}}")).expect("legal");
    let entry = module.entry();
    let found = match when(entry, is_split) {
        Ok(found) => found,
        Err(error) => return error.message,
    };
    let text = |when: When| match when {
        When::Given => None,
        When::Anywhere => Some("anywhere".to_owned()),
        When::In(task) => Some(task.name()),
        When::Sum(task) => Some(format!("sum of {}", task.name())),
    };
    let all = entry.instrs.iter().zip(found);
    all.filter_map(|(instr, when)| Some(format!("{}: {}", instr.name, text(when)?)))
        .collect::<Vec<_>>()
        .join("\n")
}

const SUM: &str = "all-reduce(g), replica_groups={{0,1}}, to_apply=add";

#[test]
fn phases_are_parts_and_what_waits_for_a_sum_is_an_update() {
    let found = tasks(
        false,
        &[
            ("x = f32[4] parameter(0)", "fwd", "0"),
            ("c = f32[4] constant({1, 2, 3, 4})", "fwd", "0"),
            ("d = f32[4] negate(c)", "fwd", "1"),
            ("h = f32[4] multiply(x, d)", "fwd", "1"),
            ("g = f32[4] negate(h)", "bwd", "1"),
            (&format!("s = f32[4] {SUM}"), "bwd", "0"),
            ("u = f32[4] negate(s)", "bwd", "0"),
            ("v = f32[4] negate(u)", "fwd", "1"),
            ("w = f32[4] add(v, s)", "upd", "1"),
            ("y = f32[4] add(w, x)", "upd", "0"),
            ("z = f32[4] negate(x)", "upd", "2"),
            ("ROOT t = (f32[4], f32[4]) tuple(y, z)", "upd", "0"),
        ],
    );
    let wanted = "c: anywhere\nd: anywhere\nh: stage1.forward\ng: stage1.backward\ns: sum of stage1.backward\n\
                  u: stage0.update\nv: stage1.update2\nw: stage1.update2\ny: stage0.update3\nz: stage2.update\nt: anywhere";
    assert_eq!(found, wanted);
}

#[test]
fn what_a_sum_needs_runs_with_its_microbatch_whatever_its_phase() {
    let found = tasks(
        false,
        &[
            ("x = f32[4] parameter(0)", "fwd", "0"),
            ("g = f32[4] negate(x)", "upd", "0"),
            (&format!("s = f32[4] {SUM}"), "upd", "0"),
            ("ROOT t = f32[4] negate(s)", "upd", "0"),
        ],
    );
    assert_eq!(found, "g: stage0.backward\ns: sum of stage0.backward\nt: stage0.update");
}

#[test]
fn a_sum_of_an_input_is_its_own_stage_s() {
    let lines = |phase| {
        [
            ("g = f32[4] parameter(0)", "fwd", "0"),
            ("ROOT s = f32[4] all-reduce(g), replica_groups={{0,1}}, to_apply=add", phase, "1"),
        ]
    };
    assert_eq!(tasks(false, &lines("fwd")), "s: sum of stage1.forward");
    assert_eq!(tasks(false, &lines("upd")), "s: sum of stage1.backward");
}

#[test]
fn a_sum_of_what_an_update_makes_is_none_of_the_update() {
    let found = tasks(
        false,
        &[
            ("x = f32[4] parameter(0)", "fwd", "0"),
            ("g = f32[4] negate(x)", "bwd", "0"),
            (&format!("s = f32[4] {SUM}"), "bwd", "0"),
            ("u = f32[4] negate(s)", "upd", "1"),
            ("r = f32[4] all-reduce(u), replica_groups={{0,1}}, to_apply=add", "bwd", "2"),
            ("ROOT t = f32[4] negate(r)", "upd", "1"),
        ],
    );
    let wanted = "g: stage0.backward\ns: sum of stage0.backward\nu: stage1.update\n\
                  r: sum of stage2.backward\nt: stage1.update";
    assert_eq!(found, wanted);
}

#[test]
fn an_effect_has_its_place_even_if_it_reads_constants() {
    let found = tasks(
        false,
        &[
            ("c = f32[4] constant({1, 2, 3, 4})", "fwd", "0"),
            (
                "ROOT l = f32[4] custom-call(c), custom_call_target=\"log\", custom_call_has_side_effect=true",
                "bwd",
                "1",
            ),
        ],
    );
    assert_eq!(found, "c: anywhere\nl: stage1.backward");
}

#[test]
fn gradients_of_weights_and_their_sums_are_a_part_of_their_own_where_backward_is_split() {
    let lines = [
        ("x = f32[4] parameter(0)", "fwd", "0"),
        ("h = f32[4] negate(x)", "fwd", "0"),
        ("k = f32[4] negate(h)", "fwd", "1"),
        ("e = f32[4] multiply(k, h)", "bwd", "1"),
        ("g = f32[4] multiply(e, h)", "bwd", "1"),
        (&format!("s = f32[4] {SUM}"), "bwd", "1"),
        ("d = f32[4] multiply(e, x)", "bwd", "0"),
        ("ROOT t = (f32[4], f32[4]) tuple(s, d)", "upd", "0"),
    ];
    let whole = "h: stage0.forward\nk: stage1.forward\ne: stage1.backward\ng: stage1.backward\n\
                 s: sum of stage1.backward\nd: stage0.backward\nt: anywhere";
    assert_eq!(tasks(false, &lines), whole);
    let split = "h: stage0.forward\nk: stage1.forward\ne: stage1.backward\ng: stage1.weight_gradient\n\
                 s: sum of stage1.weight_gradient\nd: stage0.weight_gradient\nt: anywhere";
    assert_eq!(tasks(true, &lines), split);
}

#[test]
fn a_stage_that_is_no_number_is_named() {
    let lines = [("x = f32[4] parameter(0)", "fwd", "0"), ("ROOT y = f32[4] negate(x)", "fwd", "one")];
    assert_eq!(tasks(false, &lines), "`y` has no stage but `one`");
}
