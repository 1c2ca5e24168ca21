//! Which values depend, differentiably, on what is differentiated by.

use super::scope::{first_leaf, home};
use super::shifts::cancelling;
use super::table;
use phzc_ir::{Computation, Instr, InstrId, Key, Opcode, Shape};
use smallvec::SmallVec;

/// Truth values of a value's leaves.
pub(super) type Leaves = SmallVec<[bool; 4]>;

/// Per instruction and leaf: whether it depends on what is differentiated by.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Vec<Leaves>);

impl Activity {
    /// Whether any leaf of the instruction is active.
    pub fn is_active(&self, id: InstrId) -> bool {
        self.leaves(id).contains(&true)
    }

    /// The leaves of an instruction.
    pub fn leaves(&self, id: InstrId) -> &[bool] {
        self.0.get(id.index()).map_or(&[], |leaves| leaves)
    }

    /// The activity of a computation, of which `root` is asked for, whose parameter `number` is active in
    /// these leaves.
    pub fn of(
        comps: &[Computation],
        instrs: &[Instr],
        root: InstrId,
        param: impl Fn(u32) -> Leaves,
    ) -> Activity {
        let mut stops = vec![false; instrs.len()];
        cancelling(comps, instrs, root).into_iter().for_each(|id| stops[id.index()] = true);
        let mut all = Activity(Vec::with_capacity(instrs.len()));
        for (index, instr) in instrs.iter().enumerate() {
            let leaves = match instr.param_number() {
                Some(number) => param(number),
                None if stops[index] => none(&instr.shape),
                None => all.instr(comps, instrs, instr),
            };
            all.0.push(leaves);
        }
        all
    }

    fn instr(&self, comps: &[Computation], instrs: &[Instr], instr: &Instr) -> Leaves {
        let of = |index: usize| self.leaves(instr.operands[index]);
        match instr.op {
            _ if table::is_constant(instr) => none(&instr.shape),
            Opcode::GetTupleElement => {
                let index = instr.int(Key::Index).unwrap_or(0) as usize;
                let first = first_leaf(&instrs[instr.operands[0].index()].shape, index);
                of(0)[first..first + instr.shape.n_leaves()].into()
            }
            Opcode::Tuple => (0..instr.operands.len()).flat_map(|index| of(index).iter().copied()).collect(),
            Opcode::OptBarrier => of(0).into(),
            Opcode::While => carried(comps, instr, of(0)),
            _ if !instr.operands.iter().any(|&id| self.is_active(id)) => none(&instr.shape),
            _ => instr.shape.leaves().iter().map(|leaf| is_real(leaf)).collect(),
        }
    }
}

fn none(shape: &Shape) -> Leaves {
    Leaves::from_elem(false, shape.n_leaves())
}

/// Whether a cotangent of this leaf makes sense.
pub(super) fn is_real(leaf: &Shape) -> bool {
    leaf.as_array().is_some_and(|array| array.dtype.is_inexact())
}

/// The state of a loop, whichever trip: what becomes active in one trip is in the next.
fn carried(comps: &[Computation], instr: &Instr, start: &[bool]) -> Leaves {
    let mut state: Leaves = start.into();
    let Some(body) = instr.comp(Key::Body).and_then(|id| comps.get(id.index())) else { return state };
    loop {
        let inside = Activity::of(comps, &body.instrs, body.root, |_| state.clone());
        let made = inside.leaves(body.root);
        let next: Leaves = state.iter().zip(made).map(|(&before, &made)| before || made).collect();
        if next == state {
            return state;
        }
        state = next;
    }
}

/// The leaves of a body's parameter that the cotangents of these leaves of its root lead to.
pub(super) fn reached(instrs: &[Instr], root: InstrId, active: &Activity, of: &[bool]) -> Leaves {
    let mut marks: Vec<Leaves> = vec![Leaves::new(); instrs.len()];
    let mark = |marks: &mut Vec<Leaves>, id: InstrId, leaf: usize| {
        let (id, leaf) = home(instrs, id, leaf);
        let leaves = &mut marks[id.index()];
        if leaves.len() <= leaf {
            leaves.resize(leaf + 1, false);
        }
        leaves[leaf] = true;
    };
    (0..of.len()).filter(|&leaf| of[leaf]).for_each(|leaf| mark(&mut marks, root, leaf));
    let mut found = Leaves::from_elem(false, of.len());
    for index in (0..instrs.len()).rev() {
        let instr = &instrs[index];
        if !marks[index].contains(&true) || table::is_constant(instr) {
            continue;
        }
        if instr.param_number().is_some() {
            marks[index].iter().enumerate().for_each(|(leaf, &is)| found[leaf] |= is);
            continue;
        }
        for &operand in &instr.operands {
            let leaves = active.leaves(operand).iter().enumerate().filter(|(_, is)| **is);
            leaves.for_each(|(leaf, _)| mark(&mut marks, operand, leaf));
        }
    }
    found
}
