//! What fills a stage's memory, in words.

use super::live::Live;
use super::sweep::Sweep;
use super::{in_flight, with_sweep};
use crate::derive::Facts;
use phzc_cost::Cluster;
use phzc_ir::{InstrId, Module, Opcode};

/// How many values of a peak are listed.
const MAX_LARGEST: usize = 5;

/// What is there when a stage needs most, largest first: instructions of the entry, and their bytes on one
/// device, of all microbatches in flight.
pub fn at_peak(module: &Module, facts: &Facts, stage: usize) -> Vec<(InstrId, f64)> {
    let (group, n_held) = (facts.header.group(stage), in_flight(facts, stage));
    with_sweep(module, facts, |sweep| {
        let Some(at) = (Sweep { group, n_held: in_flight(facts, group), ..sweep }).entry().at else {
            return Vec::new();
        };
        let sweep = Sweep { group, n_held, held: None, ..sweep };
        let Some(live) = &sweep.lives[module.entry.index()] else { return Vec::new() };
        let mut is_reused = vec![false; live.ends.len()];
        sweep.reused(live).into_iter().for_each(|value| is_reused[value] = true);
        let of = |id| (id, sweep.bytes_at(live, &is_reused, id, at));
        let mut found: Vec<(InstrId, f64)> =
            module.entry().iter().map(|(id, _)| of(id)).filter(|(_, bytes)| *bytes > 0.0).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found
    })
}

impl Sweep<'_> {
    /// Bytes of an instruction's values that are there at another, less those without memory of their own.
    fn bytes_at(&self, live: &Live, is_reused: &[bool], id: InstrId, at: InstrId) -> f64 {
        let entry = self.module.entry;
        let is_param = self.module.entry().instr(id).op == Opcode::Parameter;
        let mut sum = 0.0;
        for (leaf, value) in live.values(id).enumerate().filter(|(_, value)| !is_reused[*value]) {
            let is_lasting = self.lasting.is_some_and(|lasting| lasting.since(value).is_some());
            let end = if is_param { self.facts.comps[entry.index()].len() } else { self.end(live, value) };
            let is_there = (id <= at || is_lasting || is_param) && end >= at.index();
            sum += if is_there { self.value_bytes(entry, id, leaf, Some(end)) } else { 0.0 };
        }
        sum
    }
}

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

/// What would make a program fit that needs so many bytes on each of some devices.
pub fn remedy(cluster: &Cluster, n_devices: usize, peak_bytes: f64) -> String {
    let all_bytes = peak_bytes * n_devices as f64;
    let n_enough = (all_bytes / cluster.accelerator.usable_bytes()).ceil();
    format!(
        "use more devices (were all of it split evenly, {n_enough} of `{}` could hold it), devices with more \
         memory, a smaller batch, more microbatches (`place{{microbatches=N}}`) or recomputation \
         (`place{{recompute=all}}`)",
        cluster.accelerator.name
    )
}

/// Bytes as text, in decimal units as devices' datasheets have them.
pub fn amount(bytes: f64) -> String {
    let (unit, name) = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1.0, "bytes"));
    format!("{:.1} {name}", bytes / unit)
}
