//! A row of a table of training runs as a job on a cluster, and what was measured; or the reason why it
//! cannot be one.

use super::choice::{self, completed};
use super::contradictions;
use super::csv::Record;
use super::device::device;
use super::measured::Measured;
use super::model::model;
use super::network;
use super::profile::stage_layers;
use super::software::{self, Reports, Software};
use phzc_cost::Cluster;
use phzc_cost::training::{Job, Layout, Memory, Model, Recompute, Sharding, Stack};
use phzc_ir::Result;

/// Columns that every table of training runs has.
pub(crate) const COLUMNS: [&str; 22] = [
    "row_id",
    "arch",
    "layers",
    "hidden",
    "ffn",
    "heads",
    "kv_heads",
    "seq",
    "vocab",
    "device",
    "gpus",
    "gpus_per_node",
    "tp",
    "sp",
    "pp",
    "vpp",
    "cp",
    "dp",
    "mbs",
    "gbs",
    "recompute",
    "dtype",
];

/// One run that can be predicted.
pub(crate) struct Run {
    /// Its `row_id`.
    pub name: String,
    /// What, how.
    pub job: Job,
    /// What the row does not say and was assumed.
    pub assumed: Vec<String>,
    /// On what.
    pub cluster: Cluster,
    /// By which software, as the row calls it.
    pub software: String,
    /// Over which network, as the row calls it.
    pub network: String,
    /// Whether what the row says of the network was understood.
    pub is_network_known: bool,
    /// Seconds of one step, if they were measured.
    pub measured_secs: Option<f64>,
    /// Bytes on the fullest device, if they were measured.
    pub measured_bytes: Option<f64>,
    /// Which bytes these are.
    pub reports: Reports,
    /// Whether the run is a label that it does not fit.
    pub is_out_of_memory: bool,
}

impl Run {
    /// The device, and the type of its products if that has a clock of its own.
    pub fn clock_name(&self) -> String {
        let device = &self.cluster.accelerator;
        let narrow = match self.job.stack.product_dtype {
            key if key.starts_with("f8") && device.f8_sustained.is_some() => " in 8 bits",
            key if key.starts_with("f4") && device.f4_sustained.is_some() => " in 4 bits",
            _ => "",
        };
        format!("{}{narrow}", device.name)
    }

    /// What the software of the run would report of this memory.
    pub fn reported_bytes(&self, memory: &Memory) -> f64 {
        match self.reports {
            Reports::Tensors => memory.sum_bytes(),
            Reports::Reserved => memory.reserved_bytes(),
            Reports::Device => memory.reserved_bytes() + self.cluster.accelerator.outside_bytes,
        }
    }
}

/// What a row becomes.
pub(crate) enum Reading {
    /// A run.
    Run(Box<Run>),
    /// None, and why.
    Unexpressed(String),
}

/// Reads one row, as a run on that device; on a cluster of the user's own, where it is made of that device.
///
/// # Errors
/// When a cell is not what its column holds.
pub(crate) fn read(row: Record, device: &str, own: Option<&Cluster>) -> Result<Reading> {
    let numbers = Numbers::read(row)?;
    Ok(match run(row, (device, own), &numbers)? {
        Ok(run) => Reading::Run(Box::new(run)),
        Err(reason) => Reading::Unexpressed(reason),
    })
}

/// The cells that hold numbers.
pub(crate) struct Numbers {
    pub params_b: Option<f64>,
    pub layers: Option<f64>,
    pub hidden: Option<f64>,
    pub ffn: Option<f64>,
    pub heads: Option<f64>,
    pub kv_heads: Option<f64>,
    pub seq: Option<f64>,
    pub vocab: Option<f64>,
    pub experts: Option<f64>,
    pub top_k: Option<f64>,
    pub expert_ffn: Option<f64>,
    pub shared_experts: Option<f64>,
    pub dense_layers: Option<f64>,
    pub head_dim: Option<f64>,
    pub gpus: Option<f64>,
    pub gpus_per_node: Option<f64>,
    pub tp: Option<f64>,
    pub sp: Option<f64>,
    pub pp: Option<f64>,
    pub vpp: Option<f64>,
    pub cp: Option<f64>,
    pub ep: Option<f64>,
    pub dp: Option<f64>,
    pub mbs: Option<f64>,
    pub gbs: Option<f64>,
    pub n_microbatches: Option<f64>,
}

impl Numbers {
    pub(super) fn read(row: Record) -> Result<Numbers> {
        // `24+24` and `224x224` are no numbers: such models are refused later, with a reason.
        let is_sum = |column: &str| row.text(column).contains(['+', 'x']);
        let dimension = |column: &str| if is_sum(column) { Ok(None) } else { row.number(column) };
        Ok(Numbers {
            params_b: row.number("params_b")?,
            layers: dimension("layers")?,
            hidden: row.number("hidden")?,
            ffn: row.number("ffn")?,
            heads: row.number("heads")?,
            kv_heads: row.number("kv_heads")?,
            seq: dimension("seq")?,
            vocab: row.number("vocab")?,
            experts: row.number("experts")?,
            top_k: row.number("topk")?,
            expert_ffn: row.number("expert_ffn")?,
            shared_experts: row.number("shared_experts")?,
            dense_layers: row.number("dense_layers")?,
            head_dim: row.number("head_dim")?,
            gpus: row.number("gpus")?,
            gpus_per_node: row.number("gpus_per_node")?,
            tp: row.number("tp")?,
            sp: row.number("sp")?,
            pp: row.number("pp")?,
            // `>1`: interleaved, it is not said how often.
            vpp: if row.text("vpp") == ">1" { None } else { row.number("vpp")? },
            cp: row.number("cp")?,
            ep: row.number("ep")?,
            dp: row.number("dp")?,
            mbs: row.number("mbs")?,
            gbs: row.number("gbs")?,
            n_microbatches: row.number("n_microbatches")?,
        })
    }
}

pub(crate) type Expressed<T> = std::result::Result<T, String>;

fn run(row: Record, device: Named, numbers: &Numbers) -> Result<Expressed<Run>> {
    let status = row.text("status");
    if !is_ok(status) && !is_oom(status) {
        return Ok(Err(format!("its status is `{status}`")));
    }
    let (measured, bytes) = (Measured::read(row)?, row.number("peak_mem_gib")?);
    Ok(expressed(row, device, numbers).map(|(job, cluster, assumed, reports)| {
        let measured_secs = measured.step_secs(&job, &cluster.accelerator).filter(|secs| *secs > 0.0);
        let measured_bytes = bytes.map(|gib| gib * f64::from(1 << 30));
        Run {
            name: row.text("row_id").to_owned(),
            job,
            assumed,
            cluster,
            software: row.text("framework").to_owned(),
            network: row.text("interconnect").to_owned(),
            is_network_known: network::is_known(row.text("interconnect")),
            measured_secs,
            measured_bytes,
            reports,
            is_out_of_memory: is_oom(status),
        }
    }))
}

fn is_ok(status: &str) -> bool {
    ["", "ok"].contains(&status)
}

fn is_oom(status: &str) -> bool {
    status.to_lowercase().starts_with("oom")
}

/// Whether this says what became of a run; `partial-config`: too little is known of it.
pub(super) fn is_status(text: &str) -> bool {
    is_ok(text) || is_oom(text) || text == "partial-config"
}

/// The name of a device, and the user's own cluster.
type Named<'a> = (&'a str, Option<&'a Cluster>);

fn expressed(
    row: Record,
    device: Named,
    numbers: &Numbers,
) -> Expressed<(Job, Cluster, Vec<String>, Reports)> {
    if let Some(found) = contradictions::of(numbers) {
        return Err(found.reason);
    }
    let (model, mut assumed) = model(row, numbers)?;
    let mut cluster = cluster(row, device, numbers)?;
    let software = software::of(row, &cluster.accelerator);
    assumed.extend(software::guessed(row, &cluster.accelerator));
    let model = Model { has_dropout: model.has_dropout && software.has_dropout, ..model };
    let mut layout = layout(row, numbers, &software)?;
    check_size(&model, &layout, numbers)?;
    let mut stack = software.stack(dtype(row, &mut assumed), row.text("recompute"), &layout)?;
    if model.is_frozen() {
        // Neither gradients nor optimizer state but the adapters', which are too small to tell.
        layout.sharding = Sharding::Nothing;
        stack = Stack { gradient_bytes: 0.0, weight_bytes: 2.0, optimizer_bytes: 0.0, ..stack };
    }
    let job = Job { model, layout, recompute: Recompute::Nothing, stack };
    let clock = cluster.accelerator.clock_of(job.stack.product_dtype);
    cluster.accelerator.sustained = clock;
    if software::scales_rows(row.text("dtype")) {
        software::slow_scaled_rows(&mut cluster.accelerator);
    }
    let sharding = job.layout.sharding;
    let job = completed(row, numbers, &software, &job, &cluster)?;
    if job.layout.sharding != sharding {
        assumed.push("parameters shared out among copies, for they do not fit whole".to_owned());
    }
    if row.text("recompute") == "none" && job.recompute != Recompute::Nothing {
        assumed.push("recomputation, for `none` does not fit".to_owned());
    }
    if job.layout.n_devices() != cluster.n_devices() {
        let (asked, there) = (job.layout.n_devices(), cluster.n_devices());
        return Err(format!("its layout has {asked} devices, its cluster {there}"));
    }
    Ok((job, cluster, assumed, software.reports))
}

fn cluster(row: Record, (name, own): Named, numbers: &Numbers) -> Expressed<Cluster> {
    let device = device(name)?;
    let n_devices = numbers.gpus.filter(|n| *n >= 1.0).ok_or("its number of devices is not stated")? as usize;
    let per_node = numbers.gpus_per_node.map_or(8, |n| n as usize).clamp(1, n_devices);
    let most = device.node.as_ref().map_or(per_node, |node| node.max_devices);
    // A rack-scale domain joins several nodes: the largest part of the run that one domain holds evenly.
    let is_part = |n: &usize| n_devices.is_multiple_of(*n) && n.is_multiple_of(per_node);
    let per_domain = (per_node..=most.max(per_node).min(n_devices)).rev().find(is_part);
    let per_domain = if most > 2 * per_node { per_domain.unwrap_or(per_node) } else { per_node.min(most) };
    let n_nodes = n_devices.div_ceil(per_domain);
    let is_own =
        |own: &&Cluster| own.accelerator.base.as_ref().unwrap_or(&own.accelerator.name) == &device.name;
    if let Some(own) = own.filter(is_own) {
        return own.clone().with_counts(per_domain, n_nodes).map_err(|error| error.message.to_string());
    }
    let name = format!("{}-{}x{}", device.name, per_domain, n_nodes);
    let cluster = Cluster::named(&name).map_err(|error| error.message.to_string())?;
    let network = network::of(row, per_node);
    let outer = network.node_bits_per_sec.map(|bits| bits / 8.0 / per_node as f64);
    let cluster = outer.into_iter().fold(cluster, Cluster::with_outer_bytes_per_sec);
    Ok(network.inner_bytes_per_sec.into_iter().fold(cluster, Cluster::with_links_bytes_per_sec))
}

fn layout(row: Record, numbers: &Numbers, software: &Software) -> Expressed<Layout> {
    let count = |value: Option<f64>| value.map_or(1, |n| (n as usize).max(1));
    let sharding = sharding(row.text("dp_kind")).unwrap_or(software.sharding);
    // Shared parameters take the place of other degrees.
    let is_alone = sharding == Sharding::Parameters && numbers.tp.is_none() && numbers.pp.is_none();
    let stated = |value: Option<f64>, name: &str| {
        value.map(|_| ()).ok_or_else(|| format!("its {name} degree is not stated"))
    };
    // Copies on all devices leave nothing to split.
    if !is_alone && (numbers.dp != numbers.gpus || numbers.dp.is_none()) {
        stated(numbers.tp, "tensor-parallel")?;
        stated(numbers.pp.or(numbers.cp), "pipeline-parallel")?;
    }
    let (tensor, stages, context) = (count(numbers.tp), count(numbers.pp), count(numbers.cp));
    let n_gpus = numbers.gpus.map_or(1, |n| n as usize);
    let data = numbers
        .dp
        .map_or(n_gpus / tensor.saturating_mul(stages).saturating_mul(context).max(1), |n| n as usize)
        .max(1);
    Ok(Layout {
        tensor,
        has_sequence: tensor > 1 && numbers.sp.map_or(software.has_sequence, |sp| sp > 0.0),
        stages,
        chunks: count(numbers.vpp),
        stage_layers: stage_layers(row.text("notes"), stages, numbers.layers.map_or(0, |n| n as usize)),
        context,
        expert: count(numbers.ep),
        data,
        sharding,
        owners: owners(row.text("dp_kind"), numbers),
        offloaded: choice::offloaded(row.text("offload")).unwrap_or(0.0),
        micro_batch: count(numbers.mbs),
        n_microbatches: numbers.n_microbatches.map_or(0, |n| n as usize),
    })
}

/// More layers, or more tasks of all stages in a step, are a slip of the pen.
const MAX_LAYERS: usize = 10_000;
const MAX_TASKS: f64 = 1e7;

fn check_size(model: &Model, layout: &Layout, numbers: &Numbers) -> Expressed<()> {
    let n_microbatches = numbers.gbs.unwrap_or(0.0).max(numbers.n_microbatches.unwrap_or(0.0));
    let n_tasks = n_microbatches * layout.stages as f64 * layout.chunks as f64 / layout.data as f64;
    let is_legal = model.layers <= MAX_LAYERS
        && n_tasks <= MAX_TASKS
        && layout.stages.saturating_mul(layout.chunks) <= MAX_LAYERS;
    if is_legal { Ok(()) } else { Err("it has too many layers, stages or microbatches to replay".to_owned()) }
}

/// What copies share out.
pub(super) fn sharding(kind: &str) -> Option<Sharding> {
    let names = [
        ("zero1", Sharding::Optimizer),
        ("zero2", Sharding::Gradients),
        ("zero3", Sharding::Parameters),
        ("fsdp", Sharding::Parameters),
        ("ddp", Sharding::Nothing),
    ];
    let words = || kind.split(|c: char| !c.is_ascii_alphanumeric());
    names.into_iter().find(|(name, _)| words().any(|word| word == *name)).map(|(_, sharding)| sharding)
}

/// The precision of a row, or that of the table's first row of the same software and device that states it.
fn dtype<'a>(row: Record<'a>, assumed: &mut Vec<String>) -> &'a str {
    let stated = row.text("dtype");
    let is_alike = |other: &Record| ["framework", "device"].iter().all(|it| other.text(it) == row.text(it));
    let other = row.rows().filter(is_alike).map(|other| other.text("dtype")).find(|text| !text.is_empty());
    match other.filter(|_| stated.is_empty() && !row.text("framework").is_empty()) {
        Some(other) => {
            assumed.push(format!("{other} as in other rows of its software and device"));
            other
        }
        None => stated,
    }
}

/// Copies that share out the state: `zero1(node)` those of a node, `zero1(8)` so many; zero: all.
fn owners(kind: &str, numbers: &Numbers) -> usize {
    let Some((_, group)) = kind.split_once('(') else { return 0 };
    let group = group.trim_end_matches(')').trim();
    match group {
        "node" => numbers.gpus_per_node.map_or(0, |n| n as usize),
        text => text.parse().unwrap_or(0),
    }
}
