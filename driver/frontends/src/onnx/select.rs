//! The largest elements, their places, and triangles.

use super::node::{Cx, Value};
use super::reduce;
use super::tensor::INDEX;
use phzc_ir::{Attr, Diagnostic, InstrId, Key, Opcode, Result, attr};

/// `TopK` along a dimension, with the places.
pub(super) fn top_k(cx: &mut Cx) -> Result<Vec<Value>> {
    let x = cx.input(0)?;
    let (axis, k) = (cx.attr_axis(x, -1)?, cx.int(1)?);
    let mut order: Vec<usize> = (0..cx.b.rank(x)).collect();
    order.swap(axis, cx.b.rank(x) - 1);
    let x = cx.b.transpose(x, &order);
    let attrs = vec![
        Attr { key: Key::K, value: attr::Value::Int(k) },
        Attr { key: Key::Largest, value: attr::Value::Bool(cx.attr_int("largest", 1) != 0) },
    ];
    let both = cx.op(Opcode::Topk, &[x], attrs)?;
    let [values, places] = [0, 1].map(|part| cx.b.element(both, part));
    let places = cx.b.convert(places, INDEX);
    Ok([values, places].map(|part| Value::Made(cx.b.transpose(part, &order))).to_vec())
}

/// `ArgMax` and `ArgMin`: the first (or last) place of the element that a reduction picks.
pub(super) fn arg(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let x = cx.input(0)?;
    let (axis, mut dims) = (cx.attr_axis(x, 0)?, cx.b.dims(x));
    let along = if op == Opcode::Maximum { reduce::largest } else { reduce::smallest };
    reduce::expect_numbers(cx, x)?;
    let best = along(cx, x, &[axis])?;
    let best = cx.spread(best, x, &[axis]);
    let is_best = cx.b.compare(x, best, "EQ");
    let places = cx.b.iota(INDEX, &dims, axis);
    let is_last = cx.attr_int("select_last_index", 0) != 0;
    let none = cx.b.full_like(places, if is_last { -1.0 } else { dims[axis] as f64 });
    let places = cx.b.select(is_best, places, none);
    let place = if is_last { reduce::largest } else { reduce::smallest }(cx, places, &[axis])?;
    if cx.attr_int("keepdims", 1) == 0 {
        return Ok(place);
    }
    dims[axis] = 1;
    cx.reshape(place, &dims)
}

/// `Trilu`: zero below (or above) a diagonal of the last two dimensions.
pub(super) fn trilu(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let (dims, k) = (cx.b.dims(x), if cx.has(1) { cx.int(1)? } else { 0 });
    let Some(rows) = dims.len().checked_sub(2) else {
        return Err(Diagnostic::error("the operand must be a matrix or several"));
    };
    let [row, column] = [0, 1].map(|along| cx.b.iota(INDEX, &dims[rows..], along));
    let bound = cx.b.literal(INDEX, &[], &k.to_string());
    let bound = cx.b.broadcast_like(bound, row, &[]);
    let diagonal = cx.b.add(row, bound);
    let direction = if cx.attr_int("upper", 1) != 0 { "GE" } else { "LE" };
    let is_kept = cx.b.compare(column, diagonal, direction);
    let is_kept = cx.b.broadcast(is_kept, &dims, &[rows, rows + 1]);
    let zero = cx.b.full_like(x, 0.0);
    Ok(cx.b.select(is_kept, x, zero))
}
