//! `check`: judges a planned program by its text alone, sharing no code with the passes that planned it.
//!
//! ```text
//! x = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
//! y = f32[8,8] negate(x), sharding={devices=[1,2]<=[2]}     →    error: `y` needs operand 0 moved along `x`
//! ```
//!
//! * Every instruction has a layout that divides it, and every op can work on its operands' layouts with no
//!   communication but a reduction of its own result (see [`phzc_plan::derive`]); changes of layout are
//!   explicit.
//! * Values that are one buffer have one layout: tuples, loops, branches, outputs that reuse parameters.
//! * Every value is there before it is read, task by task in the plan's schedule
//!   ([`phzc_plan::derive::order`]).
//! * The update works on sums over microbatches, forward and backward on microbatches (`accumulate`), and
//!   every device has its part of each.
//! * A device's memory suffices, by a replay of its tasks (`memory`); the planner's own figure
//!   ([`phzc_plan::memory`]) only says in a message what fills it.
//! * What is legal and yet probably not meant is a warning (`advice`).
//!
//! Precondition: calls and fusions are inlined. The module does not change.

mod accumulate;
mod advice;
pub mod memory;
#[cfg(test)]
mod tests;

use memory::GroupPeak;
use phzc_analysis::graph::Graph;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result, Severity};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use phzc_plan::derive::{
    BatchSplit, Facts, Problem, batch_splits_of, derive, is_planned, known, listed, order,
};
use phzc_plan::memory::{amount, largest_at_peak, remedy};
use phzc_plan::partitioned::partitioned;

/// The pass.
pub static PASS: Pass = Pass {
    name: "check",
    summary: "re-derives the plan from the text alone and judges it: legality, communication, memory",
    options: &[OptionInfo {
        name: "strict",
        kind: OptionKind::Choice(&["auto", "true", "false"]),
        default: "auto",
        help: "whether a reshard that the text leaves to the partitioner is an error; auto: only in phzc's plans",
    }],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    if let Some(partitioned) = partitioned(module) {
        cx.warn_once(partitioned.left_alone(module, cx.cluster)?);
        let short = as_it_stands(module, cx.cluster)?;
        cx.warnings.extend(short);
        return Ok(Changed::No);
    }
    let mut facts = derive(module)?;
    let is_strict = match options.text("strict") {
        "auto" => is_planned(module),
        word => word == "true",
    };
    if is_strict {
        let untimely = untimely(module, &facts);
        facts.problems.extend(untimely);
    }
    let (errors, warnings): (Vec<&Problem>, Vec<&Problem>) =
        facts.problems.iter().partition(|problem| is_strict || problem.is_fatal);
    if let Some(error) = listed(module, &errors, Diagnostic::error) {
        return Err(error);
    }
    cx.warnings.extend(listed(module, &warnings, Diagnostic::warning));
    cx.warnings.extend(advice::advice(module, &facts, cx.cluster));
    fits(module, &facts, cx.cluster)?;
    Ok(Changed::No)
}

/// What is wrong about when a plan's tasks run: stages, phases, microbatches.
pub fn untimely(module: &Module, facts: &Facts) -> Vec<Problem> {
    let graph = Graph::build(module);
    let mut found = order::problems(module, facts);
    found.extend(uneven_microbatches(module, facts, &graph));
    found.extend(accumulate::problems(module, facts, &graph));
    found
}

/// Activations whose batch is split over more devices than a microbatch can be.
fn uneven_microbatches(module: &Module, facts: &Facts, graph: &Graph) -> Vec<Problem> {
    let n = facts.header.n_microbatches;
    if n == 1 {
        return Vec::new();
    }
    let problem = |split: &BatchSplit| Problem {
        comp: split.comp,
        instr: split.instr,
        is_fatal: false,
        message: uneven(&module.comp(split.comp).instr(split.instr).name, split, n),
    };
    batch_splits_of(facts, graph).iter().filter(|split| !split.allows(n)).map(problem).collect()
}

fn uneven(name: &str, BatchSplit { size, n_tiles, .. }: &BatchSplit, n: usize) -> String {
    match n_tiles {
        1 => format!("`{name}` has a batch dimension of {size}, which cannot be cut into {n} microbatches"),
        _ => format!(
            "`{name}` splits a batch dimension of {size} over {n_tiles} devices, each of {n} microbatches cannot be split so"
        ),
    }
}

/// A warning where a partitioned program needs more memory than there is: it is not for us to refuse it.
fn as_it_stands(module: &Module, cluster: &Cluster) -> Result<Option<Diagnostic>> {
    let mut flat = module.clone();
    inline::flatten(&mut flat)?;
    let short = fits(&flat, &derive(&flat)?, cluster).err();
    let help = "partition it for more devices or a smaller batch, or plan the program as it was before";
    Ok(short.map(|error| Diagnostic { severity: Severity::Warning, ..error.help(help) }))
}

/// Whether every stage's devices have the memory that they need.
fn fits(module: &Module, facts: &Facts, cluster: &Cluster) -> Result<()> {
    facts.header.fits(cluster)?;
    match facts.header.replicas.is_empty() {
        true => replica_fits(module, facts, cluster),
        false => (0..facts.header.n_replicas()).try_for_each(|at| {
            let error = |error: Diagnostic| error.note(None, format!("in replica {at} of the stages"));
            replica_fits(module, &facts.of_replica(at), cluster).map_err(error)
        }),
    }
}

/// The same of the replica that the header is of.
fn replica_fits(module: &Module, facts: &Facts, cluster: &Cluster) -> Result<()> {
    let groups = memory::replay(module, facts, cluster);
    let around = |group: usize| facts.header.around(cluster, group);
    let is_over = |group: &usize| groups[*group].peak_bytes > around(*group).accelerator.usable_bytes();
    match (0..groups.len()).find(is_over) {
        Some(group) => Err(too_large(module, facts, &groups[group], group, around(group))),
        None => Ok(()),
    }
}

fn too_large(module: &Module, facts: &Facts, it: &GroupPeak, group: usize, cluster: &Cluster) -> Diagnostic {
    let header = &facts.header;
    let whose = match (header.interleaving(), header.meshes.len()) {
        (Some(_), _) => format!("device group {group} "),
        (None, 1) if !is_planned(module) => "the program ".to_owned(),
        (None, 1) => "the plan ".to_owned(),
        (None, _) => format!("stage {group} "),
    };
    let (device, limit) = (&cluster.accelerator.name, amount(cluster.accelerator.usable_bytes()));
    let message =
        format!("{whose}needs {} on each device, {device} has {limit} to use", amount(it.peak_bytes));
    let error =
        Diagnostic::error(message).note(None, format!("{} of it are parameters", amount(it.parameter_bytes)));
    let error = match it.at.map(|id| module.entry().instr(id)) {
        Some(peak) => error.note(known(peak.span), format!("most is in use at `{}`", peak.name)),
        None => error,
    };
    // The first stage of a group has its number.
    let error = match largest_at_peak(module, facts, group) {
        Some(largest) => error.note(None, largest),
        None => error,
    };
    error.help(remedy(cluster, header.n_devices(), it.peak_bytes))
}
