//! Traces of small placed programs, event by event.

use super::*;
use crate::testing::{one_byte_a_second, staged};
use insta::assert_snapshot;

/// Two stages, two microbatches; the first stage's backward part repeats its forward part, and an update follows.
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
    let events = value["traceEvents"].as_array().expect("a list").iter().map(line);
    format!("{}\n{}", value["otherData"], events.collect::<Vec<_>>().join("\n"))
}

#[test]
fn tasks_messages_updates_and_memory_are_events_at_their_time() {
    assert_snapshot!(events(&step("1f1b")), @"");
}

#[test]
fn gradients_that_are_put_off_are_tasks_of_their_own() {
    let all = events(&step("zero-bubble"));
    let tasks: Vec<&str> = all.lines().filter(|line| line.starts_with("X 0")).collect();
    assert_snapshot!(tasks.join("\n"), @"");
}

#[test]
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
    assert_snapshot!(events(&module), @"");
}
