//! The scores of attention: devices that share a sequence hold those of their own queries, and gather keys.

use phzc_ir::{Instr, Key, Module, Opcode, Value};

/// A pin of the scores and of their gradients: over the copies, the devices that share heads, those that
/// share a sequence.
pub(super) fn pin(module: &Module, layout: [&str; 3]) -> Option<String> {
    let scores = module.entry().iter().filter(|(_, instr)| are_scores(instr));
    let names: Vec<String> = scores.map(|(_, instr)| instr.name.replace('.', "\\.")).collect();
    let [copies, heads, context] = layout;
    (!names.is_empty()).then(|| format!("^({})$=[{copies},{heads},{context},-]", names.join("|")))
}

/// Whether a product has a matrix of as many rows as columns for each head of each sequence.
fn are_scores(instr: &Instr) -> bool {
    let is_of_heads = matches!(instr.attr(Key::LhsBatchDims), Some(Value::Ints(dims)) if dims.len() == 2);
    let dims = instr.shape.as_array().map_or(&[][..], |array| &array.dims);
    instr.op == Opcode::Dot && is_of_heads && matches!(dims, [_, _, queries, keys] if queries == keys)
}
