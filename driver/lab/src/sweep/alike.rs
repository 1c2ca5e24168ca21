//! What orders of nodes have in common: which are the same to all stages, and what none of them beats.

use super::search::Problem;
use phzc_cost::fasop::{Degrees, Placement, Rate, Role, Times, Variant};

/// Figures that tell one order of nodes from another with the same degrees. Where two have the same, every
/// cut costs the same: stages have the same times, sends, memory and sums of gradients.
///
/// Sums are compared by those of one cut, which rates in proportion tell apart; with rates that depend on the
/// size of a message, or bytes that cost money between zones, each order is another.
pub(super) fn signature(placement: &Placement, times: &Times) -> Vec<u64> {
    let order = || placement.order.iter().map(|kind| *kind as u64).collect();
    let kinds = &placement.fleet.kinds;
    let zones = &placement.fleet.zones;
    let rates = kinds.iter().flat_map(|kind| [&kind.between_bits_per_sec, &kind.inside_bits_per_sec]);
    let mut rates = rates.chain(zones.rates.iter().flatten().flatten());
    if !zones.is_free() || !rates.all(Rate::is_constant) {
        return order();
    }
    let n_stages = placement.degrees.stages;
    let cut = even(placement.model.roles.len(), n_stages);
    let sends = times.boundary_secs.iter().map(|secs| secs.to_bits());
    let sums = (0..n_stages).map(|stage| placement.sum_secs(&cut, stage).to_bits());
    let limits = (0..n_stages).map(|stage| placement.limit_bytes(stage).to_bits());
    let stages = times.kinds.iter().map(|kind| *kind as u64).chain(sends).chain(sums).chain(limits);
    stages.chain([times.embedding_secs.to_bits()]).collect()
}

/// As many entries in each stage as can be.
fn even(n_entries: usize, n_stages: usize) -> Vec<usize> {
    (0..n_stages).map(|stage| (n_entries + stage) / n_stages).collect()
}

/// Seconds that no plan with these degrees beats, whatever the order of nodes: that of the glance
/// (`Bounding::glance_secs`), nothing sent or summed, with the stages' rates as good as any order makes them.
pub(super) fn any_order_secs(problem: &Problem, counts: &[usize], degrees: Degrees) -> f64 {
    let Some(n_longest) = longest(problem, counts, degrees) else { return f64::INFINITY };
    let power = degrees.tensor.trailing_zeros() as usize;
    let used: Vec<usize> = (0..counts.len()).filter(|kind| counts[*kind] > 0).collect();
    let secs = |kind: usize, entry: usize| {
        let times = &problem.model.times[kind][power];
        3.0 * times.forward_secs[entry] * times.growth[entry].factor(degrees.micro_batch)
    };
    let (mut rates, mut whole_secs) = (vec![0.0_f64; counts.len()], 0.0);
    let mut layer_secs = f64::INFINITY;
    for (entry, role) in problem.model.roles.iter().enumerate() {
        let least = used.iter().map(|kind| secs(*kind, entry)).fold(f64::INFINITY, f64::min);
        whole_secs += least;
        layer_secs = if *role == Role::Layer { layer_secs.min(least) } else { layer_secs };
        used.iter().for_each(|kind| rates[*kind] = rates[*kind].max(least / secs(*kind, entry)));
    }
    // A stage has the times of its last kind: that of a faster one is no worse for a bound.
    let mut fastest = 0.0_f64;
    for kind in used.iter().rev() {
        fastest = fastest.max(rates[*kind]);
        rates[*kind] = fastest;
    }
    let n_microbatches = (problem.model.batch / (degrees.data * degrees.micro_batch)) as f64;
    let factor = n_microbatches - (2.0 + n_microbatches.min(degrees.stages as f64)) / 3.0;
    let held_secs = if n_longest > 0 { n_longest as f64 * layer_secs } else { 0.0 };
    let longest_secs = held_secs.max(whole_secs / best_rates(&rates, counts, degrees.stages));
    whole_secs + factor.max(0.0) * longest_secs
}

/// How many layers some stage has at the least, as others have no room for more, were every stage on the kind
/// that has most of it; `None` where there is none for all.
fn longest(problem: &Problem, counts: &[usize], degrees: Degrees) -> Option<usize> {
    let &Problem { fleet, model, variant } = problem;
    let used = (0..counts.len()).filter(|kind| counts[*kind] > 0);
    let largest = used.max_by(|a, b| fleet.kinds[*a].memory_gib.total_cmp(&fleet.kinds[*b].memory_gib))?;
    let order = vec![largest; counts.iter().sum()];
    let placement = Placement { fleet, model, variant, order, degrees };
    let n_layers = model.roles.iter().filter(|role| **role == Role::Layer).count();
    let room = |stage: usize| {
        let [_, layer_bytes, _] = placement.role_bytes(stage);
        (placement.limit_bytes(stage) / layer_bytes).floor() as usize
    };
    let rooms: Vec<usize> = (0..degrees.stages).map(room).collect();
    let holds = |n: usize| rooms.iter().map(|room| (*room).min(n)).sum::<usize>() >= n_layers;
    let is_held = most_held(&placement, counts) >= n_layers as f64;
    (0..=n_layers).find(|n| is_held && holds(*n))
}

/// Layers, and parts of them, that all stages hold at the most: the stage that needs least for one has the
/// nodes with the most memory. A stage has as many nodes of its own as there are for each; where that is no
/// whole number, or one node is looked at only (FASOP's own form), no memory is a limit.
fn most_held(placement: &Placement, counts: &[usize]) -> f64 {
    let (n_stages, n_nodes) = (placement.degrees.stages, placement.order.len());
    let is_even = n_nodes.is_multiple_of(n_stages) || n_stages.is_multiple_of(n_nodes);
    if placement.variant != Variant::Strict || !is_even {
        return f64::INFINITY;
    }
    let kinds = &placement.fleet.kinds;
    let mut gib: Vec<f64> =
        kinds.iter().zip(counts).flat_map(|(kind, n)| std::iter::repeat_n(kind.memory_gib, *n)).collect();
    gib.sort_by(|a, b| b.total_cmp(a));
    let last = |stage: usize| ((stage + 1) * n_nodes).div_ceil(n_stages) - 1;
    let mut per_gib: Vec<f64> = (0..n_stages)
        .map(|stage| placement.limit_bytes(stage) / gib[0] / placement.role_bytes(stage)[1])
        .collect();
    per_gib.sort_by(|a, b| b.total_cmp(a));
    per_gib.iter().enumerate().map(|(stage, layers)| layers * gib[last(stage)]).sum()
}

/// The sum of the stages' rates in the order that makes it largest. Where there are fewer stages than nodes,
/// each has at least so many that it has none of the others' and goes as the slowest of them: the
/// fastest together. Else a node has at most so many stages.
fn best_rates(rates: &[f64], counts: &[usize], n_stages: usize) -> f64 {
    let nodes = rates.iter().zip(counts).flat_map(|(rate, n)| std::iter::repeat_n(*rate, *n));
    let mut nodes: Vec<f64> = nodes.collect();
    nodes.sort_by(|a, b| b.total_cmp(a));
    let n_nodes = nodes.len();
    if n_stages >= n_nodes {
        let each = n_stages.div_ceil(n_nodes);
        return nodes.iter().flat_map(|rate| std::iter::repeat_n(*rate, each)).take(n_stages).sum();
    }
    let per_stage = n_nodes / n_stages;
    nodes.chunks(per_stage).take(n_stages).filter_map(|group| group.last()).sum()
}
