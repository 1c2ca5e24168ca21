//! What is added to a dimension, made to count for nothing where a loop over it reduces.

use crate::spmd::build::Builder;
use phzc_ir::attr::PadDim;
use phzc_ir::dtype::Class;
use phzc_ir::{Attr, DType, InstrId, Key, Opcode, Reducer, Value};

/// The literal that combining with changes nothing; none for types that have no such number.
pub fn neutral(dtype: DType, reducer: Reducer) -> Option<String> {
    let bits = dtype.bits();
    let signed = |at_most: bool| match at_most {
        true => ((1_i128 << (bits - 1)) - 1).to_string(),
        false => (-(1_i128 << (bits - 1))).to_string(),
    };
    let text = match (reducer, dtype.class()) {
        (Reducer::And, Class::Bool) => "true".to_owned(),
        (Reducer::Or | Reducer::Xor, Class::Bool) => "false".to_owned(),
        (_, Class::Bool) => return None,
        (Reducer::Add | Reducer::Or | Reducer::Xor, _) => "0".to_owned(),
        (Reducer::Mul, _) => "1".to_owned(),
        (Reducer::Max, Class::Float) if bits >= 16 => "-inf".to_owned(),
        (Reducer::Min, Class::Float) if bits >= 16 => "inf".to_owned(),
        (Reducer::Max, Class::Signed) => signed(false),
        (Reducer::Min, Class::Signed) => signed(true),
        (Reducer::And, Class::Signed) => "-1".to_owned(),
        (Reducer::Max, Class::Unsigned) => "0".to_owned(),
        (Reducer::Min | Reducer::And, Class::Unsigned) => ((1_i128 << bits) - 1).to_string(),
        _ => return None,
    };
    Some(text)
}

/// The value with `fill` from `size` on along `dim`. The mask is padded, not compared with a number, so that
/// it stays right where `verify` runs smaller sizes.
pub fn masked(build: &mut Builder, value: InstrId, dim: usize, size: i64, fill: &str) -> InstrId {
    let (dtype, dims) = (build.dtype(value), build.dims(value));
    let (yes, no) = (build.constant(DType::Pred, "true"), build.constant(DType::Pred, "false"));
    let ones = build.broadcast(yes, &[size], &[]);
    let rest = PadDim { low: 0, high: dims[dim] - size, interior: 0 };
    let attrs = vec![Attr { key: Key::Padding, value: Value::Padding([rest].into_iter().collect()) }];
    let is_old = build.array(Opcode::Pad, &[ones, no], (DType::Pred, &[dims[dim]]), attrs);
    let is_old = build.broadcast(is_old, &dims, &[dim]);
    let fill = build.constant(dtype, fill);
    let fill = build.broadcast(fill, &dims, &[]);
    build.array(Opcode::Select, &[is_old, value, fill], (dtype, &dims), Vec::new())
}
