//! `estimate`: what the planned program takes, in seconds and bytes, as `plan.json`.
//!
//! The module does not change: the figures follow from its text. [`phzc_plan::report`] has the formulas'
//! places.

use phzc_ir::{Module, Result};
use phzc_pass::pass::{Changed, Context, Options, Pass};
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
    let mut noted = module.clone();
    fuse::ensure_noted(&mut noted)?;
    let json = plan_json(&noted, cx.cluster)?;
    cx.artifacts.insert("plan.json".to_owned(), json);
    Ok(Changed::No)
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
