//! Products of tensors.

use super::reduce::WindowParts;
use crate::stablehlo::ast::{Attr, Ints, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr, ints, result};
use phzc_ir::attr::{DimLabels, LabelledDims};
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = […]`.
pub(super) fn dot_general<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let [lhs_batch, rhs_batch] = pair(op, "batching_dims", "batching_dimensions")?;
    let [lhs, rhs] = pair(op, "contracting_dims", "contracting_dimensions")?;
    let mut attrs = Vec::new();
    if !lhs_batch.is_empty() || !rhs_batch.is_empty() {
        attrs.push(ints(Key::LhsBatchDims, lhs_batch));
    }
    attrs.push(ints(Key::LhsContractingDims, lhs));
    if !rhs_batch.is_empty() {
        attrs.push(ints(Key::RhsBatchDims, rhs_batch));
    }
    attrs.push(ints(Key::RhsContractingDims, rhs));
    attrs.extend(precision(op)?);
    attrs.extend(algorithm(op)?);
    cx.emit(op, Opcode::Dot, operands, attrs)
}

/// `dot %a, %b`: the last dimension with the first.
pub(super) fn dot<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let last = cx.array(op, operands, 0)?.rank().saturating_sub(1) as i64;
    let mut attrs = vec![ints(Key::LhsContractingDims, [last]), ints(Key::RhsContractingDims, [0])];
    attrs.extend(precision(op)?);
    cx.emit(op, Opcode::Dot, operands, attrs)
}

/// `key = [0] x [1]`, or two fields of the generic form's dimension numbers.
fn pair(op: &Op, key: &str, generic: &str) -> Result<[Ints; 2]> {
    if let Some(Attr::Product(lists)) = op.attr(&[key])
        && let [Some(lhs), Some(rhs)] = [0, 1].map(|index: usize| lists.get(index).and_then(Attr::ints))
    {
        return Ok([lhs, rhs]);
    }
    if op.attr(&[key]).is_some() {
        return Err(op.error(format!("`{key}` must be two lists, `[0] x [1]`")));
    }
    let numbers = op.attr(&["dot_dimension_numbers"]);
    let side = |name: &str| {
        let list = numbers.and_then(|numbers| numbers.field(&format!("{name}_{generic}")));
        list.and_then(Attr::ints).unwrap_or_default()
    };
    Ok([side("lhs"), side("rhs")])
}

/// Written where an operand's is not the default.
fn precision(op: &Op) -> Result<Option<phzc_ir::Attr>> {
    let Some(list) = op.attr(&["precision", "precision_config"]) else { return Ok(None) };
    let words: Option<Vec<String>> =
        list.items().iter().map(|item| item.word().map(str::to_ascii_lowercase)).collect();
    let words =
        words.filter(|words| words.iter().all(|word| matches!(&**word, "default" | "high" | "highest")));
    let Some(words) = words else { return Err(op.error("a precision is `DEFAULT`, `HIGH` or `HIGHEST`")) };
    let is_usual = words.iter().all(|word| word == "default");
    let text = format!("{{{}}}", words.join(","));
    Ok((!is_usual).then(|| attr(Key::OperandPrecision, Value::Raw(text.into()))))
}

/// `algorithm = <lhs_precision_type = bf16, …>` as HLO names it: `dot_bf16_bf16_f32_x3`.
fn algorithm(op: &Op) -> Result<Option<phzc_ir::Attr>> {
    let Some(fields) = op.attr(&["algorithm"]) else { return Ok(None) };
    let dtype = |key: &str| match fields.field(key) {
        Some(Attr::Word(word)) => Some((*word).to_owned()),
        Some(Attr::Type(phzc_ir::Shape::Array(array))) => Some(array.dtype.as_str().to_owned()),
        _ => None,
    };
    let types = ["lhs_precision_type", "rhs_precision_type", "accumulation_type"].map(dtype);
    let [Some(lhs), Some(rhs), Some(sum)] = types else {
        return Err(op.error("the algorithm of `dot_general` lacks a type"));
    };
    let n = fields.field("num_primitive_operations").and_then(Attr::int).unwrap_or(1);
    let times = if n > 1 { format!("_x{n}") } else { String::new() };
    let text = format!("dot_{lhs}_{rhs}_{sum}{times}");
    Ok(Some(attr(Key::Algorithm, Value::Word(text.into()))))
}

/// `convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {…} {…}`.
pub(super) fn convolution<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let Some(labels) = op.attr(&["dim_numbers", "dimension_numbers"]).and_then(labels) else {
        return Err(op.error("`convolution` needs `dim_numbers` such as `[b, 0, f]x[0, i, o]->[b, 0, f]`"));
    };
    let kernel = cx.array(op, operands, 1)?;
    let sizes: Option<Vec<i64>> =
        labels.rhs.spatial.iter().map(|&dim| kernel.dims.get(dim).copied()).collect();
    let sizes = sizes.filter(|_| result(op, 0).is_ok());
    let part = |short: &str, generic: &str| -> Vec<i64> {
        let list =
            op.attr(&["window"]).and_then(|window| window.field(short)).or_else(|| op.attr(&[generic]));
        list.map(flat).unwrap_or_default()
    };
    let parts = WindowParts {
        strides: part("stride", "window_strides"),
        padding: part("pad", "padding"),
        lhs_dilation: part("lhs_dilate", "lhs_dilation"),
        rhs_dilation: part("rhs_dilate", "rhs_dilation"),
        reversal: part("reverse", "window_reversal"),
    };
    let Some(window) = sizes.and_then(|sizes| parts.window(&sizes)) else {
        return Err(op.error("the window of `convolution` does not fit its dimensions"));
    };
    let mut attrs = Vec::new();
    if !window.dims.is_empty() {
        attrs.push(attr(Key::Window, Value::Window(Box::new(window))));
    }
    attrs.push(attr(Key::DimLabels, Value::DimLabels(Box::new(labels))));
    for (name, key) in
        [("feature_group_count", Key::FeatureGroupCount), ("batch_group_count", Key::BatchGroupCount)]
    {
        let count = op.int(&[name]).filter(|&count| count != 1);
        attrs.extend(count.map(|count| attr(key, Value::Int(count))));
    }
    attrs.extend(precision(op)?);
    cx.emit(op, Opcode::Convolution, operands, attrs)
}

/// The integers and truth values of nested lists.
fn flat(list: &Attr) -> Vec<i64> {
    match list {
        Attr::List(items) => items.iter().flat_map(flat).collect(),
        Attr::Bool(flag) => vec![i64::from(*flag)],
        other => other.ints().unwrap_or_default().to_vec(),
    }
}

/// `[b, 0, f]x[0, i, o]->[b, 0, f]`.
fn labels(attr: &Attr) -> Option<DimLabels> {
    let [lhs, rhs, out] = attr.items() else { return None };
    let (lhs, lhs_text) = labelled(lhs, "b", "f")?;
    let (rhs, rhs_text) = labelled(rhs, "o", "i")?;
    let (out, out_text) = labelled(out, "b", "f")?;
    let same = lhs.spatial.len() == rhs.spatial.len() && lhs.spatial.len() == out.spatial.len();
    let text = format!("{lhs_text}_{rhs_text}->{out_text}").into();
    same.then_some(DimLabels { lhs, rhs, out, text })
}

/// The places of two letters and of 0, 1, …, with the text of them all.
fn labelled(list: &Attr, major: &str, minor: &str) -> Option<(LabelledDims, String)> {
    let words: Vec<String> = match list {
        Attr::List(items) => items
            .iter()
            .map(|item| item.int().map(|int| int.to_string()).or_else(|| item.word().map(str::to_owned)))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let n_spatial = words.len().checked_sub(2).filter(|&n| n <= 10)?;
    let place = |label: &str| {
        let mut found = words.iter().enumerate().filter(|(_, word)| *word == label).map(|(place, _)| place);
        found.next().filter(|_| found.next().is_none())
    };
    let spatial = (0..n_spatial).map(|dim| place(&dim.to_string())).collect::<Option<_>>()?;
    Some((LabelledDims { major: place(major)?, minor: place(minor)?, spatial }, words.concat()))
}
