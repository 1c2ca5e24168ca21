//! Which values are needed, until when, and which parts of tuples can be taken out of them.

use super::*;

const TEXT: &str = "e {
  x = f32[] parameter(0)
  unused = f32[] negate(x)
  y = f32[] add(x, x)
  t = (f32[], f32[]) tuple(x, y)
  a = f32[] get-tuple-element(t), index=0
  b = f32[] get-tuple-element(t), index=1
  c = f32[] get-tuple-element(t), index=0
  u = (f32[]) tuple(a)
  v = (f32[]) copy(u)
  d = f32[] get-tuple-element(u), index=0
  ROOT r = (f32[], f32[], f32[], (f32[])) tuple(b, c, d, v)
}";

fn marked(of: impl Fn(&Plan, InstrId) -> bool) -> Vec<String> {
    let module = crate::parse(TEXT).expect("legal");
    let plan = Plan::new(module.entry());
    module.entry().iter().filter(|(id, _)| of(&plan, *id)).map(|(_, instr)| instr.name.to_string()).collect()
}

#[test]
fn what_the_root_does_not_depend_on_is_not_needed() {
    assert_eq!(marked(|plan, id| !plan.is_needed(id)), ["unused"]);
}

#[test]
fn a_part_is_taken_at_its_last_reading_of_a_tuple_that_nothing_reads_whole() {
    assert_eq!(marked(Plan::may_take_element), ["b", "c"]);
}

#[test]
fn an_operand_is_let_go_at_its_last_use() {
    let module = crate::parse(TEXT).expect("legal");
    let plan = Plan::new(module.entry());
    let of = |name: &str| {
        let (id, instr) = module.entry().iter().find(|(_, instr)| &*instr.name == name).expect(name);
        (0..instr.operands.len()).map(|at| plan.is_last_use(id, at)).collect::<Vec<_>>()
    };
    assert_eq!([of("y"), of("t")], [vec![false, false], vec![true, true]]);
    assert_eq!(
        [of("a"), of("b"), of("c"), of("v"), of("d")],
        [vec![false], vec![false], vec![true], vec![false], vec![true]]
    );
}
