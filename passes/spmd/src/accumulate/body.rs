//! The loop over the microbatches: what it carries, its body and its condition.

use super::Plan;
use super::build::{Build, Rows, lies};
use super::layouts::{self, complete, set};
use super::parts::{Cut, Parts};
use crate::rebuild::plain;
use crate::spmd::build::ints;
use phzc_ir::{Attr, Computation, DType, Instr, InstrId, Key, Mesh, Opcode, Payload, Shape, Value, notes};
use phzc_plan::derive::Leaf;

/// What the loop carries: the number of the microbatch, sums, results that are joined, and what it reads.
pub struct State {
    /// The type of each.
    pub shapes: Vec<Shape>,
    /// How each lies.
    pub leaves: Vec<Leaf>,
}

impl State {
    /// The type of all.
    pub fn shape(&self) -> Shape {
        Shape::Tuple(self.shapes.clone())
    }

    fn parameter(&self, mesh: &Mesh) -> Instr {
        let mut instr = Instr {
            payload: Payload::Parameter(0),
            ..plain("state".into(), Opcode::Parameter, self.shape())
        };
        // The loop says what is partial: XLA takes no notes on the parameters of bodies.
        let whole: Vec<Leaf> = self.leaves.iter().map(|leaf| lies(leaf.layout)).collect();
        set(&mut instr, &whole, mesh);
        instr
    }
}

/// Whether there are microbatches left.
pub fn condition(state: &State, name: Box<str>, n: i64, plan: &Plan) -> Computation {
    let mut build = Build::new(plan.local, plan.mesh());
    let given = build.step.push(state.parameter(plan.mesh()));
    let at = build.element(given, 0, Leaf::default());
    let n = build.full((DType::S32, &[]), &n.to_string(), Leaf::default().layout);
    let attrs = vec![Attr { key: Key::Direction, value: Value::Word("LT".into()) }];
    let (name_of_root, none) = (build.step.names.free("is_left"), (attrs, Leaf::default()));
    let root = build.array((name_of_root, Opcode::Compare), &[at, n], (DType::Pred, &[]), none);
    Computation { name, instrs: build.step.instrs, root, thread: None }
}

/// One microbatch: its part of the batch, the step's forward and backward part, the sums so far.
pub fn body(plan: &Plan, parts: &Parts, state: &State, (name, rows): (Box<str>, Rows)) -> Computation {
    let mut build = Build::new(plan.local, plan.mesh());
    let given = build.step.push(state.parameter(plan.mesh()));
    let carried = (0..state.shapes.len()).map(|at| build.element(given, at, state.leaves[at]));
    let carried: Vec<InstrId> = carried.collect();
    let mut body = Body { plan, parts, rows, build, at: carried[0] };
    let (own, read) = carried.split_at(carried.len() - parts.given.len());
    body.microbatch(read);
    for (id, instr) in plan.local.entry().iter().filter(|(id, instr)| parts.runs_in_body(*id, instr)) {
        body.build.step.instr(id, instr);
    }
    let made = body.results(own);
    let root =
        body.build.tuple("microbatch", made.into_iter().chain(read.iter().copied()).collect(), &state.leaves);
    let mut instrs = body.build.step.instrs;
    complete(&mut instrs);
    Computation { name, instrs, root, thread: None }
}

struct Body<'a> {
    plan: &'a Plan<'a>,
    parts: &'a Parts,
    rows: Rows,
    build: Build<'a>,
    /// The number of the microbatch.
    at: InstrId,
}

impl Body<'_> {
    /// Takes the microbatch's part of what the loop reads.
    fn microbatch(&mut self, read: &[InstrId]) {
        for (cut, &whole) in self.parts.given.iter().zip(read) {
            let part = cut.dim.map_or(whole, |dim| self.part(cut, whole, dim));
            self.build.step.leaves.insert(cut.value, part);
        }
        for (id, _) in self.plan.local.entry().iter().filter(|(_, instr)| instr.op == Opcode::PartitionId) {
            let (name, none) = (self.build.named(self.at, "convert"), (Vec::new(), Leaf::default()));
            let number = self.build.array((name, Opcode::Convert), &[self.at], (DType::U32, &[]), none);
            self.build.step.leaves.insert((id, 0), number);
        }
    }

    fn part(&mut self, cut: &Cut, whole: InstrId, dim: usize) -> InstrId {
        let (dtype, mut dims, counter) =
            (self.build.dtype(whole), self.build.dims(whole), self.rows.counter(dim));
        dims[counter] = 1;
        let operands: Vec<InstrId> = std::iter::once(whole).chain(self.places(dims.len(), counter)).collect();
        let attrs = vec![Attr { key: Key::DynamicSliceSizes, value: ints(dims.iter().copied()) }];
        let source = &self.plan.local.entry().instr(cut.value.0).name;
        let (name, layout) = (self.build.step.names.derive(source, "part"), lies(self.rows.apart(cut, dim)));
        let part = self.build.array((name, Opcode::DynamicSlice), &operands, (dtype, &dims), (attrs, layout));
        dims.remove(counter);
        let joint = self.rows.joint(cut);
        let part = self.build.reshape(part, &dims, joint);
        self.build.moved(part, (joint, cut.layout), "slice")
    }

    /// Where a microbatch's part starts, dimension by dimension.
    fn places(&mut self, rank: usize, counter: usize) -> Vec<InstrId> {
        let zero = self.build.full((DType::S32, &[]), "0", Leaf::default().layout);
        (0..rank).map(|dim| if dim == counter { self.at } else { zero }).collect()
    }

    /// The next number, the sums with this microbatch's part, and the joined results with it.
    fn results(&mut self, before: &[InstrId]) -> Vec<InstrId> {
        let one = self.build.full((DType::S32, &[]), "1", Leaf::default().layout);
        let (name, none) = (self.build.named(self.at, "next"), (Vec::new(), Leaf::default()));
        let mut made = vec![self.build.array((name, Opcode::Add), &[self.at, one], (DType::S32, &[]), none)];
        let (sums, joined) = before[1..].split_at(self.parts.sums.len());
        made.extend(self.parts.sums.iter().zip(sums).map(|(&sum, &so_far)| self.sum(sum, so_far)));
        made.extend(self.parts.joined.iter().zip(joined).map(|(cut, &whole)| self.joined(cut, whole)));
        made
    }

    fn sum(&mut self, sum: InstrId, so_far: InstrId) -> InstrId {
        let instr = self.plan.local.entry().instr(sum);
        let part = self.build.step.operand(instr.operands[0]);
        let (dtype, dims, name) =
            (self.build.dtype(so_far), self.build.dims(so_far), self.build.named(so_far, "sum"));
        let layout = layouts::of(instr, self.plan.mesh());
        let reducer = self.plan.reduction(instr).expect("it starts from a neutral number");
        let op = (name, reducer.opcode());
        let made = self.build.array(op, &[so_far, part], (dtype, &dims), (Vec::new(), layout));
        let phase = instr.note(notes::PHASE).unwrap_or("bwd");
        self.build.step.instrs[made.index()].set_note(notes::PHASE, phase);
        made
    }

    fn joined(&mut self, cut: &Cut, whole: InstrId) -> InstrId {
        let (part, joint, dim) =
            (self.build.step.leaf(cut.value), self.rows.joint(cut), cut.dim.unwrap_or_default());
        let part = self.build.moved(part, (cut.layout, joint), "all-gather");
        let (apart, counter) = (self.rows.apart(cut, dim), self.rows.counter(dim));
        let (dtype, dims) = (self.build.dtype(whole), self.build.dims(whole));
        let mut one = dims.clone();
        one[counter] = 1;
        let part = self.build.reshape(part, &one, apart);
        let places = self.places(dims.len(), counter);
        let operands: Vec<InstrId> = [whole, part].into_iter().chain(places).collect();
        let name = self.build.named(whole, "joined");
        let op = (name, Opcode::DynamicUpdateSlice);
        self.build.array(op, &operands, (dtype, &dims), (Vec::new(), lies(apart)))
    }
}
