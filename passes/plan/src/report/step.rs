//! One step as a schedule: what each device group does when, and what its devices hold meanwhile.
//!
//! Times are seconds after the step's start, from the replay of the schedule ([`phzc_cost::Timeline`]);
//! updates start when all microbatches are done. All devices of a stage do the same. Memory is the most that
//! a device needs while it holds the activations of so many microbatches: its peak is the plan's. Of a step
//! with one microbatch it is followed from instruction to instruction.

use super::ops::{Op, ops};
use super::{of_groups, pipeline, pipeline_of, price, recompute, sends, update_secs};
use crate::derive::{Facts, Header};
use crate::memory::{GroupMemory, memory_by_instr, memory_held, memory_shared};
use phzc_cost::schedule::{Event, Part};
use phzc_cost::{Cluster, Pipeline, Timeline};
use phzc_ir::Module;

/// What happens in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Per device group, what it is called: `stage 1: devices 2-3, x=2`.
    pub groups: Vec<String>,
    /// In the order of the replay: tasks with what they send, then updates, then memory, then single ops.
    pub events: Vec<StepEvent>,
    /// Seconds of the whole step.
    pub secs: f64,
}

/// A part of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// The forward part.
    Forward,
    /// The part of the backward part that does the forward part again.
    Recompute,
    /// The rest of it.
    Backward,
    /// Gradients of weights that are put off.
    WeightGradient,
}

impl TaskKind {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskKind::Forward => "forward",
            TaskKind::Recompute => "recompute",
            TaskKind::Backward => "backward",
            TaskKind::WeightGradient => "weight gradient",
        }
    }
}

/// From when to when, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct When {
    /// The start.
    pub from_secs: f64,
    /// The end.
    pub to_secs: f64,
}

/// Something that happens on a device group.
#[derive(Clone, Debug, PartialEq)]
pub enum StepEvent {
    /// A stage works on a microbatch.
    Task {
        /// The part of the task.
        kind: TaskKind,
        /// The stage.
        stage: usize,
        /// The microbatch.
        microbatch: usize,
        /// When.
        when: When,
    },
    /// A stage sends on what a task has made.
    Transfer {
        /// Whether it is what the forward part has made, not gradients.
        is_forward: bool,
        /// The stage that sends.
        stage: usize,
        /// The stage that gets it.
        to: usize,
        /// The microbatch.
        microbatch: usize,
        /// When.
        when: When,
    },
    /// A group updates the parameters of one of its stages.
    Update {
        /// The device group.
        group: usize,
        /// When.
        when: When,
    },
    /// From now on each device of a group holds so much.
    Memory {
        /// The device group.
        group: usize,
        /// When.
        at_secs: f64,
        /// How much.
        bytes: f64,
    },
    /// One instruction of the first microbatch's tasks, or of the update.
    Op {
        /// Its name.
        name: String,
        /// The device group.
        group: usize,
        /// When.
        when: When,
    },
}

/// The schedule of a planned step.
pub fn step(module: &Module, facts: &Facts, cluster: &Cluster) -> Step {
    let prices = price::stages(module, facts, cluster);
    let sends = sends::sends(module, facts, cluster);
    let pipeline = pipeline(facts, &prices, &sends);
    let timeline = pipeline.simulate(facts.header.schedule);
    let mut writer = Writer {
        again_secs: recompute::secs(module, facts, cluster),
        held: held(module, facts),
        header: &facts.header,
        update_secs: update_secs(&prices, &sends),
        updates_from_secs: gradients_secs(module, facts, cluster, &timeline),
        pipeline,
        events: Vec::new(),
    };
    writer.tasks(&timeline);
    writer.updates();
    let ops = ops(module, facts, cluster);
    match facts.header.n_microbatches {
        1 => writer.ops(&ops, &timeline, Some(&memory_by_instr(module, facts)[module.entry.index()])),
        _ => {
            writer.memory(&timeline);
            writer.ops(&ops, &timeline, None);
        }
    }
    let updates = of_groups(facts, &writer.update_secs).into_iter().fold(0.0, f64::max);
    let groups = (0..facts.header.n_groups()).map(|group| name(&facts.header, group)).collect();
    Step { groups, events: writer.events, secs: writer.updates_from_secs + updates }
}

/// When all gradients are there, those of other replicas too.
fn gradients_secs(module: &Module, facts: &Facts, cluster: &Cluster, own: &Timeline) -> f64 {
    let n_replicas = facts.header.replicas.len();
    let of = |at: usize| pipeline_of(module, &facts.of_replica(at), cluster);
    let others = (0..n_replicas).map(|at| of(at).simulate(facts.header.schedule).step_secs());
    others.fold(own.step_secs(), f64::max)
}

/// `stage 1: devices 2-3, x=2`, `stages 1, 3: devices 2-3, x=2`.
fn name(header: &Header, group: usize) -> String {
    let [first, last] = header.devices(group);
    let devices = if first == last { format!("device {first}") } else { format!("devices {first}-{last}") };
    let mesh = &header.meshes[group];
    let mesh = if mesh.n_axes() == 0 { String::new() } else { format!(", {mesh}") };
    let stages: Vec<String> = header.stages_of(group).map(|stage| stage.to_string()).collect();
    let plural = if stages.len() > 1 { "s" } else { "" };
    format!("stage{plural} {}: {devices}{mesh}", stages.join(", "))
}

fn held(module: &Module, facts: &Facts) -> Held {
    memory_shared(module, facts).map_or_else(|| Held::Stages(memory_held(module, facts)), Held::Groups)
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
    /// When updates begin.
    updates_from_secs: f64,
    update_secs: Vec<f64>,
    events: Vec<StepEvent>,
}

impl Writer<'_> {
    fn tasks(&mut self, timeline: &Timeline) {
        for event in &timeline.events {
            let (from, to) = (event.start_secs, event.end_secs);
            let key = (event.stage, event.microbatch);
            match event.phase {
                Part::Forward => self.task(TaskKind::Forward, key, from, to),
                Part::Backward => {
                    let again = (from + self.again_secs[event.stage]).min(to);
                    self.task(TaskKind::Recompute, key, from, again);
                    self.task(TaskKind::Backward, key, again, to);
                }
                Part::WeightGradient => self.task(TaskKind::WeightGradient, key, from, to),
            }
            self.transfer(event);
        }
    }

    /// A task that takes time.
    fn task(&mut self, kind: TaskKind, (stage, microbatch): (usize, usize), from_secs: f64, to_secs: f64) {
        if to_secs > from_secs {
            let when = When { from_secs, to_secs };
            self.events.push(StepEvent::Task { kind, stage, microbatch, when });
        }
    }

    /// What a task sends on; sends overlap with tasks, those of a group in one direction follow one another.
    fn transfer(&mut self, event: &Event) {
        let (boundary, to) = match event.phase {
            Part::Forward => (Some(event.stage), event.stage + 1),
            Part::Backward => (event.stage.checked_sub(1), event.stage.wrapping_sub(1)),
            Part::WeightGradient => (None, event.stage),
        };
        let secs =
            boundary.and_then(|boundary| self.pipeline.send_secs.get(boundary)).copied().unwrap_or(0.0);
        if secs > 0.0 && event.end_secs > event.start_secs {
            let when = When { from_secs: event.arrives_secs - secs, to_secs: event.arrives_secs };
            self.events.push(StepEvent::Transfer {
                is_forward: event.phase == Part::Forward,
                stage: event.stage,
                to,
                microbatch: event.microbatch,
                when,
            });
        }
    }

    /// The updates of a group, one after the other.
    fn updates(&mut self) {
        for group in 0..self.header.n_groups() {
            let mut at_secs = self.updates_from_secs;
            for secs in self.header.stages_of(group).map(|stage| self.update_secs[stage]) {
                if secs > 0.0 {
                    let when = When { from_secs: at_secs, to_secs: at_secs + secs };
                    self.events.push(StepEvent::Update { group, when });
                }
                at_secs += secs;
            }
        }
    }

    /// Memory rises when a forward task starts and falls when the microbatch's last task ends.
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
        let bytes = self.held.bytes(group, n_held);
        self.events.push(StepEvent::Memory { group, at_secs, bytes });
    }

    /// The ops of the first microbatch's tasks and of the updates, and the memory at each, if it is known.
    fn ops(&mut self, ops: &[Op], timeline: &Timeline, memory: Option<&Vec<f64>>) {
        let defers = self.header.schedule.defers_weight_gradients();
        for event in timeline.events.iter().filter(|event| event.microbatch == 0) {
            self.ops_of(ops, (event.stage, event.start_secs), memory, |op| op.secs(event.phase, defers));
        }
        let mut at_secs = vec![self.updates_from_secs; self.header.n_groups()];
        for stage in 0..self.header.meshes.len() {
            let at = &mut at_secs[self.header.group(stage)];
            self.ops_of(ops, (stage, *at), memory, |op| op.update_secs);
            *at += self.update_secs[stage];
        }
    }

    fn ops_of(
        &mut self,
        ops: &[Op],
        (stage, mut at_secs): (usize, f64),
        memory: Option<&Vec<f64>>,
        secs: impl Fn(&Op) -> f64,
    ) {
        let group = self.header.group(stage);
        for op in ops.iter().filter(|op| op.stage == stage) {
            let secs = secs(op);
            if secs <= 0.0 {
                continue;
            }
            let bytes = memory.map(|memory| memory[op.id.index()]);
            self.events.extend(bytes.map(|bytes| StepEvent::Memory { group, at_secs, bytes }));
            let when = When { from_secs: at_secs, to_secs: at_secs + secs };
            self.events.push(StepEvent::Op { name: op.name.clone(), group, when });
            at_secs += secs;
        }
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
