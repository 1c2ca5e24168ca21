//! `accumulate`: writes gradient accumulation out, as a loop over the plan's microbatches before the update.
//!
//! ```text
//! x = f32[8,4] parameter(0)               loop over i: p = f32[2,4], microbatch i of x
//! g = f32[4] reduce(x), dimensions={0} →               sum = add(sum, reduce(p))
//! v = f32[4] subtract(w, g)               v = f32[4] subtract(w, sum)
//! ```
//!
//! As for [`crate::stages`], the step of one microbatch is what [`crate::spmd`] makes of the program on a
//! mesh whose only axis is the microbatches; its all-reduces are the sums that the loop carries. Layouts and
//! changes of layout of the plan stay. A microbatch is every `n`-th sample, so that each device has its part
//! of it already; where the program looks samples up by their place it is a contiguous part. Precondition: a
//! plan of one stage.

mod body;
mod build;
mod layouts;
mod parts;
mod write;

use crate::{spmd, stages};
use phzc_ir::ops::reducer;
use phzc_ir::{Diagnostic, Instr, Key, Mesh, Module, Reducer, Result, View};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::{Facts, derive, header, is_planned};
use phzc_plan::microbatch::{after_all, on_time_axis_with_moves};
use phzc_plan::plan_note::{self, ACCUMULATED};

/// The pass.
pub static PASS: Pass = Pass {
    name: "accumulate",
    summary: "writes gradient accumulation out: a loop over the plan's microbatches, then the update",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    if !is_planned(module) {
        let error = Diagnostic::error("the program has no plan whose microbatches could be written out");
        return Err(error.help("run `--passes fuse,shard,place`"));
    }
    let header = header(module)?;
    if header.n_microbatches == 1 {
        cx.warn_once(nothing_to_do(module));
        return Ok(Changed::No);
    }
    header.one_replica("whose loops run differently often")?;
    if header.meshes.len() > 1 {
        let n_stages = header.meshes.len();
        let message =
            format!("the plan has {n_stages} stages, and one loop cannot run them beside each other");
        let help = "`--emit stages` writes a module per stage and phase; `place{stages=1}` plans one stage";
        return Err(Diagnostic::error(message).help(help));
    }
    inline::flatten(module)?;
    *module = program(module)?;
    Ok(Changed::Yes)
}

fn nothing_to_do(module: &Module) -> Diagnostic {
    if plan_note::read(module).contains_key(ACCUMULATED) {
        return Diagnostic::warning("the microbatches are written out already");
    }
    let warning = Diagnostic::warning("the plan has one microbatch: no gradients are accumulated");
    warning.help("ask for several: `place{microbatches=4}`")
}

/// What the writing of a plan's microbatches asks for.
struct Plan<'a> {
    /// The planned program.
    placed: &'a Module,
    /// Its facts.
    facts: &'a Facts,
    /// The same of the program on the axis of the microbatches, instruction by instruction the same.
    timed_facts: &'a Facts,
    /// The step of one microbatch, in the plan's layouts.
    local: &'a Module,
}

impl Plan<'_> {
    /// The mesh of the one stage.
    fn mesh(&self) -> &Mesh {
        &self.facts.header.meshes[0]
    }

    /// How an all-reduce over the microbatches combines them, if that is known.
    fn reduction(&self, sum: &Instr) -> Option<Reducer> {
        let (comps, instrs) = (&self.local.comps, &self.local.entry().instrs);
        match sum.comp(Key::ToApply) {
            Some(_) => reducer(&View { comps, instrs, instr: sum }, Key::ToApply, 0),
            None => Some(Reducer::Add),
        }
    }
}

/// The program that runs a plan of one stage microbatch by microbatch.
fn program(placed: &Module) -> Result<Module> {
    let facts = derive(placed)?;
    let timed = on_time_axis_with_moves(placed)?;
    let timed_facts = derive(&timed)?;
    after_all(&timed, &timed_facts)?;
    let mut local = spmd::program(&layouts::with_sources(&timed), &timed_facts)?;
    stages::without_sums_in_loops(&mut local)?;
    layouts::write(&mut local, placed, &facts);
    let plan = Plan { placed, facts: &facts, timed_facts: &timed_facts, local: &local };
    let parts = parts::Parts::of(&plan)?;
    write::module(&plan, &parts)
}

#[cfg(test)]
mod tests;
