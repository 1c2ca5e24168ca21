//! Which bytes go from one kind of nodes to another: between stages, and where replicas sum up gradients.

use super::replicas::summed_bytes;
use super::sends::{Traffic, narrowest, traffic};
use crate::derive::Facts;
use phzc_cost::Cluster;
use phzc_ir::Module;
use std::collections::BTreeMap;

/// Bytes of one step from one kind of nodes to another, by their places.
pub fn crossings(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<([usize; 2], f64)> {
    let mut found: BTreeMap<[usize; 2], f64> = BTreeMap::new();
    let mut add = |[from, to]: [usize; 2], bytes: f64| {
        if from != to && bytes > 0.0 {
            *found.entry([from, to]).or_default() += bytes;
        }
    };
    let [up, down] = traffic(module, facts);
    for at in 0..facts.header.n_replicas() {
        let own = facts.header.of_replica(at);
        for (boundary, (up, down)) in up.iter().zip(&down).enumerate() {
            let [a, b] = [boundary, boundary + 1].map(|stage| cluster.kind_of(own.devices(stage)[0]));
            let bytes = |it: &Traffic| narrowest(facts, boundary) * it.of_step(own.n_own_microbatches());
            add([a, b], bytes(up));
            add([b, a], bytes(down));
        }
    }
    if !facts.header.replicas.is_empty() {
        for (stage, bytes) in summed_bytes(module, facts).into_iter().enumerate() {
            let whole = bytes * facts.header.meshes[stage].n_devices() as f64;
            hops(facts, cluster, stage).into_iter().for_each(|(ends, share)| add(ends, share * whole));
        }
    }
    found.into_iter().collect()
}

/// The hops of the ring in which replicas of a stage sum up gradients, by the kinds of nodes at their ends,
/// each with the part of the gradients' bytes that goes over it: a reduce-scatter and an all-gather.
fn hops(facts: &Facts, cluster: &Cluster, stage: usize) -> Vec<([usize; 2], f64)> {
    let replicas = facts.header.each_devices(facts.header.group(stage));
    let (n, kind) = (replicas.len(), |at: usize| cluster.kind_of(replicas[at % replicas.len()][0]));
    let share = 2.0 * (n as f64 - 1.0) / n as f64;
    (0..n).map(|at| ([kind(at), kind(at + 1)], share)).collect()
}

#[cfg(test)]
mod tests {
    use super::crossings;
    use crate::derive::derive;
    use crate::testing::staged;
    use phzc_cost::Cluster;
    use phzc_ir::notes;

    /// Bytes between a kind of two nodes and one of one, of four microbatches on stages of a device each.
    fn bytes(replicas: &str) -> Vec<([usize; 2], f64)> {
        let lines = [
            ("x = f32[8,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("a = f32[8,2] negate(x)", "fwd", 0),
            ("b = f32[8,2] tanh(a)", "fwd", 1),
            ("c = f32[8,2] negate(b)", "bwd", 1),
            ("d = f32[8,2] multiply(c, x)", "bwd", 0),
            ("g = f32[2] reduce(d, zero), dimensions={0}, to_apply=add", "bwd", 0),
            ("v = f32[2] add(w, g)", "upd", 0),
            ("ROOT t = (f32[2]) tuple(v)", "upd", 0),
        ];
        let mut module = staged("{0}: (1, {}, may-alias)", "0:;1:", r#"{"n_microbatches":4}"#, &lines);
        module.set_note(notes::REPLICAS, replicas);
        let cluster = Cluster::named("a100-8x2+t4-4").expect("a cluster");
        crossings(&module, &derive(&module).expect("legal"), &cluster)
    }

    #[test]
    fn activations_go_on_and_their_gradients_back() {
        // The first replica is on one kind; the other sends three of four microbatches of 4 floats each way.
        assert_eq!(bytes("1:0,1;3:8,16"), [([0, 1], 48.0), ([1, 0], 48.0)]);
    }

    #[test]
    fn replicas_on_several_kinds_sum_up_gradients_over_both_ways() {
        // Two floats, half of them twice over each hop.
        assert_eq!(bytes("1:0,1;3:16,17"), [([0, 1], 8.0), ([1, 0], 8.0)]);
        assert_eq!(bytes("1:0,1;3:8,9"), []);
    }
}
