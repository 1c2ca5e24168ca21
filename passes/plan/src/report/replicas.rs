//! The figures of a plan whose stages are there several times: each replica has its own microbatches and
//! devices. No update begins before the gradients of all replicas are there.

use super::json::whole;
use super::{CollectiveUse, Plan, StageDevice, figures_of_one};
use crate::derive::{Facts, Nature, Phase, is_move, is_naming, operand_origins, origin, origins};
use phzc_analysis::batch::batch_dims;
use phzc_analysis::graph::Graph;
use phzc_cost::Cluster;
use phzc_ir::{ArrayShape, InstrId, Module};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One replica of all stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// Microbatches that it runs in one step.
    pub n_microbatches: usize,
    /// Seconds of its microbatches; then it waits for the replica that takes longest for its own.
    pub pipeline_secs: f64,
    /// Seconds of what it does once per step: its part of the sums over all replicas, the update.
    pub once_secs: f64,
    /// Its stages, first to last.
    pub stages: Vec<ReplicaStage>,
}

/// A stage of a replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaStage {
    /// First and last device.
    pub devices: [usize; 2],
    /// Its device, and that one's usable memory, where the cluster has several kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<StageDevice>,
    /// Seconds of one microbatch's forward part.
    pub forward_secs: f64,
    /// Seconds of one microbatch's backward part.
    pub backward_secs: f64,
    /// Seconds of what is done once per step.
    pub update_secs: f64,
    /// Peak bytes on each device.
    #[serde(serialize_with = "whole")]
    pub memory_bytes: f64,
    /// The same over what may be used.
    pub memory_share: f64,
}

/// What a replica's figures depend on, but for the text: its microbatches, and of each device group its kind,
/// its place in a node, and how far that is from the first group's.
type Alike = (usize, Vec<(usize, usize, usize)>);

/// The figures of the first replica, with those of all, and the seconds of the step: until the last gradient
/// is there, then until the last update is done.
pub(super) fn joined(all: &[Plan], facts: &Facts) -> Plan {
    let first = all[0].clone();
    if all.len() == 1 {
        return first;
    }
    let longest = |a: &&Plan, b: &&Plan| pipeline_secs(a).total_cmp(&pipeline_secs(b));
    let slowest = all.iter().max_by(longest).expect("there are replicas");
    let once_secs = all.iter().map(|plan| plan.once_secs).fold(0.0, f64::max);
    let time_secs = pipeline_secs(slowest) + once_secs;
    let mut breakdown = slowest.breakdown;
    breakdown.bubble_secs += once_secs - slowest.once_secs;
    let replicas = all.iter().enumerate().map(|(at, plan)| replica(plan, facts, at)).collect();
    Plan { time_secs, once_secs, breakdown, replicas, ..first }
}

/// The figures of every replica as if there were no others.
pub(super) fn each(first: Plan, module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Plan> {
    let mut known: BTreeMap<Alike, Plan> = BTreeMap::from([(alike(facts, cluster, 0), first)]);
    let of = |at: usize| {
        let figures = || figures_of_one(module, &facts.of_replica(at), cluster);
        known.entry(alike(facts, cluster, at)).or_insert_with(figures).clone()
    };
    (0..facts.header.n_replicas()).map(of).collect()
}

/// Seconds until its own gradients are there.
fn pipeline_secs(plan: &Plan) -> f64 {
    plan.time_secs - plan.once_secs
}

fn replica(plan: &Plan, facts: &Facts, at: usize) -> Replica {
    Replica {
        n_microbatches: facts.header.replicas[at].n_microbatches,
        pipeline_secs: pipeline_secs(plan),
        once_secs: plan.once_secs,
        stages: stages(plan, facts, at),
    }
}

fn alike(facts: &Facts, cluster: &Cluster, at: usize) -> Alike {
    let header = facts.header.of_replica(at);
    let place = |&first: &usize| {
        let kind = cluster.kind_of(first);
        let (own, per_node) = (first - cluster.first_devices()[kind], cluster.around(first).per_node());
        (kind, own % per_node, first.wrapping_sub(header.firsts[0]))
    };
    (header.n_own_microbatches(), header.firsts.iter().map(place).collect())
}

fn stages(plan: &Plan, facts: &Facts, at: usize) -> Vec<ReplicaStage> {
    let header = facts.header.of_replica(at);
    let stage = |(index, stage): (usize, &super::Stage)| ReplicaStage {
        devices: header.devices(index),
        device: stage.device.clone(),
        forward_secs: stage.forward_secs,
        backward_secs: stage.backward_secs,
        update_secs: stage.update_secs,
        memory_bytes: stage.memory_bytes,
        memory_share: stage.memory_share(plan.memory_limit_bytes),
    };
    plan.stages.iter().enumerate().map(stage).collect()
}

/// What the replicas of a stage sum up over one another, once per step.
pub(super) struct Summed {
    /// Seconds per stage; none if there is one replica.
    pub secs: Vec<f64>,
    /// One entry per stage.
    pub uses: Vec<CollectiveUse>,
}

/// The sums over microbatches that updates read, as one message per stage in a ring of the replicas.
pub(super) fn summed(module: &Module, facts: &Facts, cluster: &Cluster) -> Summed {
    let header = &facts.header;
    let mut found = Summed { secs: vec![0.0; header.meshes.len()], uses: Vec::new() };
    if header.replicas.is_empty() {
        return found;
    }
    for (stage, bytes) in
        summed_bytes(module, facts).into_iter().enumerate().filter(|(_, bytes)| *bytes > 0.0)
    {
        let time_secs = ring_secs(cluster, &header.each_devices(header.group(stage)), bytes);
        found.secs[stage] = time_secs;
        let (kind, axes) = ("all-reduce".to_owned(), vec!["replicas".to_owned()]);
        found.uses.push(CollectiveUse { kind, axes, stage, count: 1, bytes, time_secs, hidden_secs: 0.0 });
    }
    found
}

/// A reduce-scatter and an all-gather in a ring: each replica sends an `n`-th to the next, `2 (n - 1)` times,
/// every device to its like (Patarasuk and Yuan, JPDC 2009).
pub fn ring_secs(cluster: &Cluster, replicas: &[[usize; 2]], bytes: f64) -> f64 {
    let n = replicas.len();
    let part = bytes / n as f64;
    let hop = |at: usize| cluster.send_between_secs(part, [replicas[at], replicas[(at + 1) % n]]);
    2.0 * (n as f64 - 1.0) * (0..n).map(hop).fold(0.0, f64::max)
}

/// Per stage: bytes on one device of the sums over microbatches that updates read, where that is least.
pub(super) fn summed_bytes(module: &Module, facts: &Facts) -> Vec<f64> {
    let all = &facts.comps[module.entry.index()];
    let mut bytes = vec![0.0; facts.header.meshes.len()];
    for ((maker, leaf), read) in sums(module, facts) {
        let made = &all[maker.index()];
        // A reduce-scatter comes first: each device then has a part of the gradient to sum up.
        let moved = read.iter().map(|&(reader, leaf)| all[reader.index()].bytes[leaf]).sum::<f64>();
        bytes[made.stage] += made.bytes[leaf].min(moved);
    }
    bytes
}

/// Bytes of all sums over microbatches that updates read, on all devices of a replica together if none is
/// there twice.
pub fn whole_summed_bytes(module: &Module, facts: &Facts) -> f64 {
    let bytes = |(maker, leaf): (InstrId, usize)| {
        let leaves = module.entry().instr(maker).shape.leaves();
        leaves.get(leaf).and_then(|shape| shape.as_array()).map_or(0.0, ArrayShape::bytes)
    };
    sums(module, facts).into_keys().map(bytes).sum()
}

/// A leaf of an instruction's value.
type Value = (InstrId, usize);

/// The sums over microbatches that updates read or the program returns, each with the values that are read of
/// it: itself, or what changes of its layout make of it.
fn sums(module: &Module, facts: &Facts) -> BTreeMap<Value, BTreeSet<Value>> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let is_update = |id: InstrId| all[id.index()].phase == Phase::Update;
    let mut found: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    let readers = comp.iter().filter(|(id, instr)| is_update(*id) && !is_naming(instr) && !is_move(instr));
    for read in readers.flat_map(|(_, instr)| operand_origins(comp, instr)) {
        let mut maker = read;
        while is_update(maker.0) && is_move(comp.instr(maker.0)) {
            maker = origin(comp, comp.instr(maker.0).operands[0], maker.1);
        }
        let is_sum = all[maker.0.index()].natures.get(maker.1) == Some(&Nature::Sum);
        if is_sum && !is_update(maker.0) {
            found.entry(maker).or_default().insert(read);
        }
    }
    let (graph, returned) = (Graph::build(module), origins(comp, comp.root));
    let dims = batch_dims(&graph);
    for value @ (maker, leaf) in returned {
        let is_sum = all[maker.index()].natures.get(leaf) == Some(&Nature::Sum);
        let tensor = graph.values[module.entry.index()][maker.index()].get(leaf);
        let is_joined = tensor.is_some_and(|&tensor| dims[tensor as usize] != 0);
        if is_sum && !is_joined && !is_update(maker) {
            found.entry(value).or_default().insert(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::staged;

    /// A step of four microbatches of a device: a gradient of 8 bytes and its update.
    fn step(replicas: &str) -> Plan {
        step_with(replicas, &[("v = f32[2] add(w, g)", "upd", 0), ("ROOT t = (f32[2]) tuple(v)", "upd", 0)])
    }

    /// The same with other last lines.
    fn step_with(replicas: &str, last: &[(&str, &str, usize)]) -> Plan {
        let given = [
            ("x = f32[8,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("g = f32[2] reduce(x, zero), dimensions={0}, to_apply=add", "bwd", 0),
        ];
        let lines = [&given[..], last].concat();
        let updates = "{0}: (1, {}, may-alias)";
        let mut module = staged(updates, "0:", r#"{"n_microbatches":4}"#, &lines);
        module.set_note(phzc_ir::notes::REPLICAS, replicas);
        let cluster = Cluster::named("a100-8x2").expect("a cluster");
        super::super::plan(&module, &cluster).expect("legal")
    }

    #[test]
    fn a_step_is_as_long_as_the_slowest_replicas_and_sums_up_gradients_once() {
        let (even, uneven) = (step("2:0;2:8"), step("1:0;3:8"));
        let [short, long] = [&uneven.replicas[0], &uneven.replicas[1]];
        assert_eq!(uneven.time_secs, long.pipeline_secs + short.once_secs.max(long.once_secs));
        assert!(short.pipeline_secs < long.pipeline_secs && even.time_secs < uneven.time_secs);
        let sums: Vec<_> = even.collectives.iter().filter(|it| it.axes == ["replicas"]).collect();
        assert_eq!(sums.iter().map(|it| (it.count, it.bytes)).collect::<Vec<_>>(), [(1, 8.0)]);
        assert_eq!(even.n_devices, 2);
    }

    /// Bytes that replicas sum up.
    fn summed(plan: &Plan) -> f64 {
        plan.collectives.iter().filter(|it| it.axes == ["replicas"]).map(|it| it.bytes).sum()
    }

    #[test]
    fn what_is_returned_is_summed_up_unless_each_microbatch_has_its_part() {
        let with = |value, root| {
            let last = [(value, "fwd", 0), ("v = f32[2] add(w, g)", "upd", 0), (root, "upd", 0)];
            summed(&step_with("2:0;2:8", &last))
        };
        let sum = "h = f32[2] reduce(x, zero), dimensions={0}, to_apply=add";
        let of_sum = with(sum, "ROOT t = (f32[2], f32[2]) tuple(v, h)");
        let of_parts = with("n = f32[8,2] negate(x)", "ROOT t = (f32[2], f32[8,2]) tuple(v, n)");
        assert_eq!((of_sum, of_parts), (16.0, 8.0));
    }

    #[test]
    fn replicas_whose_stages_are_farther_apart_take_longer() {
        let lines = [
            ("x = f32[8,65536] parameter(0)", "fwd", 0),
            ("a = f32[8,65536] negate(x)", "fwd", 0),
            ("ROOT b = f32[8,65536] tanh(a)", "fwd", 1),
        ];
        let mut module = staged("", "0:;1:", r#"{"n_microbatches":4}"#, &lines);
        module.set_note(phzc_ir::notes::REPLICAS, "2:0,1;2:8,16");
        let cluster = Cluster::named("a100-8x4").expect("a cluster");
        let plan = super::super::plan(&module, &cluster).expect("legal");
        assert!(plan.replicas[0].pipeline_secs < plan.replicas[1].pipeline_secs, "{:?}", plan.replicas);
    }

    #[test]
    fn a_ring_of_two_sends_what_there_is_once_each_way() {
        let cluster = Cluster::named("a100-8x2").expect("a cluster");
        let one = cluster.send_between_secs(5e8, [[0, 0], [8, 8]]);
        assert!((ring_secs(&cluster, &[[0, 0], [8, 8]], 1e9) - 2.0 * one).abs() < 1e-12);
    }
}
