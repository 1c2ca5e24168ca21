//! What gradients are made of: which ops, how many, with which attributes.

use super::{after, check, check_program};
use phzc_ir::{Key, Module, Opcode, parse, print};

fn count(module: &Module, op: Opcode) -> usize {
    module.entry().instrs.iter().filter(|instr| instr.op == op).count()
}

#[test]
fn what_lies_between_and_behind_slices_is_filled_with_zeros() {
    let module = check(
        "a = f64[3,1] slice(w), slice={[0:3],[0:1]} b = f64[1,3] slice(x), slice={[0:1],[0:3]}
        t = f64[6] reshape(x) c = f64[1] slice(t), slice={[1:2]} d = f64[2] slice(t), slice={[3:5]}
        ROOT y = (f64[3,1], f64[1,3], f64[1], f64[2]) tuple(a, b, c, d)",
    );
    assert_eq!((count(&module, Opcode::Concatenate), count(&module, Opcode::Pad)), (1, 2));
}

#[test]
fn slices_that_overlap_are_padded_and_added() {
    let module = check(
        "t = f64[6] reshape(x) c = f64[3] slice(t), slice={[1:4]} d = f64[2] slice(t), slice={[3:5]} e = f64[3] slice(t), slice={[0:6:2]}
        ROOT y = (f64[3], f64[2], f64[3]) tuple(c, d, e)",
    );
    assert_eq!((count(&module, Opcode::Concatenate), count(&module, Opcode::Pad)), (0, 3));
}

#[test]
fn slices_next_to_each_other_need_no_zeros() {
    let module = check(
        "t = f64[6] reshape(x) c = f64[2] slice(t), slice={[0:2]} d = f64[4] slice(t), slice={[2:6]}
        ROOT y = (f64[2], f64[4]) tuple(c, d)",
    );
    let joined = module.entry().instrs.iter().find(|instr| instr.op == Opcode::Concatenate);
    assert_eq!(joined.expect("they are joined").operands.len(), 2);
}

#[test]
fn products_keep_a_precision_that_both_operands_have() {
    for (precision, n_kept) in [("{highest,highest}", 3), ("{highest,default}", 1)] {
        let module = check(&format!(
            "ROOT y = f64[2,2] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, operand_precision={precision}"
        ));
        let n = module.entry().instrs.iter().filter(|it| it.attr(Key::OperandPrecision).is_some()).count();
        assert_eq!(n, n_kept, "{}", print(&module));
    }
}

#[test]
fn a_plain_convolution_s_gradients_name_no_usual_sizes() {
    let module = check_program(
        "ENTRY e { x = f64[2,5,2] parameter(0) k = f64[3,2,4] parameter(1) ROOT y = convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f }",
    );
    let text = print(&module);
    assert!(!text.contains("stride=") && !text.contains("dilate="), "{text}");
}

#[test]
fn custom_calls_that_are_known_have_gradients() {
    check("ROOT y = f64[2,3] custom-call(x), custom_call_target=\"Sharding\"");
    let ops_of = |instr: &str| {
        let text = format!(
            "ENTRY e {{ x = f32[2] parameter(0) y = f32[2] {instr} ROOT l = f32[] dot(y, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}"
        );
        let module = after(&parse(&text).expect("a program"), "grad{wrt=all}");
        module.entry().instrs[2..].iter().map(|instr| instr.op).collect::<Vec<_>>()
    };
    assert_eq!(ops_of("custom-call(x), custom_call_target=\"mhlo.erf\""), ops_of("erf(x)"));
}

/// Whether gradients look for where the maxima `b` of the columns of `x` are, given what is made of them.
fn looks_for_maxima(instrs: &str) -> bool {
    let module = check(&format!(
        "i = f64[] constant(-inf) m = f64[3] reduce(x, i), dimensions={{0}}, to_apply=max b = f64[2,3] broadcast(m), dimensions={{1}}
        s = f64[2,3] subtract(x, b) v = f64[2,3] sine(x) {instrs}"
    ));
    count(&module, Opcode::Compare) > 0
}

#[test]
fn a_maximum_cancels_in_sums_on_either_side() {
    let of = |instrs: &str| looks_for_maxima(instrs);
    assert!(!of("t = f64[2,3] add(v, s) ROOT y = f64[2,3] subtract(t, s)"));
    assert!(!of("t = f64[2,3] subtract(v, s) ROOT y = f64[2,3] add(t, s)"));
    assert!(of("t = f64[2,3] add(v, s) ROOT y = f64[2,3] add(t, s)"));
    assert!(of("t = f64[2,3] subtract(v, s) ROOT y = f64[2,3] subtract(t, s)"));
    assert!(of("ROOT y = f64[2,3] sine(s)"));
}

#[test]
fn a_maximum_cancels_in_quotients_on_either_side() {
    let of = |instrs: &str| {
        let sums = "e = f64[2,3] exponential(s) n = f64[3] reduce(e, zero), dimensions={0}, to_apply=add";
        looks_for_maxima(&format!("{sums} d = f64[2,3] broadcast(n), dimensions={{1}} {instrs}"))
    };
    assert!(!of("ROOT y = f64[2,3] divide(e, d)"));
    assert!(!of("t = f64[2,3] multiply(v, e) ROOT y = f64[2,3] divide(t, d)"));
    assert!(!of("t = f64[2,3] divide(v, d) ROOT y = f64[2,3] multiply(t, e)"));
    assert!(of("ROOT y = f64[2,3] multiply(e, d)"));
    assert!(of("t = f64[2,3] divide(v, d) ROOT y = f64[2,3] divide(t, e)"));
    assert!(of("t = f64[2,3] multiply(v, d) ROOT y = f64[2,3] sine(t)"));
}
