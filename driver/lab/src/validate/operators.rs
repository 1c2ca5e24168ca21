//! Tables of single operators and collectives: products, attention, collectives, both at once.

use super::contradictions;
use super::csv::{Record, Table};
use super::device::device;
use super::job::Expressed;
use phzc_cost::{Accelerator, Attention, AxisGroup, Cluster, Collective, Gemm, Role};
use phzc_ir::Result;

/// Seconds that were measured and predicted, or why there is no prediction.
pub(crate) type Pair = std::result::Result<[f64; 2], String>;

/// One kind of table.
pub(crate) struct Kind {
    /// What its rows are.
    pub name: &'static str,
    /// Columns that it has and that tell it from the others.
    pub columns: &'static [&'static str],
    /// What one row says.
    pub pair: fn(Record) -> Result<Pair>,
}

/// Every kind, the one with more columns before the one with fewer.
pub(crate) static KINDS: [Kind; 6] = [
    Kind {
        name: "attention",
        columns: &["device", "batch", "seq", "heads", "kv_heads", "head_dim", "latency_ms"],
        pair: attention,
    },
    Kind {
        name: "operators under load",
        columns: &["device", "op", "b", "m", "n", "k", "efficiency", "peak_tflops", "accumulate", "raw_key"],
        pair: under_load,
    },
    Kind {
        name: "best products",
        columns: &["device", "dtype", "mamf_tflops", "best_m", "best_n", "best_k"],
        pair: best_product,
    },
    Kind { name: "products", columns: &["device", "dtype", "m", "n", "k", "latency_ms"], pair: product },
    Kind {
        name: "collectives",
        columns: &["device", "interconnect", "collective", "ranks", "nodes", "size_bytes", "time_us"],
        pair: collective,
    },
    Kind {
        name: "overlap",
        columns: &[
            "device",
            "nodes",
            "kinds",
            "group_intra",
            "group_inter",
            "allgather_total_mib",
            "latency_ms",
            "alone_max_ms",
            "alone_sum_ms",
        ],
        pair: overlap,
    },
];

/// The kind of a table, if it is one of operators.
pub(crate) fn kind(table: &Table) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.columns.iter().all(|column| table.has(column)))
}

/// The device as it is in a benchmark of milliseconds: neither power nor heat limits its clock.
fn cool(row: Record) -> std::result::Result<Accelerator, String> {
    device(row.text("device")).map(|device| Accelerator { sustained: 1.0, ..device.clone() })
}

/// The type that products have, as HLO calls it.
pub(super) fn dtype(text: &str) -> Option<&'static str> {
    match text {
        "fp8" | "float8" => Some("f8e4m3fn"),
        "float16" | "fp16" => Some("f16"),
        "float32" | "fp32" => Some("f32"),
        "" | "bf16" | "bfloat16" => Some("bf16"),
        _ => None,
    }
}

fn product(row: Record) -> Result<Pair> {
    let gemm = Gemm::new(row.positive("m")?, row.positive("n")?, row.positive("k")?);
    let measured = row.positive("latency_ms")? * 1e-3;
    Ok(product_secs(row, &gemm).map(|secs| [measured, secs]))
}

fn best_product(row: Record) -> Result<Pair> {
    let gemm = Gemm::new(row.positive("best_m")?, row.positive("best_n")?, row.positive("best_k")?);
    let measured = gemm.flops() / (row.positive("mamf_tflops")? * 1e12);
    Ok(product_secs(row, &gemm).map(|secs| [measured, secs]))
}

fn product_secs(row: Record, gemm: &Gemm) -> Expressed<f64> {
    let device = cool(row)?;
    let text = row.text("dtype");
    let dtype = dtype(text).ok_or_else(|| format!("its precision is `{text}`"))?;
    Ok(device.gemm_secs(gemm, dtype, Role::Write))
}

fn attention(row: Record) -> Result<Pair> {
    let attention = Attention {
        batch: row.positive("batch")?,
        heads: row.positive("heads")?,
        kv_heads: row.positive("kv_heads")?,
        q_len: row.positive("seq")?,
        kv_len: row.positive("seq")?,
        head_dim: row.positive("head_dim")?,
        is_causal: row.text("phase").contains("causal"),
        is_portable: false,
    };
    let measured = row.positive("latency_ms")? * 1e-3;
    Ok(cool(row).map(|device| [measured, device.attention_secs(&attention)]))
}

/// Operators as a fraction of the peak, under lasting load: products, and attention in both directions.
fn under_load(row: Record) -> Result<Pair> {
    let rate = row.positive("efficiency")? * row.positive("peak_tflops")? * 1e12;
    let device = match device(row.text("device")) {
        Ok(device) => device,
        Err(reason) => return Ok(Err(reason)),
    };
    match row.text("op") {
        "matmul" => {
            let (m, n, k) = (row.positive("m")?, row.positive("n")?, row.positive("k")?);
            let gemm = Gemm { batch: row.positive("b")?, m, n, k };
            let role = if row.text("accumulate") == "True" { Role::Accumulate } else { Role::Write };
            Ok(Ok([gemm.flops() / rate, device.gemm_secs(&gemm, "bf16", role)]))
        }
        "sdp_fwd" | "sdp_bwd" => Ok(attention_under_load(row, device, rate)),
        other => Ok(Err(format!("its operator is `{other}`"))),
    }
}

fn attention_under_load(row: Record, device: &Accelerator, rate: f64) -> Pair {
    let of = |name: &str| named(row.text("raw_key"), name).ok_or_else(|| format!("its {name} is not stated"));
    let (seq, width) = (of("seq_len")?, of("qk_head_dim")?);
    let mean_dim = (width + of("v_head_dim")?) / 2.0;
    let attention = Attention {
        batch: of("batch")?,
        heads: of("head_num")?,
        kv_heads: of("kv_head_num")?,
        q_len: seq,
        kv_len: seq,
        head_dim: mean_dim,
        is_causal: true,
        is_portable: false,
    };
    // Its operations are those of all keys, though the masked ones are skipped.
    let flops = 2.0 * attention.flops();
    Ok(match row.text("op") {
        "sdp_fwd" => [flops / rate, device.attention_secs(&attention)],
        _ => [2.5 * flops / rate, device.attention_backward_secs(&attention)],
    })
}

/// `seq_len=4096`: the number after a name.
fn named(text: &str, name: &str) -> Option<f64> {
    let pairs = text.split(',').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok())
}

fn collective(row: Record) -> Result<Pair> {
    let (ranks, nodes) = (row.positive("ranks")? as usize, row.positive("nodes")? as usize);
    let (bytes, measured) = (row.positive("size_bytes")?, row.positive("time_us")? * 1e-6);
    if ranks == 1 {
        return Ok(Err(contradictions::ALONE.to_owned()));
    }
    if row.text("status") == "noisy" {
        return Ok(Err("it is marked as noisy".to_owned()));
    }
    let kind = row.text("collective").replace('_', "-").parse::<Collective>();
    let Ok(kind) = kind else { return Ok(Err(format!("its collective is `{}`", row.text("collective")))) };
    Ok(device(row.text("device")).and_then(|device| {
        let groups =
            [AxisGroup { size: ranks / nodes, stride: 1 }, AxisGroup { size: nodes, stride: PER_NODE }];
        let cluster = nodes_of(device, row.text("source_ref"), nodes, ranks)?;
        Ok([measured, cluster.collective_over_secs(kind, bytes, &groups)])
    }))
}

/// Devices of a node where a table does not say.
const PER_NODE: usize = 8;

/// The cluster that a source measured, if it is one of the built-in ones; else the device's usual nodes.
fn nodes_of(device: &Accelerator, source: &str, nodes: usize, ranks: usize) -> Expressed<Cluster> {
    let most = device.node.as_ref().map_or(PER_NODE, |node| node.max_devices);
    let per_node = PER_NODE.min(most).max(ranks / nodes);
    let publisher = source.split('@').next().unwrap_or("").to_lowercase();
    let generation = device.name.split('-').next().unwrap_or("");
    let own = Cluster::named(&format!("{publisher}-{generation}-{per_node}x{nodes}"));
    let usual = || Cluster::named(&format!("{}-{per_node}x{nodes}", device.name));
    own.or_else(|_| usual()).map_err(|error| error.message.to_string())
}

/// A product and an all-gather at once, from their times alone.
fn overlap(row: Record) -> Result<Pair> {
    if row.text("kinds") != "gemm+allgather" {
        return Ok(Err(format!("it measures {}", row.text("kinds"))));
    }
    let (longer, sum) = (row.positive("alone_max_ms")? * 1e-3, row.positive("alone_sum_ms")? * 1e-3);
    let (measured, nodes) = (row.positive("latency_ms")? * 1e-3, row.positive("nodes")? as usize);
    let bytes = row.number("allgather_total_mib")?.unwrap_or(0.0) * f64::from(1 << 20);
    let ranks = row.positive("group_intra")? as usize * nodes;
    Ok(device(row.text("device")).and_then(|device| {
        let shorter = (sum - longer).max(0.0);
        let cluster = nodes_of(device, row.text("source_ref"), nodes, ranks)?;
        // Which of the two is the collective is not said: at the rate of the network it is the one that fits
        // better.
        let groups = [
            AxisGroup { size: row.text("group_intra").parse().unwrap_or(1), stride: 1 },
            AxisGroup { size: row.text("group_inter").parse().unwrap_or(1), stride: PER_NODE },
        ];
        let alone = cluster.collective_over_secs(Collective::AllGather, bytes, &groups);
        let is_longer = (alone - longer).abs() < (alone - shorter).abs();
        let (computed, moved) = if is_longer { (shorter, longer) } else { (longer, shorter) };
        Ok([measured, cluster.beside_secs(computed, moved, bytes)])
    }))
}
