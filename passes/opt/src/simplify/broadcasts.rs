//! Rules about copies of elements: broadcasts, constants of equal elements, iota.

use super::draft::Draft;
use super::rules::{Made, broadcast, dims, filled, instead};
use phzc_ir::attr::Attr;
use phzc_ir::build::dimensions;
use phzc_ir::ops::literal::splat;
use phzc_ir::{ArrayShape, Instr, InstrId, Key, Opcode, Shape, Value};

/// A broadcast: what, and where its dimensions are.
pub(super) struct Spread {
    pub x: InstrId,
    pub at: Vec<usize>,
}

/// The broadcast that makes a value, none of whose dimensions is stretched from size 1.
pub(super) fn spread(cx: &Draft, id: InstrId) -> Option<Spread> {
    let instr = cx.made_by(id, Opcode::Broadcast)?;
    let (x, at) = (instr.operands[0], dims(instr, Key::Dimensions));
    let (from, to) = (cx.array(x)?, cx.array(id)?);
    from.dims.iter().zip(&at).all(|(&size, &at)| to.dims[at] == size).then_some(Spread { x, at })
}

/// A constant of two or more elements that are all alike.
pub(super) fn constant_of_equals(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    instr.shape.as_array().filter(|array| array.n_elements() > 1.0)?;
    filled(cx, instr, splat(instr)?)
}

/// Numbers that count a dimension of size 1 are zeros.
pub(super) fn iota_of_one(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let along = instr.int(Key::IotaDimension)? as usize;
    if instr.shape.as_array()?.dims.get(along) == Some(&1) { filled(cx, instr, "0") } else { None }
}

pub(super) fn nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = instr.operands[0];
    let is_identity = dims(instr, Key::Dimensions).into_iter().eq(0..instr.shape.as_array()?.rank());
    (is_identity && cx.instr(x).shape == instr.shape).then_some(Made::Value(x))
}

pub(super) fn of_broadcast(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let inner = cx.made_by(instr.operands[0], Opcode::Broadcast)?;
    let outer = dims(instr, Key::Dimensions);
    let at: Vec<usize> = dims(inner, Key::Dimensions).into_iter().map(|dim| outer[dim]).collect();
    broadcast(instr, inner.operands[0], &at)
}

/// Of a reshape that only adds dimensions of size 1.
pub(super) fn of_reshape(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = cx.operand_of(instr.operands[0], Opcode::Reshape)?;
    let (from, to) = (cx.array(x)?, cx.array(instr.operands[0])?);
    let outer = dims(instr, Key::Dimensions);
    let is_long = |&dim: &usize| to.dims[dim] != 1;
    let at: Vec<usize> = (0..to.rank()).filter(is_long).map(|dim| outer[dim]).collect();
    let long = to.dims.iter().filter(|&&size| size != 1);
    if from.dims.iter().eq(long) { broadcast(instr, x, &at) } else { None }
}

pub(super) fn of_iota(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let Spread { x, at } = spread_of(cx, instr)?;
    let along = cx.made_by(x, Opcode::Iota)?.int(Key::IotaDimension)? as usize;
    iota(instr, at[along])
}

fn spread_of(cx: &Draft, instr: &Instr) -> Option<Spread> {
    let (x, at) = (instr.operands[0], dims(instr, Key::Dimensions));
    let to = instr.shape.as_array()?;
    let is_whole = cx.array(x)?.dims.iter().zip(&at).all(|(&size, &at)| to.dims[at] == size);
    is_whole.then_some(Spread { x, at })
}

/// The instruction's value as numbers that count a dimension.
pub(super) fn iota(instr: &Instr, along: usize) -> Option<Made> {
    let along = Attr { key: Key::IotaDimension, value: Value::Int(along as i64) };
    instead(instr, Opcode::Iota, &[], vec![along])
}

/// A broadcast that only adds dimensions of size 1.
pub(super) fn as_reshape(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let Spread { x, at } = spread_of(cx, instr)?;
    let is_sorted = at.windows(2).all(|pair| pair[0] < pair[1]);
    let is_same = cx.array(x)?.n_elements() == instr.shape.as_array()?.n_elements();
    if is_sorted && is_same { instead(instr, Opcode::Reshape, &[x], Vec::new()) } else { None }
}

/// An elementwise op on broadcasts alike is a broadcast of the op on what they copy.
pub(super) fn under_elementwise(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let result = instr.shape.as_array().filter(|array| array.rank() > 0)?;
    let is_scalar = |id: InstrId| cx.array(id).is_some_and(|array| array.rank() == 0);
    let arrays: Vec<InstrId> = instr.operands.iter().copied().filter(|&id| !is_scalar(id)).collect();
    let spreads = arrays.iter().map(|&id| spread(cx, id)).collect::<Option<Vec<Spread>>>()?;
    let is_alike = arrays.iter().all(|&id| cx.array(id).is_some_and(|array| array.dims == result.dims));
    // Copies of scalars are alike with all others.
    let model = spreads.iter().find(|own| !own.at.is_empty()).or(spreads.first()).filter(|_| is_alike)?;
    let inner = ArrayShape::new(result.dtype, &cx.array(model.x)?.dims);
    if spreads.iter().any(|own| own.at != model.at && !own.at.is_empty()) {
        return None;
    }
    let at = model.at.clone();
    let mut spreads = spreads.iter();
    let mut operands = instr.operands.clone();
    for operand in operands.iter_mut().filter(|id| arrays.contains(id)) {
        *operand = small(cx, spreads.next()?, &inner);
    }
    let attrs = instr.attrs.iter().filter(|attr| is_meaning(&attr.key)).cloned().collect();
    let small = cx.add(instr.op, &operands, Shape::Array(inner), attrs);
    broadcast(instr, small, &at)
}

/// What is copied, in the sizes of `inner`.
fn small(cx: &mut Draft, own: &Spread, inner: &ArrayShape) -> InstrId {
    if !own.at.is_empty() || inner.rank() == 0 {
        return own.x;
    }
    let dtype = cx.array(own.x).map_or(inner.dtype, |array| array.dtype);
    cx.add(
        Opcode::Broadcast,
        &[own.x],
        Shape::array(dtype, &inner.dims),
        vec![dimensions(Key::Dimensions, &[])],
    )
}

/// Attributes that say what an elementwise op computes.
fn is_meaning(key: &Key) -> bool {
    matches!(key, Key::Direction | Key::Type | Key::ExponentBits | Key::MantissaBits | Key::ResultAccuracy)
}
