//! Loops over layers, their stacks, and what stays as it is.

use crate::testing::check;
use insta::assert_snapshot;

/// `x = tanh(x · w[i])` for every layer, then what a step does with the stacks.
fn layers(after: &str, root: &str) -> String {
    format!(
        "HloModule m, input_output_alias={{ {{1}}: (0, {{}}, may-alias) }}
add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
body {{
  t = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4,8] get-tuple-element(t), index=1
  w = f32[2,8,8] get-tuple-element(t), index=2
  s = f32[2,4,8] get-tuple-element(t), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  wi = f32[1,8,8] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={{1,8,8}}
  wr = f32[8,8] reshape(wi)
  d = f32[4,8] dot(x, wr), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h = f32[4,8] tanh(d)
  hs = f32[1,4,8] reshape(h)
  u = f32[2,4,8] dynamic-update-slice(s, hs, i, zero, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) tuple(j, h, w, u)
}}
cond {{
  t = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  two = s32[] constant(2)
  ROOT c = pred[] compare(i, two), direction=LT
}}
ENTRY e {{
  w = f32[2,8,8] parameter(0)
  x = f32[4,8] parameter(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  empty = f32[2,4,8] broadcast(none), dimensions={{}}
  start = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) tuple(zero, x, w, empty)
  loop = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) while(start), condition=cond, body=body
  y = f32[4,8] get-tuple-element(loop), index=1
  hidden = f32[2,4,8] get-tuple-element(loop), index=3
  {after}
  ROOT out = {root}
}}"
    )
}

#[test]
fn a_loop_over_layers_becomes_its_layers_and_stacks_one_value_each() {
    let text = layers("new = f32[2,8,8] add(w, w)", "(f32[4,8], f32[2,8,8]) tuple(y, new)");
    assert_snapshot!(check("unroll", &text));
}

#[test]
fn a_sum_over_all_of_a_stack_is_added_up_layer_by_layer() {
    let text = layers(
        "sum = f32[] reduce(hidden, none), dimensions={0,1,2}, to_apply=add",
        "(f32[], f32[2,8,8]) tuple(sum, w)",
    );
    assert_snapshot!(check("unroll", &text));
}

#[test]
fn a_stack_that_is_needed_whole_stays_one() {
    let text = layers(
        "turned = f32[8,2,8] transpose(w), dimensions={1,0,2}",
        "(f32[8,2,8], f32[2,8,8], f32[4,8]) tuple(turned, w, y)",
    );
    let unrolled = check("unroll", &text);
    assert!(unrolled.contains("w = f32[2,8,8] parameter(0)") && !unrolled.contains("while"), "{unrolled}");
    assert!(unrolled.contains("phzc.unstacked=\"parameters=;results=\""), "{unrolled}");
}

#[test]
fn a_loop_that_hands_nothing_on_through_a_contraction_stays() {
    let text = layers("new = f32[2,8,8] add(w, w)", "(f32[4,8], f32[2,8,8]) tuple(y, new)");
    let apart = text.replace("dot(x, wr)", "dot(k, wr)").replace(
        "zero = s32[] constant(0)\n  one",
        "k = f32[4,8] iota(), iota_dimension=0 zero = s32[] constant(0)\n  one",
    );
    assert!(check("unroll", &apart).contains("while"));
}

/// The loop of [`layers`], with an instruction after it that nobody reads or that is odd.
fn beside(after: &str) -> String {
    let text = layers(after, "(f32[4,8], f32[2,8,8]) tuple(y, w)");
    check("unroll", &text)
}

#[test]
fn what_nobody_reads_keeps_no_stack_whole() {
    let turned = beside("turned = f32[8,2,8] transpose(w), dimensions={1,0,2}");
    assert!(turned.contains("parameters=0x2") && !turned.contains("transpose"), "{turned}");
}

#[test]
fn an_array_with_more_rows_than_layers_stays_one() {
    let text = layers("new = f32[2,8,8] add(w, w)", "(f32[4,8], f32[2,8,8]) tuple(y, new)");
    let long = text.replace("f32[2,8,8]", "f32[2000,8,8]");
    let unrolled = check("unroll", &long.replace("constant(2)", "constant(3)"));
    assert!(unrolled.contains("w = f32[2000,8,8] parameter(0)"), "{unrolled}");
}

#[test]
fn a_result_in_a_given_layout_keeps_the_loop() {
    let text = layers("", "(f32[4,8], f32[2,8,8]) tuple(y, w), sharding={{replicated},{replicated}}");
    assert!(check("unroll", &text).contains("while"));
}

#[test]
fn a_sum_with_a_zero_of_the_program_s_own_stays() {
    let zeros = beside("zeros = f32[4,8] broadcast(none), dimensions={}\n  sum = f32[4,8] add(y, zeros)");
    assert!(!zeros.contains("add("), "nobody reads it");
    let text = layers(
        "zeros = f32[4,8] broadcast(none), dimensions={}\n  sum = f32[4,8] add(y, zeros)",
        "(f32[4,8], f32[2,8,8]) tuple(sum, w)",
    );
    assert!(check("unroll", &text).contains("add(h.t1, zeros)"));
}
