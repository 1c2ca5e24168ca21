//! Graphs as Phaze extracts them: operators of PyTorch by name, with shapes, for one sample and one layer.
//!
//! Source: `reference/phaze.md`, sections 2 and 3. Names mean what Phaze takes them for.

use phzc_arch::estimate::{Layer, Work};
use phzc_arch::fuse::{Kind, RawOp, fuse};
use phzc_arch::mapping::Nest;
use phzc_arch::mapping::vector::Function;
use phzc_arch::model::{Edge, FORMAT, LayerKind, Microbatch, ModelGraph};
use phzc_ir::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Phaze has two bytes for every element.
const WORD_BYTES: f64 = 2.0;

/// Operators that Phaze gives no time.
const FREE: &str = " input output Embedding size getitem getattr ne gt reshape triu expand unsqueeze float \
                    finfo cat to view contiguous slice split clone permute index ";

/// The file's keys.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhazeGraph {
    /// Where it comes from.
    #[serde(rename = "source")]
    _source: String,
    model: String,
    mbs: u64,
    #[serde(rename = "seq")]
    _seq: u64,
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
}

type Shape = Vec<u64>;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    id: usize,
    layer: i64,
    op: String,
    out: Vec<Shape>,
    saved: Vec<Shape>,
    weights: Vec<Shape>,
    bias: Vec<Shape>,
}

/// An operator at one size of the microbatch.
struct Scaled<'a> {
    node: &'a Node,
    /// The result.
    shape: &'a [u64],
    output: u64,
}

impl PhazeGraph {
    /// The model of `n_layers` times the layer with the largest id, for microbatches of so many samples.
    ///
    /// # Errors
    /// For edges to nowhere, a graph of several samples, sizes past 2^53, and operators that Phaze lacks.
    pub fn model(&self, n_layers: usize, samples: &[u64]) -> Result<ModelGraph> {
        self.check()?;
        let microbatches = samples.iter().map(|samples| self.microbatch(n_layers, *samples));
        let microbatches = microbatches.collect::<Result<_>>()?;
        Ok(ModelGraph { format: FORMAT.to_owned(), name: self.model.clone(), microbatches })
    }

    fn check(&self) -> Result<()> {
        let n = self.nodes.len();
        let is_in_order = self.nodes.iter().enumerate().all(|(at, node)| node.id == at);
        let is_linked = self.edges.iter().all(|(from, to)| from < to && *to < n);
        let shapes = |node: &Node| node.out.len() == 1 && !node.saved.is_empty();
        let sizes = self.nodes.iter().flat_map(|node| node.out.iter().chain(&node.saved));
        let rules = [
            (n > 0 && is_in_order, "its nodes do not count from 0 up"),
            (is_linked, "an edge leads to no later node"),
            (self.nodes.iter().all(shapes), "a node has not one result and its operands"),
            (sizes.clone().all(|shape| n_elements(shape) <= 1 << 40), "a tensor has more than 2^40 elements"),
            (self.mbs == 1, "it is of several samples"),
        ];
        let broken = rules.into_iter().find(|rule| !rule.0);
        broken.map_or(Ok(()), |rule| Err(Diagnostic::error(format!("Phaze's graph: {}", rule.1))))
    }

    /// Whether the first dimension of each result counts samples: it follows from the input's, over results
    /// whose first dimension is one.
    fn is_batched(&self) -> Vec<bool> {
        let mut is_batched = vec![false; self.nodes.len()];
        is_batched[0] = true;
        for at in 1..self.nodes.len() {
            let mut operands = self.edges.iter().filter(|edge| edge.1 == at);
            let is_one = self.nodes[at].out[0].first() == Some(&1);
            is_batched[at] = is_one && operands.any(|edge| is_batched[edge.0]);
        }
        is_batched
    }

    /// The operators at one size of the microbatch.
    fn scaled(&self, samples: u64) -> Vec<Scaled<'_>> {
        let scaled = self.nodes.iter().zip(self.is_batched()).map(|(node, is_batched)| {
            let shape = &node.out[0];
            let times = if is_batched && shape.len() > 1 { samples } else { 1 };
            Scaled { node, shape, output: n_elements(shape).saturating_mul(times) }
        });
        scaled.collect()
    }

    fn microbatch(&self, n_layers: usize, samples: u64) -> Result<Microbatch> {
        let ops = self.scaled(samples);
        let ids: BTreeSet<i64> = self.nodes.iter().map(|node| node.layer).collect();
        let kinds = ids.iter().map(|id| self.kind(*id, &ops)).collect::<Result<Vec<_>>>()?;
        let last = kinds.len() - 1;
        let chain: Vec<usize> = (0..last).chain(std::iter::repeat_n(last, n_layers)).collect();
        let bytes = self.handed_on_bytes(&ops);
        let edges = (1..chain.len()).map(|to| Edge { from: to - 1, to, bytes }).collect();
        Ok(Microbatch { samples, kinds, chain, edges })
    }

    fn kind(&self, id: i64, ops: &[Scaled]) -> Result<LayerKind> {
        let own: Vec<&Scaled> = ops.iter().filter(|op| op.node.layer == id).collect();
        let weights = own.iter().flat_map(|op| op.node.weights.iter().chain(&op.node.bias));
        let n_parameters: u64 = weights.map(|shape| n_elements(shape)).sum();
        let n_activations: u64 = own.iter().map(|op| op.output).sum();
        Ok(LayerKind {
            name: format!("layer {id}"),
            parameter_bytes: n_parameters as f64 * WORD_BYTES,
            activation_bytes: n_activations as f64 * WORD_BYTES,
            layer: self.fused(&own)?.0,
        })
    }

    /// The layer of some operators, and the nodes that its operators are.
    fn fused(&self, own: &[&Scaled]) -> Result<(Layer, Vec<usize>)> {
        let position: BTreeMap<usize, usize> =
            own.iter().enumerate().map(|(at, op)| (op.node.id, at)).collect();
        let inner = |(from, to): &(usize, usize)| Some((*position.get(from)?, *position.get(to)?));
        let edges: Vec<(usize, usize)> = self.edges.iter().filter_map(inner).collect();
        let raw = own.iter().map(|op| op.raw()).collect::<Result<Vec<_>>>()?;
        let (layer, kept) = fuse(&raw, &edges);
        Ok((layer, kept.into_iter().map(|at| own[at].node.id).collect()))
    }

    /// The operator of a node at one size of the microbatch, with what is fused behind it.
    pub fn work(&self, samples: u64, node: usize) -> Option<Work> {
        let layer = self.nodes.get(node)?.layer;
        let ops = self.scaled(samples);
        let own: Vec<&Scaled> = ops.iter().filter(|op| op.node.layer == layer).collect();
        let (layer, nodes) = self.fused(&own).ok()?;
        layer.ops[nodes.iter().position(|id| *id == node)?].clone()
    }

    /// What a layer hands on: of several edges between two layers Phaze keeps the last.
    fn handed_on_bytes(&self, ops: &[Scaled]) -> f64 {
        let crosses = |edge: &&(usize, usize)| ops[edge.0].node.layer != ops[edge.1].node.layer;
        let last = self.edges.iter().rfind(crosses);
        last.map_or(0.0, |edge| ops[edge.0].output as f64 * WORD_BYTES)
    }
}

impl Scaled<'_> {
    fn raw(&self) -> Result<RawOp> {
        Ok(RawOp { kind: self.kind()?, output: self.output, inputs: self.inputs() })
    }

    fn kind(&self) -> Result<Kind> {
        let columns = self.shape.last().copied().unwrap_or(1);
        let reduction = self.node.saved[0].last().copied().unwrap_or(1);
        // A linear layer has the rows of one sample, a product those of all.
        let linear_rows = self.shape.iter().rev().nth(1).copied().unwrap_or(1);
        Ok(match self.node.op.as_str() {
            "Linear" | "addmm" => Kind::Contraction(Nest::product(linear_rows, columns, reduction)),
            "matmul" | "mm" | "bmm" | "baddbmm" => {
                Kind::Contraction(Nest::product(self.output / columns.max(1), columns, reduction))
            }
            "softmax" => Kind::Softmax { columns },
            "transpose" => Kind::Layout,
            name if FREE.contains(&format!(" {name} ")) => Kind::Free,
            name => Kind::Function(function(name)?),
        })
    }

    /// Elements of the operands: those of the result's rank are broadcast before they are counted. What is
    /// filled has an operand of its own size.
    fn inputs(&self) -> Vec<u64> {
        if matches!(self.node.op.as_str(), "arange" | "full" | "masked_fill") {
            return vec![self.output];
        }
        let shapes = self.node.saved.iter().filter(|shape| !shape.is_empty());
        let counted = shapes.map(|shape| match shape.len() == self.shape.len() {
            true => self.output,
            false => n_elements(shape),
        });
        counted.collect()
    }
}

/// A function by its name.
fn function(name: &str) -> Result<Function> {
    Ok(match name {
        "add" | "sub" | "mul" | "neg" | "relu" | "gelu" | "ReLU" | "GELU" | "LayerNorm" | "layer_norm"
        | "arange" | "full" | "masked_fill" => Function::Simple,
        "dropout" | "Dropout" => Function::Dropout,
        "truediv" | "floordiv" | "div" => Function::Divide,
        "SiLU" | "silu" | "sigmoid" => Function::Sigmoid,
        "cos" | "sin" => Function::Sine,
        "pow" | "sqrt" | "rsqrt" => Function::Power,
        "tanh" => Function::Tanh,
        "mean" => Function::Mean,
        _ => {
            let message = format!("Phaze's graph: `{name}` is no operator that Phaze prices");
            return Err(Diagnostic::error(message).help("give the program as HLO"));
        }
    })
}

/// No elements where there is no shape, as Phaze counts.
fn n_elements(shape: &[u64]) -> u64 {
    if shape.is_empty() { 0 } else { shape.iter().fold(1, |all, size| all.saturating_mul(*size)) }
}
