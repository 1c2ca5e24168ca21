//! Which instructions are one block.

use super::*;

/// The blocks of a program, each the names of its instructions in order; those of the tensors `pinned` stand
/// alone.
fn blocks_beside(text: &str, pinned: &[&str]) -> Vec<String> {
    let header = if text.starts_with("HloModule") { "" } else { "HloModule m\n" };
    let module = phzc_ir::parse(&format!("{header}{text}")).expect("a legal program");
    let graph = Graph::build(&module);
    let name = |id: NodeId| {
        let node = &graph.nodes[id as usize];
        &*module.comp(node.comp).instr(node.instr).name
    };
    let is_pinned = |tensor: &crate::graph::Tensor| pinned.contains(&name(tensor.def));
    let pinned: Vec<bool> = graph.tensors.iter().map(is_pinned).collect();
    let blocks = Blocks::build(&module, &graph, &pinned);
    let names = |members: &Vec<NodeId>| members.iter().map(|&id| name(id)).collect::<Vec<_>>().join(" ");
    blocks.members.iter().map(names).collect()
}

fn blocks(text: &str) -> Vec<String> {
    blocks_beside(text, &[])
}

const GIVEN: &str = "x = f32[64,32] parameter(0)
  w = f32[32,128] parameter(1)
  y = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";

#[test]
fn a_product_and_the_gradients_of_its_operands_are_one() {
    let found = blocks(&format!(
        "ENTRY e {{
  {GIVEN}
  dy = f32[64,128] parameter(2)
  dw = f32[32,128] dot(x, dy), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  dx = f32[64,32] dot(dy, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT out = (f32[64,128], f32[32,128], f32[64,32]) tuple(y, dw, dx)
}}"
    ));
    assert_eq!(found, ["x", "w", "y dw dx", "dy"]);
}

#[test]
fn a_gradient_of_what_is_made_again_has_the_loops_of_its_product() {
    // `da` shares only the weight with `y`, as behind the barrier of `jax.checkpoint`.
    let text = "HloModule m
ENTRY e {
  a = f32[8,64,32] parameter(0)
  w = f32[32,128] parameter(1)
  dy = f32[8,64,128] parameter(2)
  y = f32[8,64,128] dot(a, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  da = f32[8,64,32] dot(dy, w), lhs_contracting_dims={2}, rhs_contracting_dims={1}
  ROOT out = (f32[8,64,128], f32[8,64,32]) tuple(y, da)
}";
    let module = phzc_ir::parse(text).expect("a legal program");
    let graph = Graph::build(&module);
    let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
    let members = blocks.members.iter().find(|members| members.len() == 2).expect("y and da are one block");
    let sizes: Vec<i64> = blocks.loops(members).iter().map(|&class| blocks.classes.size(class)).collect();
    assert_eq!(sizes.iter().product::<i64>(), 8 * 64 * 32 * 128);
}

#[test]
fn products_that_read_one_tensor_are_one_and_a_product_of_them_is_another() {
    let found = blocks(&format!(
        "ENTRY e {{
  {GIVEN}
  v = f32[32,128] parameter(2)
  z = f32[64,128] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  m = f32[64,128] multiply(y, z)
  o = f32[128,16] parameter(3)
  ROOT out = f32[64,16] dot(m, o), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"
    ));
    assert_eq!(found, ["x", "w", "y z", "v", "m", "o", "out"]);
}

#[test]
fn what_lies_between_products_is_glue() {
    let found = blocks(&format!(
        "add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
ENTRY e {{
  {GIVEN}
  zero = f32[] constant(0)
  s = f32[64] reduce(y, zero), dimensions={{1}}, to_apply=add
  b = f32[64,128] broadcast(s), dimensions={{0}}
  n = f32[64,128] divide(y, b)
  o = f32[128,16] parameter(2)
  ROOT out = f32[64,16] dot(n, o), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"
    ));
    assert_eq!(found, ["x", "w", "y", "s b n", "o", "out"]);
}

/// A step of one weight with momentum.
const STEP: &str = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,16] parameter(1)
  m = f32[32,16] parameter(2)
  h = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[64,16] tanh(h)
  zero = f32[] constant(0)
  loss = f32[] reduce(y, zero), dimensions={0,1}, to_apply=add
  dw = f32[32,16] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  mn = f32[32,16] add(m, dw)
  wn = f32[32,16] subtract(w, mn)
  ROOT out = (f32[32,16], f32[32,16], f32[]) tuple(wn, mn, loss)
}";

#[test]
fn an_update_is_one_block_with_its_moments_and_the_weight_is_another() {
    let found = blocks(STEP);
    assert_eq!(found, ["x", "w", "m mn wn", "h dw", "y", "loss"]);
}

#[test]
fn a_weight_that_is_converted_is_a_weight() {
    let found = blocks(
        "ENTRY e {
  x = bf16[64,32] parameter(0)
  w = bf16[32,16] parameter(1)
  b = f32[16] parameter(2)
  c = bf16[16] convert(b)
  y = bf16[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = bf16[64,16] broadcast(c), dimensions={1}
  ROOT z = bf16[64,16] add(y, s)
}",
    );
    assert_eq!(found, ["x", "w", "b c", "y", "s z"]);
}

#[test]
fn a_tensor_whose_layout_is_given_stands_alone() {
    let text = "ENTRY e {
  x = f32[8] parameter(0)
  a = f32[8] negate(x)
  b = f32[8] tanh(a)
  c = f32[8] exponential(b)
  ROOT d = f32[8] negate(c)
}";
    assert_eq!(blocks(text), ["x a b c d"]);
    assert_eq!(blocks_beside(text, &["b"]), ["x a", "b", "c d"]);
}

#[test]
fn scalars_and_what_is_made_of_constants_are_in_no_block() {
    let found = blocks(
        "ENTRY e {
  lr = f32[] parameter(0)
  half = f32[] constant(0.5)
  rate = f32[] multiply(lr, half)
  ones = f32[8] broadcast(half), dimensions={}
  x = f32[8] parameter(1)
  y = f32[8] add(x, ones)
  ROOT z = f32[8] negate(y)
}",
    );
    assert_eq!(found, ["x", "y z"]);
}

#[test]
fn an_op_that_cannot_be_split_keeps_nothing_else_whole() {
    let found = blocks(
        "ENTRY e {
  x = f32[8,8] parameter(0)
  a = f32[8,8] negate(x)
  c = f32[8,8] custom-call(a), custom_call_target=\"unknown\"
  ROOT d = f32[8,8] negate(c)
}",
    );
    assert_eq!(found, ["x a", "c", "d"]);
}
