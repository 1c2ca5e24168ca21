//! Collectives against measurements, and properties that every network must have.

use super::{AxisGroup, Collective, Collective::*};
use crate::cluster::Cluster;
use proptest::prelude::*;

fn cluster(name: &str) -> Cluster {
    Cluster::named(name).unwrap()
}

fn group(size: usize, stride: usize) -> AxisGroup {
    AxisGroup { size, stride }
}

/// `(cluster, collective, size, stride, bytes, seconds)` from `data/published/collectives_measured.csv`: NCCL 2.27-2.29 of
/// ai-dynamo/aiconfigurator@095f58a51, except V100 and A100 over 3 (VIA-Research/vTrain@f8dda84) and MI300X, H200 over 4 nodes
/// (stas00/ml-engineering@744d01e `network/README.md`). Mist@d69e530 is not here: its nodes have 100 Gb/s in all.
const MEASURED: &[(&str, Collective, usize, usize, f64, f64)] = &[
    ("a100-8", AllReduce, 8, 1, 268435456.0, 2182.5e-6),
    ("a100-8", AllReduce, 8, 1, 1048576.0, 38.85e-6),
    ("a100-8", AllGather, 8, 1, 536870912.0, 2288.0e-6),
    ("a100-8", AllToAll, 8, 1, 536870912.0, 2313.5e-6),
    ("a100-8", AllReduce, 2, 1, 536870912.0, 2781.1e-6),
    ("a100-8", AllReduce, 3, 1, 1073741824.0, 6757.1e-6),
    ("h100-8", AllReduce, 8, 1, 536870912.0, 2111.06e-6),
    ("h100-8", ReduceScatter, 4, 1, 536870912.0, 1299.82e-6),
    ("h100-8", AllReduce, 8, 1, 1024.0, 15.6e-6),
    ("b200-8", AllReduce, 8, 1, 536870912.0, 1334.56e-6),
    ("v100-8", AllReduce, 8, 1, 1073741824.0, 13969.0e-6),
    ("v100-8", AllReduce, 2, 1, 1073741824.0, 47610.0e-6),
    ("mi300x-8", AllReduce, 8, 1, 4294967296.0, 24020.149e-6),
    ("mi300x-8", AllReduce, 2, 1, 4294967296.0, 90096.018e-6),
    ("h200-8x4", AllReduce, 32, 1, 4294967296.0, 22820.51e-6),
];

#[test]
fn predicts_measured_times_within_a_factor_of_one_and_a_half() {
    for &(name, kind, size, stride, bytes, measured_secs) in MEASURED {
        let ratio = cluster(name).collective_secs(kind, bytes, group(size, stride)) / measured_secs;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "{name} {kind} over {size}, {bytes} bytes: {ratio:.2}");
    }
}

#[test]
fn members_of_a_node_share_its_links_to_others() {
    let secs = |size, stride| cluster("a100-8x2").collective_secs(AllGather, 1e9, group(size, stride));
    let one_per_node = secs(2, 8);
    let all_per_node = secs(16, 1);
    let per_share = (one_per_node / 0.5) / (all_per_node / (15.0 / 16.0));
    assert!(
        (7.0..9.0).contains(&per_share),
        "{per_share}: the whole node has 8 times the links of one device"
    );
}

#[test]
fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
    let secs = |kind| cluster("a100-8").collective_secs(kind, 1e9, group(8, 1));
    assert!((secs(AllReduce) / (secs(AllGather) + secs(ReduceScatter)) - 1.0).abs() < 0.01);
}

#[test]
fn nothing_to_do_takes_no_time() {
    let cluster = cluster("a100-8");
    for kind in Collective::ALL {
        assert_eq!(cluster.collective_secs(kind, 1e9, group(1, 1)), 0.0);
        assert_eq!(cluster.collective_secs(kind, 0.0, group(8, 1)), 0.0);
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert_eq!(cluster.send_secs(0.0, true), 0.0);
}

#[test]
fn neighbouring_axes_together_are_one_axis() {
    let cluster = cluster("a100-8x4");
    for kind in Collective::ALL {
        let joint = cluster.collective_over_secs(kind, 1e8, &[group(4, 8), group(8, 1)]);
        assert_eq!(joint, cluster.collective_secs(kind, 1e8, group(32, 1)));
    }
}

#[test]
fn a_group_that_straddles_nodes_is_charged_for_it() {
    let cluster = cluster("a100-8x3");
    let inside = cluster.collective_secs(AllReduce, 1e8, group(4, 1));
    assert!(cluster.collective_secs(AllReduce, 1e8, group(3, 1)) > inside);
}

#[test]
fn another_node_is_farther_than_the_same() {
    let cluster = cluster("a100-8x2");
    assert!(cluster.send_secs(1e8, true) > 5.0 * cluster.send_secs(1e8, false));
}

fn any_kind() -> impl Strategy<Value = Collective> {
    prop::sample::select(Collective::ALL.to_vec())
}

proptest! {
    #[test]
    fn more_bytes_never_take_less_time(
        kind in any_kind(), name in prop::sample::select(vec!["a100-8x4", "v100-8x4", "h100-8x4", "tpu-v4-64"]),
        size in 0_u32..6, stride in 0_u32..6, bytes in 1.0..1e10, more in 0.0..1e10,
    ) {
        let group = group(1 << size, 1 << stride);
        let cluster = cluster(name);
        prop_assert!(
            cluster.collective_secs(kind, bytes + more, group) >= cluster.collective_secs(kind, bytes, group)
        );
    }

    /// On switches; on a mesh of links more members have more links, and switches that reduce serve whole nodes best.
    #[test]
    fn more_members_never_take_less_time(
        kind in any_kind(), size in 0_u32..8, stride in 0_u32..6, bytes in 1.0..1e10,
    ) {
        let cluster = cluster("a100-8x64");
        let secs = |size: u32| cluster.collective_secs(kind, bytes, group(1 << size, 1 << stride));
        prop_assert!(secs(size + 1) >= secs(size), "{} {}", secs(size + 1), secs(size));
    }

    #[test]
    fn every_time_is_finite_whatever_the_group(
        kind in any_kind(), size in 0_usize..1000, stride in 0_usize..1000, n_devices in 1_usize..64, bytes in 0.0..1e15,
    ) {
        let secs = cluster("a100-8x8").submesh(n_devices).collective_secs(kind, bytes, group(size, stride));
        prop_assert!(secs.is_finite() && secs >= 0.0);
    }
}
