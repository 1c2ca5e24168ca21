//! Sums of several stages and loops: each is its own module's.

use super::*;
use crate::testing::{staged, staged_with};

const ALIAS: &str = " {0}: (1, {}, may-alias) ";

#[test]
fn each_stage_s_gradient_has_an_accumulator_of_its_own() {
    let module = staged(
        ALIAS,
        "0:;1:",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[4,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("h = f32[4,2] negate(x)", "fwd", 0),
            ("k = f32[4,2] tanh(h)", "fwd", 1),
            ("q = f32[2] reduce(k, zero), dimensions={0}, to_apply=add", "bwd", 1),
            ("e = f32[4,2] multiply(k, h)", "bwd", 1),
            ("d = f32[4,2] multiply(e, x)", "bwd", 0),
            ("s = f32[2] reduce(d, zero), dimensions={0}, to_apply=add", "bwd", 0),
            ("v = f32[2] add(w, s)", "upd", 0),
            ("ROOT t = (f32[2], f32[2]) tuple(v, q)", "upd", 0),
        ],
    );
    let cut = small::assert_computes(&module);
    let sums: Vec<(&str, &str)> =
        cut.manifest.accumulators.iter().map(|sum| (&*sum.name, &*sum.module)).collect();
    assert_eq!(sums, [("q", "stage1.backward"), ("s", "stage0.backward")]);
}

#[test]
fn two_sums_leave_one_loop_each_with_its_name() {
    let state = "(s32[], f32[4,2], f32[], f32[2])";
    let comps = format!(
        "body {{ p = {state} parameter(0)
        i = s32[] get-tuple-element(p), index=0
        h = f32[4,2] get-tuple-element(p), index=1
        g = f32[] get-tuple-element(p), index=2
        f = f32[2] get-tuple-element(p), index=3
        z = f32[] constant(0)
        n = f32[4,2] tanh(h)
        s = f32[] reduce(n, z), dimensions={{0,1}}, to_apply=add
        a = f32[] add(g, s)
        c = f32[2] reduce(n, z), dimensions={{0}}, to_apply=add
        b = f32[2] add(f, c)
        o = s32[] constant(1)
        j = s32[] add(i, o)
        ROOT r = {state} tuple(j, n, a, b) }}
        cond {{ p = {state} parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(2)
        ROOT l = pred[] compare(i, n), direction=LT }}"
    );
    let module = staged_with(
        &comps,
        ALIAS,
        "0:",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[4,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("zeros = f32[2] broadcast(zero), dimensions={}", "fwd", 0),
            ("first = s32[] constant(0)", "fwd", 0),
            (&format!("t = {state} tuple(first, x, zero, zeros)"), "fwd", 0),
            (&format!("l = {state} while(t), condition=cond, body=body"), "fwd", 0),
            ("a = f32[] get-tuple-element(l), index=2", "fwd", 0),
            ("b = f32[2] get-tuple-element(l), index=3", "fwd", 0),
            ("ROOT u = (f32[2], f32[], f32[2]) tuple(w, a, b)", "upd", 0),
        ],
    );
    let cut = small::assert_computes(&module);
    let sums: Vec<(&str, &str)> =
        cut.manifest.accumulators.iter().map(|sum| (&*sum.name, &*sum.shape)).collect();
    assert_eq!(sums, [("a", "f32[]"), ("b", "f32[2]")]);
}
