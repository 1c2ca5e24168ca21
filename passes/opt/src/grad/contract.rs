//! Derivatives of `dot`: a dot each.

use super::elementwise::PRECISION;
use super::movement::{dims, inverse};
use super::scope::Cx;
use phzc_ir::attr::Value;
use phzc_ir::{InstrId, Key, Opcode, Result};

/// What the dimensions of an operand are to a dot.
struct Side {
    batch: Vec<usize>,
    contracted: Vec<usize>,
    /// All others.
    own: Vec<usize>,
}

impl Side {
    fn new(cx: &Cx, operand: usize, batch: Key, contracted: Key) -> Side {
        let (batch, contracted) = (dims(cx, batch), dims(cx, contracted));
        let is_own = |dim: &usize| !batch.contains(dim) && !contracted.contains(dim);
        let own = (0..cx.shape(operand).rank()).filter(is_own).collect();
        Side { batch, contracted, own }
    }
}

/// The product of the cotangent with the other operand, over the other operand's own dimensions.
pub(super) fn dot(cx: &mut Cx) -> Result<()> {
    let sides = [
        Side::new(cx, 0, Key::LhsBatchDims, Key::LhsContractingDims),
        Side::new(cx, 1, Key::RhsBatchDims, Key::RhsContractingDims),
    ];
    for operand in 0..2 {
        cx.give_with(operand, |cx| product(cx, operand, &sides));
    }
    Ok(())
}

fn product(cx: &mut Cx, operand: usize, sides: &[Side; 2]) -> InstrId {
    let (ct, other) = (cx.ct(), cx.x(1 - operand));
    let (own, far) = (&sides[operand], &sides[1 - operand]);
    let n_batch = own.batch.len();
    // Dimensions of the result: batch, the left operand's own ones, the right operand's.
    let first_far = n_batch + if operand == 0 { own.own.len() } else { 0 };
    let far_of_ct: Vec<usize> = (first_far..first_far + far.own.len()).collect();
    let batch_of_ct: Vec<usize> = (0..n_batch).collect();
    // What the product's dimensions are in the operand: the contracted ones come in the other operand's
    // order.
    let mut contracted: Vec<(usize, usize)> =
        far.contracted.iter().copied().zip(own.contracted.iter().copied()).collect();
    contracted.sort_unstable();
    let contracted: Vec<usize> = contracted.into_iter().map(|(_, dim)| dim).collect();
    let ct_first = [&own.batch[..], &own.own, &contracted].concat();
    let ct_last = [&own.batch[..], &contracted, &own.own].concat();
    let is_in_order = |order: &[usize]| order.iter().copied().eq(0..order.len());
    let (made, order) = if is_in_order(&ct_last) && !is_in_order(&ct_first) {
        (cx.b.dot((other, ct), (&far.batch, &batch_of_ct), (&far.own, &far_of_ct)), ct_last)
    } else {
        (cx.b.dot((ct, other), (&batch_of_ct, &far.batch), (&far_of_ct, &far.own)), ct_first)
    };
    copy_precision(cx, made);
    let made = cx.b.transpose(made, &inverse(&order));
    let dtype = cx.shape(operand).dtype;
    cx.b.convert(made, dtype)
}

/// Gives a product of the backward part the precision of the forward one, where both operands have the same.
pub(super) fn copy_precision(cx: &mut Cx, product: InstrId) {
    for key in PRECISION {
        let Some(value) = cx.instr.attr(key.clone()).cloned() else { continue };
        let is_symmetric = match &value {
            Value::Raw(text) => {
                let mut words = text.trim_matches(['{', '}']).split(',').map(str::trim);
                let first = words.next();
                words.all(|word| Some(word) == first)
            }
            _ => true,
        };
        if is_symmetric {
            cx.b.instr_mut(product).set_attr(key, value);
        }
    }
    debug_assert!(matches!(cx.b.instr(product).op, Opcode::Dot | Opcode::Convolution));
}
