//! Writes the manifest of some modules: where values come from, and what runs after what.

use super::manifest::{Accumulator, Devices, Entry, From, Given, Made, Manifest, Output, Replica, Run};
use super::split::{Piece, Source, Split};
use super::when::{Part, Task, When};
use crate::rebuild::Leaf;
use phzc_cost::Pipeline;
use phzc_cost::schedule::{self, Event};
use phzc_ir::text::shape_text;
use phzc_ir::{Diagnostic, InstrId, Key, Module, Opcode, Result};
use phzc_plan::derive::Facts;
use phzc_plan::microbatch::TIME;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The manifest of some modules; `placed` are the facts of the plan, `timed` is the program on the axis of
/// the microbatches with its facts.
///
/// # Errors
/// When a module needs what has not been made by then.
pub fn manifest(
    split: &Split,
    pieces: &[Piece],
    placed: &Facts,
    timed: (&Module, &Facts),
) -> Result<Manifest> {
    let writer = Writer { split, pieces, timed };
    let order = order(pieces, placed);
    writer.check(&order)?;
    writer.no_part_in_updates()?;
    Ok(Manifest {
        schema: 1,
        program: split.local.name.to_string(),
        n_microbatches: placed.header.n_microbatches,
        schedule: placed.header.schedule.to_string(),
        stages: devices(placed),
        replicas: replicas(placed),
        modules: pieces.iter().map(|piece| writer.entry(piece)).collect(),
        accumulators: split.sums.iter().map(|&sum| writer.accumulator(sum)).collect(),
        order: order.iter().map(|&(task, microbatch)| Run { module: task.name(), microbatch }).collect(),
        results: split.results().into_iter().enumerate().map(|it| writer.output(it)).collect(),
    })
}

/// The replicas, if there are several.
fn replicas(placed: &Facts) -> Vec<Replica> {
    let (header, n_stages) = (&placed.header, placed.header.meshes.len());
    if header.replicas.is_empty() {
        return Vec::new();
    }
    let replica = |(at, own): (usize, Range<usize>)| {
        let header = header.of_replica(at);
        let devices = (0..n_stages).map(|stage| header.devices(stage)).collect();
        Replica { microbatches: [own.start, own.end - 1], devices }
    };
    header.shares().into_iter().enumerate().map(replica).collect()
}

/// The devices of each stage, those of its group.
fn devices(placed: &Facts) -> Vec<Devices> {
    let header = &placed.header;
    let stage = |stage| Devices { devices: header.devices(stage), mesh: header.meshes[stage].to_string() };
    (0..header.meshes.len()).map(stage).collect()
}

/// The schedule's order of the tasks that there are, then the updates, each after those that it waits for.
fn order(pieces: &[Piece], placed: &Facts) -> Vec<(Task, Option<usize>)> {
    let n_stages = placed.header.meshes.len();
    let pipeline = |n_microbatches: usize| Pipeline {
        forward_secs: vec![1.0; n_stages],
        backward_secs: vec![2.0; n_stages],
        weight_secs: vec![1.0; n_stages],
        send_secs: vec![0.0; n_stages - 1],
        n_microbatches,
    };
    let tasks: BTreeSet<Task> = pieces.iter().map(|piece| piece.task).collect();
    let task = |event: Event| {
        let part = match event.phase {
            schedule::Part::Forward => Part::Forward,
            schedule::Part::Backward => Part::Backward,
            schedule::Part::WeightGradient => Part::WeightGradient,
        };
        (Task { stage: event.stage, part }, Some(event.microbatch))
    };
    let events = placed.header.shares().into_iter().flat_map(|own| {
        let events = pipeline(own.len()).simulate(placed.header.schedule).events.into_iter();
        events.map(move |event| Event { microbatch: own.start + event.microbatch, ..event })
    });
    let mut updates: Vec<Task> = tasks.iter().copied().filter(|task| task.is_update()).collect();
    updates.sort_by_key(|task| (task.part, task.stage));
    let each = events.map(task).filter(|(task, _)| tasks.contains(task));
    each.chain(updates.into_iter().map(|task| (task, None))).collect()
}

struct Writer<'a> {
    split: &'a Split<'a>,
    pieces: &'a [Piece],
    timed: (&'a Module, &'a Facts),
}

impl Writer<'_> {
    fn entry(&self, piece: &Piece) -> Entry {
        let (task, entry) = (piece.task, piece.module.entry());
        let given =
            |(&source, id)| Given { shape: shape_text(&entry.instr(id).shape), from: self.from(source) };
        let made = piece.outputs.iter().map(|&leaf| self.made(leaf));
        let sum = |&sum: &usize| Made { accumulator: Some(sum), ..self.made((self.split.sums[sum], 0)) };
        Entry {
            name: task.name(),
            file: format!("{}.hlo", task.name()),
            stage: task.stage,
            phase: match task.part {
                Part::Forward => "forward",
                Part::Backward => "backward",
                Part::WeightGradient => "weight_gradient",
                Part::Update(_) => "update",
            },
            parameters: piece.inputs.iter().zip(entry.params()).map(given).collect(),
            results: made.chain(piece.sums.iter().map(sum)).collect(),
        }
    }

    fn made(&self, leaf: Leaf) -> Made {
        let readers = self.split.readers.get(&leaf).into_iter().flatten();
        Made {
            name: self.split.local.entry().instr(leaf.0).name.to_string(),
            shape: shape_text(self.split.shape(leaf)),
            accumulator: None,
            readers: readers.map(|task| task.name()).collect(),
        }
    }

    fn from(&self, source: Source) -> From {
        match source {
            Source::Program(parameter, (_, leaf)) => {
                let own = self.timed.0.entry().params()[parameter as usize];
                From::Program { parameter, leaf, split_dim: self.batch_dim(own, leaf) }
            }
            Source::Accumulator(accumulator) => From::Accumulator { accumulator },
            Source::Microbatch => From::Microbatch,
            Source::Made(leaf) => {
                let place = |piece: &Piece| {
                    let result = piece.outputs.iter().position(|&other| other == leaf)?;
                    Some(From::Module { module: piece.task.name(), result })
                };
                self.pieces.iter().find_map(place).expect("what is read is a result of some module")
            }
        }
    }

    fn accumulator(&self, sum: InstrId) -> Accumulator {
        let instr = self.split.local.entry().instr(sum);
        let at = self.split.sums.iter().position(|&other| other == sum).unwrap_or_default();
        let piece = self.pieces.iter().find(|piece| piece.sums.contains(&at));
        let reducer = instr.comp(Key::ToApply).map(|comp| self.split.local.comp(comp).root().op);
        Accumulator {
            name: instr.name.to_string(),
            shape: shape_text(&instr.shape),
            start: start(reducer.unwrap_or(Opcode::Add)),
            module: piece.map(|piece| piece.task.name()).unwrap_or_default(),
        }
    }
    fn output(&self, (at, leaf): (usize, Leaf)) -> Output {
        let root = self.timed.0.entry().root;
        let join_dim = self.batch_dim(root, at);
        Output {
            shape: shape_text(self.split.shape(leaf)),
            join_dim,
            from: self.from(self.split.source(leaf)),
        }
    }

    /// The dimension of a leaf that runs over the batch, if there are several microbatches.
    fn batch_dim(&self, id: InstrId, leaf: usize) -> Option<usize> {
        let (module, facts) = self.timed;
        let leaves = &facts.comps[module.entry.index()][id.index()].leaves;
        leaves.get(leaf).and_then(|leaf| leaf.layout.dim_of(TIME))
    }

    /// Errors unless everything is made before it is read.
    fn check(&self, order: &[(Task, Option<usize>)]) -> Result<()> {
        let last = order.iter().filter_map(|(_, microbatch)| *microbatch).max();
        let mut done: BTreeSet<(Task, Option<usize>)> = BTreeSet::new();
        for &(task, microbatch) in order {
            let piece = self.pieces.iter().find(|piece| piece.task == task);
            for &source in piece.iter().flat_map(|piece| &piece.inputs) {
                let Some(maker) = self.maker(source).filter(|maker| *maker != task) else { continue };
                let when = if maker.is_update() { None } else { microbatch.or(last) };
                if !done.contains(&(maker, when)) {
                    return Err(self.too_early(task, source));
                }
            }
            done.insert((task, microbatch));
        }
        Ok(())
    }

    /// Errors if an update reads what only parts of are there: those of one microbatch.
    fn no_part_in_updates(&self) -> Result<()> {
        let (module, split) = (self.timed.0, self.split);
        let ids: BTreeMap<&str, InstrId> =
            module.entry().iter().map(|(id, instr)| (&*instr.name, id)).collect();
        for (&(maker, leaf), readers) in &split.readers {
            let instr = split.local.entry().instr(maker);
            let is_part = ids.get(&*instr.name).is_some_and(|&id| self.batch_dim(id, leaf).is_some());
            if let Some(reader) = readers.iter().find(|reader| reader.is_update()).filter(|_| is_part) {
                let message = format!("{} reads `{}` of all microbatches", reader.name(), instr.name);
                return Err(Diagnostic::error(message)
                    .at(instr.span)
                    .help("plan with `place{microbatches=1}`"));
            }
        }
        Ok(())
    }

    /// The task that makes a value.
    fn maker(&self, source: Source) -> Option<Task> {
        match source {
            Source::Made((maker, _)) => match self.split.when[maker.index()] {
                When::In(task) => Some(task),
                _ => None,
            },
            Source::Accumulator(sum) => match self.split.when[self.split.sums[sum].index()] {
                When::Sum(task) => Some(task),
                _ => None,
            },
            Source::Program(..) | Source::Microbatch => None,
        }
    }

    fn too_early(&self, task: Task, source: Source) -> Diagnostic {
        let id = match source {
            Source::Made((id, _)) | Source::Program(_, (id, _)) => id,
            Source::Accumulator(sum) => self.split.sums[sum],
            Source::Microbatch => self.split.local.entry().root,
        };
        let instr = self.split.local.entry().instr(id);
        let message = format!("{} reads `{}` before it is made", task.name(), instr.name);
        Diagnostic::error(message).at(instr.span).help("plan with fewer stages, or with `place{stages=1}`")
    }
}

/// What leaves a reduction by this op as it is.
fn start(reduction: Opcode) -> &'static str {
    match reduction {
        Opcode::Multiply => "one",
        Opcode::Maximum => "lowest",
        Opcode::Minimum => "highest",
        Opcode::And => "ones",
        _ => "zero",
    }
}
