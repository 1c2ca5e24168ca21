//! What an instruction is to an accelerator: a contraction for tensor cores, a function for vector cores, or
//! nothing.

use super::scale::Batch;
use phzc_arch::fuse::{Kind, RawOp};
use phzc_arch::mapping::Nest;
use phzc_arch::mapping::vector::Function;
use phzc_ir::fusion::FusionKind;
use phzc_ir::{Module, Opcode, product::Product};
use phzc_passes::graph::{Graph, Node, NodeId};

/// The operator of a node for so many samples; loops that are left run as one operator over all trips.
pub(super) fn operator(module: &Module, graph: &Graph, batch: &Batch, id: NodeId, samples: u64) -> RawOp {
    let node = &graph.nodes[id as usize];
    let of = |id: &u32| batch.n_elements(graph, *id, samples);
    let inputs: Vec<u64> = node.operands.iter().map(of).collect();
    let made = node.results.iter().map(of).max().unwrap_or(0);
    let is_reduction = node.rule.factors.iter().any(|it| matches!(it.kind, phzc_ir::FactorKind::Reduce(_)));
    // A reduction works on every element that it reads.
    let worked = if is_reduction { inputs.iter().copied().fold(made, u64::max) } else { made };
    let trips = node.trips.max(1.0) as u64;
    let kind = match graph.opcode(module, id) {
        Some(op) => kind(op, node, batch, samples),
        None => Kind::Free,
    };
    RawOp { kind, output: worked.saturating_mul(trips), inputs }
}

fn kind(op: Opcode, node: &Node, batch: &Batch, samples: u64) -> Kind {
    let work = node.work;
    match op.def().fusion {
        FusionKind::Matrix => contraction(node, batch, samples),
        FusionKind::Control | FusionKind::View | FusionKind::Free => Kind::Free,
        _ if op == Opcode::Convert || op == Opcode::Copy => Kind::Free,
        _ if work.flops + work.transcendentals <= 0.0 => Kind::Free,
        _ => Kind::Function(function(op)),
    }
}

/// A product of two tensors; a convolution is the product that libraries make of it.
fn contraction(node: &Node, batch: &Batch, samples: u64) -> Kind {
    let (own, scaled) = (Product::of(&node.rule), Product::of(&batch.rule(node, samples)));
    let (Some(own), Some(scaled)) = (own, scaled) else { return Kind::Free };
    let sums = own.sums(node.work.flops).max(1.0) as u64;
    let [n, rows, columns] =
        [scaled.batch * node.trips.max(1.0), scaled.rows, scaled.columns].map(|size| size.max(1.0) as u64);
    Kind::Contraction(Nest::batched(n, rows, columns, sums))
}

/// The function that an operation costs as much as.
fn function(op: Opcode) -> Function {
    match op {
        Opcode::Divide | Opcode::Remainder => Function::Divide,
        Opcode::Power | Opcode::Sqrt | Opcode::Rsqrt | Opcode::Cbrt => Function::Power,
        Opcode::Tanh | Opcode::Erf | Opcode::Atan2 => Function::Tanh,
        Opcode::Sine | Opcode::Cosine | Opcode::Tan => Function::Sine,
        Opcode::Logistic
        | Opcode::Exponential
        | Opcode::ExponentialMinusOne
        | Opcode::Log
        | Opcode::LogPlusOne => Function::Sigmoid,
        _ => Function::Simple,
    }
}
