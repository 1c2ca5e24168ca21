//! Rules about parts and wholes: slices, concatenations, padding.

use super::broadcasts::{Spread, spread};
use super::draft::Draft;
use super::rules::{Made, broadcast, dims, instead, on};
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::{Attr, Instr, InstrId, Key, Opcode, Shape, Value};

fn ranges(instr: &Instr) -> Option<&[SliceDim]> {
    match instr.attr(Key::Slice) {
        Some(Value::Slices(ranges)) => Some(ranges),
        _ => None,
    }
}

fn slice_attr(ranges: Vec<SliceDim>) -> Attr {
    Attr { key: Key::Slice, value: Value::Slices(ranges) }
}

/// Whether the instruction makes an array without elements, of which parts say little.
fn is_empty(instr: &Instr) -> bool {
    instr.shape.as_array().is_none_or(|array| array.dims.contains(&0))
}

/// A slice, a pad, an update that changes nothing but the instruction: it has the shape of its operand.
fn same(cx: &Draft, instr: &Instr, x: InstrId) -> Option<Made> {
    (cx.instr(x).shape == instr.shape).then_some(Made::Value(x))
}

pub(super) fn slice_nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    same(cx, instr, instr.operands[0])
}

pub(super) fn slice_of_slice(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let inner = cx.made_by(instr.operands[0], Opcode::Slice).filter(|_| !is_empty(instr))?;
    let sizes = &instr.shape.as_array()?.dims;
    let both = ranges(inner)?.iter().zip(ranges(instr)?).zip(sizes);
    let joined = both.map(|((first, second), &size)| {
        let stride = first.stride.checked_mul(second.stride).filter(|_| size > 1).unwrap_or(1);
        let start = first.start + second.start * first.stride;
        SliceDim { start, limit: start + (size - 1) * stride + 1, stride }
    });
    instead(instr, Opcode::Slice, &[inner.operands[0]], vec![slice_attr(joined.collect())])
}

/// Of copies: the copies that are wanted, of the part that is wanted.
pub(super) fn slice_of_broadcast(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let Spread { x, at } = spread(cx, instr.operands[0]).filter(|_| !is_empty(instr))?;
    let (all, result) = (ranges(instr)?, instr.shape.as_array()?);
    let sizes: Vec<i64> = at.iter().map(|&dim| result.dims[dim]).collect();
    let own: Vec<SliceDim> = at.iter().map(|&dim| all[dim]).collect();
    let part = cx.add(Opcode::Slice, &[x], Shape::array(result.dtype, &sizes), vec![slice_attr(own)]);
    broadcast(instr, part, &at)
}

/// A part that lies within one of the operands.
pub(super) fn slice_of_concatenate(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let whole = cx.made_by(instr.operands[0], Opcode::Concatenate).filter(|_| !is_empty(instr))?;
    let dim = *dims(whole, Key::Dimensions).first()?;
    let mut ranges = ranges(instr)?.to_vec();
    let SliceDim { start, limit, .. } = ranges[dim];
    let mut before = 0;
    for &part in &whole.operands {
        let size = cx.array(part)?.dims[dim];
        if before <= start && limit <= before + size {
            (ranges[dim].start, ranges[dim].limit) = (start - before, limit - before);
            return instead(instr, Opcode::Slice, &[part], vec![slice_attr(ranges)]);
        }
        before += size;
    }
    None
}

/// A part that has nothing of the padding.
pub(super) fn slice_of_pad(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let pad = cx.made_by(instr.operands[0], Opcode::Pad).filter(|_| !is_empty(instr))?;
    let sizes = &cx.array(pad.operands[0])?.dims;
    let inside = ranges(instr)?.iter().zip(padding(pad)?).zip(sizes).map(|((range, pad), &size)| {
        let (start, limit) = (range.start - pad.low, range.limit - pad.low);
        (pad.interior == 0 && start >= 0 && limit <= size).then_some(SliceDim { start, limit, ..*range })
    });
    let inside = inside.collect::<Option<Vec<SliceDim>>>()?;
    instead(instr, Opcode::Slice, &[pad.operands[0]], vec![slice_attr(inside)])
}

pub(super) fn dynamic_slice_whole(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    same(cx, instr, instr.operands[0])
}

/// At places that are known; those out of range are moved into it, as the op does.
pub(super) fn dynamic_slice_constant(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let (&x, starts) = instr.operands.split_first()?;
    let (from, to) = (&cx.array(x)?.dims, &instr.shape.as_array()?.dims);
    if starts.len() != from.len() {
        return None;
    }
    let range = |((&start, &whole), &size): ((&InstrId, &i64), &i64)| {
        let start = cx.element(start)?.parse::<i128>().ok()?.clamp(0, i128::from(whole - size)) as i64;
        Some(SliceDim { start, limit: start + size, stride: 1 })
    };
    let ranges = starts.iter().zip(from).zip(to).map(range).collect::<Option<Vec<SliceDim>>>()?;
    instead(instr, Opcode::Slice, &[x], vec![slice_attr(ranges)])
}

/// An update of everything.
pub(super) fn update_whole(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    same(cx, instr, *instr.operands.get(1)?)
}

pub(super) fn concatenate_one(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    if instr.operands.len() == 1 { same(cx, instr, instr.operands[0]) } else { None }
}

/// Operands without elements add nothing.
pub(super) fn concatenate_empty(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let is_full = |&id: &InstrId| !is_empty(cx.instr(id));
    let full: Vec<InstrId> = instr.operands.iter().copied().filter(is_full).collect();
    let is_shorter = !full.is_empty() && full.len() < instr.operands.len();
    if is_shorter { on(instr, &full) } else { None }
}

/// Of neighbouring parts of one array: one part of it.
pub(super) fn concatenate_of_slices(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let dim = *dims(instr, Key::Dimensions).first()?;
    let first = cx.made_by(instr.operands[0], Opcode::Slice)?;
    let (x, mut all) = (first.operands[0], ranges(first)?.to_vec());
    for &id in &instr.operands[1..] {
        let next = cx.made_by(id, Opcode::Slice).filter(|next| next.operands[0] == x)?;
        let next = ranges(next)?;
        let is_neighbour = all.iter().zip(next).enumerate().all(|(at, (known, next))| match at == dim {
            true => known.limit == next.start && known.stride == 1 && next.stride == 1,
            false => known == next,
        });
        all[dim].limit = is_neighbour.then_some(next[dim].limit)?;
    }
    instead(instr, Opcode::Slice, &[x], vec![slice_attr(all)])
}

fn padding(instr: &Instr) -> Option<&[PadDim]> {
    match instr.attr(Key::Padding) {
        Some(Value::Padding(padding)) => Some(padding),
        _ => None,
    }
}

pub(super) fn pad_nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let is_none = padding(instr)?.iter().all(|dim| (dim.low, dim.high) == (0, 0));
    if is_none { same(cx, instr, instr.operands[0]) } else { None }
}

/// Padding around padding of the same value.
pub(super) fn pad_of_pad(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let inner =
        cx.made_by(instr.operands[0], Opcode::Pad).filter(|it| it.operands[1] == instr.operands[1])?;
    let (first, second) = (padding(inner)?, padding(instr)?);
    let is_plain = |dim: &PadDim| dim.low >= 0 && dim.high >= 0 && dim.interior == 0;
    if !first.iter().chain(second).all(is_plain) {
        return None;
    }
    let sum = |(a, b): (&PadDim, &PadDim)| PadDim { low: a.low + b.low, high: a.high + b.high, interior: 0 };
    let sums = Value::Padding(first.iter().zip(second).map(sum).collect());
    instead(instr, Opcode::Pad, &inner.operands, vec![Attr { key: Key::Padding, value: sums }])
}
