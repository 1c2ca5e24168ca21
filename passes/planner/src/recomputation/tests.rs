//! Copies in small programs.

use super::*;

/// A program, all of whose values depend on the step's data, with some made again.
fn with_again(lines: &str, again: std::ops::Range<usize>) -> String {
    let text = format!("HloModule m\nENTRY main {{\n{lines}\n}}");
    let mut module = phzc_ir::parse(&text).expect("a program");
    let n = module.entry().instrs.len();
    let is_again: Vec<bool> = (0..n).map(|id| again.contains(&id)).collect();
    rewrite(&mut module, &Marks { is_again, is_data: vec![true; n], is_free: vec![false; n] });
    phzc_ir::print(&module)
}

#[test]
fn what_is_free_is_made_again_rather_than_held_for_a_copy() {
    let mut module = phzc_ir::parse(
        "HloModule m
ENTRY main {
  x = f32[8,8] parameter(0)
  sum = f32[8] parameter(1)
  wide = f32[8,8] broadcast(sum), dimensions={0}
  share = f32[8,8] divide(x, wide)
  g = f32[8,8] add(x, x), frontend_attributes={phzc.phase=\"bwd\"}
  ROOT dx = f32[8,8] multiply(g, share), frontend_attributes={phzc.phase=\"bwd\"}
}",
    )
    .expect("a program");
    let at = |ids: &[usize]| (0..6).map(|id| ids.contains(&id)).collect::<Vec<bool>>();
    let marks = Marks { is_again: at(&[3]), is_data: at(&[0, 1, 2, 3, 4, 5]), is_free: at(&[2]) };
    rewrite(&mut module, &marks);
    let text = phzc_ir::print(&module);
    assert!(text.contains("tuple(sum, x, g)") && text.contains("wide.again"), "{text}");
}

#[test]
fn what_a_barrier_of_the_program_holds_is_made_again_before_it() {
    let text = with_again(
        "x = f32[8,8] parameter(0)
  y = f32[8,8] negate(x)
  g = f32[8,8] add(x, x), frontend_attributes={phzc.phase=\"bwd\"}
  both = (f32[8,8], f32[8,8]) tuple(y, g)
  wall = (f32[8,8], f32[8,8]) opt-barrier(both)
  behind = f32[8,8] get-tuple-element(wall), index=0
  ROOT dx = f32[8,8] multiply(g, behind), frontend_attributes={phzc.phase=\"bwd\"}",
        1..2,
    );
    assert!(text.contains("tuple(y.again, g)") && text.contains("multiply(g, y.again)"), "{text}");
}

#[test]
fn what_undoes_a_reshape_reads_what_was_reshaped() {
    let text = with_again(
        "x = f32[8,8] parameter(0)
  column = f32[8,8,1] reshape(x)
  same = f32[8,8,1] broadcast(column), dimensions={0,1,2}
  back = f32[8,8] reshape(same)
  y = f32[8,8] negate(back)
  g = f32[8,8] add(x, x), frontend_attributes={phzc.phase=\"bwd\"}
  ROOT dx = f32[8,8] multiply(g, y), frontend_attributes={phzc.phase=\"bwd\"}",
        1..5,
    );
    assert!(text.contains("y.again = f32[8,8] negate(back.held1)"), "{text}");
    assert_eq!(text.matches(".again = ").count(), 1, "{text}");
}

#[test]
fn a_broadcast_in_another_order_is_no_other_shape_of_the_same_value() {
    let text = with_again(
        "x = f32[8,8] parameter(0)
  turned = f32[8,8] broadcast(x), dimensions={1,0}
  y = f32[8,8] negate(turned)
  g = f32[8,8] add(x, x), frontend_attributes={phzc.phase=\"bwd\"}
  ROOT dx = f32[8,8] multiply(g, y), frontend_attributes={phzc.phase=\"bwd\"}",
        1..3,
    );
    assert!(text.contains("turned.again = f32[8,8] broadcast("), "{text}");
}

#[test]
fn copies_read_what_the_backward_part_gathers_for_itself() {
    let mut module = phzc_ir::parse(
        "HloModule m
ENTRY main {
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  w.ag = f32[8,8] custom-call(w), custom_call_target=\"Sharding\", sharding={replicated}, \
    frontend_attributes={phzc.phase=\"fwd\",phzc.move=\"all-gather\"}
  y = f32[8,8] multiply(x, w.ag), frontend_attributes={phzc.phase=\"fwd\"}
  z = f32[8,8] negate(y), frontend_attributes={phzc.phase=\"fwd\"}
  g = f32[8,8] multiply(z, x), frontend_attributes={phzc.phase=\"bwd\"}
  d = f32[8,8] multiply(g, y), frontend_attributes={phzc.phase=\"bwd\"}
  w.ag1 = f32[8,8] custom-call(w), custom_call_target=\"Sharding\", sharding={replicated}, \
    frontend_attributes={phzc.phase=\"bwd\",phzc.move=\"all-gather\"}
  ROOT dx = f32[8,8] multiply(d, w.ag1), frontend_attributes={phzc.phase=\"bwd\"}
}",
    )
    .expect("a program");
    let at = |ids: &[usize]| (0..9).map(|id| ids.contains(&id)).collect::<Vec<bool>>();
    let marks = Marks { is_again: at(&[3]), is_data: at(&[0, 3, 4, 5, 6, 8]), is_free: vec![false; 9] };
    let readers = rewrite(&mut module, &marks);
    let text = phzc_ir::print(&module);
    assert_eq!(readers.len(), module.entry().instrs.len());
    assert!(text.contains("y.again = f32[8,8] multiply(y.held1, w.ag1)"), "{text}");
    assert_eq!(text.matches("custom-call(w)").count(), 2, "{text}");
    assert!(phzc_ir::verify(&module).is_empty(), "{text}");
}
