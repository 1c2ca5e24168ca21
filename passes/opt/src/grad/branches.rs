//! The derivative of a conditional: the taken branch again and then backwards, in a conditional of its own.

use super::activity::{Activity, Leaves};
use super::scope::{Cx, Scope};
use indexmap::IndexMap;
use phzc_ir::attr::Value;
use phzc_ir::build::Builder;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Attr, CompId, Computation, InstrId, Key, Opcode, Result};

/// A branch with the arrays that it is given, in the computation around it.
struct Branch {
    comp: CompId,
    args: Vec<InstrId>,
}

/// What the backward branches return: a cotangent per array of the computation around the conditional.
type Slots = IndexMap<(InstrId, usize), InstrId>;

/// Every branch computes its own values again: what it has not computed forward, another one's values, it
/// need not save.
pub(super) fn conditional(cx: &mut Cx) -> Result<()> {
    let branches = branches(cx)?;
    let mut slots = Slots::new();
    for &arg in branches.iter().flat_map(|branch| &branch.args) {
        if cx.scope.wants(cx.b, arg) {
            slots.entry(cx.scope.home(cx.b, arg, 0)).or_insert(arg);
        }
    }
    let (mut comps, mut operands) = (Vec::new(), vec![cx.x(0)]);
    for branch in &branches {
        comps.push(backward(cx, branch, &slots)?);
        let mut given: Vec<InstrId> = branch.args.iter().map(|&arg| cx.scope.primal(cx.b, arg)).collect();
        given.extend(cx.cts.iter().flatten());
        operands.push(cx.b.tuple(&given));
    }
    let attrs = renamed(cx, &comps);
    let made = cx.b.op(Opcode::Conditional, &operands, attrs);
    for (index, &arg) in slots.values().enumerate() {
        let ct = cx.b.element(made, index);
        cx.scope.give(cx.b, (arg, 0), ct);
    }
    Ok(())
}

fn branches(cx: &mut Cx) -> Result<Vec<Branch>> {
    let comps: Vec<CompId> = cx.instr.called().collect();
    let mut found = Vec::new();
    for (index, comp) in comps.into_iter().enumerate() {
        if cx.b.comps()[comp.index()].instrs.iter().any(|instr| instr.op == Opcode::While) {
            return Err(cx.refuse("a branch has a loop"));
        }
        if cx.b.comps()[comp.index()].instrs.iter().any(has_side_effect) {
            return Err(cx.refuse("a branch has effects, which would come twice"));
        }
        let operand = cx.instr.operands[index + 1];
        let instr = cx.scope.instr(cx.b, operand);
        let args = match instr.op {
            _ if instr.shape.as_array().is_some() => vec![operand],
            Opcode::Tuple => instr.operands.to_vec(),
            _ => cx.scope.extend_forward(cx.b, |b| b.elements(operand)),
        };
        let is_array = |&id: &InstrId| cx.scope.instr(cx.b, id).shape.as_array().is_some();
        if !args.iter().all(is_array) {
            return Err(cx.refuse("a branch is given tuples in tuples"));
        }
        found.push(Branch { comp, args });
    }
    Ok(found)
}

/// The computation that runs a branch and then its derivative.
fn backward(cx: &mut Cx, branch: &Branch, slots: &Slots) -> Result<CompId> {
    let comp = cx.b.comps()[branch.comp.index()].clone();
    let shapes: Vec<_> = branch.args.iter().map(|&id| cx.scope.instr(cx.b, id).shape.clone()).collect();
    let wanted: Vec<bool> = branch.args.iter().map(|&arg| cx.scope.wants(cx.b, arg)).collect();
    let given: Vec<(usize, InstrId)> =
        (0..cx.cts.len()).filter_map(|leaf| Some((leaf, cx.cts[leaf]?))).collect();
    let ct_shapes: Vec<_> = given.iter().map(|&(leaf, ct)| (leaf, cx.b.shape(ct).clone())).collect();
    let homes: Vec<_> = branch.args.iter().map(|&arg| cx.scope.home(cx.b, arg, 0)).collect();
    let zeros: Vec<_> = slots.values().map(|&arg| cx.scope.instr(cx.b, arg).shape.clone()).collect();
    let b = &mut *cx.b;
    b.begin(&format!("{}.grad", comp.name));
    let args: Vec<InstrId> = shapes.into_iter().map(|shape| b.argument("x", shape)).collect();
    let cts: Vec<(usize, InstrId)> =
        ct_shapes.into_iter().map(|(leaf, shape)| (leaf, b.argument("ct", shape))).collect();
    let map = again(b, &comp, &args);
    let active = Activity::of(b.comps(), b.instrs(), map[comp.root.index()], |number| {
        Leaves::from_elem(wanted.get(number as usize).copied().unwrap_or(false), 1)
    });
    let n_forward = b.instrs().len();
    let mut inside = Scope::new(branch.comp, n_forward, None, active, cx.scope.loops.clone());
    for (leaf, ct) in cts {
        inside.give(b, (map[comp.root.index()], leaf), ct);
    }
    inside.sweep(b)?;
    let mut results: Vec<Option<InstrId>> = vec![None; slots.len()];
    for (&arg, home) in args.iter().zip(&homes) {
        let Some(slot) = slots.get_index_of(home) else { continue };
        let Some(ct) = inside.take(b, (arg, 0)) else { continue };
        results[slot] = Some(results[slot].map_or(ct, |sum| b.add(sum, ct)));
    }
    let filled = results.into_iter().zip(zeros).map(|(found, shape)| {
        let shape = shape.as_array().expect("an array").clone();
        found.unwrap_or_else(|| b.full(shape.dtype, &shape.dims, 0.0))
    });
    let filled: Vec<InstrId> = filled.collect();
    let root = b.tuple(&filled);
    Ok(b.end_packed(root))
}

/// The instructions of a branch once more, on these arguments.
fn again(b: &mut Builder, comp: &Computation, args: &[InstrId]) -> Vec<InstrId> {
    let mut map: Vec<InstrId> = Vec::with_capacity(comp.instrs.len());
    for instr in &comp.instrs {
        let id = match instr.param_number() {
            Some(_) if instr.shape.as_array().is_some() => args[0],
            Some(_) => b.tuple(args),
            None => {
                let operands: Vec<InstrId> = instr.operands.iter().map(|id| map[id.index()]).collect();
                b.copy_of(instr, &operands)
            }
        };
        map.push(id);
    }
    map
}

/// The attributes that name the branches, with others in their places.
fn renamed(cx: &Cx, comps: &[CompId]) -> Vec<Attr> {
    let mut rest = comps.iter().copied();
    let named = cx.instr.attrs.iter().filter_map(|attr| {
        let value = match &attr.value {
            Value::Comp(_) => Value::Comp(rest.next()?),
            Value::Comps(old) => Value::Comps(rest.by_ref().take(old.len()).collect()),
            _ => return None,
        };
        Some(Attr { key: attr.key.clone(), value })
    });
    let is_branch = |attr: &Attr| {
        matches!(attr.key, Key::BranchComputations | Key::TrueComputation | Key::FalseComputation)
    };
    named.filter(is_branch).collect()
}
