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

#[test]
fn numbers_are_written_as_hlo_writes_them() {
    let of = |dtype, value: f64| constant::literal(dtype, value);
    assert_eq!([of(DType::Pred, 1.0), of(DType::Pred, 0.0), of(DType::S32, -3.0)], ["true", "false", "-3"]);
    assert_eq!(
        [of(DType::F32, 3.0), of(DType::F32, 0.5), of(DType::F32, 1e9), of(DType::F32, 2e-9)],
        ["3", "0.5", "1000000000.0", "2e-9"]
    );
    assert_eq!(
        [of(DType::F32, f64::NAN), of(DType::F32, f64::INFINITY), of(DType::F64, f64::NEG_INFINITY)],
        ["nan", "inf", "-inf"]
    );
    assert_eq!([of(DType::C64, 0.5), of(DType::C64, f64::INFINITY)], ["(0.5, 0)", "inf"]);
}

#[test]
fn the_largest_starts_from_the_least_of_its_type() {
    let (_, made) = check(&[], |b, _| {
        let x = b.literal(DType::S8, &[2, 2], "{{-7, -9}, {-128, -127}}");
        b.max_of(x, &[1])
    });
    assert_eq!(numbers(&made), [-7.0, -127.0]);
    let least = |dtype| {
        let mut b = Builder::new("m");
        let x = b.parameter("x", Shape::array(dtype, &[2]));
        let y = b.max_of(x, &[0]);
        print(&b.finish(y))
    };
    assert!(least(DType::S16).contains("s16[] constant(-32768)"), "{}", least(DType::S16));
    assert!(
        least(DType::F32).contains("f32[] constant(-inf)") && least(DType::U8).contains("u8[] constant(0)")
    );
}

#[test]
fn running_sums_and_places_of_the_largest() {
    let (_, made) = check(&[], |b, _| {
        let x = b.literal(DType::F32, &[2, 3], "{{1, 2, 3}, {4, 5, 6}}");
        b.cumsum(x, 1)
    });
    assert_eq!(numbers(&made), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    let (_, made) = check(&[], |b, _| {
        let x = b.literal(DType::F32, &[2, 3], "{{1, 7, 7}, {9, 5, 6}}");
        b.argmax(x, 1)
    });
    assert_eq!(numbers(&made), [1.0, 0.0]);
}

#[test]
fn what_changes_nothing_is_left_out() {
    check(&[&[2, 3]], |b, x| {
        assert_eq!(
            [b.reshape(x[0], &[2, 3]), b.transpose(x[0], &[0, 1]), b.broadcast(x[0], &[2, 3], &[0, 1])],
            [x[0]; 3]
        );
        assert_eq!([b.slice_in(x[0], 1, 0, 3), b.sum(x[0], &[]), b.convert(x[0], DType::F32)], [x[0]; 3]);
        let whole = b.convert(x[0], DType::S32);
        assert_eq!((b.dtype(whole), b.convert(whole, DType::S32)), (DType::S32, whole));
        let rest = b.slice_in(x[0], 1, 1, 3);
        assert_eq!(b.dims(rest)[..], [2, 2]);
        let moved = b.reshape(rest, &[4]);
        assert_ne!(moved, rest);
        moved
    });
}

#[test]
fn a_computation_of_several_parameters_is_packed_for_a_loop() {
    let mut b = Builder::new("m");
    let scalar = Shape::array(DType::F32, &[]);
    b.begin("packed");
    let (x, y) = (b.argument("x", scalar.clone()), b.argument("y", scalar.clone()));
    let sum = b.add(x, y);
    let both = b.tuple(&[sum, y]);
    let comp = b.end_packed(both);
    let x = b.parameter("x", scalar);
    let pair = b.tuple(&[x, x]);
    let made = b.call(comp, &[pair]);
    let first = b.element(made, 0);
    let again = Instr { ..b.instrs()[first.index()].clone() };
    let second = b.copy_of(&again, &[made]);
    let root = b.add(first, second);
    let module = b.finish(root);
    assert_eq!(verify(&module), [], "{}", print(&module));
    let three = crate::eval::Array::from_vec(DType::F32, &[], vec![3.0_f32]).expect("a number");
    let made = run(&module, &[three.into()], &Options::default()).expect("it runs");
    assert_eq!(numbers(&made), [12.0]);
}

#[test]
fn computations_are_set_aside_reopened_and_named_apart() {
    let scalar = || Shape::array(DType::F32, &[]);
    let mut b = Builder::new("m");
    b.begin("f");
    let x = b.parameter("x", scalar());
    let aside = b.leave();
    b.begin("f");
    let y = b.parameter("y", scalar());
    let second = b.end(y);
    b.enter(aside);
    assert_eq!(&*b.instrs()[x.index()].name, "x");
    let first = b.end(x);
    let names: Vec<&str> = b.comps().iter().map(|comp| &*comp.name).collect();
    assert_eq!(names, ["f", "f.1"]);
    b.reopen(second);
    let doubled = b.add(y, y);
    b.close(second, doubled);
    let x = b.parameter("x", scalar());
    let twice = b.call(second, &[x]);
    let root = b.call(first, &[twice]);
    let module = b.finish(root);
    assert_eq!(verify(&module), [], "{}", print(&module));
    let three = crate::eval::Array::from_vec(DType::F32, &[], vec![3.0_f32]).expect("a number");
    assert_eq!(numbers(&run(&module, &[three.into()], &Options::default()).expect("it runs")), [6.0]);
}

#[test]
fn a_resumed_program_s_reducers_are_used_again() {
    let resumed = |comp: &str| {
        let text = format!("r {{ {comp} }}\nENTRY e {{ ROOT x = f32[2] parameter(0) }}");
        let module = parse(&text).expect("legal");
        let root = module.entry().root;
        let mut b = Builder::resume(module);
        let sum = b.sum(root, &[0]);
        b.finish(sum).comps.len()
    };
    let plain = "a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b)";
    assert_eq!(resumed(plain), 2);
    for other in [
        plain.replace("add(a, b)", "add(b, a)"),
        plain.replace("f32", "f64"),
        plain.replace("ROOT", "d = f32[] negate(a) ROOT"),
        plain.replace("f32[]", "f32[1]"),
        plain.replace("add(", "maximum("),
    ] {
        assert_eq!(resumed(&other), 3, "{other}");
    }
    assert_eq!(resumed(&plain.replace("add(a, b)", "add(a, b), metadata={op_name=\"s\"}")), 3);
}

#[test]
fn stated_shapes_have_to_be_what_is_made() {
    let mut b = Builder::new("m");
    let x = b.parameter("x", Shape::array(DType::F32, &[2]));
    let error = b
        .try_shaped(Opcode::Negate, &[x], Shape::array(DType::F32, &[3]), Vec::new())
        .expect_err("two, not three");
    assert_eq!(error.message, "`negate` makes f32[2], which is not what was stated");
    let error = b.try_op(Opcode::Concatenate, &[], Vec::new()).expect_err("of nothing");
    assert_eq!(error.message, "`concatenate` takes at least 1 operands, not 0");
    assert!(b.try_shaped(Opcode::Negate, &[x], Shape::array(DType::F32, &[2]), Vec::new()).is_ok());
}
