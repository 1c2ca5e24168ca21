//! Operations of CHLO that HLO has no opcode for, as XLA writes them out.
//!
//! `expand/*.hlo` are programs of scalars that XLA itself made (`tools/chlo_expansions.py`); they are
//! repeated here instruction by instruction on arrays.

use phzc_ir::build::Builder;
use phzc_ir::{ArrayShape, DType, Instr, InstrId, Opcode, Payload, Shape, parse};

macro_rules! programs {
    ($($name:literal),*) => {
        /// The program of an operation on `f32` or, if `wide`, `f64`.
        fn program(name: &str, wide: bool) -> Option<&'static str> {
            match (name, wide) {
                $(
                    ($name, false) => Some(include_str!(concat!("expand/", $name, ".f32.hlo"))),
                    ($name, true) => Some(include_str!(concat!("expand/", $name, ".f64.hlo"))),
                )*
                _ => None,
            }
        }
    };
}

programs!("bessel_i1e", "cosh", "digamma", "erf_inv", "erfc", "lgamma", "next_after", "sinh");

/// Appends the instructions of an operation on arrays of one type; narrower floats are computed as `f32`, as
/// XLA does.
///
/// # Errors
/// Says what is not known: the operation, or the type of its elements.
pub(super) fn expand(
    b: &mut Builder,
    name: &str,
    array: &ArrayShape,
    args: &[InstrId],
) -> Result<InstrId, String> {
    let is_narrow = matches!(array.dtype, DType::Bf16 | DType::F16);
    if !is_narrow && !matches!(array.dtype, DType::F32 | DType::F64) || is_narrow && name == "next_after" {
        return Err(format!("`{name}` of `{}` elements is not read", array.dtype.as_str()));
    }
    let text = program(name, array.dtype == DType::F64);
    let module = text.and_then(|text| parse(text).ok()).ok_or_else(|| format!("`{name}` is not read"))?;
    let wide = if is_narrow { DType::F32 } else { array.dtype };
    let convert = |b: &mut Builder, id, dtype| if is_narrow { b.convert(id, dtype) } else { id };
    let args: Vec<InstrId> = args.iter().map(|&arg| convert(b, arg, wide)).collect();
    let mut made: Vec<InstrId> = Vec::new();
    for instr in &module.entry().instrs {
        let id = match &instr.payload {
            Payload::Parameter(number) => args.get(*number as usize).copied(),
            _ => Some(on_arrays(b, instr, array, &made)?),
        };
        made.push(id.ok_or_else(|| format!("`{name}` lacks an operand"))?);
    }
    Ok(convert(b, made[module.entry().root.index()], array.dtype))
}

/// One instruction of scalars, on arrays.
fn on_arrays(
    b: &mut Builder,
    instr: &Instr,
    array: &ArrayShape,
    made: &[InstrId],
) -> Result<InstrId, String> {
    let dtype = instr.shape.as_array().map_or(DType::F32, |scalar| scalar.dtype);
    if let Payload::Literal(text) = &instr.payload {
        let scalar = b.literal(dtype, &[], text);
        return Ok(b.broadcast(scalar, &array.dims, &[]));
    }
    debug_assert!(instr.op != Opcode::Broadcast, "the programs are of scalars");
    let operands: Vec<InstrId> = instr.operands.iter().map(|operand| made[operand.index()]).collect();
    let made = b.try_shaped(instr.op, &operands, Shape::array(dtype, &array.dims), instr.attrs.clone());
    made.map_err(|error| error.message)
}
