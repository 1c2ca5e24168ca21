//! How far results are from those that are wanted.

use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Value};
use phzc_ir::{Computation, DType, Diagnostic, Module, Opcode, Result, Shape, View};

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its type: `f32[8,16]`.
    pub shape: String,
    /// The largest difference over the largest value, taken as no smaller than `FLOOR` times the largest of
    /// all outputs; infinite if one is a number where the other is not.
    pub error: f64,
    /// The largest error that rounding explains; integers have to be the same.
    pub tolerance: f64,
    /// Whether the comparison proves nothing: all wanted values are zero, or none is finite, or they differ
    /// and are equal for being small beside other outputs alone.
    pub says_nothing: bool,
}

impl Output {
    /// Whether both are the same, rounding aside.
    pub fn is_equal(&self) -> bool {
        self.error <= self.tolerance
    }

    /// The same output in one step and in another.
    pub fn and(self, other: Output) -> Output {
        let error = self.error.max(other.error);
        Output { error, says_nothing: self.says_nothing && other.says_nothing, ..self }
    }
}

/// An output that is this much smaller than another may be all rounding: the gradient of a key's bias is zero
/// on paper, for softmax takes no notice of what all its terms share.
const FLOOR: f64 = 1e-4;

/// Compares all leaves of two values.
///
/// # Errors
/// When they have different numbers of leaves or shapes.
pub fn outputs(wanted: &Value, made: &Value, tolerance: f64) -> Result<Vec<Output>> {
    let (wanted, made) = (wanted.leaves(), made.leaves());
    if wanted.len() != made.len() {
        let message = format!("{} outputs are wanted, {} were made", wanted.len(), made.len());
        return Err(Diagnostic::error(message));
    }
    let floats = wanted.iter().filter(|array| is_rounded(array.dtype()));
    let floor = FLOOR * floats.map(|array| largest(&array.to_f64_vec())).fold(0.0, f64::max);
    wanted.into_iter().zip(made).map(|(wanted, made)| output(wanted, made, tolerance, floor)).collect()
}

fn is_rounded(dtype: DType) -> bool {
    matches!(dtype.class(), Class::Float | Class::Complex)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().filter(|x| x.is_finite()).fold(0.0, |max, x| x.abs().max(max))
}

fn output(wanted: &Array, made: &Array, tolerance: f64, floor: f64) -> Result<Output> {
    let (shape, found) = (wanted.type_text(), made.type_text());
    if shape != found {
        return Err(Diagnostic::error(format!("an output should be {shape}, got {found}")));
    }
    let is_exact = !is_rounded(wanted.dtype());
    let (tolerance, floor) = if is_exact { (0.0, 0.0) } else { (tolerance, floor) };
    // Long integers may differ in what an `f64` does not hold.
    let least = if is_exact && wanted != made { f64::EPSILON } else { 0.0 };
    let (wanted, made) = (wanted.to_f64_vec(), made.to_f64_vec());
    let error_over = |floor: f64| error(&wanted, &made, floor).max(least);
    let is_too_small = error_over(floor) <= tolerance && error_over(0.0) > tolerance;
    let says_nothing = is_too_small || says_nothing(&wanted);
    Ok(Output { shape, error: error_over(floor), tolerance, says_nothing })
}

/// Also true without elements: there is nothing to compare.
fn says_nothing(wanted: &[f64]) -> bool {
    wanted.iter().all(|&x| x == 0.0) || wanted.iter().all(|x| !x.is_finite())
}

fn error(wanted: &[f64], made: &[f64], floor: f64) -> f64 {
    let is_other =
        |a: f64, b: f64| !(a.is_finite() && b.is_finite()) && a != b && !(a.is_nan() && b.is_nan());
    if wanted.iter().zip(made).any(|(&a, &b)| is_other(a, b)) {
        return f64::INFINITY;
    }
    let finite = || wanted.iter().zip(made).filter(|(a, _)| a.is_finite());
    let largest = finite().map(|(a, b)| a.abs().max(b.abs())).fold(floor, f64::max);
    let off = finite().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    if off == 0.0 { 0.0 } else { off / largest }
}

/// The largest error that rounding explains: sums in another order differ by some units in the last place of
/// the narrowest floats that the program computes in. 1e-12 for 53 bits of precision, 1e-4 for 24, more for
/// fewer.
pub fn tolerance(module: &Module) -> f64 {
    let instrs = module.comps.iter().flat_map(|comp| comp.instrs.iter().zip(rounds(comp)));
    let shapes = instrs.filter(|(_, rounds)| *rounds).flat_map(|(instr, _)| instr.shape.leaves());
    let of = |shape: &Shape| shape.as_array().map_or(0.0, |array| tolerance_of(array.dtype));
    shapes.map(of).fold(0.0, f64::max)
}

/// Per instruction: whether it computes. Floats of which bits are read or which are made of bits are no
/// arithmetic, and neither are converts for them.
fn rounds(comp: &Computation) -> Vec<bool> {
    let mut found = vec![true; comp.instrs.len()];
    for (id, instr) in comp.iter() {
        if (instr.op.def().reads_bits)(&View { comps: &[], instrs: &comp.instrs, instr }) {
            found[id.index()] = false;
            let converts =
                instr.operands.iter().filter(|&&operand| comp.instr(operand).op == Opcode::Convert);
            converts.for_each(|operand| found[operand.index()] = false);
        }
    }
    found
}

fn tolerance_of(dtype: DType) -> f64 {
    match (dtype.class(), dtype) {
        (Class::Float | Class::Complex, DType::F64 | DType::C128) => 1e-12,
        (Class::Float | Class::Complex, DType::F32 | DType::C64) => 1e-4,
        (Class::Float, DType::F16) => 1e-2,
        (Class::Float, DType::Bf16) => 5e-2,
        (Class::Float, _) => 0.5,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program's constant.
    fn constant(text: &str) -> Array {
        let module = phzc_ir::parse(&format!("HloModule m\nENTRY e {{ ROOT x = {text} }}")).expect("legal");
        let value = phzc_ir::eval::run(&module, &[], &Default::default()).expect("a constant");
        value.leaves()[0].clone()
    }

    fn compared(wanted: Vec<Array>, made: Vec<Array>) -> Vec<Output> {
        let tuple = |arrays: Vec<Array>| Value::Tuple(arrays.into_iter().map(Value::Array).collect());
        super::outputs(&tuple(wanted), &tuple(made), 1e-9).expect("the same shapes")
    }

    #[test]
    fn imaginary_parts_and_last_bits_count() {
        let complex = |im: f64| constant(&format!("c128[] constant((1, {im}))"));
        let long = |last: i64| constant(&format!("s64[] constant({})", (1i64 << 60) + last));
        let found = compared(vec![complex(2.0), long(0)], vec![complex(3.0), long(1)]);
        assert!(found.iter().all(|output| !output.is_equal()), "{found:?}");
        let found = compared(vec![complex(2.0), long(1)], vec![complex(2.0), long(1)]);
        assert!(found.iter().all(Output::is_equal), "{found:?}");
        assert!(!compared(vec![complex(2.0)], vec![complex(2.0)])[0].says_nothing);
    }

    #[test]
    fn what_is_equal_for_being_small_alone_proves_nothing() {
        let [large, small] = ["1e15", "1"].map(|x| constant(&format!("f64[] constant({x})")));
        let other = constant("f64[] constant(0.5)");
        let found = compared(vec![large.clone(), small.clone()], vec![large.clone(), other]);
        assert!(found[1].is_equal() && found[1].says_nothing, "{found:?}");
        let found = compared(vec![large.clone(), small.clone()], vec![large, small]);
        assert!(found[1].is_equal() && !found[1].says_nothing, "{found:?}");
    }

    #[test]
    fn an_output_is_measured_by_a_ten_thousandth_of_the_largest_at_least() {
        let number = |x: f64| constant(&format!("f64[] constant({x})"));
        let found = compared(vec![number(8.0), number(1e-5)], vec![number(8.0), number(5e-5)]);
        assert!((found[1].error - 4e-5 / 8e-4).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn an_error_as_large_as_the_tolerance_is_no_matter_of_size() {
        let [wanted, made] = [2.0, 1.0].map(|x| Value::Array(constant(&format!("f64[] constant({x})"))));
        let found = &super::outputs(&wanted, &made, 0.5).expect("the same shapes")[0];
        assert!(found.is_equal() && !found.says_nothing, "{found:?}");
    }

    #[test]
    fn zeros_and_what_is_not_finite_prove_nothing() {
        let nan = f64::NAN;
        let silent: [&[f64]; 4] = [&[], &[0.0, -0.0], &[nan, nan], &[f64::INFINITY, nan]];
        assert!(silent.iter().all(|wanted| says_nothing(wanted)));
        assert!(!says_nothing(&[nan, 2.0]) && !says_nothing(&[0.0, 1e-30]));
    }

    #[test]
    fn narrow_floats_have_room_for_their_rounding_and_integers_have_none() {
        let types = [DType::F64, DType::C128, DType::F32, DType::C64, DType::F16, DType::Bf16, DType::S8];
        assert_eq!(types.map(tolerance_of), [1e-12, 1e-12, 1e-4, 1e-4, 1e-2, 5e-2, 0.0]);
        assert_eq!(tolerance_of(DType::F8e4m3fn), 0.5);
    }

    #[test]
    fn floats_made_of_bits_are_no_narrow_arithmetic() {
        let tolerance = |body: &str| {
            let text = format!("HloModule m\nENTRY e {{ x = f64[2]{{0}} parameter(0) {body} }}");
            super::tolerance(&phzc_ir::parse(&text).expect("a legal program"))
        };
        let bits =
            "n = f32[2]{0} convert(x) b = u32[2]{0} bitcast-convert(n) f = f32[2]{0} bitcast-convert(b)";
        assert_eq!(tolerance(&format!("{bits} ROOT w = f64[2]{{0}} convert(f)")), 1e-12);
        assert_eq!(tolerance(&format!("{bits} ROOT w = f32[2]{{0}} negate(f)")), 1e-4);
    }

    #[test]
    fn a_number_for_another_or_for_none_is_an_error() {
        assert_eq!(error(&[1.0, 4.0], &[1.0, 3.0], 0.0), 0.25);
        assert_eq!(error(&[1.0, 4.0], &[1.0, 3.0], 100.0), 0.01);
        assert_eq!(error(&[f64::NAN, 1.0], &[f64::NAN, 1.0], 1.0), 0.0);
        assert_eq!(error(&[f64::NAN], &[1.0], 1.0), f64::INFINITY);
        assert_eq!(error(&[1.0], &[f64::INFINITY], 1.0), f64::INFINITY);
    }
}
