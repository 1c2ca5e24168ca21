//! The schedule as a trace that chrome://tracing and Perfetto draw (Trace Event Format): a track per stage.
//!
//! Each stage is a process: a thread for what its devices compute, one for what it sends, and a counter of the memory
//! of each of its devices. All devices of a stage do the same. Times are microseconds after the step's start, from the
//! replay of the schedule ([`phzc_cost::Timeline`]); updates start when all microbatches are done. The counter is the
//! most that a device needs while it holds the activations of so many microbatches: its peak is the plan's.

use super::{pipeline, price, recompute, sends, update_secs};
use crate::check::memory_held;
use crate::derive::Facts;
use phzc_cost::schedule::{Event, Phase};
use phzc_cost::{Cluster, Pipeline, Timeline};
use phzc_ir::Module;
use serde_json::{Value, json};

/// The threads of a stage.
const COMPUTES: usize = 0;
const SENDS: usize = 1;

/// The step's schedule as JSON, an event per line, ending in a line break.
pub fn trace(module: &Module, facts: &Facts, cluster: &Cluster) -> String {
    let prices = price::stages(module, facts, cluster);
    let sends = sends::sends(module, facts, cluster);
    let pipeline = pipeline(facts, &prices, &sends);
    let timeline = pipeline.simulate(facts.header.schedule);
    let mut writer = Writer {
        again_secs: recompute::secs(module, facts, cluster),
        held_bytes: memory_held(module, facts),
        update_secs: update_secs(&prices, &sends),
        pipeline,
        events: Vec::new(),
    };
    writer.names(facts);
    writer.tasks(&timeline);
    writer.updates(timeline.step_secs());
    writer.memory(&timeline);
    let updates = writer.update_secs.iter().copied().fold(0.0, f64::max);
    let other = json!({
        "cluster": cluster.name,
        "schedule": facts.header.schedule.to_string(),
        "n_microbatches": facts.header.n_microbatches,
        "step_us": micros(timeline.step_secs() + updates),
    });
    text(&other, &writer.events)
}

/// Object by object, so that two traces can be compared line by line.
fn text(other: &Value, events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let events = lines.join(",\n");
    format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[\n{events}\n]}}\n")
}

/// Microseconds, to the nanosecond.
fn micros(secs: f64) -> f64 {
    (secs * 1e9).round() / 1e3
}

struct Writer {
    pipeline: Pipeline,
    /// Per stage: seconds of the backward part that repeat the forward part.
    again_secs: Vec<f64>,
    /// Per stage and number of microbatches held: bytes on each device.
    held_bytes: Vec<Vec<f64>>,
    update_secs: Vec<f64>,
    events: Vec<Value>,
}

impl Writer {
    /// What the tracks are called.
    fn names(&mut self, facts: &Facts) {
        let mut first = 0;
        for (stage, mesh) in facts.header.meshes.iter().enumerate() {
            let last = first + mesh.n_devices() - 1;
            let devices =
                if first == last { format!("device {first}") } else { format!("devices {first}-{last}") };
            let mesh = if mesh.n_axes() == 0 { String::new() } else { format!(", {mesh}") };
            let name = format!("stage {stage}: {devices}{mesh}");
            self.events
                .push(json!({"ph": "M", "name": "process_name", "pid": stage, "args": {"name": name}}));
            for (thread, name) in [(COMPUTES, "computes"), (SENDS, "sends")] {
                let args = json!({"name": name});
                self.events.push(
                    json!({"ph": "M", "name": "thread_name", "pid": stage, "tid": thread, "args": args}),
                );
            }
            first = last + 1;
        }
    }

    fn tasks(&mut self, timeline: &Timeline) {
        for event in &timeline.events {
            let (from, to) = (event.start_secs, event.end_secs);
            let key = (event.stage, event.microbatch);
            match event.phase {
                Phase::Forward => self.task("forward", key, from, to),
                Phase::Backward => {
                    let again = (from + self.again_secs[event.stage]).min(to);
                    self.task("recompute", key, from, again);
                    self.task("backward", key, again, to);
                }
                Phase::WeightGradient => self.task("weight gradient", key, from, to),
            }
            self.transfer(event);
        }
    }

    /// A task that takes time.
    fn task(&mut self, kind: &str, (stage, microbatch): (usize, usize), from: f64, to: f64) {
        if to > from {
            let name = format!("{kind} {microbatch}");
            let args = json!({"microbatch": microbatch});
            self.events.push(json!({
                "ph": "X", "cat": kind, "name": name, "pid": stage, "tid": COMPUTES,
                "ts": micros(from), "dur": micros(to - from), "args": args,
            }));
        }
    }

    /// What a task sends on; sends overlap with tasks and with one another.
    fn transfer(&mut self, event: &Event) {
        let (boundary, to) = match event.phase {
            Phase::Forward => (Some(event.stage), event.stage + 1),
            Phase::Backward => (event.stage.checked_sub(1), event.stage.wrapping_sub(1)),
            Phase::WeightGradient => (None, event.stage),
        };
        let secs =
            boundary.and_then(|boundary| self.pipeline.send_secs.get(boundary)).copied().unwrap_or(0.0);
        let took = event.end_secs - event.start_secs;
        if secs > 0.0 && took > 0.0 {
            let what = if event.phase == Phase::Forward { "activations" } else { "gradients" };
            let (name, id) = (format!("{what} {} to stage {to}", event.microbatch), self.events.len());
            for (ph, at) in [("b", event.end_secs), ("e", event.end_secs + secs)] {
                self.events.push(json!({
                    "ph": ph, "cat": "transfer", "name": name, "id": id, "pid": event.stage, "tid": SENDS,
                    "ts": micros(at),
                }));
            }
        }
    }

    fn updates(&mut self, start_secs: f64) {
        for (stage, &secs) in self.update_secs.iter().enumerate().filter(|(_, secs)| **secs > 0.0) {
            self.events.push(json!({
                "ph": "X", "cat": "update", "name": "update", "pid": stage, "tid": COMPUTES,
                "ts": micros(start_secs), "dur": micros(secs),
            }));
        }
    }

    /// The counter: it rises when a forward task starts and falls when the microbatch's last task ends.
    fn memory(&mut self, timeline: &Timeline) {
        let n_stages = self.pipeline.n_stages();
        let mut held = vec![0_usize; n_stages];
        (0..n_stages).for_each(|stage| self.count(stage, 0.0, 0));
        for event in &timeline.events {
            let own = &mut held[event.stage];
            let at_secs = match event.phase {
                Phase::Forward => {
                    *own += 1;
                    event.start_secs
                }
                _ if timeline.frees(event) => {
                    *own -= 1;
                    event.end_secs
                }
                _ => continue,
            };
            let now = *own;
            self.count(event.stage, at_secs, now);
        }
    }

    fn count(&mut self, stage: usize, at_secs: f64, n_held: usize) {
        let bytes = self.held_bytes[stage][n_held.min(self.held_bytes[stage].len() - 1)].round() as u64;
        self.events.push(json!({
            "ph": "C", "name": "memory of each device", "pid": stage, "ts": micros(at_secs),
            "args": {"bytes": bytes},
        }));
    }
}
