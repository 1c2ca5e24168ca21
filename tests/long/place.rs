//! `place` on the example programs: values flow the right way, memory suffices, and what a plan claims holds.

use super::plans::{DENSE, cluster, perceptron, planned, with_memory};
use phzc_cost::Cluster;
use phzc_ir::{Module, Opcode, parse, verify};
use phzc_passes::derive::{Facts, Phase, batch_splits, derive, is_naming, operand_origins};
use phzc_passes::report;

#[test]
fn activations_only_go_on_and_gradients_only_go_back() {
    for (name, program) in DENSE {
        let placed = planned(program, "fuse,shard,place{stages=2}", &cluster());
        assert!(verify(&placed).is_empty(), "{name}");
        let facts = derive(&placed).expect("a placed module");
        assert!(facts.problems.is_empty(), "{name}: {:?}", facts.problems);
        assert_eq!(wrong_ways(&placed, &facts), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_is_made_of_weights_alone_lies_where_it_is_read_wherever_it_stands() {
    let secs = |program: &str| {
        let placed = planned(program, "fuse,shard,place{stages=4,microbatches=4}", &cluster());
        assert_eq!(wrong_ways(&placed, &derive(&placed).expect("a placed module")), Vec::<String>::new());
        report::plan(&placed, &cluster()).expect("a placed module").time_secs
    };
    for (name, program) in DENSE.iter().take(2) {
        let (plain, early) = (secs(program), secs(&weights_first(program)));
        assert!((plain - early).abs() < 0.05 * plain, "{name}: {plain} s, weights prepared first {early} s");
    }
}

/// The program with what depends on no data (here: whole numbers) at its beginning.
fn weights_first(program: &str) -> String {
    let module = parse(program).expect("examples are programs");
    let (text, comp) = (phzc_ir::print(&module), module.entry());
    let mut depends = vec![false; comp.instrs.len()];
    for (id, instr) in comp.iter() {
        let is_data = instr.op == Opcode::Parameter && text.contains(&format!("{} = s32", instr.name));
        depends[id.index()] =
            is_data || operand_origins(comp, instr).any(|(maker, _)| depends[maker.index()]);
    }
    let (head, entry) = text.split_once("ENTRY").expect("an entry");
    let lines: Vec<&str> = entry.lines().collect();
    let (open, rest) = lines.split_first().expect("a line");
    let (body, close) = rest.split_at(comp.instrs.len());
    let mut order: Vec<usize> = (0..body.len()).collect();
    order.sort_by_key(|&line| depends[line]);
    let body: Vec<&str> = order.into_iter().map(|line| body[line]).collect();
    format!("{head}ENTRY{open}\n{}\n{}\n", body.join("\n"), close.join("\n"))
}

/// A factor of a weight (`a` is narrow) is read by the backward part where its large gradient is, in a later
/// stage than it is made in.
const NARROW: &str = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias), {2}: (3, {}, may-alias), {3}: (4, {}, may-alias) }
ENTRY main {
  x = f32[64,64] parameter(0)
  w1 = f32[64,64] parameter(1)
  w2 = f32[64,64] parameter(2)
  la = f32[64,2] parameter(3)
  lb = f32[2,64] parameter(4)
  h = f32[64,64] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[64,64] tanh(h)
  p_early = f32[64,64] cosine(p)
  q = f32[64,64] sine(h)
  b = f32[64,2] dot(h, la), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,2] tanh(b)
  e = f32[64,64] dot(a, lb), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  pq = f32[64,64] multiply(p, q)
  h2 = f32[64,64] add(pq, e)
  y = f32[64,64] dot(h2, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dy = f32[64,64] multiply(y, y)
  dh2 = f32[64,64] dot(dy, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw2 = f32[64,64] dot(h2, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dlb = f32[2,64] dot(a, dh2), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  da = f32[64,2] dot(dh2, lb), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  db = f32[64,2] multiply(da, a)
  dla = f32[64,2] dot(h, db), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dp = f32[64,64] multiply(dh2, p)
  dq = f32[64,64] multiply(dp, q)
  dr = f32[64,64] multiply(dq, p_early)
  dw1 = f32[64,64] dot(x, dr), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v1 = f32[64,64] subtract(w1, dw1)
  v2 = f32[64,64] subtract(w2, dw2)
  v3 = f32[64,2] subtract(la, dla)
  v4 = f32[2,64] subtract(lb, dlb)
  ROOT out = (f32[64,64], f32[64,64], f32[64,2], f32[2,64], f32[64,64]) tuple(v1, v2, v3, v4, y)
}";

#[test]
fn what_is_computed_again_waits_for_gradients_and_for_no_earlier_stage() {
    let passes = "fuse,shard,place{stages=2,microbatches=4,recompute=all}";
    let two = with_memory(1e9).submesh(2);
    for (name, program, cluster) in
        DENSE.iter().map(|it| (it.0, it.1, cluster())).chain([("narrow", NARROW, two)])
    {
        let placed = planned(program, passes, &cluster);
        let facts = derive(&placed).expect("a placed module");
        assert_eq!(wrong_ways(&placed, &facts), Vec::<String>::new(), "{name}");
        let again = placed.entry().instrs.iter().filter(|instr| instr.name.contains(".again")).count();
        assert!(again > 0 || name.ends_with("scan") || name == "mlp", "{name}");
        let last = placed
            .entry()
            .iter()
            .filter(|it| facts.comps[placed.entry.index()][it.0.index()].phase == Phase::Forward);
        let turn = last.rev().find(|it| it.1.op == Opcode::Dot).expect("a product").0;
        let early = placed.entry().iter().find(|it| it.1.name.contains(".again") && it.0 < turn);
        assert_eq!(early.map(|it| &*it.1.name), None, "{name}");
    }
}

#[test]
fn microbatches_can_be_split_as_the_batch_is() {
    // Compute counts and communication does not: the batch wants to be split as often as it can be.
    let cluster = with_memory(1e9);
    for (name, program) in DENSE {
        for stages in 1..=2 {
            let placed = planned(program, &format!("fuse,shard,place{{stages={stages}}},check"), &cluster);
            let facts = derive(&placed).expect("a placed module");
            let n = facts.header.n_microbatches;
            let uneven = batch_splits(&placed, &facts).into_iter().find(|split| !split.allows(n));
            assert_eq!(uneven, None, "{name}, {stages} stages, {n} microbatches");
        }
    }
}

/// What a plan says of itself: planned seconds, those of the report, and why the search stopped.
fn claims(program: &str, pipeline: &str, cluster: &Cluster) -> (f64, f64, String) {
    let placed = planned(program, pipeline, cluster);
    let plan = report::plan(&placed, cluster).expect("a placed module");
    (plan.planned_secs.expect("planned"), plan.time_secs, plan.stop.expect("a reason"))
}

#[test]
fn only_shard_s_own_plan_is_proved_best() {
    for options in ["stages=1,microbatches=8", "stages=2,microbatches=1"] {
        for cluster in [cluster(), with_memory(1e9)] {
            let pipeline = format!("fuse,shard,place{{{options}}}");
            let (planned, time, stop) = claims(DENSE[0].1, &pipeline, &cluster);
            // A float that went through a note can be off by its last bit.
            assert!((planned - time).abs() < 1e-12 * time, "{options}: {planned}, {time}");
            assert_eq!(stop, "stages-open", "{options}");
        }
    }
}

#[test]
fn a_plan_that_memory_forced_is_not_called_best() {
    // Messages take so long that nothing is split unless it must be.
    let far = |hbm_bytes: f64| {
        let mut cluster = with_memory(hbm_bytes);
        cluster.accelerator.collective_launch_secs = 1e-2;
        cluster
    };
    let pipeline = "fuse,shard,place{stages=1,microbatches=1,recompute=never}";
    let (free, program) = (far(1e9), DENSE[2].1);
    let placed = planned(program, pipeline, &free);
    let peak = report::plan(&placed, &free).expect("a placed module").stages[0].memory_bytes;
    let (before, ..) = claims(program, pipeline, &free);
    for part in [0.9, 0.8, 0.7] {
        let (planned, _, stop) = claims(program, pipeline, &far(part * peak));
        assert!(planned > before, "{part}: {planned}, without a limit {before}");
        assert_eq!(stop, "memory-gap", "{part}");
    }
}

#[test]
fn a_plan_that_computes_again_is_not_called_best_for_beating_plans_that_do_not() {
    for (name, program) in DENSE {
        let placed = planned(program, "fuse,shard,place{stages=1,recompute=all}", &cluster());
        let plan = report::plan(&placed, &cluster()).expect("a placed module");
        let again = placed.entry().instrs.iter().any(|instr| instr.name.contains(".again"));
        let (own, bound) = (plan.planned_secs.expect("noted"), plan.lower_bound_secs.expect("noted"));
        let plain = planned(program, "fuse", &cluster());
        let facts = derive(&plain).expect("no notes");
        let products =
            report::products_secs(&plain, &facts, &cluster(), &vec![1.0; plain.entry().instrs.len()]);
        assert!(!again || bound < own && plan.stop.as_deref() != Some("optimal"), "{name}: {bound}");
        // Whatever is computed again, each product is done once.
        assert!(products > 0.0 && products <= bound * (1.0 + 1e-9), "{name}: {products}, {bound}");
    }
}

#[test]
fn with_more_memory_one_stage_of_a_loop_takes_no_longer() {
    let (mut cluster, mut bytes, mut before_secs) = (cluster(), f64::INFINITY, 0.0);
    for at in 0..5 {
        let placed = planned(DENSE[3].1, "fuse,shard,place{stages=1}", &cluster);
        let plan = report::plan(&placed, &cluster).expect("a placed module");
        assert!(plan.time_secs >= before_secs * 0.999, "limit {at}: {} after {before_secs}", plan.time_secs);
        before_secs = f64::max(plan.time_secs, before_secs);
        bytes = if at == 0 { plan.stages[0].memory_bytes } else { 0.81 * bytes };
        cluster.accelerator.hbm_bytes = 0.99 * bytes / cluster.accelerator.usable;
    }
}

#[test]
fn a_plan_for_less_memory_fits_in_it() {
    for (name, program) in DENSE {
        let peak = |hbm_bytes: f64| {
            let cluster = with_memory(hbm_bytes);
            let placed = planned(program, "fuse,shard,place", &cluster);
            let plan = report::plan(&placed, &cluster).expect("a placed module");
            plan.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max)
        };
        let free = peak(1e9);
        let tight = peak(0.8 * free);
        assert!(tight <= 0.8 * free, "{name}: {tight} of {free}");
    }
}

/// Values that go to a stage that a schedule has passed by then.
fn wrong_ways(module: &Module, facts: &Facts) -> Vec<String> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut found = Vec::new();
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
        let read = &all[id.index()];
        for (maker, _) in operand_origins(comp, instr) {
            let made = &all[maker.index()];
            let is_wrong = match (made.phase, read.phase) {
                (Phase::Forward, Phase::Forward) => made.stage > read.stage,
                (Phase::Backward, Phase::Backward) => made.stage < read.stage,
                _ => false,
            };
            if is_wrong && comp.instr(maker).op != Opcode::Parameter {
                found.push(format!("{} -> {}", comp.instr(maker).name, instr.name));
            }
        }
    }
    found
}

#[test]
fn with_a_stage_per_layer_values_go_the_right_way_between_the_last_layers_too() {
    let program = phzc_ir::print(&perceptron(16));
    let options = "stages=4,microbatches=4,schedule=interleaved:4";
    let placed = planned(&program, &format!("fuse,shard,place{{{options}}}"), &cluster());
    let facts = derive(&placed).expect("a placed module");
    assert_eq!(wrong_ways(&placed, &facts), Vec::<String>::new());
}

#[test]
fn many_layers_are_spread_evenly_and_a_weight_stays_with_its_layer() {
    let program = phzc_ir::print(&perceptron(40));
    let placed = planned(&program, "fuse,shard,place{stages=4,microbatches=4,schedule=1f1b}", &cluster());
    assert!(verify(&placed).is_empty());
    let facts = derive(&placed).expect("a placed module");
    assert!(facts.problems.is_empty(), "{:?}", facts.problems);
    assert_eq!(wrong_ways(&placed, &facts), Vec::<String>::new());
    let stage_of = |name: &str| {
        let found = placed.entry().iter().find(|(_, instr)| *instr.name == *name);
        facts.comps[placed.entry.index()][found.expect("every instruction is still there").0.index()].stage
    };
    for layer in 1..=40 {
        let stages = ["h", "w", "v"].map(|kind| stage_of(&format!("{kind}{layer}")));
        assert_eq!(stages, [(layer - 1) / 10; 3], "layer {layer}");
    }
}

/// The perceptron behind pairs of products, no two pairs alike.
fn behind_unlike_pairs(n_layers: usize, n_pairs: usize) -> String {
    let mut before = String::from("  half = f32[] constant(0.5)\n  e0 = f32[64,256] parameter(0)\n");
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    for at in 1..=n_pairs {
        let (last, width) = (at - 1, 896 + 64 * at);
        before += &format!("  up{at} = f32[256,{width}] broadcast(half), dimensions={{}}\n");
        before += &format!("  down{at} = f32[{width},256] broadcast(half), dimensions={{}}\n");
        before += &format!("  wide{at} = f32[64,{width}] dot(e{last}, up{at}), {dims}\n");
        before += &format!("  e{at} = f32[64,256] dot(wide{at}, down{at}), {dims}\n");
    }
    let layers = phzc_ir::print(&perceptron(n_layers));
    let input = layers.lines().find(|line| line.contains("parameter(0)")).expect("an input");
    layers.replace(input, &format!("{before}  x0 = f32[64,256] tanh(e{n_pairs})"))
}

#[test]
fn what_lies_before_equal_layers_is_cut_too() {
    let passes = "fuse,shard,place{stages=4,microbatches=4,schedule=1f1b}";
    let placed = planned(&behind_unlike_pairs(20, 24), passes, &cluster());
    let facts = derive(&placed).expect("a placed module");
    assert_eq!(wrong_ways(&placed, &facts), Vec::<String>::new());
    let stage_of = |name: String| {
        let found = placed.entry().iter().find(|(_, instr)| *instr.name == *name);
        facts.comps[placed.entry.index()][found.expect("every instruction is still there").0.index()].stage
    };
    assert_eq!([stage_of("e1".into()), stage_of("e24".into()), stage_of("h20".into())], [0, 2, 3]);
}
