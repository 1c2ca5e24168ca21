//! A device and a cluster of small whole numbers, for tests whose figures are worked out by hand.

use crate::training::{Job, Layout, Model, Recompute, Stack};
use crate::{Accelerator, Cluster};

/// 4 flop/s in `bf16` products and 4 bytes/s of memory once efficiencies are in; a launch takes 1 s, that of
/// a collective 10 s.
const DEVICE: &str = r#"
name = "toy"
description = "a toy"
peak_flops_per_sec = { f32 = 4.0, tf32 = 8.0, bf16 = 16.0 }
vector_flops_per_sec = 2.0
matmul_efficiency = 0.5
vector_efficiency = 1.0
sustained = 0.5
tile_secs = 2.0
attention_tile_secs = 3.0
hbm_bytes = 1000.0
usable = 0.75
hbm_bytes_per_sec = 8.0
hbm_efficiency = 0.5
launch_secs = 1.0
collective_launch_secs = 10.0
source = "made up"
"#;

/// Sixteen devices: 4 in a node, 8 in a rack; 8, 1 and 3 bytes/s and hops of 1, 4 and 9 s.
const CLUSTER: &str = r#"
name = "toys"
accelerator = "a100-80"
per_node = 4
nodes = 4
[[levels]]
name = "node"
bytes_per_sec = 16.0
efficiency = 0.5
latency_secs = 1.0
source = "made up"
[[levels]]
name = "rack"
bytes_per_sec = 1.0
latency_secs = 4.0
devices = 8
source = "made up"
[[levels]]
name = "hall"
bytes_per_sec = 3.0
latency_secs = 9.0
source = "made up"
"#;

pub(crate) fn device() -> Accelerator {
    Accelerator::from_toml(DEVICE).expect("a device")
}

pub(crate) fn cluster() -> Cluster {
    cluster_with("")
}

/// The same with another key of the nodes' links.
pub(crate) fn cluster_with(node_key: &str) -> Cluster {
    cluster_by("efficiency = 0.5\n", &format!("efficiency = 0.5\n{node_key}\n"))
}

/// The same with another text in its file.
pub(crate) fn cluster_by(from: &str, to: &str) -> Cluster {
    let text = CLUSTER.replace(from, to);
    let mut cluster = Cluster::from_toml(&text).expect("a cluster");
    cluster.accelerator = device();
    cluster
}

/// One microbatch of 5 sequences of 6 positions on one device, through 3 layers of width 8: 4 query and 2 key
/// and value heads of 3 elements, 20 inside, 28 words. A layer has 288 + 320 + 16 parameters, the embedding
/// 224.
pub(crate) fn job() -> Job {
    let gpt = Model::gpt(3, 8.0, 4.0, 6.0, 28.0);
    let model =
        Model { ffn: 20.0, expert_ffn: 20.0, kv_heads: 2.0, head_dim: 3.0, has_dropout: false, ..gpt };
    let layout = Layout { micro_batch: 5, ..Layout::single() };
    Job { model, layout, recompute: Recompute::Nothing, stack: Stack::plain("bf16") }
}

/// Whether both are the same number but for rounding.
pub(crate) fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "found {found}, expected {expected}");
}
