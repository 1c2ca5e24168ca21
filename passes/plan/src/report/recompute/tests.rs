//! Which instructions of a backward part make what the forward part has made.

use super::*;
use phzc_ir::parse;

/// The names of the backward instructions that repeat a forward one; those named `b…` are the backward part.
fn repeats(comps: &str, body: &str) -> Vec<String> {
    let text = format!("HloModule m\n{comps}\nENTRY e {{\n{body}\n}}\n");
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let phase = |instr: &Instr| if instr.name.starts_with('b') { Phase::Backward } else { Phase::Forward };
    let found = repeated(&module, module.entry().instrs.iter().map(phase)).into_iter().map(|(id, _)| id);
    found.map(|id| module.entry().instr(id).name.to_string()).collect()
}

#[test]
fn the_same_op_on_the_same_values_is_a_repetition_through_tuples_barriers_and_moves() {
    let body = "x = f32[4] parameter(0)
        y = f32[4] negate(x)
        t = (f32[4], f32[4]) tuple(y, x)
        bt = (f32[4], f32[4]) opt-barrier(t)
        b0 = f32[4] get-tuple-element(bt), index=1
        bm = f32[4] custom-call(b0), custom_call_target=\"Sharding\", frontend_attributes={phzc.move=\"slice\"}
        b1 = f32[4] negate(bm)
        b2 = f32[4] tanh(b1)
        b3 = f32[4] negate(y)
        ROOT r = (f32[4], f32[4]) tuple(b2, b3)";
    assert_eq!(repeats("", body), ["b1"]);
}

#[test]
fn changes_of_shape_that_are_undone_are_seen_through_but_not_a_transpose() {
    let body = |order: &str| {
        format!(
            "x = f32[4,4] parameter(0)
            column = f32[4,4,1] reshape(x)
            same = f32[4,4,1] broadcast(column), dimensions={{0,1,2}}
            undone = f32[4,4] reshape(same)
            still = f32[4,4] broadcast(undone), dimensions={{{order}}}
            y = f32[4,4] negate(still)
            b1 = f32[4,4] negate(x)
            ROOT r = (f32[4,4], f32[4,4]) tuple(y, b1)"
        )
    };
    assert_eq!(repeats("", &body("0,1")), ["b1"]);
    assert_eq!(repeats("", &body("1,0")), Vec::<String>::new());
    let undone_again = "a = f32[4,4] parameter(0)
        column = f32[16] reshape(a)
        undone = f32[4,4] reshape(column)
        y = f32[4,4] negate(undone)
        b1 = f32[4,4] reshape(column)
        b2 = f32[4,4] negate(b1)
        ROOT r = (f32[4,4], f32[4,4]) tuple(y, b2)";
    assert_eq!(repeats("", undone_again), ["b1", "b2"]);
}

#[test]
fn a_note_of_a_movement_on_what_moves_nothing_means_nothing() {
    let body = "x = f32[4] parameter(0), frontend_attributes={phzc.move=\"slice\"}
        y = f32[4] negate(x)
        b1 = f32[4] negate(x)
        ROOT r = (f32[4], f32[4]) tuple(y, b1)";
    assert_eq!(repeats("", body), ["b1"]);
}

#[test]
fn what_the_backward_part_made_first_is_none() {
    let body = "x = f32[4] parameter(0)
        b1 = f32[4] negate(x)
        b2 = f32[4] negate(x)
        y = f32[4] negate(x)
        ROOT r = (f32[4], f32[4], f32[4]) tuple(b1, b2, y)";
    assert_eq!(repeats("", body), Vec::<String>::new());
}

#[test]
fn another_attribute_type_literal_or_order_is_another_value() {
    let repeated = |forward: &str, backward: &str| {
        let body = format!(
            "x = f32[2,2] parameter(0)\nw = f32[2,2] parameter(1)\ny = {forward}\nb1 = {backward}\n\
             ROOT r = () tuple()"
        );
        !repeats("", &body).is_empty()
    };
    let turned = "f32[2,2] transpose(x), dimensions={1,0}";
    assert!(repeated(turned, turned));
    assert!(!repeated(turned, "f32[2,2] transpose(x), dimensions={0,1}"));
    assert!(!repeated("f32[2,2] subtract(x, w)", "f32[2,2] subtract(w, x)"));
    assert!(!repeated("f32[4] reshape(x)", "f32[1,4] reshape(x)"));
    assert!(repeated("f32[] constant(2)", "f32[] constant(2)"));
    assert!(!repeated("f32[] constant(2)", "f32[] constant(3)"));
    let noted = "f32[2,2] negate(x), frontend_attributes={phzc.block=\"1\"}, sharding={replicated}";
    assert!(repeated("f32[2,2] negate(x), metadata={op_name=\"a\"}", noted));
    let dot = "f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert!(repeated(dot, dot));
    assert!(!repeated(dot, &format!("{dot}, operand_precision={{high,high}}")));
}

#[test]
fn parameters_and_effects_are_never_repeated() {
    let body = "x = f32[4] parameter(0)
        bp = f32[4] parameter(1)
        y = f32[4] custom-call(x), custom_call_target=\"log\", custom_call_has_side_effect=true
        b1 = f32[4] custom-call(x), custom_call_target=\"log\", custom_call_has_side_effect=true
        z = f32[4] custom-call(x), custom_call_target=\"pure\"
        b2 = f32[4] custom-call(x), custom_call_target=\"pure\"
        ROOT r = () tuple()";
    assert_eq!(repeats("", body), ["b2"]);
}

#[test]
fn reductions_are_alike_where_their_computations_do_the_same() {
    let comp = |name: &str, op: &str, root: &str| {
        format!(
            "{name} {{ p = f32[] parameter(0) q = f32[] parameter(1) r = f32[] {op} ROOT s = f32[] {root} }}\n"
        )
    };
    let comps = [
        comp("one", "add(p, q)", "copy(r)"),
        comp("two", "add(p, q)", "copy(r)"),
        comp("other", "multiply(p, q)", "copy(r)"),
        comp("turned", "add(q, p)", "copy(r)"),
        "short { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }\n".to_owned(),
    ]
    .concat();
    let reduce = |apply: &str| format!("f32[] reduce(x, z), dimensions={{0}}, to_apply={apply}");
    let body = format!(
        "x = f32[4] parameter(0)\nz = f32[] constant(0)\ny = {}\nb1 = {}\nb2 = {}\nb3 = {}\nb4 = {}\nROOT r = () tuple()",
        reduce("one"),
        reduce("two"),
        reduce("other"),
        reduce("turned"),
        reduce("short"),
    );
    assert_eq!(repeats(&comps, &body), ["b1"]);
}

#[test]
fn another_constant_is_another_value() {
    let body = |number: &str| {
        format!(
            "x = f32[] parameter(0)
            two = f32[] constant(2)
            y = f32[] multiply(x, two)
            bn = f32[] constant({number})
            b = f32[] multiply(x, bn)
            ROOT r = (f32[], f32[]) tuple(y, b)"
        )
    };
    assert_eq!(repeats("", &body("2")), ["bn", "b"]);
    assert_eq!(repeats("", &body("3")), Vec::<String>::new());
}

#[test]
fn a_change_of_layout_of_a_second_result_is_that_of_no_other() {
    let less =
        "less { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
        ROOT l = pred[] compare(a, b), direction=LT }";
    let body = |index: usize| {
        format!(
            "x = f32[4] parameter(0)
            s = (f32[4], f32[4]) sort(x, x), dimensions={{0}}, to_apply=less
            e = f32[4] get-tuple-element(s), index={index}
            y = f32[4] negate(e)
            f = f32[4] get-tuple-element(s), index=1
            bm = f32[4] custom-call(f), custom_call_target=\"Sharding\", frontend_attributes={{phzc.move=\"slice\"}}
            b = f32[4] negate(bm)
            ROOT r = (f32[4], f32[4]) tuple(y, b)"
        )
    };
    assert_eq!(repeats(less, &body(1)), ["b"]);
    assert_eq!(repeats(less, &body(0)), Vec::<String>::new());
}
