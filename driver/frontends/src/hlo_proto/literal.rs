//! Literals: one list of elements per type, written as HLO's text.

use super::message::Literal;
use crate::element::{from_bytes, nest};
use phzc_ir::text::number::number;
use phzc_ir::{ArrayShape, DType, Diagnostic, Result, Shape};

/// The literal of a constant; `{...}` where the protobuf leaves it out.
pub(super) fn literal(proto: Option<&Literal>, shape: &Shape) -> Result<String> {
    match (proto, shape) {
        (Some(proto), Shape::Tuple(parts)) => {
            let inner =
                parts.iter().enumerate().map(|(index, part)| literal(proto.tuple_literals.get(index), part));
            Ok(format!("({})", inner.collect::<Result<Vec<_>>>()?.join(", ")))
        }
        (Some(proto), Shape::Array(array)) => array_text(proto, array),
        (None, Shape::Array(array)) if array.rank() > 0 => Ok("{...}".to_owned()),
        _ => Err(Diagnostic::error("a constant is an array or a tuple of arrays, and has a literal")),
    }
}

fn array_text(proto: &Literal, array: &ArrayShape) -> Result<String> {
    let elements = elements(proto, array);
    if elements.len() as f64 != array.n_elements() {
        let message = format!("a literal of {} elements has {}", array.n_elements(), elements.len());
        return Err(Diagnostic::error(message));
    }
    let mut out = String::with_capacity(elements.len() * 8);
    nest(&array.dims, &mut elements.into_iter(), &mut out);
    Ok(out)
}

/// The elements, row-major.
fn elements(proto: &Literal, array: &ArrayShape) -> Vec<String> {
    let dtype = array.dtype;
    let float = |value: f64| number(dtype, value);
    let pairs = |parts: &mut dyn Iterator<Item = String>| {
        let parts: Vec<String> = parts.collect();
        parts.chunks(2).map(|pair| format!("({})", pair.join(", "))).collect()
    };
    match dtype {
        // In an array truth values are digits.
        DType::Pred if array.rank() > 0 => {
            proto.preds.iter().map(|&flag| u8::from(flag).to_string()).collect()
        }
        DType::Pred => proto.preds.iter().map(bool::to_string).collect(),
        DType::S32 => proto.s32s.iter().map(i32::to_string).collect(),
        DType::S64 => proto.s64s.iter().map(i64::to_string).collect(),
        DType::U32 => proto.u32s.iter().map(u32::to_string).collect(),
        DType::U64 => proto.u64s.iter().map(u64::to_string).collect(),
        DType::F32 => proto.f32s.iter().map(|&value| float(f64::from(value))).collect(),
        DType::F64 => proto.f64s.iter().map(|&value| float(value)).collect(),
        DType::C64 => pairs(&mut proto.c64s.iter().map(|&value| number(DType::F32, f64::from(value)))),
        DType::C128 => pairs(&mut proto.c128s.iter().map(|&value| number(DType::F64, value))),
        _ => from_packed(bytes_of(proto, dtype), array),
    }
}

/// The bytes of the other types' elements.
fn bytes_of(proto: &Literal, dtype: DType) -> &[u8] {
    match dtype {
        DType::S1 => &proto.s1s,
        DType::S2 => &proto.s2s,
        DType::S4 => &proto.s4s,
        DType::S8 => &proto.s8s,
        DType::S16 => &proto.s16s,
        DType::U1 => &proto.u1s,
        DType::U2 => &proto.u2s,
        DType::U4 => &proto.u4s,
        DType::U8 => &proto.u8s,
        DType::U16 => &proto.u16s,
        DType::F16 => &proto.f16s,
        DType::Bf16 => &proto.bf16s,
        DType::F4e2m1fn => &proto.f4e2m1fns,
        DType::F8e3m4 => &proto.f8e3m4s,
        DType::F8e4m3 => &proto.f8e4m3s,
        DType::F8e4m3fn => &proto.f8e4m3fns,
        DType::F8e4m3b11fnuz => &proto.f8e4m3b11fnuzs,
        DType::F8e4m3fnuz => &proto.f8e4m3fnuzs,
        DType::F8e5m2 => &proto.f8e5m2s,
        DType::F8e5m2fnuz => &proto.f8e5m2fnuzs,
        DType::F8e8m0fnu => &proto.f8e8m0fnus,
        _ => &[],
    }
}

/// Elements of whole bytes, or several per byte, the first in the low bits.
fn from_packed(bytes: &[u8], array: &ArrayShape) -> Vec<String> {
    let bits = array.dtype.bits() as usize;
    if bits >= 8 {
        return bytes.chunks(bits / 8).map(|chunk| from_bytes(array.dtype, chunk)).collect();
    }
    let per_byte = 8 / bits;
    let n = (array.n_elements() as usize).min(bytes.len() * per_byte);
    let element =
        |index: usize| from_bytes(array.dtype, &[bytes[index / per_byte] >> (index % per_byte * bits)]);
    (0..n).map(element).collect()
}
