//! What searches over stages look at and find. The other tests say that a plan is right; a candidate too
//! many, a bound that is looser or a tie that falls otherwise shows here alone. Searches are reproducible: a
//! line that changes is a change of behaviour, to be read before it is taken over.

use super::Worth;
use super::forms::{Form, best};
use super::search_control::SearchControl;
use crate::plan_state::PlanState;
use crate::testing::{EXAMPLES, perceptron::perceptron, pipeline};
use insta::assert_snapshot;
use phzc_cost::Cluster;
use phzc_ir::{Module, parse};
use phzc_pass::pass::Context;
use phzc_plan::{plan_note, report};
use std::sync::Mutex;

const TWO_LAYERS: &str = include_str!("../../../../tests/golden/place/two_stages.ir");
const UNEQUAL: &str = include_str!("../../../../tests/golden/place/unequal_groups.ir");
/// Six layers, one after the other, of weights that lie behind one another.
const LOOP: &str = "HloModule m
cond {
  s = (s32[], f32[64,32], f32[6,32,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64,32], f32[6,32,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  x = f32[64,32] get-tuple-element(s), index=1
  ws = f32[6,32,32] get-tuple-element(s), index=2
  own = f32[1,32,32] dynamic-slice(ws, i, zero, zero), dynamic_slice_sizes={1,32,32}
  w = f32[32,32] reshape(own)
  y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,32] tanh(y)
  ROOT r = (s32[], f32[64,32], f32[6,32,32]) tuple(j, z, ws)
}
ENTRY main {
  x = f32[64,32] parameter(0)
  ws = f32[6,32,32] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[64,32], f32[6,32,32]) tuple(zero, x, ws)
  end = (s32[], f32[64,32], f32[6,32,32]) while(start), condition=cond, body=body
  last = f32[64,32] get-tuple-element(end), index=1
  ROOT out = (f32[64,32]) tuple(last)
}";
const SMALL: &str = include_str!("../../../../tests/clusters/small-memory-4.toml");
const LEAN: &str = include_str!("../../../../tests/clusters/lean-8.toml");

/// What joins the nodes of clusters that have one only.
const FAR: &str = "\n[[levels]]\nname = \"far\"\nbytes_per_sec = 1e9\nefficiency = 1.0\nlatency_secs = 1e-6\n\
    topology = \"switch\"\nsource = \"made up for tests\"\n";

/// A cluster with other figures than its file has: `key = value` lines instead of those with these keys.
fn cluster(text: &str, changes: &[(&str, &str)]) -> Cluster {
    let line = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        let change = changes.iter().find(|(changed, _)| *changed == key);
        change.map_or_else(|| line.to_owned(), |(key, value)| format!("{key} = {value}"))
    };
    let text = text.lines().map(line).collect::<Vec<_>>().join("\n");
    let text = if text.contains("nodes = 2") { text + FAR } else { text };
    Cluster::from_toml(&text).expect("a legal cluster")
}

/// Candidates done and evaluated, and instructions of all texts; then stages by their devices, microbatches,
/// schedule, what it is bounded by, and seconds: of the plan, of its bound, and of what else was listed.
fn searched(mut module: Module, cluster: &Cluster, options: &str) -> String {
    let done = Mutex::new(String::new());
    let progress = |phrase: &str| {
        let count = phrase.strip_prefix("place: ").and_then(|rest| rest.split_once(" candidates"));
        count.into_iter().for_each(|(count, _)| count.clone_into(&mut done.lock().expect("no panic")));
    };
    let mut cx = Context { progress: &progress, ..Context::new(cluster) };
    let steps = pipeline(&format!("fuse,shard,place{{{options}}}")).expect("a legal pipeline").steps;
    steps[..2].iter().for_each(|step| _ = step.run(&mut module, &mut cx).expect("layouts"));
    let state = PlanState::of(&module, &mut cx).expect("layouts");
    let control = SearchControl::new(&steps[2].options, &cx);
    let found = best(Form { sharded: &module, state }, &steps[2].options, &mut cx, (&control, Worth::ALL));
    let looked_at = || {
        let done = done.lock().expect("no panic").clone();
        format!("{done}, {} evaluated, {} instructions", control.n_evaluated(), control.n_instrs())
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => return format!("{}: {}", looked_at(), error.message),
    };
    let others = found.alternatives.iter().map(|other| format!(" {:.5e}", other.plan.time_secs));
    let others: String = others.collect();
    match found.best {
        Err(error) => format!("{}: {}; bound {:.6e}", looked_at(), error.message, found.lower_bound_secs),
        Ok(plan) => {
            let stop = plan_note::read(&plan.text)["stop"].as_str().unwrap_or_default().to_owned();
            let it = report::plan(&plan.text, cluster).expect("the planner's own text");
            let sizes: Vec<String> =
                it.stages.iter().map(|stage| (stage.devices[1] - stage.devices[0] + 1).to_string()).collect();
            let bytes = it.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max);
            let (parts, schedule, bound) = (it.n_microbatches, &it.schedule, found.lower_bound_secs);
            let plan = format!("{} x{parts} {schedule} {stop} {bytes} B", sizes.join("+"));
            format!("{}: {plan}, {:.6e} >= {bound:.6e}{others}", looked_at(), it.time_secs)
        }
    }
}

fn example(name: &str) -> Module {
    let (_, text) = EXAMPLES.iter().find(|(own, _)| *own == name).expect("an example");
    parse(text).expect("a legal program")
}

/// Searches with several options, a line each.
fn all(module: &Module, cluster: &Cluster, options: &[&str]) -> String {
    let line = |options: &&str| format!("{options}: {}\n", searched(module.clone(), cluster, options));
    options.iter().map(line).collect()
}

#[test]
fn two_layers_on_four_devices_with_hardly_any_memory() {
    let module = parse(TWO_LAYERS).expect("legal");
    let of = |options: &[&str]| all(&module, &cluster(SMALL, &[]), options);
    assert_snapshot!(of(&["", "top=4", "stages=2", "stages=3", "stages=2,microbatches=4", "recompute=never"]), @"
    : 14 of 14, 2 evaluated, 28 instructions: 4 x1 1f1b stages-open 61440 B, 6.823101e-4 >= 6.822922e-4
    top=4: 22 of 36, 11 evaluated, 216 instructions: 4 x1 1f1b stages-open 61440 B, 6.823101e-4 >= 6.822922e-4 6.82310e-4 6.82754e-4 6.83504e-4 6.83525e-4
    stages=2: 8 of 8, 7 evaluated, 84 instructions: 2+2 x64 zero-bubble stages-open 33664 B, 8.172857e-4 >= 6.822922e-4
    stages=3: 1 of 1, 1 evaluated, 0 instructions: the program can be cut into 2 stages at most, not into 3; bound 0.000000e0
    stages=2,microbatches=4: 6 of 6, 5 evaluated, 60 instructions: 2+2 x4 zero-bubble stages-open 47104 B, 8.787935e-4 >= 7.013422e-4
    recompute=never: 11 of 11, 2 evaluated, 28 instructions: 4 x1 1f1b stages-open 61440 B, 6.823101e-4 >= 6.822922e-4
    ");
    assert_snapshot!(of(&["recompute=all", "schedule=interleaved", "schedule=interleaved:2,stages=2,microbatches=8", "groups=equal", "groups=1+2", "max-plans=3"]), @"
    recompute=all: 8 of 8, 2 evaluated, 32 instructions: 4 x1 1f1b stages-open 61440 B, 6.834931e-4 >= 6.822922e-4
    schedule=interleaved: 10 of 10, 10 evaluated, 0 instructions: the program can be cut into 2 stages at most, not into 4; bound 0.000000e0
    schedule=interleaved:2,stages=2,microbatches=8: 2 of 2, 2 evaluated, 0 instructions: the program can be cut into 2 stages at most, not into 4; bound 0.000000e0
    groups=equal: 13 of 13, 2 evaluated, 28 instructions: 4 x1 1f1b stages-open 61440 B, 6.823101e-4 >= 6.822922e-4
    groups=1+2: 19 of 19, 7 evaluated, 84 instructions: 2+2 x64 zero-bubble stages-open 33664 B, 8.172857e-4 >= 6.822922e-4
    max-plans=3: 14 of 14, 2 evaluated, 28 instructions: 4 x1 1f1b stages-open 61440 B, 6.823101e-4 >= 6.822922e-4
    ");
    let lean = |bytes: &str| cluster(SMALL, &[("hbm_bytes", bytes)]);
    assert_snapshot!(all(&module, &lean("36864"), &["", "stages=1", "stages=2", "recompute=never"]), @"
    : 51 of 51, 2 evaluated, 131 instructions: 4 x8 1f1b stages-open 30720 B, 6.926352e-4 >= 6.822922e-4
    stages=1: 11 of 11, 2 evaluated, 131 instructions: 4 x8 1f1b stages-open 30720 B, 6.926352e-4 >= 6.823101e-4
    stages=2: 17 of 17, 16 evaluated, 230 instructions: 2+2 x64 zero-bubble stages-open 33664 B, 8.172857e-4 >= 6.822922e-4
    recompute=never: 36 of 36, 2 evaluated, 115 instructions: 4 x8 1f1b stages-open 30720 B, 6.926352e-4 >= 6.822922e-4
    ");
    assert_snapshot!(all(&module, &lean("28000"), &["", "stages=4", "stages=3"]), @"
    : 60 of 60, 2 evaluated, 131 instructions: 4 x32 1f1b stages-open 26112 B, 7.124918e-4 >= 6.822922e-4
    stages=4: 9 of 9, 9 evaluated, 0 instructions: the program can be cut into 2 stages at most, not into 4; bound 0.000000e0
    stages=3: 1 of 1, 1 evaluated, 0 instructions: the program can be cut into 2 stages at most, not into 3; bound 0.000000e0
    ");
    assert_snapshot!(all(&module, &lean("9000"), &[""]), @": 31 of 31, 30 evaluated, 1138 instructions: the program needs 46.3 kB on each device, `small-memory` has 9.0 kB to use; bound 0.000000e0");
}

#[test]
fn unequal_layers_on_four_devices() {
    let module = parse(UNEQUAL).expect("legal");
    let of = |options: &[&str]| all(&module, &cluster(SMALL, &[]), options);
    assert_snapshot!(of(&["", "top=3", "stages=3", "stages=2,schedule=gpipe", "groups=1+3", "schedule=zero-bubble"]), @"
    : 3 of 3, 2 evaluated, 48 instructions: 4 x1 1f1b optimal 53248 B, 7.749274e-4 >= 7.749274e-4
    top=3: 11 of 25, 13 evaluated, 494 instructions: 4 x1 1f1b optimal 53248 B, 7.749274e-4 >= 7.749274e-4 7.74927e-4 7.76783e-4 7.78742e-4
    stages=3: 1 of 1, 1 evaluated, 48 instructions: 1+1+2 x32 zero-bubble stages-open 43520 B, 8.638400e-4 >= 7.700518e-4
    stages=2,schedule=gpipe: 5 of 5, 1 evaluated, 22 instructions: 2+2 x32 gpipe stages-open 61440 B, 8.779763e-4 >= 8.034308e-4
    groups=1+3: 8 of 8, 7 evaluated, 154 instructions: 1+1+1+1 x32 zero-bubble stages-open 43264 B, 8.695651e-4 >= 7.785860e-4
    schedule=zero-bubble: 3 of 3, 2 evaluated, 48 instructions: 4 x1 1f1b optimal 53248 B, 7.749274e-4 >= 7.749274e-4
    ");
    let two_nodes = cluster(SMALL, &[("per_node", "2\nnodes = 2"), ("latency_secs", "1e-5")]);
    assert_snapshot!(all(&module, &two_nodes, &["", "stages=2", "stages=4,microbatches=8", "stages=2,schedule=interleaved:3"]), @"
    : 42 of 42, 2 evaluated, 48 instructions: 4 x1 1f1b stages-open 53248 B, 8.782885e-4 >= 7.785860e-4
    stages=2: 34 of 34, 8 evaluated, 132 instructions: 2+2+2+2 x4 interleaved:2 stages-open 55296 B, 1.060169e-3 >= 8.336041e-4
    stages=4,microbatches=8: 6 of 6, 1 evaluated, 22 instructions: 1+1+1+1 x8 zero-bubble stages-open 50176 B, 1.020716e-3 >= 8.038640e-4
    stages=2,schedule=interleaved:3: 3 of 3, 3 evaluated, 0 instructions: the program can be cut into 4 stages at most, not into 6; bound 0.000000e0
    ");
}

#[test]
fn a_perceptron_of_forty_layers_is_planned_by_four_of_them() {
    let module = perceptron(40);
    let of = |options: &[&str]| all(&module, &cluster(LEAN, &[("hbm_bytes", "20e6")]), options);
    assert_snapshot!(of(&["", "stages=4", "stages=3"]), @"
    : 5 of 5, 4 evaluated, 2256 instructions: 8 x1 1f1b layers-alike 3047424 B, 1.327901e-1 >= 1.327229e-1
    stages=4: 15 of 15, 14 evaluated, 6816 instructions: 2+2+2+2+2+2+2+2 x64 interleaved:2 stages-open 2689536 B, 1.361655e-1 >= 1.336896e-1
    stages=3: 1 of 1, 1 evaluated, 932 instructions: 4+2+2 x64 zero-bubble stages-open 2706944 B, 1.358422e-1 >= 1.327186e-1
    ");
    let lean = cluster(LEAN, &[("hbm_bytes", "2.75e6")]);
    assert_snapshot!(all(&module, &lean, &["", "stages=8,microbatches=8", "recompute=all,microbatches=4"]), @"
    : 56 of 56, 4 evaluated, 2360 instructions: 8 x8 1f1b stages-open 2721792 B, 1.340514e-1 >= 1.327229e-1
    stages=8,microbatches=8: 3 of 3, 2 evaluated, 1910 instructions: the program needs 3.3 MB on each device, `slow` has 2.8 MB to use; bound 0.000000e0
    recompute=all,microbatches=4: 7 of 7, 1 evaluated, 2049 instructions: 8 x4 1f1b stages-open 2736128 B, 1.739762e-1 >= 1.328782e-1
    ");
}

#[test]
fn a_loop_over_layers_is_kept_or_unrolled() {
    let looped = parse(LOOP).expect("legal");
    let of = |bytes: &str, options: &[&str]| all(&looped, &cluster(LEAN, &[("hbm_bytes", bytes)]), options);
    assert_snapshot!(of("1e6", &["", "stages=1", "stages=2", "max-plans=1", "groups=2+4", "top=2"]), @"
    : 3 of 3, 2 evaluated, 52 instructions: 8 x1 1f1b optimal 27648 B, 1.106040e-4 >= 1.106040e-4
    stages=1: 2 of 2, 2 evaluated, 52 instructions: 8 x1 1f1b optimal 27648 B, 1.106040e-4 >= 1.106040e-4
    stages=2: 6 of 6, 5 evaluated, 130 instructions: 4+4 x1 1f1b stages-open 18432 B, 2.220076e-4 >= 2.211960e-4
    max-plans=1: 1 of 1, 1 evaluated, 26 instructions: 8 x1 1f1b limit 27648 B, 1.106040e-4 >= 1.105935e-4
    groups=2+4: 11 of 11, 10 evaluated, 260 instructions: 4+4 x1 1f1b stages-open 18432 B, 2.220076e-4 >= 2.211960e-4
    top=2: 13 of 26, 13 evaluated, 456 instructions: 8 x1 1f1b optimal 27648 B, 1.106040e-4 >= 1.106040e-4 1.10604e-4 2.22008e-4
    ");
    assert_snapshot!(of("3e4", &["", "stages=2,microbatches=2"]), @"
    : 3 of 3, 2 evaluated, 52 instructions: 8 x1 1f1b optimal 27648 B, 1.106040e-4 >= 1.106040e-4
    stages=2,microbatches=2: , 0 evaluated, 0 instructions: 2 microbatches do not divide a batch of 1
    ");
}

#[test]
fn an_example_on_a_slow_network() {
    let slow = cluster(LEAN, &[("hbm_bytes", "16e9"), ("bytes_per_sec", "2e9"), ("latency_secs", "1e-5")]);
    assert_snapshot!(all(&example("mlp"), &slow, &["", "stages=2,schedule=interleaved"]), @"
    : 40 of 40, 2 evaluated, 508 instructions: 8 x1 1f1b stages-open 143940 B, 1.869271e-3 >= 1.633059e-3
    stages=2,schedule=interleaved: 7 of 7, 5 evaluated, 1288 instructions: 4+4+4+4 x4 interleaved:2 stages-open 149012 B, 2.696074e-3 >= 1.840380e-3
    ");
}

#[test]
fn layers_on_six_devices_of_two_nodes() {
    let six = [("per_node", "3"), ("nodes", "2"), ("hbm_bytes", "16e9"), ("bytes_per_sec", "4e9")];
    let of = |n_layers: usize, options: &[&str]| all(&perceptron(n_layers), &cluster(LEAN, &six), options);
    assert_snapshot!(of(5, &["", "stages=4", "stages=2,top=2", "groups=1+2,recompute=never"]), @"
    : 31 of 31, 23 evaluated, 1300 instructions: 2+2+2+2+2+2 x64 interleaved:2 stages-open 664576 B, 2.721981e-2 >= 2.230114e-2
    stages=4: 1 of 1, 1 evaluated, 120 instructions: 1+2+2+1 x64 zero-bubble stages-open 602112 B, 2.724717e-2 >= 2.212933e-2
    stages=2,top=2: 17 of 25, 27 evaluated, 1353 instructions: 3+3 x64 zero-bubble stages-open 1588224 B, 7.123753e-2 >= 6.651456e-2 7.12375e-2 7.22258e-2
    groups=1+2,recompute=never: 14 of 14, 13 evaluated, 728 instructions: 2+2+2+2+2+2 x64 interleaved:2 stages-open 664576 B, 2.721981e-2 >= 2.231212e-2
    ");
    assert_snapshot!(of(24, &["", "stages=5,microbatches=16", "stages=3,schedule=interleaved"]), @"
    : 40 of 40, 26 evaluated, 6516 instructions: 1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1 x64 interleaved:4 stages-open 2228224 B, 1.102783e-1 >= 1.069194e-1
    stages=5,microbatches=16: 1 of 1, 1 evaluated, 480 instructions: 2+1+1+1+1 x16 zero-bubble stages-open 2363392 B, 1.221510e-1 >= 1.061796e-1
    stages=3,schedule=interleaved: 7 of 7, 5 evaluated, 1429 instructions: 2+2+2+2+2+2+2+2+2+2+2+2 x32 interleaved:4 stages-open 2189312 B, 1.117985e-1 >= 1.069194e-1
    ");
}
