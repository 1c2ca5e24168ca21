//! Which of unlike devices a plan leaves idle.

use phzc_cost::Cluster;
use phzc_passes::report::Plan;
use std::collections::BTreeSet;

/// `idle: 8 of 16 v100-32, 16 of 16 t4`; nothing where none are, or all devices are equal.
pub(crate) fn idle(plan: &Plan, cluster: &Cluster) -> String {
    let of_replicas = plan.replicas.iter().flat_map(|replica| &replica.stages).map(|stage| stage.devices);
    let all = plan.stages.iter().map(|stage| stage.devices).chain(of_replicas);
    let busy: BTreeSet<usize> = all.flat_map(|[first, last]| first..=last).collect();
    let of_kind = |(kind, first): (&Cluster, usize)| {
        let (name, n_devices) = (&kind.accelerator.name, kind.n_devices());
        let n_idle = n_devices - busy.range(first..first + n_devices).count();
        (n_idle > 0).then(|| format!("{n_idle} of {n_devices} {name}"))
    };
    let idle: Vec<String> = cluster.kinds().zip(cluster.first_devices()).filter_map(of_kind).collect();
    match cluster.is_unlike() && !idle.is_empty() {
        true => format!("idle: {}\n", idle.join(", ")),
        false => String::new(),
    }
}
