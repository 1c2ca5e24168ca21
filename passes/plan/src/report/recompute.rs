//! What the backward part does again: work on the same values as an instruction of the forward part.
//!
//! Two instructions make the same value if op, attributes and operands are the same (value numbering);
//! tuples, barriers, changes of layout and changes of shape that are undone are seen through. Only the entry
//! is looked at: a loop is one instruction.

use super::price::StagePrice;
use crate::derive::{Facts, Phase, is_naming, operand_origins};
use indexmap::IndexMap;
use phzc_cost::Cluster;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Attr, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Value, notes};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Per stage, the seconds per microbatch of the backward part that repeat the forward part.
pub fn secs(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<f64> {
    let mut prices = vec![StagePrice::default(); facts.header.meshes.len()];
    let comp = module.entry;
    for (id, _) in again(module, facts) {
        let (own, instr) = (&facts.comps[comp.index()][id.index()], module.comp(comp).instr(id));
        prices[own.stage].instr(module, facts, cluster, (comp, id, instr));
    }
    prices.iter().map(|price| price.backward_secs).collect()
}

/// The instructions of the entry's backward part that repeat the forward part, and what they repeat.
pub fn again(module: &Module, facts: &Facts) -> Vec<(InstrId, InstrId)> {
    repeated(module, facts.comps[module.entry.index()].iter().map(|own| own.phase))
}

/// A value: the first instruction that makes it, and which leaf.
type Number = (usize, usize);

/// The backward instructions whose values forward instructions have made, and those.
fn repeated(module: &Module, phases: impl Iterator<Item = Phase>) -> Vec<(InstrId, InstrId)> {
    let comp = module.entry();
    // Instructions that differ in attributes or type at most, each the first that makes its value.
    let mut alike: IndexMap<Made, SmallVec<[InstrId; 1]>, FxBuildHasher> = IndexMap::default();
    let (mut numbers, mut is_forward): (Vec<Number>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for ((id, instr), phase) in comp.iter().zip(phases) {
        is_forward.push(phase == Phase::Forward);
        let known = as_it_was(comp, id).map(|last| operands(comp, comp.instr(last), &numbers)[0]);
        let key = key(comp, instr, &numbers).filter(|_| !is_move(instr));
        let first = key.and_then(|key| {
            let others = alike.entry(key).or_default();
            let same = others.iter().copied().find(|&other| is_same(module, instr, comp.instr(other)));
            others.extend(same.is_none().then_some(id));
            same
        });
        let is_again = first.is_some_and(|first| is_forward[first.index()]) && phase == Phase::Backward;
        found.extend(first.filter(|_| is_again).map(|first| (id, first)));
        numbers.push(known.unwrap_or((first.unwrap_or(id).index(), 0)));
    }
    found
}

/// The change of layout or of shape behind which a value was as it is here: a change of layout itself, or
/// what another has undone since.
fn as_it_was(comp: &Computation, id: InstrId) -> Option<InstrId> {
    let mut at = id;
    if is_move(comp.instr(id)) {
        return Some(id);
    }
    while is_move(comp.instr(at)) || is_renaming(comp, at) {
        let operand = comp.instr(at).operands[0];
        if comp.instr(operand).shape == comp.instr(id).shape {
            return Some(at);
        }
        at = operand;
    }
    None
}

/// Whether an instruction has the elements of its operand in their order: a reshape, or a broadcast of all
/// dimensions.
pub fn is_renaming(comp: &Computation, id: InstrId) -> bool {
    let instr = comp.instr(id);
    let elements = |instr: &Instr| instr.shape.as_array().map(|array| array.n_elements());
    match instr.op {
        Opcode::Reshape => true,
        // Dimensions in another order are a transpose.
        Opcode::Broadcast if !instr.ints(Key::Dimensions).is_sorted() => false,
        Opcode::Broadcast => elements(instr) == elements(comp.instr(instr.operands[0])),
        _ => false,
    }
}

/// Op, literal and operands.
type Made<'a> = (Opcode, &'a str, SmallVec<[Number; 3]>);

/// What a value is made of; `None` if no other instruction can make it.
fn key<'a>(comp: &'a Computation, instr: &'a Instr, numbers: &[Number]) -> Option<Made<'a>> {
    if instr.op == Opcode::Parameter || is_naming(instr) || has_side_effect(instr) {
        return None;
    }
    let literal = match &instr.payload {
        Payload::Literal(literal) => literal,
        _ => "",
    };
    Some((instr.op, literal, operands(comp, instr, numbers)))
}

/// The values that an instruction reads, leaf by leaf.
fn operands(comp: &Computation, instr: &Instr, numbers: &[Number]) -> SmallVec<[Number; 3]> {
    // Of a change of layout the leaf is that of what it moves.
    let number = |(maker, leaf): (InstrId, usize)| {
        let (first, moved) = numbers[maker.index()];
        (first, moved + leaf)
    };
    operand_origins(comp, instr).map(number).collect()
}

/// Whether two instructions of one key make the same value; names and where it lies do not matter.
fn is_same(module: &Module, one: &Instr, other: &Instr) -> bool {
    let is_meaning =
        |attr: &&Attr| !matches!(attr.key, Key::FrontendAttributes | Key::Metadata | Key::Sharding);
    let attrs = one.attrs.iter().filter(is_meaning).zip(other.attrs.iter().filter(is_meaning));
    let count = |instr: &Instr| instr.attrs.iter().filter(is_meaning).count();
    one.shape == other.shape
        && one.payload == other.payload
        && count(one) == count(other)
        && attrs.into_iter().all(|(one, other)| is_same_attr(module, one, other))
}

/// Whether two attributes say the same; computations do if their instructions do.
fn is_same_attr(module: &Module, one: &Attr, other: &Attr) -> bool {
    let (Value::Comp(a), Value::Comp(b)) = (&one.value, &other.value) else { return one == other };
    let (a, b) = (module.comp(*a), module.comp(*b));
    let is_pair = |(one, other): (&Instr, &Instr)| {
        one.op == other.op && one.operands == other.operands && is_same(module, one, other)
    };
    one.key == other.key
        && a.root == b.root
        && a.instrs.len() == b.instrs.len()
        && a.instrs.iter().zip(&b.instrs).all(is_pair)
}

/// Whether an instruction changes a layout only.
fn is_move(instr: &Instr) -> bool {
    instr.note(notes::MOVE).is_some() && !instr.operands.is_empty()
}

#[cfg(test)]
mod tests;
