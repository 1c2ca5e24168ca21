//! Collectives against measurements, and properties that every network must have.

use super::{AxisGroup, Collective, Collective::*, Members};
use crate::cluster::Cluster;
use crate::toy::{self, assert_close};
use proptest::prelude::*;

fn cluster(name: &str) -> Cluster {
    Cluster::named(name).unwrap()
}

fn group(size: usize, stride: usize) -> AxisGroup {
    AxisGroup { size, stride }
}

/// `(cluster, collective, size, stride, bytes, seconds)` from `data/published/collectives_measured.csv`: NCCL
/// 2.27-2.29 of ai-dynamo/aiconfigurator@095f58a51, except V100 and A100 over 3 (VIA-Research/vTrain@f8dda84)
/// and MI300X, H200 over 4 nodes (stas00/ml-engineering@744d01e `network/README.md`). Mist@d69e530 is not
/// here: its nodes have 100 Gb/s in all.
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

/// `10 + L + T + 2 sqrt(L T)` with the latency and the transfer of the module's table, over the toy's three
/// levels.
fn assert_takes(kind: Collective, bytes: f64, group: AxisGroup, [latency, transfer]: [f64; 2]) {
    assert_costs(&toy::cluster(), kind, bytes, group, [latency, transfer]);
}

fn assert_costs(on: &Cluster, kind: Collective, bytes: f64, group: AxisGroup, [latency, transfer]: [f64; 2]) {
    let expected = 10.0 + latency + transfer + 2.0 * (latency * transfer).sqrt();
    assert_close(on.collective_secs(kind, bytes, group), expected);
}

#[test]
fn a_ring_hops_once_into_every_domain_and_is_as_fast_as_its_slowest_level() {
    // 12 hops of 1 s, 2 of 4 s, 1 of 9 s; min(1 x 8, 4 x 1, 8 x 3) bytes/s.
    for kind in [AllGather, ReduceScatter] {
        assert_takes(kind, 256.0, group(16, 1), [12.0 + 8.0 + 9.0, 240.0 / 4.0]);
    }
    assert_takes(AllGather, 128.0, group(4, 1), [3.0, 96.0 / 8.0]);
    // Two members in a node, four in a rack.
    assert_takes(AllGather, 64.0, group(4, 2), [2.0 + 4.0, 48.0 / 2.0]);
}

#[test]
fn a_large_all_reduce_is_a_ring_both_ways_and_a_small_one_a_tree() {
    assert_takes(AllReduce, 65536.0, group(16, 1), [2.0 * 29.0, 2.0 * 61440.0 / 4.0]);
    // Up and down: a chain of 3 hops in the node, one hop to the other node and one to the other rack.
    assert_takes(AllReduce, 256.0, group(16, 1), [2.0 * (3.0 + 4.0 + 9.0), 2.0 * 256.0 / 4.0]);
}

#[test]
fn a_switch_that_reduces_serves_whole_nodes_only_and_where_it_is_faster() {
    let switch = |rate| toy::cluster_with(&format!("all_reduce_bytes_per_sec = {rate}"));
    assert_costs(&switch(32.0), AllReduce, 128.0, group(4, 1), [6.0, 2.0 * 96.0 / 32.0]);
    assert_costs(&switch(4.0), AllReduce, 128.0, group(4, 1), [6.0, 2.0 * 96.0 / 8.0]);
    assert_costs(&switch(32.0), AllReduce, 128.0, group(2, 1), [2.0, 2.0 * 64.0 / 8.0]);
    assert_costs(&switch(32.0), AllReduce, 65536.0, group(16, 1), [2.0 * 29.0, 2.0 * 61440.0 / 4.0]);
}

#[test]
fn an_all_to_all_is_as_slow_as_the_level_that_most_leaves_through() {
    // 3 others in the node, 4 in the rack, 8 in the hall: 30 s, 192 s and 43 s.
    let latency = 3.0 * (9.0 + (3.0 + 4.0 * 4.0 + 9.0 * 8.0) / 8.0);
    assert_takes(AllToAll, 256.0, group(16, 1), [latency, 256.0 * 12.0 / 16.0 / 1.0]);
    assert_takes(AllToAll, 64.0, group(4, 1), [3.0 * (1.0 + 3.0 / 8.0), 48.0 / 8.0]);
}

#[test]
fn a_permute_is_one_hop_over_the_outermost_level_of_its_group() {
    assert_takes(Permute, 256.0, group(16, 1), [9.0, 256.0 / 3.0]);
    assert_takes(Permute, 256.0, group(8, 1), [4.0, 256.0 / 1.0]);
}

#[test]
fn a_send_takes_one_hop_in_the_node_or_to_the_next() {
    assert_eq!(toy::cluster().send_secs(32.0, false), 10.0 + 1.0 + 4.0 + 2.0 * 2.0);
    assert_eq!(toy::cluster().send_secs(4.0, true), 10.0 + 4.0 + 4.0 + 2.0 * 4.0);
}

#[test]
fn two_members_of_a_mesh_of_four_have_one_link_of_three() {
    let mesh = toy::cluster_with("topology = \"mesh\"");
    assert_costs(&mesh, AllGather, 32.0, group(2, 1), [1.0, 16.0 / (8.0 / 3.0)]);
    assert_costs(&mesh, AllGather, 32.0, group(4, 1), [3.0, 24.0 / 8.0]);
    assert_costs(&mesh, Permute, 32.0, group(4, 1), [1.0, 32.0 / (8.0 / 3.0)]);
    assert_close(mesh.send_secs(24.0, false), 10.0 + 1.0 + 9.0 + 2.0 * 3.0);
}

#[test]
fn racks_of_a_mesh_see_the_links_to_the_racks_that_take_part() {
    // Two of four racks, two members in each: a third of 3 bytes/s for each of two.
    let mut hall = toy::cluster_by("nodes = 4", "nodes = 8").levels().to_vec();
    assert_eq!((hall[2].devices, hall[2].reached_bytes_per_sec(2.0, 4.0)), (32, 3.0));
    hall[2].topology = crate::Topology::Mesh;
    let members =
        Members { levels: &hall, counts: vec![1.0, 1.0, 2.0, 4.0], domains: vec![1.0, 4.0, 8.0, 32.0] };
    assert_eq!(members.member_bytes_per_sec(2, &hall[2], 2.0), 1.0);
    hall[1].bytes_per_sec = 100.0;
    let members =
        Members { levels: &hall, counts: vec![1.0, 1.0, 2.0, 4.0], domains: vec![1.0, 4.0, 8.0, 32.0] };
    assert_eq!(members.ring_bytes_per_sec(), 2.0);
    assert_eq!(members.scatter_secs(64.0), 64.0 * 2.0 / 4.0);
}

#[test]
fn a_level_of_one_member_per_domain_has_all_its_bandwidth() {
    let levels = toy::cluster_with("topology = \"mesh\"").levels().to_vec();
    assert_eq!(levels[0].reached_bytes_per_sec(1.0, 1.0), 8.0);
    assert_eq!(levels[0].reached_bytes_per_sec(9.0, 4.0), 8.0);
    assert_eq!(levels[1].reached_bytes_per_sec(2.0, 4.0), 1.0);
}

#[test]
fn nothing_to_do_takes_no_time() {
    let cluster = cluster("a100-8");
    for kind in Collective::ALL {
        assert_eq!(cluster.collective_secs(kind, 1e9, group(1, 1)), 0.0);
        assert_eq!(cluster.collective_secs(kind, 0.0, group(8, 1)), 0.0);
        assert_eq!(kind.to_string().parse(), Ok(kind));
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

    /// On switches; on a mesh of links more members have more links, and switches that reduce serve whole
    /// nodes best.
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
