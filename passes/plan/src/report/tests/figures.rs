//! Every figure of small placed programs, by hand: a device that reads and writes a byte a second starts a
//! kernel in half of one.

use super::*;
use crate::testing::{one_byte_a_second, staged};
use phzc_cost::{Pipeline, Schedule, Source};

/// A step of two stages and two microbatches: `x` is data, `w` a weight; each value has 32 bytes.
fn step() -> Module {
    staged(
        " {0}: (1, {}, may-alias) ",
        "0:;1:",
        r#"{"n_microbatches":2,"planned_secs":400,"lower_bound_secs":100,"stop":"limit"}"#,
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("w = f32[8] parameter(1)", "fwd", 0),
            ("h = f32[8] multiply(x, w)", "fwd", 0),
            ("k = f32[8] negate(h)", "fwd", 1),
            ("g = f32[8] multiply(k, h)", "bwd", 1),
            ("d = f32[8] multiply(g, x)", "bwd", 0),
            ("v = f32[8] add(w, d)", "upd", 0),
            ("ROOT t = (f32[8], f32[8]) tuple(v, k)", "upd", 0),
        ],
    )
}

/// Half of three arrays of 32 bytes, a microbatch's part, and the launch.
const HALF_OF_THREE: f64 = 48.5;

#[test]
fn each_figure_of_a_stage_is_the_sum_of_what_its_instructions_take() {
    let cluster = one_byte_a_second();
    let plan = plan(&step(), &cluster).expect("a legal header");
    let send_secs = cluster.send_secs(16.0, false);
    let [first, second] = &plan.stages[..] else { panic!("two stages") };
    let wanted = Stage {
        devices: [0, 0],
        group: None,
        mesh: String::new(),
        n_instrs: 6,
        forward_secs: HALF_OF_THREE,
        backward_secs: HALF_OF_THREE,
        recompute_secs: 0.0,
        weight_gradient_secs: HALF_OF_THREE,
        update_secs: 96.5,
        send_secs,
        n_in_flight: 2,
        ..first.clone()
    };
    assert_eq!(*first, wanted);
    let wanted = Stage {
        devices: [1, 1],
        n_instrs: 2,
        forward_secs: 32.5,
        backward_secs: HALF_OF_THREE,
        weight_gradient_secs: 0.0,
        update_secs: 0.0,
        send_secs: 0.0,
        n_in_flight: 1,
        parameter_bytes: 0.0,
        memory_bytes: second.memory_bytes,
        ..wanted
    };
    assert_eq!(*second, wanted);
    // Half of `x` is there at a time.
    assert_eq!(first.parameter_bytes, 48.0);
    assert_eq!((plan.n_devices, plan.n_microbatches, plan.memory_limit_bytes), (2, 2, 2048.0));
    assert_eq!((plan.planned_secs, plan.lower_bound_secs, plan.gap), (Some(400.0), Some(100.0), Some(0.75)));
    assert_eq!((plan.stop.as_deref(), &*plan.cluster, &*plan.schedule), (Some("limit"), "test", "1f1b"));
}

#[test]
fn a_breakdown_is_added_part_by_part() {
    let one = Breakdown { compute_secs: 1.0, memory_bound_secs: 2.0, collective_secs: 3.0, bubble_secs: 4.0 };
    let mut sum =
        Breakdown { compute_secs: 10.0, memory_bound_secs: 20.0, collective_secs: 30.0, bubble_secs: 40.0 };
    sum.add(&one);
    let wanted =
        Breakdown { compute_secs: 11.0, memory_bound_secs: 22.0, collective_secs: 33.0, bubble_secs: 44.0 };
    assert_eq!(sum, wanted);
}

#[test]
fn a_step_is_its_pipeline_and_then_its_update() {
    let cluster = one_byte_a_second();
    let plan = plan(&step(), &cluster).expect("a legal header");
    let send_secs = cluster.send_secs(16.0, false);
    let pipeline = Pipeline {
        forward_secs: vec![HALF_OF_THREE, 32.5],
        backward_secs: vec![HALF_OF_THREE; 2],
        weight_secs: vec![HALF_OF_THREE, 0.0],
        send_secs: vec![send_secs],
        n_microbatches: 2,
    };
    assert_eq!(plan.pipeline(), pipeline);
    assert_eq!(plan.once_secs, 96.5);
    assert_eq!(plan.time_secs, pipeline.step_secs(Schedule::OneFOneB) + 96.5);
    assert_eq!(plan.secs_by(Schedule::GPipe), pipeline.step_secs(Schedule::GPipe) + 96.5);
    // Both microbatches go on and come back over the boundary of the first stage, which is busy longest.
    let busy_secs = 4.0 * HALF_OF_THREE + 96.5;
    assert_eq!(plan.breakdown.memory_bound_secs, busy_secs);
    assert_eq!((plan.breakdown.compute_secs, plan.breakdown.collective_secs), (0.0, 4.0 * send_secs));
    let bubble_secs = plan.time_secs - busy_secs - 4.0 * send_secs;
    assert!((plan.breakdown.bubble_secs - bubble_secs).abs() < 1e-9, "{:?}", plan.breakdown);
}

#[test]
fn each_stage_s_sends_are_counted_onwards_and_back() {
    let cluster = one_byte_a_second();
    let plan = plan(&step(), &cluster).expect("a legal header");
    let each_secs = cluster.send_secs(16.0, false);
    let sends = |stage| CollectiveUse {
        kind: "send".to_owned(),
        axes: Vec::new(),
        stage,
        count: 2,
        bytes: 32.0,
        time_secs: 2.0 * each_secs,
        hidden_secs: 0.0,
    };
    assert_eq!(plan.collectives, [sends(0), sends(1)]);
}

#[test]
fn a_value_goes_past_stages_over_the_devices_of_the_narrower_one_and_slower_between_nodes() {
    // `h` is read whole by the two devices of the last stage; `s` depends on a parameter alone, and goes with
    // every microbatch.
    let module = staged(
        " {0}: (1, {}, may-alias) ",
        "0:;1:;2:x=2",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("w = f32[8] parameter(1)", "fwd", 0),
            ("h = f32[8] negate(x)", "fwd", 0),
            ("s = f32[8] negate(w)", "fwd", 0),
            ("k = f32[8] negate(s)", "fwd", 1),
            ("l = f32[8] multiply(h, k)", "fwd", 2),
            ("ROOT t = (f32[8], f32[8]) tuple(w, l)", "upd", 0),
        ],
    );
    let cluster = one_byte_a_second();
    let plan = plan(&module, &cluster).expect("a legal header");
    let bytes: Vec<(usize, u64, f64)> =
        plan.collectives.iter().map(|it| (it.stage, it.count, it.bytes)).collect();
    // Over the first boundary `h`, 2 x 32 bytes by one device, and `s`, once; over the second `h` and `k`, 2
    // x 32 bytes each.
    assert_eq!(bytes, [(0, 3, 96.0), (1, 3, 128.0)]);
    let secs: Vec<f64> = plan.stages.iter().map(|stage| stage.send_secs).collect();
    assert_eq!(secs, [cluster.send_secs(32.0, false), cluster.send_secs(32.0, true), 0.0]);
    assert!(secs[1] > secs[0], "another node is farther");
    let once = |bytes: f64, crosses| cluster.send_secs(bytes, crosses);
    let times: Vec<f64> = plan.collectives.iter().map(|it| it.time_secs).collect();
    assert_eq!(times, [2.0 * secs[0] + once(32.0, false), 2.0 * secs[1] + once(64.0, true)]);
    assert_eq!(plan.once_secs, once(64.0, true));
}

#[test]
fn stages_of_one_group_send_nothing_and_add_up() {
    let module = staged(
        "",
        "0:;1:",
        r#"{"n_microbatches":2,"schedule":"interleaved:2"}"#,
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("h = f32[8] negate(x)", "fwd", 0),
            ("ROOT k = f32[8] negate(h)", "fwd", 1),
        ],
    );
    let plan = plan(&module, &one_byte_a_second()).expect("a legal header");
    assert_eq!(plan.stages.iter().map(|stage| stage.send_secs).collect::<Vec<_>>(), [0.0, 0.0]);
    assert_eq!(plan.stages.iter().map(|stage| stage.group).collect::<Vec<_>>(), [Some(0), Some(0)]);
    assert_eq!((plan.n_devices, plan.collectives.iter().map(|it| it.time_secs).sum::<f64>()), (1, 0.0));
    // Both stages are those of the busiest group.
    let parts = plan.breakdown;
    assert_eq!((parts.memory_bound_secs, parts.collective_secs), (4.0 * 32.5, 0.0));
    assert_eq!(plan.time_secs, parts.memory_bound_secs + parts.bubble_secs);
}

#[test]
fn a_collective_over_a_part_of_the_batch_is_priced_per_microbatch_and_one_over_a_sum_once() {
    let module = staged(
        " {0}: (1, {}, may-alias) ",
        "0:x=2",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}", "fwd", 0),
            ("w = f32[4] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("all = f32[8,4] custom-call(x), custom_call_target=\"Sharding\"", "fwd", 0),
            ("h = f32[8,4] negate(all)", "fwd", 0),
            ("s = f32[4] reduce(x, zero), dimensions={0}, to_apply=add", "bwd", 0),
            ("v = f32[4] add(w, s)", "upd", 0),
            ("ROOT t = (f32[4], f32[8,4]) tuple(v, h)", "upd", 0),
        ],
    );
    let cluster = one_byte_a_second();
    let facts = derive(&module).expect("a legal header");
    assert_eq!(facts.problems, []);
    let plan = plan_of(&module, &facts, &cluster);
    let group = AxisGroup { size: 2, stride: 1 };
    let gather_secs = cluster.collective_secs(Collective::AllGather, 64.0, group);
    let reduce_secs = cluster.collective_secs(Collective::AllReduce, 16.0, group);
    let found = |kind: &str| {
        let own = plan.collectives.iter().find(|it| it.kind == kind).expect("it is there");
        (own.axes.join(","), own.stage, own.count, own.bytes, own.time_secs)
    };
    // The whole batch has 128 bytes: a gather of each half. The sum's collective is done once, after both.
    assert_eq!(found("all-gather"), ("x".to_owned(), 0, 2, 128.0, 2.0 * gather_secs));
    assert_eq!(found("all-reduce"), ("x".to_owned(), 0, 1, 16.0, reduce_secs));
    assert_eq!(plan.breakdown.collective_secs, 2.0 * gather_secs + reduce_secs);
    // 32 of the 64 bytes that a device has of `x` in, 16 bytes out, each time; `h` reads and writes 64 of
    // 128.
    let costs = costs_of(&module, &facts, &cluster);
    let of = |name: &str| {
        let (id, _) = module.entry().iter().find(|(_, it)| &*it.name == name).expect("it is there");
        costs[module.entry.index()][id.index()].clone()
    };
    let kernel =
        |times, secs, bytes| Cost { bound: Bound::Memory, times, secs, bytes, source: Source::Formula };
    let moved = |kind, times, secs, bytes| Cost {
        bound: Bound::Collective(kind, 1),
        times,
        secs,
        bytes,
        source: Source::Formula,
    };
    assert_eq!(of("all").parts, [moved(Collective::AllGather, 2, gather_secs, 64.0)]);
    assert_eq!(of("h").parts, [kernel(2, 128.5, 128.0)]);
    assert_eq!(of("s").parts, [kernel(2, 8.0, 8.0), moved(Collective::AllReduce, 1, reduce_secs, 16.0)]);
    assert_eq!(of("v").parts, [kernel(1, 48.5, 48.0)]);
    assert_eq!(of("x").parts, []);
    // Of one microbatch: half of what a device has of `x`, and of all of it; sums and results are whole.
    assert_eq!(["x", "all", "h", "s", "v"].map(|name| of(name).value_bytes), [32.0, 64.0, 128.0, 16.0, 16.0]);
    let memory_bytes = costs[module.entry.index()].iter().map(|it| it.memory_bytes).fold(0.0, f64::max);
    assert_eq!(memory_bytes, plan.stages[0].memory_bytes);
}

#[test]
fn a_kernel_is_bounded_by_its_units_its_traffic_or_its_launch() {
    let bound = |size: usize, instr: &str| {
        let text = format!(
            "HloModule m\nENTRY e {{ a = bf16[{size},{size}] parameter(0) ROOT b = bf16[{size},{size}] {instr} }}"
        );
        let module = parse(&text).expect("legal");
        let costs = costs_of(&module, &derive(&module).expect("no notes"), &cluster());
        costs[module.entry.index()][1].parts[0].bound
    };
    let product = "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let of = |instr: &str| [64, 8192].map(|size| bound(size, instr));
    assert_eq!(of("negate(a)"), [Bound::Launch, Bound::Memory]);
    assert_eq!(of(product), [Bound::Launch, Bound::Matrix]);
}

#[test]
fn collectives_that_the_plan_does_not_mention_are_counted_as_often_as_they_run() {
    let text = "HloModule m, frontend_attributes={phzc.mesh=\"x=2\"}
        b { p = (s32[], f32[4]) parameter(0), sharding={{replicated}, {devices=[2]<=[2]}}
        i = s32[] get-tuple-element(p), index=0, sharding={replicated}
        v = f32[4] get-tuple-element(p), index=1, sharding={devices=[2]<=[2]}
        o = s32[] constant(1), sharding={replicated}
        j = s32[] add(i, o), sharding={replicated}
        n = f32[4] negate(v), sharding={replicated}
        c = f32[4] custom-call(n), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]}
        ROOT r = (s32[], f32[4]) tuple(j, c), sharding={{replicated}, {devices=[2]<=[2]}} }
        k { p = (s32[], f32[4]) parameter(0), sharding={{replicated}, {devices=[2]<=[2]}}
        i = s32[] get-tuple-element(p), index=0, sharding={replicated}
        n = s32[] constant(5), sharding={replicated}
        ROOT l = pred[] compare(i, n), direction=LT, sharding={replicated} }
        ENTRY e { z = s32[] constant(0), sharding={replicated}
        a = f32[4] parameter(0), sharding={devices=[2]<=[2]}
        t = (s32[], f32[4]) tuple(z, a), sharding={{replicated}, {devices=[2]<=[2]}}
        ROOT w = (s32[], f32[4]) while(t), condition=k, body=b, sharding={{replicated}, {devices=[2]<=[2]}} }";
    let module = parse(text).expect("legal");
    let plan = plan(&module, &one_byte_a_second()).expect("a legal header");
    let counts: Vec<(&str, u64, f64)> =
        plan.collectives.iter().map(|it| (&*it.kind, it.count, it.bytes)).collect();
    assert_eq!((plan.n_implicit_collectives, counts), (5, vec![("all-gather", 5, 80.0)]));
    // A remark on `n` says so of its kernel and of its collective.
    let costs = costs_of(&module, &derive(&module).expect("a legal header"), &one_byte_a_second());
    let times = costs.iter().flatten().map(|it| it.parts.iter().map(|cost| cost.times).collect::<Vec<_>>());
    assert_eq!(times.filter(|it| it.len() > 1).collect::<Vec<_>>(), [[5, 5]]);
}

#[test]
fn a_gap_is_the_share_of_the_plan_above_the_bound_and_rounding_is_none() {
    let gap = |planned: &str, bound: &str| {
        let note = format!("{{\"planned_secs\":{planned},\"lower_bound_secs\":{bound}}}");
        let module = staged("", "0:", &note, &[("ROOT a = f32[8] parameter(0)", "fwd", 0)]);
        plan(&module, &one_byte_a_second()).expect("a legal header").gap
    };
    assert_eq!(gap("8", "6"), Some(0.25));
    assert_eq!(gap("8", "7.999999999"), Some(0.0));
    assert_eq!(gap("8", "null"), None);
}

#[test]
fn products_are_spread_over_all_devices_as_often_as_they_run() {
    let state = "(s32[], f32[8,8])";
    let product = "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let text = format!(
        "HloModule m
        more {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(4)
          ROOT c = pred[] compare(i, n), direction=LT }}
        step {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
          j = s32[] add(i, one) x = f32[8,8] get-tuple-element(p), index=1 y = f32[8,8] {product}
          ROOT t = {state} tuple(j, y) }}
        ENTRY e {{ x = f32[8,8] parameter(0) zero = s32[] constant(0) s = {state} tuple(zero, x)
          w = {state} while(s), condition=more, body=step a = f32[8,8] get-tuple-element(w), index=1
          b = f32[8,8] {product} c = f32[8,8] add(a, b) ROOT d = f32[8,8] tanh(c) }}"
    );
    let module = phzc_ir::parse(&text).expect("legal");
    let facts = derive(&module).expect("no header");
    let n_alike = vec![3.0; module.entry().instrs.len()];
    // Four in the loop, and one that stands for three: 2 * 8^3 operations each, on eight devices.
    let cluster = one_byte_a_second();
    let rate = crate::pricing::products_per_sec(&cluster, "tf32");
    let secs = price::products_secs(&module, &facts, &cluster, &n_alike);
    assert!((secs - 7.0 * 1024.0 / rate / 8.0).abs() < 1e-12, "{secs}");
}

#[test]
fn the_largest_tensors_are_no_scalars_and_lie_first() {
    let text = "HloModule m
        ENTRY e { s = f32[] parameter(0) x = f32[4] parameter(1) y = f32[8] parameter(2) z = f32[4] tanh(x)
          r = f32[] negate(s) ROOT t = (f32[], f32[4], f32[8]) tuple(r, z, y) }";
    let module = phzc_ir::parse(text).expect("legal");
    let facts = derive(&module).expect("no header");
    let found = tensors::largest(&module, &facts);
    let found: Vec<(&str, usize, f64)> =
        found.iter().map(|group| (&*group.name, group.count, group.bytes)).collect();
    assert_eq!(found, [("y", 1, 32.0), ("x", 2, 16.0)]);
}
