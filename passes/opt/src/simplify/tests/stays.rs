//! Programs that no rule may touch.

use super::*;

/// What must not be simplified, and why.
#[rustfmt::skip]
const STAYS: &[(&str, &str)] = &[
    ("bf16 rounds", "x: f32[2]; y = bf16[2] convert(x); ROOT r = f32[2] convert(y)"),
    ("s8 cuts off", "x: s32[2]; y = s8[2] convert(x); ROOT r = s32[2] convert(y)"),
    ("floats clamp where integers wrap around", "x: s8[2]; y = f32[2] convert(x); ROOT r = u8[2] convert(y)"),
    ("infinity times 0 is NaN", "x: f32[]; z = f32[] constant(0); ROOT r = f32[] multiply(x, z)"),
    ("infinity minus itself is NaN", "x: f32[]; ROOT r = f32[] subtract(x, x)"),
    ("NaN is not NaN", "x: f32[]; ROOT r = pred[] compare(x, x), direction=EQ"),
    ("NaN is neither less nor not less", "x: f32[]; y: f32[]; c = pred[] compare(x, y), direction=LT; ROOT r = pred[] not(c)"),
    ("sums round", "x: f32[]; a = f32[] constant(3); b = f32[] constant(4); y = f32[] add(x, a); ROOT r = f32[] add(y, b)"),
    ("each device has its own exp", "x = f32[] constant(1); ROOT r = f32[] exponential(x)"),
    ("-128 is its own negative", "x: s8[]; y: s8[]; m = s8[] negate(x); n = s8[] negate(y); ROOT r = s8[] divide(m, n)"),
    ("0 - x is not x", "x: f32[]; z = f32[] constant(0); ROOT r = f32[] subtract(z, x)"),
    ("1 / x is not x", "x: f32[]; z = f32[] constant(1); ROOT r = f32[] divide(z, x)"),
    ("two readers would compute the product twice", "x: f32[2,3]; y: f32[3,4]; d = f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}; t = f32[4,2] transpose(d), dimensions={1,0}; ROOT r = (f32[2,4], f32[4,2]) tuple(d, t)"),
    ("the free dimensions would change places", "x: f32[2,3,4]; y: f32[4]; t = f32[3,2,4] transpose(x), dimensions={1,0,2}; ROOT r = f32[3,2] dot(t, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
    ("a reshape mixes dimensions", "x: f32[4]; y = f32[3,4] broadcast(x), dimensions={1}; ROOT r = f32[4,3] reshape(y)"),
    ("a layout in between", "x: f32[2,3]; y = f32[3,2] transpose(x), dimensions={1,0}, sharding={devices=[3,1]<=[3]}; ROOT r = f32[2,3] transpose(y), dimensions={1,0}"),
    ("a note in between", "x: f32[2]; y = f32[2] negate(x), frontend_attributes={a=\"b\"}; ROOT r = f32[2] negate(y)"),
    ("a layout of its own", "x: f32[2]; ROOT r = f32[2] copy(x), sharding={devices=[2]<=[2]}"),
    ("notes that differ", "x: f32[2]; y = f32[2] negate(x), frontend_attributes={a=\"b\"}; z = f32[2] negate(x), frontend_attributes={a=\"c\"}; ROOT r = f32[2] add(y, z)"),
    ("others wait for it", "x: f32[2]; y = f32[2] copy(x); z = f32[2] abs(x), control-predecessors={y}; ROOT r = f32[2] sine(z)"),
    ("barriers keep apart", "x: f32[2]; t = (f32[2]) tuple(x); a = (f32[2]) opt-barrier(t); b = (f32[2]) opt-barrier(t); ROOT r = ((f32[2]), (f32[2])) tuple(a, b)"),
    ("nothing is known of a custom call", "x: f32[2]; a = f32[2] custom-call(x), custom_call_target=\"f\"; b = f32[2] custom-call(x), custom_call_target=\"f\"; ROOT r = f32[2] add(a, b)"),
    ("random numbers differ", "l: f32[]; h: f32[]; a = f32[2] rng(l, h), distribution=rng_uniform; b = f32[2] rng(l, h), distribution=rng_uniform; ROOT r = f32[2] add(a, b)"),
    ("elements that are not shown may differ", "a = f32[2] constant({...}); b = f32[2] constant({...}); ROOT r = f32[2] add(a, b)"),
    ("outputs stay a list", "t: (f32[2], f32[]); x = f32[2] get-tuple-element(t), index=0; y = f32[] get-tuple-element(t), index=1; ROOT r = (f32[2], f32[]) tuple(x, y)"),
    ("another physical layout", "x: f32[2,3]{1,0}; ROOT r = f32[2,3]{0,1} copy(x)"),
    ("sizes that are not fixed", "x: f32[<=4]; ROOT r = f32[<=4] reshape(x)"),
];

#[test]
fn what_would_change_a_result_stays() {
    for (why, text) in STAYS {
        let before = module(text);
        assert_eq!(body(&simplified(&before).0), body(&before), "{why}");
    }
}

#[test]
fn equal_instructions_are_merged_with_their_notes() {
    let text = "x: f32[2]; y: f32[2]; a = f32[2] add(x, y), metadata={op_name=\"a\"}; b = f32[2] add(y, x); \
                c = f32[2] sine(a), frontend_attributes={n=\"1\"}; d = f32[2] sine(b), frontend_attributes={n=\"1\"}; \
                ROOT r = (f32[2], f32[2]) tuple(c, d)";
    let (after, counts) = simplified(&module(text));
    assert_eq!(
        body(&after),
        "a = f32[2] add(x, y), metadata={op_name=\"a\"}; c = f32[2] sine(a), frontend_attributes={n=\"1\"}; \
         ROOT r = (f32[2], f32[2]) tuple(c, c)"
    );
    assert_eq!(counts.n_merged, 2);
}

#[test]
fn what_is_rewritten_keeps_its_name_layout_and_notes() {
    let text = "x: f32[6]; y = f32[2,3] reshape(x); \
                ROOT r = f32[3,2] reshape(y), metadata={op_name=\"m\"}, sharding={devices=[3,1]<=[3]}, frontend_attributes={n=\"1\"}";
    assert_eq!(
        body(&simplified(&module(text)).0),
        "ROOT r = f32[3,2] reshape(x), metadata={op_name=\"m\"}, sharding={devices=[3,1]<=[3]}, frontend_attributes={n=\"1\"}"
    );
}
