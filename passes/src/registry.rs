//! The list of passes and of named pipelines: one line each, in reading order.

use crate::pass::Pass;
use crate::{check, dce, estimate, fuse, grad, inline, optimizer, place, shard, simplify, spmd};

/// Every pass, in the order in which a reader meets them.
pub static PASSES: &[&Pass] = &[
    &dce::PASS,
    &inline::PASS,
    &grad::PASS,
    &optimizer::PASS,
    &simplify::PASS,
    &fuse::PASS,
    &shard::PASS,
    &place::PASS,
    &check::PASS,
    &estimate::PASS,
    &spmd::PASS,
];

/// A pipeline with a name.
pub struct Alias {
    /// What stands for it in `--passes`.
    pub name: &'static str,
    /// What it stands for.
    pub pipeline: &'static str,
    /// One line for `--help-passes`: what for, and why in this order.
    pub summary: &'static str,
}

/// Every named pipeline.
pub static ALIASES: &[Alias] = &[Alias {
    name: "default",
    pipeline: "fuse,shard,place,check",
    summary: "the whole plan, judged: blocks first, layouts per block, stages of blocks, then the independent checker",
}];

/// The pass of that name.
pub fn find(name: &str) -> Option<&'static Pass> {
    PASSES.iter().copied().find(|pass| pass.name == name)
}

/// The named pipeline of that name.
pub fn alias(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// Names of all passes and named pipelines.
pub fn names() -> Vec<&'static str> {
    PASSES.iter().map(|pass| pass.name).chain(ALIASES.iter().map(|alias| alias.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Pipeline;

    #[test]
    fn every_name_is_unique_and_every_alias_reads() {
        let mut names = names();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for alias in ALIASES {
            assert!(Pipeline::parse(alias.pipeline).is_ok(), "{}", alias.name);
        }
    }

    #[test]
    fn every_default_is_a_legal_value() {
        for pass in PASSES {
            for option in pass.options {
                let text = format!("{}{{{}={{{}}}}}", pass.name, option.name, option.default);
                let printed = Pipeline::parse(&text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
                assert_eq!(printed.to_string(), pass.name);
            }
        }
    }
}
