//! A placement problem as Phaze's solver writes it, and the chain that its graphs have to be.

use super::{Chain, Copies, Edge, Expert, Instance, Layer};
use crate::read::{MAX_COUNT, positive};
use phzc_ir::Diagnostic;
use serde::de::{Deserialize, Deserializer, Error};
use std::collections::{BTreeMap, BTreeSet};

/// The problem's JSON; a key that is not listed is an error, for Phaze writes no others and a typo would go
/// unseen.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceText {
    #[serde(deserialize_with = "positive")]
    max_memory_per_device: f64,
    #[serde(deserialize_with = "devices")]
    max_devices: usize,
    #[serde(deserialize_with = "positive")]
    bandwidth: f64,
    #[serde(deserialize_with = "microbatches")]
    mbs_in_batch: usize,
    nodes: BTreeMap<usize, Vec<NodeText>>,
    edges: BTreeMap<usize, Vec<EdgeText>>,
    activation_recomputation: bool,
    optimizer_algorithm: Copies,
    #[serde(rename = "fixedPP", default)]
    fixed_stages: Option<usize>,
    #[serde(rename = "fixedTMPC", default)]
    fixed_width: Option<usize>,
    #[serde(rename = "fixedDP", default)]
    fixed_data: Option<usize>,
    #[serde(default)]
    num_transformer_layers: Option<usize>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeText {
    id: i64,
    #[serde(deserialize_with = "not_negative")]
    parameter_size: f64,
    #[serde(deserialize_with = "not_negative")]
    activation_size: f64,
    #[serde(deserialize_with = "not_negative")]
    optimal_latency_fw: f64,
    #[serde(deserialize_with = "not_negative")]
    optimal_latency_bw: f64,
    is_tensor_parallelized: bool,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EdgeText {
    source_id: i64,
    dest_id: i64,
    #[serde(deserialize_with = "not_negative")]
    communication_cost: f64,
}

/// A step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of an object.
    Key(String),
    /// Of a list.
    At(usize),
}

/// What is wrong with a problem, and where; whoever has the text knows at which line that is.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit {
    /// From the whole to the value that is meant.
    pub path: Vec<Step>,
    /// Without a span.
    pub error: Diagnostic,
}

type Result<T> = std::result::Result<T, Misfit>;

/// One of the two lists of a width.
#[derive(Clone, Copy)]
struct Place(&'static str, usize);

impl Place {
    fn wrong(self, at: Option<usize>, message: String, help: &str) -> Misfit {
        let keys = [Step::Key(self.0.to_owned()), Step::Key(self.1.to_string())];
        let path = keys.into_iter().chain(at.map(Step::At)).collect();
        Misfit { path, error: Diagnostic::error(message).help(help) }
    }
}

fn number<'de, D: Deserializer<'de>>(
    from: D,
    is_legal: impl Fn(f64) -> bool,
    expected: &str,
) -> std::result::Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    let fine = value.is_finite() && is_legal(value);
    fine.then_some(value).ok_or_else(|| D::Error::custom(format!("expected {expected}, found `{value}`")))
}

fn not_negative<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    number(from, |value| value >= 0.0, "a number from 0 up")
}

fn devices<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<usize, D::Error> {
    let is_legal = |value: f64| (1.0..=MAX_COUNT as f64).contains(&value);
    Ok(number(from, is_legal, &format!("from 1 to {MAX_COUNT} devices"))? as usize)
}

/// Phaze divides in Python and leaves the fraction off when it reads.
fn microbatches<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<usize, D::Error> {
    let is_legal = |value: f64| (1.0..=f64::from(i32::MAX)).contains(&value);
    Ok(number(from, is_legal, "at least one microbatch")? as usize)
}

impl InstanceText {
    /// The problem.
    ///
    /// # Errors
    ///
    /// Where widths, ids or edges contradict each other, or the layers are no chain.
    pub fn instance(self) -> Result<Instance> {
        let expert = self.expert()?;
        self.check_widths()?;
        let mut chains: Vec<Chain> = Vec::new();
        for ((&width, nodes), edges) in self.nodes.iter().zip(self.edges.values()) {
            let chain = chain(width, nodes, edges)?;
            if let Some(first) = chains.first() {
                check_same_layers(first, &chain)?;
            }
            chains.push(chain);
        }
        Ok(Instance {
            memory_bytes: self.max_memory_per_device,
            n_devices: self.max_devices,
            bytes_per_sec: self.bandwidth,
            n_microbatches: self.mbs_in_batch,
            recompute: self.activation_recomputation,
            parameter_copies: self.optimizer_algorithm,
            chains,
            expert,
        })
    }

    fn expert(&self) -> Result<Option<Expert>> {
        let given = [self.fixed_stages, self.fixed_width, self.fixed_data, self.num_transformer_layers];
        match given {
            [Some(n_stages), Some(width), Some(data_parallel), Some(n_layers)] => {
                Ok(Some(Expert { n_stages, width, data_parallel, n_layers }))
            }
            [None, None, None, None] => Ok(None),
            _ => {
                let keys = ["fixedPP", "fixedTMPC", "fixedDP", "numTransformerLayers"];
                let missing = keys.iter().zip(given).find(|(_, value)| value.is_none());
                let message = format!("missing field `{}`", missing.map_or("", |(key, _)| key));
                let help = format!("give all of {}, or none", keys.join(", "));
                Err(Misfit { path: Vec::new(), error: Diagnostic::error(message).help(help) })
            }
        }
    }

    fn check_widths(&self) -> Result<()> {
        let help = "`nodes` and `edges` have one list for each tensor-parallel width";
        if let Some(&width) = self.nodes.keys().find(|width| !self.edges.contains_key(width)) {
            return Err(Place("nodes", width).wrong(None, format!("no edges for width {width}"), help));
        }
        if let Some(&width) = self.edges.keys().find(|width| !self.nodes.contains_key(width)) {
            return Err(Place("edges", width).wrong(None, format!("no nodes for width {width}"), help));
        }
        if let Some(&width) = self.nodes.keys().find(|width| !(1..=MAX_COUNT).contains(*width)) {
            let message = format!("a tensor-parallel width of {width}");
            return Err(Place("nodes", width).wrong(None, message, &format!("give 1 to {MAX_COUNT}")));
        }
        match self.nodes.is_empty() {
            true => {
                let path = vec![Step::Key("nodes".to_owned())];
                Err(Misfit { path, error: Diagnostic::error("there are no nodes").help(help) })
            }
            false => Ok(()),
        }
    }
}

/// An edge between nodes by their places in the list.
struct Link {
    from: usize,
    to: usize,
    bytes: f64,
}

fn chain(width: usize, nodes: &[NodeText], edges: &[EdgeText]) -> Result<Chain> {
    let links = links(width, edges, &places(width, nodes)?)?;
    let order = order(width, nodes, &links)?;
    let mut position = vec![0; nodes.len()];
    for (at, &node) in order.iter().enumerate() {
        position[node] = at;
    }
    let (mut inputs, mut outputs) = (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
    for Link { from, to, bytes } in links {
        inputs[position[to]].push(Edge { layer: position[from], bytes });
        outputs[position[from]].push(Edge { layer: position[to], bytes });
    }
    let layers = order.iter().map(|&node| layer(&nodes[node])).collect();
    Ok(Chain { width, layers, inputs, outputs })
}

fn layer(node: &NodeText) -> Layer {
    Layer {
        id: node.id,
        parameter_bytes: node.parameter_size,
        activation_bytes: node.activation_size,
        forward_secs: node.optimal_latency_fw,
        backward_secs: node.optimal_latency_bw,
        update_secs: 0.0,
        is_tensor_parallel: node.is_tensor_parallelized,
    }
}

fn places(width: usize, nodes: &[NodeText]) -> Result<BTreeMap<i64, usize>> {
    let (place, mut places) = (Place("nodes", width), BTreeMap::new());
    for (at, node) in nodes.iter().enumerate() {
        if places.insert(node.id, at).is_some() {
            let message = format!("two nodes have the id {}", node.id);
            return Err(place.wrong(Some(at), message, "give each layer an id of its own"));
        }
        if width == 1 && node.is_tensor_parallelized {
            let message = format!("node {} is tensor-parallel on one device", node.id);
            return Err(place.wrong(Some(at), message, "at width 1 no layer is `isTensorParallelized`"));
        }
    }
    match nodes.is_empty() {
        true => Err(place.wrong(None, "there are no nodes".to_owned(), "give at least one layer")),
        false => Ok(places),
    }
}

fn links(width: usize, edges: &[EdgeText], places: &BTreeMap<i64, usize>) -> Result<Vec<Link>> {
    let place = Place("edges", width);
    let end = |at: usize, id: i64| {
        let unknown = || place.wrong(Some(at), format!("no node has the id {id}"), "list it in `nodes`");
        places.get(&id).copied().ok_or_else(unknown)
    };
    let (mut seen, mut links) = (BTreeSet::new(), Vec::new());
    for (at, edge) in edges.iter().enumerate() {
        let (source, dest) = (edge.source_id, edge.dest_id);
        links.push(Link { from: end(at, source)?, to: end(at, dest)?, bytes: edge.communication_cost });
        if source == dest {
            let message = format!("node {source} is its own successor");
            return Err(place.wrong(Some(at), message, "leave the edge out"));
        }
        if !seen.insert((source, dest)) {
            let message = format!("two edges go from {source} to {dest}");
            return Err(place.wrong(Some(at), message, "make them one edge with the bytes of both"));
        }
    }
    Ok(links)
}

/// The nodes in the one order in which they can run; with two orders, the graph branches.
fn order(width: usize, nodes: &[NodeText], links: &[Link]) -> Result<Vec<usize>> {
    let mut n_inputs = vec![0_usize; nodes.len()];
    let mut successors = vec![Vec::new(); nodes.len()];
    for link in links {
        n_inputs[link.to] += 1;
        successors[link.from].push(link.to);
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&node| n_inputs[node] == 0).collect();
    let mut order = Vec::new();
    while let Some(node) = ready.pop() {
        if let Some(&other) = ready.first() {
            let (a, b) = (nodes[node].id.min(nodes[other].id), nodes[node].id.max(nodes[other].id));
            let message = format!("branching not supported: nodes {a} and {b} do not depend on each other");
            return Err(Place("nodes", width).wrong(
                Some(node.max(other)),
                message,
                "merge the branches into one layer",
            ));
        }
        order.push(node);
        for &next in &successors[node] {
            n_inputs[next] -= 1;
            if n_inputs[next] == 0 {
                ready.push(next);
            }
        }
    }
    match order.len() == nodes.len() {
        true => Ok(order),
        false => {
            let message = "the edges go in a circle".to_owned();
            Err(Place("edges", width).wrong(None, message, "an edge goes from a layer to a later one"))
        }
    }
}

fn check_same_layers(first: &Chain, chain: &Chain) -> Result<()> {
    let ids = |chain: &Chain| chain.layers.iter().map(|layer| layer.id).collect::<Vec<_>>();
    match ids(first) == ids(chain) {
        true => Ok(()),
        false => {
            let message = format!("the layers of widths {} and {} differ", first.width, chain.width);
            let help = "the same ids follow each other at every width";
            Err(Place("nodes", chain.width).wrong(None, message, help))
        }
    }
}

#[cfg(test)]
mod tests;
