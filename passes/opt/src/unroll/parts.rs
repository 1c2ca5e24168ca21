//! Stacks written as one value per layer, of which each is one of the first dimension.

use super::stacks::{is_total, part};
use crate::simplify::Known;
use phzc_ir::attr::SliceDim;
use phzc_ir::edit::Names;
use phzc_ir::ops::literal::splat;
use phzc_ir::unstacked::{Split, Unstacked};
use phzc_ir::{Computation, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Value, notes};

/// What stands for an instruction of before.
enum Now {
    One(InstrId),
    Parts(Vec<InstrId>),
}

impl Now {
    /// What has become of the parameter or result of this number.
    fn split(&self, number: usize) -> Option<Split> {
        match self {
            Now::Parts(parts) => Some(Split { number, n_parts: parts.len() }),
            Now::One(_) => None,
        }
    }
}

/// Writes the parts of stacks, in the signature of the program too.
pub(super) fn write(module: &mut Module, is_stack: &[bool]) {
    let before = module.clone();
    let entry = before.entry();
    let mut draft = Draft {
        before: &before,
        names: Names::of(entry),
        instrs: Vec::new(),
        now: Vec::new(),
        known: Known::new(&[]),
    };
    let mut unstacked = Unstacked::default();
    for (id, instr) in entry.iter() {
        let now = draft.written(id, instr, is_stack[id.index()]);
        let number = instr.param_number().map(|number| number as usize);
        unstacked.parameters.extend(number.and_then(|number| now.split(number)));
        draft.now.push(now);
    }
    unstacked.parameters.sort_unstable_by_key(|it| it.number);
    let results = entry.root().operands.iter().enumerate();
    unstacked.results = results.filter_map(|(number, id)| draft.now[id.index()].split(number)).collect();
    let root = draft.whole(entry.root);
    let comp = &mut module.comps[before.entry.index()];
    (comp.instrs, comp.root) = (draft.instrs, root);
    number_parameters(comp);
    unstacked.rewrite_header(module, &before);
    module.set_note(notes::UNSTACKED, &unstacked.to_string());
}

/// Numbers the parameters by their old numbers, and parts by layer.
fn number_parameters(comp: &mut Computation) {
    let mut all: Vec<(u32, usize)> =
        comp.instrs.iter().enumerate().filter_map(|(at, instr)| Some((instr.param_number()?, at))).collect();
    all.sort_unstable();
    for (number, (_, at)) in all.into_iter().enumerate() {
        comp.instrs[at].payload = Payload::Parameter(number as u32);
    }
}

struct Draft<'m> {
    before: &'m Module,
    names: Names,
    instrs: Vec<Instr>,
    now: Vec<Now>,
    known: Known<'m>,
}

impl Draft<'_> {
    fn written(&mut self, id: InstrId, instr: &Instr, is_stack: bool) -> Now {
        let entry = self.before.entry();
        if !is_stack {
            return Now::One(self.one(id, instr));
        }
        match (instr.op, part(entry, instr)) {
            (Opcode::DynamicUpdateSlice, Some(at)) => {
                let update = self.whole(instr.operands[1]);
                let mut parts = self.parts(instr.operands[0]).expect("what trips write is a stack").to_vec();
                parts[at as usize] = update;
                Now::Parts(parts)
            }
            _ => Now::Parts(self.each(instr)),
        }
    }

    /// What is no stack, though it may read some.
    fn one(&mut self, id: InstrId, instr: &Instr) -> InstrId {
        let entry = self.before.entry();
        let read = instr.operands.first().copied();
        let of_stack = read.and_then(|read| self.parts(read)).map(<[InstrId]>::to_vec);
        match (instr.op, of_stack) {
            (Opcode::Slice, Some(parts)) => parts[part(entry, instr).expect("a part is read") as usize],
            (Opcode::Reduce, Some(parts)) if is_total(self.before, id) => self.reduced(instr, &parts),
            _ if id == entry.root => {
                let operands: Vec<InstrId> = instr.operands.iter().flat_map(|&id| self.all(id)).collect();
                let shape = |id: &InstrId| self.instrs[id.index()].shape.clone();
                let shape = Shape::Tuple(operands.iter().map(shape).collect());
                self.push(Instr { operands: operands.into(), shape, ..instr.clone() })
            }
            _ => {
                let operands = instr.operands.iter().map(|&id| self.whole(id)).collect();
                let new = Instr { operands, ..instr.clone() };
                self.added_to_nothing(instr, &new).unwrap_or_else(|| self.push(new))
            }
        }
    }

    /// What is added to a part of a stack that nothing has been written to: the first trip does.
    fn added_to_nothing(&self, old: &Instr, new: &Instr) -> Option<InstrId> {
        let is_sum = new.op == Opcode::Add && new.sharding().is_none();
        let (&[a, b], &[old_a, old_b]) = (&new.operands[..], &old.operands[..]) else { return None };
        let is_empty = |old: InstrId, new: InstrId| {
            let instr = self.before.entry().instr(old);
            let is_part = instr.op == Opcode::Slice && self.parts(instr.operands[0]).is_some();
            is_sum && is_part && self.is_zero(new)
        };
        match (is_empty(old_a, a), is_empty(old_b, b)) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        }
    }

    /// The sum of all parts: each part's begins with those before.
    fn reduced(&mut self, instr: &Instr, parts: &[InstrId]) -> InstrId {
        let mut so_far = self.whole(instr.operands[1]);
        for (layer, &part) in parts.iter().enumerate() {
            let name = self.names.derive(&instr.name, &layer.to_string());
            let operands = [part, so_far].into_iter().collect();
            so_far = self.push(Instr { name, operands, ..instr.clone() });
        }
        so_far
    }

    /// An op on stacks, once per part.
    fn each(&mut self, instr: &Instr) -> Vec<InstrId> {
        let n_parts = instr.shape.as_array().expect("a stack is an array").dims[0] as usize;
        let mut one = instr.clone();
        if let Shape::Array(array) = &mut one.shape {
            array.dims[0] = 1;
        }
        if let Some(Value::Slices(slices)) = instr.attr(Key::Slice) {
            let mut slices = slices.clone();
            slices[0] = SliceDim { start: 0, limit: 1, stride: 1 };
            one.set_attr(Key::Slice, Value::Slices(slices));
        }
        let made = (0..n_parts).map(|layer| {
            let name = self.names.derive(&instr.name, &layer.to_string());
            let operands = instr.operands.iter().map(|&id| self.layer(id, layer)).collect();
            self.push(Instr { name, operands, ..one.clone() })
        });
        made.collect()
    }

    fn push(&mut self, mut instr: Instr) -> InstrId {
        if self.is_view(&instr) {
            let first = self.first_of_views(instr.operands[0], &instr.shape);
            if self.instrs[first.index()].shape == instr.shape {
                return first;
            }
            if instr.op == Opcode::Reshape {
                instr.operands[0] = first;
            }
        }
        let hash = if self.is_shared(&instr) { self.known.hash(&instr) } else { None };
        if let Some(known) = hash.and_then(|hash| self.known.find(hash, &instr, &self.instrs)) {
            return known;
        }
        self.instrs.push(instr);
        let id = InstrId::new(self.instrs.len() - 1);
        hash.into_iter().for_each(|hash| self.known.insert(hash, id));
        id
    }

    /// What a chain of views began with, or the last of them that has a shape: a trip puts a value on a stack
    /// as a part, and another one takes it off.
    fn first_of_views(&self, mut id: InstrId, wanted: &Shape) -> InstrId {
        loop {
            let instr = &self.instrs[id.index()];
            if instr.shape == *wanted || !self.is_view(instr) {
                return id;
            }
            id = instr.operands[0];
        }
    }

    /// Whether it is written once where trips do the same: masks, and weights as products want them, which a
    /// loop makes in its forward trips and once more in its backward trips. Copies of a scalar are made where
    /// they are read: one that all layers share would keep them together.
    fn is_shared(&self, instr: &Instr) -> bool {
        use Opcode::{Broadcast, Compare, Constant, Convert, Iota, Reshape, Slice, Transpose};
        let is_array =
            |id: &InstrId| self.instrs[id.index()].shape.as_array().is_some_and(|it| it.rank() > 0);
        match instr.op {
            Broadcast => instr.operands.first().is_some_and(is_array),
            op => matches!(op, Compare | Constant | Convert | Iota | Reshape | Slice | Transpose),
        }
    }

    /// Whether all elements are the constant zero.
    fn is_zero(&self, id: InstrId) -> bool {
        let instr = &self.instrs[id.index()];
        match (instr.op, splat(instr)) {
            (Opcode::Broadcast, _) => self.is_zero(instr.operands[0]),
            (_, Some(literal)) => literal.parse::<f64>() == Ok(0.0),
            _ => false,
        }
    }

    /// Whether an instruction only writes the same elements, in the same order, with other dimensions.
    fn is_view(&self, instr: &Instr) -> bool {
        let of = |shape: &Shape| shape.as_array().map(|array| array.n_elements());
        let is_ordered = instr.ints(Key::Dimensions).windows(2).all(|pair| pair[0] < pair[1]);
        let is_kept = |id: &InstrId| of(&self.instrs[id.index()].shape) == of(&instr.shape);
        match instr.op {
            Opcode::Reshape => instr.sharding().is_none(),
            Opcode::Broadcast => is_ordered && instr.operands.first().is_some_and(is_kept),
            _ => false,
        }
    }

    fn parts(&self, id: InstrId) -> Option<&[InstrId]> {
        match &self.now[id.index()] {
            Now::Parts(parts) => Some(parts),
            Now::One(_) => None,
        }
    }

    fn whole(&self, id: InstrId) -> InstrId {
        match self.now[id.index()] {
            Now::One(id) => id,
            Now::Parts(_) => unreachable!("a stack is read in parts"),
        }
    }

    fn layer(&self, id: InstrId, layer: usize) -> InstrId {
        self.parts(id).map_or_else(|| self.whole(id), |parts| parts[layer])
    }

    fn all(&self, id: InstrId) -> Vec<InstrId> {
        self.parts(id).map_or_else(|| vec![self.whole(id)], <[InstrId]>::to_vec)
    }
}
