//! The list of passes and of named pipelines: one line each, in reading order.

use crate::estimate;
use phzc_audit::check;
use phzc_ir::Diagnostic;
use phzc_opt::{dce, grad, inline, optimizer, simplify, unroll, unshard};
use phzc_pass::pass::Pass;
use phzc_pass::pipeline::{Alias, Pipeline, Registry};
use phzc_planner::{fuse, place, shard};
use phzc_spmd::{accumulate, pad, spmd, unmap, unpartition};

/// Every pass, in the order in which a reader meets them.
pub static PASSES: &[&Pass] = &[
    &unpartition::PASS,
    &unmap::PASS,
    &unshard::PASS,
    &dce::PASS,
    &inline::PASS,
    &grad::PASS,
    &optimizer::PASS,
    &simplify::PASS,
    &unroll::PASS,
    &pad::PASS,
    &fuse::PASS,
    &shard::PASS,
    &place::PASS,
    &check::PASS,
    &estimate::PASS,
    &accumulate::PASS,
    &spmd::PASS,
];

/// Every named pipeline.
pub static ALIASES: &[Alias] = &[Alias {
    name: "default",
    pipeline: "fuse,shard,place,check",
    summary: "the whole plan, judged: blocks first, layouts per block, stages of blocks, then the independent checker",
}];

/// All of them.
pub static REGISTRY: Registry = Registry { passes: PASSES, aliases: ALIASES };

/// Reads a pipeline of them.
///
/// # Errors
/// As [`Registry::pipeline`].
pub fn pipeline(text: &str) -> Result<Pipeline, Vec<Diagnostic>> {
    REGISTRY.pipeline(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_every_alias_reads() {
        let mut names = REGISTRY.names();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for alias in ALIASES {
            assert!(pipeline(alias.pipeline).is_ok(), "{}", alias.name);
        }
    }

    #[test]
    fn every_default_is_a_legal_value() {
        for pass in PASSES {
            for option in pass.options {
                let text = format!("{}{{{}={{{}}}}}", pass.name, option.name, option.default);
                let printed = pipeline(&text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
                assert_eq!(printed.to_string(), pass.name);
            }
        }
    }
}
