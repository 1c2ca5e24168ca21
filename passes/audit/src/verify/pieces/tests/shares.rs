//! How much of a program is proven, and what is named where something is not.

use super::*;

/// The parts of instructions and of operations that are proven.
fn shares_of(program: &str, plan: &str) -> (f64, f64) {
    let found = check(program, plan);
    (found.share_of_instrs, found.share_of_flops)
}

#[test]
fn a_wrong_instruction_takes_its_own_share() {
    let body = |op: &str, layout: &str| {
        format!(
            "ENTRY e {{ x = f32[8,8] parameter(0){layout} a = f32[8,8] {op}(x){layout}
            c = f32[8,8] multiply(a, x){layout} ROOT r = f32[8,8] subtract(c, x){layout} }}"
        )
    };
    assert_eq!(shares_of(&body("negate", ""), &body("negate", ", ROWS")), (1.0, 1.0));
    assert_eq!(shares_of(&body("negate", ""), &body("abs", ", ROWS")), (2.0 / 3.0, 2.0 / 3.0));
}

#[test]
fn what_no_piece_is_about_is_not_proven() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) n = f32[8,8] negate(x) m = f32[8,8] negate(n)
        b = f32[8,8] abs(m) c = f32[8,8] add(b, x) ROOT d = f32[8,8] negate(c) }";
    let plan = "ENTRY e { x = f32[8,8] parameter(0), ROWS b = f32[8,8] abs(x), ROWS
        c = f32[8,8] subtract(b, x), ROWS ROOT d = f32[8,8] negate(c), ROWS }";
    assert_eq!(differing(program, plan), ["c"]);
    // Of n, m, b, c and d, b and d are.
    assert_eq!(shares_of(program, plan), (0.4, 0.4));
}

#[test]
fn a_loops_operations_count_as_often_as_they_run() {
    let program = LOOP.replace("tanh(x)", "negate(x)");
    let original = flat(&format!("HloModule m\n{program}"));
    let planned = passed(
        &format!("HloModule m\n{program}"),
        "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}",
        &slow_8(),
    );
    let plan = phzc_ir::print(&planned.expect("a plan")).replace("add(y, x)", "subtract(y, x)");
    let found = prove(&original, &flat(&plan), &Settings::default()).expect("it can be lowered");
    // Of n, c, one, j, y, z and zero only z is wrong; a comparison runs five times, the body four.
    assert_eq!(found.share_of_instrs, 6.0 / 7.0);
    let all = 5.0 + 4.0 * (1.0 + 64.0 + 64.0);
    assert_eq!(found.share_of_flops, (all - 4.0 * 64.0) / all);
}

#[test]
fn without_operations_all_of_them_are_proven() {
    let body = |dims: &str, layout: &str| {
        format!(
            "ENTRY e {{ x = f32[8,8] parameter(0){layout}
            ROOT t = f32[8,8] transpose(x), dimensions={{{dims}}}{layout} }}"
        )
    };
    let program = "ENTRY e { x = f32[8,8] parameter(0) ROOT t = f32[8,8] reverse(x), dimensions={0} }";
    let plan =
        "ENTRY e { x = f32[8,8] parameter(0), WHOLE ROOT t = f32[8,8] reverse(x), dimensions={1}, WHOLE }";
    assert_eq!(shares_of(program, plan), (0.0, 1.0));
    assert_eq!(shares_of(&body("1,0", ""), &body("1,0", ", WHOLE")), (1.0, 1.0));
}

#[test]
fn a_plan_that_returns_what_it_was_given_differs() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) ROOT n = f32[8,8] negate(x) }";
    let plan = "ENTRY e { ROOT x = f32[8,8] parameter(0), ROWS }";
    assert_eq!(differing(program, plan), ["x"]);
}

#[test]
fn what_takes_a_tuple_is_not_proven() {
    let program = "ENTRY e { x = f32[8] parameter(0) t = (f32[8], f32[8]) tuple(x, x)
        k = f32[8] custom-call(t), custom_call_target=\"q\" ROOT n = f32[8] negate(k) }";
    let plan = "ENTRY e { x = f32[8] parameter(0), WHOLE t = (f32[8], f32[8]) tuple(x, x), sharding={{replicated}, {replicated}}
        k = f32[8] custom-call(t), custom_call_target=\"q\", WHOLE ROOT n = f32[8] negate(k), WHOLE }";
    let found = check(program, plan);
    let why = "it cannot be cut out of the plan".to_owned();
    assert_eq!(found.open, [Open { name: "k".to_owned(), why }]);
    assert_eq!((found.differing, found.share_of_instrs), (vec![], 0.5));
}

#[test]
fn a_movement_is_proven_with_what_it_alone_reads() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) h = f32[8,8] negate(x) ROOT y = f32[8,8] abs(h) }";
    let plan = |op: &str| {
        format!(
            "ENTRY e {{ x = f32[8,8] parameter(0), ROWS h = f32[8,8] {op}(x), ROWS
            g = f32[8,8] custom-call(h), custom_call_target=\"Sharding\", WHOLE
            ROOT y = f32[8,8] abs(g), WHOLE }}"
        )
    };
    let found = check(program, &plan("negate"));
    assert_eq!((found.n_pieces, found.n_unlike, found.differing), (2, 2, vec![]));
    assert_eq!(differing(program, &plan("tanh")), ["g"]);
}

#[test]
fn a_name_says_nothing_about_a_value_of_another_shape_or_one_that_is_not_made() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) t = f32[4,8] slice(x), slice={[0:4], [0:8]}
        u = f32[8,8] opt-barrier(x) v = f32[8,8] add(u, u) ROOT r = (f32[4,8], f32[8,8]) tuple(t, v) }";
    let plan = "ENTRY e { x = f32[8,8] parameter(0), WHOLE t = f32[8,8] negate(x), WHOLE
        t2 = f32[8,8] negate(t), WHOLE t3 = f32[4,8] slice(t2), slice={[0:4], [0:8]}, WHOLE
        u = f32[8,8] negate(x), WHOLE v = f32[8,8] subtract(x, u), WHOLE
        ROOT r = (f32[4,8], f32[8,8]) tuple(t3, v), sharding={{replicated}, {replicated}} }";
    assert_eq!(differing(program, plan), [""; 0]);
}

/// Two loops over the same values; the second adds, or what `op` says.
fn two_loops(start: &str, op: &str, layout: &str) -> String {
    let state = "(s32[], f32[8,8])";
    let tuple = if layout.is_empty() { "" } else { ", sharding={{replicated}, {replicated}}" };
    let body = |name: &str, op: &str| {
        format!(
            "{name} {{ p = {state} parameter(0){tuple} i = s32[] get-tuple-element(p), index=0{layout}
            x = f32[8,8] get-tuple-element(p), index=1{layout} one = s32[] constant(1){layout}
            j = s32[] add(i, one){layout} {name}.y = f32[8,8] {op}(x, x){layout} ROOT t = {state} tuple(j, {name}.y){tuple} }}"
        )
    };
    let less = |name: &str| {
        format!(
            "{name} {{ p = {state} parameter(0){tuple} i = s32[] get-tuple-element(p), index=0{layout}
            n = s32[] constant(2){layout} ROOT c = pred[] compare(i, n), direction=LT{layout} }}"
        )
    };
    format!(
        "{} {} {} {}
        ENTRY e {{ x = f32[8,8] parameter(0){layout} zero = s32[] constant(0){layout} {start}
        v = {state} while(s), condition=less, body=first{tuple} w = {state} while(s), condition=less2, body=second{tuple}
        a = f32[8,8] get-tuple-element(v), index=1{layout} b = f32[8,8] get-tuple-element(w), index=1{layout}
        ROOT r = f32[8,8] subtract(a, b){layout} }}",
        less("less"),
        body("first", "multiply"),
        less("less2"),
        body("second", op)
    )
}

#[test]
fn of_loops_over_the_same_values_namesakes_belong_together() {
    let start = |layout: &str| {
        let tuple = if layout.is_empty() { "" } else { ", sharding={{replicated}, {replicated}}" };
        format!("s = (s32[], f32[8,8]) tuple(zero, x){tuple}")
    };
    let program = two_loops(&start(""), "add", "");
    assert_eq!(differing(&program, &two_loops(&start(", WHOLE"), "add", ", WHOLE")), [""; 0]);
    let wrong = two_loops(&start(", WHOLE"), "subtract", ", WHOLE");
    assert_eq!(differing(&program, &wrong), ["second.y"]);
}

#[test]
fn a_loop_that_starts_from_something_else_is_known_by_its_name() {
    let program = two_loops("s = (s32[], f32[8,8]) tuple(zero, x)", "add", "");
    let start = "q = f32[8,8] abs(x), WHOLE s = (s32[], f32[8,8]) tuple(zero, q), sharding={{replicated}, {replicated}}";
    assert_eq!(differing(&program, &two_loops(start, "add", ", WHOLE")), ["q", "q"]);
}
