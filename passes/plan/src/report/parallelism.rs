//! The plan in people's words: degrees of data, tensor, sequence, context, expert and pipeline parallelism,
//! layers per stage, ZeRO's stage, recomputation. All from the final text, whoever sharded it.
//!
//! A mesh axis is what it splits in the products of the forward part: samples (data), features or heads
//! (tensor), places of a sample (context), products with weights of their own (expert). Axes that do not
//! split a product are replicas in it. Where products differ, those with most FLOPs decide, and
//! `flops_share` is their part.

mod columns_rows;
pub(super) mod labels;
mod layers;
mod products;
mod zero;

pub use columns_rows::{ColumnsRows, SplitValue, Splits, columns_rows};
pub use layers::layer_products;

use super::Stage;
use crate::derive::{Facts, Phase, is_move};
use crate::plan_note::n_accumulated;
use crate::pricing::{AxisMask, axes_of};
use labels::{Label, Labels};
use phzc_analysis::batch::{Accumulation, accumulation};
use phzc_analysis::graph::{Graph, NodeKind};
use phzc_ir::{Key, Mesh, Module, Opcode};
use products::{Axes, ForwardProduct, products};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a stage is parallel, in the words of Megatron and DeepSpeed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parallelism {
    /// Parts of the batch that different devices have.
    pub data: i64,
    /// Parts of a weight's features, or heads, in the products.
    pub tensor: i64,
    /// Parts of a sequence in what tensor parallelism leaves whole: norms, residuals.
    pub sequence: i64,
    /// Parts of a sequence in the products.
    pub context: i64,
    /// Groups of experts.
    pub expert: i64,
    /// Device groups in a row.
    pub pipeline: usize,
    /// Devices that do the same in the products.
    pub replicas: i64,
    /// The part of the FLOPs of the forward products, experts aside, that `data`, `tensor` and `context` are
    /// of.
    pub flops_share: f64,
    /// Layers: repeated stretches of forward products.
    pub layers: Option<f64>,
    /// 1: optimizer states are split over data; 2: gradients too; 3: parameters too.
    pub zero_stage: Option<u8>,
    /// Seconds of recomputation over those of the forward part.
    pub recompute_share: f64,
    /// Whether devices with different data lie between those that share a product by tensor parallelism: a
    /// training stack has these side by side.
    #[serde(skip)]
    pub is_tensor_outer: bool,
}

/// The loop over microbatches of a plan whose gradient accumulation is written out: it takes every n-th
/// sample, which other loops do with positions.
fn written_out(module: &Module, facts: &Facts) -> Option<Accumulation> {
    let n_microbatches = n_accumulated(module)? as usize;
    let loops = module.entry().instrs.iter().filter(|instr| instr.op == Opcode::While);
    let mut bodies = loops.filter_map(|instr| instr.comp(Key::Body));
    let body = bodies.find(|body| facts.executions[body.index()] == n_microbatches as f64)?;
    Some(Accumulation { body, n_microbatches })
}

/// Fills in how each stage is parallel; `None` where it has no product of the forward part.
pub(super) fn fill(module: &Module, facts: &Facts, (graph, labels): (&Graph, &Labels), stages: &mut [Stage]) {
    let products = products(module, facts, graph, labels);
    let zero = zero::zero_stages(module, facts, graph, &products);
    let microbatches = written_out(module, facts).or_else(|| accumulation(module, graph));
    let layers = layers::layers(module, facts, microbatches);
    for (index, stage) in stages.iter_mut().enumerate() {
        let own: Vec<&ForwardProduct> = products.iter().filter(|it| it.stage == index).collect();
        let mesh = &facts.header.meshes[index];
        stage.parallelism = degrees(&own, mesh).map(|(axes, degrees)| Parallelism {
            sequence: size(sequence_axes(module, facts, graph, labels, (index, axes.tensor)), mesh),
            pipeline: facts.header.n_groups(),
            layers: layers.as_ref().map(|layers| layers[index]),
            zero_stage: zero[index],
            recompute_share: match stage.forward_secs > 0.0 {
                true => stage.recompute_secs / stage.forward_secs,
                false => 0.0,
            },
            ..degrees
        });
    }
}

/// What the products with most FLOPs are split by; experts for themselves.
fn degrees(products: &[&ForwardProduct], mesh: &Mesh) -> Option<(Axes, Parallelism)> {
    let (experts, others): (Vec<&ForwardProduct>, Vec<&ForwardProduct>) =
        products.iter().copied().partition(|it| it.is_expert);
    let (of_experts, _) = most_flops(&experts).unwrap_or_default();
    let (axes, flops_share) = most_flops(&others).or_else(|| most_flops(&experts))?;
    let sizes = [axes.data, axes.tensor, axes.context].map(|mask| size(mask, mesh));
    let degrees = Parallelism {
        data: sizes[0],
        tensor: sizes[1],
        context: sizes[2],
        expert: size(of_experts.expert, mesh),
        replicas: mesh.n_devices() / (sizes.iter().product::<i64>() * size(axes.expert, mesh)),
        flops_share,
        is_tensor_outer: is_outside(axes.tensor, axes.data | axes.context),
        ..Parallelism::default()
    };
    Some((axes, degrees))
}

/// The axes of most FLOPs, and their share; the first of equals.
fn most_flops(products: &[&ForwardProduct]) -> Option<(Axes, f64)> {
    let mut flops: BTreeMap<Axes, f64> = BTreeMap::new();
    products.iter().for_each(|it| *flops.entry(it.axes).or_default() += it.flops);
    let all: f64 = flops.values().sum();
    let (axes, most) = flops.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    Some((axes, if all > 0.0 { most / all } else { 1.0 }))
}

/// Whether some of `others` are minor to some of `axes`.
fn is_outside(axes: AxisMask, others: AxisMask) -> bool {
    match (axes_of(axes).next(), axes_of(others).last()) {
        (Some(first), Some(last)) => last > first,
        _ => false,
    }
}

fn size(axes: AxisMask, mesh: &Mesh) -> i64 {
    axes_of(axes).filter(|&axis| axis < mesh.n_axes()).map(|axis| mesh.sizes[axis]).product()
}

/// The axes of tensor parallelism that split places in the larger part of what they do not split otherwise:
/// activations that the forward part writes between products.
fn sequence_axes(
    module: &Module,
    facts: &Facts,
    graph: &Graph,
    labels: &Labels,
    (stage, tensor): (usize, AxisMask),
) -> AxisMask {
    let mut bytes: BTreeMap<AxisMask, f64> = BTreeMap::new();
    for node in graph.nodes.iter().filter(|node| node.kind == NodeKind::Op && !node.is_contraction) {
        let Some(own) = facts.comps[node.comp.index()].get(node.instr.index()) else { continue };
        let is_here = own.stage == stage && own.phase == Phase::Forward && own.is_allocated;
        let &[result] = &node.results[..] else { continue };
        let n_dims = graph.tensors[result as usize].dims.len();
        let is_place = |dim: usize| labels.of_dim(result, dim) == Label::Place;
        let is_move = is_move(module.comp(node.comp).instr(node.instr));
        if !is_here || is_move || !labels.is_data[result as usize] || !(0..n_dims).any(is_place) {
            continue;
        }
        let dim_of = |axis: usize| own.leaves[0].layout.dim_of(axis);
        let (on_places, others): (Vec<usize>, Vec<usize>) = axes_of(tensor)
            .filter(|&axis| dim_of(axis).is_some())
            .partition(|&axis| dim_of(axis).is_some_and(is_place));
        if others.is_empty() {
            let mask = on_places.into_iter().fold(0, |mask, axis| mask | 1 << axis);
            *bytes.entry(mask).or_default() += graph.tensors[result as usize].bytes * node.trips;
        }
    }
    bytes.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or(0, |(mask, _)| mask)
}

#[cfg(test)]
mod tests;
