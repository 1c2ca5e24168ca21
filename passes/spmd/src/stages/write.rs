//! Writes one module: its parameters, its instructions in program order, its sums, and a tuple of results.

use super::layouts;
use super::split::{Source, Split};
use super::when::Task;
use crate::rebuild::{Leaf, Rebuilder, plain};
use phzc_ir::{
    Computation, DType, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Shape, Sharding, Value,
    notes,
};
use phzc_opt::dce::remove_dead;
use smallvec::SmallVec;

/// The module of a task, which runs the `needed` instructions.
pub fn module(
    split: &Split,
    task: Task,
    needed: &[bool],
    inputs: &[Source],
    outputs: &[Leaf],
    sums: &[usize],
) -> Module {
    let mut writer = Writer::new(split);
    writer.parameters(inputs, task.stage);
    for (id, instr) in split.local.entry().iter().filter(|(id, _)| needed[id.index()]) {
        writer.build.instr(id, instr);
    }
    let mut results: Vec<InstrId> = outputs.iter().map(|&leaf| writer.build.leaf(leaf)).collect();
    results.extend(sums.iter().map(|&sum| writer.sum(split.sums[sum])));
    let root = writer.build.tuple(results, "outputs");
    writer.lay_out(root, outputs, sums);
    finished(split, task, writer.build.instrs, root)
}

/// A module around an entry, without what nobody calls and without the header's plan.
fn finished(split: &Split, task: Task, instrs: Vec<Instr>, root: InstrId) -> Module {
    let local = split.local;
    let mut module = local.clone();
    module.attrs.clear();
    module.name = format!("{}.{}", local.name, task.name()).into();
    module.set_note(notes::TASK, &task.name());
    let entry = &mut module.comps[local.entry.index()];
    *entry = Computation { instrs, root, name: entry.name.clone(), thread: None };
    remove_dead(&mut module);
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        // XLA takes no notes on the parameters of loops' bodies.
        [notes::OF_STAGE, notes::GLOBAL].into_iter().for_each(|note| instr.remove_note(note));
    }
    if split.layouts.n_devices(task.stage) > 1 {
        module.set_attr("num_partitions", split.layouts.n_devices(task.stage).to_string());
        split.layouts.write(&mut module);
    } else {
        module.comps.iter_mut().flat_map(|comp| &mut comp.instrs).for_each(layouts::remove);
    }
    module
}

struct Writer<'a> {
    split: &'a Split<'a>,
    build: Rebuilder<'a>,
}

impl<'a> Writer<'a> {
    fn new(split: &'a Split<'a>) -> Writer<'a> {
        Writer { split, build: Rebuilder::new(split.local.entry()) }
    }

    fn parameters(&mut self, inputs: &[Source], stage: usize) {
        for (number, &source) in inputs.iter().enumerate() {
            let payload = Payload::Parameter(number as u32);
            let (name, shape, stands_for) = self.parameter(source);
            let mut own = Instr { payload, ..plain(name, Opcode::Parameter, shape) };
            if let Some(&(maker, leaf)) = stands_for.first().filter(|_| source != Source::Microbatch) {
                let maker = self.split.local.entry().instr(maker);
                let tiling = self.split.layouts.received(maker, leaf, stage);
                tiling.into_iter().for_each(|tiling| layouts::set(&mut own, tiling));
            }
            let id = self.build.push(own);
            self.build.leaves.extend(stands_for.into_iter().map(|leaf| (leaf, id)));
        }
    }

    /// Name and shape of a parameter, and the values that it stands for.
    fn parameter(&mut self, source: Source) -> (Box<str>, Shape, Vec<Leaf>) {
        let entry = self.split.local.entry();
        match source {
            Source::Program(_, leaf) | Source::Made(leaf) => {
                let maker = entry.instr(leaf.0);
                let name = match maker.shape {
                    Shape::Tuple(_) => self.build.names.derive(&maker.name, &leaf.1.to_string()),
                    _ => maker.name.clone(),
                };
                (name, self.split.shape(leaf).clone(), vec![leaf])
            }
            Source::Accumulator(sum) => {
                let id = self.split.sums[sum];
                let name = self.build.names.derive(&entry.instr(id).name, "sum");
                (name, entry.instr(id).shape.clone(), vec![(id, 0)])
            }
            Source::Microbatch => {
                let is_number = |(_, instr): &(InstrId, &Instr)| instr.op == Opcode::PartitionId;
                let numbers = entry.iter().filter(is_number).map(|(id, _)| (id, 0)).collect();
                (self.build.names.free("microbatch"), Shape::array(DType::U32, &[]), numbers)
            }
        }
    }

    /// Gives the results the layouts that they have in the program; others are on all devices.
    fn lay_out(&mut self, root: InstrId, outputs: &[Leaf], sums: &[usize]) {
        let entry = self.split.local.entry();
        let sums = sums.iter().map(|&sum| (self.split.sums[sum], 0));
        let tiling = |leaf: Leaf| {
            let found = self.split.layouts.leaf(&entry.instr(leaf.0).name, leaf.1);
            let rank = self.split.shape(leaf).as_array().map_or(0, |array| array.rank());
            found.unwrap_or_else(|| Layout::REPLICATED.to_tiling(rank, &Mesh::new(&[])))
        };
        let tilings = outputs.iter().copied().chain(sums).map(tiling).collect();
        let sharding = Value::Sharding(Box::new(Sharding::Tuple(tilings)));
        self.build.instrs[root.index()].set_attr(Key::Sharding, sharding);
    }

    /// The sum so far with this microbatch's part.
    fn sum(&mut self, sum: InstrId) -> InstrId {
        let instr = self.split.local.entry().instr(sum);
        let reducer = instr.comp(Key::ToApply).expect("an all-reduce has a reduction");
        let op = self.split.local.comp(reducer).root().op;
        let (so_far, part) = (self.build.leaf((sum, 0)), self.build.operand(instr.operands[0]));
        let operands = SmallVec::from_slice(&[so_far, part]);
        self.build.push(Instr { operands, ..plain(instr.name.clone(), op, instr.shape.clone()) })
    }
}
