//! Whether the phases of a plan are true: what is marked as forward or backward can run microbatch by microbatch, the update once.
//!
//! The replay could run nearly everything after all microbatches, on all of them; devices that run the tasks of a plan cannot.

use super::{Plan, is_joint, phase, picked, read, stage};
use crate::derive::{Phase, aliased, is_naming, origin};
use phzc_ir::effects::has_side_effect;
use phzc_ir::eval::Value;
use phzc_ir::ops::linear::{is_rounding, is_zero};
use phzc_ir::{CompId, Computation, Diagnostic, Instr, InstrId, Key, Module, Opcode, Result, View};

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
    let known = known(local, plan, parts);
    let entry = local.entry();
    let has_phases =
        entry.instrs.iter().any(|instr| instr.op != Opcode::Parameter && phase(instr) != Phase::Forward);
    let is_later =
        |instr: &Instr, read: InstrId| known[read.index()].is_sum && is_before(instr, entry.instr(read));
    for (id, instr) in entry.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        let own = known[id.index()];
        let is_joint = is_joint(instr, plan.n_devices);
        let reads = read(entry, instr);
        let find = |is_wanted: &dyn Fn(&Known) -> bool| reads.iter().find(|it| is_wanted(&known[it.index()]));
        let found = match own.is_update {
            _ if own.is_free || is_joint => None,
            true => find(&|it| it.varies).map(|it| (it, "of which each microbatch has a part of its own")),
            false => find(&|it| it.is_update)
                .map(|it| (it, "which the update makes"))
                .or_else(|| {
                    Some((reads.iter().find(|it| is_later(instr, **it))?, "of a task that comes later"))
                })
                .or_else(|| {
                    let sum = find(&|it| it.is_sum)?;
                    let is_wrong = find(&|it| it.varies).is_some()
                        || has_phases
                            && own.is_updated
                            && !is_linear(local, (local.entry, id), &|it| known[it.index()].is_sum);
                    is_wrong.then_some((sum, "a sum over all microbatches"))
                }),
        };
        if let Some((read, what)) = found {
            let (name, read) = (&instr.name, &entry.instr(*read).name);
            let phase = instr.note("phzc.phase").unwrap_or("fwd");
            let message = format!("`{name}` of phase `{phase}` reads `{read}`, {what}");
            return Err(Diagnostic::error(message).help("give it another phase"));
        }
    }
    Ok(())
}

/// Whether the task of an instruction comes before that of another: forward from the first stage on, then backward from the last.
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

/// Whether an instruction is linear in those that it reads which are sums, as collectives are. Loops are not looked into.
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
