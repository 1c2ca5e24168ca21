//! The planner's figures in the header's note.

use phzc_ir::Module;
use phzc_ir::notes;
use serde_json::{Map, Value};

/// The figure of a text whose phases are tasks of their own though it has one stage: it is to be cut into
/// several, or fits into memory that way only.
pub const IN_TASKS: &str = "in_tasks";

/// The most microbatches of a step.
pub const MAX_MICROBATCHES: usize = 1 << 20;

/// The figure of a text in which microbatches are a loop: how many.
pub const ACCUMULATED: &str = "n_accumulated";

/// The figure of a text that is planned for devices some of which are slow: how likely, by how much.
pub const STRAGGLER: &str = "straggler";

/// What the planner claims of its plan, by its own prices.
pub const CLAIMS: [&str; 3] = ["planned_secs", "lower_bound_secs", "stop"];

/// What the planner has noted so far.
pub fn read(module: &Module) -> Map<String, Value> {
    module.note(notes::PLAN).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The microbatches that are a loop of the text, if they are; no more than a plan can have.
pub fn n_accumulated(module: &Module) -> Option<u64> {
    read(module).get(ACCUMULATED)?.as_u64().map(|n| n.min(MAX_MICROBATCHES as u64))
}

/// Adds figures.
pub fn set(module: &mut Module, figures: &[(&str, Value)]) {
    let mut plan = read(module);
    plan.extend(figures.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    module.set_note(notes::PLAN, &Value::Object(plan).to_string());
}

/// Takes a figure out.
pub fn remove(module: &mut Module, key: &str) {
    let mut plan = read(module);
    if plan.remove(key).is_some() {
        module.set_note(notes::PLAN, &Value::Object(plan).to_string());
    }
}
