//! What the report says of plans that the planner makes.

use crate::testing::{EXAMPLES, passed};
use phzc_cost::Cluster;
use phzc_plan::derive::derive;
use phzc_plan::report::{Stage, plan, plan_of, trace};

fn cluster() -> Cluster {
    Cluster::named("a100-8").expect("a known cluster")
}

#[test]
fn a_trace_of_stages_that_share_devices_has_a_track_per_group() {
    let options = "stages=2,microbatches=4,schedule=interleaved:2";
    let program = EXAMPLES[1].1;
    let module = passed(program, &format!("fuse,shard,place{{{options}}}"), &cluster());
    let (module, cluster) = (module.expect("it has a plan"), cluster());
    let facts = derive(&module).expect("a legal header");
    let plan = plan_of(&module, &facts, &cluster);
    let trace: serde_json::Value = serde_json::from_str(&trace(&module, &facts, &cluster)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .filter_map(|name| name.split(':').next())
        .collect();
    assert_eq!(names, ["stages 0, 2", "stages 1, 3"]);
    for (group, own) in plan.stages.iter().take(2).enumerate() {
        let of_group = || events.iter().filter(|event| event["pid"] == group);
        let forwards = of_group().filter(|event| event["cat"] == "forward");
        let mut stages: Vec<u64> = forwards.filter_map(|event| event["args"]["stage"].as_u64()).collect();
        stages.sort_unstable();
        let stage = group as u64;
        assert_eq!(stages, [[stage; 4], [stage + 2; 4]].concat());
        let bytes =
            of_group().filter(|event| event["ph"] == "C").filter_map(|event| event["args"]["bytes"].as_u64());
        assert_eq!(bytes.max(), Some(own.memory_bytes.round() as u64), "group {group}");
    }
}

#[test]
fn what_a_group_does_once_per_step_and_is_busy_with_is_that_of_all_its_stages() {
    let options = "stages=2,microbatches=4,schedule=interleaved:2";
    let program = EXAMPLES[1].1;
    let cluster = cluster();
    let module = passed(program, &format!("fuse,shard,place{{{options}}}"), &cluster);
    let plan = plan(&module.expect("it has a plan"), &cluster).expect("a legal header");
    let of_group =
        |of: fn(&Stage) -> f64, group: usize| plan.stages.iter().skip(group).step_by(2).map(of).sum::<f64>();
    let update = of_group(|stage| stage.update_secs, 0).max(of_group(|stage| stage.update_secs, 1));
    assert!(plan.once_secs >= update, "{} {update}", plan.once_secs);
    let parts = plan.breakdown;
    let sum = parts.compute_secs + parts.memory_bound_secs + parts.collective_secs + parts.bubble_secs;
    assert!((sum - plan.time_secs).abs() < 1e-9 * plan.time_secs, "{sum} {}", plan.time_secs);
    let busy = [0, 1].map(|group| 4.0 * of_group(|stage| stage.forward_secs + stage.backward_secs, group));
    assert!(plan.time_secs >= busy[0].max(busy[1]), "{} {busy:?}", plan.time_secs);
}
