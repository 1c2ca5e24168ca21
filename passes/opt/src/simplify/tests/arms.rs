//! What `cases` leaves out: the other operand, the other types and the other numbers that a rule knows.

use super::*;

/// Bodies of programs that come out as another.
#[rustfmt::skip]
const ARMS: &[(&str, &str)] = &[
    ("x: f32[2]; z = f32[2] constant({0, 0}); ROOT r = f32[2] add(x, z)", "ROOT x"),
    ("x: f32[2]; o = f32[2] constant({1, 1}); ROOT r = f32[2] multiply(o, x)", "ROOT x"),
    ("x: f32[]; m = f32[] constant(-1); ROOT r = f32[] divide(x, m)", "ROOT r = f32[] negate(x)"),
    ("x: s32[]; m = s32[] constant(-1); ROOT r = s32[] multiply(x, m)", "ROOT r = s32[] negate(x)"),
    ("x: u8[]; z = u8[] constant(0); ROOT r = u8[] multiply(z, x)", "ROOT z = u8[] constant(0)"),
    ("x: s32[]; a = s32[] constant(3); b = s32[] constant(4); y = s32[] add(x, a); ROOT r = s32[] add(b, y)", "r.add = s32[] constant(7); ROOT r = s32[] add(x, r.add)"),
    ("x: f32[]; y: f32[]; n = f32[] negate(y); ROOT r = f32[] add(x, n)", "ROOT r = f32[] subtract(x, y)"),
    ("x: s8[]; y: s8[]; m = s8[] negate(x); n = s8[] negate(y); ROOT r = s8[] multiply(m, n)", "ROOT r = s8[] multiply(x, y)"),
    ("x: f32[]; z = f32[] constant(inf); ROOT r = f32[] minimum(x, z)", "ROOT x"),
    ("x: s8[]; z = s8[] constant(-128); ROOT r = s8[] maximum(x, z)", "ROOT x"),
    ("x: s8[]; z = s8[] constant(127); ROOT r = s8[] minimum(z, x)", "ROOT x"),
    ("x: u8[]; z = u8[] constant(0); ROOT r = u8[] maximum(x, z)", "ROOT x"),
    ("x: u8[]; z = u8[] constant(255); ROOT r = u8[] minimum(x, z)", "ROOT x"),
    ("x: f32[]; y: f32[]; c = c64[] complex(x, y); ROOT r = f32[] real(c)", "ROOT x"),
    ("x: s32[]; z = s32[] constant(0); ROOT r = s32[] or(z, x)", "ROOT x"),
    ("x: s32[]; z = s32[] constant(-1); ROOT r = s32[] and(x, z)", "ROOT x"),
    ("x: u8[]; z = u8[] constant(0); ROOT r = u8[] xor(x, z)", "ROOT x"),
    ("x: pred[]; t = pred[] constant(true); ROOT r = pred[] or(x, t)", "ROOT t = pred[] constant(true)"),
    ("x: s32[]; z = s32[] constant(0); ROOT r = s32[] and(x, z)", "ROOT z = s32[] constant(0)"),
    ("x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=EQ; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=NE"),
    ("x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=NE; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=EQ"),
    ("x: s8[]; y: s8[]; c = pred[] compare(x, y), direction=GE; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=LT"),
    ("x: s8[]; y: s8[]; c = pred[] compare(x, y), direction=GT; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=LE"),
    ("x: s8[]; y: s8[]; c = pred[] compare(x, y), direction=LE; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=GT"),
    ("x: s32[]; ROOT r = pred[] compare(x, x), direction=LT", "ROOT r = pred[] constant(false)"),
    ("x: s32[]; ROOT r = pred[] compare(x, x), direction=EQ", "ROOT r = pred[] constant(true)"),
    ("x: pred[]; t = pred[] constant(true); ROOT r = pred[] compare(x, t), direction=EQ", "ROOT x"),
    ("x: pred[]; f = pred[] constant(false); ROOT r = pred[] compare(x, f), direction=NE", "ROOT x"),
    ("x: pred[]; t = pred[] constant(true); ROOT r = pred[] compare(x, t), direction=NE", "ROOT r = pred[] not(x)"),
    ("x: f32[2]; y: f32[2]; t = pred[] constant(true); ROOT r = f32[2] select(t, x, y)", "ROOT x"),
    ("x: f32[2]; y: f32[2]; z: f32[2]; p: pred[2]; s = f32[2] select(p, x, y); ROOT r = f32[2] select(p, s, z)", "ROOT r = f32[2] select(p, x, z)"),
    ("p: pred[]; t = pred[] constant(true); f = pred[] constant(false); ROOT r = pred[] select(p, t, f)", "ROOT p"),
    ("x: pred[]; y = s8[] convert(x); ROOT r = f32[] convert(y)", "ROOT r = f32[] convert(x)"),
    ("x: s8[]; y = s16[] convert(x); ROOT r = s32[] convert(y)", "ROOT r = s32[] convert(x)"),
    ("x: u8[]; y = s16[] convert(x); ROOT r = f32[] convert(y)", "ROOT r = f32[] convert(x)"),
    ("x: s8[]; y = bf16[] convert(x); ROOT r = f32[] convert(y)", "ROOT r = f32[] convert(x)"),
    ("x: s8[]; y = f16[] convert(x); ROOT r = f32[] convert(y)", "ROOT r = f32[] convert(x)"),
    ("x: s16[]; y = f32[] convert(x); ROOT r = bf16[] convert(y)", "ROOT r = bf16[] convert(x)"),
    ("x: s32[]; y = f64[] convert(x); ROOT r = f32[] convert(y)", "ROOT r = f32[] convert(x)"),
    ("x: f32[]; y = f64[] convert(x); ROOT r = f16[] convert(y)", "ROOT r = f16[] convert(x)"),
    ("x: f32[6]; y = f32[4] slice(x), slice={[1:5]}; ROOT r = f32[1] slice(y), slice={[2:3]}", "ROOT r = f32[1] slice(x), slice={[3:4]}"),
    ("x: f32[2]; y: f32[3]; c = f32[5] concatenate(x, y), dimensions={0}; ROOT r = f32[1] slice(c), slice={[1:2]}", "ROOT r = f32[1] slice(x), slice={[1:2]}"),
    ("x: f32[4]; a = f32[1] slice(x), slice={[0:1]}; b = f32[1] slice(x), slice={[1:2]}; c = f32[2] slice(x), slice={[2:4]}; ROOT r = f32[4] concatenate(a, b, c), dimensions={0}", "ROOT x"),
    ("x: f32[2,4]; y: f32[2,3]; t = f32[4,2] transpose(x), dimensions={1,0}; ROOT r = f32[3,4] dot(y, t), lhs_contracting_dims={0}, rhs_contracting_dims={1}", "ROOT r = f32[3,4] dot(y, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ("x: f32[2,3]; y = f32[2,3] reverse(x), dimensions={1}; ROOT r = f32[2,3] reverse(y), dimensions={0}", "ROOT r = f32[2,3] reverse(x), dimensions={0,1}"),
];

/// What no rule may touch, and why.
#[rustfmt::skip]
const NEAR: &[(&str, &str)] = &[
    ("NaN is neither greater nor not greater", "x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=GT; ROOT r = pred[] not(c)"),
    ("NaN is not less or equal", "x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=LE; ROOT r = pred[] not(c)"),
    ("NaN is not greater or equal", "x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=GE; ROOT r = pred[] not(c)"),
    ("the other extreme", "x: s8[]; z = s8[] constant(127); ROOT r = s8[] maximum(x, z)"),
    ("-1 / x is not -x", "x: f32[]; m = f32[] constant(-1); ROOT r = f32[] divide(m, x)"),
    ("one negative factor", "x: f32[]; y: f32[]; n = f32[] negate(x); ROOT r = f32[] multiply(n, y)"),
    ("other bounds", "x: f32[]; l: f32[]; h: f32[]; y = f32[] clamp(l, x, h); ROOT r = f32[] clamp(h, y, l)"),
    ("some bits", "x: u8[]; z = u8[] constant(127); ROOT r = u8[] and(x, z)"),
    ("unsigned by way of signed", "x: u8[]; y = s8[] convert(x); ROOT r = s32[] convert(y)"),
    ("16 bits by way of 11", "x: s16[]; y = f16[] convert(x); ROOT r = f32[] convert(y)"),
    ("16 bits by way of 8", "x: s16[]; y = bf16[] convert(x); ROOT r = f32[] convert(y)"),
    ("32 bits by way of 24", "x: s32[]; y = f32[] convert(x); ROOT r = f64[] convert(y)"),
    ("f64 by way of f32", "x: f64[]; y = f32[] convert(x); ROOT r = f16[] convert(y)"),
    ("f16 by way of bf16", "x: f16[]; y = bf16[] convert(x); ROOT r = f32[] convert(y)"),
    ("another selection", "x: f32[]; y: f32[]; z: f32[]; p: pred[]; q: pred[]; s = f32[] select(p, x, y); ROOT r = f32[] select(q, z, s)"),
    ("numbers that are no truth", "p: pred[]; t = s32[] constant(1); f = s32[] constant(0); ROOT r = s32[] select(p, t, f)"),
    ("parts of both", "x: f32[2]; y: f32[3]; c = f32[5] concatenate(x, y), dimensions={0}; ROOT r = f32[2] slice(c), slice={[1:3]}"),
    ("a part of the padding", "x: f32[4]; z: f32[]; p = f32[7] pad(x, z), padding=1_2; ROOT r = f32[2] slice(p), slice={[0:2]}"),
    ("a part of the other padding", "x: f32[4]; z: f32[]; p = f32[7] pad(x, z), padding=1_2; ROOT r = f32[2] slice(p), slice={[4:6]}"),
    ("between the elements", "x: f32[4]; z: f32[]; p = f32[7] pad(x, z), padding=0_0_1; ROOT r = f32[2] slice(p), slice={[0:2]}"),
    ("slices with a gap", "x: f32[4]; a = f32[1] slice(x), slice={[0:1]}; b = f32[1] slice(x), slice={[2:3]}; ROOT r = f32[2] concatenate(a, b), dimensions={0}"),
    ("slices with strides", "x: f32[6]; a = f32[2] slice(x), slice={[0:3:2]}; b = f32[2] slice(x), slice={[3:6:2]}; ROOT r = f32[4] concatenate(a, b), dimensions={0}"),
    ("slices of other rows", "x: f32[2,4]; a = f32[1,2] slice(x), slice={[0:1], [0:2]}; b = f32[1,2] slice(x), slice={[1:2], [2:4]}; ROOT r = f32[1,4] concatenate(a, b), dimensions={1}"),
    ("padding of another value", "x: f32[4]; z: f32[]; w: f32[]; p = f32[5] pad(x, z), padding=1_0; ROOT r = f32[6] pad(p, w), padding=1_0"),
    ("padding that crops", "x: f32[4]; z: f32[]; p = f32[5] pad(x, z), padding=1_0; ROOT r = f32[4] pad(p, z), padding=-1_0"),
    ("a place that is not known", "x: f32[4,3]; i: s32[]; j = s32[] constant(1); ROOT r = f32[2,1] dynamic-slice(x, i, j), dynamic_slice_sizes={2,1}"),
    ("elements in another order", "t: (f32[], f32[]); x = f32[] get-tuple-element(t), index=0; y = f32[] get-tuple-element(t), index=1; u = (f32[], f32[]) tuple(y, x); ROOT r = ((f32[], f32[])) tuple(u)"),
    ("factors that do not change places", "x: f32[2,3]; y: f32[3,4,5]; d = f32[2,4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; ROOT r = f32[2,5,4] transpose(d), dimensions={0,2,1}"),
    ("a dimension stretched from 1", "x: f32[1]; y = f32[3] broadcast(x), dimensions={0}; ROOT r = f32[2] slice(y), slice={[0:2]}"),
];

#[test]
fn the_other_arms_of_a_rule_do_the_same() {
    for (before, wanted) in ARMS {
        let before = module(before);
        let after = simplified(&before).0;
        assert_eq!(body(&after), *wanted);
        let [old, new] = values(&before, &after, 1);
        assert_eq!(old, new, "{wanted}");
    }
}

#[test]
fn what_is_nearly_a_rule_s_pattern_stays() {
    for (why, text) in NEAR {
        let before = module(text);
        assert_eq!(body(&simplified(&before).0), body(&before), "{why}");
    }
}
