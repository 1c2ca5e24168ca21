//! A row of a table of training runs as a job on a cluster, and what was measured; or the reason why it cannot be one.

use super::csv::Record;
use super::software::{self, Software};
use phzc_cost::training::{Job, Layout, Model, Recompute, Sharding};
use phzc_cost::{Accelerator, Cluster};
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
    /// What, how.
    pub job: Job,
    /// On what.
    pub cluster: Cluster,
    /// Seconds of one step, if they were measured.
    pub measured_secs: Option<f64>,
    /// Bytes on the fullest device, if they were measured.
    pub measured_bytes: Option<f64>,
    /// Whether the run is a label that it does not fit.
    pub is_out_of_memory: bool,
}

/// What a row becomes.
pub(crate) enum Reading {
    /// A run.
    Run(Box<Run>),
    /// None, and why.
    Unexpressed(String),
}

/// Reads one row.
///
/// # Errors
/// When a cell is not what its column holds.
pub(crate) fn read(row: Record) -> Result<Reading> {
    let numbers = Numbers::read(row)?;
    Ok(match run(row, &numbers)? {
        Ok(run) => Reading::Run(Box::new(run)),
        Err(reason) => Reading::Unexpressed(reason),
    })
}

/// The cells that hold numbers.
struct Numbers {
    layers: Option<f64>,
    hidden: Option<f64>,
    ffn: Option<f64>,
    heads: Option<f64>,
    kv_heads: Option<f64>,
    seq: Option<f64>,
    vocab: Option<f64>,
    experts: Option<f64>,
    top_k: Option<f64>,
    gpus: Option<f64>,
    gpus_per_node: Option<f64>,
    tp: Option<f64>,
    sp: Option<f64>,
    pp: Option<f64>,
    vpp: Option<f64>,
    cp: Option<f64>,
    ep: Option<f64>,
    dp: Option<f64>,
    mbs: Option<f64>,
    gbs: Option<f64>,
    n_microbatches: Option<f64>,
}

impl Numbers {
    fn read(row: Record) -> Result<Numbers> {
        // `24+24` and `224x224` are no numbers: such models are refused later, with a reason.
        let is_sum = |column: &str| row.text(column).contains(['+', 'x']);
        let dimension = |column: &str| if is_sum(column) { Ok(None) } else { row.number(column) };
        Ok(Numbers {
            layers: dimension("layers")?,
            hidden: row.number("hidden")?,
            ffn: row.number("ffn")?,
            heads: row.number("heads")?,
            kv_heads: row.number("kv_heads")?,
            seq: dimension("seq")?,
            vocab: row.number("vocab")?,
            experts: row.number("experts")?,
            top_k: row.number("topk")?,
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

fn run(row: Record, numbers: &Numbers) -> Result<Expressed<Run>> {
    let status = row.text("status");
    if !["", "ok"].contains(&status) && !is_oom(status) {
        return Ok(Err(format!("its status is `{status}`")));
    }
    let (measured, bytes) = (Measured::read(row)?, row.number("peak_mem_gib")?);
    Ok(expressed(row, numbers).map(|(job, cluster)| {
        let measured_secs = measured.step_secs(&job).filter(|secs| *secs > 0.0);
        let measured_bytes = bytes.map(|gib| gib * f64::from(1 << 30));
        Run { job, cluster, measured_secs, measured_bytes, is_out_of_memory: is_oom(status) }
    }))
}

fn is_oom(status: &str) -> bool {
    status.eq_ignore_ascii_case("oom")
}

fn expressed(row: Record, numbers: &Numbers) -> Expressed<(Job, Cluster)> {
    let software = software::of(row.text("framework"), row.text("notes"));
    let model = model(row, numbers)?;
    let cluster = cluster(row, numbers)?;
    let layout = layout(row, numbers, &software)?;
    let stack = software.stack(row.text("dtype"), row.text("recompute"), &layout)?;
    if row.text("notes").contains("LoRA") && row.text("model").contains("LoRA") {
        return Err("weights are frozen (LoRA)".to_owned());
    }
    let job = Job { model, layout, recompute: Recompute::Nothing, stack };
    let job = completed(row, numbers, software.is_interleaved, &job, &cluster)?;
    if job.layout.n_devices() != cluster.n_devices() {
        let (asked, there) = (job.layout.n_devices(), cluster.n_devices());
        return Err(format!("its layout has {asked} devices, its cluster {there}"));
    }
    Ok((job, cluster))
}

fn model(row: Record, numbers: &Numbers) -> Expressed<Model> {
    let arch = row.text("arch");
    let family =
        ["gpt", "mpt", "llama", "bert", "mixtral", "moe"].into_iter().find(|family| arch.starts_with(family));
    let Some(family) = family else {
        return Err(if arch.is_empty() {
            "its family is not stated".to_owned()
        } else {
            format!("its family is `{arch}`")
        });
    };
    let known = |value: Option<f64>, name: &str| {
        value.filter(|v| *v > 0.0).ok_or_else(|| format!("its {name} is not stated"))
    };
    let (hidden, heads) = (known(numbers.hidden, "hidden size")?, known(numbers.heads, "number of heads")?);
    let is_gated = ["llama", "mixtral"].contains(&family);
    Ok(Model {
        layers: known(numbers.layers, "number of layers")? as usize,
        hidden,
        ffn: numbers.ffn.unwrap_or(4.0 * hidden),
        heads,
        kv_heads: numbers.kv_heads.unwrap_or(heads),
        head_dim: hidden / heads,
        seq: known(numbers.seq, "sequence length")?,
        vocab: numbers.vocab.unwrap_or(0.0),
        experts: numbers.experts.unwrap_or(1.0).max(1.0),
        top_k: numbers.top_k.unwrap_or(1.0).max(1.0),
        is_gated,
        is_causal: family != "bert",
        has_dropout: ["gpt", "bert"].contains(&family),
    })
}

/// The device that a row names: exactly, in lower case, or without a remark in parentheses or a count in front.
pub(crate) fn device(name: &str) -> Expressed<&'static Accelerator> {
    if name.contains('+') {
        return Err(format!("its devices differ: {name}"));
    }
    let bare = name.split(" (").next().unwrap_or(name);
    let counted = bare.split_once('x').filter(|(n, _)| n.bytes().all(|byte| byte.is_ascii_digit()));
    let bare = counted.map_or(bare, |(_, rest)| rest);
    let tries = [name.to_owned(), bare.to_owned(), bare.to_lowercase()];
    let found = tries.iter().find_map(|one| Accelerator::named(one).ok());
    found.ok_or_else(|| format!("its device is not known: {name}"))
}

fn cluster(row: Record, numbers: &Numbers) -> Expressed<Cluster> {
    let device = device(row.text("device"))?;
    let n_devices = numbers.gpus.filter(|n| *n >= 1.0).ok_or("its number of devices is not stated")? as usize;
    let per_node = numbers.gpus_per_node.map_or(8, |n| n as usize).clamp(1, n_devices);
    let most = device.node.as_ref().map_or(per_node, |node| node.max_devices);
    // A rack-scale domain joins several nodes: the largest part of the run that one domain holds evenly.
    let is_part = |n: &usize| n_devices.is_multiple_of(*n) && n.is_multiple_of(per_node);
    let per_domain = (per_node..=most.max(per_node).min(n_devices)).rev().find(is_part);
    let per_domain = if most > 2 * per_node { per_domain.unwrap_or(per_node) } else { per_node.min(most) };
    let name = format!("{}-{}x{}", device.name, per_domain, n_devices.div_ceil(per_domain));
    let cluster = Cluster::named(&name).map_err(|error| error.message.to_string())?;
    Ok(match gbit_per_node(row.text("interconnect")) {
        Some(gbit) => cluster.with_outer_bytes_per_sec(gbit * 1e9 / 8.0 / per_node as f64),
        None => cluster,
    })
}

/// `inter-node 800 Gb/s per node`: the number before the unit.
fn gbit_per_node(interconnect: &str) -> Option<f64> {
    let before =
        interconnect.split(" Gb/s per node").next().filter(|before| before.len() < interconnect.len())?;
    before.rsplit(' ').next()?.parse().ok()
}

fn layout(row: Record, numbers: &Numbers, software: &Software) -> Expressed<Layout> {
    let count = |value: Option<f64>| value.map_or(1, |n| (n as usize).max(1));
    let stated = |value: Option<f64>, name: &str| {
        value.map(|_| ()).ok_or_else(|| format!("its {name} degree is not stated"))
    };
    stated(numbers.tp, "tensor-parallel")?;
    stated(numbers.pp.or(numbers.cp), "pipeline-parallel")?;
    let (tensor, stages, context) = (count(numbers.tp), count(numbers.pp), count(numbers.cp));
    let n_gpus = numbers.gpus.map_or(1, |n| n as usize);
    let data = numbers.dp.map_or(n_gpus / (tensor * stages * context), |n| n as usize).max(1);
    let sharding = sharding(row.text("dp_kind")).unwrap_or(software.sharding);
    Ok(Layout {
        tensor,
        has_sequence: tensor > 1 && numbers.sp.map_or(software.has_sequence, |sp| sp > 0.0),
        stages,
        chunks: count(numbers.vpp),
        context,
        expert: count(numbers.ep),
        data,
        sharding,
        micro_batch: count(numbers.mbs),
        n_microbatches: numbers.n_microbatches.map_or(0, |n| n as usize),
    })
}

fn sharding(kind: &str) -> Option<Sharding> {
    let names = [
        ("zero1", Sharding::Optimizer),
        ("zero2", Sharding::Gradients),
        ("zero3", Sharding::Parameters),
        ("fsdp", Sharding::Parameters),
        ("ddp", Sharding::Nothing),
    ];
    names.into_iter().find(|(name, _)| kind.contains(name)).map(|(_, sharding)| sharding)
}

/// The job with its microbatch, interleaving and recomputation. What the row leaves open is what a planner would choose: the
/// fastest microbatch and interleaving that fit, the least recomputation that fits.
fn completed(
    row: Record,
    numbers: &Numbers,
    is_interleaved: bool,
    job: &Job,
    cluster: &Cluster,
) -> Expressed<Job> {
    let batch = numbers.gbs.filter(|n| *n >= 1.0).ok_or("its batch is not stated")? as usize;
    let per_copy = batch as f64 / job.layout.data as f64;
    let is_open =
        numbers.vpp.is_none() && (numbers.mbs.is_none() || is_interleaved || row.text("vpp") == ">1");
    let sizes = micro_batches(numbers, per_copy, job)?;
    // Interleaved stages take microbatches in groups of as many as there are stages.
    let is_legal = |&((_, n_microbatches), chunks): &((usize, usize), usize)| {
        !is_open || chunks == 1 || n_microbatches.is_multiple_of(job.layout.stages)
    };
    let all = sizes.into_iter().flat_map(|size| chunks(is_open, job).map(move |chunks| (size, chunks)));
    let made = all.filter(is_legal).map(|((micro_batch, n_microbatches), chunks)| {
        let layout = Layout { micro_batch, chunks, n_microbatches, ..job.layout.clone() };
        let text = row.text("recompute");
        // Figures without a time are those of memory that nobody had.
        let is_idea = row.text("iter_time_s").is_empty() && text == "none";
        with_recompute(if is_idea { "nothing" } else { text }, Job { layout, ..job.clone() }, cluster)
    });
    let made: Vec<Job> = made.collect::<Expressed<_>>()?;
    let fitting: Vec<&Job> = made.iter().filter(|job| fits(job, cluster)).collect();
    let secs = |job: &Job| job.predict(cluster).step_secs;
    let best = fitting.into_iter().min_by(|a, b| secs(a).total_cmp(&secs(b)));
    // What is stated is predicted whether it fits or not.
    let best = best.or(made.first().filter(|_| numbers.mbs.is_some()));
    best.cloned().ok_or_else(|| "no microbatch size fits in memory".to_owned())
}

/// Sequences of a microbatch and their number: what is stated, else all powers of two that divide.
fn micro_batches(numbers: &Numbers, per_copy: f64, job: &Job) -> Expressed<Vec<(usize, usize)>> {
    // A pipeline of one microbatch is none: what is stated is the batch of a copy.
    let is_batch = job.layout.stages > 1 && numbers.mbs == Some(per_copy) && numbers.n_microbatches.is_none();
    if numbers.mbs.is_none() || is_batch {
        let whole = per_copy as usize;
        let sizes =
            (0..10).map(|power| 1 << power).filter(|size| *size <= whole && whole.is_multiple_of(*size));
        return Ok(sizes.map(|size| (size, whole / size)).collect());
    }
    let (stated, size) = (job.layout.n_microbatches, job.layout.micro_batch);
    let derived = (per_copy / size as f64).round() as usize;
    match if stated > 0 { stated } else { derived } {
        0 => Err("its batch is smaller than one microbatch per copy".to_owned()),
        n_microbatches => Ok(vec![(size, n_microbatches)]),
    }
}

/// Parts of the model that a stage may hold.
fn chunks(is_open: bool, job: &Job) -> impl Iterator<Item = usize> {
    let (stages, layers, stated) = (job.layout.stages, job.model.layers, job.layout.chunks);
    let is_open = is_open && stages > 1;
    let most = if is_open { (layers / stages).max(1) } else { stated };
    (1..=most).filter(move |n| if is_open { layers.is_multiple_of(n * stages) } else { *n == stated })
}

/// What is computed again: as stated, and where that is nothing or not stated, the least that fits.
fn with_recompute(text: &str, job: Job, cluster: &Cluster) -> Expressed<Job> {
    let stated = match text {
        "full" => Recompute::Layers(1.0),
        text if text.starts_with("selective(attn") => Recompute::Attention,
        // Every other layer; of each layer every other product is about the same.
        text if text.starts_with("selective") && job.stack.fuses_attention => Recompute::Layers(0.5),
        text if text.starts_with("selective") => Recompute::Attention,
        "nothing" => Recompute::Nothing,
        // It ran: what cannot have been is replaced by the least that can.
        "none" if job.memory().sum_bytes() <= cluster.accelerator.hbm_bytes => Recompute::Nothing,
        "none" | "" => return Ok(least_recompute(&job, cluster)),
        other => return Err(format!("its recomputation is `{other}`")),
    };
    Ok(Job { recompute: stated, ..job })
}

fn least_recompute(job: &Job, cluster: &Cluster) -> Job {
    let with = |recompute| Job { recompute, ..job.clone() };
    let attention = (!job.stack.fuses_attention).then_some(Recompute::Attention);
    let parts = (1..=N_PARTS).map(|n| Recompute::Layers(f64::from(n) / f64::from(N_PARTS)));
    let tries = [Recompute::Nothing].into_iter().chain(attention).chain(parts).map(with);
    tries.into_iter().find(|job| fits(job, cluster)).unwrap_or_else(|| with(Recompute::Layers(1.0)))
}

/// Steps in which layers are recomputed until the rest fits.
const N_PARTS: u8 = 8;

/// Whether the memory that is predicted is there.
pub(crate) fn fits(job: &Job, cluster: &Cluster) -> bool {
    job.memory().sum_bytes() <= cluster.accelerator.usable_bytes()
}

/// What was measured, in the form that the source has.
struct Measured {
    iter_time_s: Option<f64>,
    samples_per_s: Option<f64>,
    tokens_per_s: Option<f64>,
    tokens_per_s_per_gpu: Option<f64>,
    hardware_tflops: Option<f64>,
}

impl Measured {
    fn read(row: Record) -> Result<Measured> {
        let is_hardware = row.text("tflops_kind").starts_with("hardware");
        Ok(Measured {
            iter_time_s: row.number("iter_time_s")?,
            samples_per_s: row.number("samples_per_s")?,
            tokens_per_s: row.number("tokens_per_s")?,
            tokens_per_s_per_gpu: row.number("tokens_per_s_per_gpu")?,
            hardware_tflops: row.number("tflops_per_gpu")?.filter(|_| is_hardware),
        })
    }

    fn step_secs(&self, job: &Job) -> Option<f64> {
        let sequences = job.layout.n_sequences() as f64;
        let tokens = sequences * job.model.seq;
        let n_devices = job.layout.n_devices() as f64;
        let per_device = self.tokens_per_s_per_gpu.map(|rate| rate * n_devices);
        let by_tflops = self.hardware_tflops.map(|tflops| published_flops(job) / (tflops * 1e12 * n_devices));
        let by_samples = self.samples_per_s.map(|rate| sequences / rate);
        self.iter_time_s
            .or(by_samples)
            .or(self.tokens_per_s.or(per_device).map(|rate| tokens / rate))
            .or(by_tflops)
    }
}

/// Operations as Narayanan et al. (SC 2021, eq. 3) count them, full recomputation included.
fn published_flops(job: &Job) -> f64 {
    let (model, tokens) = (&job.model, job.layout.n_sequences() as f64 * job.model.seq);
    let (layers, hidden) = (model.layers as f64, model.hidden);
    let others = 1.0 + model.seq / (6.0 * hidden) + model.vocab / (16.0 * layers * hidden);
    96.0 * tokens * layers * hidden * hidden * others
}
