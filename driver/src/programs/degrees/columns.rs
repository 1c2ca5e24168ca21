//! The results of products whose weights tensor parallelism splits by columns: where copies share weights
//! out, only these say which devices share a product.

use super::kinds::Kind;
use phzc_ir::{Computation, InstrId, Module, Opcode};

/// A pin of these results: over the copies, the devices that share a sequence, those that share products.
pub(super) fn pin(module: &Module, kind: &Kind, layout: [&str; 3]) -> Option<String> {
    let entry = module.entry();
    let weights = entry.params().into_iter().filter(|&id| is_split(&entry.instr(id).name, kind));
    let names: Vec<String> = weights
        .filter_map(|weight| first_product(entry, weight))
        .map(|product| entry.instr(product).name.replace('.', "\\."))
        .collect();
    let [copies, context, tensor] = layout;
    (!names.is_empty()).then(|| format!("^({})$=[{copies},{context},{tensor}]", names.join("|")))
}

/// Whether a parameter is the matrix of one of the products that are split by columns.
fn is_split(name: &str, kind: &Kind) -> bool {
    let Some(product) = name.strip_suffix(".kernel").and_then(|name| name.rsplit('.').next()) else {
        return false;
    };
    kind.columns.trim_matches(['(', ')']).split('|').any(|own| own == product)
}

/// The first product that reads a weight, converted or not.
fn first_product(entry: &Computation, weight: InstrId) -> Option<InstrId> {
    let mut same = vec![weight];
    for (id, instr) in entry.iter() {
        let reads = instr.operands.iter().any(|operand| same.contains(operand));
        match instr.op {
            Opcode::Dot if reads => return Some(id),
            Opcode::Convert if reads => same.push(id),
            _ => {}
        }
    }
    None
}
