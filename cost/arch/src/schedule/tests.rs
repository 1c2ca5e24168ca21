//! Schedules of the reference's layers, and of small instances against all schedules.

use super::*;
use crate::testing::reference;
use serde_json::Value;

/// A layer of the reference, forward and backward, on 4 tensor and 2 vector cores.
fn layer(name: &str) -> Option<[Instance; 2]> {
    let graph = reference(&format!("llama2_mbs1_layer{name}_fused_graph.json"))?;
    let cycles = reference(&format!("llama2_mbs1_layer{name}_op_cycles_tc4x256_vc2.json"))?;
    let names: Vec<&String> = graph["nodes"].as_object().expect("nodes").keys().collect();
    let is_node = |name: &str, id: &Value| name.parse() == Ok(id.as_i64().expect("a number"));
    let at = |id: &Value| names.iter().position(|name| is_node(name, id)).expect("a node");
    let edges: Vec<(usize, usize)> =
        graph["edges"].as_array().expect("edges").iter().map(|edge| (at(&edge[0]), at(&edge[1]))).collect();
    let [forward, backward] = ["fwd", "bwd"].map(|pass| {
        names.iter().map(|name| op(cycles.get(name.as_str())?, pass)).collect::<Vec<Option<Op>>>()
    });
    let forward = Instance::new(&forward, &edges, 4, 2).expect("a sound instance");
    let backward = forward.reversed(backward.into_iter().flatten().collect()).expect("as many operators");
    Some([forward, backward])
}

fn op(value: &Value, pass: &str) -> Option<Op> {
    let units = match value["type"].as_str() {
        Some("TC") => Units::Tensor,
        Some("VC") => Units::Vector,
        _ => Units::Both,
    };
    let cycles = |at: usize| value[pass][at].as_f64().expect("a number");
    Some(Op { units, one_core_cycles: cycles(0), all_cores_cycles: cycles(1) })
}

/// Makespans of `reference/phaze.md`, section 8; for layer -1 there is none.
#[test]
fn the_reference_s_layers_are_scheduled_to_the_optimum() {
    for (name, published) in [("0", [149_772_332.0, 128_233_530.0]), ("-1", [f64::INFINITY; 2])] {
        for (instance, published) in layer(name).into_iter().flatten().zip(published) {
            let (start, list) = (std::time::Instant::now(), instance.list());
            let list_micros = start.elapsed().as_micros();
            let schedule = instance.solve(1_000_000);
            let micros = start.elapsed().as_micros();
            let made = format!("{} >= {} cycles in {micros} us", schedule.cycles, schedule.bound_cycles);
            eprintln!("layer {name}: {made}; list {} in {list_micros} us", list.cycles);
            instance.check(&list).expect("a sound schedule");
            instance.check(&schedule).expect("a sound schedule");
            assert!(schedule.cycles <= published, "{}, not {published}", schedule.cycles);
            assert!(schedule.is_optimal(), "{} above {}", schedule.cycles, schedule.bound_cycles);
        }
    }
}

/// Numbers below a limit, the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn instance(&mut self, n_ops: usize) -> Instance {
        let ops: Vec<Option<Op>> = (0..n_ops).map(|_| Some(self.op())).collect();
        let pairs = (0..n_ops).flat_map(|to| (0..to).map(move |from| (from, to)));
        let edges: Vec<(usize, usize)> = pairs.filter(|_| self.below(4) == 0).collect();
        Instance::new(&ops, &edges, 1 + self.below(2), 1 + self.below(2)).expect("a sound instance")
    }

    fn op(&mut self) -> Op {
        let units = [Units::Tensor, Units::Vector, Units::Both][self.below(3)];
        let one_core_cycles = (1 + self.below(9)) as f64;
        Op { units, one_core_cycles, all_cores_cycles: (one_core_cycles / (1 + self.below(3)) as f64).ceil() }
    }
}

/// The least makespan over all orders of placement and all choices of cores: some optimum starts every
/// operator as early as those before it in its own order of starts let it.
fn brute_force(instance: &Instance) -> f64 {
    let n = instance.ops.len();
    let choices = (0..1_usize << n).map(|bits| (0..n).map(|at| bits >> at & 1 == 1).collect::<Vec<bool>>());
    choices
        .map(|on_all_cores| shortest(instance, &mut Vec::new(), &on_all_cores))
        .fold(f64::INFINITY, f64::min)
}

fn shortest(instance: &Instance, order: &mut Vec<usize>, on_all_cores: &[bool]) -> f64 {
    let n = instance.ops.len();
    if order.len() == n {
        let rank = |at: usize| n - order.iter().position(|it| *it == at).expect("all are in it");
        let priorities: Vec<f64> = (0..n).map(|at| rank(at) as f64).collect();
        return list::place(instance, &priorities, on_all_cores.to_vec(), 0.0).cycles;
    }
    let mut least = f64::INFINITY;
    for at in 0..n {
        let is_ready = (0..n).all(|other| order.contains(&other) || !instance.graph.precedes(other, at));
        if !order.contains(&at) && is_ready {
            order.push(at);
            least = least.min(shortest(instance, order, on_all_cores));
            order.pop();
        }
    }
    least
}

#[test]
fn small_instances_get_the_shortest_of_all_schedules() {
    let mut random = Random(1);
    for _ in 0..60 {
        let instance = random.instance(5);
        let schedule = instance.solve(10_000);
        instance.check(&schedule).expect("a sound schedule");
        assert_eq!(schedule.cycles, brute_force(&instance), "{instance:?}");
        assert!(schedule.is_optimal(), "{schedule:?}");
    }
}

#[cfg(feature = "ilp")]
#[test]
fn branch_and_bound_agrees_with_the_integer_program() {
    let mut random = Random(2);
    for _ in 0..12 {
        let instance = random.instance(7);
        let (schedule, program) =
            (instance.solve(100_000), instance.solve_program(100_000).expect("HiGHS works"));
        instance.check(&program).expect("a sound schedule");
        assert_eq!(schedule.cycles, program.cycles, "{instance:?}");
    }
}

#[test]
fn operators_that_take_no_time_pass_on_their_edges() {
    let op = Op { units: Units::Vector, one_core_cycles: 3.0, all_cores_cycles: 3.0 };
    let instance = Instance::new(&[Some(op), None, Some(op)], &[(0, 1), (1, 2)], 0, 2).expect("sound");
    assert_eq!(instance.solve(1).starts, [0.0, 3.0]);
}

#[test]
fn a_cycle_is_an_error() {
    let error = Instance::new(&[None, None], &[(0, 1), (1, 0)], 1, 1).expect_err("a cycle");
    assert_eq!(error.message, "operators of a schedule precede each other in a cycle");
}
