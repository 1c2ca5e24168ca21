//! The replay of a schedule, task by task.

use super::{Phase, Pipeline, Schedule};

/// One task of one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Which stage.
    pub stage: usize,
    /// Which microbatch.
    pub microbatch: usize,
    /// Forward or backward.
    pub phase: Phase,
    /// When it starts, in seconds after the step's start.
    pub start_secs: f64,
    /// When it ends, in seconds after the step's start.
    pub end_secs: f64,
}

/// What happens in one step, in the order in which stages could start it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Every task.
    pub events: Vec<Event>,
    n_stages: usize,
}

impl Timeline {
    /// When the last task ends, in seconds.
    pub fn step_secs(&self) -> f64 {
        self.events.iter().map(|event| event.end_secs).fold(0.0, f64::max)
    }

    /// The fraction of all stages' time in which nothing runs.
    pub fn bubble(&self) -> f64 {
        let busy: f64 = self.events.iter().map(|event| event.end_secs - event.start_secs).sum();
        let whole = self.step_secs() * self.n_stages as f64;
        if whole > 0.0 { 1.0 - busy / whole } else { 0.0 }
    }

    /// The most microbatches that each stage holds at once: begun forward and not done backward.
    pub fn in_flight(&self) -> Vec<usize> {
        let mut now = vec![0_usize; self.n_stages];
        let mut most = now.clone();
        for event in &self.events {
            let held = &mut now[event.stage];
            *held = if event.phase == Phase::Forward { *held + 1 } else { held.saturating_sub(1) };
            most[event.stage] = most[event.stage].max(*held);
        }
        most
    }
}

impl Pipeline {
    /// Replays one step. Each stage runs its tasks in the schedule's order, each as soon as the stage is free and
    /// its input has arrived; sends overlap with compute.
    pub fn simulate(&self, schedule: Schedule) -> Timeline {
        let mut replay = Replay::new(self, schedule);
        while (0..self.n_stages()).filter(|&stage| replay.advance(stage)).count() > 0 {}
        Timeline { events: replay.events, n_stages: self.n_stages() }
    }
}

/// A replay under way.
struct Replay<'a> {
    pipeline: &'a Pipeline,
    /// Per stage: its tasks, and how many are done.
    orders: Vec<Vec<(Phase, usize)>>,
    n_done: Vec<usize>,
    free_secs: Vec<f64>,
    /// Per phase, stage and microbatch: when it ended, once it has.
    ended_secs: [Vec<Vec<Option<f64>>>; 2],
    events: Vec<Event>,
}

impl<'a> Replay<'a> {
    fn new(pipeline: &'a Pipeline, schedule: Schedule) -> Replay<'a> {
        let n_stages = pipeline.n_stages();
        let none = vec![vec![None; pipeline.n_microbatches]; n_stages];
        Replay {
            pipeline,
            orders: (0..n_stages).map(|stage| schedule.order(stage, pipeline)).collect(),
            n_done: vec![0; n_stages],
            free_secs: vec![0.0; n_stages],
            ended_secs: [none.clone(), none],
            events: Vec::with_capacity(2 * n_stages * pipeline.n_microbatches),
        }
    }

    /// Runs what `stage` can run now; whether that was anything.
    fn advance(&mut self, stage: usize) -> bool {
        let before = self.n_done[stage];
        while let Some(&(phase, microbatch)) = self.orders[stage].get(self.n_done[stage]) {
            let Some(ready_secs) = self.ready_secs(stage, phase, microbatch) else { break };
            self.run(stage, phase, microbatch, ready_secs.max(self.free_secs[stage]));
        }
        self.n_done[stage] > before
    }

    fn run(&mut self, stage: usize, phase: Phase, microbatch: usize, start_secs: f64) {
        let secs = match phase {
            Phase::Forward => self.pipeline.forward_secs[stage],
            Phase::Backward => self.pipeline.backward_secs[stage],
        };
        let end_secs = start_secs + secs;
        self.events.push(Event { stage, microbatch, phase, start_secs, end_secs });
        self.ended_secs[phase as usize][stage][microbatch] = Some(end_secs);
        self.free_secs[stage] = end_secs;
        self.n_done[stage] += 1;
    }

    /// When the input of a task is there; `None` while its producer has not run.
    fn ready_secs(&self, stage: usize, phase: Phase, microbatch: usize) -> Option<f64> {
        let last = self.pipeline.n_stages() - 1;
        match phase {
            Phase::Forward if stage == 0 => Some(0.0),
            Phase::Forward => self.arrival_secs(Phase::Forward, stage - 1, microbatch, stage - 1),
            Phase::Backward if stage == last => self.ended_secs[Phase::Forward as usize][stage][microbatch],
            Phase::Backward => self.arrival_secs(Phase::Backward, stage + 1, microbatch, stage),
        }
    }

    fn arrival_secs(&self, phase: Phase, from: usize, microbatch: usize, boundary: usize) -> Option<f64> {
        let send_secs = self.pipeline.send_secs.get(boundary).copied().unwrap_or(0.0);
        self.ended_secs[phase as usize][from][microbatch].map(|end_secs| end_secs + send_secs)
    }
}
