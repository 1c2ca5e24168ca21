//! The calibrated cluster as a file that `--cluster` takes.

use super::Run;
use super::fit::Decided;
use super::levels::{Levels, SiteName, site_of};
use super::terms::{Term, applied};
use phzc_cost::{Cluster, Level, Topology};
use std::collections::BTreeMap;

/// The file of the site with most rows, the first of them by name, on its largest cluster; `from` names the
/// tables. `None` without a row.
pub(super) fn toml(runs: &[&Run], levels: &Levels, from: &str) -> Option<String> {
    let mut rows: BTreeMap<SiteName, Vec<&Run>> = BTreeMap::new();
    runs.iter().for_each(|run| rows.entry(site_of(run)).or_default().push(run));
    let (name, own) = rows.iter().rev().max_by_key(|(_, own)| own.len())?;
    let run = own.iter().max_by_key(|run| run.cluster.n_devices())?;
    let site = levels.sites.get(name)?;
    let said: Vec<&str> = name.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let text = Text {
        cluster: applied(&run.cluster, &site.factors),
        decided: site.decided,
        has_clock: site.factors[Term::Clock as usize] != 0.0,
        clock_key: clock_key(run),
        source: format!("fitted by phzc calibrate to {} rows of {from}", own.len()),
    };
    Some(format!("# {}\n{}", said.join(", "), text.whole()))
}

/// The key of the clock that a run was predicted with.
fn clock_key(run: &Run) -> &'static str {
    match () {
        () if run.clock_name().ends_with("8 bits") => "f8_sustained",
        () if run.clock_name().ends_with("4 bits") => "f4_sustained",
        () => "sustained",
    }
}

/// What the file says: only what rows decided is said to be fitted.
struct Text {
    cluster: Cluster,
    decided: Decided,
    /// Whether the clock is another than the device's.
    has_clock: bool,
    clock_key: &'static str,
    source: String,
}

impl Text {
    fn whole(&self) -> String {
        let (device, software) = (&self.cluster.accelerator, self.cluster.software);
        let base = device.base.as_ref().unwrap_or(&device.name);
        let (per_node, nodes) = (self.cluster.per_node(), self.cluster.n_nodes());
        let mut text = format!("name = \"calibrated-{base}-{per_node}x{nodes}\"\n");
        text += &format!("per_node = {per_node}\nnodes = {nodes}\n\n");
        text += &format!("[accelerator]\nbase = \"{base}\"\nname = \"calibrated-{base}\"\n");
        if self.has_clock {
            let key = self.clock_key;
            text += &format!("{key} = {:.4}\n", device.sustained);
            text += &format!("\n[accelerator.sources]\n{key} = {:?}\n", self.source);
        }
        text += &format!("\n[software] # {}\n", self.source);
        text += &format!("memory_passes = {:.4}\nissue = {:.4}\n", software.memory_passes, software.issue);
        text += &format!("exposed = {:.4}\n", software.exposed);
        let levels = self.cluster.levels().iter().enumerate();
        text + &levels.map(|(index, one)| self.level(index, one)).collect::<String>()
    }

    fn level(&self, index: usize, level: &Level) -> String {
        let mut text = format!("\n[[levels]]\nname = {:?}\n", level.name);
        text += &format!("bytes_per_sec = {:.4e}\nefficiency = {}\n", level.bytes_per_sec, level.efficiency);
        text += &format!("latency_secs = {:e}\ndevices = {}\n", level.latency_secs, level.devices);
        if level.topology == Topology::Mesh {
            text += "topology = \"mesh\"\n";
        }
        if let Some(rate) = level.all_reduce_bytes_per_sec {
            text += &format!("all_reduce_bytes_per_sec = {rate:.4e}\n");
        }
        let rate = if index == 0 { Term::Inside } else { Term::Between };
        let is_fitted = self.decided[rate as usize];
        let source =
            if is_fitted { format!("{}; {}", level.source, self.source) } else { level.source.clone() };
        text + &format!("source = {source:?}\n")
    }
}
