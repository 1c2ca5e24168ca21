//! What a microbatch has of an instruction's work, and what stages with meshes send and wait for.

use super::*;
use crate::testing::{one_byte_a_second, staged};

const ALIAS: &str = " {0}: (1, {}, may-alias) ";

/// Batches, rows and columns of one microbatch's part of a product of four microbatches: of `x`, whose first
/// dimension is the batch, and `w`.
fn part_of(product: &str, is_read_by_update: bool) -> [f64; 3] {
    let shape = product.split(' ').next().expect("a shape");
    let root =
        format!("ROOT t = (f32[8,8], {shape}) tuple(w, {})", if is_read_by_update { "p" } else { "n" });
    let module = staged(
        ALIAS,
        "0:",
        r#"{"n_microbatches":4}"#,
        &[
            ("x = f32[8,8] parameter(0)", "fwd", 0),
            ("w = f32[8,8] parameter(1)", "fwd", 0),
            ("y = f32[4,2,8] reshape(x)", "fwd", 0),
            (&format!("p = {product}"), "fwd", 0),
            (&format!("n = {shape} negate(p)"), "fwd", 0),
            (&root, "upd", 0),
        ],
    );
    let facts = derive(&module).expect("a legal header");
    let (id, instr) = module.entry().iter().find(|(_, it)| &*it.name == "p").expect("it is there");
    let own = &facts.comps[module.entry.index()][id.index()];
    let runs = price::op_runs(&facts, module.entry, id, instr);
    assert_eq!((runs.times, runs.share), (4.0, 0.25));
    let local = price::local(own, "tf32", runs);
    let part = local.product.expect("it is one");
    assert_eq!(local.work.flops, own.work.flops / 4.0);
    [part.batch, part.rows, part.columns]
}

#[test]
fn a_microbatch_has_a_part_of_the_loop_that_runs_over_the_batch() {
    let product = "f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(part_of(product, false), [1.0, 2.0, 8.0]);
    let turned = "f32[8,8] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
    assert_eq!(part_of(turned, false), [1.0, 8.0, 2.0]);
    // As many products as microbatches: one of each.
    let both = "f32[4,2,2] dot(y, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}";
    assert_eq!(part_of(both, false), [1.0, 2.0, 2.0]);
    // No loop counts products: a part of the rows.
    let square = "f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
    assert_eq!(part_of(square, false), [1.0, 2.0, 8.0]);
    // A part of what is summed up.
    let gradient = "f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    assert_eq!(part_of(gradient, true), [1.0, 8.0, 8.0]);
}

#[test]
fn only_what_is_put_off_of_a_stage_s_backward_part_is_a_gradient_of_a_weight() {
    let module = staged(
        ALIAS,
        "0:;1:",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("w = f32[8] parameter(1)", "fwd", 0),
            ("h = f32[8] multiply(x, w)", "fwd", 0),
            ("k = f32[8] negate(h)", "fwd", 1),
            ("e = f32[8] multiply(k, h)", "bwd", 1),
            ("g = f32[8] negate(e)", "bwd", 1),
            ("d = f32[8] multiply(e, x)", "bwd", 0),
            ("v = f32[8] add(w, d)", "upd", 0),
            ("ROOT t = (f32[8], f32[8]) tuple(v, g)", "upd", 0),
        ],
    );
    let plan = plan(&module, &one_byte_a_second()).expect("a legal header");
    let secs = |stage: usize| (plan.stages[stage].backward_secs, plan.stages[stage].weight_gradient_secs);
    // Half of three arrays of 32 bytes each, and of one: the kernel of `e` makes `g` too. `d` reads two and
    // writes one.
    assert_eq!([secs(0), secs(1)], [(48.5, 48.5), (48.5 + 16.0, 16.0)]);
}

/// Two stages on two devices each, the first of which gathers what it computes with.
fn gathering() -> Module {
    staged(
        "",
        "0:x=2;1:x=2",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}", "fwd", 0),
            ("all = f32[8,4] custom-call(x), custom_call_target=\"Sharding\"", "fwd", 0),
            ("h = f32[8,4] negate(all)", "fwd", 0),
            ("ROOT k = f32[8,4] negate(h)", "fwd", 1),
        ],
    )
}

#[test]
fn what_a_step_takes_is_work_collectives_and_waiting() {
    let cluster = one_byte_a_second();
    let plan = plan(&gathering(), &cluster).expect("a legal header");
    let gather_secs = cluster.collective_secs(Collective::AllGather, 64.0, AxisGroup { size: 2, stride: 1 });
    assert_eq!(plan.stages[0].forward_secs, 128.5 + gather_secs);
    let parts = plan.breakdown;
    let send_secs = 4.0 * plan.stages[0].send_secs;
    assert_eq!((parts.compute_secs, parts.memory_bound_secs), (0.0, 2.0 * 128.5));
    assert!(
        parts.collective_secs > 2.0 * gather_secs && parts.collective_secs <= 2.0 * gather_secs + send_secs
    );
    let sum = parts.memory_bound_secs + parts.collective_secs + parts.bubble_secs;
    assert!((sum - plan.time_secs).abs() < 1e-9, "{plan:?}");
}

#[test]
fn the_devices_of_a_stage_share_what_they_send() {
    let cluster = one_byte_a_second();
    let plan = plan(&gathering(), &cluster).expect("a legal header");
    // Each of two reads all of `h`, half of its 128 bytes at a time.
    assert_eq!(plan.stages[0].send_secs, cluster.send_secs(64.0, true));
    let sends: Vec<(u64, f64)> =
        plan.collectives.iter().filter(|it| it.kind == "send").map(|it| (it.count, it.bytes)).collect();
    assert_eq!(sends, [(2, 128.0)]);
}

#[test]
fn stages_of_one_node_are_near_wherever_it_is() {
    let lines: Vec<(String, &str, usize)> = (0..4)
        .map(|stage| match stage {
            3 => ("ROOT h3 = f32[8] negate(h2)".to_owned(), "fwd", 3),
            0 => ("h0 = f32[8] negate(x)".to_owned(), "fwd", 0),
            _ => (format!("h{stage} = f32[8] negate(h{})", stage - 1), "fwd", stage),
        })
        .collect();
    let given = ("x = f32[8] parameter(0)", "fwd", 0);
    let lines: Vec<_> = std::iter::once(given)
        .chain(lines.iter().map(|(text, phase, stage)| (&**text, *phase, *stage)))
        .collect();
    let module = staged("", "0:;1:;2:;3:", r#"{"n_microbatches":2}"#, &lines);
    let cluster = one_byte_a_second();
    let plan = plan(&module, &cluster).expect("a legal header");
    let secs: Vec<f64> = plan.stages.iter().map(|stage| stage.send_secs).collect();
    let send_secs = |crosses| cluster.send_secs(16.0, crosses);
    assert_eq!(secs, [send_secs(false), send_secs(true), send_secs(false), 0.0]);
}

#[test]
fn parameters_and_numbers_lie_where_they_are_read() {
    let sends = |read: &str| {
        let module = staged(
            ALIAS,
            "0:;1:",
            r#"{"n_microbatches":2}"#,
            &[
                ("x = f32[8] parameter(0)", "fwd", 0),
                ("w = f32[8] parameter(1)", "fwd", 0),
                ("h = f32[8] negate(x)", "fwd", 0),
                ("two = f32[] constant(2)", "fwd", 0),
                ("twos = f32[8] broadcast(two), dimensions={}", "fwd", 1),
                (&format!("k = f32[8] multiply(h, {read})"), "fwd", 1),
                ("ROOT t = (f32[8], f32[8]) tuple(w, k)", "upd", 1),
            ],
        );
        let plan = plan(&module, &one_byte_a_second()).expect("a legal header");
        plan.collectives.iter().map(|it| (it.count, it.bytes)).collect::<Vec<_>>()
    };
    // `h` alone is sent, half of it each time.
    assert_eq!([sends("w"), sends("twos"), sends("h")], [[(2, 32.0)]; 3]);
}

#[test]
fn a_loop_s_instructions_cost_what_one_iteration_does_as_often_as_it_runs() {
    let text = "HloModule m
        b { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
        v = f32[4] get-tuple-element(p), index=1 o = s32[] constant(1) j = s32[] add(i, o)
        n = f32[4] exponential(v) ROOT r = (s32[], f32[4]) tuple(j, n) }
        k { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(10) ROOT l = pred[] compare(i, n), direction=LT }
        ENTRY e { z = s32[] constant(0) a = f32[4] parameter(0) t = (s32[], f32[4]) tuple(z, a)
        w = (s32[], f32[4]) while(t), condition=k, body=b
        c = f32[10000] parameter(1) ROOT d = f32[10000] exponential(c) }";
    let module = parse(text).expect("legal");
    let costs = costs_of(&module, &derive(&module).expect("no notes"), &one_byte_a_second());
    let times = |name: &str| {
        let mut all = module.comps.iter().zip(&costs);
        all.find_map(|(comp, costs)| {
            let at =
                comp.instrs.iter().position(|instr| &*instr.name == name).filter(|_| !costs.is_empty())?;
            costs[at].parts.first().map(|cost| (cost.times, cost.secs))
        })
    };
    assert_eq!((times("v"), times("d").map(|(times, _)| times)), (None, Some(1)));
    assert_eq!(times("j").map(|(times, _)| times), Some(10));
}
