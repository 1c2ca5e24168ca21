//! One line per rule: before, after.

use super::*;

/// Rule, program, simplified program.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str)] = &[
    ("add-zero", "x: f32[4]; z = f32[] constant(0); b = f32[4] broadcast(z), dimensions={}; ROOT r = f32[4] add(b, x)", "ROOT x"),
    ("subtract-zero", "x: s32[]; z = s32[] constant(0); ROOT r = s32[] subtract(x, z)", "ROOT x"),
    ("multiply-one", "x: f32[2]; o = f32[2] constant({1, 1}); ROOT r = f32[2] multiply(x, o)", "ROOT x"),
    ("divide-one", "x: f32[]; o = f32[] constant(1); ROOT r = f32[] divide(x, o)", "ROOT x"),
    ("power-one", "x: f32[]; o = f32[] constant(1); ROOT r = f32[] power(x, o)", "ROOT x"),
    ("integer-times-zero", "x: s32[]; o = s32[] constant(0); ROOT r = s32[] multiply(x, o)", "ROOT o = s32[] constant(0)"),
    ("integer-minus-itself", "x: s32[2]; ROOT r = s32[2] subtract(x, x)", "r.constant = s32[] constant(0); ROOT r = s32[2] broadcast(r.constant), dimensions={}"),
    ("integer-sums", "x: s32[]; a = s32[] constant(3); b = s32[] constant(4); y = s32[] add(a, x); ROOT r = s32[] add(y, b)", "r.add = s32[] constant(7); ROOT r = s32[] add(x, r.add)"),
    ("add-negative", "x: f32[]; y: f32[]; n = f32[] negate(x); ROOT r = f32[] add(n, y)", "ROOT r = f32[] subtract(y, x)"),
    ("subtract-negative", "x: f32[]; y: f32[]; n = f32[] negate(y); ROOT r = f32[] subtract(x, n)", "ROOT r = f32[] add(x, y)"),
    ("product-of-negatives", "x: f32[]; y: f32[]; m = f32[] negate(x); n = f32[] negate(y); ROOT r = f32[] divide(m, n)", "ROOT r = f32[] divide(x, y)"),
    ("times-minus-one", "x: f32[]; m = f32[] constant(-1); ROOT r = f32[] multiply(m, x)", "ROOT r = f32[] negate(x)"),
    ("twice-the-inverse", "x: f32[2]; y = f32[2] negate(x); ROOT r = f32[2] negate(y)", "ROOT x"),
    ("twice-the-same", "x: f32[2]; y = f32[2] floor(x); ROOT r = f32[2] floor(y)", "ROOT y = f32[2] floor(x)"),
    ("abs-of-negative", "x: f32[2]; y = f32[2] negate(x); ROOT r = f32[2] abs(y)", "ROOT r = f32[2] abs(x)"),
    ("with-itself", "x: f32[2]; ROOT r = f32[2] maximum(x, x)", "ROOT x"),
    ("extreme-bound", "x: f32[2]; z = f32[] constant(-inf); b = f32[2] broadcast(z), dimensions={}; ROOT r = f32[2] maximum(b, x)", "ROOT x"),
    ("clamp-of-clamp", "x: f32[2]; l: f32[]; h: f32[]; y = f32[2] clamp(l, x, h); ROOT r = f32[2] clamp(l, y, h)", "ROOT y = f32[2] clamp(l, x, h)"),
    ("part-of-complex", "x: f32[2]; y: f32[2]; c = c64[2] complex(x, y); ROOT r = f32[2] imag(c)", "ROOT y"),
    ("bits-neutral", "x: pred[2]; t = pred[] constant(true); b = pred[2] broadcast(t), dimensions={}; ROOT r = pred[2] and(x, b)", "ROOT x"),
    ("bits-absorbing", "x: u8[]; z = u8[] constant(255); ROOT r = u8[] or(x, z)", "ROOT z = u8[] constant(255)"),
    ("not-of-compare", "x: s32[]; y: s32[]; c = pred[] compare(x, y), direction=LT, type=SIGNED; ROOT r = pred[] not(c)", "ROOT r = pred[] compare(x, y), direction=GE, type=SIGNED"),
    ("compare-with-itself", "x: s32[2]; ROOT r = pred[2] compare(x, x), direction=GE", "r.constant = pred[] constant(true); ROOT r = pred[2] broadcast(r.constant), dimensions={}"),
    ("compare-with-truth", "x: pred[]; f = pred[] constant(false); ROOT r = pred[] compare(x, f), direction=EQ", "ROOT r = pred[] not(x)"),
    ("select-by-constant", "x: f32[2]; y: f32[2]; f = pred[] constant(false); ROOT r = f32[2] select(f, x, y)", "ROOT y"),
    ("select-of-same", "x: f32[2]; p: pred[2]; ROOT r = f32[2] select(p, x, x)", "ROOT x"),
    ("select-by-not", "x: f32[2]; y: f32[2]; p: pred[2]; n = pred[2] not(p); ROOT r = f32[2] select(n, x, y)", "ROOT r = f32[2] select(p, y, x)"),
    ("select-of-select", "x: f32[2]; y: f32[2]; z: f32[2]; p: pred[2]; s = f32[2] select(p, x, y); ROOT r = f32[2] select(p, z, s)", "ROOT r = f32[2] select(p, z, y)"),
    ("select-of-truth", "p: pred[]; t = pred[] constant(true); f = pred[] constant(false); ROOT r = pred[] select(p, f, t)", "ROOT r = pred[] not(p)"),
    ("convert-nothing", "x: f32[2]; y = f32[2] copy(x); ROOT r = f32[2] convert(y)", "ROOT x"),
    ("convert-of-convert", "x: bf16[2]; y = f32[2] convert(x); ROOT r = f16[2] convert(y)", "ROOT r = f16[2] convert(x)"),
    ("constant-of-equals", "ROOT r = f32[2,2] constant({{1.5, 1.5}, {1.5, 1.5}})", "r.constant = f32[] constant(1.5); ROOT r = f32[2,2] broadcast(r.constant), dimensions={}"),
    ("iota-of-one", "ROOT r = s32[1,2] iota(), iota_dimension=0", "r.constant = s32[] constant(0); ROOT r = s32[1,2] broadcast(r.constant), dimensions={}"),
    ("broadcast-nothing", "x: f32[2]; ROOT r = f32[2] broadcast(x), dimensions={0}", "ROOT x"),
    ("broadcast-of-broadcast", "x: f32[2]; y = f32[3,2] broadcast(x), dimensions={1}; ROOT r = f32[4,2,3] broadcast(y), dimensions={2,1}", "ROOT r = f32[4,2,3] broadcast(x), dimensions={1}"),
    ("broadcast-of-reshape", "x: f32[2]; y = f32[1,2] reshape(x); ROOT r = f32[3,1,2] broadcast(y), dimensions={1,2}", "ROOT r = f32[3,1,2] broadcast(x), dimensions={2}"),
    ("broadcast-of-iota", "y = s32[4] iota(), iota_dimension=0; ROOT r = s32[3,4] broadcast(y), dimensions={1}", "ROOT r = s32[3,4] iota(), iota_dimension=1"),
    ("elementwise-of-broadcasts", "x: f32[2]; c = f32[] constant(2); b = f32[3,2] broadcast(c), dimensions={}; y = f32[3,2] broadcast(x), dimensions={1}; ROOT r = f32[3,2] power(y, b)", "c = f32[] constant(2); r.broadcast = f32[2] broadcast(c), dimensions={}; r.power = f32[2] power(x, r.broadcast); ROOT r = f32[3,2] broadcast(r.power), dimensions={1}"),
    ("fold-arithmetic", "a = s32[] constant(3); b = s32[] constant(4); ROOT r = s32[] multiply(a, b)", "ROOT r = s32[] constant(12)"),
    ("fold-movement", "a = s32[] constant(3); b = s32[1] constant({4}); y = s32[1] reshape(a); ROOT r = s32[2] concatenate(y, b), dimensions={0}", "ROOT r = s32[2] constant({3, 4})"),
    ("broadcast-as-reshape", "x: f32[2]; ROOT r = f32[1,2] broadcast(x), dimensions={1}", "ROOT r = f32[1,2] reshape(x)"),
    ("reshape-nothing", "x: f32[2]; ROOT r = f32[2] reshape(x)", "ROOT x"),
    ("reshape-of-reshape", "x: f32[2,6]; y = f32[12] reshape(x); ROOT r = f32[3,4] reshape(y)", "ROOT r = f32[3,4] reshape(x)"),
    ("reshape-of-broadcast", "x: f32[1,4]; y = f32[3,1,4] broadcast(x), dimensions={1,2}; ROOT r = f32[1,3,4] reshape(y)", "r.reshape = f32[4] reshape(x); ROOT r = f32[1,3,4] broadcast(r.reshape), dimensions={2}"),
    ("reshape-of-iota", "y = s32[2,4] iota(), iota_dimension=1; ROOT r = s32[2,1,4] reshape(y)", "ROOT r = s32[2,1,4] iota(), iota_dimension=2"),
    ("transpose-nothing", "x: f32[2,3]; ROOT r = f32[2,3] transpose(x), dimensions={0,1}", "ROOT x"),
    ("transpose-of-transpose", "x: f32[2,3,4]; y = f32[4,2,3] transpose(x), dimensions={2,0,1}; ROOT r = f32[4,3,2] transpose(y), dimensions={0,2,1}", "ROOT r = f32[4,3,2] transpose(x), dimensions={2,1,0}"),
    ("transpose-of-broadcast", "x: f32[2]; y = f32[3,2] broadcast(x), dimensions={1}; ROOT r = f32[2,3] transpose(y), dimensions={1,0}", "ROOT r = f32[2,3] broadcast(x), dimensions={0}"),
    ("transpose-of-iota", "y = s32[3,2] iota(), iota_dimension=1; ROOT r = s32[2,3] transpose(y), dimensions={1,0}", "ROOT r = s32[2,3] iota(), iota_dimension=0"),
    ("transpose-of-dot", "x: f32[5,2,4]; y: f32[5,4,3]; d = f32[5,2,3] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}; ROOT r = f32[5,3,2] transpose(d), dimensions={0,2,1}", "ROOT r = f32[5,3,2] dot(y, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}"),
    ("transpose-of-convolution", "x: f32[1,8,2]; k: f32[3,2,4]; y = f32[1,6,4] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f; ROOT r = f32[4,1,6] transpose(y), dimensions={2,0,1}", "ROOT r = f32[4,1,6] convolution(x, k), window={size=3}, dim_labels=b0f_0io->fb0"),
    ("transpose-as-reshape", "x: f32[2,1,3]; ROOT r = f32[1,2,3] transpose(x), dimensions={1,0,2}", "ROOT r = f32[1,2,3] reshape(x)"),
    ("reverse-nothing", "x: f32[2,1]; ROOT r = f32[2,1] reverse(x), dimensions={1}", "ROOT x"),
    ("reverse-of-reverse", "x: f32[2,3]; y = f32[2,3] reverse(x), dimensions={0,1}; ROOT r = f32[2,3] reverse(y), dimensions={0}", "ROOT r = f32[2,3] reverse(x), dimensions={1}"),
    ("dot-of-transpose", "x: f32[2,3]; y: f32[2,4]; t = f32[3,2] transpose(x), dimensions={1,0}; ROOT r = f32[3,4] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "ROOT r = f32[3,4] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ("convolution-of-transpose", "x: f32[2,1,8]; k: f32[4,3,2]; t = f32[1,8,2] transpose(x), dimensions={1,2,0}; u = f32[3,2,4] transpose(k), dimensions={1,2,0}; ROOT r = f32[1,6,4] convolution(t, u), window={size=3}, dim_labels=b0f_0io->b0f", "ROOT r = f32[1,6,4] convolution(x, k), window={size=3}, dim_labels=fb0_o0i->b0f"),
    ("slice-nothing", "x: f32[2,3]; ROOT r = f32[2,3] slice(x), slice={[0:2], [0:3]}", "ROOT x"),
    ("slice-of-slice", "x: f32[20]; y = f32[7] slice(x), slice={[1:20:3]}; ROOT r = f32[3] slice(y), slice={[1:6:2]}", "ROOT r = f32[3] slice(x), slice={[4:17:6]}"),
    ("slice-of-broadcast", "x: f32[4]; y = f32[3,4] broadcast(x), dimensions={1}; ROOT r = f32[2,2] slice(y), slice={[0:2], [1:3]}", "r.slice = f32[2] slice(x), slice={[1:3]}; ROOT r = f32[2,2] broadcast(r.slice), dimensions={1}"),
    ("slice-of-concatenate", "x: f32[2]; y: f32[3]; c = f32[5] concatenate(x, y), dimensions={0}; ROOT r = f32[2] slice(c), slice={[3:5]}", "ROOT r = f32[2] slice(y), slice={[1:3]}"),
    ("slice-of-pad", "x: f32[4]; z: f32[]; p = f32[7] pad(x, z), padding=1_2; ROOT r = f32[2] slice(p), slice={[2:4]}", "ROOT r = f32[2] slice(x), slice={[1:3]}"),
    ("dynamic-slice-whole", "x: f32[4]; i: s32[]; ROOT r = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}", "ROOT x"),
    ("dynamic-slice-constant", "x: f32[4,3]; i = s32[] constant(3); j = s32[] constant(-1); ROOT r = f32[2,1] dynamic-slice(x, i, j), dynamic_slice_sizes={2,1}", "ROOT r = f32[2,1] slice(x), slice={[2:4], [0:1]}"),
    ("update-whole", "x: f32[4]; y: f32[4]; i: s32[]; ROOT r = f32[4] dynamic-update-slice(x, y, i)", "ROOT y"),
    ("concatenate-one", "x: f32[4]; ROOT r = f32[4] concatenate(x), dimensions={0}", "ROOT x"),
    ("concatenate-empty", "x: f32[4]; y: f32[0]; z: f32[2]; ROOT r = f32[6] concatenate(x, y, z), dimensions={0}", "ROOT r = f32[6] concatenate(x, z), dimensions={0}"),
    ("concatenate-of-slices", "x: f32[4,3]; a = f32[1,3] slice(x), slice={[0:1], [0:3]}; b = f32[2,3] slice(x), slice={[1:3], [0:3]}; ROOT r = f32[3,3] concatenate(a, b), dimensions={0}", "ROOT r = f32[3,3] slice(x), slice={[0:3], [0:3]}"),
    ("pad-nothing", "x: f32[4]; z: f32[]; ROOT r = f32[4] pad(x, z), padding=0_0", "ROOT x"),
    ("pad-of-pad", "x: f32[4]; z: f32[]; p = f32[7] pad(x, z), padding=1_2; ROOT r = f32[9] pad(p, z), padding=0_2", "ROOT r = f32[9] pad(x, z), padding=1_4"),
    ("element-of-tuple", "x: f32[4]; y: s32[]; t = (f32[4], s32[]) tuple(x, y); ROOT r = s32[] get-tuple-element(t), index=1", "ROOT y"),
    ("tuple-of-elements", "t: (f32[4], s32[]); x = f32[4] get-tuple-element(t), index=0; y = s32[] get-tuple-element(t), index=1; u = (f32[4], s32[]) tuple(x, y); ROOT r = ((f32[4], s32[])) tuple(u)", "ROOT r = ((f32[4], s32[])) tuple(t)"),
];

#[test]
fn every_rule_does_what_its_line_says() {
    let mut wrong = Vec::new();
    for (name, before, wanted) in CASES {
        let before = module(before);
        let (after, counts) = simplified(&before);
        let rule = RULES.iter().position(|rule| rule.name == *name).expect("a rule's name");
        let found = body(&after);
        for seed in 0..3 {
            let [old, new] = values(&before, &after, seed);
            assert_eq!(old, new, "{name}");
        }
        if found != *wanted || counts.fired[rule] == 0 {
            wrong.push(format!("{name} ({} times): {found}", counts.fired[rule]));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_line() {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(CASES.iter().map(|case| case.0).collect::<Vec<_>>(), names);
}
