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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_lie_where_their_queries_do_and_other_products_are_left_open() {
        let module = phzc_ir::parse(
            "ENTRY e {
            q = bf16[2,4,32,8] parameter(0)
            k = bf16[2,4,32,8] parameter(1)
            scores.1 = bf16[2,4,32,32] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
            ROOT out = bf16[2,4,32,8] dot(scores.1, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
        }",
        );
        let made = pin(&module.expect("legal"), ["data", "tensor", "context"]);
        assert_eq!(made.as_deref(), Some(r"^(scores\.1)$=[data,tensor,context,-]"));
        let nothing = phzc_ir::parse("ENTRY e { ROOT x = f32[] constant(0) }").expect("legal");
        assert_eq!(pin(&nothing, ["data", "-", "context"]), None);
    }
}
