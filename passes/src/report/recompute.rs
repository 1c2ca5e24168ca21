//! What the backward part does again: work on the same values as an instruction of the forward part.
//!
//! Two instructions make the same value if op, attributes and operands are the same (value numbering); tuples, barriers
//! and changes of layout are seen through. Only the entry is looked at: a loop is one instruction.

use super::price::StagePrice;
use crate::derive::{Facts, Phase, is_naming, operand_origins};
use phzc_cost::Cluster;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Attr, Computation, Instr, InstrId, Module, Opcode, Payload};
use smallvec::SmallVec;
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
    // Instructions that differ in attributes or type at most, each the first that makes its value.
    let mut alike: BTreeMap<Key, Vec<InstrId>> = BTreeMap::new();
    let (mut number_of, mut is_forward): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for ((id, instr), phase) in comp.iter().zip(phases) {
        is_forward.push(phase == Phase::Forward);
        let first = key(comp, instr, &number_of).and_then(|key| {
            let others = alike.entry(key).or_default();
            let same = others.iter().copied().find(|&other| is_same(instr, comp.instr(other)));
            others.extend(same.is_none().then_some(id));
            same
        });
        let is_again = first.is_some_and(|first| is_forward[first.index()]) && phase == Phase::Backward;
        found.extend((is_again && !is_move(instr)).then_some(id));
        number_of.push(first.unwrap_or(id).index());
    }
    found
}

/// Op, literal and operands, by the number of the value and its leaf.
type Key<'a> = (&'a str, &'a str, SmallVec<[(usize, usize); 3]>);

/// What a value is made of; `None` if no other instruction can make it.
fn key<'a>(comp: &'a Computation, instr: &'a Instr, number_of: &[usize]) -> Option<Key<'a>> {
    if instr.op == Opcode::Parameter || is_naming(instr) || has_side_effect(instr) {
        return None;
    }
    let literal = match &instr.payload {
        Payload::Literal(literal) => literal,
        _ => "",
    };
    let origins = operand_origins(comp, instr);
    let operands = origins.map(|(maker, leaf)| (number_of[maker.index()], leaf)).collect();
    Some((instr.op.as_str(), literal, operands))
}

/// Whether two instructions of one key make the same value; where it lies does not matter.
fn is_same(one: &Instr, other: &Instr) -> bool {
    let is_meaning = |attr: &&Attr| {
        !matches!(
            attr.key,
            phzc_ir::Key::FrontendAttributes | phzc_ir::Key::Metadata | phzc_ir::Key::Sharding
        )
    };
    let is_alike = one.shape == other.shape && one.payload == other.payload;
    let has_same_attrs = || one.attrs.iter().filter(is_meaning).eq(other.attrs.iter().filter(is_meaning));
    match (is_move(one), is_move(other)) {
        (true, true) => true,
        (false, false) => is_alike && has_same_attrs(),
        _ => false,
    }
}

/// Whether an instruction changes a layout only.
fn is_move(instr: &Instr) -> bool {
    instr.note("phzc.move").is_some()
}
