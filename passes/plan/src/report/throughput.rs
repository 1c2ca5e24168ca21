//! What a step gets done: tokens or samples, and how much of the devices' peak its products use (MFU, HFU).
//!
//! FLOPs are those of products, as in the definition of MFU: dots, convolutions and the products in custom
//! calls, two per multiply-add. *Model* FLOPs are those of the program as it was given: each product once,
//! whole, whatever the plan makes of it. *Executed* FLOPs are what all devices do: recomputation, copies and
//! products that several devices repeat included.

use super::Plan;
use super::parallelism::labels::{Label, Labels, source};
use super::price::{op_runs, product_dtype};
use super::recompute;
use crate::derive::{Facts, Header, is_added, planned_comps};
use crate::pricing;
use phzc_analysis::graph::{Graph, Node, Tensor};
use phzc_cost::Cluster;
use phzc_ir::dtype::Class;
use phzc_ir::{CompId, Instr, InstrId, Key, Module, Opcode, View, flops};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a step gets done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Tokens of one step, where integers of the data look up rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_step: Option<u64>,
    /// Tokens of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_sec: Option<f64>,
    /// Samples of one step, where there are no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_step: Option<u64>,
    /// Samples of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_sec: Option<f64>,
    /// FLOPs of the products of the program as given, in one step; of what is partitioned, not known.
    pub model_flops: Option<f64>,
    /// FLOPs of products that all devices do in one step.
    pub executed_flops: f64,
    /// Seconds of the model's products at the peak of all devices, over those of the step.
    pub mfu: Option<f64>,
    /// The same of the executed products.
    pub hfu: Option<f64>,
}

/// FLOPs, and seconds that one device takes for them at the mean peak of all.
#[derive(Clone, Copy, Default)]
struct Products {
    flops: f64,
    peak_secs: f64,
}

/// What a planned step gets done; tokens and samples by the graph of the whole program, where there is one.
pub(super) fn throughput(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    plan: &Plan,
    whole: Option<(&Graph, &Labels)>,
) -> Throughput {
    let [model, executed] = products_of_all(module, facts, cluster);
    let used = |of: Products| {
        let device_secs = plan.time_secs * plan.n_devices as f64;
        (device_secs > 0.0 && device_secs.is_finite()).then(|| of.peak_secs / device_secs)
    };
    let tokens = whole.and_then(|(graph, labels)| tokens(module, graph, labels));
    let samples = whole.and_then(|(graph, labels)| samples(graph, labels)).filter(|_| tokens.is_none());
    let per_sec = |count: u64| (plan.time_secs > 0.0).then(|| count as f64 / plan.time_secs);
    Throughput {
        tokens_per_step: tokens,
        tokens_per_sec: tokens.and_then(per_sec),
        samples_per_step: samples,
        samples_per_sec: samples.and_then(per_sec),
        model_flops: whole.map(|_| model.flops),
        executed_flops: executed.flops,
        mfu: whole.and_then(|_| used(model)),
        hfu: used(executed),
    }
}

/// The products of the program as given, and those that all devices do, of all replicas.
fn products_of_all(module: &Module, facts: &Facts, cluster: &Cluster) -> [Products; 2] {
    let (header, peaks) = (&facts.header, Peaks::of(facts, cluster));
    if header.replicas.is_empty() {
        return products(module, facts, &peaks);
    }
    let mut sums = [Products::default(); 2];
    for at in 0..header.n_replicas() {
        let own = facts.of_replica(at);
        let share = own.header.n_own_microbatches() as f64 / header.n_microbatches as f64;
        let [model, executed] = products(module, &own, &peaks);
        sums[0].add_share(model, share);
        sums[1].add_share(executed, 1.0);
    }
    sums
}

/// The same of one replica, were the step its own.
fn products(module: &Module, facts: &Facts, peaks: &Peaks) -> [Products; 2] {
    let again: BTreeSet<InstrId> = recompute::again(module, facts).into_iter().map(|(id, _)| id).collect();
    let [mut model, mut executed] = [Products::default(); 2];
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let dtype = product_dtype(module, comp, instr);
            let is_again = comp == module.entry && again.contains(&id);
            if !is_again && !is_added(instr) {
                let flops = whole_flops(module, comp, id) * facts.executions[comp.index()];
                model.add(flops, peaks, dtype);
            }
            executed.add(executed_flops(facts, (comp, id, instr)), peaks, dtype);
        }
    }
    [model, executed]
}

/// The nodes of a plan's device groups, and how many devices these have: one entry where all are equal.
struct Peaks<'a>(Vec<(f64, &'a Cluster)>);

impl<'a> Peaks<'a> {
    fn of(facts: &Facts, cluster: &'a Cluster) -> Peaks<'a> {
        if !cluster.is_unlike() {
            return Peaks(vec![(1.0, cluster)]);
        }
        let groups = |header: &Header| -> Vec<(f64, &'a Cluster)> {
            let of = |group: usize| (header.meshes[group].n_devices() as f64, header.around(cluster, group));
            (0..header.n_groups()).map(of).collect()
        };
        match facts.header.replicas.len() {
            0 => Peaks(groups(&facts.header)),
            n_replicas => {
                Peaks((0..n_replicas).flat_map(|at| groups(&facts.header.of_replica(at))).collect())
            }
        }
    }

    /// What a device can do at most, on average.
    fn mean_flops_per_sec(&self, dtype: &str) -> f64 {
        let peak = |cluster: &Cluster| pricing::peak_flops_per_sec(cluster, dtype);
        match &self.0[..] {
            [(_, equal)] => peak(equal),
            several => {
                let sum: f64 = several.iter().map(|(n_devices, cluster)| n_devices * peak(cluster)).sum();
                sum / several.iter().map(|(n_devices, _)| n_devices).sum::<f64>()
            }
        }
    }
}

impl Products {
    fn add_share(&mut self, other: Products, share: f64) {
        self.flops += share * other.flops;
        self.peak_secs += share * other.peak_secs;
    }

    fn add(&mut self, flops: f64, peaks: &Peaks, dtype: &str) {
        if flops > 0.0 {
            self.flops += flops;
            self.peak_secs += flops / peaks.mean_flops_per_sec(dtype);
        }
    }
}

/// FLOPs of the products of one execution, all devices together.
fn whole_flops(module: &Module, comp: CompId, id: InstrId) -> f64 {
    let work = flops::work(&View::new(module, comp, id));
    if flops::is_contraction(module.comp(comp).instr(id).op) { work.flops } else { work.products }
}

/// FLOPs of the products that all devices do in one step.
fn executed_flops(facts: &Facts, (comp, id, instr): (CompId, InstrId, &Instr)) -> f64 {
    let own = &facts.comps[comp.index()][id.index()];
    let flops = if flops::is_contraction(instr.op) { own.work.flops } else { own.work.products };
    let runs = op_runs(facts, comp, id, instr);
    let n_devices = facts.header.meshes[own.stage].n_devices() as f64;
    flops * runs.share * runs.times * facts.executions[comp.index()] * n_devices
}

/// Rows that integers of the data look up in one step: the most of any look-up.
fn tokens(module: &Module, graph: &Graph, labels: &Labels) -> Option<u64> {
    let rows = |node: &Node| {
        let instr = module.comp(node.comp).instr(node.instr);
        let &[_, indices] = node.operands.get(..2)? else { return None };
        let data = source(graph, indices)?;
        let is_data = is_sequences(&graph.tensors[data as usize]) && labels.is_data[data as usize];
        let row: i64 = instr.ints(Key::SliceSizes).iter().product();
        let all: i64 = graph.tensors[node.results[0] as usize].dims.iter().product();
        is_data.then(|| (all / row.max(1)) as f64 * node.trips)
    };
    let is_look_up = |id: &usize| graph.opcode(module, *id as u32) == Some(Opcode::Gather);
    let all = (0..graph.nodes.len()).filter(is_look_up).filter_map(|id| rows(&graph.nodes[id]));
    all.reduce(f64::max).map(|rows| rows as u64)
}

/// Integers of samples and of places within them.
fn is_sequences(tensor: &Tensor) -> bool {
    let is_int = matches!(tensor.dtype.class(), Class::Signed | Class::Unsigned);
    tensor.param.is_some() && is_int && tensor.dims.len() >= 2
}

/// The batch: the first dimension of the largest input that is data.
fn samples(graph: &Graph, labels: &Labels) -> Option<u64> {
    let is_data = |id: &usize| {
        let tensor = &graph.tensors[*id];
        tensor.param.is_some() && labels.is_data[*id] && labels.of_dim(*id as u32, 0) == Label::Batch
    };
    let all = (0..graph.tensors.len()).filter(is_data).map(|id| &graph.tensors[id]);
    let largest =
        all.filter(|tensor| !tensor.dims.is_empty()).reduce(|a, b| if b.bytes > a.bytes { b } else { a })?;
    u64::try_from(largest.dims[0]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlike_devices_have_the_mean_of_their_peaks() {
        let [fast, slow] = ["a100-8", "t4-8"].map(|name| Cluster::named(name).expect("built in"));
        let peak = |peaks: &[(f64, &Cluster)]| Peaks(peaks.to_vec()).mean_flops_per_sec("f16");
        let [high, low] = [&fast, &slow].map(|cluster| peak(&[(8.0, cluster)]));
        assert_eq!((high, low), (312e12, 65e12));
        assert!((peak(&[(4.0, &fast), (12.0, &slow)]) - (high + 3.0 * low) / 4.0).abs() < 1e-3 * low);
    }
}
