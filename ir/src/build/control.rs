//! Tuples, calls and loops.

use super::Builder;
use crate::attr::{Attr, Key, Value};
use crate::dtype::DType;
use crate::module::{CompId, Instr, InstrId, Payload};
use crate::opcode::Opcode;
use crate::shape::Shape;
use smallvec::SmallVec;

impl Builder {
    /// Several values as one.
    pub fn tuple(&mut self, parts: &[InstrId]) -> InstrId {
        self.op(Opcode::Tuple, parts, Vec::new())
    }

    /// One value of a tuple.
    pub fn element(&mut self, tuple: InstrId, index: usize) -> InstrId {
        let index = Attr { key: Key::Index, value: Value::Int(index as i64) };
        self.op(Opcode::GetTupleElement, &[tuple], vec![index])
    }

    /// All values of a tuple.
    pub fn elements(&mut self, tuple: InstrId) -> Vec<InstrId> {
        (0..self.shape(tuple).parts().len()).map(|index| self.element(tuple, index)).collect()
    }

    /// What a computation returns.
    pub fn call(&mut self, comp: CompId, args: &[InstrId]) -> InstrId {
        self.op(Opcode::Call, args, vec![Attr { key: Key::ToApply, value: Value::Comp(comp) }])
    }

    /// `while`: the body runs on the state, a tuple, as long as the condition holds.
    pub fn while_loop(&mut self, state: InstrId, condition: CompId, body: CompId) -> InstrId {
        let condition = Attr { key: Key::Condition, value: Value::Comp(condition) };
        let body = Attr { key: Key::Body, value: Value::Comp(body) };
        self.op(Opcode::While, &[state], vec![condition, body])
    }

    /// A loop of `trips` trips over several values, with what it leaves of them.
    ///
    /// `body` is given the trip's number, an `s32`, and the values, and returns as many new ones.
    pub fn for_loop(
        &mut self,
        trips: i64,
        state: &[InstrId],
        body: impl FnOnce(&mut Builder, InstrId, &[InstrId]) -> Vec<InstrId>,
    ) -> Vec<InstrId> {
        let zero = self.scalar(DType::S32, 0.0);
        let state: Vec<InstrId> = std::iter::once(zero).chain(state.iter().copied()).collect();
        let state = self.tuple(&state);
        let shape = self.shape(state).clone();
        let condition = self.below(&shape, trips);
        let body = self.trip(&shape, body);
        let left = self.while_loop(state, condition, body);
        self.elements(left).split_off(1)
    }

    /// The condition of a loop of `trips` trips that are numbered by element 0 of its state.
    pub fn below(&mut self, state: &Shape, trips: i64) -> CompId {
        self.begin("condition");
        let state = self.parameter("state", state.clone());
        let (trip, limit) = (self.element(state, 0), self.scalar(DType::S32, trips as f64));
        let goes_on = self.compare(trip, limit, "LT");
        self.end(goes_on)
    }

    fn trip(
        &mut self,
        state: &Shape,
        body: impl FnOnce(&mut Builder, InstrId, &[InstrId]) -> Vec<InstrId>,
    ) -> CompId {
        self.begin("body");
        let state = self.parameter("state", state.clone());
        let values = self.elements(state);
        let made = body(self, values[0], &values[1..]);
        let one = self.scalar(DType::S32, 1.0);
        let next: Vec<InstrId> = std::iter::once(self.add(values[0], one)).chain(made).collect();
        let next = self.tuple(&next);
        self.end(next)
    }

    /// A parameter of the computation in the making with a name that is new.
    pub fn argument(&mut self, name: &str, shape: Shape) -> InstrId {
        let name = self.new_name(name);
        self.parameter(&name, shape)
    }

    /// Ends the innermost computation; its parameters become the elements of one tuple, as loops want it.
    pub fn end_packed(&mut self, root: InstrId) -> CompId {
        let frame = self.frame();
        let mut parts = vec![Shape::Token; frame.n_params as usize];
        for instr in &mut frame.instrs {
            instr.operands.iter_mut().for_each(|id| id.0 += 1);
            if let Payload::Parameter(number) = instr.payload {
                parts[number as usize] = instr.shape.clone();
                (instr.op, instr.payload) = (Opcode::GetTupleElement, Payload::None);
                instr.operands.push(InstrId(0));
                instr.attrs.push(Attr { key: Key::Index, value: Value::Int(i64::from(number)) });
            }
        }
        let state = self.instruction("state".into(), Opcode::Parameter, &[], Shape::Tuple(parts), Vec::new());
        self.frame().instrs.insert(0, Instr { payload: Payload::Parameter(0), ..state });
        self.end(InstrId(root.0 + 1))
    }

    /// An instruction again, with other operands of the same shapes.
    pub fn copy_of(&mut self, instr: &Instr, operands: &[InstrId]) -> InstrId {
        let name = self.new_name(instr.op.as_str());
        self.push(Instr { name, operands: SmallVec::from_slice(operands), ..instr.clone() })
    }
}
