//! `spmd`: the program that each device runs, with local shapes and explicit collectives.
//!
//! ```text
//! d = f32[8,8] dot(x, w), …, sharding={replicated}   →   d.dot = f32[8,8] dot(x, w), …   // x, w: half of the loop
//!                                                        d = f32[8,8] all-reduce(d.dot), replica_groups={{0,1}}, …
//! ```
//!
//! It is written from the facts that `check` judges and the report prices ([`phzc_plan::derive`]): each
//! collective that was priced is one instruction, and there are no others. Partition `p` is the device with
//! the `p`-th mesh coordinates in row-major order. Entry parameters and root keep the layout of the whole
//! value in the note `phzc.global`, the header the mesh in `phzc.spmd`. Preconditions: calls are inlined,
//! every layout is there (`shard` does both), one stage. With several microbatches the whole batch is lowered
//! as one.

pub(crate) mod attrs;
pub(crate) mod build;
mod collectives;
mod devices;
mod families;
mod halos;
mod header;
mod lookups;
mod lower;
mod moves;
mod operands;
mod reduce;
mod slices;
#[cfg(test)]
pub(crate) mod tests;

use collectives::Collectives;
use lower::{Lowerer, RuleOf};
use phzc_ir::{Diagnostic, Instr, Module, Opcode, Result, notes};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::listed;
use phzc_plan::derive::{Facts, Problem, derive, planned_comps};
use phzc_plan::partitioned::partitioned;

/// The pass.
pub static PASS: Pass = Pass {
    name: "spmd",
    summary: "writes the program that each device runs: local shapes, explicit collectives",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    if let Some(partitioned) = partitioned(module) {
        cx.warn_once(partitioned.left_alone(module, cx.cluster)?);
        return Ok(Changed::No);
    }
    if module.note(notes::SPMD).is_some() {
        return Ok(Changed::No);
    }
    inline::flatten(module)?;
    let facts = derive(module)?;
    facts.header.one_replica("each runs another program")?;
    *module = program(module, &facts)?;
    Ok(Changed::Yes)
}

/// The program of one device, for a module of one stage and its facts.
///
/// # Errors
/// When layouts are missing or illegal, or an instruction cannot be done in parts.
pub fn program(module: &Module, facts: &Facts) -> Result<Module> {
    if facts.header.meshes.len() > 1 {
        let message = format!("the plan has {} stages, `spmd` lowers one", facts.header.meshes.len());
        return Err(Diagnostic::error(message).help("plan with `place{stages=1}`"));
    }
    let problems: Vec<&Problem> = facts.problems.iter().collect();
    if let Some(error) = listed(module, &problems, Diagnostic::error) {
        return Err(error.help("`shard` gives every instruction a layout that can be lowered"));
    }
    parts(module, facts, phzc_ir::ops::split_rule)
}

/// The program of one device, by these factor rules.
fn parts(module: &Module, facts: &Facts, rule: RuleOf) -> Result<Module> {
    let mut lowered = module.clone();
    let mut collectives = Collectives::new(module);
    for comp in planned_comps(module) {
        lowered.comps[comp.index()] = Lowerer::new(module, facts, comp, &mut collectives, rule).lower()?;
    }
    collectives.finish(&mut lowered);
    header::write(&mut lowered, module, facts);
    Ok(lowered)
}

/// Why an op means something else, or nothing, in the program of one device.
fn refused(op: Opcode) -> Option<&'static str> {
    use Opcode::{
        AllGather, AllReduce, AllToAll, AsyncStart, CollectiveBroadcast, CollectivePermute, Infeed, Outfeed,
        PartitionId, RaggedAllToAll, Recv, ReduceScatter, ReplicaId, Rng, RngGetAndUpdateState, Send,
    };
    match op {
        Rng | RngGetAndUpdateState => Some("draws from a device's own state: devices would disagree"),
        AllGather | AllReduce | AllToAll | AsyncStart | CollectiveBroadcast | CollectivePermute
        | RaggedAllToAll | ReduceScatter => Some("communicates already"),
        PartitionId | ReplicaId => Some("asks for the device, of which the whole program has none"),
        Infeed | Outfeed | Recv | Send => Some("exchanges data with the host, once for the whole program"),
        _ => None,
    }
}

fn refuse(instr: &Instr, why: &str) -> Diagnostic {
    let error = Diagnostic::error(format!("`{}` {why}", instr.name));
    if instr.span == phzc_ir::Span::default() { error } else { error.at(instr.span) }
}
