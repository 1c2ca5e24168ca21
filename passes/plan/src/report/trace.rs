//! The schedule as a trace that chrome://tracing and Perfetto draw (Trace Event Format): a track per stage,
//! or per device group.
//!
//! Each stage is a process: a thread for what its devices compute, one for what it sends, and a counter of
//! the memory of each of its devices. Stages that share devices are one process. All devices of a stage do
//! the same. Times are microseconds after the step's start, from the replay of the schedule
//! ([`phzc_cost::Timeline`]); updates start when all microbatches are done. The counter is the most that a
//! device needs while it holds the activations of so many microbatches: its peak is the plan's.

use super::{of_groups, pipeline, price, recompute, sends, update_secs};
use crate::derive::{Facts, Header};
use crate::memory::{GroupMemory, memory_held, memory_shared};
use phzc_cost::schedule::{Event, Part};
use phzc_cost::{Cluster, Pipeline, Timeline};
use phzc_ir::Module;
use serde_json::{Value, json};

/// The threads of a process.
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
        held: held(module, facts),
        header: &facts.header,
        update_secs: update_secs(&prices, &sends),
        pipeline,
        events: Vec::new(),
    };
    writer.names();
    writer.tasks(&timeline);
    writer.updates(timeline.step_secs());
    writer.memory(&timeline);
    let updates = of_groups(facts, &writer.update_secs).into_iter().fold(0.0, f64::max);
    let other = json!({
        "cluster": cluster.name,
        "schedule": facts.header.schedule.to_string(),
        "n_microbatches": facts.header.n_microbatches,
        "step_us": micros(timeline.step_secs() + updates),
    });
    text(&other, &writer.events)
}

fn held(module: &Module, facts: &Facts) -> Held {
    memory_shared(module, facts).map_or_else(|| Held::Stages(memory_held(module, facts)), Held::Groups)
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

/// What devices need, by what they hold.
enum Held {
    /// Per stage and number of microbatches held: bytes on each device.
    Stages(Vec<Vec<f64>>),
    /// Of each device group.
    Groups(Vec<GroupMemory>),
}

impl Held {
    /// Bytes on each device of a group whose stages hold so many microbatches.
    fn bytes(&self, group: usize, n_held: &[usize]) -> f64 {
        match self {
            Held::Stages(bytes) => bytes[group][n_held[0].min(bytes[group].len() - 1)],
            Held::Groups(groups) if n_held.iter().all(|&n| n == 0) => groups[group].idle_bytes,
            Held::Groups(groups) => {
                let kept = n_held.iter().zip(&groups[group].kept_bytes).map(|(&n, kept)| n as f64 * kept);
                (groups[group].base_bytes + kept.sum::<f64>()).max(groups[group].idle_bytes)
            }
        }
    }
}

struct Writer<'a> {
    header: &'a Header,
    pipeline: Pipeline,
    /// Per stage: seconds of the backward part that repeat the forward part.
    again_secs: Vec<f64>,
    held: Held,
    update_secs: Vec<f64>,
    events: Vec<Value>,
}

impl Writer<'_> {
    /// What the tracks are called.
    fn names(&mut self) {
        for group in 0..self.header.n_groups() {
            let name = self.name(group);
            self.events
                .push(json!({"ph": "M", "name": "process_name", "pid": group, "args": {"name": name}}));
            for (thread, name) in [(COMPUTES, "computes"), (SENDS, "sends")] {
                let args = json!({"name": name});
                self.events.push(
                    json!({"ph": "M", "name": "thread_name", "pid": group, "tid": thread, "args": args}),
                );
            }
        }
    }

    /// `stage 1: devices 2-3, x=2`, `stages 1, 3: devices 2-3, x=2`.
    fn name(&self, group: usize) -> String {
        let [first, last] = self.header.devices(group);
        let devices =
            if first == last { format!("device {first}") } else { format!("devices {first}-{last}") };
        let mesh = &self.header.meshes[group];
        let mesh = if mesh.n_axes() == 0 { String::new() } else { format!(", {mesh}") };
        let stages: Vec<String> = self.header.stages_of(group).map(|stage| stage.to_string()).collect();
        let plural = if stages.len() > 1 { "s" } else { "" };
        format!("stage{plural} {}: {devices}{mesh}", stages.join(", "))
    }

    fn tasks(&mut self, timeline: &Timeline) {
        for event in &timeline.events {
            let (from, to) = (event.start_secs, event.end_secs);
            let key = (event.stage, event.microbatch);
            match event.phase {
                Part::Forward => self.task("forward", key, from, to),
                Part::Backward => {
                    let again = (from + self.again_secs[event.stage]).min(to);
                    self.task("recompute", key, from, again);
                    self.task("backward", key, again, to);
                }
                Part::WeightGradient => self.task("weight gradient", key, from, to),
            }
            self.transfer(event);
        }
    }

    /// A task that takes time.
    fn task(&mut self, kind: &str, (stage, microbatch): (usize, usize), from: f64, to: f64) {
        if to > from {
            let (mut name, mut args) = (format!("{kind} {microbatch}"), json!({"microbatch": microbatch}));
            if self.header.interleaving().is_some() {
                name += &format!(" of stage {stage}");
                args["stage"] = stage.into();
            }
            self.events.push(json!({
                "ph": "X", "cat": kind, "name": name, "pid": self.header.group(stage), "tid": COMPUTES,
                "ts": micros(from), "dur": micros(to - from), "args": args,
            }));
        }
    }

    /// What a task sends on; sends overlap with tasks and with one another.
    fn transfer(&mut self, event: &Event) {
        let (boundary, to) = match event.phase {
            Part::Forward => (Some(event.stage), event.stage + 1),
            Part::Backward => (event.stage.checked_sub(1), event.stage.wrapping_sub(1)),
            Part::WeightGradient => (None, event.stage),
        };
        let secs =
            boundary.and_then(|boundary| self.pipeline.send_secs.get(boundary)).copied().unwrap_or(0.0);
        let took = event.end_secs - event.start_secs;
        if secs > 0.0 && took > 0.0 {
            let what = if event.phase == Part::Forward { "activations" } else { "gradients" };
            let (name, id) = (format!("{what} {} to stage {to}", event.microbatch), self.events.len());
            for (ph, at) in [("b", event.end_secs), ("e", event.end_secs + secs)] {
                self.events.push(json!({
                    "ph": ph, "cat": "transfer", "name": name, "id": id,
                    "pid": self.header.group(event.stage), "tid": SENDS,
                    "ts": micros(at),
                }));
            }
        }
    }

    /// The updates of a group, one after the other.
    fn updates(&mut self, start_secs: f64) {
        for group in 0..self.header.n_groups() {
            let mut at_secs = start_secs;
            for secs in self.header.stages_of(group).map(|stage| self.update_secs[stage]) {
                if secs > 0.0 {
                    self.events.push(json!({
                        "ph": "X", "cat": "update", "name": "update", "pid": group, "tid": COMPUTES,
                        "ts": micros(at_secs), "dur": micros(secs),
                    }));
                }
                at_secs += secs;
            }
        }
    }

    /// The counter: it rises when a forward task starts and falls when the microbatch's last task ends.
    fn memory(&mut self, timeline: &Timeline) {
        let (n_groups, header) = (self.header.n_groups(), self.header);
        let mut held = vec![vec![0_usize; header.schedule.n_chunks()]; n_groups];
        (0..n_groups).for_each(|group| self.count(group, 0.0, &held[group]));
        for event in &timeline.events {
            let group = header.group(event.stage);
            let own = &mut held[group][event.stage / n_groups];
            let at_secs = match event.phase {
                Part::Forward => {
                    *own += 1;
                    event.start_secs
                }
                _ if timeline.frees(event) => {
                    *own -= 1;
                    event.end_secs
                }
                _ => continue,
            };
            self.count(group, at_secs, &held[group]);
        }
    }

    fn count(&mut self, group: usize, at_secs: f64, n_held: &[usize]) {
        let bytes = self.held.bytes(group, n_held).round() as u64;
        self.events.push(json!({
            "ph": "C", "name": "memory of each device", "pid": group, "ts": micros(at_secs),
            "args": {"bytes": bytes},
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_needs_what_it_needs_for_as_many_microbatches_as_it_holds_and_no_more_than_at_its_peak() {
        let held = Held::Stages(vec![vec![7.0], vec![1.0, 2.0, 4.0]]);
        let bytes = |group, n_held| held.bytes(group, &[n_held]);
        assert_eq!(
            [bytes(1, 0), bytes(1, 1), bytes(1, 2), bytes(1, 9), bytes(0, 3)],
            [1.0, 2.0, 4.0, 4.0, 7.0]
        );
    }

    #[test]
    fn a_group_needs_its_base_and_what_each_stage_keeps_unless_it_is_idle() {
        let group = |idle_bytes| GroupMemory { idle_bytes, base_bytes: 20.0, kept_bytes: vec![3.0, 5.0] };
        let held = Held::Groups(vec![group(10.0), group(30.0)]);
        let bytes = |group, n_held: [usize; 2]| held.bytes(group, &n_held);
        assert_eq!([bytes(0, [0, 0]), bytes(0, [1, 0]), bytes(0, [1, 2])], [10.0, 23.0, 33.0]);
        assert_eq!([bytes(1, [0, 0]), bytes(1, [0, 1]), bytes(1, [1, 2])], [30.0, 30.0, 33.0]);
    }
}
