//! The judge's own figure of a plan's memory: a replay of every device group's tasks, buffer by buffer.
//!
//! Nothing of `phzc_plan::memory`, by which the planner chooses, is used; both read the same facts of the
//! text.
//!
//! * A task is a stage's forward, backward or weight-gradient part for one microbatch; the update is one task
//!   of a device group, after all microbatches. Tasks run in the order of `phzc_cost`'s replay of the
//!   schedule. With one microbatch, and nothing put off, a group runs its instructions in the text's order.
//! * An instruction's buffer is there from the instruction to its last reader (`finder.rs`). What comes from
//!   another stage is there from the start of the task that first reads it, and is off the sender's hands
//!   when it is made and no other instruction there reads it.
//! * Each microbatch has its own buffer, of its share of the bytes, of a value that depends on the step's
//!   data. What all microbatches make alike has one buffer while any of them needs it. An accumulator is
//!   there from the start of the first task that adds to it.
//! * Parameters live throughout, but for the step's data: a microbatch has its share from the first to the
//!   last task that reads it.
//!
//! The sweep over a task's instructions is the same for every microbatch (`profile.rs`), so the replay adds
//! up one figure per task.

mod buffers;
mod finder;
mod profile;
#[cfg(test)]
mod tests;

use buffers::{Buffers, Kind};
use phzc_cost::schedule::Event;
use phzc_cost::{Cluster, Pipeline, Timeline};
use phzc_ir::{InstrId, Module};
use phzc_plan::derive::{Facts, InstrFacts, Phase, deferred_by_schedule};
use phzc_plan::report::pipeline_of;
use profile::{Profile, Profiles};

/// What one device of a group needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupPeak {
    /// The most bytes in use at once, parameters included.
    pub peak_bytes: f64,
    /// Bytes of parameters, of one microbatch's share of the step's data.
    pub parameter_bytes: f64,
    /// The entry's instruction at which the peak is; none where it is at the start of a task.
    pub at: Option<InstrId>,
}

/// The peak of every device group.
pub fn replay(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<GroupPeak> {
    let buffers = Buffers::of_entry(module, facts, &kinds(module, facts));
    let profiles = Profiles::new(module, facts, &buffers);
    let timeline = timeline(module, facts, cluster);
    let group = |group| Replay::new(facts, &buffers, &profiles, group).run(&timeline);
    (0..facts.header.n_groups()).map(group).collect()
}

/// Whether the step is cut into tasks: otherwise every group runs its part of the text once.
fn is_cut(facts: &Facts) -> bool {
    facts.header.n_microbatches > 1 || facts.header.schedule.defers_weight_gradients()
}

/// Which kind of task runs each instruction of the entry.
fn kinds(module: &Module, facts: &Facts) -> Vec<Kind> {
    let own = &facts.comps[module.entry.index()];
    let is_put_off = deferred_by_schedule(module, facts);
    let kind = |(own, is_put_off): (&InstrFacts, bool)| match own.phase {
        _ if !is_cut(facts) => Kind::Update,
        Phase::Forward => Kind::Forward,
        Phase::Backward if is_put_off => Kind::WeightGradient,
        Phase::Backward => Kind::Backward,
        Phase::Update => Kind::Update,
    };
    own.iter().zip(is_put_off).map(kind).collect()
}

/// The tasks of the step in order. Only under zero-bubble does a group's order depend on how long they take.
fn timeline(module: &Module, facts: &Facts, cluster: &Cluster) -> Timeline {
    let (header, n_stages) = (&facts.header, facts.header.meshes.len());
    if !is_cut(facts) {
        return Timeline::default();
    }
    let pipeline = match header.schedule.defers_weight_gradients() {
        true => pipeline_of(module, facts, cluster),
        false => Pipeline {
            forward_secs: vec![1.0; n_stages],
            backward_secs: vec![1.0; n_stages],
            weight_secs: Vec::new(),
            send_secs: vec![0.0; n_stages - 1],
            n_microbatches: header.n_own_microbatches(),
        },
    };
    pipeline.simulate(header.schedule)
}

/// A device group's step under way. Bytes are those of all microbatches: sums of whole numbers are exact.
struct Replay<'a> {
    facts: &'a Facts,
    buffers: &'a Buffers,
    profiles: &'a Profiles,
    group: usize,
    now: f64,
    /// Per stage and kind of task: how many have run.
    n_done: Vec<[usize; Kind::N]>,
    found: GroupPeak,
}

impl<'a> Replay<'a> {
    fn new(facts: &'a Facts, buffers: &'a Buffers, profiles: &'a Profiles, group: usize) -> Replay<'a> {
        let params = buffers.all.iter().filter(|it| it.is_param && facts.header.group(it.stage) == group);
        let parameter_bytes = params.clone().map(|it| it.bytes).sum();
        let now: f64 = params.filter(|it| it.is_permanent).map(|it| it.bytes).sum();
        let found = GroupPeak { peak_bytes: now, parameter_bytes, at: None };
        let n_done = vec![[0; Kind::N]; facts.header.meshes.len()];
        Replay { facts, buffers, profiles, group, now, n_done, found }
    }

    fn run(mut self, timeline: &Timeline) -> GroupPeak {
        let (header, group) = (&self.facts.header, self.group);
        for event in timeline.events.iter().filter(|it| header.group(it.stage) == group) {
            self.task(event);
        }
        self.profile(self.profiles.updates[self.group]);
        let n_microbatches = self.facts.header.n_microbatches as f64;
        let GroupPeak { peak_bytes, parameter_bytes, at } = self.found;
        let [peak_bytes, parameter_bytes] = [peak_bytes, parameter_bytes].map(|it| it / n_microbatches);
        GroupPeak { peak_bytes, parameter_bytes, at }
    }

    /// One task: what microbatches share is made by the first that needs it, and freed by the last.
    fn task(&mut self, event: &Event) {
        let (stage, kind) = (event.stage, Kind::of(event.phase));
        let shared = &self.buffers.shared[stage];
        let n_holding =
            |done: &[usize; Kind::N], from: Kind, to: Kind| done[from as usize] - done[to as usize];
        for &(to, bytes) in &shared[kind as usize] {
            self.now += if n_holding(&self.n_done[stage], kind, to) == 0 { bytes } else { 0.0 };
        }
        self.profile(self.profiles.tasks[stage][kind as usize]);
        self.n_done[stage][kind as usize] += 1;
        for from in Kind::ALL.into_iter().filter(|&from| from < kind) {
            for &(to, bytes) in shared[from as usize].iter().filter(|(to, _)| *to == kind) {
                self.now -= if n_holding(&self.n_done[stage], from, to) == 0 { bytes } else { 0.0 };
            }
        }
    }

    fn profile(&mut self, Profile { peak, at, net }: Profile) {
        if self.now + peak > self.found.peak_bytes {
            (self.found.peak_bytes, self.found.at) = (self.now + peak, at);
        }
        self.now += net;
    }
}
