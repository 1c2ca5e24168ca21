//! The program with its longer dimensions: what is read is lengthened, or cut to what its reader runs over.

use super::dims::{Longer, Loop, Run, forwarded, is_forwarded, is_product, operand_leaf};
use super::mask::{masked, neutral};
use crate::spmd::attrs::{self, Sizes};
use crate::spmd::build::Builder;
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::{Attr, Dims, Instr, InstrId, Key, Mesh, Module, Opcode, Shape, Value, View};
use std::collections::BTreeSet;

/// The entry in which these dimensions are longer; its parameters and results are what they were.
pub fn written(module: &Module, longer: &Longer) -> Module {
    let mesh = Mesh::default();
    let mut writer = Writer {
        module,
        longer,
        build: Builder::new(module.entry(), &mesh),
        sources: Vec::new(),
        now: Vec::new(),
        zeros: BTreeSet::new(),
    };
    for (id, instr) in module.entry().iter() {
        writer.build.start(instr);
        let first = writer.build.instrs.len();
        let now = writer.instr(id, &View::new(module, module.entry, id));
        if let Now::Leaves(leaves) = &now
            && let [source] = leaves[..]
            && !is_forwarded(instr)
        {
            writer.build.finish(writer.sources[source][0], first);
        }
        writer.now.push(now);
    }
    writer.build.start(module.entry().root());
    let root = writer.whole(module.entry().root, module.entry().root());
    let mut made = module.clone();
    let entry = &mut made.comps[module.entry.index()];
    (entry.instrs, entry.root) = (writer.build.instrs, root);
    made
}

/// What an instruction has become.
#[derive(Clone)]
enum Now {
    /// Its value as it was: one that no other may change.
    Whole(InstrId),
    /// Its leaves, each a position in [`Writer::sources`].
    Leaves(Vec<usize>),
}

struct Writer<'m> {
    module: &'m Module,
    longer: &'m Longer,
    build: Builder<'m>,
    /// The forms of each array, first the one that was made.
    sources: Vec<Vec<InstrId>>,
    now: Vec<Now>,
    /// Dimensions of what is zero where it was lengthened.
    zeros: BTreeSet<(InstrId, usize)>,
}

impl Writer<'_> {
    fn instr(&mut self, id: InstrId, view: &View) -> Now {
        if id == self.module.entry().root && view.instr.op == Opcode::Tuple {
            return Now::Whole(self.as_it_was(view));
        }
        if is_forwarded(view.instr) {
            return self.handed_on(view);
        }
        let run = self.longer.loops(view, id);
        let made = match run.is_empty() {
            true => self.as_it_was(view),
            false => self.with_more(view, &run),
        };
        match view.instr.shape {
            Shape::Array(_) => Now::Leaves(vec![self.source(made)]),
            _ => Now::Whole(made),
        }
    }

    fn source(&mut self, made: InstrId) -> usize {
        self.sources.push(vec![made]);
        self.sources.len() - 1
    }

    /// A tuple, a part of one, or a barrier.
    fn handed_on(&mut self, view: &View) -> Now {
        let is_whole = |id: &InstrId| matches!(self.now[id.index()], Now::Whole(_));
        if view.instr.operands.iter().any(is_whole) {
            let made = self.as_it_was(view);
            return match view.instr.shape {
                Shape::Array(_) => Now::Leaves(vec![self.source(made)]),
                _ => Now::Whole(made),
            };
        }
        let leaves: Vec<usize> = forwarded(view).map(|leaf| self.leaf(operand_leaf(view, leaf))).collect();
        match view.instr.op {
            Opcode::OptBarrier => Now::Leaves(self.barrier(view, &leaves)),
            _ => Now::Leaves(leaves),
        }
    }

    fn leaf(&self, (id, leaf): (InstrId, usize)) -> usize {
        match &self.now[id.index()] {
            Now::Leaves(leaves) => leaves[leaf],
            Now::Whole(_) => unreachable!("only leaves are asked for"),
        }
    }

    /// A barrier around the forms that there are.
    fn barrier(&mut self, view: &View, leaves: &[usize]) -> Vec<usize> {
        let forms: Vec<InstrId> = leaves.iter().map(|&leaf| self.sources[leaf][0]).collect();
        let packed = self.pack(&view.instr.shape, &mut forms.iter().copied());
        let shape = self.build.instrs[packed.index()].shape.clone();
        let attrs = view.instr.attrs.clone();
        let made = self.build.add(Opcode::OptBarrier, &[packed], shape, attrs);
        let parts = self.unpack(made);
        for (part, form) in parts.iter().zip(&forms) {
            let zero: Vec<usize> =
                self.zeros.iter().filter(|(id, _)| id == form).map(|&(_, dim)| dim).collect();
            self.zeros.extend(zero.into_iter().map(|dim| (*part, dim)));
        }
        parts.into_iter().map(|part| self.source(part)).collect()
    }

    fn pack(&mut self, shape: &Shape, leaves: &mut impl Iterator<Item = InstrId>) -> InstrId {
        let Shape::Tuple(parts) = shape else { return leaves.next().expect("a leaf per array") };
        let operands: Vec<InstrId> = parts.iter().map(|part| self.pack(part, leaves)).collect();
        let shapes = operands.iter().map(|id| self.build.instrs[id.index()].shape.clone()).collect();
        self.build.add(Opcode::Tuple, &operands, Shape::Tuple(shapes), Vec::new())
    }

    fn unpack(&mut self, id: InstrId) -> Vec<InstrId> {
        let Shape::Tuple(parts) = self.build.instrs[id.index()].shape.clone() else { return vec![id] };
        let mut leaves = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let at = Attr { key: Key::Index, value: Value::Int(index as i64) };
            let part = self.build.add(Opcode::GetTupleElement, &[id], part, vec![at]);
            leaves.extend(self.unpack(part));
        }
        leaves
    }

    /// The instruction on what it read before.
    fn as_it_was(&mut self, view: &View) -> InstrId {
        let operands =
            view.instr.operands.iter().map(|&id| self.whole(id, &view.instrs[id.index()])).collect();
        self.build.push(Instr { operands, ..view.instr.clone() })
    }

    /// A value as it was.
    fn whole(&mut self, id: InstrId, instr: &Instr) -> InstrId {
        let leaves = match &self.now[id.index()] {
            Now::Whole(id) => return *id,
            Now::Leaves(leaves) => leaves.clone(),
        };
        let shapes = instr.shape.leaves();
        let forms: Vec<InstrId> =
            leaves.into_iter().zip(shapes).map(|(leaf, shape)| self.form(leaf, &dims_of(shape))).collect();
        self.pack(&instr.shape, &mut forms.into_iter())
    }

    /// An array with these sizes.
    fn form(&mut self, source: usize, wanted: &Dims) -> InstrId {
        let known = self.sources[source].iter().find(|id| self.build.dims(**id) == *wanted);
        if let Some(&id) = known {
            return id;
        }
        let first = self.sources[source][0];
        let made = self.cut(first, wanted);
        let made = self.lengthened(made, wanted);
        self.sources[source].push(made);
        made
    }

    /// The first elements of every dimension that is longer than wanted.
    fn cut(&mut self, id: InstrId, wanted: &Dims) -> InstrId {
        let dims: Dims =
            self.build.dims(id).iter().zip(wanted).map(|(&has, &wanted)| has.min(wanted)).collect();
        if dims == self.build.dims(id) {
            return id;
        }
        let ranges = dims.iter().map(|&limit| SliceDim { start: 0, limit, stride: 1 }).collect();
        let attrs = vec![Attr { key: Key::Slice, value: Value::Slices(ranges) }];
        self.build.array(Opcode::Slice, &[id], (self.build.dtype(id), &dims), attrs)
    }

    /// Zeros behind every dimension that is shorter than wanted.
    fn lengthened(&mut self, id: InstrId, wanted: &Dims) -> InstrId {
        let (has, dtype) = (self.build.dims(id), self.build.dtype(id));
        if has == *wanted {
            return id;
        }
        let literal = if dtype == phzc_ir::DType::Pred { "false" } else { "0" };
        let zero = self.build.constant(dtype, literal);
        let high = has.iter().zip(wanted).map(|(has, wanted)| wanted - has);
        let padding = high.clone().map(|high| PadDim { low: 0, high, interior: 0 }).collect();
        let attrs = vec![Attr { key: Key::Padding, value: Value::Padding(padding) }];
        let made = self.build.array(Opcode::Pad, &[id, zero], (dtype, wanted), attrs);
        self.zeros.extend(high.enumerate().filter(|(_, high)| *high > 0).map(|(dim, _)| (made, dim)));
        made
    }

    /// The instruction with these loops running longer.
    fn with_more(&mut self, view: &View, run: &[Run]) -> InstrId {
        let instr = view.instr;
        let mut operands = Vec::new();
        let mut leaf = 0;
        for &operand in &instr.operands {
            let shape = &view.instrs[operand.index()].shape;
            operands.push(self.operand(view, (operand, leaf), run));
            leaf += shape.n_leaves();
        }
        let mut shape = instr.shape.clone();
        if let Shape::Array(array) = &mut shape {
            array.layout = None;
            for Run { it, longer, .. } in run {
                it.results.iter().for_each(|&(_, dim)| array.dims[dim] = *longer);
            }
        }
        let sizes = Sizes {
            global: instr.operands.iter().map(|id| dims_of(&view.instrs[id.index()].shape)).collect(),
            local: operands.iter().map(|&id| self.build.dims(id)).collect(),
            result: dims_of(&shape),
        };
        let mut attrs = attrs::local(instr, &sizes);
        attrs.extend(instr.attrs.iter().filter(|attr| attr.key == Key::Sharding).cloned());
        let made = self.build.add(instr.op, &operands, shape, attrs);
        self.build.instrs[made.index()].payload = instr.payload.clone();
        self.keep_zeros(view, &operands, made, run);
        match is_product(instr) {
            true => made,
            false => self.without_rest(made, run),
        }
    }

    /// An operand with the sizes that the loops run over, and nothing behind what is reduced.
    fn operand(&mut self, view: &View, (operand, leaf): (InstrId, usize), run: &[Run]) -> InstrId {
        let shape = &view.instrs[operand.index()].shape;
        if shape.as_array().is_none() {
            return self.whole(operand, &view.instrs[operand.index()]);
        }
        let mut dims = dims_of(shape);
        let own = |it: &Loop| it.operands.iter().filter(|at| at.0 == leaf).map(|at| at.1).collect::<Vec<_>>();
        for Run { it, longer, .. } in run {
            own(it).into_iter().for_each(|dim| dims[dim] = *longer);
        }
        let source = self.leaf((operand, 0));
        let mut value = self.form(source, &dims);
        for Run { it, .. } in run {
            let Some(reducer) = it.reducer else { continue };
            let fill = neutral(self.build.dtype(value), reducer).expect("such loops stay");
            for dim in own(it) {
                if fill == "0" && self.zeros.contains(&(value, dim)) {
                    continue;
                }
                value = masked(&mut self.build, value, dim, it.size, &fill);
            }
        }
        value
    }

    /// Zeros where a product would sum up more: one kernel makes them, and all readers read one value.
    fn without_rest(&mut self, made: InstrId, run: &[Run]) -> InstrId {
        let mut value = made;
        for Run { it, .. } in run.iter().filter(|run| run.is_summed) {
            for &(_, dim) in &it.results {
                if !self.zeros.contains(&(value, dim)) {
                    value = self.zeroed(value, dim, it.size);
                }
            }
        }
        value
    }

    /// The value with zeros from `size` on along `dim`.
    fn zeroed(&mut self, value: InstrId, dim: usize, size: i64) -> InstrId {
        let made = masked(&mut self.build, value, dim, size, "0");
        let before: Vec<usize> =
            self.zeros.iter().filter(|(id, _)| *id == value).map(|&(_, dim)| dim).collect();
        self.zeros.extend(before.into_iter().chain([dim]).map(|dim| (made, dim)));
        made
    }

    /// What is made element by element of zeros, and stays zero.
    fn keep_zeros(&mut self, view: &View, operands: &[InstrId], made: InstrId, run: &[Run]) {
        let keeps =
            matches!(view.instr.op, Opcode::Convert | Opcode::Transpose | Opcode::Negate | Opcode::Copy);
        for Run { it, .. } in run.iter().filter(|_| keeps) {
            let is_zero = it.operands.iter().all(|&(_, dim)| self.zeros.contains(&(operands[0], dim)));
            if is_zero {
                self.zeros.extend(it.results.iter().map(|&(_, dim)| (made, dim)));
            }
        }
    }
}

fn dims_of(shape: &Shape) -> Dims {
    shape.as_array().map_or_else(Dims::new, |array| array.dims.clone())
}
