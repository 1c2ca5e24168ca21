//! The trips of loops, one after another: a body is copied for every trip, and what it makes of the trip's
//! number is computed.

use indexmap::IndexMap;
use phzc_ir::attr::SliceDim;
use phzc_ir::dtype::Class;
use phzc_ir::edit::Names;
use phzc_ir::eval::{self, literal};
use phzc_ir::ops::literal::scalar_int;
use phzc_ir::{Attr, CompId, Computation, DType, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Value};

/// Writes the trips of some loops of the entry. Per instruction then, whether a trip reads or writes a part
/// of an array there.
pub(super) fn written(module: &mut Module, loops: &IndexMap<InstrId, u64>) -> Vec<bool> {
    let entry = std::mem::replace(
        &mut module.comps[module.entry.index()],
        Computation { name: "".into(), instrs: Vec::new(), root: InstrId(0), thread: None },
    );
    let mut draft = Draft {
        comps: &module.comps,
        names: Names::of(&entry),
        instrs: Vec::with_capacity(entry.instrs.len()),
        by_trip: Vec::new(),
        constants: IndexMap::new(),
    };
    let mut ids: Vec<InstrId> = Vec::with_capacity(entry.instrs.len());
    for (id, instr) in entry.iter() {
        let instr = read_from(instr, &ids);
        ids.push(match loops.get(&id) {
            Some(&n_trips) => draft.unrolled(&instr, n_trips),
            None => draft.put(instr, false),
        });
    }
    let Draft { instrs, mut by_trip, .. } = draft;
    let mut comp = Computation { instrs, root: ids[entry.root.index()], ..entry };
    // States are tuples that are read element by element: nothing needs them now.
    let is_live = live(&comp);
    comp.retain(&is_live);
    let mut marks = is_live.iter();
    by_trip.retain(|_| *marks.next().expect("one mark per instruction"));
    module.comps[module.entry.index()] = comp;
    by_trip
}

/// Per instruction, whether it is needed; of tuples and their elements alone, since others may have effects.
fn live(comp: &Computation) -> Vec<bool> {
    let is_needed = |(id, instr): (InstrId, &Instr)| {
        id == comp.root || !matches!(instr.op, Opcode::Tuple | Opcode::GetTupleElement)
    };
    let mut live: Vec<bool> = comp.iter().map(is_needed).collect();
    for (index, instr) in comp.instrs.iter().enumerate().rev() {
        if live[index] {
            instr.operands.iter().for_each(|id| live[id.index()] = true);
        }
    }
    live
}

/// The instruction, reading the new values.
fn read_from(instr: &Instr, ids: &[InstrId]) -> Instr {
    let operands = instr.operands.iter().map(|id| ids[id.index()]).collect();
    Instr { operands, ..instr.clone() }
}

struct Draft<'m> {
    comps: &'m [Computation],
    names: Names,
    instrs: Vec<Instr>,
    by_trip: Vec<bool>,
    /// Scalars, by type and literal.
    constants: IndexMap<String, InstrId>,
}

impl Draft<'_> {
    /// What a loop returns, as a tuple of its name.
    fn unrolled(&mut self, instr: &Instr, n_trips: u64) -> InstrId {
        let body = instr.comp(Key::Body).expect("a loop has a body");
        let body = &self.comps[body.index()];
        let mut state = instr.operands[0];
        for trip in 0..n_trips {
            state = self.trip(body, state, &format!("t{trip}"));
        }
        let operands = self.elements(state).into();
        self.push(Instr { op: Opcode::Tuple, operands, attrs: Vec::new(), ..instr.clone() }, false)
    }

    /// The state after a trip.
    fn trip(&mut self, body: &Computation, state: InstrId, suffix: &str) -> InstrId {
        let mut ids: Vec<InstrId> = Vec::with_capacity(body.instrs.len());
        for instr in &body.instrs {
            ids.push(match instr.param_number() {
                Some(_) => state,
                None => {
                    let name = self.names.derive(&instr.name, suffix);
                    self.put(Instr { name, ..read_from(instr, &ids) }, true)
                }
            });
        }
        ids[body.root.index()]
    }

    /// The elements of a tuple.
    fn elements(&mut self, tuple: InstrId) -> Vec<InstrId> {
        let instr = self.instrs[tuple.index()].clone();
        (0..instr.shape.parts().len()).map(|index| self.element(&instr, tuple, index)).collect()
    }

    fn element(&mut self, of: &Instr, tuple: InstrId, index: usize) -> InstrId {
        let attrs = vec![Attr { key: Key::Index, value: Value::Int(index as i64) }];
        let name = self.names.derive(&of.name, &index.to_string());
        let (op, shape) = (Opcode::GetTupleElement, of.shape.parts()[index].clone());
        let operands = [tuple].into_iter().collect();
        self.put(Instr { name, op, operands, shape, attrs, ..Instr::nothing(of.span) }, false)
    }

    /// Adds an instruction, or finds its value.
    fn put(&mut self, instr: Instr, is_of_trip: bool) -> InstrId {
        if let Some(known) = self.known(&instr) {
            return known;
        }
        let is_part = matches!(instr.op, Opcode::DynamicSlice | Opcode::DynamicUpdateSlice);
        let sliced = self.static_slice(&instr);
        self.push(sliced.unwrap_or(instr), is_of_trip && is_part)
    }

    fn push(&mut self, instr: Instr, is_part: bool) -> InstrId {
        self.instrs.push(instr);
        self.by_trip.push(is_part);
        InstrId::new(self.instrs.len() - 1)
    }

    /// An element of a tuple that is made here, or a scalar that follows from constants.
    fn known(&mut self, instr: &Instr) -> Option<InstrId> {
        if instr.op == Opcode::GetTupleElement {
            let tuple = &self.instrs[instr.operands[0].index()];
            let is_plain = tuple.op == Opcode::Tuple && instr.sharding().is_none();
            return is_plain.then(|| tuple.operands.get(instr.int(Key::Index)? as usize).copied()).flatten();
        }
        let shape = instr.shape.as_array().filter(|shape| shape.rank() == 0 && instr.sharding().is_none())?;
        let literal = match &instr.payload {
            Payload::Literal(literal) => literal.clone(),
            _ if is_integer(shape.dtype) => self.folded(instr)?,
            _ => return None,
        };
        let key = format!("{:?} {literal}", shape.dtype);
        if let Some(&known) = self.constants.get(&key) {
            return Some(known);
        }
        let (payload, shape) = (Payload::Literal(literal), Shape::array(shape.dtype, &[]));
        let constant = Instr {
            name: instr.name.clone(),
            op: Opcode::Constant,
            payload,
            shape,
            ..Instr::nothing(instr.span)
        };
        let id = self.push(constant, false);
        self.constants.insert(key, id);
        Some(id)
    }

    /// The literal of a scalar that is made of scalar constants, by the reference evaluator.
    fn folded(&self, instr: &Instr) -> Option<Box<str>> {
        let operand = |id: &InstrId| {
            Some(&self.instrs[id.index()]).filter(|it| {
                it.op == Opcode::Constant && it.shape.as_array().is_some_and(|shape| shape.rank() == 0)
            })
        };
        let mut instrs: Vec<Instr> =
            instr.operands.iter().map(|id| operand(id).cloned()).collect::<Option<_>>()?;
        if instrs.is_empty() || instr.called().next().is_some() {
            return None;
        }
        let operands = (0..instrs.len()).map(InstrId::new).collect();
        instrs.push(Instr { operands, ..instr.clone() });
        let root = InstrId::new(instrs.len() - 1);
        let comp = Computation { name: "fold".into(), instrs, root, thread: None };
        let module = Module { name: "fold".into(), comps: vec![comp], entry: CompId(0), ..Module::empty() };
        let value = eval::run(&module, &[], &eval::Options::default()).ok()?;
        Some(literal(value.as_array()?).into())
    }

    /// A `dynamic-slice` whose place is known, as a `slice`.
    fn static_slice(&self, instr: &Instr) -> Option<Instr> {
        let (&array, starts) = instr.operands.split_first().filter(|_| instr.op == Opcode::DynamicSlice)?;
        let dims = &self.instrs[array.index()].shape.as_array()?.dims;
        let sizes = instr.ints(Key::DynamicSliceSizes);
        let starts = starts.iter().map(|id| scalar_int(&self.instrs[id.index()]));
        let starts: Vec<i64> =
            starts.collect::<Option<_>>().filter(|all: &Vec<i64>| all.len() == sizes.len())?;
        let place = |((start, &size), &dim): ((i64, &i64), &i64)| {
            let start = start.clamp(0, dim - size);
            SliceDim { start, limit: start + size, stride: 1 }
        };
        let slices = starts.into_iter().zip(sizes).zip(dims).map(place).collect();
        let kept = instr.attrs.iter().filter(|attr| attr.key != Key::DynamicSliceSizes).cloned();
        let slices = Attr { key: Key::Slice, value: Value::Slices(slices) };
        let attrs = [slices].into_iter().chain(kept).collect();
        Some(Instr { op: Opcode::Slice, operands: [array].into_iter().collect(), attrs, ..instr.clone() })
    }
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype.class(), Class::Bool | Class::Signed | Class::Unsigned)
}
