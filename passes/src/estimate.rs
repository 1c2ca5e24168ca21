//! `estimate`: what the planned program takes, in seconds and bytes, as `plan.json`.
//!
//! The module does not change: the figures follow from its text. [`phzc_plan::report`] has the formulas'
//! places.

use crate::propagate;
use phzc_cost::Cluster;
use phzc_ir::annotations::{self, is_border, is_manual};
use phzc_ir::{Diagnostic, Instr, Module, Opcode, Result, counted, loops, notes};
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::{is_naming, is_planned, planned_comps};
use phzc_plan::partitioned::{n_sharded_over, partitioned};
use phzc_plan::report;
use phzc_planner::fuse;

/// Loops without a trip count that are priced twice, to say what a trip takes.
const MAX_PRICED_LOOPS: usize = 3;

/// The pass.
pub static PASS: Pass = Pass {
    name: "estimate",
    summary: "computes time, memory and communication of a sharded program, whoever sharded it: plan.json",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    if let Some(partitioned) = partitioned(module) {
        cx.warnings.extend(partitioned.fits(module, cx.cluster)?);
    }
    let (priced, said) = priced(module, cx.cluster)?;
    let plan = report::plan(&priced, cx.cluster)?;
    cx.warnings.extend(said.or_else(|| sharded_over_more(module, plan.n_devices)));
    let unknown = unknown_trips(module, plan.time_secs, cx)?;
    cx.warnings.extend(unknown);
    cx.artifacts.insert("plan.json".to_owned(), report::to_json(&plan));
    Ok(Changed::No)
}

/// The program as it is priced: what it calls is in its place, it has phases, and what shardings leave open
/// is propagated; with what the user should know about that.
///
/// # Errors
/// Those of inlining.
pub fn priced(module: &Module, cluster: &Cluster) -> Result<(Module, Option<Diagnostic>)> {
    let (completed, said) = completed(module, cluster);
    let mut priced = completed.unwrap_or_else(|| module.clone());
    fuse::ensure_noted(&mut priced)?;
    Ok((priced, said))
}

/// A warning where shardings are for more devices than the program is priced on.
fn sharded_over_more(module: &Module, n_devices: usize) -> Option<Diagnostic> {
    let instrs = || module.comps.iter().flat_map(|comp| &comp.instrs);
    let over = instrs().filter_map(|instr| Some((instr, n_sharded_over(instr.sharding()?))));
    let more: Vec<(&Instr, usize)> = over.filter(|&(_, n)| n > n_devices).collect();
    let &(first, most) = more.iter().rev().max_by_key(|(_, n)| *n)?;
    let message = format!(
        "{} of the program are for {}; it is priced on {n_devices}",
        counted(more.len(), "sharding"),
        counted(most, "device")
    );
    Some(Diagnostic::warning(message).at(first.span).help("say `num_partitions` in its header, or plan it"))
}

/// A warning per loop that nobody counts, with what each further trip takes.
fn unknown_trips(module: &Module, time_secs: f64, cx: &Context) -> Result<Vec<Diagnostic>> {
    let mut found = Vec::new();
    for (index, (comp, id)) in loops::unknown_loops(module).into_iter().enumerate() {
        let instr = module.comp(comp).instr(id);
        let mut warning = loops::unknown_trips(instr);
        if index < MAX_PRICED_LOOPS {
            let mut twice = module.clone();
            twice.comps[comp.index()].instrs[id.index()].set_note(notes::TRIPS, "2");
            let more_secs = report::plan(&priced(&twice, cx.cluster)?.0, cx.cluster)?.time_secs - time_secs;
            warning = warning.note(None, format!("each further trip adds {:.4} ms", more_secs * 1e3));
        }
        found.push(warning);
    }
    Ok(found)
}

/// A program that its author sharded in part, on the devices of these shardings: what they leave open is
/// propagated. Nothing for any other program; what the user should know about it.
fn completed(module: &Module, cluster: &Cluster) -> (Option<Module>, Option<Diagnostic>) {
    let n_devices = annotations::n_devices(module).filter(|&n| n > 1).map(|n| n as usize);
    let Some(n_devices) = n_devices.filter(|_| is_open(module)) else { return (None, None) };
    let as_it_is = |why: String| (None, Some(Diagnostic::warning(format!("priced as it is written: {why}"))));
    let devices = counted(n_devices, "device");
    if n_devices > cluster.n_devices() {
        let (name, there) = (&cluster.name, cluster.n_devices());
        return as_it_is(format!(
            "its shardings are over {devices}, `{name}` has {there}; name a larger `--cluster`"
        ));
    }
    match propagate::complete(module, n_devices as i64) {
        Ok(completed) => {
            let message = format!(
                "the program is sharded in part, over {devices}: the rest is propagated as XLA's partitioner does"
            );
            (Some(completed), Some(Diagnostic::warning(message)))
        }
        Err(error) => as_it_is(error.message),
    }
}

/// Whether a program is whole, has no plan, and computes values of which it does not say how they are
/// sharded.
fn is_open(module: &Module) -> bool {
    let is_foreign = [notes::SPMD, notes::PARTITIONER].iter().any(|key| module.note(key).is_some());
    let instrs = || planned_comps(module).into_iter().flat_map(|comp| &module.comp(comp).instrs);
    let is_one_device_s = is_foreign || is_planned(module) || partitioned(module).is_some();
    !is_one_device_s && !instrs().any(is_local) && instrs().any(is_silent)
}

/// Whether an instruction is about one device's part.
fn is_local(instr: &Instr) -> bool {
    instr.sharding().is_some_and(is_manual) || is_border(instr)
}

/// Whether an instruction makes a value without a sharding.
fn is_silent(instr: &Instr) -> bool {
    instr.sharding().is_none() && !is_naming(instr) && instr.op != Opcode::Constant
}

#[cfg(test)]
mod tests {
    use crate::testing::{artifact, check};

    /// A product and its gradient, sharded by somebody else: without blocks and phases.
    const STEP: &str = "HloModule m, num_partitions=8, input_output_alias={ {0}: (1, {}, may-alias) }
ENTRY e {
  x = f32[64,32] parameter(0), sharding={devices=[8,1]<=[8]}
  w = f32[32,16] parameter(1), sharding={replicated}
  y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[8,1]<=[8]}
  g = f32[32,16] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}
  v = f32[32,16] subtract(w, g), sharding={replicated}
  ROOT t = (f32[32,16], f32[64,16]) tuple(v, y), sharding={{replicated}, {devices=[8,1]<=[8]}}
}";

    #[test]
    fn a_program_that_has_no_phases_is_priced_with_those_that_fuse_finds() {
        let plan: serde_json::Value =
            serde_json::from_str(&artifact("estimate", STEP, "plan.json")).expect("JSON");
        let secs = |part: &str| plan["stages"][0][part].as_f64().expect("a number");
        assert!(
            ["forward_secs", "backward_secs", "update_secs"].iter().all(|part| secs(part) > 0.0),
            "{plan}"
        );
        assert_eq!(
            plan,
            serde_json::from_str::<serde_json::Value>(&artifact("fuse,estimate", STEP, "plan.json"))
                .expect("JSON")
        );
    }

    #[test]
    fn the_program_stays_as_it_is() {
        assert_eq!(check("estimate", STEP), check("dce", STEP));
    }
}
