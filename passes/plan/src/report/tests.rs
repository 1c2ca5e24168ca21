//! Times, collectives and the schema.

mod figures;
mod shares;
mod traces;

use super::*;
use insta::assert_snapshot;
use phzc_cost::{AxisGroup, Collective, Gemm, Role};
use phzc_ir::parse;

const STEP: &str = "HloModule m, frontend_attributes={phzc.mesh=\"x=2\",phzc.plan=\"{\\\"planned_secs\\\":4e-6,\\\"lower_bound_secs\\\":1e-6,\\\"gap\\\":0.5,\\\"stop\\\":\\\"optimal\\\"}\"}
    ENTRY e {
    a = bf16[4096,4096] parameter(0), sharding={devices=[1,2]<=[2]}
    b = bf16[4096,4096] parameter(1), sharding={devices=[2,1]<=[2]}
    d = bf16[4096,4096] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
    ROOT g = bf16[4096,4096] tanh(d), sharding={replicated}
    }";

fn cluster() -> Cluster {
    Cluster::named("a100-8").expect("a known cluster")
}

#[test]
fn time_is_kernels_and_collectives() {
    let (cluster, module) = (cluster(), parse(STEP).expect("legal"));
    let plan = plan(&module, &cluster).expect("a legal header");
    let n = 4096.0 * 4096.0;
    let (device, work) = (&cluster.accelerator, |flops, transcendentals, bytes| phzc_ir::Work {
        flops,
        transcendentals,
        bytes,
        ..phzc_ir::Work::default()
    });
    // Half of the sums each: both operands are read in half, the result is written whole.
    let dot = device.gemm_secs(&Gemm::new(4096.0, 4096.0, 2048.0), "bf16", Role::Write);
    let tanh = {
        let work = work(0.0, n, 4.0 * n);
        device.launch_secs + device.vector_secs(&work).max(device.memory_secs(work.bytes))
    };
    let reduce = cluster.collective_secs(Collective::AllReduce, 2.0 * n, AxisGroup { size: 2, stride: 1 });
    assert!((plan.time_secs - dot - tanh - reduce).abs() < 1e-12);
    assert_eq!(
        plan.breakdown,
        Breakdown {
            compute_secs: dot + tanh,
            memory_bound_secs: 0.0,
            collective_secs: reduce,
            bubble_secs: 0.0
        }
    );
    assert_eq!(
        plan.collectives,
        [CollectiveUse {
            kind: "all-reduce".to_owned(),
            axes: vec!["x".to_owned()],
            stage: 0,
            count: 1,
            bytes: 2.0 * n,
            time_secs: reduce,
            hidden_secs: 0.0,
        }]
    );
}

#[test]
fn the_json_has_the_documented_keys() {
    let json = plan_json(&parse(STEP).expect("legal"), &cluster()).expect("a legal header");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let mut keys = Vec::new();
    list_keys("", &value, &mut keys);
    let schema = include_str!("../../../../docs/plan-schema.md");
    for key in &keys {
        assert!(schema.contains(&format!("`{key}`")), "docs/plan-schema.md lacks `{key}`");
    }
    assert_eq!(keys.len(), 57);
}

/// `stages[].mesh`: every key once.
fn list_keys(prefix: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            if !value.is_array() || value[0].is_object() || !keys.contains(&path) {
                list_keys(&path, value, keys);
            }
        }),
        serde_json::Value::Array(items) if items.first().is_some_and(serde_json::Value::is_object) => {
            list_keys(&format!("{prefix}[]"), &items[0], keys);
        }
        _ => keys.push(prefix.to_owned()),
    }
}

/// Two stages on one device each, forward only, four microbatches.
#[test]
fn a_pipeline_has_a_bubble_and_sends() {
    let place =
        |stage: usize| format!("sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\"}}");
    let (first, second) = (place(0), place(1));
    let text = format!(
        "HloModule m, frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{{\\\"n_microbatches\\\":4}}\"}}
        ENTRY e {{
        a = bf16[4096,4096] parameter(0), {first}
        h = bf16[4096,4096] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {first}
        ROOT d = bf16[4096,4096] dot(h, h), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {second}
        }}"
    );
    let cluster = cluster();
    let plan = plan(&parse(&text).expect("legal"), &cluster).expect("a legal header");
    let (bytes, stage) = (4096.0 * 4096.0 * 2.0, &plan.stages[0]);
    let send = cluster.send_secs(bytes / 4.0, false);
    assert_eq!((plan.n_devices, stage.devices, plan.stages[1].devices), (2, [0, 0], [1, 1]));
    // A quarter of the rows each time; the output is a sum over the microbatches: a quarter of the sums, and
    // no fewer tiles.
    let product = |m, k| cluster.accelerator.gemm_secs(&Gemm::new(m, 4096.0, k), "bf16", Role::Write);
    let (rows, sums) = (product(1024.0, 4096.0), product(4096.0, 1024.0));
    assert!((stage.forward_secs - rows).abs() < 1e-12 && (plan.stages[1].forward_secs - sums).abs() < 1e-12);
    assert!(rows > sums, "few rows leave cores idle in the last wave");
    assert!((plan.time_secs - (4.0 * rows + sums + 4.0 * 2.0 * send)).abs() < 1e-12);
    assert!((plan.breakdown.bubble_secs - sums).abs() < 1e-12);
    assert_eq!(
        (plan.collectives[0].kind.as_str(), plan.collectives[0].count, plan.collectives[0].bytes),
        ("send", 4, bytes)
    );
}

/// The gradients of two stages for one weight are added by the update of the second: one message after all
/// microbatches.
#[test]
fn what_an_update_reads_of_another_stage_is_sent_once() {
    let place = |phase: &str, stage: usize| {
        format!(
            "sharding={{replicated}}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.stage=\"{stage}\"}}"
        )
    };
    let text = |reader: usize| {
        format!(
            "HloModule m, frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{{\\\"n_microbatches\\\":4}}\"}}
            ENTRY e {{
            a = bf16[4096,4096] parameter(0), {f0}
            g = bf16[4096,4096] dot(a, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, {b0}
            ROOT w = bf16[4096,4096] add(g, g), {update}
            }}",
            f0 = place("fwd", 0),
            b0 = place("bwd", 0),
            update = place("upd", reader),
        )
    };
    let cluster = cluster();
    let plans = [0, 1].map(|reader| plan(&parse(&text(reader)).expect("legal"), &cluster).expect("legal"));
    let bytes = 4096.0 * 4096.0 * 2.0;
    let of_sends = |plan: &Plan| {
        let sends = plan.collectives.iter().filter(|it| it.kind == "send");
        sends.map(|it| (it.count, it.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(plans.each_ref().map(of_sends), [vec![], vec![(1, bytes)]]);
    // The update waits for no message of its own stage.
    let more = plans[1].time_secs - plans[0].time_secs;
    assert!(more <= cluster.send_secs(bytes, false) && more > 0.0, "{more}");
}

/// Two stages of four microbatches with a backward part that repeats a product of the forward part.
fn recomputing() -> Module {
    let own = |phase: &str, stage: usize| {
        format!(
            "sharding={{replicated}}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.stage=\"{stage}\"}}"
        )
    };
    let dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let text = format!(
        "HloModule m, frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{{\\\"n_microbatches\\\":4}}\"}}
        ENTRY e {{
        a = bf16[4096,4096] parameter(0), {f0}
        h = bf16[4096,4096] dot(a, a), {dot}, {f0}
        k = bf16[4096,4096] dot(h, h), {dot}, {f1}
        g = bf16[4096,4096] dot(k, h), {dot}, {b1}
        moved = bf16[4096,4096] custom-call(a), custom_call_target=\"Sharding\", sharding={{replicated}}, frontend_attributes={{phzc.phase=\"bwd\",phzc.stage=\"0\",phzc.move=\"none\"}}
        again = bf16[4096,4096] dot(moved, a), {dot}, {b0}
        ROOT d = bf16[4096,4096] dot(g, again), {dot}, {b0}
        }}",
        f0 = own("fwd", 0),
        f1 = own("fwd", 1),
        b0 = own("bwd", 0),
        b1 = own("bwd", 1),
    );
    parse(&text).expect("legal")
}

#[test]
fn what_the_backward_part_repeats_is_recomputation() {
    let plan = plan(&recomputing(), &cluster()).expect("a legal header");
    let [first, second] = &plan.stages[..] else { panic!("two stages") };
    assert!(first.recompute_secs > 0.0 && (first.recompute_secs - first.forward_secs).abs() < 1e-15);
    // `again` has a quarter of the rows each time; `d` sums over a quarter of them, which leaves its tiles as
    // many as they are.
    let sums = Gemm::new(4096.0, 4096.0, 1024.0);
    let sums = cluster().accelerator.gemm_secs(&sums, "bf16", Role::Write);
    assert!((first.backward_secs - first.recompute_secs - sums).abs() < 1e-15, "{first:?}");
    assert_eq!(second.recompute_secs, 0.0);
}

#[test]
fn a_trace_has_every_task_and_the_plans_peak_of_memory() {
    let (module, cluster) = (recomputing(), cluster());
    let facts = derive(&module).expect("a legal header");
    let plan = plan_of(&module, &facts, &cluster);
    let trace: serde_json::Value = serde_json::from_str(&trace(&module, &facts, &cluster)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let count = |kind: &str| events.iter().filter(|event| event["cat"] == kind).count();
    let counts = ["forward", "recompute", "backward", "transfer"].map(count);
    // A transfer has a beginning and an end; the last stage repeats nothing.
    assert_eq!(counts, [8, 4, 8, 2 * 8]);
    for (stage, own) in plan.stages.iter().enumerate() {
        let counters = events.iter().filter(|event| event["ph"] == "C" && event["pid"] == stage);
        let peak = counters.filter_map(|event| event["args"]["bytes"].as_u64()).max();
        assert_eq!(peak, Some(own.memory_bytes.round() as u64), "stage {stage}");
    }
}

#[test]
fn the_largest_tensors_are_grouped_by_type_and_layout() {
    let plan = plan(&parse(STEP).expect("legal"), &cluster()).expect("a legal header");
    let lines: Vec<String> = plan
        .tensors
        .iter()
        .map(|it| format!("{} x{} {}{} {}", it.name, it.count, it.shape, it.layout, it.bytes))
        .collect();
    assert_snapshot!(lines.join("\n"), @r"
    a x1 bf16[4096,4096][-,x] 16777216
    b x1 bf16[4096,4096][x,-] 16777216
    d x2 bf16[4096,4096][-,-] 33554432
    ");
}
