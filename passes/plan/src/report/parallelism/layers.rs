//! Layers per stage: the stretch of forward products that repeats.

use crate::derive::{Facts, Phase, control_flow, is_added};
use phzc_analysis::batch::Accumulation;
use phzc_analysis::repeats::repeats;
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Key, Module};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Products that are compared at most, loops written out.
const MAX_PRODUCTS: usize = 8192;

/// Per layer: its forward products, in the order of the program. `None` where layers are not alike, or are
/// the trips of a loop, which cannot be cut.
pub fn layer_products(module: &Module, facts: &Facts) -> Option<Vec<Vec<InstrId>>> {
    let mut products = Vec::new();
    for (id, instr) in module.entry().iter() {
        let own = &facts.comps[module.entry.index()][id.index()];
        if own.phase == Phase::Forward && !is_added(instr) && instr.op.def().fusion == FusionKind::Matrix {
            products.push((fingerprint(module, module.entry, instr), id));
        }
    }
    let found = stretches(&products.iter().map(|(hash, _)| *hash).collect::<Vec<_>>())?;
    let ids = |layer: &Range<usize>| products[layer.clone()].iter().map(|(_, id)| *id).collect();
    Some(found.iter().map(ids).collect())
}

/// The stretches that repeat; `None` where they are less than half: query, key and value alone are no layers.
fn stretches(hashes: &[u64]) -> Option<Vec<Range<usize>>> {
    let copies = repeats(hashes);
    let (_, first) = copies.first()?;
    let all: Vec<Range<usize>> =
        std::iter::once(first).chain(copies.iter().map(|(copy, _)| copy)).cloned().collect();
    (2 * first.len() * all.len() >= hashes.len()).then_some(all)
}

/// These, and stretches of several products that repeat before them and after: an encoder's beside a
/// decoder's.
fn rows(hashes: &[u64]) -> Option<Vec<Range<usize>>> {
    let all = stretches(hashes)?;
    let is_layer = |layer: &Range<usize>| layer.len() > 1;
    let beside = |part: Range<usize>| {
        let own = rows(&hashes[part.clone()]).unwrap_or_default().into_iter().filter(is_layer);
        own.map(|layer| part.start + layer.start..part.start + layer.end).collect::<Vec<_>>()
    };
    let ends = [0..all[0].start, all[all.len() - 1].end..hashes.len()];
    let others = ends.map(beside).concat();
    Some([all, others].concat())
}

/// Per stage: how many of the layers are in it, to a thousandth, for a cut may go through one. `None` where
/// stretches of products that are alike, side by side, are less than half of all. Of a loop over microbatches
/// one trip counts.
pub fn layers(module: &Module, facts: &Facts, microbatches: Option<Accumulation>) -> Option<Vec<f64>> {
    let mut products = Vec::new();
    collect(module, facts, (module.entry, microbatches.map(|it| it.body)), &mut products);
    if products.len() > MAX_PRODUCTS {
        return None;
    }
    let hashes: Vec<u64> = products.iter().map(|(hash, _)| *hash).collect();
    let mut counts = vec![0.0; facts.header.meshes.len()];
    for layer in rows(&hashes)? {
        let share = 1.0 / layer.len() as f64;
        products[layer.clone()].iter().for_each(|&(_, stage)| counts[stage] += share);
    }
    Some(counts.into_iter().map(|count: f64| (count * 1e3).round() / 1e3).collect())
}

/// Forward products with their stages, as often as loops run them, `once` apart.
fn collect(
    module: &Module,
    facts: &Facts,
    (comp, once): (CompId, Option<CompId>),
    found: &mut Vec<(u64, usize)>,
) {
    for (id, instr) in module.comp(comp).iter() {
        let own = &facts.comps[comp.index()][id.index()];
        if own.phase != Phase::Forward || is_added(instr) || found.len() > MAX_PRODUCTS {
            continue;
        }
        if instr.op.def().fusion == FusionKind::Matrix {
            found.push((fingerprint(module, comp, instr), own.stage));
        }
        let start = found.len();
        for callee in control_flow(instr).into_iter().filter(|&it| instr.comp(Key::Condition) != Some(it)) {
            collect(module, facts, (callee, once), found);
            if Some(callee) == once {
                continue;
            }
            let n_times = facts.executions[callee.index()] / facts.executions[comp.index()].max(1.0);
            let trip = found[start..].to_vec();
            let n_times = if trip.is_empty() { 1 } else { (n_times as usize).clamp(1, MAX_PRODUCTS + 1) };
            (1..n_times)
                .take_while(|time| time * trip.len() <= MAX_PRODUCTS)
                .for_each(|_| found.extend(&trip));
        }
    }
}

/// What layers that are alike have in common: op, types and sizes.
fn fingerprint(module: &Module, comp: CompId, instr: &Instr) -> u64 {
    let mut hasher = FxHasher::default();
    instr.op.as_str().hash(&mut hasher);
    let operands = instr.operands.iter().map(|&id| &module.comp(comp).instr(id).shape);
    for array in operands.chain([&instr.shape]).filter_map(|shape| shape.as_array()) {
        array.dtype.as_str().hash(&mut hasher);
        array.dims.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::rows;

    fn layers(hashes: &[&[u64]]) -> Option<usize> {
        rows(&hashes.concat()).map(|all| all.len())
    }

    #[test]
    fn layers_of_an_encoder_count_beside_a_decoder_s() {
        let (encoder, decoder) = ([1, 2].repeat(5), [3, 4, 5].repeat(6));
        assert_eq!(layers(&[&[9], &encoder, &[8], &decoder, &[7]]), Some(11));
        // Products alone that are alike, as keys and values, are no layers.
        assert_eq!(layers(&[&[9, 9], &decoder]), Some(6));
        assert_eq!(layers(&[&[9, 9, 1, 2, 3, 4, 5]]), None);
    }
}
