//! Traces of small placed programs, event by event.

use super::*;
use crate::testing::{one_byte_a_second, staged};
use insta::assert_snapshot;

/// Two stages, two microbatches; the first stage's backward part repeats its forward part, and an update
/// follows.
fn step(schedule: &str) -> Module {
    staged(
        " {0}: (1, {}, may-alias) ",
        "0:;1:x=2",
        &format!("{{\"n_microbatches\":2,\"schedule\":\"{schedule}\"}}"),
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("w = f32[8] parameter(1)", "fwd", 0),
            ("h = f32[8] multiply(x, w)", "fwd", 0),
            ("k = f32[8] negate(h)", "fwd", 1),
            ("g = f32[8] multiply(k, h)", "bwd", 1),
            ("again = f32[8] multiply(x, w)", "bwd", 0),
            ("d = f32[8] multiply(g, again)", "bwd", 0),
            ("v = f32[8] add(w, d)", "upd", 0),
            ("ROOT t = (f32[8], f32[8]) tuple(v, k)", "upd", 0),
        ],
    )
}

/// The events of a trace, one per line: kind, name, track, and microseconds as seconds.
fn events(module: &Module) -> String {
    let (facts, cluster) = (derive(module).expect("a legal header"), one_byte_a_second());
    assert_eq!(facts.problems, []);
    let text = trace(module, &facts, &cluster);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let secs = |value: &serde_json::Value| value.as_f64().map(|it| format!(" {:.1}", it / 1e6));
    let line = |event: &serde_json::Value| {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let times = [secs(&event["ts"]), secs(&event["dur"])].into_iter().flatten().collect::<String>();
        let track =
            format!("{}{}", event["pid"], event["tid"].as_u64().map_or(String::new(), |it| format!(".{it}")));
        format!("{} {track} {}{times} {}", text("ph"), text("name"), event["args"]).replace(" null", "")
    };
    // Single ops have a test of their own.
    let is_op = |event: &&serde_json::Value| event["tid"] == 2;
    let events = value["traceEvents"].as_array().expect("a list").iter().filter(|it| !is_op(it)).map(line);
    format!("{}\n{}", value["otherData"], events.collect::<Vec<_>>().join("\n"))
}

#[test]
fn tasks_messages_updates_and_memory_are_events_at_their_time() {
    assert_snapshot!(events(&step("1f1b")), @r#"
    {"cluster":"test","n_microbatches":2,"schedule":"1f1b","step_us":436000715.544}
    M 0 process_name {"name":"stage 0: device 0"}
    M 0.0 thread_name {"name":"computes"}
    M 0.1 thread_name {"name":"sends"}
    M 1 process_name {"name":"stage 1: devices 1-2, x=2"}
    M 1.0 thread_name {"name":"computes"}
    M 1.1 thread_name {"name":"sends"}
    X 0.0 forward 0 0.0 48.5 {"microbatch":0}
    b 0.1 activations 0 to stage 1 48.5
    e 0.1 activations 0 to stage 1 80.8
    X 0.0 forward 1 48.5 48.5 {"microbatch":1}
    b 0.1 activations 1 to stage 1 97.0
    e 0.1 activations 1 to stage 1 129.3
    X 1.0 forward 0 80.8 32.5 {"microbatch":0}
    X 1.0 backward 0 113.3 48.5 {"microbatch":0}
    b 1.1 gradients 0 to stage 0 161.8
    e 1.1 gradients 0 to stage 0 194.0
    X 1.0 forward 1 161.8 32.5 {"microbatch":1}
    X 1.0 backward 1 194.3 48.5 {"microbatch":1}
    b 1.1 gradients 1 to stage 0 242.8
    e 1.1 gradients 1 to stage 0 275.0
    X 0.0 recompute 0 194.0 32.0 {"microbatch":0}
    X 0.0 backward 0 226.0 32.5 {"microbatch":0}
    X 0.0 recompute 1 275.0 32.0 {"microbatch":1}
    X 0.0 backward 1 307.0 32.5 {"microbatch":1}
    X 0.0 update 339.5 96.5
    C 0 memory of each device 0.0 {"bytes":96}
    C 1 memory of each device 0.0 {"bytes":48}
    C 0 memory of each device 0.0 {"bytes":112}
    C 0 memory of each device 48.5 {"bytes":144}
    C 1 memory of each device 80.8 {"bytes":48}
    C 1 memory of each device 161.8 {"bytes":48}
    C 1 memory of each device 161.8 {"bytes":48}
    C 1 memory of each device 242.8 {"bytes":48}
    C 0 memory of each device 258.5 {"bytes":112}
    C 0 memory of each device 339.5 {"bytes":96}
    "#);
}

#[test]
fn gradients_that_are_put_off_are_tasks_of_their_own() {
    let all = events(&step("zero-bubble"));
    let tasks: Vec<&str> = all.lines().filter(|line| line.starts_with("X 0")).collect();
    assert_snapshot!(tasks.join("\n"), @r#"
    X 0.0 forward 0 0.0 48.5 {"microbatch":0}
    X 0.0 forward 1 48.5 48.5 {"microbatch":1}
    X 0.0 weight gradient 0 194.0 64.5 {"microbatch":0}
    X 0.0 weight gradient 1 275.0 64.5 {"microbatch":1}
    X 0.0 update 339.5 96.5
    "#);
}

#[test]
#[allow(clippy::too_many_lines, reason = "most of it is the trace")]
fn stages_that_share_devices_are_one_track() {
    let module = staged(
        " {0}: (1, {}, may-alias) ",
        "0:x=2;1:;2:x=2;3:",
        r#"{"n_microbatches":2,"schedule":"interleaved:2"}"#,
        &[
            ("x = f32[8] parameter(0)", "fwd", 0),
            ("w = f32[8] parameter(1)", "fwd", 0),
            ("h = f32[8] multiply(x, w)", "fwd", 0),
            ("i = f32[8] negate(h)", "fwd", 1),
            ("j = f32[8] multiply(i, i)", "fwd", 2),
            ("k = f32[8] negate(j)", "fwd", 3),
            ("g = f32[8] multiply(k, j)", "bwd", 3),
            ("d = f32[8] multiply(g, x)", "bwd", 0),
            ("v = f32[8] add(w, d)", "upd", 0),
            ("u = f32[8] negate(g)", "upd", 2),
            ("ROOT t = (f32[8], f32[8]) tuple(v, u)", "upd", 0),
        ],
    );
    assert_snapshot!(events(&module), @r#"
    {"cluster":"test","n_microbatches":2,"schedule":"interleaved:2","step_us":823252591.213}
    M 0 process_name {"name":"stages 0, 2: devices 0-1, x=2"}
    M 0.0 thread_name {"name":"computes"}
    M 0.1 thread_name {"name":"sends"}
    M 1 process_name {"name":"stages 1, 3: device 2"}
    M 1.0 thread_name {"name":"computes"}
    M 1.1 thread_name {"name":"sends"}
    X 0.0 forward 0 of stage 0 0.0 48.5 {"microbatch":0,"stage":0}
    b 0.1 activations 0 to stage 1 48.5
    e 0.1 activations 0 to stage 1 64.8
    X 0.0 forward 1 of stage 0 48.5 48.5 {"microbatch":1,"stage":0}
    b 0.1 activations 1 to stage 1 97.0
    e 0.1 activations 1 to stage 1 113.3
    X 1.0 forward 0 of stage 1 64.8 32.5 {"microbatch":0,"stage":1}
    b 1.1 activations 0 to stage 2 97.3
    e 1.1 activations 0 to stage 2 129.5
    X 1.0 forward 1 of stage 1 113.3 32.5 {"microbatch":1,"stage":1}
    b 1.1 activations 1 to stage 2 145.8
    e 1.1 activations 1 to stage 2 178.0
    X 0.0 forward 0 of stage 2 129.5 32.5 {"microbatch":0,"stage":2}
    b 0.1 activations 0 to stage 3 162.0
    e 0.1 activations 0 to stage 3 178.3
    X 0.0 forward 1 of stage 2 178.0 32.5 {"microbatch":1,"stage":2}
    b 0.1 activations 1 to stage 3 210.5
    e 0.1 activations 1 to stage 3 226.8
    X 1.0 forward 0 of stage 3 178.3 32.5 {"microbatch":0,"stage":3}
    X 1.0 backward 0 of stage 3 210.8 48.5 {"microbatch":0,"stage":3}
    b 1.1 gradients 0 to stage 2 259.3
    e 1.1 gradients 0 to stage 2 275.5
    X 1.0 forward 1 of stage 3 259.3 32.5 {"microbatch":1,"stage":3}
    X 1.0 backward 1 of stage 3 291.8 48.5 {"microbatch":1,"stage":3}
    b 1.1 gradients 1 to stage 2 340.3
    e 1.1 gradients 1 to stage 2 356.5
    X 0.0 backward 0 of stage 0 372.8 48.5 {"microbatch":0,"stage":0}
    X 0.0 backward 1 of stage 0 421.3 48.5 {"microbatch":1,"stage":0}
    X 0.0 update 469.8 160.8
    X 0.0 update 630.5 192.8
    X 1.0 update 469.8 64.3
    C 0 memory of each device 0.0 {"bytes":176}
    C 1 memory of each device 0.0 {"bytes":48}
    C 0 memory of each device 0.0 {"bytes":176}
    C 0 memory of each device 48.5 {"bytes":176}
    C 1 memory of each device 64.8 {"bytes":48}
    C 1 memory of each device 113.3 {"bytes":48}
    C 0 memory of each device 129.5 {"bytes":176}
    C 0 memory of each device 178.0 {"bytes":192}
    C 1 memory of each device 178.3 {"bytes":64}
    C 1 memory of each device 259.3 {"bytes":48}
    C 1 memory of each device 259.3 {"bytes":64}
    C 1 memory of each device 340.3 {"bytes":48}
    C 0 memory of each device 275.5 {"bytes":176}
    C 0 memory of each device 356.5 {"bytes":176}
    C 1 memory of each device 340.3 {"bytes":48}
    C 1 memory of each device 388.8 {"bytes":48}
    C 0 memory of each device 421.3 {"bytes":176}
    C 0 memory of each device 469.8 {"bytes":176}
    "#);
}

#[test]
fn ops_of_the_first_microbatch_fill_its_tasks_and_memory_follows_them_where_there_is_one() {
    let (module, cluster) = (step("1f1b"), one_byte_a_second());
    let facts = derive(&module).expect("a legal header");
    let found = super::super::step(&module, &facts, &cluster);
    let ends = |stage: usize| {
        let ops = found.events.iter().filter_map(|event| match event {
            StepEvent::Op { group, when, name } if *group == stage => Some((name.clone(), *when)),
            _ => None,
        });
        ops.map(|(name, when)| format!("{name} {:.1} {:.1}", when.from_secs, when.to_secs))
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(0), ["h 0.0 48.5", "again 194.0 226.0", "d 226.0 258.5", "v 339.5 436.0"]);
    assert_eq!(ends(1), ["k 80.8 113.3", "g 113.3 161.8"]);
}
