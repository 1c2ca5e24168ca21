//! A request as a TOML file that names Sailor's JSON files of layers, sizes and links.

use super::super::file::{misread, positive, wrong};
use phzc_cost::sailor::{Curve, Kind, LayerSize, LayerTimes, Request};
use phzc_io::{files, json};
use phzc_ir::Result;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// No file that a request names is larger.
const MAX_BYTES: u64 = 64 << 20;
const GIB: f64 = (1u64 << 30) as f64;
/// The most devices of a kind, layers, sequences of a batch.
const MAX_DEVICES: usize = 1 << 16;
const MAX_LAYERS: usize = 256;
const MAX_BATCH: usize = 1 << 20;
/// The most kinds of devices.
pub(super) const MAX_KINDS: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    price_basis: String,
    /// Its name in the file of sizes.
    model: String,
    batch: usize,
    zone: String,
    sizes: String,
    links: String,
    devices: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    device: String,
    count: usize,
    memory_gib: f64,
    usd_per_hour: f64,
    /// File of its measured layers.
    layers: String,
}

/// Microbatch, degree, layer: forward, backward, update.
type Profile = BTreeMap<String, BTreeMap<String, BTreeMap<String, [f64; 3]>>>;
/// Device, devices per node, zone: of both ends.
type Links = BTreeMap<String, BTreeMap<String, Receivers>>;
type Receivers = BTreeMap<String, BTreeMap<String, BTreeMap<String, ([f64; 3], f64)>>>;

/// Of `llm_info.json`: the numbers that the model needs.
#[derive(Deserialize)]
struct Size {
    params_floats: f64,
    act_mem_floats: f64,
    act_output_floats: f64,
}

/// Reads a request; the files that it names are relative to a folder.
///
/// # Errors
/// At what is not as docs/sweep.md says, with the key or the file.
pub(super) fn parse(text: &str, folder: &Path) -> Result<Request> {
    let file: File = toml::from_str(text).map_err(|error| misread(&error))?;
    if file.price_basis.trim().is_empty() {
        return Err(wrong("price_basis", "say where the prices come from, and of when"));
    }
    if !(1..=MAX_BATCH).contains(&file.batch) {
        return Err(wrong("batch", &format!("expected 1 to {MAX_BATCH}, found `{}`", file.batch)));
    }
    if !(1..=MAX_KINDS).contains(&file.devices.len()) {
        return Err(wrong(
            "devices",
            &format!("expected 1 to {MAX_KINDS} kinds, found {}", file.devices.len()),
        ));
    }
    let sizes = sizes(&file, folder)?;
    let n_layers = sizes[&1].len();
    let kinds = file.devices.iter().map(|device| kind(device, folder, n_layers)).collect::<Result<_>>()?;
    Ok(Request { batch: file.batch, kinds, sizes, links: links(&file, folder)? })
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str, what: &str) -> Result<T> {
    let text = files::read(&folder.join(name), MAX_BYTES)?;
    json::read(&text, what, "the form that docs/sweep.md names").map_err(|error| wrong(name, &error.message))
}

/// Entries by number, ascending from 0 without a hole.
fn numbered<T: Clone>(entries: &BTreeMap<String, T>, what: &str) -> Result<Vec<T>> {
    let one = |number: usize| entries.get(&number.to_string()).cloned();
    let all: Vec<T> = (0..entries.len()).map_while(one).collect();
    let is_whole = all.len() == entries.len() && (1..=MAX_LAYERS).contains(&all.len());
    is_whole.then_some(all).ok_or_else(|| wrong(what, "expected layers 0, 1, 2 and so on without a hole"))
}

/// A microbatch or a degree that is a key of a file.
fn within(name: &str, key: &str, most: usize) -> Result<usize> {
    let number = key.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        wrong(name, &format!("expected microbatches and degrees from 1 to {most}, found `{key}`"))
    })
}

fn sizes(file: &File, folder: &Path) -> Result<BTreeMap<usize, Vec<LayerSize>>> {
    let mut models: BTreeMap<String, BTreeMap<String, BTreeMap<String, Size>>> =
        read(folder, &file.sizes, "sizes of layers")?;
    let degrees = models.remove(&file.model).ok_or_else(|| wrong(&file.sizes, "it lacks the model"))?;
    let mut sizes = BTreeMap::new();
    for (degree, layers) in degrees {
        let size = |size: &Size| LayerSize {
            params: size.params_floats,
            kept: size.act_mem_floats,
            handed_on: size.act_output_floats,
        };
        let layers: BTreeMap<String, LayerSize> =
            layers.iter().map(|(number, own)| (number.clone(), size(own))).collect();
        let layers = numbered(&layers, &file.sizes)?;
        let is_fine = |size: &f64| size.is_finite() && *size >= 0.0;
        if !layers.iter().all(|it| [it.params, it.kept, it.handed_on].iter().all(is_fine)) {
            return Err(wrong(&file.sizes, "expected sizes of layers from 0 up"));
        }
        sizes.insert(within(&file.sizes, &degree, MAX_DEVICES)?, layers);
    }
    let n_layers = sizes.get(&1).map(Vec::len);
    let is_one = sizes.values().all(|layers: &Vec<LayerSize>| Some(layers.len()) == n_layers);
    if n_layers.is_none() || !is_one {
        return Err(wrong(&file.sizes, "expected degree 1, and as many layers with every degree"));
    }
    Ok(sizes)
}

fn kind(device: &Device, folder: &Path, n_layers: usize) -> Result<Kind> {
    if !(1..=MAX_DEVICES).contains(&device.count) {
        return Err(wrong("count", &format!("expected 1 to {MAX_DEVICES}, found `{}`", device.count)));
    }
    let profile: Profile = read(folder, &device.layers, "measured layers")?;
    let mut times = BTreeMap::new();
    for (size, degrees) in &profile {
        for (degree, layers) in degrees {
            let layers = numbered(layers, &device.layers)?;
            let is_fine = |secs: &f64| secs.is_finite() && *secs >= 0.0;
            if layers.len() != n_layers || !layers.iter().flatten().all(is_fine) {
                let what =
                    format!("expected seconds from 0 up of {n_layers} layers, as in the file of sizes");
                return Err(wrong(&device.layers, &what));
            }
            if layers.iter().map(|[forward, backward, _]| forward + backward).sum::<f64>() <= 0.0 {
                return Err(wrong(&device.layers, "its layers take no time"));
            }
            let key =
                (within(&device.layers, size, MAX_BATCH)?, within(&device.layers, degree, MAX_DEVICES)?);
            times.insert(key, layer_times(&layers));
        }
    }
    Ok(Kind {
        device: device.device.clone(),
        count: device.count,
        memory_bytes: GIB * positive("memory_gib", device.memory_gib)?,
        usd_per_hour: positive("usd_per_hour", device.usd_per_hour)?,
        times,
    })
}

fn layer_times(layers: &[[f64; 3]]) -> LayerTimes {
    let mut prefix_secs = vec![0.0];
    let mut sum = 0.0;
    for [forward, backward, _] in layers {
        sum += forward + backward;
        prefix_secs.push(sum);
    }
    let update_secs = layers.iter().map(|layer| layer[2]).fold(0.0, f64::max);
    LayerTimes { prefix_secs, update_secs }
}

/// The links of the zone between the devices of the request.
fn links(file: &File, folder: &Path) -> Result<BTreeMap<[usize; 4], Curve>> {
    let mut zones: BTreeMap<String, Links> = read(folder, &file.links, "measured links")?;
    let mut zone = zones.remove(&file.zone).ok_or_else(|| wrong("zone", "it has no links"))?;
    let place = |name: &str| file.devices.iter().position(|device| device.device == name);
    let mut links = BTreeMap::new();
    for (from, counts) in &mut zone {
        for (from_count, receivers) in counts {
            let own = receivers.remove(&file.zone).unwrap_or_default();
            for (to, to_counts) in own {
                for (to_count, (coefficients, peak_bytes_per_sec)) in to_counts {
                    let key = [place(from), from_count.parse().ok(), place(&to), to_count.parse().ok()];
                    let [Some(a), Some(b), Some(c), Some(d)] = key else { continue };
                    links.insert([a, b, c, d], Curve { coefficients, peak_bytes_per_sec });
                }
            }
        }
    }
    Ok(links)
}
