//! Losses of scores by class.

use super::node::{Cx, Value};
use super::normalize;
use super::tensor::INDEX;
use phzc_ir::dtype::Class;
use phzc_ir::{Diagnostic, InstrId, Result};

/// The dimension of the classes.
const CLASSES: usize = 1;

/// `SoftmaxCrossEntropyLoss`, with the logarithms of the probabilities.
pub(super) fn softmax_cross_entropy(cx: &mut Cx) -> Result<Vec<Value>> {
    let x = cx.float(0)?;
    expect_classes(cx, x)?;
    let logs = normalize::log_softmax_along(cx, x, CLASSES)?;
    let loss = of_labels(cx, logs)?;
    Ok([loss, logs].into_iter().take(cx.node.output.len()).map(Value::Made).collect())
}

/// `NegativeLogLikelihoodLoss`.
pub(super) fn negative_log_likelihood(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    expect_classes(cx, x)?;
    of_labels(cx, x)
}

fn expect_classes(cx: &Cx, x: InstrId) -> Result<()> {
    match cx.b.rank(x) {
        0 | 1 => Err(Diagnostic::error("input 0 must have a dimension of samples and one of classes")),
        _ => Ok(()),
    }
}

/// What the logarithms of the labels' probabilities lose, each times the weight of its label, reduced as the
/// attribute `reduction` says. A label is looked up by comparison, so that samples and classes can be split.
fn of_labels(cx: &mut Cx, logs: InstrId) -> Result<InstrId> {
    let labels = labels(cx, logs)?;
    let dims = cx.b.dims(logs);
    let others: Vec<usize> = (0..dims.len()).filter(|&dim| dim != CLASSES).collect();
    let class = cx.b.iota(INDEX, &dims, CLASSES);
    let wanted = cx.b.broadcast(labels, &dims, &others);
    let is_label = cx.b.compare(class, wanted, "EQ");
    let log = picked(cx, is_label, logs);
    let loss = cx.b.neg(log);
    let weight = weights(cx, labels, is_label, logs)?;
    let weighted = weight.map_or(loss, |weight| cx.b.mul(loss, weight));
    let all: Vec<usize> = (0..others.len()).collect();
    match (&*cx.attr_text("reduction", "mean"), weight) {
        ("none", _) => Ok(weighted),
        ("sum", _) => Ok(cx.b.sum(weighted, &all)),
        ("mean", None) => Ok(cx.b.mean(weighted, &all)),
        ("mean", Some(weight)) => {
            let [sum, count] = [weighted, weight].map(|it| cx.b.sum(it, &all));
            Ok(cx.b.div(sum, count))
        }
        (other, _) => {
            Err(Diagnostic::error(format!("the reduction `{other}` is not `none`, `sum` or `mean`")))
        }
    }
}

/// The labels, one per sample and place.
fn labels(cx: &mut Cx, logs: InstrId) -> Result<InstrId> {
    let labels = cx.input(1)?;
    let mut dims = cx.b.dims(logs);
    dims.remove(CLASSES);
    match cx.b.dtype(labels).class() {
        Class::Signed | Class::Unsigned if cx.b.dims(labels) == dims => Ok(cx.b.convert(labels, INDEX)),
        _ => Err(Diagnostic::error(format!("input 1 must be of integers, of shape {dims:?}"))),
    }
}

/// The one element along the classes that is marked; zero where none is.
fn picked(cx: &mut Cx, is_label: InstrId, x: InstrId) -> InstrId {
    let zero = cx.b.full_like(x, 0.0);
    let only = cx.b.select(is_label, x, zero);
    cx.b.sum(only, &[CLASSES])
}

/// The weight of every label: that of its class, zero if it is to be ignored; `None` if all are 1.
fn weights(cx: &mut Cx, labels: InstrId, is_label: InstrId, logs: InstrId) -> Result<Option<InstrId>> {
    let weight = match cx.optional(2)? {
        Some(of_class) => {
            let spread = cx.per_feature(of_class, logs)?;
            let spread = cx.broadcast_to(spread, &cx.b.dims(logs))?;
            let spread = cx.b.convert(spread, cx.b.dtype(logs));
            Some(picked(cx, is_label, spread))
        }
        None => None,
    };
    if cx.attr("ignore_index").is_none() {
        return Ok(weight);
    }
    let dims = cx.b.dims(labels);
    let ignored = cx.b.literal(INDEX, &[], &cx.attr_int("ignore_index", 0).to_string());
    let ignored = cx.b.broadcast(ignored, &dims, &[]);
    let is_kept = cx.b.compare(labels, ignored, "NE");
    let (dtype, own) = (cx.b.dtype(logs), weight);
    let [zero, one] = [0.0, 1.0].map(|value| cx.b.full(dtype, &dims, value));
    Ok(Some(cx.b.select(is_kept, own.unwrap_or(one), zero)))
}
