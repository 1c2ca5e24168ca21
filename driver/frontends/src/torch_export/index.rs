//! Elements at computed places.

use super::node::Cx;
use crate::onnx::{self, Attribute, Value};
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Diagnostic, InstrId, Result};

/// Places that are integers, in 64 bits.
fn places(cx: &mut Cx, name: &str) -> Result<InstrId> {
    let x = cx.tensor(name)?;
    integers(cx, x)
}

fn integers(cx: &mut Cx, x: InstrId) -> Result<InstrId> {
    match cx.b.dtype(x).class() {
        Class::Signed | Class::Unsigned => Ok(cx.b.convert(x, DType::S64)),
        _ => {
            let error = Diagnostic::error("places by truth values give arrays of unknown sizes");
            Err(error.help("write `torch.where` or a product with the mask instead"))
        }
    }
}

/// `embedding`: rows of a table.
pub(super) fn embedding(cx: &mut Cx) -> Result<InstrId> {
    let (table, ids) = (cx.tensor("weight")?, places(cx, "indices")?);
    onnx::take(&mut cx.plain(), table, 0, ids)
}

/// `embedding_dense_backward`: the gradients of rows, added up by row.
pub(super) fn embedding_backward(cx: &mut Cx) -> Result<InstrId> {
    if cx.flag("scale_grad_by_freq", false) {
        return Err(Diagnostic::error("`scale_grad_by_freq` is not supported"));
    }
    let (grad, ids, n) = (cx.like_out("grad_output")?, places(cx, "indices")?, cx.int("num_weights", 0)?);
    let (rank, sizes, dtype) = (cx.b.rank(ids), cx.b.dims(grad), cx.out()?);
    let dims = [&[n], &sizes[rank.min(sizes.len())..]].concat();
    onnx::checked(&dims)?;
    let zeros = cx.b.full(dtype, &dims, 0.0);
    let column = [&cx.b.dims(ids)[..], &[1]].concat();
    let points = cx.plain().reshape(ids, &column)?;
    let padding = cx.int("padding_idx", -1)?;
    let grad = match padding {
        ..0 => grad,
        _ => {
            let bound = cx.b.literal(DType::S64, &[], &padding.to_string());
            let bound = cx.b.broadcast_like(bound, ids, &[]);
            let is_read = cx.b.compare(ids, bound, "NE");
            let is_read = cx.plain().reshape(is_read, &column)?;
            let zero = cx.b.scalar(dtype, 0.0);
            super::elementwise::select(cx, is_read, grad, zero)?
        }
    };
    let add = vec![Attribute::text("reduction", "add")];
    cx.onnx("ScatterND", &[zeros.into(), points.into(), grad.into()], add)
}

/// `index_select`: parts along one dimension.
pub(super) fn index_select(cx: &mut Cx) -> Result<InstrId> {
    let (x, ids) = (cx.tensor("self")?, places(cx, "index")?);
    let dim = cx.dim("dim", 0, cx.b.rank(x))?;
    onnx::take(&mut cx.plain(), x, dim, ids)
}

/// `gather`: each place replaces that along one dimension.
pub(super) fn gather(cx: &mut Cx) -> Result<InstrId> {
    let (x, ids) = (cx.tensor("self")?, places(cx, "index")?);
    cx.onnx("GatherElements", &[x.into(), ids.into()], vec![Attribute::int("axis", cx.int("dim", 0)?)])
}

/// `scatter`, `scatter_add` and `scatter_reduce`.
pub(super) fn scatter(cx: &mut Cx, reduction: &str) -> Result<InstrId> {
    let (x, ids, dtype) = (cx.like_out("self")?, places(cx, "index")?, cx.out()?);
    let sizes = cx.b.dims(ids);
    let updates = match cx.has("src") {
        true => {
            let src = cx.operand("src", dtype)?;
            first_elements(cx, src, &sizes)?
        }
        false => {
            let value = cx.operand("value", dtype)?;
            cx.plain().broadcast_to(value, &sizes)?
        }
    };
    if !cx.flag("include_self", true) {
        return Err(Diagnostic::error("`include_self=False` is not supported"));
    }
    let reduction = match &*cx.text("reduce", reduction) {
        "sum" | "add" => "add",
        "prod" | "multiply" => "mul",
        "amax" => "max",
        "amin" => "min",
        "" => "none",
        other => return Err(Diagnostic::error(format!("`reduce` is `{other}`"))),
    };
    let attributes = vec![Attribute::int("axis", cx.int("dim", 0)?), Attribute::text("reduction", reduction)];
    cx.onnx("ScatterElements", &[x.into(), ids.into(), updates.into()], attributes)
}

/// As many elements of every dimension, from the first on.
fn first_elements(cx: &mut Cx, mut x: InstrId, sizes: &[i64]) -> Result<InstrId> {
    let own = cx.b.dims(x);
    if own.len() != sizes.len() || own.iter().zip(sizes).any(|(own, size)| own < size) {
        return Err(Diagnostic::error(format!("sizes {own:?} are less than {sizes:?}")));
    }
    for (dim, &size) in sizes.iter().enumerate() {
        x = cx.b.slice_in(x, dim, 0, size);
    }
    Ok(x)
}

/// Places in some dimensions of an array: which, and their points along a new last dimension.
struct Points {
    /// The array with these dimensions first.
    x: InstrId,
    /// The dimensions, in ascending order.
    at: Vec<usize>,
    points: InstrId,
    /// The sizes of the places, all broadcast.
    common: Vec<i64>,
}

fn points(cx: &mut Cx) -> Result<Points> {
    let (x, given) = (cx.tensor("self")?, cx.optionals("indices")?);
    let mut at: Vec<usize> = (0..given.len()).filter(|&dim| given[dim].is_some()).collect();
    let rank = cx.b.rank(x);
    if at.is_empty() || given.len() > rank {
        return Err(Diagnostic::error(format!("places in {} dimensions of {rank}", at.len())));
    }
    let mut ids = Vec::new();
    for index in given.into_iter().flatten() {
        ids.push(integers(cx, index)?);
    }
    let common = cx.plain().common_dims(&ids)?;
    let mut columns: Vec<Value> = Vec::new();
    for id in ids {
        let all = cx.plain().broadcast_to(id, &common)?;
        columns.push(cx.plain().reshape(all, &[&common[..], &[1]].concat())?.into());
    }
    let points = match columns.len() {
        1 => columns[0].made(cx.b),
        _ => cx.onnx("Concat", &columns, vec![Attribute::int("axis", -1)])?,
    };
    let order: Vec<usize> = at.iter().copied().chain((0..rank).filter(|dim| !at.contains(dim))).collect();
    let x = cx.b.transpose(x, &order);
    at.shrink_to_fit();
    Ok(Points { x, at, points, common })
}

/// Where the dimensions of the places stand in the result: at the first of those they replace, if these are
/// side by side, else in front.
fn first_of(at: &[usize]) -> usize {
    let is_row = at.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    if is_row { at[0] } else { 0 }
}

/// `index`.
pub(super) fn index(cx: &mut Cx) -> Result<InstrId> {
    let given = cx.optionals("indices")?;
    let only = given.iter().flatten().count() == 1;
    if let (true, Some(dim)) = (only, given.iter().position(Option::is_some)) {
        let x = cx.tensor("self")?;
        let size = cx.b.dims(x).get(dim).copied();
        let size = size.ok_or_else(|| Diagnostic::error("more places than dimensions"))?;
        let ids = given[dim].map_or_else(|| Err(Diagnostic::error("no places")), |id| integers(cx, id))?;
        let ids = onnx::from_start(&mut cx.plain(), ids, size);
        return onnx::take(&mut cx.plain(), x, dim, ids);
    }
    let Points { x, at, points, common } = points(cx)?;
    let made = cx.onnx("GatherND", &[x.into(), points.into()], Vec::new())?;
    let (first, n) = (first_of(&at), common.len());
    let rest = n..cx.b.rank(made);
    let order: Vec<usize> = rest.clone().take(first).chain(0..n).chain(rest.skip(first)).collect();
    Ok(cx.b.transpose(made, &order))
}

/// `index_put`: values at places, added to what is there if `accumulate` says so.
pub(super) fn index_put(cx: &mut Cx) -> Result<InstrId> {
    let dtype = cx.out()?;
    let values = cx.operand("values", dtype)?;
    let Points { x, at, points, common } = points(cx)?;
    let (dims, n, first) = (cx.b.dims(x), common.len(), first_of(&at));
    let rest = &dims[at.len()..];
    let first = first.min(rest.len());
    let wanted = [&rest[..first], &common, &rest[first..]].concat();
    let values = cx.plain().broadcast_to(values, &wanted)?;
    let order: Vec<usize> = (first..first + n).chain(0..first).chain(first + n..wanted.len()).collect();
    let values = cx.b.transpose(values, &order);
    let reduction = if cx.flag("accumulate", false) { "add" } else { "none" };
    let inputs = [x.into(), points.into(), values.into()];
    let made = cx.onnx("ScatterND", &inputs, vec![Attribute::text("reduction", reduction)])?;
    let mut order: Vec<usize> = Vec::new();
    let mut others = at.len()..dims.len();
    for dim in 0..dims.len() {
        order.push(at.iter().position(|&of| of == dim).or_else(|| others.next()).unwrap_or(dim));
    }
    Ok(cx.b.transpose(made, &order))
}
