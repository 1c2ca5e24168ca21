//! A cluster: equal devices in equal nodes, joined by a network of levels, and perhaps nodes of other kinds
//! (`kinds.rs`).
//!
//! Names are `<device>-<per node>[x<nodes>]`: `a100-8`, `h100-8x64`, `a100-40-8x2`. The device is an
//! accelerator, an alias of one, or a file of `clusters/`, whose network and device it then takes.

mod changed;
mod egress;
mod kinds;
mod name;
mod offer;
mod software;

use crate::accelerator::{Accelerator, base};
use crate::library;
use crate::measured::Measured;
use crate::network::{Level, Topology};
use crate::read::{MAX_COUNT, count, parse};
use phzc_ir::{Diagnostic, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor, value::MapAccessDeserializer};
use std::sync::Arc;

pub use offer::{Bill, Offer, chosen_nodes};
pub use software::SoftwareFactors;

/// The cluster that is meant when none is named.
pub const DEFAULT_CLUSTER: &str = "a100-8";

/// Equal devices in equal nodes, the last node possibly part full; nodes of other kinds beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// What a person calls it.
    pub name: String,
    /// What each device is.
    pub accelerator: Accelerator,
    /// What was measured of training software on it.
    pub software: SoftwareFactors,
    /// What was measured of programs on it: their plans are priced by this first.
    pub measured: Option<Arc<Measured>>,
    per_node: usize,
    n_devices: usize,
    levels: Vec<Level>,
    offer: Offer,
    others: kinds::Others,
}

/// A cluster as its TOML file says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    name: String,
    #[serde(deserialize_with = "named_or_inline")]
    accelerator: Accelerator,
    #[serde(deserialize_with = "count")]
    per_node: usize,
    #[serde(default = "one", deserialize_with = "count")]
    nodes: usize,
    #[serde(default)]
    levels: Vec<Level>,
    #[serde(default)]
    software: SoftwareFactors,
}

impl Cluster {
    /// The cluster of that name; see the module for the rule.
    pub fn named(name: &str) -> Result<Cluster> {
        let (whole, parts) = chosen_nodes(name);
        let cluster = kinds::named(whole).unwrap_or_else(|| name::resolve(whole))?;
        parts.iter().try_fold(cluster, |cluster, counts| cluster.with_nodes(counts))
    }

    /// Reads a cluster file. Without `[[levels]]` it has the network of its accelerator's usual node.
    pub fn from_toml(text: &str) -> Result<Cluster> {
        if let Some(several) = kinds::from_toml(text) {
            return several;
        }
        let file: Result<ClusterFile> = base::of_cluster(text).unwrap_or_else(|| parse(text));
        Cluster::of_file(file.map_err(|error| base::with_all_missing(text, error))?)
    }

    fn of_file(file: ClusterFile) -> Result<Cluster> {
        let given = (!file.levels.is_empty()).then_some(file.levels);
        let usual = || file.accelerator.node.as_ref().map(|node| node.levels.clone());
        let levels = given.or_else(usual).ok_or_else(no_network)?;
        let levels = levels.into_iter().map(|level| level.of_one_device(file.per_node)).collect();
        let counts = Counts { per_node: file.per_node, nodes: file.nodes };
        let cluster = Cluster::build(file.name, file.accelerator, counts, levels)?;
        Ok(Cluster { software: file.software, ..cluster })
    }

    fn build(name: String, accelerator: Accelerator, counts: Counts, levels: Vec<Level>) -> Result<Cluster> {
        let Counts { per_node, nodes } = counts;
        let n_devices = per_node.checked_mul(nodes).filter(|&n| n <= MAX_COUNT);
        let n_devices = n_devices.ok_or_else(|| too_large(&name))?;
        let levels = with_domains(levels, per_node, n_devices)?;
        let software = SoftwareFactors::default();
        let (offer, others) = (Offer::default(), kinds::Others::default());
        Ok(Cluster {
            name,
            accelerator,
            software,
            measured: None,
            per_node,
            n_devices,
            levels,
            offer,
            others,
        })
    }

    /// The same with so many devices in each of so many nodes.
    ///
    /// # Errors
    /// When the network has no level for them.
    pub fn with_counts(self, per_node: usize, nodes: usize) -> Result<Cluster> {
        let (software, measured) = (self.software, self.measured);
        let counts = Counts { per_node, nodes };
        let cluster = Cluster::build(self.name, self.accelerator, counts, self.levels)?;
        Ok(Cluster { software, measured, ..cluster })
    }

    /// The same with another bandwidth of one device into the outermost level.
    pub fn with_outer_bytes_per_sec(mut self, bytes_per_sec: f64) -> Cluster {
        self.levels.last_mut().into_iter().for_each(|level| level.bytes_per_sec = bytes_per_sec);
        self
    }

    /// The same with other links of one device inside its node, of which as large a part is reached.
    pub fn with_links_bytes_per_sec(mut self, bytes_per_sec: f64) -> Cluster {
        if let Some(level) = self.levels.first_mut() {
            level.bytes_per_sec = bytes_per_sec;
            level.all_reduce_bytes_per_sec = None;
        }
        self
    }

    /// The same with another bandwidth of one device into the innermost level, all that it reaches.
    pub fn with_inner_bytes_per_sec(mut self, bytes_per_sec: f64) -> Cluster {
        if let Some(level) = self.levels.first_mut() {
            *level = Level { bytes_per_sec, efficiency: 1.0, topology: Topology::Switch, ..level.clone() };
        }
        self
    }

    /// The same with rates of the network so many times as high: of the innermost level, of all others.
    pub fn with_rates(mut self, [inside, between]: [f64; 2]) -> Cluster {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let factor = if index == 0 { inside } else { between };
            level.bytes_per_sec *= factor;
            level.all_reduce_bytes_per_sec = level.all_reduce_bytes_per_sec.map(|rate| rate * factor);
        }
        self
    }

    /// How many devices there are.
    pub fn n_devices(&self) -> usize {
        self.n_devices
    }

    /// How many devices a full node holds.
    pub fn per_node(&self) -> usize {
        self.per_node
    }

    /// How many nodes there are.
    pub fn n_nodes(&self) -> usize {
        self.n_devices.div_ceil(self.per_node)
    }

    /// The network from the inside out; the last level joins all devices.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The part of `n_devices` devices that a pipeline stage gets: whole nodes first, then part of one.
    ///
    /// A count that the cluster does not have is brought to the nearest that it has.
    pub fn submesh(&self, n_devices: usize) -> Cluster {
        let n_devices = n_devices.clamp(1, self.n_devices);
        let mut part = Cluster { name: format!("{}[{n_devices}]", self.name), n_devices, ..self.alone() };
        part.per_node = self.per_node.min(n_devices);
        part
    }
}

/// How many devices in how many nodes.
#[derive(Clone, Copy)]
struct Counts {
    per_node: usize,
    nodes: usize,
}

/// The levels with the number of devices in one domain of each.
fn with_domains(mut levels: Vec<Level>, per_node: usize, n_devices: usize) -> Result<Vec<Level>> {
    if levels.len() < 2 && n_devices > per_node {
        return Err(Diagnostic::error(
            "a cluster of several nodes needs at least two `[[levels]]`, found one",
        ));
    }
    levels.iter_mut().for_each(|level| level.devices = level.devices.min(n_devices));
    if let Some(last) = levels.last_mut() {
        last.devices = n_devices;
    }
    if let Some(first) = levels.first_mut() {
        first.devices = per_node;
    }
    match levels.windows(2).find(|pair| !is_inside(&pair[0], &pair[1])) {
        Some(pair) => Err(misfit(&pair[0], &pair[1])),
        None => Ok(levels),
    }
}

fn is_inside(inner: &Level, outer: &Level) -> bool {
    outer.devices >= inner.devices && outer.devices.is_multiple_of(inner.devices)
}

fn misfit(inner: &Level, outer: &Level) -> Diagnostic {
    let (inner_name, outer_name) = (&inner.name, &outer.name);
    let found =
        format!("found `{}` in `{outer_name}` over `{}` in `{inner_name}`", outer.devices, inner.devices);
    Diagnostic::error(format!(
        "the devices of a level must be a multiple of those of the level inside it, {found}"
    ))
    .help("give each level but the first and the last `devices`: how many it joins")
}

fn too_large(name: &str) -> Diagnostic {
    Diagnostic::error(format!("`{name}` has too many devices, expected at most {MAX_COUNT}"))
}

fn no_network() -> Diagnostic {
    Diagnostic::error("no network: expected `[[levels]]`, or an accelerator with a `[node]`")
}

fn one() -> usize {
    1
}

/// `accelerator = "a100-80"`, or a table that describes one.
fn named_or_inline<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Accelerator, D::Error> {
    struct NamedOrInline;
    impl<'de> Visitor<'de> for NamedOrInline {
        type Value = Accelerator;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the name of an accelerator or a table that describes one")
        }
        fn visit_str<E: Error>(self, name: &str) -> std::result::Result<Accelerator, E> {
            library::accelerator(name).cloned().map_err(E::custom)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Accelerator, A::Error> {
            Accelerator::deserialize(MapAccessDeserializer::new(map))
        }
    }
    from.deserialize_any(NamedOrInline)
}

#[cfg(test)]
mod tests;
