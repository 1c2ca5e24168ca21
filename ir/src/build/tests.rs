//! What is built is legal, is inferred, and computes what its name says.

use super::*;
use crate::attr::WindowDim;
use crate::eval::{Options, Value as Given, inputs, run};
use crate::{parse, print, verify};

/// Builds a program of parameters with these sizes; asserts that it is legal and returns its result.
fn check(params: &[&[i64]], build: impl FnOnce(&mut Builder, &[InstrId]) -> InstrId) -> (Module, Given) {
    let mut b = Builder::new("m");
    let named = params.iter().enumerate();
    let ids: Vec<InstrId> =
        named.map(|(n, dims)| b.parameter(&format!("p{n}"), Shape::array(DType::F32, dims))).collect();
    let root = build(&mut b, &ids);
    let module = b.finish(root);
    assert_eq!(verify(&module), [], "{}", print(&module));
    assert_eq!(print(&parse(&print(&module)).expect("it reads back")), print(&module));
    let given = inputs(&module, 1).expect("fixed shapes");
    let made = run(&module, &given, &Options::default()).expect("it runs");
    (module, made)
}

fn numbers(value: &Given) -> Vec<f64> {
    value.leaves()[0].to_f64_vec()
}

#[test]
fn einsum_is_dot_and_transpose() {
    let (module, _) = check(&[&[2, 3, 4], &[2, 5, 4]], |b, x| b.einsum("bqd,bkd->kbq", x[0], x[1]));
    let lines = print(&module);
    assert!(lines.contains("f32[2,3,5] dot(p0, p1), lhs_batch_dims={0}"), "{lines}");
    assert!(lines.contains("f32[5,2,3] transpose"), "{lines}");
}

#[test]
fn a_for_loop_runs_as_often_as_said() {
    let (_, made) = check(&[], |b, _| {
        let one = b.full(DType::F32, &[2], 1.0);
        b.for_loop(5, &[one], |b, _, state| vec![b.add(state[0], state[0])])[0]
    });
    assert_eq!(numbers(&made), [32.0, 32.0]);
}

#[test]
fn a_stack_is_read_and_written_by_number() {
    let (_, made) = check(&[], |b, _| {
        let stack = b.iota(DType::F32, &[3, 2], 0);
        let [one, two] = [1.0, 2.0].map(|x| b.scalar(DType::S32, x));
        let part = b.unstack(stack, two);
        b.restack(stack, part, one)
    });
    assert_eq!(numbers(&made), [0.0, 0.0, 2.0, 2.0, 2.0, 2.0]);
}

#[test]
fn rows_are_taken_by_number() {
    let (_, made) = check(&[], |b, _| {
        let table = b.iota(DType::F32, &[4, 2], 0);
        let ids = b.literal(DType::S32, &[3], "{3, 0, 1}");
        let rows = b.take_rows(table, ids);
        b.mean(rows, &[1])
    });
    assert_eq!(numbers(&made), [3.0, 0.0, 1.0]);
}

#[test]
fn a_convolution_of_ones_counts_its_window() {
    let (_, made) = check(&[], |b, _| {
        let x = b.full(DType::F32, &[1, 4, 4, 2], 1.0);
        let kernel = b.full(DType::F32, &[3, 3, 2, 1], 1.0);
        let window = [WindowDim { size: 3, stride: 2, pad_low: 0, pad_high: 1, ..WindowDim::default() }; 2];
        b.convolution(x, kernel, &window)
    });
    assert_eq!(numbers(&made), [18.0, 12.0, 12.0, 8.0]);
}

#[test]
fn resumed_programs_get_new_names() {
    let text = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT add.7 = f32[2] add(x, x) }";
    let module = parse(text).expect("legal");
    let root = module.entry().root;
    let mut b = Builder::resume(module);
    let y = b.scale(root, 2.0);
    let text = print(&b.finish(y));
    assert!(text.contains("ROOT multiply.10 = f32[2] multiply(add.7, broadcast.9)"), "{text}");
}

#[test]
fn operands_that_do_not_fit_are_errors() {
    let mut b = Builder::new("m");
    let x = b.parameter("x", Shape::array(DType::F32, &[2]));
    let y = b.parameter("y", Shape::array(DType::F32, &[3]));
    let error = b.try_op(Opcode::Add, &[x, y], Vec::new()).expect_err("sizes differ");
    assert!(error.message.contains("add"), "{}", error.message);
    let error = b.try_op(Opcode::Add, &[x], Vec::new()).expect_err("one operand");
    assert!(error.message.contains("takes 2 operands, not 1"), "{}", error.message);
    let error = b.try_op(Opcode::Reshape, &[x], Vec::new()).expect_err("to what?");
    assert!(error.message.contains("has to be stated"), "{}", error.message);
}
