//! `estimate`: what the planned program takes, in seconds and bytes, as `plan.json`.
//!
//! The module does not change: the figures follow from its text. [`phzc_plan::report`] has the formulas'
//! places.

use phzc_ir::{Diagnostic, Instr, Module, Result, counted, loops, notes};
use phzc_pass::pass::{Changed, Context, Options, Pass};
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
    let plan = report::plan(&priced(module)?, cx.cluster)?;
    cx.warnings.extend(sharded_over_more(module, plan.n_devices));
    let unknown = unknown_trips(module, plan.time_secs, cx)?;
    cx.warnings.extend(unknown);
    cx.artifacts.insert("plan.json".to_owned(), report::to_json(&plan));
    Ok(Changed::No)
}

/// The program as it is priced: what it calls is in its place, and it has phases.
///
/// # Errors
/// Those of inlining.
pub fn priced(module: &Module) -> Result<Module> {
    let mut priced = module.clone();
    fuse::ensure_noted(&mut priced)?;
    Ok(priced)
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
            let more_secs = report::plan(&priced(&twice)?, cx.cluster)?.time_secs - time_secs;
            warning = warning.note(None, format!("each further trip adds {:.4} ms", more_secs * 1e3));
        }
        found.push(warning);
    }
    Ok(found)
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
