//! How far results are from those that are wanted.

use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Value};
use phzc_ir::{DType, Diagnostic, Result};

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its type: `f32[8,16]`.
    pub shape: String,
    /// The largest difference over the largest value; infinite if one is a number where the other is not.
    pub error: f64,
    /// The largest error that rounding explains.
    pub tolerance: f64,
}

impl Output {
    /// Whether both are the same, rounding aside.
    pub fn is_equal(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Compares all leaves of two values.
///
/// # Errors
/// When they have different numbers of leaves or shapes.
pub fn outputs(wanted: &Value, made: &Value) -> Result<Vec<Output>> {
    let (wanted, made) = (wanted.leaves(), made.leaves());
    if wanted.len() != made.len() {
        let message = format!("{} outputs are wanted, {} were made", wanted.len(), made.len());
        return Err(Diagnostic::error(message));
    }
    wanted.into_iter().zip(made).map(|(wanted, made)| output(wanted, made)).collect()
}

fn output(wanted: &Array, made: &Array) -> Result<Output> {
    let sizes: Vec<String> = wanted.dims().iter().map(usize::to_string).collect();
    let shape = format!("{}[{}]", wanted.dtype().as_str(), sizes.join(","));
    if (wanted.dtype(), wanted.dims()) != (made.dtype(), made.dims()) {
        return Err(Diagnostic::error(format!("an output should be {shape}, and is not")));
    }
    let error = error(&wanted.to_f64_vec(), &made.to_f64_vec());
    Ok(Output { shape, error, tolerance: tolerance(wanted.dtype()) })
}

fn error(wanted: &[f64], made: &[f64]) -> f64 {
    let differs = |(a, b): &(&f64, &f64)| {
        a.is_finite() != b.is_finite()
            || (!a.is_finite() && a.to_bits() != b.to_bits() && a != b && !(a.is_nan() && b.is_nan()))
    };
    if wanted.iter().zip(made).any(|pair| differs(&pair)) {
        return f64::INFINITY;
    }
    let finite = || wanted.iter().zip(made).filter(|(a, _)| a.is_finite());
    let largest = finite().map(|(a, b)| a.abs().max(b.abs())).fold(0.0, f64::max);
    let off = finite().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    if off == 0.0 { 0.0 } else { off / largest }
}

/// Sums in another order differ by some units in the last place: 1e-4 for 24 bits, in proportion for fewer.
fn tolerance(dtype: DType) -> f64 {
    match dtype.class() {
        Class::Float | Class::Complex => match dtype {
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => 1e-4,
            DType::F16 => 1e-2,
            _ => 1e-1,
        },
        _ => 0.0,
    }
}
