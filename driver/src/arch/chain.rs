//! Layers of one size of the microbatch: their operators, bytes, and what they hand on.

use super::operators::operator;
use super::scale::Batch;
use phzc_arch::fuse::{Kind, RawOp, fuse};
use phzc_arch::model::{Edge, LayerKind, Microbatch};
use phzc_arch::program::Kernels;
use phzc_ir::Module;
use phzc_passes::graph::{Graph, NodeId, TensorId};
use std::collections::{BTreeMap, BTreeSet};

/// A program with its nodes in layers.
pub(super) struct Builder<'a> {
    module: &'a Module,
    graph: &'a Graph,
    batch: &'a Batch,
    /// By node.
    layers: &'a [Option<usize>],
    samples: u64,
}

impl<'a> Builder<'a> {
    /// For so many samples.
    pub fn new(
        module: &'a Module,
        graph: &'a Graph,
        batch: &'a Batch,
        layers: &'a [Option<usize>],
        samples: u64,
    ) -> Builder<'a> {
        Builder { module, graph, batch, layers, samples }
    }

    /// The chain, with the kernels of each layer if they are known; equal layers are one kind, named after
    /// the first of them.
    pub fn microbatch(&self, kernels: Option<Vec<Kernels>>) -> Microbatch {
        let n_layers = self.layers.iter().flatten().max().map_or(0, |last| last + 1);
        let (mut kinds, mut chain): (Vec<LayerKind>, Vec<usize>) = (Vec::new(), Vec::new());
        let parameter_bytes = self.parameter_bytes(n_layers);
        for (layer, bytes) in parameter_bytes.iter().enumerate() {
            let mut kind = self.kind(layer, *bytes);
            kind.layer.kernels = kernels.as_ref().and_then(|kernels| kernels.get(layer).cloned());
            let is_equal = |known: &LayerKind| LayerKind { name: kind.name.clone(), ..known.clone() } == kind;
            let at = kinds.iter().position(is_equal);
            chain.push(at.unwrap_or(kinds.len()));
            kinds.extend(at.is_none().then_some(kind));
        }
        Microbatch { samples: self.samples, kinds, chain, edges: self.edges(n_layers) }
    }

    fn kind(&self, layer: usize, parameter_bytes: f64) -> LayerKind {
        let ids: Vec<NodeId> = (0..self.graph.nodes.len() as NodeId)
            .filter(|id| self.layers[*id as usize] == Some(layer))
            .collect();
        let mut activation_bytes = 0.0;
        let (mut raw, mut position): (Vec<RawOp>, BTreeMap<NodeId, usize>) = Default::default();
        for id in &ids {
            let op = operator(self.module, self.graph, self.batch, *id, self.samples);
            if op.kind != Kind::Free {
                let results = self.graph.nodes[*id as usize].results.iter();
                activation_bytes += results.map(|it| self.bytes(*it)).sum::<f64>();
                position.insert(*id, raw.len());
                raw.push(op);
            }
        }
        let (layer_of_ops, _) = fuse(&raw, &self.inner_edges(&ids, &position));
        LayerKind { name: format!("layer {layer}"), parameter_bytes, activation_bytes, layer: layer_of_ops }
    }

    fn bytes(&self, tensor: TensorId) -> f64 {
        self.batch.bytes(self.graph, tensor, self.samples)
    }

    /// Edges between the operators of a layer; what takes no time passes on those that it reads.
    fn inner_edges(&self, ids: &[NodeId], position: &BTreeMap<NodeId, usize>) -> Vec<(usize, usize)> {
        let mut sources: BTreeMap<NodeId, BTreeSet<usize>> = BTreeMap::new();
        let mut edges = Vec::new();
        for id in ids {
            let operands = self.graph.nodes[*id as usize].operands.iter();
            let makers = operands.map(|tensor| self.graph.tensors[*tensor as usize].def);
            let read: BTreeSet<usize> = makers.filter_map(|it| sources.get(&it)).flatten().copied().collect();
            match position.get(id) {
                Some(at) => {
                    edges.extend(read.iter().map(|from| (*from, *at)));
                    sources.insert(*id, BTreeSet::from([*at]));
                }
                None => drop(sources.insert(*id, read)),
            }
        }
        edges
    }

    /// By layer: bytes of the inputs without data that it reads first.
    fn parameter_bytes(&self, n_layers: usize) -> Vec<f64> {
        let mut bytes = vec![0.0; n_layers];
        for (id, tensor) in self.graph.tensors.iter().enumerate() {
            if tensor.param.is_some() && !self.batch.has_data[id] {
                let readers = tensor.uses.iter().filter_map(|(reader, _)| self.layers[*reader as usize]);
                readers.min().into_iter().for_each(|layer| bytes[layer] += tensor.bytes);
            }
        }
        bytes
    }

    /// What layers hand on: each result once to each layer that reads it.
    fn edges(&self, n_layers: usize) -> Vec<Edge> {
        let mut bytes: BTreeMap<(usize, usize), f64> = (1..n_layers).map(|to| ((to - 1, to), 0.0)).collect();
        for (id, tensor) in self.graph.tensors.iter().enumerate().filter(|(id, _)| self.batch.has_data[*id]) {
            let Some(from) = self.layers[tensor.def as usize] else { continue };
            let readers = tensor.uses.iter().filter_map(|(reader, _)| self.layers[*reader as usize]);
            for to in readers.filter(|to| *to > from).collect::<BTreeSet<usize>>() {
                *bytes.entry((from, to)).or_default() += self.bytes(id as TensorId);
            }
        }
        bytes.into_iter().map(|((from, to), bytes)| Edge { from, to, bytes }).collect()
    }
}
