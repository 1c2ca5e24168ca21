//! Replays a pipeline's schedule: each stage's forward and backward tasks, microbatch by microbatch.
//!
//! The program of one device, in which microbatches are the outermost mesh axis, falls into the programs of
//! the tasks (a stage, forward or backward), and what comes after all microbatches: collectives over their
//! axis, which sum up gradients, and the update. A task runs on the devices of its stage for its microbatch.
//! Constants, and what is made of them alone, every task makes for itself. Phases bind (`honest`): forward
//! and backward work that reads a sum comes after all microbatches only where that is as good as doing it for
//! each, or where no update is made of it.

mod honest;
#[cfg(test)]
mod tests;

use phzc_cost::schedule::{Event, Part};
use phzc_cost::{Pipeline, Schedule, Timeline};
use phzc_ir::Value as Attribute;
use phzc_ir::effects::has_side_effect;
use phzc_ir::eval::{Options, Value, eval};
use phzc_ir::{Computation, Diagnostic, Instr, InstrId, Key, Module, Opcode, Payload, Result, Shape, notes};
use phzc_plan::derive::{Phase, Turn, is_naming, operand_origins, origin_by, put_off};
use std::collections::BTreeMap;
use std::ops::Range;

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// It is an input.
    Given,
    /// Before all tasks, on all devices: a count of samples that all microbatches make of constants alone.
    Before,
    /// In every task that reads it.
    Anywhere,
    /// In a task of a stage, once per microbatch.
    Task(usize, Part),
    /// After all microbatches.
    After,
}

/// A schedule to replay.
pub struct Replay<'a> {
    local: &'a Module,
    when: Vec<When>,
    plan: Plan,
    /// Per instruction: its value on each device of each microbatch.
    values: Vec<Vec<Option<Value>>>,
}

/// What there is to replay.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pipeline stages.
    pub n_stages: usize,
    /// Microbatches of one step.
    pub n_microbatches: usize,
    /// Those that each replica of the stages runs.
    pub shares: Vec<Range<usize>>,
    /// Devices of one stage.
    pub n_devices: usize,
    /// The order of a stage's tasks.
    pub schedule: Schedule,
}

/// The program of a task.
struct Task {
    module: Module,
    inputs: Vec<InstrId>,
    outputs: Vec<InstrId>,
}

impl Plan {
    /// The order of all tasks, whatever they take: replica after replica, for none waits for another one.
    fn events(&self) -> Vec<Event> {
        let of_one = |share: &Range<usize>| {
            let (own, first) = (self.timeline(share.len()).events, share.start);
            own.into_iter().map(move |event| Event { microbatch: first + event.microbatch, ..event })
        };
        self.shares.iter().flat_map(of_one).collect()
    }

    fn timeline(&self, n_microbatches: usize) -> Timeline {
        let pipeline = Pipeline {
            forward_secs: vec![1.0; self.n_stages],
            backward_secs: vec![2.0; self.n_stages],
            weight_secs: vec![1.0; self.n_stages],
            send_secs: vec![0.0; self.n_stages - 1],
            n_microbatches,
        };
        pipeline.simulate(self.schedule)
    }
}

impl<'a> Replay<'a> {
    /// A replay of the program of one device.
    ///
    /// # Errors
    /// When a note cannot be read.
    pub fn new(local: &'a Module, plan: Plan) -> Result<Replay<'a>> {
        let when = when(local, &plan)?;
        let values = vec![vec![None; plan.n_microbatches * plan.n_devices]; when.len()];
        Ok(Replay { local, when, plan, values })
    }

    /// Runs all tasks in the order of the schedule, then what comes after; returns the result per device.
    ///
    /// # Errors
    /// When a task needs what has not been made by then, or an instruction cannot be evaluated.
    pub fn run(mut self, parts: Vec<Vec<Value>>, options: &Options) -> Result<Vec<Value>> {
        honest::check(self.local, &self.plan, &parts)?;
        for (number, id) in self.local.entry().params().into_iter().enumerate() {
            for (lane, own) in parts.iter().enumerate() {
                self.values[id.index()][lane] = Some(own[number].clone());
            }
        }
        let Plan { n_microbatches, n_devices, .. } = self.plan;
        let all = 0..n_microbatches * n_devices;
        self.run_task(&self.task(When::Before), all.clone(), "a count", options)?;
        let mut tasks: BTreeMap<(usize, Part), Task> = BTreeMap::new();
        for event in self.plan.events() {
            let key = (event.stage, event.phase);
            let task = tasks.entry(key).or_insert_with(|| self.task(When::Task(key.0, key.1)));
            let lanes = event.microbatch * n_devices..(event.microbatch + 1) * n_devices;
            let why = format!("stage {} for microbatch {}", event.stage, event.microbatch);
            self.run_task(task, lanes, &why, options)?;
        }
        let mut last = self.task(When::After);
        let root = self.local.entry().root;
        last.outputs = vec![root];
        self.run_task(&last, all, "the update", options)?;
        let made = std::mem::take(&mut self.values[root.index()]);
        Ok(made.into_iter().flatten().collect())
    }

    /// The program of all instructions of one time.
    fn task(&self, when: When) -> Task {
        let entry = self.local.entry();
        let mut writer =
            Writer { replay: self, when, instrs: Vec::new(), map: BTreeMap::new(), inputs: Vec::new() };
        let is_own = |id: &InstrId| self.when[id.index()] == when;
        let own: Vec<InstrId> = (0..entry.instrs.len()).map(InstrId::new).filter(is_own).collect();
        for &id in &own {
            writer.need(id);
        }
        let mut outputs: Vec<InstrId> =
            own.into_iter().filter(|&id| self.is_read_elsewhere(id, when)).collect();
        if when == When::After {
            outputs = vec![entry.root];
            writer.need(entry.root);
        }
        writer.finish(outputs)
    }

    fn is_read_elsewhere(&self, id: InstrId, when: When) -> bool {
        let entry = self.local.entry();
        let mut readers = entry.iter().filter(|(_, instr)| instr.operands.contains(&id));
        entry.root == id || readers.any(|(reader, _)| self.when[reader.index()] != when)
    }

    fn value(&self, id: InstrId, lane: usize, who: &str) -> Result<Value> {
        self.values[id.index()][lane].clone().ok_or_else(|| {
            let name = &self.local.entry().instr(id).name;
            Diagnostic::error(format!("{who} reads `{name}` before it is made"))
        })
    }

    /// Runs a task on some devices and keeps what it makes.
    fn run_task(&mut self, task: &Task, lanes: Range<usize>, who: &str, options: &Options) -> Result<()> {
        if task.outputs.is_empty() {
            return Ok(());
        }
        let given = |lane: usize| task.inputs.iter().map(|&id| self.value(id, lane, who)).collect();
        let inputs: Vec<Vec<Value>> = lanes.clone().map(given).collect::<Result<_>>()?;
        let options = Options { first_device: Some(lanes.start), ..options.clone() };
        for (lane, made) in lanes.zip(eval(&task.module, &inputs, &options)?) {
            let Value::Tuple(parts) = made else { continue };
            for (&id, value) in task.outputs.iter().zip(parts) {
                self.values[id.index()][lane] = Some(value);
            }
        }
        Ok(())
    }
}

struct Writer<'r, 'a> {
    replay: &'r Replay<'a>,
    when: When,
    instrs: Vec<Instr>,
    map: BTreeMap<InstrId, InstrId>,
    inputs: Vec<InstrId>,
}

impl Writer<'_, '_> {
    /// Adds an instruction, what it is made of, or a parameter that stands for it; of a tuple's element only
    /// that.
    fn need(&mut self, id: InstrId) -> InstrId {
        if let Some(&made) = self.map.get(&id) {
            return made;
        }
        let part = picked(self.replay.local.entry(), id);
        if part != id {
            let made = self.need(part);
            self.map.insert(id, made);
            return made;
        }
        let mut instr = self.replay.local.entry().instr(id).clone();
        let when = self.replay.when[id.index()];
        if when == self.when || when == When::Anywhere {
            instr.operands = instr.operands.iter().map(|&operand| self.need(operand)).collect();
        } else {
            let (name, shape, span) = (instr.name, instr.shape, instr.span);
            let payload = Payload::Parameter(self.inputs.len() as u32);
            self.inputs.push(id);
            instr = Instr {
                name,
                shape,
                span,
                payload,
                op: Opcode::Parameter,
                operands: [].into_iter().collect(),
                attrs: Vec::new(),
            };
        }
        self.instrs.push(instr);
        let made = InstrId::new(self.instrs.len() - 1);
        self.map.insert(id, made);
        made
    }

    fn finish(mut self, outputs: Vec<InstrId>) -> Task {
        let operands: Vec<InstrId> = outputs.iter().map(|id| self.map[id]).collect();
        let shapes = operands.iter().map(|id| self.instrs[id.index()].shape.clone()).collect();
        let root = Instr {
            name: "outputs.all".into(),
            op: Opcode::Tuple,
            operands: operands.into(),
            shape: Shape::Tuple(shapes),
            payload: Payload::None,
            attrs: Vec::new(),
            span: phzc_ir::Span::default(),
        };
        self.instrs.push(root);
        let mut module = self.replay.local.clone();
        module.attrs.retain(|attr| !matches!(&*attr.key, "input_output_alias" | "entry_computation_layout"));
        let root = InstrId::new(self.instrs.len() - 1);
        let entry = &mut module.comps[self.replay.local.entry.index()];
        *entry = Computation { instrs: self.instrs, root, name: entry.name.clone(), thread: None };
        Task { module, inputs: self.inputs, outputs }
    }
}

/// The array that an instruction names, through tuples and barriers: of an array in a loop's tuple the
/// element next to the loop.
fn picked(entry: &Computation, id: InstrId) -> InstrId {
    let is_array = |id: InstrId| entry.instr(id).shape.as_array().is_some();
    if !is_array(id) {
        return id;
    }
    let mut last = id;
    let (found, _) = origin_by(entry, id, 0, |passed| {
        if is_array(passed) {
            last = passed
        }
    });
    if is_array(found) { found } else { last }
}

/// What an instruction reads. A barrier holds an instruction of a task until another one is done, not until
/// all tasks are.
fn read(entry: &Computation, instr: &Instr) -> Vec<InstrId> {
    operand_origins(entry, instr).map(|(id, _)| id).collect()
}

/// When each instruction of the entry runs.
fn when(local: &Module, plan: &Plan) -> Result<Vec<When>> {
    let entry = local.entry();
    let mut found: Vec<When> = Vec::with_capacity(entry.instrs.len());
    let (mut is_free, mut is_late): (Vec<bool>, Vec<bool>) = (Vec::new(), Vec::new());
    for (_, instr) in entry.iter() {
        let operands = if is_naming(instr) { Vec::new() } else { read(entry, instr) };
        let free = instr.op != Opcode::Parameter
            && (is_joint(instr, plan.n_devices) || !has_side_effect(instr))
            && operands.iter().all(|operand| is_free[operand.index()]);
        let late = operands.iter().any(|operand| is_late[operand.index()])
            || (!is_naming(instr) && !free && is_after_all(instr, plan.n_devices));
        found.push(match () {
            () if instr.op == Opcode::Parameter => When::Given,
            () if free && is_joint(instr, plan.n_devices) => When::Before,
            () if is_naming(instr) || free => When::Anywhere,
            () if late => When::After,
            () if phase(instr) == Phase::Forward => When::Task(stage(instr)?, Part::Forward),
            () => When::Task(stage(instr)?, Part::Backward),
        });
        is_free.push(free);
        is_late.push(late);
    }
    if plan.schedule.defers_weight_gradients() {
        split_backward(entry, &mut found);
    }
    Ok(found)
}

/// Makes tasks of what backward parts can put off.
fn split_backward(entry: &Computation, found: &mut [When]) {
    let is_put_off = put_off(entry, |id| match found[id.index()] {
        When::Task(stage, Part::Backward) => Turn::Backward(stage),
        When::Task(_, Part::Forward) => Turn::Forward,
        _ => Turn::After,
    });
    for (when, is_put_off) in found.iter_mut().zip(is_put_off) {
        if let (When::Task(_, part), true) = (when, is_put_off) {
            *part = Part::WeightGradient;
        }
    }
}

fn phase(instr: &Instr) -> Phase {
    Phase::parse(instr.note(notes::PHASE))
}

fn stage(instr: &Instr) -> Result<usize> {
    let text = instr.note(notes::OF_STAGE).unwrap_or("0");
    let error = || Diagnostic::error(format!("`{}` has no stage but `{text}`", instr.name)).at(instr.span);
    text.parse().map_err(|_| error())
}

/// Whether an instruction brings together microbatches, or belongs to the update.
fn is_after_all(instr: &Instr, n_devices: usize) -> bool {
    instr.op != Opcode::Parameter && phase(instr) == Phase::Update || is_joint(instr, n_devices)
}

/// Whether an instruction brings together microbatches.
fn is_joint(instr: &Instr, n_devices: usize) -> bool {
    let groups = match instr.attr(Key::ReplicaGroups) {
        Some(Attribute::Raw(text)) => &**text,
        _ => "",
    };
    let microbatches = |group: &str| -> Vec<usize> {
        let ids = group.split(',').filter_map(|id| id.trim_matches(['{', ' ']).parse::<usize>().ok());
        ids.map(|id| id / n_devices).collect()
    };
    let is_joint = |group: &str| microbatches(group).windows(2).any(|pair| pair[0] != pair[1]);
    groups.split('}').any(is_joint)
}
