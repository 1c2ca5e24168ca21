//! The same elements elsewhere.

use super::node::{Cx, known};
use crate::onnx::{self, Attribute};
use phzc_ir::{Diagnostic, InstrId, Result};

/// What the lowering of an operator with several outputs makes.
pub(super) type Parts = Result<Vec<Option<InstrId>>>;

/// `view` and others: -1 takes what is left.
pub(super) fn view(cx: &mut Cx, sizes: &str) -> Result<InstrId> {
    let (x, sizes) = (cx.tensor("self")?, cx.list(sizes)?);
    cx.onnx("Reshape", &[x.into(), known(&sizes)], vec![Attribute::int("allowzero", 1)])
}

/// `permute`.
pub(super) fn permute(cx: &mut Cx) -> Result<InstrId> {
    let (x, order) = (cx.tensor("self")?, cx.list("dims")?);
    cx.onnx("Transpose", &[x.into()], vec![Attribute::ints("perm", &order)])
}

/// `transpose` of two dimensions.
pub(super) fn transpose(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    let rank = cx.b.rank(x);
    let (a, b) = (cx.dim("dim0", 0, rank)?, cx.dim("dim1", 0, rank)?);
    Ok(swapped(cx, x, a, b))
}

/// Two dimensions in each other's place.
pub(super) fn swapped(cx: &mut Cx, x: InstrId, a: usize, b: usize) -> InstrId {
    let mut order: Vec<usize> = (0..cx.b.rank(x)).collect();
    order.swap(a, b);
    cx.b.transpose(x, &order)
}

/// `t`: of a matrix.
pub(super) fn t(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    match cx.b.rank(x) {
        0 | 1 => Ok(x),
        2 => Ok(cx.b.transpose(x, &[1, 0])),
        rank => Err(Diagnostic::error(format!("an array of rank {rank} is no matrix"))),
    }
}

/// `unsqueeze`.
pub(super) fn unsqueeze(cx: &mut Cx) -> Result<InstrId> {
    let (x, dim) = (cx.tensor("self")?, cx.int("dim", 0)?);
    cx.onnx("Unsqueeze", &[x.into(), known(&[dim])], Vec::new())
}

/// `squeeze`: of the dimensions named, or of all, those of size 1.
pub(super) fn squeeze(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    let (dims, named) = (cx.b.dims(x), cx.dims("dim", cx.b.rank(x))?);
    let kept: Vec<i64> =
        (0..dims.len()).filter(|dim| dims[*dim] != 1 || !named.contains(dim)).map(|dim| dims[dim]).collect();
    cx.plain().reshape(x, &kept)
}

/// `expand`: -1 keeps a size.
pub(super) fn expand(cx: &mut Cx) -> Result<InstrId> {
    let (x, mut sizes) = (cx.tensor("self")?, cx.list("size")?);
    let own = cx.b.dims(x);
    let first = sizes.len().saturating_sub(own.len());
    for (size, own) in sizes.iter_mut().skip(first).zip(&own) {
        *size = if *size == -1 { *own } else { *size };
    }
    cx.plain().broadcast_to(x, &sizes)
}

/// `broadcast_tensors`: all in the sizes that they have together.
pub(super) fn broadcast_tensors(cx: &mut Cx) -> Parts {
    let all = cx.tensors("tensors")?;
    let dims = cx.plain().common_dims(&all)?;
    all.into_iter().map(|x| cx.plain().broadcast_to(x, &dims).map(Some)).collect()
}

/// `expand_as` and `view_as`.
pub(super) fn like_other(cx: &mut Cx, is_view: bool) -> Result<InstrId> {
    let (x, other) = (cx.tensor("self")?, cx.tensor("other")?);
    let dims = cx.b.dims(other);
    if is_view { cx.plain().reshape(x, &dims) } else { cx.plain().broadcast_to(x, &dims) }
}

/// `slice`, with a step.
pub(super) fn slice(cx: &mut Cx) -> Result<InstrId> {
    let (x, dim) = (cx.tensor("self")?, cx.int("dim", 0)?);
    let (start, end, step) = (cx.int("start", 0)?, cx.int("end", i64::MAX)?, cx.int("step", 1)?);
    cut(cx, x, dim, [start, end, step])
}

fn cut(cx: &mut Cx, x: InstrId, dim: i64, [start, end, step]: [i64; 3]) -> Result<InstrId> {
    let inputs = [x.into(), known(&[start]), known(&[end]), known(&[dim]), known(&[step])];
    cx.onnx("Slice", &inputs, Vec::new())
}

/// `narrow`: so many elements from a place on.
pub(super) fn narrow(cx: &mut Cx) -> Result<InstrId> {
    let (x, dim) = (cx.tensor("self")?, cx.int("dim", 0)?);
    let (start, length) = (cx.int("start", 0)?, cx.int("length", 0)?);
    let size = cx.b.dims(x)[onnx::axis(dim, cx.b.rank(x))?];
    let start = if start < 0 { start.saturating_add(size) } else { start };
    cut(cx, x, dim, [start, start.saturating_add(length), 1])
}

/// `select`: one place of a dimension, without it.
pub(super) fn select(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    let (dim, index) = (cx.dim("dim", 0, cx.b.rank(x))?, cx.int("index", 0)?);
    let size = cx.b.dims(x)[dim];
    let at = if index < 0 { index.saturating_add(size) } else { index };
    if !(0..size).contains(&at) {
        return Err(Diagnostic::error(format!("place {index} of a dimension of size {size}")));
    }
    part(cx, x, dim, at)
}

/// One place of a dimension, without it.
fn part(cx: &mut Cx, x: InstrId, dim: usize, at: i64) -> Result<InstrId> {
    let mut dims = cx.b.dims(x);
    let one = cx.b.slice_in(x, dim, at, at + 1);
    dims.remove(dim);
    cx.plain().reshape(one, &dims)
}

/// The tensors of a list, in the type of the result.
fn parts(cx: &mut Cx) -> Result<Vec<InstrId>> {
    let (all, dtype) = (cx.tensors("tensors")?, cx.out()?);
    match all.is_empty() {
        true => Err(Diagnostic::error("there are no tensors")),
        false => Ok(all.into_iter().map(|x| cx.cast(x, dtype)).collect()),
    }
}

/// `cat`; empty lists beside arrays of other ranks count as nothing.
pub(super) fn cat(cx: &mut Cx) -> Result<InstrId> {
    let mut all = parts(cx)?;
    if all.iter().any(|&x| *cx.b.dims(x) != [0]) {
        all.retain(|&x| *cx.b.dims(x) != [0]);
    }
    let dim = cx.dim("dim", 0, cx.b.rank(all[0]))?;
    joined(cx, &all, dim)
}

fn joined(cx: &mut Cx, all: &[InstrId], dim: usize) -> Result<InstrId> {
    if let [one] = all {
        return Ok(*one);
    }
    let inputs: Vec<onnx::Value> = all.iter().map(|&x| x.into()).collect();
    cx.onnx("Concat", &inputs, vec![Attribute::int("axis", dim as i64)])
}

/// `stack`: along a new dimension.
pub(super) fn stack(cx: &mut Cx) -> Result<InstrId> {
    let mut all = parts(cx)?;
    let mut dims = cx.b.dims(all[0]);
    let dim = cx.dim("dim", 0, dims.len() + 1)?;
    dims.insert(dim, 1);
    for x in &mut all {
        *x = cx.plain().reshape(*x, &dims)?;
    }
    joined(cx, &all, dim)
}

/// `split` and `split_with_sizes`; parts that nothing reads are not made.
pub(super) fn split(cx: &mut Cx, how: fn(&Cx, i64) -> Result<Vec<i64>>) -> Parts {
    let x = cx.tensor("self")?;
    let dim = cx.dim("dim", 0, cx.b.rank(x))?;
    let size = cx.b.dims(x)[dim];
    let sizes = how(cx, size)?;
    let sum = sizes.iter().try_fold(0i64, |sum, &size| sum.checked_add(size).filter(|_| size >= 0));
    if sum != Some(size) {
        return Err(Diagnostic::error(format!("a dimension of size {size} cannot be split into {sizes:?}")));
    }
    let mut end = 0;
    let made = sizes.iter().enumerate().map(|(index, size)| {
        end += size;
        cx.is_read(index).then(|| cx.b.slice_in(x, dim, end - size, end))
    });
    Ok(made.collect())
}

/// Parts of one size; the last may be smaller.
pub(super) fn equal(size: i64, part: i64) -> Result<Vec<i64>> {
    match part > 0 && size / part < 1 << 20 {
        true => Ok((0..size.div_euclid(part) + i64::from(size % part != 0))
            .map(|at| part.min(size - part * at))
            .collect()),
        false => Err(Diagnostic::error(format!("a dimension of size {size} in parts of {part}"))),
    }
}

/// `chunk`: at most so many parts of one size.
pub(super) fn chunk(cx: &mut Cx) -> Parts {
    split(cx, |cx, size| {
        let n = cx.int("chunks", 1)?.max(1);
        equal(size, (size / n + i64::from(size % n != 0)).max(1))
    })
}

/// `unbind`: each place of a dimension on its own.
pub(super) fn unbind(cx: &mut Cx) -> Parts {
    let x = cx.tensor("self")?;
    let dim = cx.dim("dim", 0, cx.b.rank(x))?;
    let n = super::node::outputs(cx.node).len() as i64;
    if n != cx.b.dims(x)[dim] {
        return Err(Diagnostic::error("it has not as many outputs as the dimension has places"));
    }
    (0..n).map(|at| part(cx, x, dim, at).map(Some)).collect()
}

/// `flatten`: some dimensions become one.
pub(super) fn flatten(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    let dims = cx.b.dims(x);
    let rank = dims.len().max(1);
    let (start, end) = (cx.dim("start_dim", 0, rank)?, cx.dim("end_dim", -1, rank)?);
    if dims.is_empty() || start > end {
        return cx.plain().reshape(x, &[1]);
    }
    let one = dims[start..=end].iter().product();
    cx.plain().reshape(x, &[&dims[..start], &[one], &dims[end + 1..]].concat())
}

/// `repeat` and `tile`: each dimension repeated, new ones first.
pub(super) fn repeat(cx: &mut Cx, name: &str) -> Result<InstrId> {
    let (x, mut repeats) = (cx.tensor("self")?, cx.list(name)?);
    let own = cx.b.dims(x);
    let missing = repeats.len().max(own.len());
    let dims = [vec![1; missing - own.len()], own.to_vec()].concat();
    repeats = [vec![1; missing - repeats.len()], repeats].concat();
    let x = cx.plain().reshape(x, &dims)?;
    cx.onnx("Tile", &[x.into(), known(&repeats)], Vec::new())
}

/// `flip`.
pub(super) fn flip(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    let dims =
        cx.list("dims")?.iter().map(|&dim| onnx::axis(dim, cx.b.rank(x))).collect::<Result<Vec<_>>>()?;
    Ok(dims.iter().fold(x, |x, &dim| cx.b.reverse(x, &[dim])))
}

/// `roll`: what leaves at one end of a dimension enters at the other.
pub(super) fn roll(cx: &mut Cx) -> Result<InstrId> {
    let (mut x, shifts, dims) = (cx.tensor("self")?, cx.list("shifts")?, cx.list("dims")?);
    if shifts.len() != dims.len() {
        return Err(Diagnostic::error("as many shifts as dimensions are needed"));
    }
    for (shift, dim) in shifts.into_iter().zip(dims) {
        let dim = onnx::axis(dim, cx.b.rank(x))?;
        let size = cx.b.dims(x)[dim];
        let at = if size > 0 { (-shift).rem_euclid(size) } else { 0 };
        if at > 0 {
            let [tail, head] = [(at, size), (0, at)].map(|(start, end)| cx.b.slice_in(x, dim, start, end));
            x = cx.b.concatenate(&[tail, head], dim);
        }
    }
    Ok(x)
}

/// `constant_pad_nd` and `pad`: pairs of the last dimension first.
pub(super) fn pad(cx: &mut Cx) -> Result<InstrId> {
    let (x, pads, dtype) = (cx.tensor("self")?, cx.list("pad")?, cx.out()?);
    let (rank, n) = (cx.b.rank(x), pads.len() / 2);
    if pads.len() % 2 != 0 || n > rank {
        return Err(Diagnostic::error(format!("`pad` {pads:?} of an array of rank {rank}")));
    }
    let axes: Vec<i64> = (0..n).map(|at| (rank - 1 - at) as i64).collect();
    let sides: Vec<i64> = pads.iter().step_by(2).chain(pads.iter().skip(1).step_by(2)).copied().collect();
    let mode = match &*cx.text("mode", "constant") {
        "replicate" => "edge".to_owned(),
        "circular" => "wrap".to_owned(),
        other => other.to_owned(),
    };
    let value = cx.b.scalar(dtype, cx.float("value", 0.0)?);
    let inputs = [x.into(), known(&sides), value.into(), known(&axes)];
    cx.onnx("Pad", &inputs, vec![Attribute::text("mode", &mode)])
}

/// `slice_scatter` and `select_scatter`: a part of a dimension replaced.
pub(super) fn scatter_part(cx: &mut Cx, is_slice: bool) -> Result<InstrId> {
    let (x, mut src) = (cx.like_out("self")?, cx.like_out("src")?);
    let mut dims = cx.b.dims(x);
    let dim = cx.dim("dim", 0, dims.len())?;
    let (size, mut step) = (dims[dim], 1);
    let counted = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size);
    let (start, end) = if is_slice {
        step = cx.int("step", 1)?;
        (counted(cx.int("start", 0)?), counted(cx.int("end", i64::MAX)?))
    } else {
        let at = counted(cx.int("index", 0)?);
        (at, (at + 1).min(size))
    };
    if step != 1 {
        return Err(Diagnostic::error("a step other than 1 is not supported"));
    }
    dims[dim] = (end - start).max(0);
    src = cx.plain().reshape(src, &dims)?;
    let [head, tail] = [(0, start), (end.max(start), size)].map(|(from, to)| cx.b.slice_in(x, dim, from, to));
    let all = [(head, start), (src, 1), (tail, size - end)].into_iter().filter(|(_, n)| *n > 0);
    let all: Vec<InstrId> = all.map(|(part, _)| part).collect();
    joined(cx, &all, dim)
}

/// `pixel_shuffle`: features become squares.
pub(super) fn pixel_shuffle(cx: &mut Cx) -> Result<InstrId> {
    let (x, n) = (cx.tensor("self")?, cx.int("upscale_factor", 1)?);
    let attributes = vec![Attribute::int("blocksize", n), Attribute::text("mode", "CRD")];
    cx.onnx("DepthToSpace", &[x.into()], attributes)
}

/// `upsample_nearest1d` to `3d`, to whole multiples of the sizes: every element is repeated.
pub(super) fn upsample_nearest(cx: &mut Cx) -> Result<InstrId> {
    let (x, scales) = (cx.tensor("input")?, cx.floats("scale_factors"));
    let n = if scales.is_empty() { cx.list("output_size")?.len() } else { scales.len() };
    let own = cx.b.dims(x);
    let Some(first) = own.len().checked_sub(n) else {
        return Err(Diagnostic::error("its rank is too small"));
    };
    let scaled = |(size, scale): (&i64, &f64)| (*size as f64 * scale).floor() as i64;
    let sizes: Vec<i64> = match scales.is_empty() {
        true => cx.list("output_size")?,
        false => own[first..].iter().zip(&scales).map(scaled).collect(),
    };
    let (mut apart, mut repeated) = (own[..first].to_vec(), own[..first].to_vec());
    for (&from, &to) in own[first..].iter().zip(&sizes) {
        if from <= 0 || to < from || to % from != 0 {
            return Err(Diagnostic::error(format!("size {to} is no multiple of {from}")));
        }
        apart.extend([from, 1]);
        repeated.extend([from, to / from]);
    }
    let x = cx.plain().reshape(x, &apart)?;
    let x = cx.plain().broadcast_to(x, &repeated)?;
    cx.plain().reshape(x, &[&own[..first], &sizes].concat())
}

/// `tril` and `triu`: zero on one side of a diagonal.
pub(super) fn triangle(cx: &mut Cx, is_upper: bool) -> Result<InstrId> {
    let (x, diagonal) = (cx.tensor("self")?, cx.int("diagonal", 0)?);
    cx.onnx("Trilu", &[x.into(), known(&[diagonal])], vec![Attribute::int("upper", i64::from(is_upper))])
}
