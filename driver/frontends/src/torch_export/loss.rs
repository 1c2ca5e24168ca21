//! Losses.

use super::movement::Parts;
use super::node::Cx;
use crate::onnx::{Attribute, Value};
use phzc_ir::{Diagnostic, InstrId, Result};

/// How losses are put together: `Reduction` of ATen.
fn reduction(cx: &Cx) -> Result<&'static str> {
    match cx.int("reduction", 1)? {
        0 => Ok("none"),
        1 => Ok("mean"),
        2 => Ok("sum"),
        other => Err(Diagnostic::error(format!("`reduction` is {other}"))),
    }
}

/// `nll_loss` and `cross_entropy_loss`: one of ONNX's losses by class.
pub(super) fn by_class(cx: &mut Cx, op: &str) -> Parts {
    if cx.float("label_smoothing", 0.0)? != 0.0 {
        return Err(Diagnostic::error("`label_smoothing` is not supported"));
    }
    let (x, target) = (cx.tensor("self")?, cx.tensor("target")?);
    let mut inputs: Vec<Value> = vec![x.into(), target.into()];
    if let Some(weight) = cx.optional("weight")? {
        inputs.push(weight.into());
    }
    let attributes = vec![
        Attribute::text("reduction", reduction(cx)?),
        Attribute::int("ignore_index", cx.int("ignore_index", -100)?),
    ];
    cx.onnx(op, &inputs, attributes).map(|loss| vec![Some(loss)])
}

/// `mse_loss` and `l1_loss`: of the difference, its square or its size.
pub(super) fn of_difference(cx: &mut Cx, is_square: bool) -> Result<InstrId> {
    let (x, target) = (cx.like_out("self")?, cx.like_out("target")?);
    let difference = cx.plain().binary(phzc_ir::Opcode::Subtract, x, target)?;
    let loss = if is_square { cx.b.square(difference) } else { cx.b.abs(difference) };
    let all: Vec<usize> = (0..cx.b.rank(loss)).collect();
    Ok(match reduction(cx)? {
        "none" => loss,
        "sum" => cx.b.sum(loss, &all),
        _ => cx.b.mean(loss, &all),
    })
}
