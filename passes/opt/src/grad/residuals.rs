//! What the backward part of a loop's body reads of the forward part: computed again where that is cheap,
//! else stacked.

use super::elementwise::is_elementwise;
use phzc_ir::build::Builder;
use phzc_ir::{DType, Instr, InstrId, Key, Opcode, Shape};
use std::collections::BTreeMap;

/// Where an argument of the backward body comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An element of the forward loop's state that stays as it is.
    Kept(usize),
    /// The stack of a value: the number of the stack.
    Stack(usize),
}

/// The values of the forward body that the backward body reads.
pub(super) struct Residuals {
    /// How often the loop runs.
    pub n_trips: i64,
    /// The forward trip's number, in the backward body.
    pub trip: InstrId,
    /// The element that counts, its first value and its step.
    pub counter: Option<(usize, i64, i64)>,
    /// Elements of the state that the body leaves as they are.
    pub kept: Vec<bool>,
    /// Values that are stacked, of the forward body.
    pub stacked: Vec<InstrId>,
    /// Arguments of the backward body, besides those that its author made.
    pub args: Vec<(Source, InstrId)>,
    /// Forward values that depend on nothing but the trip's number and what stays, and are cheap to compute.
    is_cheap: Vec<bool>,
    known: BTreeMap<InstrId, InstrId>,
}

impl Residuals {
    pub fn new(
        instrs: &[Instr],
        n_trips: i64,
        trip: InstrId,
        counter: Option<(usize, i64, i64)>,
        kept: Vec<bool>,
    ) -> Residuals {
        let mut residuals = Residuals {
            n_trips,
            trip,
            counter,
            kept,
            stacked: Vec::new(),
            args: Vec::new(),
            is_cheap: Vec::new(),
            known: BTreeMap::new(),
        };
        for instr in instrs {
            let is_cheap = residuals.classify(instrs, instr);
            residuals.is_cheap.push(is_cheap);
        }
        residuals
    }

    fn classify(&self, instrs: &[Instr], instr: &Instr) -> bool {
        match instr.op {
            Opcode::Parameter | Opcode::Tuple => false,
            Opcode::GetTupleElement => match self.element(instrs, instr) {
                Some(element) => {
                    self.kept[element] || self.counter.is_some_and(|(counter, ..)| counter == element)
                }
                None => false,
            },
            Opcode::Constant | Opcode::Iota => true,
            op => {
                let is_mover = is_view(op)
                    || matches!(op, Opcode::DynamicSlice | Opcode::Slice | Opcode::Concatenate | Opcode::Pad);
                let known = |id: &InstrId| self.is_cheap[id.index()];
                (is_mover || is_elementwise(op)) && instr.operands.iter().all(known)
            }
        }
    }

    /// The element of the state that this is.
    fn element(&self, instrs: &[Instr], instr: &Instr) -> Option<usize> {
        let state = instr.operands.first().map(|id| &instrs[id.index()])?;
        state.param_number()?;
        instr.int(Key::Index).map(|index| index as usize)
    }

    /// A forward value in the backward body.
    pub fn read(&mut self, b: &mut Builder, instrs: &[Instr], id: InstrId) -> InstrId {
        let mut needed = vec![id];
        let mut todo = vec![id];
        while let Some(next) = todo.pop() {
            for operand in self.needs(instrs, next) {
                needed.push(operand);
                todo.push(operand);
            }
        }
        needed.sort_unstable();
        needed.dedup();
        for next in needed {
            if !self.known.contains_key(&next) {
                let made = self.make(b, instrs, next);
                self.known.insert(next, made);
            }
        }
        self.known[&id]
    }

    /// The operands from which a value is computed again; none if it is an argument.
    fn needs(&self, instrs: &[Instr], id: InstrId) -> Vec<InstrId> {
        let instr = &instrs[id.index()];
        if self.known.contains_key(&id)
            || !self.is_recomputed(instrs, id)
            || self.element(instrs, instr).is_some()
        {
            return Vec::new();
        }
        instr.operands.to_vec()
    }

    /// Whether a value is computed again: it is cheap, or another form of one value that is not larger.
    fn is_recomputed(&self, instrs: &[Instr], id: InstrId) -> bool {
        let instr = &instrs[id.index()];
        if self.is_cheap.get(id.index()).copied().unwrap_or(false) {
            return true;
        }
        let Some(source) = instr.operands.first().map(|source| &instrs[source.index()]) else { return false };
        let is_form = is_view(instr.op) || instr.op == Opcode::Convert;
        is_form && source.shape.as_array().is_some() && source.shape.bytes() <= instr.shape.bytes()
    }

    fn make(&mut self, b: &mut Builder, instrs: &[Instr], id: InstrId) -> InstrId {
        let instr = &instrs[id.index()];
        if let Some(element) = self.element(instrs, instr) {
            if self.kept[element] {
                return self.argument(b, Source::Kept(element), &instr.name, instr.shape.clone());
            }
            if let Some((_, start, step)) = self.counter.filter(|&(counter, ..)| counter == element) {
                return self.counted(b, instr, start, step);
            }
        }
        if self.is_recomputed(instrs, id) {
            let operands: Vec<InstrId> = instr.operands.iter().map(|operand| self.known[operand]).collect();
            return b.copy_of(instr, &operands);
        }
        self.unstacked(b, instrs, id)
    }

    /// The counter's value: `start + step·trip`.
    fn counted(&self, b: &mut Builder, instr: &Instr, start: i64, step: i64) -> InstrId {
        let dtype = instr.shape.as_array().map_or(DType::S32, |array| array.dtype);
        let mut value = b.convert(self.trip, dtype);
        if step != 1 {
            let step = b.scalar(dtype, step as f64);
            value = b.mul(value, step);
        }
        if start != 0 {
            let start = b.scalar(dtype, start as f64);
            value = b.add(value, start);
        }
        value
    }

    fn argument(&mut self, b: &mut Builder, source: Source, name: &str, shape: Shape) -> InstrId {
        if let Some((_, known)) = self.args.iter().find(|(known, _)| *known == source) {
            return *known;
        }
        let arg = b.argument(name, shape);
        self.args.push((source, arg));
        arg
    }

    fn unstacked(&mut self, b: &mut Builder, instrs: &[Instr], id: InstrId) -> InstrId {
        let shape = instrs[id.index()].shape.as_array().expect("an array is read").clone();
        let dims: Vec<i64> = [&[self.n_trips], &shape.dims[..]].concat();
        let number = self.stacked.len();
        self.stacked.push(id);
        let name = format!("{}.stack", instrs[id.index()].name);
        let stack = self.argument(b, Source::Stack(number), &name, Shape::array(shape.dtype, &dims));
        b.unstack(stack, self.trip)
    }
}

/// Whether an op gives the same elements in another form.
fn is_view(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Broadcast
            | Opcode::Reshape
            | Opcode::Bitcast
            | Opcode::Transpose
            | Opcode::Copy
            | Opcode::Reverse
    )
}
