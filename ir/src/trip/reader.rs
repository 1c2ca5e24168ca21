//! Reads an integer of a loop's state through tuples, calls and additions of constants.

use crate::attr::Key;
use crate::module::{Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::ops::literal::scalar_int;
use crate::shape::Shape;

/// Instructions that are looked at before a loop counts as unknown.
const MAX_STEPS: u32 = 1000;

/// An integer of the form `state[element] + offset`, or `offset` alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Linear {
    pub(super) element: Option<usize>,
    pub(super) offset: i128,
}

/// A computation being read: what its parameters stand for.
#[derive(Clone, Copy)]
pub(super) enum Frame<'m, 'f> {
    /// The loop's own: parameter 0 is the state.
    Loop(&'m Computation),
    /// Called from an instruction of another frame.
    Call(&'m Computation, &'m Instr, &'f Frame<'m, 'f>),
    /// Around the loop: parameters are not known.
    Around(&'m Computation),
}

impl<'m> Frame<'m, '_> {
    fn comp(&self) -> &'m Computation {
        match *self {
            Frame::Loop(comp) | Frame::Call(comp, ..) | Frame::Around(comp) => comp,
        }
    }
}

pub(super) struct Reader<'m> {
    module: &'m Module,
    steps: u32,
    /// Whether a parameter of the computation around the loop was met.
    pub(super) met_outside: bool,
}

impl<'m> Reader<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        Self { module, steps: 0, met_outside: false }
    }

    /// The sides and the direction of a condition that is a comparison, perhaps in a call.
    pub(super) fn comparison(&mut self, frame: &Frame<'m, '_>) -> Option<(Linear, Linear, &'m str)> {
        self.step()?;
        let instr = frame.comp().root();
        match instr.op {
            Opcode::Compare => {
                let &[a, b] = instr.operands.as_slice() else { return None };
                let direction = instr.word(Key::Direction)?;
                Some((self.value(frame, a, &[])?, self.value(frame, b, &[])?, direction))
            }
            Opcode::Call | Opcode::Fusion => self.comparison(&Frame::Call(self.callee(instr)?, instr, frame)),
            _ => None,
        }
    }

    /// An element of what the body returns.
    pub(super) fn returned(&mut self, body: &'m Computation, element: usize) -> Option<Linear> {
        let path: &[usize] = if matches!(body.root().shape, Shape::Tuple(_)) { &[element] } else { &[] };
        self.value(&Frame::Loop(body), body.root, path)
    }

    pub(super) fn is_kept(&mut self, body: &'m Computation, element: usize) -> bool {
        self.returned(body, element) == Some(Linear { element: Some(element), offset: 0 })
    }

    /// An element of the state before the loop, if it is a constant or passed from outside (see
    /// [`super::own_trip_count`]).
    pub(super) fn start(&mut self, comp: &'m Computation, instr: &Instr, element: usize) -> Option<i128> {
        let (&state, is_tuple) = (instr.operands.first()?, matches!(instr.shape, Shape::Tuple(_)));
        let path: &[usize] = if is_tuple { &[element] } else { &[] };
        let met_before = std::mem::take(&mut self.met_outside);
        let value = self.value(&Frame::Around(comp), state, path);
        let is_outside = std::mem::replace(&mut self.met_outside, met_before);
        let constant = value.filter(|start| start.element.is_none()).map(|start| start.offset);
        let is_taken = value.is_none() && is_outside;
        self.met_outside |= is_taken;
        constant.or(is_taken.then_some(0))
    }

    /// The value at `path` inside `id`'s value.
    fn value(&mut self, frame: &Frame<'m, '_>, id: InstrId, path: &[usize]) -> Option<Linear> {
        self.step()?;
        let instr = frame.comp().instr(id);
        let operand = |index: usize| instr.operands.get(index).copied();
        match instr.op {
            Opcode::Constant if path.is_empty() => {
                Some(Linear { element: None, offset: i128::from(scalar_int(instr)?) })
            }
            Opcode::Parameter => self.parameter(frame, instr, path),
            Opcode::GetTupleElement => {
                let index = usize::try_from(instr.int(Key::Index)?).ok()?;
                self.value(frame, operand(0)?, &[&[index], path].concat())
            }
            Opcode::Tuple => {
                let (&index, rest) = path.split_first()?;
                self.value(frame, operand(index)?, rest)
            }
            Opcode::Call | Opcode::Fusion => {
                let comp = self.callee(instr)?;
                self.value(&Frame::Call(comp, instr, frame), comp.root, path)
            }
            Opcode::Copy | Opcode::Convert | Opcode::Bitcast | Opcode::Reshape | Opcode::OptBarrier => {
                self.value(frame, operand(0)?, path)
            }
            Opcode::Add | Opcode::Subtract if path.is_empty() => {
                let (a, b) = (self.value(frame, operand(0)?, path)?, self.value(frame, operand(1)?, path)?);
                combine(instr.op, a, b)
            }
            _ => None,
        }
    }

    fn parameter(&mut self, frame: &Frame<'m, '_>, instr: &Instr, path: &[usize]) -> Option<Linear> {
        let number = instr.param_number()? as usize;
        match frame {
            Frame::Loop(_) => match path {
                [] => Some(Linear { element: Some(0), offset: 0 }),
                [element] => Some(Linear { element: Some(*element), offset: 0 }),
                _ => None,
            },
            Frame::Call(_, call, caller) => self.value(caller, *call.operands.get(number)?, path),
            Frame::Around(_) => {
                self.met_outside = true;
                None
            }
        }
    }

    fn callee(&self, instr: &Instr) -> Option<&'m Computation> {
        let id = instr.comp(Key::ToApply).or_else(|| instr.comp(Key::Calls))?;
        Some(self.module.comp(id))
    }

    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= MAX_STEPS).then_some(())
    }
}

fn combine(op: Opcode, a: Linear, b: Linear) -> Option<Linear> {
    match (op, a.element, b.element) {
        (Opcode::Add, element, None) | (Opcode::Add, None, element) => {
            Some(Linear { element, offset: a.offset.checked_add(b.offset)? })
        }
        (Opcode::Subtract, element, None) => {
            Some(Linear { element, offset: a.offset.checked_sub(b.offset)? })
        }
        _ => None,
    }
}
