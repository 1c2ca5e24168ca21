//! Shapes: element types by their numbers, sizes, physical layouts.

use super::message::{Layout, ProgramShape, Shape};
use phzc_ir::shape::PhysicalLayout;
use phzc_ir::text::shape_text;
use phzc_ir::{ArrayShape, DType, Diagnostic, Result};

/// Numbers of `PrimitiveType`, as in `xla_data.proto`.
const DTYPES: &[(i32, DType)] = &[
    (1, DType::Pred),
    (2, DType::S8),
    (3, DType::S16),
    (4, DType::S32),
    (5, DType::S64),
    (6, DType::U8),
    (7, DType::U16),
    (8, DType::U32),
    (9, DType::U64),
    (10, DType::F16),
    (11, DType::F32),
    (12, DType::F64),
    (15, DType::C64),
    (16, DType::Bf16),
    (18, DType::C128),
    (19, DType::F8e5m2),
    (20, DType::F8e4m3fn),
    (21, DType::S4),
    (22, DType::U4),
    (23, DType::F8e4m3b11fnuz),
    (24, DType::F8e5m2fnuz),
    (25, DType::F8e4m3fnuz),
    (26, DType::S2),
    (27, DType::U2),
    (28, DType::F8e4m3),
    (29, DType::F8e3m4),
    (30, DType::S1),
    (31, DType::U1),
    (32, DType::F4e2m1fn),
    (33, DType::F8e8m0fnu),
];
const TUPLE: i32 = 13;
const OPAQUE: i32 = 14;
const TOKEN: i32 = 17;
const BUFFER: i32 = 34;

/// The shape of a value.
pub(super) fn shape(proto: &Shape) -> Result<phzc_ir::Shape> {
    match proto.element_type {
        TUPLE => proto.tuple_shapes.iter().map(shape).collect::<Result<_>>().map(phzc_ir::Shape::Tuple),
        OPAQUE => Ok(phzc_ir::Shape::Opaque),
        TOKEN => Ok(phzc_ir::Shape::Token),
        BUFFER => {
            let inner = proto.tuple_shapes.first().ok_or_else(|| Diagnostic::error("a buffer of nothing"))?;
            shape(inner).map(|inner| phzc_ir::Shape::Buffer(Box::new(inner)))
        }
        number => array(number, proto).map(phzc_ir::Shape::Array),
    }
}

fn array(number: i32, proto: &Shape) -> Result<ArrayShape> {
    let dtype = DTYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype);
    let dtype = dtype.ok_or_else(|| Diagnostic::error(format!("element type {number} is unknown")))?;
    let rank = proto.dimensions.len();
    if rank > 32 {
        return Err(Diagnostic::error("an array has at most 32 dimensions"));
    }
    let marks = proto.is_dynamic_dimension.iter().take(rank).enumerate();
    let dynamic = marks.fold(0, |bits, (dim, &is_dynamic)| bits | u32::from(is_dynamic) << dim);
    let dims = proto.dimensions.iter().map(|&size| if size < 0 { phzc_ir::shape::UNBOUNDED } else { size });
    let layout = proto.layout.as_ref().filter(|_| rank > 0).map(|proto| layout(proto, rank)).transpose()?;
    Ok(ArrayShape { dtype, dims: dims.collect(), dynamic, layout })
}

fn layout(proto: &Layout, rank: usize) -> Result<PhysicalLayout> {
    let minor_to_major: Vec<i64> = proto.minor_to_major.clone();
    let mut sorted = minor_to_major.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank as i64) {
        return Err(Diagnostic::error(format!(
            "the layout of a rank-{rank} array must name each dimension once"
        )));
    }
    let mut tail = String::new();
    for (index, tile) in proto.tiles.iter().enumerate() {
        // A dimension that is joined with the next one is the least number.
        let size = |&size: &i64| if size == i64::MIN { "*".to_owned() } else { size.to_string() };
        let sizes: Vec<String> = tile.dimensions.iter().map(size).collect();
        tail += &format!("{}({})", if index == 0 { "T" } else { "" }, sizes.join(","));
    }
    if proto.element_size_in_bits > 0 {
        tail += &format!("E({})", proto.element_size_in_bits);
    }
    if proto.memory_space != 0 {
        tail += &format!("S({})", proto.memory_space);
    }
    let tail = (!tail.is_empty()).then(|| tail.into());
    Ok(PhysicalLayout { minor_to_major: minor_to_major.into_iter().map(|dim| dim as u8).collect(), tail })
}

/// `{(f32[2]{0})->f32[]}`, with XLA's count of long lists.
pub(super) fn program(proto: &ProgramShape) -> Result<String> {
    let params: Vec<phzc_ir::Shape> = proto.parameters.iter().map(shape).collect::<Result<_>>()?;
    let result = proto.result.as_ref().map(shape).transpose()?.unwrap_or(phzc_ir::Shape::Tuple(Vec::new()));
    Ok(format!("{{({})->{}}}", counted(&params), text(&result)))
}

fn text(shape: &phzc_ir::Shape) -> String {
    match shape {
        phzc_ir::Shape::Tuple(parts) => format!("({})", counted(parts)),
        other => shape_text(other),
    }
}

fn counted(shapes: &[phzc_ir::Shape]) -> String {
    let mut out = String::new();
    for (index, shape) in shapes.iter().enumerate() {
        if index > 0 {
            out += ", ";
        }
        if index > 0 && index % 5 == 0 {
            out += &format!("/*index={index}*/");
        }
        out += &text(shape);
    }
    out
}
