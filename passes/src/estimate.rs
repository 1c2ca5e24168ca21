//! `estimate`: what the planned program takes, in seconds and bytes, as `plan.json`.
//!
//! The module does not change: the figures follow from its text. [`phzc_plan::report`] has the formulas'
//! places.

use crate::propagate;
use phzc_cost::Cluster;
use phzc_ir::annotations::{self, is_border, is_manual};
use phzc_ir::{Diagnostic, Instr, Module, Opcode, Result, counted, notes};
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::{is_naming, is_planned, planned_comps};
use phzc_plan::report::plan_json;
use phzc_planner::fuse;

/// The pass.
pub static PASS: Pass = Pass {
    name: "estimate",
    summary: "computes time, memory and communication of a sharded program, whoever sharded it: plan.json",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    let (completed, warning) = completed(module, cx.cluster);
    cx.warnings.extend(warning);
    let mut noted = completed.unwrap_or_else(|| module.clone());
    fuse::ensure_noted(&mut noted)?;
    let json = plan_json(&noted, cx.cluster)?;
    cx.artifacts.insert("plan.json".to_owned(), json);
    Ok(Changed::No)
}

/// A program that its author sharded in part, on the devices of these shardings: what they leave open is
/// propagated. Nothing for any other program; what the user should know about it.
pub fn completed(module: &Module, cluster: &Cluster) -> (Option<Module>, Option<Diagnostic>) {
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
                "the program is sharded in part, over {devices}: the rest is propagated, much as a partitioner does"
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
    !is_foreign && !is_planned(module) && !instrs().any(is_local) && instrs().any(is_silent)
}

/// Whether an instruction is about one device's part.
fn is_local(instr: &Instr) -> bool {
    instr.sharding().is_some_and(is_manual) || is_border(instr) || is_collective(instr.op)
}

/// Whether an instruction makes a value without a sharding.
fn is_silent(instr: &Instr) -> bool {
    instr.sharding().is_none() && !is_naming(instr) && instr.op != Opcode::Constant
}

/// Whether devices talk: then the program is one device's already.
fn is_collective(op: Opcode) -> bool {
    use Opcode::{
        AllGather, AllGatherStart, AllReduce, AllReduceStart, AllToAll, CollectivePermute,
        CollectivePermuteStart, ReduceScatter,
    };
    let starts = matches!(op, AllGatherStart | AllReduceStart | CollectivePermuteStart);
    starts || matches!(op, AllGather | AllReduce | AllToAll | CollectivePermute | ReduceScatter)
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
