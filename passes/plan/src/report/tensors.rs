//! The largest tensors and where they lie.

use super::BigTensor;
use crate::derive::Facts;
use phzc_ir::{ArrayShape, Module};
use std::collections::BTreeMap;

/// Groups of tensors that are listed.
const MAX_LISTED: usize = 12;

/// The groups with the largest tensors of the entry, largest first, then in program order.
pub fn largest(module: &Module, facts: &Facts) -> Vec<BigTensor> {
    let mut groups: BTreeMap<(String, String, usize), (f64, usize, BigTensor)> = BTreeMap::new();
    for (id, instr) in module.entry().iter() {
        let own = &facts.comps[module.entry.index()][id.index()];
        let Some(array) = instr.shape.as_array().filter(|array| array.rank() > 0 && own.is_allocated) else {
            continue;
        };
        let (shape, layout) = (
            type_text(array),
            own.leaves[0].layout.named(array.rank(), &facts.header.meshes[own.leaves[0].stage]),
        );
        let (stage, bytes, name) = (own.leaves[0].stage, own.bytes[0], instr.name.to_string());
        let group = groups.entry((shape.clone(), layout.clone(), stage)).or_insert_with(|| {
            (array.bytes(), id.index(), BigTensor { name, shape, layout, stage, count: 0, bytes })
        });
        group.2.count += 1;
    }
    let mut groups: Vec<(f64, usize, BigTensor)> = groups.into_values().collect();
    groups.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    groups.into_iter().take(MAX_LISTED).map(|(_, _, tensor)| tensor).collect()
}

/// `bf16[1024,4096]`.
pub(super) fn type_text(array: &ArrayShape) -> String {
    let dims: Vec<String> = array.dims.iter().map(i64::to_string).collect();
    format!("{}[{}]", array.dtype.as_str(), dims.join(","))
}
