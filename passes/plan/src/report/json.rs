//! `plan.json`: writing and reading what a plan costs.

use super::{Plan, plan};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result, Span};

/// The figures as pretty-printed JSON, ending in a line break.
///
/// # Errors
/// When the header's notes cannot be read.
pub fn plan_json(module: &Module, cluster: &Cluster) -> Result<String> {
    Ok(to_json(&plan(module, cluster)?))
}

/// A plan as pretty-printed JSON, ending in a line break.
pub fn to_json(plan: &Plan) -> String {
    let text = serde_json::to_string_pretty(plan).expect("a plan has string keys only");
    format!("{text}\n")
}

/// A plan as its JSON has it.
///
/// # Errors
/// When the text is no `plan.json` of this schema.
pub fn from_json(text: &str) -> Result<Plan> {
    if let Some((schema, span)) = schema(text).filter(|(schema, _)| *schema != 1) {
        let error = Diagnostic::error(format!("a plan.json of schema {schema}; this phzc reads schema 1"));
        let help = "write it anew from the planned program: `phzc PLAN --passes estimate --plan FILE`";
        return Err(error.at(span).help(help));
    }
    serde_json::from_str(text).map_err(|error| {
        let line_start: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = usize::min(line_start + error.column().saturating_sub(1), text.len().saturating_sub(1));
        let error = Diagnostic::error(format!("it is no plan.json of schema 1: {error}"));
        error.at(Span::new(at, at + 1)).help("`--plan FILE` writes one")
    })
}

/// The schema that a text of JSON names, and where.
fn schema(text: &str) -> Option<(u64, Span)> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let schema = value.get("schema")?.as_u64()?;
    let key = text.find("\"schema\"")?;
    let at = key + text[key..].find(&schema.to_string())?;
    Some((schema, Span::new(at, at + schema.to_string().len())))
}

/// Whether a time need not be written.
pub(super) fn is_zero(secs: &f64) -> bool {
    *secs == 0.0
}

/// Bytes in JSON: an integer, as in every other tool (shares of a batch can leave fractions).
pub(super) fn whole<S: serde::Serializer>(bytes: &f64, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_u64(bytes.round() as u64)
}

/// Whether a count need not be written.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_none(count: &usize) -> bool {
    *count == 0
}
