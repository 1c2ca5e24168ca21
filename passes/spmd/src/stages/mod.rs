//! Takes a placed step apart: a module for each stage's forward, backward and update part, and how they fit
//! together.
//!
//! The step of one microbatch is what [`crate::spmd`] makes of the program on a mesh whose only axis is the
//! microbatches: its all-reduces are sums over microbatches, which the modules do one by one, from an
//! accumulator to an accumulator. What waits for a sum, and the update phase, run once per step. Values that
//! another module reads are its results and the other's parameters, leaf by leaf. Constants, and what is made
//! of them alone, every module makes for itself. Layouts stay on the values that have them in the plan.
//! Precondition: `place` has run.

mod describe;
mod devices;
pub mod execute;
mod layouts;
mod loops;
mod manifest;
mod split;
#[cfg(test)]
mod tests;
mod when;
mod write;

pub use manifest::{Accumulator, Devices, Entry, From, Given, Made, Manifest, Output, Run};

use crate::spmd;
use devices::Kept;
use layouts::Layouts;
use phzc_ir::{Diagnostic, Module, Opcode, Result};
use phzc_opt::inline;
use phzc_plan::derive::{Facts, derive, is_planned};
use phzc_plan::microbatch::{after_all, on_time_axis_alone};
use split::{Piece, Split};

/// The modules of a plan, and how they fit together.
#[derive(Clone, Debug)]
pub struct Stages {
    /// Name and program of each module, stage by stage.
    pub modules: Vec<(String, Module)>,
    /// How they fit together.
    pub manifest: Manifest,
}

/// Takes a placed module apart.
///
/// # Errors
/// When there is no placement, or the program cannot run microbatch by microbatch, or stage by stage.
pub fn stages(placed: &Module) -> Result<Stages> {
    let (placed, facts) = flat(placed)?;
    cut(&placed, &facts, |_, piece| Ok(piece.module.clone()))
}

/// The same, each module as the program that one device of its stage runs, with the plan's collectives.
///
/// # Errors
/// As [`stages`], and when an instruction cannot be done in parts.
pub fn of_devices(placed: &Module) -> Result<Stages> {
    let (placed, facts) = flat(placed)?;
    let kept = Kept::new(&placed, &facts)?;
    cut(&kept.module, &facts, |split, piece| kept.program(split, piece))
}

/// A placed module without calls, and its facts.
fn flat(placed: &Module) -> Result<(Module, Facts)> {
    if !is_planned(placed) {
        return Err(Diagnostic::error("the program has no plan to take apart")
            .help("run `--passes fuse,shard,place`"));
    }
    let mut placed = placed.clone();
    inline::flatten(&mut placed)?;
    let facts = derive(&placed)?;
    Ok((placed, facts))
}

/// Cuts a module; `finish` makes of each piece the program that is written.
fn cut(placed: &Module, facts: &Facts, finish: impl Fn(&Split, &Piece) -> Result<Module>) -> Result<Stages> {
    let timed = on_time_axis_alone(placed)?;
    let timed_facts = derive(&timed)?;
    if facts.header.n_microbatches > 1 {
        after_all(&timed, &timed_facts)?;
    }
    let mut local = spmd::program(&timed, &timed_facts)?;
    without_sums_in_loops(&mut local)?;
    let layouts = Layouts::new(placed, &facts.header.meshes);
    let defers = facts.header.schedule.defers_weight_gradients();
    let split = Split::new(&local, layouts, when::when(local.entry(), defers)?);
    let pieces = split.pieces()?;
    let manifest = describe::manifest(&split, &pieces, facts, (&timed, &timed_facts))?;
    let modules = pieces.iter().map(|piece| Ok((piece.task.name(), finish(&split, piece)?)));
    let modules = modules.collect::<Result<_>>()?;
    Ok(Stages { modules, manifest })
}

/// The manifest as pretty-printed JSON, ending in a line break.
pub fn to_json(manifest: &Manifest) -> String {
    let text = serde_json::to_string_pretty(manifest).expect("a manifest has string keys only");
    format!("{text}\n")
}

/// Moves the sums over the microbatches out of loops.
///
/// # Errors
/// If a loop or a branch asks for other microbatches, or for the number of its own.
pub fn without_sums_in_loops(local: &mut Module) -> Result<()> {
    loops::lift(local);
    no_loop_asks(local)
}

/// Errors if a loop or a branch asks for other microbatches, or for the number of its own.
fn no_loop_asks(local: &Module) -> Result<()> {
    let inner = local.comps.iter().filter(|comp| comp.name != local.entry().name);
    for instr in inner.flat_map(|comp| &comp.instrs) {
        let message = match instr.op {
            Opcode::AllReduce => "a loop needs a sum over the microbatches before it ends",
            Opcode::PartitionId => "a loop takes its part of the batch by the number of the microbatch",
            _ => continue,
        };
        return Err(Diagnostic::error(message).at(instr.span).help("plan with `place{microbatches=1}`"));
    }
    Ok(())
}
