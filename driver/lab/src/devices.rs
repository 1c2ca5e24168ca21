//! `phzc devices`: the devices and clusters that are built in, and where a device's numbers come from.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use phzc_cost::{Accelerator, Cluster, Level, known_accelerators, known_clusters};
use phzc_io::render::Source;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The arguments of `phzc devices`.
#[derive(Debug, clap::Args)]
pub struct DevicesArgs {
    /// One device, or that of a cluster (a name, a TOML file): its numbers and their sources
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

/// Does what the command line says.
pub fn run(args: &DevicesArgs, io: &mut Io) -> Result<(), Failure> {
    let text = match &args.name {
        Some(name) => named(name, args.json)?,
        None if args.json => known_accelerators().iter().map(|it| object(it).to_string() + "\n").collect(),
        None => all(),
    };
    write_stdout(io, &text)
}

/// A device, or what a cluster's name or file means.
fn named(name: &str, is_json: bool) -> Result<String, Failure> {
    let device = Accelerator::named(name);
    let is_cluster = name.ends_with(".toml") || name.rsplit_once('-').is_some_and(|(_, size)| is_size(size));
    if device.is_ok() || !is_cluster {
        let device = device?;
        return Ok(if is_json { object(device).to_string() + "\n" } else { one(device) });
    }
    let cluster = match name.ends_with(".toml") {
        true => {
            let path = Path::new(name);
            let text = files::read(path, files::MAX_CLUSTER_BYTES)?;
            Cluster::from_toml(&text)
                .map_err(|error| Failure::new(Some(Source { name: name.to_owned(), text }), error))?
        }
        false => Cluster::named(name)?,
    };
    Ok(if is_json { cluster_object(&cluster).to_string() + "\n" } else { cluster_text(&cluster) })
}

/// Its nodes and their device; of several kinds, each.
fn cluster_text(cluster: &Cluster) -> String {
    let kind = |it: &Cluster, name: &str| {
        format!("{name}: {} of {}\n{}", counted(it.n_nodes(), "node"), it.per_node(), one(&it.accelerator))
    };
    match cluster.is_unlike() {
        false => kind(cluster, &cluster.name),
        true => cluster.kinds().map(|it| kind(it, &it.accelerator.name)).collect::<Vec<_>>().join("\n"),
    }
}

fn cluster_object(cluster: &Cluster) -> serde_json::Value {
    let kind = |it: &Cluster| json!({"n_nodes": it.n_nodes(), "per_node": it.per_node(), "device": object(&it.accelerator)});
    let mut all = kind(cluster);
    all["name"] = json!(cluster.name);
    if cluster.is_unlike() {
        all = json!({"name": cluster.name, "kinds": cluster.kinds().map(kind).collect::<Vec<_>>()});
    }
    all
}

/// `8`, `8x4`.
fn is_size(text: &str) -> bool {
    text.split('x').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A line per device, then the clusters with a network of their own.
fn all() -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["device", "TFLOP/s", "memory", "GB/s", "node", "network", "clock", "also"]);
    for device in known_accelerators() {
        let levels = device.node.iter().flat_map(|node| &node.levels);
        let network: Vec<&str> = levels.map(|level| level.name.as_str()).collect();
        let fitted = if device.is_fitted() { "fitted" } else { "usual" };
        table.add_row([
            device.name.clone(),
            format!("{:.0}", device.peak_flops_per_sec.of("bf16") / 1e12),
            format!("{:.0} GiB", device.hbm_bytes / f64::from(1 << 30)),
            format!("{:.0}", device.hbm_bytes_per_sec / 1e9),
            device.node.as_ref().map_or("-".to_owned(), |node| node.max_devices.to_string()),
            network.join(", "),
            fitted.to_owned(),
            device.aliases.join(", "),
        ]);
    }
    table.column_iter_mut().skip(1).take(4).for_each(|it| it.set_cell_alignment(CellAlignment::Right));
    let clusters = known_clusters().filter_map(|name| Cluster::named(name).ok());
    let clusters: String = clusters
        .map(|it| {
            format!(" {}: {} nodes of {} {}\n", it.name, it.n_nodes(), it.per_node(), it.accelerator.name)
        })
        .collect();
    format!(
        "{table}\n\n`a100-8x4` is four nodes of eight devices. Clusters with a network of their own:\n{clusters}\
         (TFLOP/s: dense bf16, or the next wider type; node: most devices; clock: fitted to runs or not)\n"
    )
}

/// Every number of one device with its source.
fn one(device: &Accelerator) -> String {
    let mut text = format!("{}: {}\n", device.name, device.description);
    for (key, value) in numbers(device) {
        text += &format!("  {key:26}{value:>12}  {}\n", device.source_of(key));
    }
    for level in device.node.iter().flat_map(|node| &node.levels) {
        let rate = level.bytes_per_sec / 1e9;
        text += &format!("  {:26}{:>12}  {}\n", level.name, format!("{rate:.1} GB/s"), level.source);
    }
    text
}

/// The numbers that plans are made with, by their keys in a device file.
fn numbers(device: &Accelerator) -> BTreeMap<&'static str, String> {
    let fraction = |it: f64| format!("{it}");
    BTreeMap::from([
        ("peak_flops_per_sec", format!("{:.3e}", device.peak_flops_per_sec.of("bf16"))),
        ("matmul_efficiency", fraction(device.matmul_efficiency)),
        ("sustained", fraction(device.sustained)),
        ("hbm_bytes", format!("{:.3e}", device.hbm_bytes)),
        ("usable", fraction(device.usable)),
        ("hbm_bytes_per_sec", format!("{:.3e}", device.hbm_bytes_per_sec)),
        ("hbm_efficiency", fraction(device.hbm_efficiency)),
        ("vector_efficiency", format!("{:.3}", device.vector_efficiency)),
        ("launch_secs", format!("{:.1e}", device.launch_secs)),
        ("collective_launch_secs", format!("{:.1e}", device.collective_launch_secs)),
    ])
}

fn object(device: &Accelerator) -> Value {
    let level = |level: &Level| json!({"name": level.name, "bytes_per_sec": level.bytes_per_sec, "latency_secs": level.latency_secs});
    json!({
        "name": device.name,
        "aliases": device.aliases,
        "description": device.description,
        "bf16_flops_per_sec": device.peak_flops_per_sec.of("bf16"),
        "hbm_bytes": device.hbm_bytes,
        "hbm_bytes_per_sec": device.hbm_bytes_per_sec,
        "sustained": device.sustained,
        "is_fitted": device.is_fitted(),
        "levels": device.node.iter().flat_map(|node| &node.levels).map(level).collect::<Vec<Value>>(),
        "source": device.source,
    })
}
