//! The same elements elsewhere.

use super::node::{Cx, Value};
use super::{index, tensor};
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::build::dimensions;
use phzc_ir::{Attr, DType, Diagnostic, InstrId, Key, Opcode, Result, attr};

/// A dimension that is padded by its own elements is not larger afterwards.
const MAX_PLACES: usize = 1 << 20;

/// `Reshape`: 0 keeps a size, -1 takes what is left.
pub(super) fn reshape(cx: &mut Cx) -> Result<InstrId> {
    let (x, mut dims) = (cx.input(0)?, cx.ints(1)?);
    let own = cx.b.dims(x);
    if cx.attr_int("allowzero", 0) == 0 {
        let kept = dims.iter_mut().zip(own.iter().map(Some).chain(std::iter::repeat(None)));
        kept.for_each(|(size, own)| *size = if *size == 0 { own.copied().unwrap_or(0) } else { *size });
    }
    let rest: i64 = dims.iter().filter(|&&size| size != -1).fold(1, |n: i64, &size| n.saturating_mul(size));
    let n: i64 = own.iter().product();
    if let Some(size) = dims.iter_mut().find(|size| **size == -1) {
        *size = if rest > 0 { n / rest } else { 0 };
    }
    cx.reshape(x, &dims)
}

/// `Flatten`: into two dimensions.
pub(super) fn flatten(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let (dims, axis) = (cx.b.dims(x), cx.attr_int("axis", 1));
    let axis = if axis == dims.len() as i64 { dims.len() } else { cx.axis(axis, dims.len())? };
    cx.reshape(x, &[dims[..axis].iter().product(), dims[axis..].iter().product()])
}

/// `Squeeze`: without dimensions of size 1.
pub(super) fn squeeze(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let dims = cx.b.dims(x);
    let ones = (0..dims.len()).filter(|&dim| dims[dim] == 1).collect();
    let axes = cx.axes_given(1)?.map_or(Ok(ones), |axes| cx.axes(&axes, dims.len()))?;
    let kept: Vec<i64> = (0..dims.len()).filter(|dim| !axes.contains(dim)).map(|dim| dims[dim]).collect();
    cx.reshape(x, &kept)
}

/// `Unsqueeze`: with new dimensions of size 1.
pub(super) fn unsqueeze(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let missing = || Diagnostic::error("`axes` is missing");
    let (mut dims, axes) = (cx.b.dims(x), cx.axes_given(1)?.ok_or_else(missing)?);
    let axes = cx.axes(&axes, dims.len() + axes.len())?;
    axes.iter().for_each(|&axis| dims.insert(axis, 1));
    cx.reshape(x, &dims)
}

/// `Transpose`: to the opposite order, unless `perm` says which.
pub(super) fn transpose(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let rank = cx.b.rank(x);
    let order = cx.attr_ints("perm").unwrap_or_else(|| (0..rank as i64).rev().collect());
    let all = cx.axes(&order, rank)?;
    let order = order.iter().map(|&axis| cx.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
    match all.len() == rank {
        true => Ok(cx.b.transpose(x, &order)),
        false => Err(Diagnostic::error(format!("`perm` {order:?} of an array of rank {rank}"))),
    }
}

/// `Expand`: both are broadcast against each other.
pub(super) fn expand(cx: &mut Cx) -> Result<InstrId> {
    let (x, wanted) = (cx.input(0)?, cx.ints(1)?);
    let dims = super::node::common(&cx.b.dims(x), &wanted)?;
    cx.broadcast_to(x, &dims)
}

/// `Tile`: each dimension repeated.
pub(super) fn tile(cx: &mut Cx) -> Result<InstrId> {
    let (x, repeats) = (cx.input(0)?, cx.ints(1)?);
    let dims = cx.b.dims(x);
    if repeats.len() != dims.len() {
        return Err(Diagnostic::error(format!("{repeats:?} repeats of sizes {dims:?}")));
    }
    let split: Vec<i64> = repeats.iter().zip(&dims).flat_map(|(&n, &size)| [n, size]).collect();
    tensor::checked(&split)?;
    let at: Vec<usize> = (0..dims.len()).map(|dim| 2 * dim + 1).collect();
    let repeated = cx.b.broadcast(x, &split, &at);
    let joined: Vec<i64> = split.chunks(2).map(|pair| pair[0] * pair[1]).collect();
    cx.reshape(repeated, &joined)
}

/// `Concat`.
pub(super) fn concat(cx: &mut Cx) -> Result<InstrId> {
    let (first, parts) = (cx.input(0)?, cx.all()?);
    let axis = cx.attr_axis(first, 0)?;
    cx.op(Opcode::Concatenate, &parts, vec![dimensions(Key::Dimensions, &[axis])])
}

/// `Split`: by sizes, or into as many equal parts as there are outputs; the last may be smaller.
pub(super) fn split(cx: &mut Cx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (axis, n_parts) = (cx.attr_axis(x, 0)?, cx.node.output.len().max(1) as i64);
    let size = cx.b.dims(x)[axis];
    let part = (size + n_parts - 1) / n_parts;
    let equal = (0..n_parts).map(|at| part.min(size - (part * at).min(size))).collect();
    let sizes = if cx.has(1) { cx.ints(1)? } else { equal };
    let sum = sizes.iter().try_fold(0i64, |sum, &size| sum.checked_add(size).filter(|_| size >= 0));
    if sum != Some(size) {
        return Err(Diagnostic::error(format!("a dimension of size {size} cannot be split into {sizes:?}")));
    }
    let ends = sizes.iter().scan(0, |end, &size| {
        *end += size;
        Some((*end - size, *end))
    });
    Ok(ends.map(|(start, end)| Value::Made(cx.b.slice_in(x, axis, start, end))).collect())
}

/// `Slice`: bounds are clamped, negative ones count from the end, steps may be negative.
pub(super) fn slice(cx: &mut Cx) -> Result<InstrId> {
    let mut x = cx.input(0)?;
    let (starts, ends, dims) = (cx.ints(1)?, cx.ints(2)?, cx.b.dims(x));
    let axes = if cx.has(3) { cx.ints(3)? } else { (0..starts.len() as i64).collect() };
    let steps = if cx.has(4) { cx.ints(4)? } else { vec![1; starts.len()] };
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(Diagnostic::error("starts, ends, axes and steps must be as many"));
    }
    let mut cuts: Vec<SliceDim> =
        dims.iter().map(|&size| SliceDim { start: 0, limit: size, stride: 1 }).collect();
    for at in 0..axes.len() {
        let axis = cx.axis(axes[at], dims.len())?;
        let (cut, is_reverse) = cut(dims[axis], starts[at], ends[at], steps[at])?;
        cuts[axis] = cut;
        if is_reverse {
            x = cx.b.reverse(x, &[axis]);
        }
    }
    let is_whole =
        cuts.iter().zip(&dims).all(|(cut, &size)| (cut.start, cut.limit, cut.stride) == (0, size, 1));
    let cuts = Attr { key: Key::Slice, value: attr::Value::Slices(cuts) };
    if is_whole { Ok(x) } else { cx.op(Opcode::Slice, &[x], vec![cuts]) }
}

/// The part of a dimension, and whether it is one of the reversed dimension.
fn cut(size: i64, start: i64, end: i64, step: i64) -> Result<(SliceDim, bool)> {
    let [start, end] = [start, end].map(|at| if at < 0 { at.saturating_add(size) } else { at });
    let cut = |start: i64, end: i64| SliceDim { start, limit: end.max(start), stride: step.saturating_abs() };
    match step {
        0 => Err(Diagnostic::error("a step of 0")),
        1.. => Ok((cut(start.clamp(0, size), end.clamp(0, size)), false)),
        _ => {
            let mirrored = |at: i64| size - 1 - at.clamp(-1, size - 1);
            Ok((cut(mirrored(start), mirrored(end)), true))
        }
    }
}

/// `Pad`: with a value, or with the array's own elements.
pub(super) fn pad(cx: &mut Cx) -> Result<InstrId> {
    let (x, pads) = (cx.input(0)?, cx.ints(1)?);
    let rank = cx.b.rank(x);
    let all: Vec<i64> = (0..rank as i64).collect();
    let axes = if cx.has(3) { cx.ints(3)? } else { all };
    let limit = 1 << 31;
    if pads.len() != 2 * axes.len() || pads.iter().any(|pad| !(-limit..=limit).contains(pad)) {
        return Err(Diagnostic::error(format!("`pads` {pads:?} for {} dimensions", axes.len())));
    }
    let mut dims = vec![PadDim::default(); rank];
    for (at, &axis) in axes.iter().enumerate() {
        let axis = cx.axis(axis, rank)?;
        dims[axis] = PadDim { low: pads[at], high: pads[axes.len() + at], interior: 0 };
    }
    let mode = cx.attr_text("mode", "constant");
    if mode != "constant" {
        return own_elements(cx, x, &dims, &mode);
    }
    let dtype = cx.b.dtype(x);
    let value = cx.optional(2)?.unwrap_or_else(|| cx.b.scalar(dtype, 0.0));
    let value = cx.reshape(value, &[])?;
    let padding = Attr { key: Key::Padding, value: attr::Value::Padding(dims.into_iter().collect()) };
    cx.op(Opcode::Pad, &[x, value], vec![padding])
}

/// Padding by the elements at other places of each dimension.
fn own_elements(cx: &mut Cx, mut x: InstrId, dims: &[PadDim], mode: &str) -> Result<InstrId> {
    for (axis, pad) in dims.iter().enumerate().filter(|(_, pad)| (pad.low, pad.high) != (0, 0)) {
        let size = cx.b.dims(x)[axis];
        let place = |at: i64| match mode {
            "edge" if size > 0 => Some(at.clamp(0, size - 1)),
            "wrap" if size > 0 => Some(at.rem_euclid(size)),
            "reflect" if size > 1 => {
                let at = at.rem_euclid(2 * size - 2);
                Some(if at < size { at } else { 2 * size - 2 - at })
            }
            _ => None,
        };
        let all = (-pad.low..size + pad.high).take(MAX_PLACES + 1);
        let places: Option<Vec<String>> = all.map(|at| place(at).map(|at| at.to_string())).collect();
        let places = places.filter(|places| places.len() <= MAX_PLACES);
        let wrong = || Diagnostic::error(format!("`mode` is `{mode}` for a dimension of size {size}"));
        let places = places.ok_or_else(wrong)?;
        let text = format!("{{{}}}", places.join(", "));
        let places = cx.b.literal(DType::S64, &[places.len() as i64], &text);
        x = index::take(cx, x, axis, places)?;
    }
    Ok(x)
}

/// The sizes of an image and its features in squares of `blocksize`.
fn blocks(cx: &mut Cx) -> Result<(InstrId, [i64; 4], i64)> {
    let (x, block) = (cx.input(0)?, cx.attr_int("blocksize", 0));
    let legal = <[i64; 4]>::try_from(&cx.b.dims(x)[..]).ok().filter(|_| (1..1 << 15).contains(&block));
    let wrong = || Diagnostic::error(format!("a block of {block} needs an image of rank 4"));
    Ok((x, legal.ok_or_else(wrong)?, block))
}

/// `DepthToSpace`: features become squares.
pub(super) fn depth_to_space(cx: &mut Cx) -> Result<InstrId> {
    let (x, [n, c, h, w], b) = blocks(cx)?;
    let rest = c / (b * b);
    let is_dcr = cx.attr_text("mode", "DCR") == "DCR";
    let (split, order) = match is_dcr {
        true => ([n, b, b, rest, h, w], [0, 3, 4, 1, 5, 2]),
        false => ([n, rest, b, b, h, w], [0, 1, 4, 2, 5, 3]),
    };
    let split = cx.reshape(x, &split)?;
    let moved = cx.b.transpose(split, &order);
    cx.reshape(moved, &[n, rest, h * b, w * b])
}

/// `SpaceToDepth`: squares become features.
pub(super) fn space_to_depth(cx: &mut Cx) -> Result<InstrId> {
    let (x, [n, c, h, w], b) = blocks(cx)?;
    let split = cx.reshape(x, &[n, c, h / b, b, w / b, b])?;
    let is_dcr = cx.attr_text("mode", "DCR") == "DCR";
    let moved = cx.b.transpose(split, if is_dcr { &[0, 3, 5, 1, 2, 4] } else { &[0, 1, 3, 5, 2, 4] });
    cx.reshape(moved, &[n, c * b * b, h / b, w / b])
}
