//! Every rule against central differences, in 64-bit floats.

mod choice;
mod control;
mod shapes;

use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::build::Builder;
use phzc_ir::eval::{Array, Options, Value, inputs, run};
use phzc_ir::{DType, InstrId, Module, Opcode, parse, print};
use phzc_pass::manager::{self, Hooks};
use phzc_pass::pass::Context;

const STEP: f64 = 1e-5;

/// A program whose only result is a weighted sum of everything that `text`'s entry returns.
fn scalar(text: &str) -> Module {
    let module = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let root = module.entry().root;
    let mut b = Builder::resume(module);
    let outputs: Vec<InstrId> =
        if b.shape(root).as_array().is_some() { vec![root] } else { b.elements(root) };
    let outputs = outputs.into_iter().filter(|&id| b.dtype(id) == DType::F64);
    let mut loss = None;
    for output in outputs.collect::<Vec<_>>() {
        let all: Vec<usize> = (0..b.rank(output)).collect();
        let n: i64 = b.dims(output).iter().product();
        let weights = b.iota(DType::F64, &[n], 0);
        let weights = b.shift(weights, 1.0);
        let weights = b.sin(weights);
        let dims = b.dims(output);
        let weights = b.reshape(weights, &dims);
        let weighted = b.mul(output, weights);
        let sum = b.sum(weighted, &all);
        loss = Some(loss.map_or(sum, |loss| b.add(loss, sum)));
    }
    b.finish(loss.expect("an output of floats"))
}

/// The program after a pipeline.
fn after(module: &Module, pipeline: &str) -> Module {
    let mut module = module.clone();
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    let pipeline = crate::testing::pipeline(pipeline).expect("a legal pipeline");
    let ran = manager::run(&mut module, &pipeline, &mut Context::new(&cluster), &mut hooks);
    ran.unwrap_or_else(|errors| panic!("{errors:?}\n{}", print(&module)));
    module
}

fn numbers(value: &Value) -> Vec<f64> {
    value.leaves()[0].to_f64_vec()
}

fn evaluated(module: &Module, given: &[Value]) -> Value {
    run(module, given, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{}", print(module)))
}

/// The derivative of the only result by an element, from values on both sides of it.
fn slope(module: &Module, given: &[Value], param: usize, element: usize) -> f64 {
    let at = |step: f64| {
        let mut moved = given.to_vec();
        let Value::Array(array) = &given[param] else { panic!("parameters are arrays") };
        let mut values = array.to_f64_vec();
        values[element] += step;
        let dims = array.dims().to_vec();
        moved[param] = Value::Array(Array::from_vec(DType::F64, &dims, values).expect("as many elements"));
        numbers(&evaluated(module, &moved))[0]
    };
    (at(STEP) - at(-STEP)) / (2.0 * STEP)
}

/// Asserts that the gradients of a weighted sum of the results by all float parameters are the slopes.
fn check_program(text: &str) -> Module {
    let forward = scalar(text);
    let module = after(&forward, "grad{wrt=all}");
    let given = inputs(&forward, 3).expect("fixed shapes");
    let made = evaluated(&module, &given);
    let Value::Tuple(parts) = &made else { panic!("a loss and gradients") };
    assert_eq!(numbers(&parts[0]), numbers(&evaluated(&forward, &given)), "the loss stays");
    let is_float = |&at: &usize| matches!(&given[at], Value::Array(array) if array.dtype() == DType::F64);
    let floats: Vec<usize> = (0..given.len()).filter(is_float).collect();
    assert_eq!(parts.len(), 1 + floats.len());
    for (&param, gradient) in floats.iter().zip(&parts[1..]) {
        for (element, found) in numbers(gradient).into_iter().enumerate() {
            let wanted = slope(&forward, &given, param, element);
            let error = (found - wanted).abs() / wanted.abs().max(1.0);
            assert!(error < 1e-6, "d/d{param}[{element}]: {found}, not {wanted}\n{}", print(&module));
        }
    }
    module
}

/// The same for instructions after `x = f64[2,3]`, `p` (the same, positive) and `w = f64[3,2]`; the last is
/// the result.
fn check(instrs: &str) -> Module {
    let shared = "add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] add(a, b) }
        max { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] maximum(a, b) }
        min { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] minimum(a, b) }
        mul { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] multiply(a, b) }
        set { a = f64[] parameter(0) ROOT b = f64[] parameter(1) }
        less { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] parameter(2) d = f64[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
        largest {
          a = f64[] parameter(0) i = s32[] parameter(1) b = f64[] parameter(2) j = s32[] parameter(3)
          g = pred[] compare(a, b), direction=GE v = f64[] select(g, a, b) k = s32[] select(g, i, j)
          ROOT r = (f64[], s32[]) tuple(v, k)
        }";
    let params = "x = f64[2,3] parameter(0) w = f64[3,2] parameter(1) p = f64[2,3] exponential(x) zero = f64[] constant(0)";
    check_program(&format!("{shared} ENTRY e {{ {params} {instrs} }}"))
}

#[test]
fn elementwise_ops_of_one_operand() {
    for op in
        ["negate", "abs", "exponential", "exponential-minus-one", "tanh", "tan", "logistic", "sine", "cosine"]
    {
        check(&format!("ROOT y = f64[2,3] {op}(x)"));
    }
    for op in ["sinh", "cosh", "asin", "acos", "asinh", "atanh", "erf", "copy", "cbrt"] {
        check(&format!("ROOT y = f64[2,3] {op}(x)"));
    }
    for op in ["log", "log-plus-one", "sqrt", "rsqrt", "acosh"] {
        check(&format!("q = f64[2,3] add(p, p) ROOT y = f64[2,3] {op}(q)"));
    }
}

#[test]
fn elementwise_ops_of_several_operands() {
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "atan2", "remainder"] {
        check(&format!("t = f64[2,3] reshape(w) q = f64[2,3] exponential(t) ROOT y = f64[2,3] {op}(p, q)"));
        check(&format!("q = f64[2,3] sine(p) ROOT y = f64[2,3] {op}(p, q)"));
    }
    for exponent in ["1", "2", "3", "-0.5", "0"] {
        check(&format!(
            "c = f64[] constant({exponent}) q = f64[2,3] broadcast(c), dimensions={{}} ROOT y = f64[2,3] power(p, q)"
        ));
    }
    check("ROOT y = f64[2,3] multiply(x, x)");
    check(
        "t = f64[2,3] reshape(w) c = pred[2,3] compare(x, t), direction=LT ROOT y = f64[2,3] select(c, p, t)",
    );
    check("a = f64[] constant(-0.2) b = f64[] constant(0.2) ROOT y = f64[2,3] clamp(a, x, b)");
    check("t = f64[2,3] reshape(w) n = f64[2,3] negate(p) ROOT y = f64[2,3] clamp(n, t, x)");
}

#[test]
fn moved_elements() {
    check("ROOT y = f64[3,2] transpose(x), dimensions={1,0}");
    check("ROOT y = f64[4,2,5,3] broadcast(x), dimensions={1,3}");
    check("ROOT y = f64[3,5,2] broadcast(x), dimensions={2,0}");
    check("ROOT y = f64[6] reshape(x)");
    check("ROOT y = f64[2,2] slice(x), slice={[0:2],[0:3:2]}");
    check("ROOT y = f64[2,3] reverse(x), dimensions={1}");
    check("t = f64[2,3] reshape(w) ROOT y = f64[2,6] concatenate(x, t), dimensions={1}");
    let scalar = "v = f64[1,1] slice(w), slice={[0:1],[0:1]} s = f64[] reshape(v)";
    check(&format!("{scalar} ROOT y = f64[5,9] pad(x, s), padding=1_2x1_3_1"));
    check(&format!("{scalar} ROOT y = f64[3,4] pad(x, s), padding=-1_2x-1_2"));
}

#[test]
fn slices_that_make_up_an_array_are_put_together_again() {
    let text = "a = f64[2,1] slice(x), slice={[0:2],[0:1]} b = f64[2,1] slice(x), slice={[0:2],[2:3]}
        q = f64[2,1] multiply(a, b) c = f64[2,2] slice(p), slice={[0:2],[1:3]} d = f64[1,3] slice(p), slice={[0:1],[0:3]}
        ROOT y = (f64[2,1], f64[2,2], f64[1,3]) tuple(q, c, d)";
    let module = check(text);
    let of = |op: Opcode| module.entry().instrs.iter().filter(|instr| instr.op == op).count();
    assert_eq!((of(Opcode::Concatenate), of(Opcode::Pad)), (1, 2));
}

#[test]
fn products() {
    check("ROOT y = f64[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    check("ROOT y = f64[3,3] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={1}");
    check(
        "a = f64[2,3,4] broadcast(x), dimensions={0,1} b = f64[5,3,4,2] broadcast(w), dimensions={1,3}
        i = f64[2,3,4] sine(a) j = f64[5,3,4,2] cosine(b)
        ROOT y = f64[3,2,5,2] dot(i, j), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
    );
}

#[test]
fn a_weight_s_gradient_needs_no_transpose() {
    let module = check("ROOT y = f64[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    assert!(!module.entry().instrs.iter().any(|instr| instr.op == Opcode::Transpose), "{}", print(&module));
}

#[test]
fn convolutions() {
    let conv = |input: &str, kernel: &str, rest: &str| {
        let params = format!("x = f64[{input}] parameter(0) k = f64[{kernel}] parameter(1)");
        check_program(&format!("ENTRY e {{ {params} ROOT y = convolution(x, k), {rest} }}"));
    };
    conv("2,5,2", "3,2,4", "window={size=3}, dim_labels=b0f_0io->b0f");
    conv("2,5,2", "3,2,4", "window={size=3 stride=2 pad=1_2}, dim_labels=b0f_0io->b0f");
    conv("2,6,2", "2,2,4", "window={size=2 stride=3 pad=0_1 rhs_dilate=2}, dim_labels=b0f_0io->b0f");
    conv("2,4,2", "3,2,4", "window={size=3 pad=2_1 lhs_dilate=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f");
    conv("2,4,4,3", "3,3,2,5", "window={size=3x2 stride=1x2 pad=1_1x0_1}, dim_labels=b01f_0i1o->f0b1");
    conv("2,5,6", "3,2,9", "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=3");
    conv("2,6,5", "9,2,3", "window={size=3 stride=2}, dim_labels=bf0_oi0->bf0, feature_group_count=3");
}

#[test]
fn reductions() {
    for (op, init) in [("add", "0"), ("max", "-inf"), ("min", "inf"), ("mul", "1")] {
        check(&format!(
            "i = f64[] constant({init}) ROOT y = f64[2] reduce(x, i), dimensions={{1}}, to_apply={op}"
        ));
        check(&format!(
            "i = f64[] constant({init}) ROOT y = f64[] reduce(x, i), dimensions={{0,1}}, to_apply={op}"
        ));
    }
    let zeros =
        "z = f64[2,3] constant({{1,0,1},{0,1,0}}) q = f64[2,3] multiply(x, z) one = f64[] constant(1)";
    check(&format!("{zeros} ROOT y = f64[2] reduce(q, one), dimensions={{1}}, to_apply=mul"));
    check(
        "i = s32[2,3] iota(), iota_dimension=1 n = f64[] constant(-inf) none = s32[] constant(0)
        r = (f64[2], s32[2]) reduce(x, i, n, none), dimensions={1}, to_apply=largest
        ROOT y = f64[2] get-tuple-element(r), index=0",
    );
}

#[test]
fn windows() {
    check("ROOT y = f64[2,3] reduce-window(x, zero), window={size=1x3 pad=0_0x2_0}, to_apply=add");
    check("ROOT y = f64[2,2] reduce-window(x, zero), window={size=1x2 stride=1x2 pad=0_0x0_1}, to_apply=add");
    check(
        "i = f64[] constant(-inf) ROOT y = f64[2,2] reduce-window(x, i), window={size=1x2 stride=1x2 pad=0_0x0_1}, to_apply=max",
    );
    check("i = f64[] constant(inf) ROOT y = f64[1,2] reduce-window(x, i), window={size=2x2}, to_apply=min");
}

#[test]
fn elements_at_computed_places() {
    let one = "i = s32[] constant(1) o = s32[] constant(0)";
    check(&format!("{one} ROOT y = f64[2,2] dynamic-slice(x, o, i), dynamic_slice_sizes={{2,2}}"));
    check(&format!(
        "{one} a = f64[1,3] dynamic-slice(x, i, o), dynamic_slice_sizes={{1,3}} b = f64[2,3] multiply(x, x) c = f64[1,3] slice(b), slice={{[1:2],[0:3]}} ROOT y = f64[1,3] multiply(a, c)"
    ));
    check(&format!(
        "{one} t = f64[2,2] slice(w), slice={{[0:2],[0:2]}} ROOT y = f64[2,3] dynamic-update-slice(x, t, o, i)"
    ));
    check(
        "i = s32[4] constant({2, 0, 7, 0}) ROOT y = f64[4,2] gather(w, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}",
    );
    check(
        "i = s32[4,2] constant({{0,2},{1,0},{0,9},{0,0}}) ROOT y = f64[4,1] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
    );
    let scatter = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";
    let updates = "u = f64[4,2] pad(w, zero), padding=0_1x0_0";
    check(&format!(
        "{updates} i = s32[4] constant({{2, 0, 7, 0}}) q = f64[3,2] reshape(x) ROOT y = f64[3,2] scatter(q, i, u), {scatter}, to_apply=add"
    ));
    check(&format!(
        "{updates} i = s32[4] constant({{2, 0, 7, 1}}) q = f64[3,2] reshape(x) ROOT y = f64[3,2] scatter(q, i, u), {scatter}, unique_indices=true, to_apply=set"
    ));
}

#[test]
fn sorted_elements() {
    check(
        "t = f64[2,3] reshape(w) s = (f64[2,3], f64[2,3]) sort(x, t), dimensions={1}, to_apply=less
        a = f64[2,3] get-tuple-element(s), index=0 b = f64[2,3] get-tuple-element(s), index=1
        ROOT y = (f64[2,3], f64[2,3]) tuple(a, b)",
    );
    check(
        "s = (f64[2,2], s32[2,2]) topk(x), k=2, largest=true ROOT y = f64[2,2] get-tuple-element(s), index=0",
    );
}

#[test]
fn a_maximum_that_cancels_has_no_gradient() {
    let softmax = "i = f64[] constant(-inf) m = f64[2] reduce(x, i), dimensions={1}, to_apply=max b = f64[2,3] broadcast(m), dimensions={0}
        s = f64[2,3] subtract(x, b) e = f64[2,3] exponential(s) n = f64[2] reduce(e, zero), dimensions={1}, to_apply=add";
    let compares = |module: &Module| module.entry().instrs.iter().any(|instr| instr.op == Opcode::Compare);
    let probabilities = "d = f64[2,3] broadcast(n), dimensions={0} ROOT y = f64[2,3] divide(e, d)";
    assert!(!compares(&check(&format!("{softmax} {probabilities}"))));
    let logarithms =
        "l = f64[2] log(n) d = f64[2,3] broadcast(l), dimensions={0} ROOT y = f64[2,3] subtract(s, d)";
    assert!(!compares(&check(&format!("{softmax} {logarithms}"))));
    assert!(!compares(&check(&format!("{softmax} l = f64[2] log(n) ROOT y = f64[2] add(l, m)"))));
    assert!(compares(&check(&format!("{softmax} ROOT y = f64[2] log(n)"))));
    assert!(compares(&check(&format!("{softmax} l = f64[2] log(n) ROOT y = f64[2] subtract(l, m)"))));
}
