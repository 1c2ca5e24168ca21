//! Tuples, calls and loops.

use super::Builder;
use crate::attr::{Attr, Key, Value};
use crate::dtype::DType;
use crate::module::{CompId, Instr, InstrId, Payload};
use crate::opcode::Opcode;
use crate::shape::Shape;
use smallvec::SmallVec;

/// A loop whose body is in the making.
#[derive(Clone, Debug)]
pub struct Loop {
    state: InstrId,
    condition: CompId,
    /// The trip's number, an `s32` from 0 on.
    pub trip: InstrId,
    /// What the trip before, or the outside, has made.
    pub values: Vec<InstrId>,
}

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
        let open = self.begin_loop(trips, state);
        let made = body(self, open.trip, &open.values);
        self.end_loop(open, &made)
    }

    /// Begins a loop: until [`Builder::end_loop`] instructions are one trip's.
    pub fn begin_loop(&mut self, trips: i64, state: &[InstrId]) -> Loop {
        let zero = self.scalar(DType::S32, 0.0);
        let all: Vec<InstrId> = std::iter::once(zero).chain(state.iter().copied()).collect();
        let state = self.tuple(&all);
        let shape = self.shape(state).clone();
        let condition = self.below(&shape, trips);
        self.begin("body");
        let inner = self.parameter("state", shape);
        let mut values = self.elements(inner);
        Loop { state, condition, trip: values.remove(0), values }
    }

    /// Ends a loop, whose trips make these values; returns what the last one leaves.
    pub fn end_loop(&mut self, open: Loop, made: &[InstrId]) -> Vec<InstrId> {
        let one = self.scalar(DType::S32, 1.0);
        let next: Vec<InstrId> =
            std::iter::once(self.add(open.trip, one)).chain(made.iter().copied()).collect();
        let next = self.tuple(&next);
        let body = self.end(next);
        let left = self.while_loop(open.state, open.condition, body);
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
