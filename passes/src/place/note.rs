//! The planner's figures in the header's note.

use crate::derive::PLAN_NOTE;
use phzc_ir::Module;
use serde_json::{Map, Value};

/// What the planner has noted so far.
pub fn read(module: &Module) -> Map<String, Value> {
    module.note(PLAN_NOTE).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds figures.
pub fn set(module: &mut Module, figures: &[(&str, Value)]) {
    let mut plan = read(module);
    plan.extend(figures.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    module.set_note(PLAN_NOTE, &Value::Object(plan).to_string());
}
