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
    let groups = Groups::read(options.text("groups"), cluster)?;
    let sizes: Vec<usize> = header(module)?.meshes.iter().map(|mesh| mesh.n_devices() as usize).collect();
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
