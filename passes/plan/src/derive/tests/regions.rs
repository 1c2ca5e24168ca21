//! What loops, branches and tuples are handed and hand on has one layout, one stage and one sum.

use super::*;

#[test]
fn a_loop_body_counts_as_often_as_it_runs_and_what_it_carries_must_agree() {
    let text = |result: &str| {
        format!(
            "b {{
            p = (s32[], f32[16,16]) parameter(0), sharding={{{WHOLE}, {COLS_X}}}
            i = s32[] get-tuple-element(p), index=0, sharding={WHOLE}
            w = f32[16,16] get-tuple-element(p), index=1, sharding={COLS_X}
            o = s32[] constant(1), sharding={WHOLE}
            j = s32[] add(i, o), sharding={WHOLE}
            d = f32[16,16] dot(w, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, sharding={result}
            ROOT t = (s32[], f32[16,16]) tuple(j, d), sharding={{{WHOLE}, {result}}}
            }}
            c {{
            p = (s32[], f32[16,16]) parameter(0), sharding={{{WHOLE}, {COLS_X}}}
            i = s32[] get-tuple-element(p), index=0, sharding={WHOLE}
            n = s32[] constant(12), sharding={WHOLE}
            ROOT l = pred[] compare(i, n), direction=LT, sharding={WHOLE}
            }}
            ENTRY e {{
            z = s32[] constant(0), sharding={WHOLE}
            a = f32[16,16] parameter(0), sharding={COLS_X}
            t = (s32[], f32[16,16]) tuple(z, a), sharding={{{WHOLE}, {COLS_X}}}
            ROOT w = (s32[], f32[16,16]) while(t), condition=c, body=b, sharding={{{WHOLE}, {COLS_X}}}
            }}"
        )
    };
    assert_eq!(facts(XY, &text(COLS_X)), "d: reduce-scatter over x, 1024 bytes, 12 times");
    assert_snapshot!(facts(XY, &text(WHOLE)), @r"
    d: all-reduce over x, 1024 bytes, 12 times
    `w` is split as [-,x] in part 1, but its body's result whole
    ");
}

#[test]
fn tuples_barriers_and_aliased_outputs_must_agree() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,16] parameter(0), sharding={ROWS_X}
        t = (f32[16,16]) tuple(a), sharding={{{COLS_X}}}
        g = f32[16,16] get-tuple-element(t), index=0, sharding={WHOLE}
        o = f32[16,16] opt-barrier(g), sharding={ROWS_Y}
        ROOT r = (f32[16,16]) tuple(o), sharding={{{ROWS_Y}}}
        }}"
    );
    let header = format!("input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}, {XY}");
    assert_snapshot!(facts(&header, &text), @r"
    `t` is split as [-,x], but its operands split as [x]
    `g` is whole, but the element split as [-,x]
    `o` is split as [y], but its operand whole
    output 0 reuses the buffer of `a`, which is split as [x], but is split as [y]
    ");
}

/// A choice between two branches of a value split in rows, with the layouts of their parameters and results.
fn chosen(layouts: [&str; 4]) -> String {
    let [yes, yes_made, no, no_made] = layouts;
    let text = format!(
        "yes {{ p = f32[16,16] parameter(0), sharding={yes} ROOT n = f32[16,16] negate(p), sharding={yes_made} }}
        no {{ q = f32[16,16] parameter(0), sharding={no} ROOT m = f32[16,16] negate(q), sharding={no_made} }}
        ENTRY e {{
        k = pred[] parameter(0), sharding={WHOLE}
        a = f32[16,16] parameter(1), sharding={ROWS_X}
        ROOT c = f32[16,16] conditional(k, a, a), true_computation=yes, false_computation=no, sharding={ROWS_X}
        }}"
    );
    facts(XY, &text)
}

#[test]
fn branches_take_and_return_what_their_conditional_does() {
    assert_eq!(chosen([ROWS_X; 4]), "");
    assert_snapshot!(chosen([ROWS_X, ROWS_X, WHOLE, ROWS_X]), @"`c` passes to branch 1 split as [x], but its parameter whole");
    assert_snapshot!(chosen([WHOLE, ROWS_X, ROWS_X, ROWS_X]), @"`c` passes to branch 0 split as [x], but its parameter whole");
    assert_snapshot!(chosen([ROWS_X, ROWS_X, ROWS_X, ROWS_XY]), @"`c` is split as [x], but the result of branch 1 split as [xy]");
}

/// A loop over a value split in rows, with the layouts of its body's parameter and result and its condition's
/// parameter.
fn looped([body, made, condition]: [&str; 3]) -> String {
    let text = format!(
        "b {{ p = f32[16,16] parameter(0), sharding={body} ROOT n = f32[16,16] negate(p), sharding={made} }}
        c {{ q = f32[16,16] parameter(0), sharding={condition} ROOT k = pred[] constant(false), sharding={WHOLE} }}
        ENTRY e {{
        a = f32[16,16] parameter(0), sharding={ROWS_X}
        ROOT w = f32[16,16] while(a), condition=c, body=b, sharding={ROWS_X}
        }}"
    );
    facts(XY, &text)
}

#[test]
fn a_loop_s_body_and_condition_start_with_what_it_carries() {
    assert_eq!(looped([ROWS_X; 3]), "");
    assert_snapshot!(looped([WHOLE, ROWS_X, ROWS_X]), @"`w` is split as [x], but its body's parameter whole");
    assert_snapshot!(looped([ROWS_X, ROWS_XY, ROWS_X]), @"`w` is split as [x], but its body's result split as [xy]");
    assert_snapshot!(looped([ROWS_X, ROWS_X, WHOLE]), @"`w` is split as [x], but its condition's parameter whole");
}

#[test]
fn a_loop_says_of_the_tuple_that_its_body_starts_with_what_is_a_sum_still_to_be_done() {
    let undone = "frontend_attributes={phzc.partial=\"x\"}";
    let carried = "sharding={{replicated}, {replicated}}";
    let text = |elements: &str, result: &str| {
        format!(
            "b {{ p = (s32[], f32[16]) parameter(0), {carried}
            i = s32[] get-tuple-element(p), index=0, sharding={WHOLE}
            g = f32[16] get-tuple-element(p), index=1, sharding={WHOLE}{elements}
            o = s32[] constant(1), sharding={WHOLE}
            j = s32[] add(i, o), sharding={WHOLE}
            n = f32[16] negate(g), sharding={WHOLE}{elements}
            ROOT t = (s32[], f32[16]) tuple(j, n), {carried}{result} }}
            c {{ p = (s32[], f32[16]) parameter(0), {carried}
            i = s32[] get-tuple-element(p), index=0, sharding={WHOLE}
            n = s32[] constant(3), sharding={WHOLE}
            ROOT l = pred[] compare(i, n), direction=LT, sharding={WHOLE} }}
            ENTRY e {{ z = s32[] constant(0), sharding={WHOLE}
            f = f32[] constant(0), sharding={WHOLE}
            zs = f32[16] broadcast(f), dimensions={{}}, sharding={WHOLE}
            s = (s32[], f32[16]) tuple(z, zs), {carried}
            w = (s32[], f32[16]) while(s), condition=c, body=b, {carried}, frontend_attributes={{phzc.partial=\",x\"}}
            a = f32[16] get-tuple-element(w), index=1, sharding={WHOLE}, {undone}
            ROOT m = f32[16] custom-call(a), custom_call_target=\"Sharding\", sharding={WHOLE} }}"
        )
    };
    let (elements, result) = (format!(", {undone}"), ", frontend_attributes={phzc.partial=\",x\"}");
    assert_eq!(facts(XY, &text(&elements, result)), "m: all-reduce over x, 64 bytes, 1 times");
    let wrong = facts(XY, &text("", result));
    assert!(wrong.contains("`g` is whole, but the element whole and partial over `x`"), "{wrong}");
    // Of no other tuple, and of no array.
    let wrong = facts(XY, &text(&elements, ""));
    assert!(
        wrong.contains("`w` is whole and partial over `x` in part 1, but its body's result whole"),
        "{wrong}"
    );
    let text = format!(
        "b {{ p = f32[16] parameter(0), sharding={WHOLE} ROOT n = f32[16] negate(p), sharding={WHOLE}, {undone} }}
        c {{ q = f32[16] parameter(0), sharding={WHOLE} ROOT k = pred[] constant(false), sharding={WHOLE} }}
        ENTRY e {{ f = f32[] constant(0), sharding={WHOLE}
        zs = f32[16] broadcast(f), dimensions={{}}, sharding={WHOLE}
        w = f32[16] while(zs), condition=c, body=b, sharding={WHOLE}, {undone}
        ROOT m = f32[16] custom-call(w), custom_call_target=\"Sharding\", sharding={WHOLE} }}"
    );
    let wrong = facts(XY, &text);
    assert!(wrong.contains("`w` is whole and partial over `x`, but its body's parameter whole"), "{wrong}");
}
