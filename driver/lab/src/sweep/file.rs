//! A fleet, a model and its measured layers as a TOML file (docs/sweep.md).

use super::fleet::{self, Link, Node};
use super::growth::{DeviceGrowth, growth_of};
use phzc_cost::fasop::{Fleet, LayerTimes, Role, Transformer};
use phzc_ir::{Diagnostic, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is swept.
#[derive(Debug)]
pub(super) struct Sweep {
    pub fleet: Fleet,
    pub model: Transformer,
    /// Per kind of node: the least and the largest number.
    pub counts: Vec<[usize; 2]>,
    /// Per kind of node: what a person calls it.
    pub names: Vec<String>,
    /// Where its prices come from.
    pub price_basis: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Where prices come from, and of when.
    price_basis: String,
    per_node: usize,
    nodes: Vec<Node>,
    /// Links between zones that are slower than the nodes at their ends.
    #[serde(default)]
    links: Vec<Link>,
    /// By zones: dollars for a gigabyte from the first to the second.
    #[serde(default)]
    egress_usd_per_gb: BTreeMap<String, BTreeMap<String, f64>>,
    model: Model,
    /// Per device and tensor-parallel degree: forward seconds of each group of layers for one sequence.
    times: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// Per device: how each group grows with the microbatch; `linear` where absent.
    #[serde(default)]
    growth: BTreeMap<String, DeviceGrowth>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    hidden: f64,
    seq: f64,
    vocab: f64,
    heads: f64,
    batch: usize,
    layers: Vec<String>,
    #[serde(default)]
    shares_embedding: bool,
}

/// The most sequences of a batch, entries of the list of layers, clusters of a sweep.
const MAX_BATCH: usize = 1 << 16;
const MAX_ENTRIES: usize = 512;
const MAX_CLUSTERS: usize = 100_000;

impl Sweep {
    /// Reads a file.
    ///
    /// # Errors
    /// At what is not as docs/sweep.md says, with the key.
    pub(super) fn parse(text: &str) -> Result<Sweep> {
        let file: File = toml::from_str(text).map_err(|error| misread(&error))?;
        if file.price_basis.trim().is_empty() {
            return Err(wrong("price_basis", "say where the prices come from, and of when"));
        }
        let groups = groups(&file.model.layers)?;
        let times: Result<Vec<Vec<LayerTimes>>> =
            file.nodes.iter().map(|node| times(&file, &node.device, &groups)).collect();
        let counts: Vec<[usize; 2]> = file.nodes.iter().map(Node::counts).collect::<Result<_>>()?;
        let sizes = counts.iter().map(|[least, most]| most - least + 1);
        let n_clusters = sizes.fold(1, usize::saturating_mul);
        if counts.iter().all(|[_, most]| *most == 0) {
            return Err(wrong("count", "expected a node of some kind, found none"));
        }
        if n_clusters > MAX_CLUSTERS {
            let what = format!("expected {MAX_CLUSTERS} clusters at most, found {n_clusters}");
            return Err(wrong("count", &what));
        }
        let times = times?;
        check_names(&file)?;
        check_order(&file, &times)?;
        let model = model(&file.model, &groups, times)?;
        let fleet = fleet::read(file.per_node, &file.nodes, &file.links, &file.egress_usd_per_gb)?;
        let names = file.nodes.iter().map(Node::name).collect();
        Ok(Sweep { fleet, model, counts, names, price_basis: file.price_basis })
    }
}

/// What TOML has against a file, at its place.
pub(super) fn misread(error: &toml::de::Error) -> Diagnostic {
    let place = error.span().map(|at| phzc_ir::Span::new(at.start, at.end));
    let plain = Diagnostic::error(error.message().trim_end_matches('.').to_owned());
    place.into_iter().fold(plain, Diagnostic::at)
}

/// An error about a key.
pub(super) fn wrong(key: &str, what: &str) -> Diagnostic {
    Diagnostic::error(format!("`{key}`: {what}"))
}

/// A number above zero.
pub(super) fn positive(key: &str, value: f64) -> Result<f64> {
    let is_fine = value.is_finite() && value > 0.0;
    is_fine
        .then_some(value)
        .ok_or_else(|| wrong(key, &format!("expected a positive number, found `{value}`")))
}

pub(super) fn within(key: &str, value: usize, most: usize) -> Result<usize> {
    let is_fine = (1..=most).contains(&value);
    is_fine.then_some(value).ok_or_else(|| wrong(key, &format!("expected 1 to {most}, found `{value}`")))
}

fn model(file: &Model, groups: &[(Role, usize)], times: Vec<Vec<LayerTimes>>) -> Result<Transformer> {
    Ok(Transformer {
        hidden: positive("hidden", file.hidden)?,
        seq: positive("seq", file.seq)?,
        vocab: positive("vocab", file.vocab)?,
        heads: positive("heads", file.heads)?,
        batch: within("batch", file.batch, MAX_BATCH)?,
        roles: groups.iter().flat_map(|(role, n)| std::iter::repeat_n(*role, *n)).collect(),
        shares_embedding: file.shares_embedding,
        times,
    })
}

/// `embedding`, `48 x layer`, `head`.
fn groups(layers: &[String]) -> Result<Vec<(Role, usize)>> {
    let group = |text: &String| {
        let (n, name) = text.split_once(" x ").unwrap_or(("1", text));
        let role = match name.trim() {
            "embedding" => Role::Embedding,
            "layer" => Role::Layer,
            "head" => Role::Head,
            other => {
                let what = format!("expected `embedding`, `layer`, `head` or `12 x layer`, found `{other}`");
                return Err(wrong("layers", &what));
            }
        };
        let n = n.trim().parse().map_err(|_| wrong("layers", &format!("`{n}` is no number")))?;
        Ok((role, within("layers", n, MAX_ENTRIES)?))
    };
    let groups: Vec<(Role, usize)> = layers.iter().map(group).collect::<Result<_>>()?;
    let n_entries: usize = groups.iter().map(|(_, n)| n).sum();
    if !(3..=MAX_ENTRIES).contains(&n_entries) {
        return Err(wrong("layers", &format!("expected 3 to {MAX_ENTRIES} of them, found {n_entries}")));
    }
    Ok(groups)
}

/// The measured layers of a device, by tensor-parallel degree 1, 2, 4 … as far as there are any.
fn times(file: &File, device: &str, groups: &[(Role, usize)]) -> Result<Vec<LayerTimes>> {
    let key = format!("times.{device}");
    let own = file.times.get(device).ok_or_else(|| wrong(&key, "no layer of this device was measured"))?;
    let growth = file.growth.get(device);
    let degree = |power: usize| own.get(&(1usize << power).to_string());
    let known = (0..=10).map_while(degree);
    let read = |(power, secs): (usize, &Vec<f64>)| {
        let named = format!("growth.{device}");
        let growth = growth_of(growth, [&named, &(1usize << power).to_string()], groups, file.model.batch)?;
        Ok(LayerTimes { forward_secs: spread(secs, groups, &key)?, growth })
    };
    let known: Vec<LayerTimes> = known.enumerate().map(read).collect::<Result<_>>()?;
    if known.is_empty() || known.len() != own.len() {
        return Err(wrong(&key, "expected degrees 1, 2, 4 and so on without a hole"));
    }
    Ok(known)
}

/// A value per entry from one per group.
fn spread(values: &[f64], groups: &[(Role, usize)], key: &str) -> Result<Vec<f64>> {
    if values.len() != groups.len() {
        let what =
            format!("expected {} values, one per group of `layers`, found {}", groups.len(), values.len());
        return Err(wrong(key, &what));
    }
    values.iter().try_for_each(|value| positive(key, *value).map(drop))?;
    Ok(values.iter().zip(groups).flat_map(|(value, (_, n))| std::iter::repeat_n(*value, *n)).collect())
}

/// Refuses times and growth of devices that no node has.
fn check_names(file: &File) -> Result<()> {
    let is_known = |name: &&String| file.nodes.iter().any(|node| node.device == **name);
    let unknown = file.times.keys().chain(file.growth.keys()).find(|name| !is_known(name));
    unknown.map_or(Ok(()), |name| Err(wrong(name, "no node has this device")))
}

/// Refuses kinds of nodes that are not in the order of their speed: a stage is as slow as its last kind.
fn check_order(file: &File, times: &[Vec<LayerTimes>]) -> Result<()> {
    let secs: Vec<f64> = times.iter().map(|it| it[0].forward_secs.iter().sum()).collect();
    let Some(index) = secs.windows(2).position(|pair| pair[1] < pair[0]) else { return Ok(()) };
    let (slow, fast) = (&file.nodes[index].device, &file.nodes[index + 1].device);
    Err(wrong("nodes", &format!("the fastest device comes first, found `{slow}` before `{fast}`")))
}
