//! Batch normalisation, as arithmetic on whole arrays.

use super::binary::apply;
use super::combine::Combiner;
use super::map::map_in_place;
use super::movement::transposed;
use super::reduce::last_reduced;
use super::value::{Array, Data, Sizes, Value};
use super::{Call, convert};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::opcode::Opcode::{Add, Divide, Multiply, Subtract};

/// The features last, everything else first; computed in `f64`.
struct Case {
    dtype: DType,
    /// Number of elements per feature.
    n: usize,
    back: Sizes,
    order: Sizes,
    epsilon: Array,
}

impl Case {
    fn of(call: &Call, input: &Array) -> Result<Case> {
        let feature = call.view.instr.int(Key::FeatureIndex).map_or(0, |dim| dim as usize);
        let epsilon = call.view.instr.word(Key::Epsilon).and_then(|text| text.parse::<f64>().ok());
        let epsilon = epsilon.ok_or_else(|| Diagnostic::error("batch normalisation needs `epsilon`"))?;
        let order: Sizes = (0..input.rank()).filter(|&dim| dim != feature).chain([feature]).collect();
        let mut back = order.clone();
        order.iter().enumerate().for_each(|(at, &dim)| back[dim] = at);
        let n = input.len() / input.dims()[feature].max(1);
        Ok(Case { dtype: input.dtype(), n, back, order, epsilon: Array::scalar(DType::F64, epsilon) })
    }

    fn laid(&self, array: Array) -> Array {
        transposed(convert::convert(array, DType::F64), &self.order)
    }

    /// A per-feature array as one like the input.
    fn wide(&self, array: &Array, like: &Array) -> Result<Array> {
        let n_features = array.len();
        let flat = array.clone().buf::<f64>()?;
        let rows = flat.broadcast((like.len() / n_features.max(1), n_features));
        let rows = rows.ok_or_else(|| Diagnostic::error("sizes do not fit"))?.into_dyn();
        Ok(Array::exact(DType::F64, Data::F64(super::value::owned(rows))).reshaped(like.dims()))
    }

    fn sum(&self, call: &Call, array: &Array) -> Result<Array> {
        let rank = array.rank();
        let order: Sizes = std::iter::once(rank - 1).chain(0..rank - 1).collect();
        let columns = transposed(array.clone(), &order).reshaped(&[array.dims()[rank - 1], self.n]);
        let zero = Array::zeros(DType::F64, &[]);
        let made = last_reduced(call, &Combiner::Known(vec![Add]), vec![columns], vec![zero])?;
        made.into_iter().next().ok_or_else(|| Diagnostic::error("a sum is missing"))
    }

    fn mean(&self, call: &Call, array: &Array) -> Result<Array> {
        apply(Divide, self.sum(call, array)?, Array::scalar(DType::F64, self.n as f64))
    }

    /// `1 / sqrt(variance + epsilon)`.
    fn scale_of(&self, variance: Array) -> Result<Array> {
        let wide = apply(Add, variance, self.epsilon.clone())?;
        let made = map_in_place(wide.buf::<f64>()?, |x| 1.0 / x.sqrt());
        Ok(Array::exact(DType::F64, Data::F64(made)))
    }

    /// `(input - mean) * scale`.
    fn normal(&self, input: &Array, mean: &Array, scale: &Array) -> Result<Array> {
        let centered = apply(Subtract, input.clone(), self.wide(mean, input)?)?;
        apply(Multiply, centered, self.wide(scale, input)?)
    }

    fn done(&self, array: Array) -> Value {
        convert::convert(transposed(array, &self.back), self.dtype).into()
    }
}

fn arrays(args: Vec<Value>) -> Result<Vec<Array>> {
    args.into_iter().map(Value::array).collect()
}

fn double(array: &Array) -> Array {
    convert::convert(array.clone(), DType::F64)
}

/// `batch-norm-training`: output, mean, variance.
pub(crate) fn training(call: &Call, args: Vec<Value>) -> Result<Value> {
    let args = arrays(args)?;
    let case = Case::of(call, &args[0])?;
    let input = case.laid(args[0].clone());
    let mean = case.mean(call, &input)?;
    let centered = apply(Subtract, input.clone(), case.wide(&mean, &input)?)?;
    let variance = case.mean(call, &apply(Multiply, centered.clone(), centered)?)?;
    let scale = apply(Multiply, case.scale_of(variance.clone())?, double(&args[1]))?;
    let normal = case.normal(&input, &mean, &scale)?;
    let output = apply(Add, normal, case.wide(&double(&args[2]), &input)?)?;
    let narrow = |array| Value::from(convert::convert(array, case.dtype));
    Ok(Value::Tuple(vec![case.done(output), narrow(mean), narrow(variance)]))
}

/// `batch-norm-inference`.
pub(crate) fn inference(call: &Call, args: Vec<Value>) -> Result<Value> {
    let args = arrays(args)?;
    let case = Case::of(call, &args[0])?;
    let input = case.laid(args[0].clone());
    let scale = apply(Multiply, case.scale_of(double(&args[4]))?, double(&args[1]))?;
    let normal = case.normal(&input, &double(&args[3]), &scale)?;
    Ok(case.done(apply(Add, normal, case.wide(&double(&args[2]), &input)?)?))
}

/// `batch-norm-grad`: gradients of input, scale and offset.
pub(crate) fn grad(call: &Call, args: Vec<Value>) -> Result<Value> {
    let args = arrays(args)?;
    let case = Case::of(call, &args[0])?;
    let (input, output) = (case.laid(args[0].clone()), case.laid(args[4].clone()));
    let inverse = case.scale_of(double(&args[3]))?;
    let normal = case.normal(&input, &double(&args[2]), &inverse)?;
    let offset = case.sum(call, &output)?;
    let scale = case.sum(call, &apply(Multiply, output.clone(), normal.clone())?)?;
    // scale/sqrt(var+eps) * (g - mean(g) - normal * mean(g * normal))
    let count = || Array::scalar(DType::F64, case.n as f64);
    let mean = case.wide(&apply(Divide, offset.clone(), count())?, &input)?;
    let slope = case.wide(&apply(Divide, scale.clone(), count())?, &input)?;
    let centered = apply(Subtract, apply(Subtract, output, mean)?, apply(Multiply, normal, slope)?)?;
    let factor = case.wide(&apply(Multiply, inverse, double(&args[1]))?, &input)?;
    let narrow = |array| Value::from(convert::convert(array, case.dtype));
    Ok(Value::Tuple(vec![case.done(apply(Multiply, centered, factor)?), narrow(scale), narrow(offset)]))
}

#[cfg(test)]
mod tests {
    use crate::eval::check::check;

    #[test]
    fn features_are_normalised_each() {
        let training = "x: f32[2,2]; s: f32[2]; o: f32[2]; ROOT y = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0, feature_index=1";
        check(
            training,
            &["{{1, 10}, {3, 30}}", "{1, 2}", "{0, 5}"],
            "({{-1, 3}, {1, 7}}, {2, 20}, {1, 100})",
        );
        let inference = "x: f32[2,2]; s: f32[2]; ROOT y = f32[2,2] batch-norm-inference(x, s, s, s, s), epsilon=3, feature_index=0";
        check(inference, &["{{1, 3}, {1, 3}}", "{1, 1}"], "{{1, 2}, {1, 2}}");
    }

    #[test]
    fn gradients_sum_to_zero() {
        let grad = "x: f32[2,1]; s: f32[1]; g: f32[2,1]; ROOT y = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, s, s, g), epsilon=0, feature_index=1";
        check(grad, &["{{0}, {2}}", "{1}", "{{1}, {5}}"], "({{0}, {0}}, {4}, {6})");
    }
}
