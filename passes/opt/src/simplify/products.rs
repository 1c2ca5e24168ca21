//! Rules about products: a transpose of an operand or of the result is a matter of dimension numbers.

use super::draft::Draft;
use super::order::{is_sorted, place, transposed};
use super::rules::{Made, dims, instead};
use phzc_ir::attr::{DimLabels, LabelledDims};
use phzc_ir::build::dimensions;
use phzc_ir::{Attr, Instr, InstrId, Key, Opcode, Value};

/// Batch and contracting dimensions of an operand of `dot`.
const SIDES: [[Key; 2]; 2] =
    [[Key::LhsBatchDims, Key::LhsContractingDims], [Key::RhsBatchDims, Key::RhsContractingDims]];

/// A transpose of an operand that leaves its free dimensions in order.
pub(super) fn dot_of_transpose(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    (0..2).find_map(|side| {
        let (x, order) = transposed(cx, instr.operands[side])?;
        let bound: Vec<usize> = SIDES[side].iter().flat_map(|key| dims(instr, key.clone())).collect();
        let free = (0..order.len()).filter(|dim| !bound.contains(dim)).map(|dim| order[dim]);
        if !is_sorted(&free.collect::<Vec<_>>()) {
            return None;
        }
        let mut made = instr.clone();
        made.operands[side] = x;
        for attr in made.attrs.iter_mut().filter(|attr| SIDES[side].contains(&attr.key)) {
            let moved: Vec<usize> = dims(instr, attr.key.clone()).into_iter().map(|dim| order[dim]).collect();
            *attr = dimensions(attr.key.clone(), &moved);
        }
        Some(Made::Instr(made))
    })
}

/// A transpose that exchanges the free dimensions of two factors exchanges the factors.
pub(super) fn transpose_of_dot(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let id = instr.operands[0];
    let dot = cx.made_by(id, Opcode::Dot).filter(|_| cx.is_read_once(id))?;
    let rank = |operand: usize| Some(cx.array(dot.operands[operand])?.rank());
    let n_batch = dot.ints(Key::LhsBatchDims).len();
    let n_lhs = rank(0)?.checked_sub(n_batch + dot.ints(Key::LhsContractingDims).len())?;
    let n = instr.shape.as_array()?.rank();
    let exchanged = (0..n_batch).chain(n_batch + n_lhs..n).chain(n_batch..n_batch + n_lhs);
    let is_swap = dims(instr, Key::Dimensions).into_iter().eq(exchanged);
    // Precisions are per operand, sparsity has a side of its own.
    let is_plain =
        !dot.attrs.iter().any(|attr| matches!(attr.key, Key::OperandPrecision | Key::SparsityConfig));
    if !is_swap || !is_plain {
        return None;
    }
    // The keys keep their order, so that equal products are spelled alike.
    let attrs = dot.attrs.iter().filter(|attr| is_meaning(&attr.key));
    let swapped =
        attrs.map(|attr| Some(Attr { value: dot.attr(other_side(&attr.key))?.clone(), ..attr.clone() }));
    let attrs = swapped.collect::<Option<Vec<Attr>>>()?;
    let operands: Vec<InstrId> = dot.operands.iter().rev().copied().collect();
    instead(instr, Opcode::Dot, &operands, attrs)
}

fn is_meaning(key: &Key) -> bool {
    SIDES.iter().flatten().any(|own| own == key) || *key == Key::Algorithm
}

fn other_side(key: &Key) -> Key {
    let flat = SIDES.iter().flatten().position(|own| own == key);
    flat.map_or_else(|| key.clone(), |at| SIDES[1 - at / 2][at % 2].clone())
}

/// Dimension `d` goes to place `to(d)`: in the positions, and in the text of one of the three tensors.
fn relabelled(
    labels: &LabelledDims,
    text: &str,
    to: impl Fn(usize) -> Option<usize>,
) -> Option<(LabelledDims, String)> {
    let spatial = labels.spatial.iter().map(|&dim| to(dim)).collect::<Option<_>>()?;
    let moved = LabelledDims { major: to(labels.major)?, minor: to(labels.minor)?, spatial };
    let mut letters = vec!['?'; text.len()];
    for (dim, letter) in text.chars().enumerate() {
        *letters.get_mut(to(dim)?)? = letter;
    }
    Some((moved, letters.into_iter().collect()))
}

fn labels(instr: &Instr) -> Option<(&DimLabels, [&str; 3])> {
    let Some(Value::DimLabels(labels)) = instr.attr(Key::DimLabels) else { return None };
    let (operands, out) = labels.text.split_once("->")?;
    let (lhs, rhs) = operands.split_once('_')?;
    Some((labels, [lhs, rhs, out]))
}

fn set_labels(instr: &mut Instr, mut labels: DimLabels, [lhs, rhs, out]: [&str; 3]) {
    labels.text = format!("{lhs}_{rhs}->{out}").into();
    instr.set_attr(Key::DimLabels, Value::DimLabels(Box::new(labels)));
}

/// A convolution names the dimensions of its operands, in any order.
pub(super) fn convolution_of_transpose(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let (old, [lhs, rhs, out]) = labels(instr)?;
    let mut made = instr.clone();
    let mut new = old.clone();
    if let Some((x, order)) = transposed(cx, instr.operands[0]) {
        let (moved, text) = relabelled(&old.lhs, lhs, |dim| order.get(dim).copied())?;
        made.operands[0] = x;
        new.lhs = moved;
        set_labels(&mut made, new, [&text, rhs, out]);
    } else {
        let (x, order) = transposed(cx, instr.operands[1])?;
        let (moved, text) = relabelled(&old.rhs, rhs, |dim| order.get(dim).copied())?;
        made.operands[1] = x;
        new.rhs = moved;
        set_labels(&mut made, new, [lhs, &text, out]);
    }
    Some(Made::Instr(made))
}

/// A convolution names the dimensions of its result, too.
pub(super) fn transpose_of_convolution(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let id = instr.operands[0];
    let convolution = cx.made_by(id, Opcode::Convolution).filter(|_| cx.is_read_once(id))?;
    let order = dims(instr, Key::Dimensions);
    let (old, [lhs, rhs, out]) = labels(convolution)?;
    let (moved, text) = relabelled(&old.out, out, |dim| place(&order, dim))?;
    let attrs = convolution.attrs.iter().filter(|attr| is_convolution(&attr.key)).cloned().collect();
    let Made::Instr(mut made) = instead(instr, Opcode::Convolution, &convolution.operands, attrs)? else {
        return None;
    };
    set_labels(&mut made, DimLabels { out: moved, ..old.clone() }, [lhs, rhs, &text]);
    Some(Made::Instr(made))
}

/// Attributes that say what a convolution computes.
fn is_convolution(key: &Key) -> bool {
    let is_shape = matches!(key, Key::Window | Key::DimLabels | Key::PaddingType | Key::ConvolutionKind);
    let is_count = matches!(key, Key::FeatureGroupCount | Key::BatchGroupCount);
    is_shape || is_count || matches!(key, Key::OperandPrecision | Key::Algorithm)
}
