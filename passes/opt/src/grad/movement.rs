//! Derivatives of ops that move elements: the same elements back.

use super::scope::Cx;
use phzc_ir::attr::{PadDim, SliceDim, Value};
use phzc_ir::{InstrId, Key, Opcode, Result};

/// The dimensions that a list attribute names.
pub(super) fn dims(cx: &Cx, key: Key) -> Vec<usize> {
    cx.instr.ints(key).iter().map(|&dim| dim as usize).collect()
}

/// The operand's sizes again.
pub(super) fn reshape(cx: &mut Cx) -> Result<()> {
    let (ct, shape) = (cx.ct(), cx.shape(0));
    if shape.dtype != cx.result().dtype {
        return Err(cx.refuse("it looks at the bits of its operand"));
    }
    let made = cx.b.reshape(ct, &shape.dims);
    cx.give(0, made);
    Ok(())
}

/// The sum over what was repeated.
pub(super) fn broadcast(cx: &mut Cx) -> Result<()> {
    let (ct, at) = (cx.ct(), dims(cx, Key::Dimensions));
    let repeated: Vec<usize> = (0..cx.result().rank()).filter(|dim| !at.contains(dim)).collect();
    let sum = cx.b.sum(ct, &repeated);
    let mut sorted = at.clone();
    sorted.sort_unstable();
    let order: Vec<usize> = at.iter().filter_map(|dim| sorted.binary_search(dim).ok()).collect();
    let made = cx.b.transpose(sum, &order);
    cx.give(0, made);
    Ok(())
}

/// The opposite order.
pub(super) fn transpose(cx: &mut Cx) -> Result<()> {
    let (ct, order) = (cx.ct(), dims(cx, Key::Dimensions));
    let made = cx.b.transpose(ct, &inverse(&order));
    cx.give(0, made);
    Ok(())
}

/// The permutation that undoes another.
pub(super) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    back
}

/// The opposite order again.
pub(super) fn reverse(cx: &mut Cx) -> Result<()> {
    let (ct, along) = (cx.ct(), dims(cx, Key::Dimensions));
    let made = cx.b.reverse(ct, &along);
    cx.give(0, made);
    Ok(())
}

/// A part of an array of zeros.
pub(super) fn slice(cx: &mut Cx) -> Result<()> {
    let (ct, id) = (cx.ct(), cx.instr.operands[0]);
    let Some(Value::Slices(slices)) = cx.instr.attr(Key::Slice) else { return Ok(()) };
    let slices = slices.clone();
    cx.scope.give_piece(cx.b, (id, 0), slices, ct);
    Ok(())
}

/// The slices that were put after one another.
pub(super) fn concatenate(cx: &mut Cx) -> Result<()> {
    let (ct, dim) = (cx.ct(), dims(cx, Key::Dimensions)[0]);
    let mut start = 0;
    for operand in 0..cx.instr.operands.len() {
        let limit = start + cx.shape(operand).dims[dim];
        cx.give_with(operand, |cx| cx.b.slice_in(ct, dim, start, limit));
        start = limit;
    }
    Ok(())
}

/// What is not padding; and for the padding the sum of what is.
pub(super) fn pad(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    let Some(Value::Padding(padding)) = cx.instr.attr(Key::Padding) else { return Ok(()) };
    let padding = padding.clone();
    let inside = unpadded(cx, ct, &padding);
    cx.give_with(0, |_| inside);
    cx.give_with(1, |cx| {
        let all: Vec<usize> = (0..padding.len()).collect();
        let [all_of_it, inside] = [ct, inside].map(|part| cx.b.sum(part, &all));
        cx.b.sub(all_of_it, inside)
    });
    Ok(())
}

fn unpadded(cx: &mut Cx, ct: InstrId, padding: &[PadDim]) -> InstrId {
    let sizes = cx.shape(0).dims;
    let is_cropped = padding.iter().any(|dim| dim.low < 0 || dim.high < 0);
    let (mut whole, mut starts): (InstrId, Vec<i64>) = (ct, padding.iter().map(|dim| dim.low).collect());
    if is_cropped {
        // What was cropped has no cotangent; then nothing is left before or after the operand.
        let zero = cx.b.scalar(cx.result().dtype, 0.0);
        let back: Vec<PadDim> =
            padding.iter().map(|dim| PadDim { low: -dim.low, high: -dim.high, interior: 0 }).collect();
        whole = cx.b.pad(ct, zero, &back);
        starts = vec![0; padding.len()];
    }
    let slices = padding.iter().zip(&sizes).zip(starts).map(|((dim, &size), start)| {
        let limit = start + if size == 0 { 0 } else { (size - 1) * (dim.interior + 1) + 1 };
        SliceDim { start, limit, stride: dim.interior + 1 }
    });
    let slices: Vec<SliceDim> = slices.collect();
    if *cx.b.dims(whole) == *sizes {
        return whole;
    }
    cx.b.op(Opcode::Slice, &[whole], vec![phzc_ir::Attr { key: Key::Slice, value: Value::Slices(slices) }])
}
