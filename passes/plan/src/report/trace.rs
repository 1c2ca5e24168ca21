//! The schedule as a trace that chrome://tracing and Perfetto draw (Trace Event Format): a track per stage,
//! or per device group.
//!
//! Each stage is a process: a thread for what its devices compute, one for what it sends, one for the single
//! ops of the first microbatch's tasks and of the update, and a counter of the memory of each of its devices.
//! Stages that share devices are one process. Times are microseconds after the step's start
//! ([`super::step`]).

use super::step::{Step, StepEvent, TaskKind, When, step};
use crate::derive::{Facts, Header};
use phzc_cost::Cluster;
use phzc_ir::Module;
use serde_json::{Value, json};

/// The threads of a process.
const COMPUTES: usize = 0;
const SENDS: usize = 1;
const OPS: usize = 2;

/// The step's schedule as JSON, an event per line, ending in a line break.
pub fn trace(module: &Module, facts: &Facts, cluster: &Cluster) -> String {
    let (mut lines, mut step_secs) = (Vec::new(), 0.0_f64);
    for at in 0..facts.header.n_replicas() {
        let own = facts.of_replica(at);
        let Step { groups, events, secs } = step(module, &own, cluster);
        let mut writer = Writer { header: &own.header, replica: at, events: Vec::new() };
        groups.iter().enumerate().for_each(|(group, name)| writer.names(group, name));
        events.iter().for_each(|event| writer.event(event));
        lines.extend(writer.events);
        step_secs = step_secs.max(secs);
    }
    let other = json!({
        "cluster": cluster.name,
        "schedule": facts.header.schedule.to_string(),
        "n_microbatches": facts.header.n_microbatches,
        "step_us": micros(step_secs),
    });
    text(&other, &lines)
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

struct Writer<'a> {
    /// As the replica has it.
    header: &'a Header,
    replica: usize,
    events: Vec<Value>,
}

impl Writer<'_> {
    /// What the tracks are called.
    fn names(&mut self, group: usize, name: &str) {
        let of_many = format!("replica {}, {name}", self.replica);
        let name = if self.header.replicas.is_empty() { name } else { &of_many };
        let pid = self.process(group);
        self.events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}));
        for (thread, name) in [(COMPUTES, "computes"), (SENDS, "sends"), (OPS, "ops")] {
            let args = json!({"name": name});
            self.events
                .push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": args}));
        }
    }

    /// The process of a device group: of all replicas, one after the other.
    fn process(&self, group: usize) -> usize {
        self.replica * self.header.n_groups() + group
    }

    fn event(&mut self, event: &StepEvent) {
        match event {
            &StepEvent::Task { kind, stage, microbatch, when } => self.task(kind, (stage, microbatch), when),
            &StepEvent::Transfer { is_forward, stage, to, microbatch, when } => {
                self.transfer(is_forward, (stage, to), microbatch, when);
            }
            &StepEvent::Update { group, when } => self.slice(("update", "update"), group, COMPUTES, when),
            StepEvent::Op { name, group, when } => self.slice(("op", name), *group, OPS, *when),
            &StepEvent::Memory { group, at_secs, bytes } => self.events.push(json!({
                "ph": "C", "name": "memory of each device", "pid": self.process(group), "ts": micros(at_secs),
                "args": {"bytes": bytes.round() as u64},
            })),
        }
    }

    fn task(&mut self, kind: TaskKind, (stage, microbatch): (usize, usize), when: When) {
        let kind = kind.as_str();
        let (mut name, mut args) = (format!("{kind} {microbatch}"), json!({"microbatch": microbatch}));
        if self.header.interleaving().is_some() {
            name += &format!(" of stage {stage}");
            args["stage"] = stage.into();
        }
        self.events.push(json!({
            "ph": "X", "cat": kind, "name": name, "pid": self.process(self.header.group(stage)), "tid": COMPUTES,
            "ts": micros(when.from_secs), "dur": micros(when.to_secs - when.from_secs), "args": args,
        }));
    }

    fn slice(&mut self, (kind, name): (&str, &str), group: usize, thread: usize, when: When) {
        self.events.push(json!({
            "ph": "X", "cat": kind, "name": name, "pid": self.process(group), "tid": thread,
            "ts": micros(when.from_secs), "dur": micros(when.to_secs - when.from_secs),
        }));
    }

    /// Sends overlap, so they are no slices of a thread.
    fn transfer(&mut self, is_forward: bool, (stage, to): (usize, usize), microbatch: usize, when: When) {
        let what = if is_forward { "activations" } else { "gradients" };
        let (name, id) = (format!("{what} {microbatch} to stage {to}"), self.events.len());
        for (ph, at) in [("b", when.from_secs), ("e", when.to_secs)] {
            self.events.push(json!({
                "ph": ph, "cat": "transfer", "name": name, "id": id,
                "pid": self.process(self.header.group(stage)), "tid": SENDS, "ts": micros(at),
            }));
        }
    }
}
