//! Two plans side by side: figures, stages, communication, instructions and memory that differ, each with
//! what the difference costs, the dearest first.

mod figures;
mod instrs;
mod kinship;
mod memory;
mod uses;

pub(crate) use figures::most_bytes;
pub(crate) use kinship::few_shared;

use crate::planned::Planned;
use phzc_io::units::{percent, secs};
use phzc_passes::report::Plan;

/// Rows of a table that are listed; the rest is summed up.
const MAX_ROWS: usize = 12;

/// A plan that is compared.
pub(crate) struct Side {
    /// What messages call it.
    pub name: String,
    /// Its figures.
    pub plan: Plan,
    /// Its text, if that is at hand: a `plan.json` says nothing of single instructions.
    pub planned: Option<Planned>,
}

impl Side {
    /// A planned program.
    pub fn of_program(name: String, planned: Planned) -> Side {
        Side { name, plan: planned.plan.clone(), planned: Some(planned) }
    }

    /// Figures alone.
    pub fn of_figures(name: String, plan: Plan) -> Side {
        Side { name, plan, planned: None }
    }
}

/// What differs.
pub(crate) fn text(a: &Side, b: &Side) -> String {
    let mut parts = vec![headline(a, b), figures::text(&a.plan, &b.plan), uses::text(&a.plan, &b.plan)];
    match (&a.planned, &b.planned) {
        (Some(a), Some(b)) => parts.extend(match kinship::unrelated(&a.module, &b.module) {
            Some(remark) => vec![remark],
            None => vec![instrs::text(a, b), memory::text(a, b)],
        }),
        _ => parts.push(
            kinship::unrelated_figures(&a.plan, &b.plan)
                .unwrap_or_else(|| instrs::of_tensors(&a.plan, &b.plan)),
        ),
    }
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// `B takes 1.70 ms (8.7 %) more per step: 21.3 ms instead of 19.6 ms`.
fn headline(a: &Side, b: &Side) -> String {
    let (before, after) = (a.plan.time_secs, b.plan.time_secs);
    let off = (after - before).abs();
    let verdict = match secs(before) == secs(after) && off <= 1e-4 * before {
        true => format!("both take {} per step", secs(before)),
        false => format!(
            "B takes {} ({}) {} per step: {} instead of {}",
            secs(off),
            percent(off / before),
            if after > before { "more" } else { "less" },
            secs(after),
            secs(before)
        ),
    };
    format!("A: {}\nB: {}\n{verdict}\n", a.name, b.name)
}

/// A difference with its sign: `+1.70 ms`.
fn signed(value: f64, text: fn(f64) -> String) -> String {
    if value > 0.0 { format!("+{}", text(value)) } else { text(value) }
}

/// How many rows are left out, and what they make together.
fn rest(n_rows: usize, sum: f64, text: fn(f64) -> String) -> String {
    match n_rows.saturating_sub(MAX_ROWS) {
        0 => String::new(),
        n_more => format!("and {n_more} more: {}\n", signed(sum, text)),
    }
}
