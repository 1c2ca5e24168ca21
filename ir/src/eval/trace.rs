//! Following a value to the instructions that read it: through tuples, calls, loops and branches.

use crate::attr::Key;
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::ops::control::{callee, control_comps};
use std::collections::BTreeSet;

/// The instructions that a computation was entered by, the innermost last.
type Calls = Vec<(CompId, InstrId)>;

/// A leaf of an instruction's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub comp: CompId,
    pub id: InstrId,
    pub leaf: usize,
    calls: Calls,
}

impl Place {
    /// A leaf of an instruction of the entry.
    pub fn of_entry(module: &Module, id: InstrId, leaf: usize) -> Place {
        Place { comp: module.entry, id, leaf, calls: Vec::new() }
    }

    /// Whether this is a leaf of the program's result.
    pub fn is_output(&self, module: &Module) -> bool {
        self.comp == module.entry && self.id == module.entry().root
    }
}

/// An instruction that does something with a value other than hand it on.
pub struct Read<'a> {
    pub comp: CompId,
    pub id: InstrId,
    pub instr: &'a Instr,
    /// Which of its operands the value is.
    pub operand: usize,
    calls: &'a [(CompId, InstrId)],
}

impl Read<'_> {
    /// The reader's result.
    pub fn result(&self) -> Place {
        Place { comp: self.comp, id: self.id, leaf: 0, calls: self.calls.to_vec() }
    }
}

/// Who reads what, in all computations.
pub struct Trace<'a> {
    pub module: &'a Module,
    /// Per computation and instruction: readers, and as which operand they read.
    readers: Vec<Vec<Vec<(InstrId, usize)>>>,
}

impl<'a> Trace<'a> {
    pub fn of(module: &'a Module) -> Trace<'a> {
        let mut readers: Vec<Vec<Vec<(InstrId, usize)>>> =
            module.comps.iter().map(|comp| vec![Vec::new(); comp.instrs.len()]).collect();
        for (comp, readers) in module.comps.iter().zip(&mut readers) {
            for (id, instr) in comp.iter() {
                let operands = instr.operands.iter().enumerate();
                operands.for_each(|(at, operand)| readers[operand.index()].push((id, at)));
            }
        }
        Trace { module, readers }
    }

    /// The readers of an instruction of a computation, and as which operand they read.
    pub fn readers(&self, comp: CompId, id: InstrId) -> &[(InstrId, usize)] {
        &self.readers[comp.index()][id.index()]
    }

    /// Follows a value to all its readers. `visit` says with which state it goes on in the reader's result,
    /// if it does.
    ///
    /// Returns every place that the value comes to.
    pub fn follow<S: Clone + Ord>(
        &self,
        start: Place,
        state: S,
        mut visit: impl FnMut(&Read, &S) -> Option<S>,
    ) -> BTreeSet<(Place, S)> {
        let (mut seen, mut work) = (BTreeSet::new(), vec![(start, state)]);
        while let Some((place, state)) = work.pop() {
            if !seen.insert((place.clone(), state.clone())) {
                continue;
            }
            work.extend(self.returned(&place).into_iter().map(|place| (place, state.clone())));
            for &(id, operand) in self.readers(place.comp, place.id) {
                if let Some(places) = self.handed_on(&place, id, operand) {
                    work.extend(places.into_iter().map(|place| (place, state.clone())));
                    continue;
                }
                let instr = self.module.comp(place.comp).instr(id);
                let read = Read { comp: place.comp, id, instr, operand, calls: &place.calls };
                work.extend(visit(&read, &state).map(|state| (read.result(), state)));
            }
        }
        seen
    }

    /// Where the leaf goes on if the reader hands its operands on; `None` if it does something else.
    fn handed_on(&self, place: &Place, id: InstrId, operand: usize) -> Option<Vec<Place>> {
        let comp = self.module.comp(place.comp);
        let instr = comp.instr(id);
        let here = |leaf: usize| Place { id, leaf, ..place.clone() };
        let leaf = place.leaf;
        Some(match instr.op {
            Opcode::Tuple => {
                let before = instr.operands[..operand].iter();
                let start: usize = before.map(|&other| comp.instr(other).shape.n_leaves()).sum();
                vec![here(start + leaf)]
            }
            Opcode::GetTupleElement => {
                let starts = comp.instr(instr.operands[0]).shape.part_starts();
                let start = starts.get(instr.int(Key::Index)? as usize).copied()?;
                let is_in = (start..start + instr.shape.n_leaves()).contains(&leaf);
                is_in.then(|| here(leaf - start)).into_iter().collect()
            }
            Opcode::OptBarrier => vec![here(leaf)],
            Opcode::Call | Opcode::Fusion => {
                callee(instr).and_then(|inner| self.entered(place, id, inner, operand)).into_iter().collect()
            }
            Opcode::While => {
                let inner = control_comps(instr).into_iter();
                let entered = inner.filter_map(|inner| self.entered(place, id, inner, 0));
                entered.chain([here(leaf)]).collect()
            }
            Opcode::Conditional if operand > 0 => {
                let branch = control_comps(instr).get(operand - 1).copied();
                branch.and_then(|inner| self.entered(place, id, inner, 0)).into_iter().collect()
            }
            _ => return None,
        })
    }

    /// The same leaf, as a parameter of a computation that the instruction enters.
    fn entered(&self, place: &Place, by: InstrId, inner: CompId, number: usize) -> Option<Place> {
        let id = *self.module.comp(inner).params().get(number)?;
        let mut calls = place.calls.clone();
        calls.push((place.comp, by));
        Some(Place { comp: inner, id, leaf: place.leaf, calls })
    }

    /// Where a computation's result goes on.
    fn returned(&self, place: &Place) -> Vec<Place> {
        let inner = self.module.comp(place.comp);
        let Some((&(comp, id), outer)) = place.calls.split_last().filter(|_| inner.root == place.id) else {
            return Vec::new();
        };
        let instr = self.module.comp(comp).instr(id);
        let result = Place { comp, id, leaf: place.leaf, calls: outer.to_vec() };
        match instr.op {
            Opcode::While if instr.comp(Key::Condition) == Some(place.comp) => Vec::new(),
            Opcode::While => {
                let next = inner.params().first().map(|&id| Place { id, ..place.clone() });
                [result].into_iter().chain(next).collect()
            }
            _ => vec![result],
        }
    }

    /// The instruction that an operand's elements come from, looked for through movements and calls.
    pub fn source(&self, read: &Read, operand: usize) -> (CompId, InstrId) {
        let (mut comp, mut calls) = (read.comp, read.calls);
        let mut id = read.instr.operands[operand];
        loop {
            let body = self.module.comp(comp);
            let instr = body.instr(id);
            match (instr.op, instr.operands.first(), calls.split_last()) {
                (_, Some(&operand), _) if moves(body, instr) => id = operand,
                (Opcode::Parameter, _, Some((&(outer, by), rest))) => {
                    let call = self.module.comp(outer).instr(by);
                    let number = instr.param_number().unwrap_or(0) as usize;
                    let is_call = callee(call).is_some();
                    let Some(&operand) = call.operands.get(number).filter(|_| is_call) else {
                        return (comp, id);
                    };
                    (comp, id, calls) = (outer, operand, rest);
                }
                _ => return (comp, id),
            }
        }
    }
}

/// Whether an instruction of one operand moves elements about or spells them otherwise.
pub fn moves(comp: &Computation, instr: &Instr) -> bool {
    use Opcode::{Bitcast, Broadcast, Convert, Copy, Reshape, Reverse, Transpose};
    match instr.op {
        Bitcast => !is_other_type(comp, instr),
        op => matches!(op, Broadcast | Convert | Copy | Reshape | Reverse | Transpose),
    }
}

/// Whether a bitcast reads its operand's bits as another type.
pub fn is_other_type(comp: &Computation, instr: &Instr) -> bool {
    let dtype = |instr: &Instr| instr.shape.as_array().map(|array| array.dtype);
    dtype(instr) != dtype(comp.instr(instr.operands[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of what reads the first parameter, in program order.
    fn readers(text: &str) -> Vec<String> {
        let module = crate::parse(&format!("HloModule m\n{text}")).expect("a legal program");
        let trace = Trace::of(&module);
        let start = Place::of_entry(&module, module.entry().params()[0], 0);
        let mut found = Vec::new();
        trace.follow(start, (), |read, ()| {
            found.push(read.instr.name.to_string());
            None
        });
        found.sort();
        found
    }

    #[test]
    fn one_leaf_of_a_tuple_is_followed() {
        let text = "ENTRY e { x = f32[] parameter(0) y = f32[] parameter(1) t = (f32[], f32[]) tuple(y, x)
            a = f32[] get-tuple-element(t), index=0 b = f32[] get-tuple-element(t), index=1
            n = f32[] negate(a) ROOT m = f32[] abs(b) }";
        assert_eq!(readers(text), ["m"]);
    }

    #[test]
    fn a_call_returns_to_where_it_was_called() {
        let text = "same { p = f32[] parameter(0) ROOT c = f32[] opt-barrier(p) }
            ENTRY e { x = f32[] parameter(0) y = f32[] parameter(1) a = f32[] call(x), to_apply=same
            b = f32[] call(y), to_apply=same n = f32[] negate(a) ROOT m = f32[] add(n, b) }";
        assert_eq!(readers(text), ["n"]);
    }

    #[test]
    fn a_loop_hands_its_state_on() {
        let text = "body { p = (f32[], f32[]) parameter(0) a = f32[] get-tuple-element(p), index=0
            b = f32[] get-tuple-element(p), index=1 n = f32[] negate(b) ROOT t = (f32[], f32[]) tuple(b, a) }
            stop { p = (f32[], f32[]) parameter(0) a = f32[] get-tuple-element(p), index=0
            ROOT c = pred[] compare(a, a), direction=LT }
            ENTRY e { x = f32[] parameter(0) y = f32[] parameter(1) t = (f32[], f32[]) tuple(x, y)
            w = (f32[], f32[]) while(t), condition=stop, body=body
            u = f32[] get-tuple-element(w), index=1 ROOT m = f32[] abs(u) }";
        assert_eq!(readers(text), ["c", "c", "m", "n"]);
    }
}
