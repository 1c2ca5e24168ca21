//! Derivatives of `reduce`.

use super::movement::dims;
use super::scope::{Cx, leaf_shape};
use phzc_ir::attr::Value;
use phzc_ir::ops::reducer;
use phzc_ir::{InstrId, Key, Opcode, Reducer, Result, View};

/// Sums, extremes and products, one or several at once, and arrays of an extreme and where it is.
pub(super) fn reduce(cx: &mut Cx) -> Result<()> {
    let n = cx.instr.operands.len() / 2;
    for index in 0..n {
        let Some(ct) = cx.cts.get(index).copied().flatten() else { continue };
        let dtype = cx.shape(index).dtype;
        let ct = cx.b.convert(ct, dtype);
        match kind(cx, index) {
            Some(Reducer::Add) => sum(cx, index, ct),
            Some(Reducer::Max | Reducer::Min) => extreme(cx, index, ct),
            Some(Reducer::Mul) => product(cx, index, ct),
            _ if n == 2 && index == 0 && is_position(cx) => chosen(cx, ct),
            _ => return Err(cx.refuse("its computation is no sum, product, maximum or minimum")),
        }
        if cx.wants(n + index) && !matches!(kind(cx, index), Some(Reducer::Add)) {
            return Err(cx.refuse("its initial value depends on what is differentiated by"));
        }
    }
    Ok(())
}

fn kind(cx: &Cx, index: usize) -> Option<Reducer> {
    let view = View { comps: cx.b.comps(), instrs: cx.scope.instrs(cx.b), instr: &cx.instr };
    reducer(&view, Key::ToApply, index)
}

/// The other dimensions, which the result has.
fn kept(cx: &Cx) -> Vec<usize> {
    let reduced = dims(cx, Key::Dimensions);
    (0..cx.shape(0).rank()).filter(|dim| !reduced.contains(dim)).collect()
}

/// A value of the result's sizes, spread over the operand's.
fn spread(cx: &mut Cx, value: InstrId) -> InstrId {
    let (sizes, kept) = (cx.shape(0).dims, kept(cx));
    cx.b.broadcast(value, &sizes, &kept)
}

/// The result's value, one of several perhaps.
fn result(cx: &mut Cx, index: usize) -> InstrId {
    let y = if cx.instr.shape.parts().is_empty() { cx.y() } else { cx.y_part(index) };
    let dtype = cx.shape(index).dtype;
    cx.b.convert(y, dtype)
}

fn sum(cx: &mut Cx, index: usize, ct: InstrId) {
    let n = cx.instr.operands.len() / 2;
    cx.give_with(index, |cx| spread(cx, ct));
    cx.give_with(n + index, |cx| {
        let all: Vec<usize> = (0..cx.b.rank(ct)).collect();
        cx.b.sum(ct, &all)
    });
}

/// Shared by all elements that are the extreme.
fn extreme(cx: &mut Cx, index: usize, ct: InstrId) {
    cx.give_with(index, |cx| {
        let (x, y) = (cx.x(index), result(cx, index));
        let y = spread(cx, y);
        let is_it = cx.b.compare(x, y, "EQ");
        let dtype = cx.b.dtype(x);
        let marks = cx.b.convert(is_it, dtype);
        let along = dims(cx, Key::Dimensions);
        let n = cx.b.sum(marks, &along);
        let share = cx.b.div(ct, n);
        let share = spread(cx, share);
        cx.b.mul(share, marks)
    });
}

/// The product of the other elements: of those that are not zero, if at most this one is.
fn product(cx: &mut Cx, index: usize, ct: InstrId) {
    cx.give_with(index, |cx| {
        let (x, along) = (cx.x(index), dims(cx, Key::Dimensions));
        let [zero, one] = [0.0, 1.0].map(|c| cx.b.full_like(x, c));
        let is_zero = cx.b.compare(x, zero, "EQ");
        let safe = cx.b.select(is_zero, one, x);
        let all = cx.b.reduce(safe, 1.0, Opcode::Multiply, &along);
        let marks = cx.b.select(is_zero, one, zero);
        let n_zeros = cx.b.sum(marks, &along);
        let n_zeros = spread(cx, n_zeros);
        let is_only = cx.b.compare(n_zeros, marks, "EQ");
        let all = cx.b.mul(all, ct);
        let all = spread(cx, all);
        let others = cx.b.div(all, safe);
        cx.b.select(is_only, others, zero)
    });
}

/// Whether the second operand numbers the elements along the only reduced dimension.
fn is_position(cx: &Cx) -> bool {
    let along = cx.instr.ints(Key::Dimensions);
    let mut id = cx.instr.operands[1];
    let instrs = cx.scope.instrs(cx.b);
    let mut dim = along.first().copied().unwrap_or(0);
    while instrs[id.index()].op == Opcode::Broadcast {
        let at = instrs[id.index()].ints(Key::Dimensions).iter().position(|&place| place == dim);
        let Some(at) = at else { return false };
        (dim, id) = (at as i64, instrs[id.index()].operands[0]);
    }
    let instr = &instrs[id.index()];
    along.len() == 1 && instr.op == Opcode::Iota && instr.attr(Key::IotaDimension) == Some(&Value::Int(dim))
}

/// All of it where the result says the chosen element is.
fn chosen(cx: &mut Cx, ct: InstrId) {
    cx.give_with(0, |cx| {
        let (positions, at) = (cx.x(1), cx.y_part(1));
        let at = spread(cx, at);
        let is_it = cx.b.compare(positions, at, "EQ");
        let ct = spread(cx, ct);
        let zero = cx.b.full_like(ct, 0.0);
        debug_assert!(leaf_shape(&cx.instr.shape, 0).dtype.is_inexact());
        cx.b.select(is_it, ct, zero)
    });
}
