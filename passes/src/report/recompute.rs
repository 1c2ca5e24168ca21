//! What the backward part does again: work on the same values as an instruction of the forward part.
//!
//! Two instructions make the same value if op, attributes and operands are the same (value numbering); tuples, barriers
//! and changes of layout are seen through. Only the entry is looked at: a loop is one instruction.

use super::price::StagePrice;
use crate::derive::{Facts, Phase, is_naming, operand_origins};
use phzc_cost::Cluster;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Computation, Instr, InstrId, Key, Module, Opcode};
use std::collections::BTreeMap;

/// Per stage, the seconds per microbatch of the backward part that repeat the forward part.
pub fn secs(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<f64> {
    let mut prices = vec![StagePrice::default(); facts.header.meshes.len()];
    let comp = module.entry;
    for id in repeated(module.comp(comp), facts.comps[comp.index()].iter().map(|own| own.phase)) {
        let (own, instr) = (&facts.comps[comp.index()][id.index()], module.comp(comp).instr(id));
        prices[own.stage].instr(module, facts, cluster, (comp, id, instr));
    }
    prices.iter().map(|price| price.backward_secs).collect()
}

/// The backward instructions whose values forward instructions have made.
fn repeated(comp: &Computation, phases: impl Iterator<Item = Phase>) -> Vec<InstrId> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    // The number of each value, and whether the forward part makes it.
    let (mut number_of, mut is_forward): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for ((id, instr), phase) in comp.iter().zip(phases) {
        let key = key(comp, instr, &number_of).unwrap_or_else(|| format!("only {}", id.index()));
        let number = *numbers.entry(key).or_insert(is_forward.len());
        if number == is_forward.len() {
            is_forward.push(phase == Phase::Forward);
        } else if is_forward[number] && phase == Phase::Backward && instr.note("phzc.move").is_none() {
            found.push(id);
        }
        number_of.push(number);
    }
    found
}

/// What a value is made of; `None` if no other instruction can make it.
fn key(comp: &Computation, instr: &Instr, number_of: &[usize]) -> Option<String> {
    if instr.op == Opcode::Parameter || is_naming(instr) || has_side_effect(instr) {
        return None;
    }
    let origins = operand_origins(comp, instr);
    let operands: Vec<(usize, usize)> =
        origins.map(|(maker, leaf)| (number_of[maker.index()], leaf)).collect();
    if instr.note("phzc.move").is_some() {
        return Some(format!("moved {operands:?}"));
    }
    let is_meaning = |key: &Key| !matches!(key, Key::FrontendAttributes | Key::Metadata | Key::Sharding);
    let attrs: Vec<_> = instr.attrs.iter().filter(|attr| is_meaning(&attr.key)).collect();
    Some(format!("{:?} {:?} {:?} {attrs:?} {operands:?}", instr.op, instr.shape, instr.payload))
}
