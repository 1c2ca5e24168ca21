//! Elements at computed places.

use super::node::Cx;
use super::tensor::{self, INDEX};
use phzc_ir::build::{dimensions, ints};
use phzc_ir::dtype::Class;
use phzc_ir::{Attr, CompId, Diagnostic, InstrId, Key, Opcode, Result, Shape, attr};

/// An input of places; of integers.
fn places(cx: &mut Cx, index: usize) -> Result<InstrId> {
    let places = cx.input(index)?;
    match cx.b.dtype(places).class() {
        Class::Signed => Ok(cx.b.convert(places, INDEX)),
        _ => Err(Diagnostic::error(format!("input {index} must be of signed integers"))),
    }
}

/// Places that count from the end, the negative ones, as ones from the start.
pub(crate) fn from_start(cx: &mut Cx, places: InstrId, size: i64) -> InstrId {
    let [zero, size] = [0, size].map(|bound| {
        let bound = cx.b.literal(INDEX, &[], &bound.to_string());
        cx.b.broadcast_like(bound, places, &[])
    });
    let is_negative = cx.b.compare(places, zero, "LT");
    let moved = cx.b.add(places, size);
    cx.b.select(is_negative, moved, places)
}

/// `Gather`: parts along one dimension.
pub(super) fn gather(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let (axis, dims) = (cx.attr_axis(x, 0)?, cx.b.dims(x));
    let known = cx.known(1).ok().and_then(tensor::ints);
    let known =
        known.map(|known| known.iter().map(|&at| if at < 0 { at + dims[axis] } else { at }).collect());
    if let Some([at]) = known.as_deref() as Option<&[i64]> {
        return one_part(cx, x, axis, *at);
    }
    let places = places(cx, 1)?;
    let is_from_start = known.is_some_and(|known: Vec<i64>| known == cx.ints(1).unwrap_or_default());
    let places = if is_from_start { places } else { from_start(cx, places, dims[axis]) };
    take(cx, x, axis, places)
}

/// The part at one known place.
fn one_part(cx: &mut Cx, x: InstrId, axis: usize, at: i64) -> Result<InstrId> {
    let (dims, indices) = (cx.b.dims(x), cx.known(1)?.dims().iter().map(|_| 1).collect::<Vec<i64>>());
    if !(0..dims[axis]).contains(&at) {
        return Err(Diagnostic::error(format!("place {at} of a dimension of size {}", dims[axis])));
    }
    let part = cx.b.slice_in(x, axis, at, at + 1);
    cx.reshape(part, &[&dims[..axis], &indices, &dims[axis + 1..]].concat())
}

/// Parts along one dimension, at places within it.
pub(crate) fn take(cx: &mut Cx, x: InstrId, axis: usize, places: InstrId) -> Result<InstrId> {
    let (rank, mut sizes) = (cx.b.rank(places), cx.b.dims(x));
    sizes[axis] = 1;
    let offsets: Vec<usize> = (0..axis).chain(axis + rank..sizes.len() - 1 + rank).collect();
    let attrs = vec![
        dimensions(Key::OffsetDims, &offsets),
        dimensions(Key::CollapsedSliceDims, &[axis]),
        dimensions(Key::StartIndexMap, &[axis]),
        Attr { key: Key::IndexVectorDim, value: attr::Value::Int(rank as i64) },
        ints(Key::SliceSizes, sizes),
    ];
    cx.op(Opcode::Gather, &[x, places], attrs)
}

/// What stands at points: vectors of places in the first dimensions, along the last dimension of `points`.
fn take_points(cx: &mut Cx, x: InstrId, points: InstrId) -> Result<InstrId> {
    let (at, mut sizes) = (cx.b.rank(points) - 1, cx.b.dims(x));
    let n = point_size(cx, x, points)?;
    sizes[..n].fill(1);
    let offsets: Vec<usize> = (at..at + sizes.len() - n).collect();
    let first: Vec<usize> = (0..n).collect();
    let attrs = vec![
        dimensions(Key::OffsetDims, &offsets),
        dimensions(Key::CollapsedSliceDims, &first),
        dimensions(Key::StartIndexMap, &first),
        Attr { key: Key::IndexVectorDim, value: attr::Value::Int(at as i64) },
        ints(Key::SliceSizes, sizes),
    ];
    cx.op(Opcode::Gather, &[x, points], attrs)
}

/// The number of dimensions of `x` that the points place.
fn point_size(cx: &Cx, x: InstrId, points: InstrId) -> Result<usize> {
    let (rank, n) = (cx.b.rank(x), cx.b.dims(points).last().copied().unwrap_or(0));
    match usize::try_from(n).ok().filter(|&n| 0 < n && n <= rank) {
        Some(n) => Ok(n),
        None => Err(Diagnostic::error(format!("points of {n} places in an array of rank {rank}"))),
    }
}

/// `GatherElements`: each place replaces that along one dimension.
pub(super) fn gather_elements(cx: &mut Cx) -> Result<InstrId> {
    let (x, places) = (cx.input(0)?, places(cx, 1)?);
    let points = points_along(cx, x, places)?;
    take_points(cx, x, points)
}

/// The points of elements whose place along the attribute `axis` is given, all others being their own.
fn points_along(cx: &mut Cx, x: InstrId, places: InstrId) -> Result<InstrId> {
    let (axis, dims) = (cx.attr_axis(x, 0)?, cx.b.dims(places));
    if dims.len() != cx.b.rank(x) {
        return Err(Diagnostic::error("data and indices must have the same rank"));
    }
    let size = cx.b.dims(x)[axis];
    let own = from_start(cx, places, size);
    coordinates(cx, &dims, dims.len(), |dim| (dim == axis).then_some(own))
}

/// Vectors along a new last dimension: in each dimension the given place, or the element's own.
fn coordinates(
    cx: &mut Cx,
    dims: &[i64],
    n: usize,
    given: impl Fn(usize) -> Option<InstrId>,
) -> Result<InstrId> {
    let column = [dims, &[1]].concat();
    let mut columns = Vec::new();
    for dim in 0..n {
        let place = given(dim).unwrap_or_else(|| cx.b.iota(INDEX, dims, dim));
        columns.push(cx.reshape(place, &column)?);
    }
    cx.op(Opcode::Concatenate, &columns, vec![dimensions(Key::Dimensions, &[dims.len()])])
}

/// Points of an input, counted from the start, of a data array without its first `n_batch` dimensions.
fn points_given(cx: &mut Cx, x: InstrId, n_batch: usize) -> Result<InstrId> {
    let points = places(cx, 1)?;
    let (sizes, dims) = (cx.b.dims(x), cx.b.dims(points));
    let n = dims.last().copied().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    if n == 0 || n_batch + n > sizes.len() || n_batch >= dims.len() {
        return Err(Diagnostic::error(format!("points of sizes {dims:?} in an array of sizes {sizes:?}")));
    }
    let text: Vec<String> = sizes[n_batch..n_batch + n].iter().map(i64::to_string).collect();
    let bounds = cx.b.literal(INDEX, &[n as i64], &format!("{{{}}}", text.join(", ")));
    let bounds = cx.b.broadcast_like(bounds, points, &[dims.len() - 1]);
    let zero = cx.b.full_like(points, 0.0);
    let (is_negative, moved) = (cx.b.compare(points, zero, "LT"), cx.b.add(points, bounds));
    Ok(cx.b.select(is_negative, moved, points))
}

/// `GatherND`: the first `batch_dims` dimensions of both go together.
pub(super) fn gather_nd(cx: &mut Cx) -> Result<InstrId> {
    let (x, n_batch) = (cx.input(0)?, cx.attr_int("batch_dims", 0));
    let n_batch = usize::try_from(n_batch).unwrap_or(usize::MAX >> 1);
    let points = points_given(cx, x, n_batch)?;
    if n_batch == 0 {
        return take_points(cx, x, points);
    }
    let dims = cx.b.dims(points);
    let batch = coordinates(cx, &dims[..dims.len() - 1], n_batch, |_| None)?;
    let points =
        cx.op(Opcode::Concatenate, &[batch, points], vec![dimensions(Key::Dimensions, &[dims.len() - 1])])?;
    take_points(cx, x, points)
}

/// `ScatterElements`.
pub(super) fn scatter_elements(cx: &mut Cx) -> Result<InstrId> {
    let (x, places) = (cx.input(0)?, places(cx, 1)?);
    let points = points_along(cx, x, places)?;
    scatter(cx, x, points)
}

/// `ScatterND`.
pub(super) fn scatter_nd(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let points = points_given(cx, x, 0)?;
    scatter(cx, x, points)
}

/// The array with updates, the third input, at points.
fn scatter(cx: &mut Cx, x: InstrId, points: InstrId) -> Result<InstrId> {
    let (at, n, updates) = (cx.b.rank(points) - 1, point_size(cx, x, points)?, cx.input(2)?);
    let first: Vec<usize> = (0..n).collect();
    let windows: Vec<usize> = (at..at + cx.b.rank(x) - n).collect();
    let comp = combiner(cx, x)?;
    let attrs = vec![
        dimensions(Key::UpdateWindowDims, &windows),
        dimensions(Key::InsertedWindowDims, &first),
        dimensions(Key::ScatterDimsToOperandDims, &first),
        Attr { key: Key::IndexVectorDim, value: attr::Value::Int(at as i64) },
        Attr { key: Key::ToApply, value: attr::Value::Comp(comp) },
    ];
    cx.op(Opcode::Scatter, &[x, points, updates], attrs)
}

/// How an update and the element that it meets become one.
fn combiner(cx: &mut Cx, x: InstrId) -> Result<CompId> {
    let dtype = cx.b.dtype(x);
    let op = match &*cx.attr_text("reduction", "none") {
        "none" => {
            cx.b.begin("overwrite");
            let [_, new] = ["old", "new"].map(|name| cx.b.parameter(name, Shape::array(dtype, &[])));
            return Ok(cx.b.end(new));
        }
        "add" => Opcode::Add,
        "mul" => Opcode::Multiply,
        "max" => Opcode::Maximum,
        "min" => Opcode::Minimum,
        other => return Err(Diagnostic::error(format!("`reduction` is `{other}`"))),
    };
    Ok(cx.b.reducer(op, dtype))
}
