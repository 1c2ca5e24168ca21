//! What the parameters of a program are for, as far as inputs have to know it.

use super::Evaluation;
use crate::attr::Key;
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::ops::control::callee;
use std::collections::BTreeSet;

/// What a parameter is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// An optimizer's state that nothing takes the root of.
    Moment,
    /// An optimizer's state that reaches a root.
    Variance,
    /// Places in a table whose smallest indexed dimension has this size.
    Index(i64),
    /// Anything else.
    Plain,
}

/// Who reads what, in all computations.
pub struct State<'a> {
    module: &'a Module,
    readers: Vec<Vec<Vec<InstrId>>>,
}

impl<'a> State<'a> {
    pub fn of(module: &'a Module) -> State<'a> {
        State { module, readers: module.comps.iter().map(readers).collect() }
    }

    pub fn role(&self, comp: CompId, id: InstrId) -> Role {
        let is_array = self.module.comp(comp).instr(id).shape.as_array().is_some_and(|it| it.rank() > 0);
        match (self.is_state(comp, id), self.reaches_root(comp, id)) {
            (true, true) => Role::Variance,
            (true, false) if is_array => Role::Moment,
            _ => self.indexed(comp, id).map_or(Role::Plain, Role::Index),
        }
    }

    /// Whether arithmetic on single elements leads to a square root.
    fn reaches_root(&self, comp: CompId, id: InstrId) -> bool {
        self.reached(comp, id)
            .iter()
            .any(|&(comp, id, _)| matches!(self.module.comp(comp).instr(id).op, Opcode::Sqrt | Opcode::Rsqrt))
    }

    /// The smallest dimension that gathers and scatters look places up in that are made of this value.
    ///
    /// Places outside are no error, but JAX makes them NaN, and then all results.
    fn indexed(&self, comp: CompId, id: InstrId) -> Option<i64> {
        let reached = self.reached(comp, id).into_iter();
        reached.flat_map(|(comp, id, operand)| table_dims(self.module.comp(comp), id, operand)).min()
    }

    /// What reads a value or what single elements of it are made into: computation, instruction, operand.
    fn reached(&self, comp: CompId, id: InstrId) -> BTreeSet<(CompId, InstrId, usize)> {
        let (mut reached, mut work) = (BTreeSet::new(), vec![(comp, id)]);
        while let Some((comp, id)) = work.pop() {
            for &reader in &self.readers[comp.index()][id.index()] {
                let instr = self.module.comp(comp).instr(reader);
                let operand = instr.operands.iter().position(|&operand| operand == id).unwrap_or(0);
                if reached.insert((comp, reader, operand)) {
                    work.extend(self.param_of(instr, id));
                    work.extend(goes_on(instr).then_some((comp, reader)));
                }
            }
        }
        reached
    }

    /// Whether a value is an optimizer's state: it is read once, to be multiplied by a scalar.
    ///
    /// `m = b1*m + (1-b1)*g` reads the old `m` just so. Random first moments would drown the gradients,
    /// and random second moments have no square root.
    fn is_state(&self, comp: CompId, id: InstrId) -> bool {
        let [reader] = self.readers[comp.index()][id.index()][..] else { return false };
        let body = self.module.comp(comp);
        let instr = body.instr(reader);
        match instr.op {
            Opcode::Multiply => instr.operands.iter().any(|&other| other != id && is_scalar(body, other)),
            Opcode::Copy | Opcode::Reshape | Opcode::Convert | Opcode::Transpose | Opcode::CustomCall => {
                self.is_state(comp, reader)
            }
            Opcode::Call | Opcode::Fusion => {
                self.param_of(instr, id).is_some_and(|(comp, param)| self.is_state(comp, param))
            }
            _ => false,
        }
    }

    /// The parameter that a call hands an operand to.
    fn param_of(&self, call: &Instr, id: InstrId) -> Option<(CompId, InstrId)> {
        let comp = callee(call)?;
        let number = call.operands.iter().position(|&operand| operand == id)?;
        Some((comp, *self.module.comp(comp).params().get(number)?))
    }
}

/// Whether elements of the result are made of the operand's elements at the same place, or moved.
fn goes_on(instr: &Instr) -> bool {
    use Opcode::{Broadcast, Concatenate, CustomCall, GetTupleElement, Reshape, Slice, Transpose, Tuple};
    let is_elementwise = matches!(instr.op.def().evaluation, Evaluation::Elementwise(_));
    let moves = matches!(instr.op, Broadcast | Concatenate | Reshape | Slice | Transpose);
    is_elementwise || moves || matches!(instr.op, CustomCall | GetTupleElement | Tuple)
}

/// The sizes of the dimensions that a gather or scatter looks up if the operand is its indices.
fn table_dims(comp: &Computation, id: InstrId, operand: usize) -> Vec<i64> {
    let instr = comp.instr(id);
    let key = match instr.op {
        Opcode::Gather if operand == 1 => Key::StartIndexMap,
        Opcode::Scatter if 2 * operand + 1 == instr.operands.len() => Key::ScatterDimsToOperandDims,
        _ => return Vec::new(),
    };
    let Some(table) = comp.instr(instr.operands[0]).shape.as_array() else { return Vec::new() };
    instr.ints(key).iter().filter_map(|&dim| table.dims.get(dim as usize).copied()).collect()
}

fn readers(comp: &Computation) -> Vec<Vec<InstrId>> {
    let mut readers = vec![Vec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter() {
        instr.operands.iter().for_each(|operand| readers[operand.index()].push(id));
    }
    readers
}

/// A scalar, or one that is broadcast.
fn is_scalar(comp: &Computation, id: InstrId) -> bool {
    let instr = comp.instr(id);
    let rank = instr.shape.as_array().map_or(1, |shape| shape.rank());
    match instr.op {
        _ if rank == 0 => true,
        Opcode::Broadcast | Opcode::Convert | Opcode::Copy | Opcode::Reshape => {
            instr.operands.first().is_some_and(|&operand| is_scalar(comp, operand))
        }
        Opcode::Constant => crate::ops::literal::splat(instr).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, wanted: &[Role]) {
        let module = crate::parse(&format!("HloModule m\n{body}")).expect("a legal program");
        let state = State::of(&module);
        let params = module.entry().params();
        let found: Vec<Role> = params.iter().map(|&id| state.role(module.entry, id)).collect();
        assert_eq!(found, wanted, "{body}");
    }

    #[test]
    fn second_moments_are_not_negative_whatever_their_rank() {
        for dims in ["", "2"] {
            let f = format!("f32[{dims}]");
            let like = if dims.is_empty() { "c" } else { "b" };
            let wide = if dims.is_empty() {
                String::new()
            } else {
                format!("b = {f} broadcast(c), dimensions={{}}\n")
            };
            let body = format!(
                "ENTRY e {{ v = {f} parameter(0)\n c = f32[] constant(0.9)\n {wide} \
                 d = {f} multiply(v, {like})\n ROOT r = {f} sqrt(d) }}"
            );
            check(&body, &[Role::Variance]);
        }
    }

    #[test]
    fn an_index_stays_within_its_table() {
        let gather = "ROOT y = f32[7,16] gather(t, k), offset_dims={1}, collapsed_slice_dims={0}, \
                      start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}";
        check(
            &format!(
                "ENTRY e {{ t = f32[2,16] parameter(0)\n i = s32[7] parameter(1)\n \
                 k = s32[7,1] reshape(i)\n {gather} }}"
            ),
            &[Role::Plain, Role::Index(2)],
        );
    }
}
