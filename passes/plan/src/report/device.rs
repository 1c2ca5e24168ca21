//! What the devices of a stage are, where a cluster has several kinds.

use super::json::whole;
use super::{Plan, Stage};
use phzc_cost::Cluster;
use serde::{Deserialize, Serialize};

/// What a stage's devices are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageDevice {
    /// The accelerator's name.
    pub name: String,
    /// Usable memory of one.
    #[serde(serialize_with = "whole")]
    pub memory_limit_bytes: f64,
}

impl StageDevice {
    pub(super) fn of(nodes: &Cluster) -> StageDevice {
        let device = &nodes.accelerator;
        StageDevice { name: device.name.clone(), memory_limit_bytes: device.usable_bytes() }
    }
}

impl Stage {
    /// The bytes that it needs on each device, over those that may be used there.
    pub fn memory_share(&self, plan_limit_bytes: f64) -> f64 {
        let own = self.device.as_ref().map(|device| device.memory_limit_bytes);
        self.memory_bytes / own.unwrap_or(plan_limit_bytes)
    }
}

impl Plan {
    /// Usable memory of a device, if stages are not on unlike ones.
    pub fn one_memory_limit_bytes(&self) -> Option<f64> {
        let of =
            |device: Option<&StageDevice>| device.map_or(self.memory_limit_bytes, |it| it.memory_limit_bytes);
        let replicas = self.replicas.iter().flat_map(|it| &it.stages).map(|stage| stage.device.as_ref());
        let mut limits = self.stages.iter().map(|stage| stage.device.as_ref()).chain(replicas).map(of);
        let first = limits.next().unwrap_or(self.memory_limit_bytes);
        limits.all(|other| other == first).then_some(first)
    }

    /// The largest share that a stage of any replica needs of its devices' usable memory.
    pub fn most_memory_share(&self) -> f64 {
        let stages = self.stages.iter().map(|stage| stage.memory_share(self.memory_limit_bytes));
        let replicas = self.replicas.iter().flat_map(|it| &it.stages).map(|stage| stage.memory_share);
        stages.chain(replicas).fold(0.0, f64::max)
    }
}
