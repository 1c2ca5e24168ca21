//! When each instruction of a step runs: in which stage's forward, backward or update part.

use phzc_ir::effects::has_side_effect;
use phzc_ir::{Computation, Diagnostic, Instr, InstrId, Opcode, Result, notes};
use phzc_plan::derive::{Phase, Turn, is_naming, operand_origins, put_off};

/// A part of a stage's work: one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// The stage that runs it.
    pub stage: usize,
    /// Which part.
    pub part: Part,
}

/// Which part of a stage's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Once per microbatch.
    Forward,
    /// Once per microbatch.
    Backward,
    /// Once per microbatch: the part of backward that a zero-bubble schedule puts off.
    WeightGradient,
    /// Once per step, after all microbatches; a later one waits for another stage's earlier one.
    Update(usize),
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is an input of the program.
    Given,
    /// In every task that reads it: it is made of constants, or of the microbatch's number.
    Anywhere,
    /// In this task.
    In(Task),
    /// It sums up what this task makes, microbatch by microbatch.
    Sum(Task),
}

impl When {
    /// The task that it is part of, if that runs once per microbatch.
    fn each(self) -> Option<Task> {
        match self {
            When::In(task) if !task.is_update() => Some(task),
            _ => None,
        }
    }
}

impl Task {
    /// The module's name: `stage0.forward`, `stage0.update`, `stage0.update2`.
    pub fn name(self) -> String {
        let Task { stage, part } = self;
        match part {
            Part::Forward => format!("stage{stage}.forward"),
            Part::Backward => format!("stage{stage}.backward"),
            Part::WeightGradient => format!("stage{stage}.weight_gradient"),
            Part::Update(0) => format!("stage{stage}.update"),
            Part::Update(level) => format!("stage{stage}.update{}", level + 1),
        }
    }

    /// Whether it runs once per step, not once per microbatch.
    pub fn is_update(self) -> bool {
        matches!(self.part, Part::Update(_))
    }
}

/// When each instruction of `entry` runs; its all-reduces are those over the microbatches. Where gradients of
/// weights are put off, they are tasks of their own.
///
/// # Errors
/// When the note of a stage cannot be read.
pub fn when(entry: &Computation, is_split: bool) -> Result<Vec<When>> {
    let feeds = feeds_sum(entry);
    let mut found: Vec<When> = Vec::with_capacity(entry.instrs.len());
    for (id, instr) in entry.iter() {
        let own = match instr.op {
            Opcode::Parameter => When::Given,
            Opcode::PartitionId => When::Anywhere,
            _ if is_naming(instr) => When::Anywhere,
            Opcode::AllReduce => When::Sum(summing(entry, instr, &found)?),
            _ if is_free(entry, instr, &found) => When::Anywhere,
            _ => When::In(task(entry, instr, &found, feeds[id.index()])?),
        };
        found.push(own);
    }
    if is_split {
        split_backward(entry, &mut found);
    }
    Ok(found)
}

/// Makes tasks of what backward parts can put off, and of the sums of it.
fn split_backward(entry: &Computation, found: &mut [When]) {
    let is_put_off = put_off(entry, |id| match found[id.index()] {
        When::In(Task { stage, part: Part::Backward }) => Turn::Backward(stage),
        When::In(Task { part: Part::Forward, .. }) => Turn::Forward,
        _ => Turn::After,
    });
    for (id, instr) in entry.iter() {
        let made = || makers(entry, instr, found).find_map(When::each);
        match found[id.index()] {
            When::In(task) if is_put_off[id.index()] => {
                found[id.index()] = When::In(Task { part: Part::WeightGradient, ..task });
            }
            When::Sum(task) => found[id.index()] = When::Sum(made().unwrap_or(task)),
            _ => {}
        }
    }
}

fn makers<'a>(
    entry: &'a Computation,
    instr: &'a Instr,
    found: &'a [When],
) -> impl Iterator<Item = When> + use<'a> {
    operand_origins(entry, instr).map(|(maker, _)| found[maker.index()])
}

fn is_free(entry: &Computation, instr: &Instr, found: &[When]) -> bool {
    !has_side_effect(instr) && makers(entry, instr, found).all(|when| when == When::Anywhere)
}

fn task(entry: &Computation, instr: &Instr, found: &[When], feeds_sum: bool) -> Result<Task> {
    let (stage, phase) = (stage(instr)?, Phase::parse(instr.note(notes::PHASE)));
    let level = |when: When| match when {
        When::In(Task { stage: other, part: Part::Update(level) }) => {
            Some(level + usize::from(other != stage))
        }
        When::Sum(_) => Some(0),
        _ => None,
    };
    let late = makers(entry, instr, found).filter_map(level).max();
    let part = match (late, phase) {
        (Some(level), _) => Part::Update(level),
        (None, Phase::Update) if !feeds_sum => Part::Update(0),
        (None, Phase::Forward) => Part::Forward,
        (None, _) => Part::Backward,
    };
    Ok(Task { stage, part })
}

/// The task that adds to a sum: the one that makes what is added.
fn summing(entry: &Computation, instr: &Instr, found: &[When]) -> Result<Task> {
    let made = makers(entry, instr, found).find_map(When::each);
    let part = match Phase::parse(instr.note(notes::PHASE)) {
        Phase::Forward => Part::Forward,
        _ => Part::Backward,
    };
    made.map_or_else(|| Ok(Task { stage: stage(instr)?, part }), Ok)
}

fn stage(instr: &Instr) -> Result<usize> {
    let text = instr.note(notes::OF_STAGE).unwrap_or("0");
    let error = || Diagnostic::error(format!("`{}` has no stage but `{text}`", instr.name)).at(instr.span);
    text.parse().map_err(|_| error())
}

/// Whether a sum over the microbatches needs each instruction, which then runs once per microbatch.
fn feeds_sum(entry: &Computation) -> Vec<bool> {
    let mut feeds = vec![false; entry.instrs.len()];
    for (id, instr) in entry.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
        if instr.op == Opcode::AllReduce || feeds[id.index()] {
            let makers: Vec<InstrId> = operand_origins(entry, instr).map(|(maker, _)| maker).collect();
            makers.into_iter().for_each(|maker| feeds[maker.index()] = true);
        }
    }
    feeds
}

#[cfg(test)]
mod tests;
