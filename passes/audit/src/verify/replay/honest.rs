//! Whether the phases of a plan are true: what is marked as forward or backward can run microbatch by
//! microbatch, the update once.
//!
//! The replay could run nearly everything after all microbatches, on all of them; devices that run the tasks
//! of a plan cannot.

use super::{Plan, is_joint, phase, picked, read, stage};
use phzc_ir::effects::has_side_effect;
use phzc_ir::eval::Value;
use phzc_ir::ops::linear::{is_rounding, is_zero};
use phzc_ir::{CompId, Computation, Diagnostic, Instr, InstrId, Key, Module, Opcode, Result, View, notes};
use phzc_plan::derive::{Phase, aliased, is_naming, origin, origin_by};
use std::collections::BTreeSet;

/// What is known of an instruction of the entry.
#[derive(Clone, Copy, Default)]
struct Known {
    /// It is made of constants alone.
    is_free: bool,
    /// It differs between microbatches.
    varies: bool,
    /// It is, or is made of, a sum over microbatches.
    is_sum: bool,
    /// It is the update's.
    is_update: bool,
    /// An update, or an output that replaces a parameter, is made of it.
    is_updated: bool,
}

/// Errors where an instruction cannot run in its phase. `parts` are the inputs, by device of a microbatch.
///
/// # Errors
/// Names the instruction and what it reads.
pub fn check(local: &Module, plan: &Plan, parts: &[Vec<Value>]) -> Result<()> {
    let (known, entry) = (known(local, plan, parts), local.entry());
    for (id, instr) in entry.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        if known[id.index()].is_free || is_joint(instr, plan.n_devices) {
            continue;
        }
        if let Some((read, what)) = wrong_read(local, &known, id) {
            let (name, read) = (&instr.name, &entry.instr(read).name);
            let phase = instr.note(notes::PHASE).unwrap_or("fwd");
            let message = format!("`{name}` of phase `{phase}` reads `{read}`, {what}");
            return Err(Diagnostic::error(message).help("give it another phase"));
        }
    }
    Ok(())
}

/// What an instruction reads and cannot in its phase, and why.
fn wrong_read(local: &Module, known: &[Known], id: InstrId) -> Option<(InstrId, &'static str)> {
    let entry = local.entry();
    let (own, instr) = (known[id.index()], entry.instr(id));
    let (reads, waits) = (read(entry, instr), waits(entry, instr));
    let find =
        |is_wanted: &dyn Fn(&Known) -> bool| reads.iter().copied().find(|it| is_wanted(&known[it.index()]));
    let later = |all: &[InstrId], is_wanted: &dyn Fn(&Known) -> bool| {
        all.iter().copied().find(|it| is_wanted(&known[it.index()]) && is_before(instr, entry.instr(*it)))
    };
    if own.is_update {
        return Some((find(&|it| it.varies)?, "of which each microbatch has a part of its own"));
    }
    if let Some(read) = find(&|it| it.is_update) {
        return Some((read, "which the update makes"));
    }
    if let Some(read) = later(&reads, &|it| it.is_sum) {
        return Some((read, "of a task that comes later"));
    }
    if let Some(read) = later(&waits, &|it| !it.is_free) {
        return Some((read, "of a task that comes later, with which it passes a barrier"));
    }
    let sum = find(&|it| it.is_sum)?;
    let is_early_update = has_phases(entry) && own.is_updated;
    let is_wrong = find(&|it| it.varies).is_some()
        || is_early_update && !is_linear(local, (local.entry, id), &|it| known[it.index()].is_sum);
    is_wrong.then_some((sum, "a sum over all microbatches"))
}

fn has_phases(entry: &Computation) -> bool {
    entry.instrs.iter().any(|instr| instr.op != Opcode::Parameter && phase(instr) != Phase::Forward)
}

/// What passes a barrier together with something that an instruction reads.
fn waits(entry: &Computation, instr: &Instr) -> Vec<InstrId> {
    let mut barriers = BTreeSet::new();
    let leaves =
        |operand: InstrId| (0..entry.instr(operand).shape.n_leaves()).map(move |leaf| (operand, leaf));
    for (operand, leaf) in instr.operands.iter().copied().flat_map(leaves) {
        origin_by(entry, operand, leaf, |passed| {
            barriers.extend(is_barrier(entry, passed).then_some(passed))
        });
    }
    let passing = barriers.into_iter().flat_map(|barrier| read(entry, entry.instr(barrier)));
    passing.filter(|&it| entry.instr(it).op != Opcode::Parameter).collect()
}

fn is_barrier(entry: &Computation, id: InstrId) -> bool {
    entry.instr(id).op == Opcode::OptBarrier
}

/// Whether the task of an instruction comes before that of another: forward from the first stage on, then
/// backward from the last.
fn is_before(instr: &Instr, other: &Instr) -> bool {
    let place = |instr: &Instr| (phase(instr), stage(instr).unwrap_or_default());
    match (place(instr), place(other)) {
        ((Phase::Forward, own), (Phase::Forward, other)) => own < other,
        ((Phase::Backward, own), (Phase::Backward, other)) => own > other,
        ((own, _), (other, _)) => own < other,
    }
}

fn known(local: &Module, plan: &Plan, parts: &[Vec<Value>]) -> Vec<Known> {
    let entry = local.entry();
    let mut known: Vec<Known> = vec![Known::default(); entry.instrs.len()];
    for (number, id) in entry.params().into_iter().enumerate() {
        let differs = |lane: usize| parts[lane][number] != parts[lane % plan.n_devices][number];
        known[id.index()].varies = (0..parts.len()).any(differs);
    }
    for (id, instr) in entry.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        let reads = read(entry, instr);
        let any = |is_wanted: fn(&Known) -> bool| reads.iter().any(|it| is_wanted(&known[it.index()]));
        let is_joint = is_joint(instr, plan.n_devices);
        let is_free =
            (is_joint || !has_side_effect(instr)) && reads.iter().all(|it| known[it.index()].is_free);
        known[id.index()] = Known {
            is_free,
            varies: !is_joint && any(|it| it.varies),
            is_sum: !is_free && (is_joint || any(|it| it.is_sum)),
            is_update: !is_free && phase(instr) == Phase::Update,
            is_updated: false,
        };
    }
    for alias in aliased(local) {
        known[origin(entry, entry.root, alias.output).0.index()].is_updated = true;
    }
    for (id, instr) in entry.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
        let own = known[id.index()];
        if own.is_update || own.is_updated {
            read(entry, instr).into_iter().for_each(|it| known[it.index()].is_updated = true);
        }
    }
    known
}

/// Whether an instruction is linear in those that it reads which are sums, as collectives are. Loops are not
/// looked into.
fn is_linear(local: &Module, (comp, id): (CompId, InstrId), is_sum: &dyn Fn(InstrId) -> bool) -> bool {
    let (entry, view) = (local.entry(), View::new(local, comp, id));
    let is_collective =
        [Key::ReplicaGroups, Key::SourceTargetPairs].into_iter().any(|key| view.instr.attr(key).is_some());
    if is_collective || matches!(view.instr.op, Opcode::While | Opcode::Conditional) || is_rounding(&view) {
        return true;
    }
    let operands: Vec<InstrId> = view.instr.operands.iter().map(|&it| picked(entry, it)).collect();
    let fits = |summands: &u64| {
        operands.iter().enumerate().all(|(at, &it)| match summands >> at & 1 == 1 {
            true => sums(entry, it, is_sum) || is_zero(view.instrs, it),
            false => !sums(entry, it, is_sum),
        })
    };
    operands.len() <= 64 && (view.instr.op.def().linear)(&view).iter().any(fits)
}

/// Whether a value, or what passes a barrier with it, is a sum.
fn sums(entry: &Computation, id: InstrId, is_sum: &dyn Fn(InstrId) -> bool) -> bool {
    let is_named = |instr: &Instr| is_naming(instr) && read(entry, instr).into_iter().any(is_sum);
    is_sum(id) || is_named(entry.instr(id))
}
