//! The network: levels of links, innermost first, each with its bandwidth, latency and source.

use crate::read::{citation, count, fraction, positive, some_count, some_positive, whole};
use serde::Deserialize;

/// One level of the network: the links that join devices inside a domain (a node, a rack, the whole cluster).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// What a person calls it: `NVLink3`, `InfiniBand HDR`.
    pub name: String,
    /// Peak one-way bandwidth of one device into this level, in bytes per second.
    #[serde(deserialize_with = "positive")]
    pub bytes_per_sec: f64,
    /// Links that one device has into this level; `bytes_per_sec` is then that of one link.
    #[serde(default, deserialize_with = "some_count")]
    pub links: Option<usize>,
    /// Adapters of a node that its devices share; `bytes_per_sec` is then that of one adapter.
    #[serde(default, deserialize_with = "some_count")]
    pub adapters: Option<usize>,
    /// How much narrower the level is than the links into it: 2 where its switches have half the links up.
    #[serde(default, deserialize_with = "some_positive")]
    pub oversubscription: Option<f64>,
    /// The fraction of the peak that large messages reach.
    #[serde(default = "whole", deserialize_with = "fraction")]
    pub efficiency: f64,
    /// Time for a small message over one hop, in seconds.
    #[serde(deserialize_with = "positive")]
    pub latency_secs: f64,
    /// How the members of a domain are joined.
    #[serde(default)]
    pub topology: Topology,
    /// Bus bandwidth of an all-reduce over a whole domain when the switch itself reduces (NVLS), in bytes per
    /// second.
    #[serde(default, deserialize_with = "some_positive")]
    pub all_reduce_bytes_per_sec: Option<f64>,
    /// Devices in one domain of this level. The cluster sets it on the first level (its node) and the last
    /// (all).
    #[serde(default, deserialize_with = "count")]
    pub devices: usize,
    /// Where the numbers of this level come from.
    #[serde(deserialize_with = "citation")]
    pub source: String,
}

/// How the members of one domain are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Any subset of members gets the whole bandwidth of each member (NVSwitch, a full-bisection fabric).
    #[default]
    Switch,
    /// Each pair has its own link, so `k` of `n` members see `(k - 1) / (n - 1)` of the bandwidth (XGMI, V100
    /// NVLink).
    Mesh,
}

impl Level {
    /// The same with the peak of one device that its links, shared adapters and oversubscription leave in
    /// nodes of `per_node` devices.
    pub(crate) fn of_one_device(mut self, per_node: usize) -> Level {
        let links = self.links.take().unwrap_or(1) as f64;
        let share = self.adapters.take().map_or(1.0, |adapters| adapters as f64 / per_node as f64);
        self.bytes_per_sec *= links * share / self.oversubscription.take().unwrap_or(1.0);
        self
    }

    /// Bandwidth that one member reaches when `members` of the `of` members of a domain talk, in bytes per
    /// second.
    pub fn reached_bytes_per_sec(&self, members: f64, of: f64) -> f64 {
        let share = match self.topology {
            Topology::Mesh if of > 1.0 => ((members - 1.0) / (of - 1.0)).min(1.0),
            _ => 1.0,
        };
        self.bytes_per_sec * self.efficiency * share
    }
}
