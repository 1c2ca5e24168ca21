//! What fills a stage's memory, in words.

use super::at_peak;
use crate::derive::Facts;
use phzc_ir::{InstrId, Module};

/// How many values of a peak are listed.
const MAX_LARGEST: usize = 5;

/// The largest values that are there when a stage needs most.
pub fn largest_at_peak(module: &Module, facts: &Facts, stage: usize) -> Option<String> {
    let all = at_peak(module, facts, stage);
    let one =
        |&(id, bytes): &(InstrId, f64)| format!("`{}` {}", module.entry().instr(id).name, amount(bytes));
    let largest: Vec<String> = all.iter().take(MAX_LARGEST).map(one).collect();
    let n_more = all.len().saturating_sub(MAX_LARGEST);
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    (!all.is_empty()).then(|| format!("at its peak there are {}{more}", largest.join(", ")))
}

/// Bytes as text, in decimal units as devices' datasheets have them.
pub fn amount(bytes: f64) -> String {
    let (unit, name) = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1.0, "bytes"));
    format!("{:.1} {name}", bytes / unit)
}
