//! Moves sums over the microbatches out of loops: a loop over layers then makes summands, which are summed up
//! after it.
//!
//! ```text
//! body: g = all-reduce(d)                             →    body: r = dynamic-update-slice(carried, d, …)
//!       r = dynamic-update-slice(carried, g, …)
//! out = get-tuple-element(while), index=1                  out = all-reduce(get-tuple-element(while))
//! ```
//!
//! That is the same if all that becomes of a sum in the body is linear, ends in carried values alone, and
//! those start as zeros: then the carried values themselves are sums of what each microbatch makes.

use phzc_ir::edit::Names;
use phzc_ir::{CompId, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Value, notes};
use phzc_plan::derive::{is_naming, operand_origins, origin};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Moves the sums of all loops out, the innermost first; those of which it would change the meaning stay.
pub fn lift(module: &mut Module) {
    for comp in (0..=module.entry.index()).map(CompId::new) {
        let is_loop = |(_, instr): &(InstrId, &Instr)| instr.op == Opcode::While;
        let names: Vec<Box<str>> =
            module.comp(comp).iter().filter(is_loop).map(|(_, instr)| instr.name.clone()).collect();
        for name in names {
            lift_from(module, comp, &name);
        }
    }
}

/// Moves the sums of one loop to after it, if there are any and they can.
fn lift_from(module: &mut Module, comp: CompId, name: &str) {
    let Some((id, instr)) = module.comp(comp).iter().find(|(_, instr)| &*instr.name == name) else { return };
    let (Some(body), Some(condition)) = (instr.comp(Key::Body), instr.comp(Key::Condition)) else { return };
    let sums: Vec<InstrId> = sums(module.comp(body)).collect();
    let Some(&first) = sums.first() else { return };
    let attrs = module.comp(body).instr(first).attrs.clone();
    let is_addition = |&sum: &InstrId| {
        let reducer = module.comp(body).instr(sum).comp(Key::ToApply);
        reducer.is_some_and(|reducer| module.comp(reducer).root().op == Opcode::Add)
    };
    if !sums.iter().all(is_addition) {
        return;
    }
    let Some(leaves) = carried(module, module.comp(body)) else { return };
    let is_fit = |&leaf: &usize| {
        !reads(module.comp(condition), leaf) && starts_as_zeros(module.comp(comp), instr.operands[0], leaf)
    };
    let Some(elements) = elements(module.comp(comp), id, &leaves).filter(|_| leaves.iter().all(is_fit))
    else {
        return;
    };
    drop_sums(&mut module.comps[body.index()], &sums);
    add_sums(&mut module.comps[comp.index()], id, &elements, &attrs);
}

fn sums(comp: &Computation) -> impl Iterator<Item = InstrId> + '_ {
    comp.iter().filter(|(_, instr)| instr.op == Opcode::AllReduce).map(|(id, _)| id)
}

/// The carried leaves that the body's sums end in; `None` if they do not stay linear.
fn carried(module: &Module, body: &Computation) -> Option<BTreeSet<usize>> {
    let mut leaves: BTreeSet<usize> = BTreeSet::new();
    loop {
        let parts = Parts::new(module, body, &leaves);
        let n_leaves = body.root().shape.n_leaves();
        let reached: BTreeSet<usize> =
            (0..n_leaves).filter(|&leaf| parts.has(origin(body, body.root, leaf))).collect();
        if reached == leaves {
            return body.instrs.iter().all(|instr| parts.is_linear(instr)).then_some(leaves);
        }
        leaves.extend(reached);
    }
}

/// Which values of a loop's body would be one microbatch's part of a sum.
struct Parts<'a> {
    module: &'a Module,
    body: &'a Computation,
    /// The carried leaves that are.
    leaves: &'a BTreeSet<usize>,
    /// Per instruction that computes.
    made: Vec<bool>,
}

impl<'a> Parts<'a> {
    fn new(module: &'a Module, body: &'a Computation, leaves: &'a BTreeSet<usize>) -> Parts<'a> {
        let mut parts = Parts { module, body, leaves, made: vec![false; body.instrs.len()] };
        for (id, instr) in body.iter().filter(|(_, instr)| !is_naming(instr)) {
            let mut read = operand_origins(body, instr);
            parts.made[id.index()] = instr.op == Opcode::AllReduce || read.any(|value| parts.has(value));
        }
        parts
    }

    fn has(&self, (maker, leaf): (InstrId, usize)) -> bool {
        match self.body.instr(maker).op {
            Opcode::Parameter => self.leaves.contains(&leaf),
            _ => self.made[maker.index()],
        }
    }

    /// Whether an instruction is linear in those of its operands that are parts.
    fn is_linear(&self, instr: &Instr) -> bool {
        if is_naming(instr) {
            return true;
        }
        let is_part: Vec<bool> = operand_origins(self.body, instr).map(|value| self.has(value)).collect();
        let (n, n_parts) = (is_part.len(), is_part.iter().filter(|&&is_part| is_part).count());
        match instr.op {
            _ if n_parts == 0 => true,
            Opcode::Reshape | Opcode::Transpose | Opcode::Copy | Opcode::Bitcast | Opcode::Slice => true,
            Opcode::Negate | Opcode::Reverse | Opcode::Broadcast | Opcode::Convert => true,
            Opcode::Add | Opcode::Subtract | Opcode::Concatenate => n_parts == n,
            Opcode::Multiply | Opcode::Dot => n_parts == 1,
            Opcode::Reduce => n_parts == 1 && is_part[0] && self.adds_up(instr),
            Opcode::Divide | Opcode::DynamicSlice => n_parts == 1 && is_part[0],
            Opcode::DynamicUpdateSlice => n_parts == 2 && is_part[0] && is_part[1],
            Opcode::Select => n_parts == 2 && is_part[1] && is_part[2],
            _ => false,
        }
    }
}

impl Parts<'_> {
    /// Whether a reduction adds elements to zero.
    fn adds_up(&self, instr: &Instr) -> bool {
        let reducer = instr.comp(Key::ToApply).map(|comp| self.module.comp(comp).root().op);
        reducer == Some(Opcode::Add)
            && instr.operands.len() == 2
            && is_zeros(self.body, origin(self.body, instr.operands[1], 0).0)
    }
}

/// Whether a condition asks for a leaf of the loop's state.
fn reads(condition: &Computation, leaf: usize) -> bool {
    let is_asked =
        |(maker, at): (InstrId, usize)| condition.instr(maker).op == Opcode::Parameter && at == leaf;
    let mut computing = condition.instrs.iter().filter(|instr| !is_naming(instr));
    computing.any(|instr| operand_origins(condition, instr).any(is_asked))
}

/// Whether a leaf of a loop's first state is all zeros.
fn starts_as_zeros(comp: &Computation, state: InstrId, leaf: usize) -> bool {
    is_zeros(comp, origin(comp, state, leaf).0)
}

/// Whether an array is made of a constant zero alone.
fn is_zeros(comp: &Computation, mut id: InstrId) -> bool {
    while matches!(comp.instr(id).op, Opcode::Broadcast | Opcode::Convert | Opcode::Copy | Opcode::Reshape) {
        id = origin(comp, comp.instr(id).operands[0], 0).0;
    }
    let is_zero = |literal: &str| literal.trim().parse::<f64>() == Ok(0.0);
    matches!(&comp.instr(id).payload, Payload::Literal(literal) if is_zero(literal))
}

/// The instructions that pick these leaves of a loop's result; `None` if something else reads it.
fn elements(
    comp: &Computation,
    id: InstrId,
    leaves: &BTreeSet<usize>,
) -> Option<BTreeMap<usize, Vec<InstrId>>> {
    let mut found: BTreeMap<usize, Vec<InstrId>> = BTreeMap::new();
    let is_flat = comp.instr(id).shape.parts().iter().all(|part| part.as_array().is_some());
    for (reader, instr) in comp.iter().filter(|(_, instr)| instr.operands.contains(&id)) {
        let index = instr.int(Key::Index).filter(|_| instr.op == Opcode::GetTupleElement)? as usize;
        if leaves.contains(&index) {
            found.entry(index).or_default().push(reader);
        }
    }
    (comp.root != id && is_flat).then_some(found)
}

fn drop_sums(body: &mut Computation, sums: &[InstrId]) {
    let mut keep = vec![true; body.instrs.len()];
    for &sum in sums {
        let summand = body.instr(sum).operands[0];
        body.replace_uses(sum, summand);
        keep[sum.index()] = false;
    }
    body.retain(&keep);
}

/// Puts a sum behind each element; the sum has its name from then on.
fn add_sums(
    comp: &mut Computation,
    id: InstrId,
    elements: &BTreeMap<usize, Vec<InstrId>>,
    attrs: &[phzc_ir::Attr],
) {
    let (n_old, mut names) = (comp.instrs.len(), Names::of(comp));
    let notes: Vec<(&str, Option<String>)> = [notes::PHASE, notes::OF_STAGE]
        .map(|note| (note, comp.instr(id).note(note).map(str::to_owned)))
        .into();
    let mut new = Vec::new();
    for picked in elements.values() {
        let element = picked[0];
        let sum = InstrId::new(n_old + new.len());
        picked.iter().for_each(|&other| comp.replace_uses(other, sum));
        let own = &mut comp.instrs[element.index()];
        let mut instr = Instr {
            op: Opcode::AllReduce,
            operands: SmallVec::from_slice(&[element]),
            attrs: attrs.iter().filter(|attr| !matches!(attr.value, Value::Notes(_))).cloned().collect(),
            ..own.clone()
        };
        own.name = names.derive(&instr.name, "part");
        for (note, text) in &notes {
            text.iter().for_each(|text| instr.set_note(note, text));
        }
        new.push((InstrId::new(element.index() + 1), instr));
    }
    comp.insert_before(new);
}

#[cfg(test)]
mod tests;
