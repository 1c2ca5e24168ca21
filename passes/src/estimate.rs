//! `estimate`: what the planned program takes, in seconds and bytes, as `plan.json`.
//!
//! The module does not change: the figures follow from its text. [`crate::report`] has the formulas' places.

use crate::fuse;
use crate::pass::{Changed, Context, Options, Pass};
use crate::report::plan_json;
use phzc_ir::{Module, Result};

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
