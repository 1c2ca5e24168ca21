//! Programs that have been placed already: they stay as they are, or the options say otherwise.

use super::device_groups::Groups;
use super::interleave;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result};
use phzc_pass::pass::{Changed, Options};
use phzc_plan::derive::header;
use phzc_plan::plan_note;

/// A program that has been placed stays as it is, if that is what the options say.
pub fn placed(module: &Module, options: &Options, cluster: &Cluster) -> Result<Option<Changed>> {
    let plan = plan_note::read(module);
    let n_chunks = interleave::n_chunks(&plan);
    for (option, key, unit) in [("stages", "n_stages", n_chunks), ("microbatches", "n_microbatches", 1)] {
        let Some(found) = plan.get(key).and_then(serde_json::Value::as_i64) else { return Ok(None) };
        let found = found / unit;
        let wanted = options.int(option);
        if wanted > 0 && wanted != found {
            return Err(Diagnostic::error(format!(
                "the program has been placed already, with {option}={found}"
            ))
            .help("place the output of `shard`"));
        }
    }
    // One stage has no schedule.
    let is_cut = plan.get("n_stages").is_some_and(|n_stages| *n_stages != 1);
    for (option, unnoted) in [("recompute", "auto"), ("schedule", "1f1b")] {
        let found = plan.get(option).and_then(serde_json::Value::as_str).unwrap_or(unnoted);
        let wanted = options.text(option);
        let is_asked = wanted != "auto" && (is_cut || option != "schedule");
        if is_asked && found != wanted && !interleave::is_like(option, wanted, found) {
            let message = format!("the program has been placed already, with {option}={found}");
            return Err(Diagnostic::error(message).help("place the output of `shard`"));
        }
    }
    let header = header(module)?;
    if options.text("replicas") == "never" {
        header.one_replica("as it has been placed already")?;
    }
    let groups = Groups::read(options.text("groups"), cluster)?;
    let sizes: Vec<usize> = header.meshes.iter().map(|mesh| mesh.n_devices() as usize).collect();
    if sizes.len() > 1 && !groups.allows(&sizes) {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let message =
            format!("the program has been placed already, its stages have {} devices", sizes.join(", "));
        return Err(Diagnostic::error(message).help("place the output of `shard`"));
    }
    if options.int("top") > 1 {
        let message = "the program has been placed already, no other plans are looked for";
        return Err(Diagnostic::error(message).help("place the output of `shard`"));
    }
    Ok(Some(Changed::No))
}

#[cfg(test)]
mod tests {
    use crate::testing::{passed, pipeline};
    use phzc_cost::Cluster;
    use phzc_pass::pass::Context;

    const PROGRAM: &str = include_str!("../../../../tests/golden/place/unequal_groups.ir");

    fn cluster() -> Cluster {
        let text = include_str!("../../../../tests/clusters/small-memory-4.toml");
        Cluster::from_toml(text).expect("a legal cluster")
    }

    /// What `place` says with some options to a program that was placed with others.
    fn said(before: &str, options: &str) -> String {
        let cluster = cluster();
        let placed = passed(PROGRAM, &format!("fuse,shard,place{{{before}}}"), &cluster);
        let (mut placed, mut cx) = (placed.expect("a plan"), Context::new(&cluster));
        let step = &pipeline(&format!("place{{{options}}}")).expect("a legal pipeline").steps[0];
        let said = step.run(&mut placed, &mut cx).map(|changed| format!("{changed:?}"));
        said.unwrap_or_else(|error| {
            error.message.trim_start_matches("the program has been placed already, ").to_owned()
        })
    }

    #[test]
    fn what_is_placed_keeps_its_stages_microbatches_and_sizes() {
        let before = "stages=3,microbatches=4,schedule=zero-bubble";
        for options in ["", "stages=3", "microbatches=4", "schedule=zero-bubble", "groups=1+2", "top=1"] {
            assert_eq!(said(before, options), "No", "{options}");
        }
        assert_eq!(said(before, "stages=2"), "with stages=3");
        assert_eq!(said(before, "microbatches=8"), "with microbatches=4");
        assert_eq!(said(before, "schedule=gpipe"), "with schedule=zero-bubble");
        assert_eq!(said(before, "recompute=all"), "with recompute=auto");
        assert_eq!(said(before, "groups=equal"), "its stages have 2, 1, 1 devices");
        assert_eq!(said(before, "groups=1"), "its stages have 2, 1, 1 devices");
        assert_eq!(said(before, "top=2"), "no other plans are looked for");
    }

    #[test]
    fn one_stage_has_no_schedule_and_no_size() {
        let before = "stages=1,microbatches=1";
        for options in ["schedule=gpipe", "groups=equal", "groups=1+2"] {
            assert_eq!(said(before, options), "No", "{options}");
        }
    }
}
