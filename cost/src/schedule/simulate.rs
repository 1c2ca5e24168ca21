//! The replay of a schedule, task by task.

use super::{Part, Pipeline, Schedule};

/// One task of one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Which stage.
    pub stage: usize,
    /// Which microbatch.
    pub microbatch: usize,
    /// Which part of the work.
    pub phase: Part,
    /// When it starts, in seconds after the step's start.
    pub start_secs: f64,
    /// When it ends, in seconds after the step's start.
    pub end_secs: f64,
    /// When what it has made is where it is read, in seconds after the step's start.
    pub arrives_secs: f64,
}

/// What happens in one step, in the order in which stages could start it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Every task.
    pub events: Vec<Event>,
    /// Devices, or groups of them: stage `s` runs on the `s mod n_devices`-th.
    pub n_devices: usize,
    /// Whether gradients of weights are tasks of their own.
    pub(super) is_split: bool,
}

impl Timeline {
    /// When the last task ends, in seconds.
    pub fn step_secs(&self) -> f64 {
        self.events.iter().map(|event| event.end_secs).fold(0.0, f64::max)
    }

    /// The fraction of all devices' time in which nothing runs.
    pub fn bubble(&self) -> f64 {
        let busy: f64 = self.events.iter().map(|event| event.end_secs - event.start_secs).sum();
        let whole = self.step_secs() * self.n_devices as f64;
        if whole > 0.0 { 1.0 - busy / whole } else { 0.0 }
    }

    /// Which device runs a task.
    pub fn device(&self, event: &Event) -> usize {
        event.stage % self.n_devices
    }

    /// Whether a stage holds nothing of a microbatch any more once this task has run.
    pub fn frees(&self, event: &Event) -> bool {
        event.phase == if self.is_split { Part::WeightGradient } else { Part::Backward }
    }

    /// The most activations, each of one microbatch and one stage, that each device holds at once: begun
    /// forward and not done backward.
    pub fn in_flight(&self) -> Vec<usize> {
        let mut now = vec![0_usize; self.n_devices];
        let mut most = now.clone();
        for event in &self.events {
            let device = self.device(event);
            let held = &mut now[device];
            *held += usize::from(event.phase == Part::Forward);
            *held -= usize::from(self.frees(event));
            most[device] = most[device].max(*held);
        }
        most
    }
}

/// One entry of a device's list: what it does, for which (virtual) stage, with which microbatch.
pub(super) type Task = (Part, usize, usize);

impl Pipeline {
    /// Replays one step. Each stage runs its tasks in the schedule's order, each as soon as the stage is free
    /// and its input has arrived; sends overlap with compute, those of a device in one direction follow one
    /// another.
    pub fn simulate(&self, schedule: Schedule) -> Timeline {
        match schedule {
            Schedule::ZeroBubble => return self.zero_bubble(),
            Schedule::Interleaved(_) => return self.simulate_interleaved(schedule.n_groups(self.n_stages())),
            Schedule::GPipe | Schedule::OneFOneB => {}
        }
        let tasks =
            |stage| schedule.order(stage, self).into_iter().map(move |(phase, one)| (phase, stage, one));
        self.replay((0..self.n_stages()).map(|stage| tasks(stage).collect()).collect())
    }

    /// When what a task has made by `end_secs` is where it is read, if what was sent before it arrives at
    /// `last_secs`.
    pub(super) fn arrival_secs(&self, phase: Part, stage: usize, end_secs: f64, last_secs: f64) -> f64 {
        let boundary = if phase == Part::Forward { Some(stage) } else { stage.checked_sub(1) };
        let send_secs = boundary.and_then(|boundary| self.send_secs.get(boundary));
        send_secs.map_or(end_secs, |send_secs| end_secs.max(last_secs) + send_secs)
    }

    /// Replays one step of devices that each run the tasks of their list in order.
    pub(super) fn replay(&self, orders: Vec<Vec<Task>>) -> Timeline {
        let n_devices = orders.len();
        let mut replay = Replay::new(self, orders);
        while (0..n_devices).filter(|&device| replay.advance(device)).count() > 0 {}
        Timeline { events: replay.events, n_devices, is_split: false }
    }
}

/// A replay under way.
struct Replay<'a> {
    pipeline: &'a Pipeline,
    /// Per device: its tasks, and how many are done.
    orders: Vec<Vec<Task>>,
    n_done: Vec<usize>,
    free_secs: Vec<f64>,
    /// Per phase, stage and microbatch: when what it has made arrives, once it has run.
    arrived_secs: [Vec<Vec<Option<f64>>>; 2],
    /// Per phase and device: when the last of that arrives.
    last_secs: [Vec<f64>; 2],
    events: Vec<Event>,
}

impl<'a> Replay<'a> {
    fn new(pipeline: &'a Pipeline, orders: Vec<Vec<Task>>) -> Replay<'a> {
        let none = vec![vec![None; pipeline.n_microbatches]; pipeline.n_stages()];
        Replay {
            pipeline,
            n_done: vec![0; orders.len()],
            free_secs: vec![0.0; orders.len()],
            last_secs: [vec![0.0; orders.len()], vec![0.0; orders.len()]],
            orders,
            arrived_secs: [none.clone(), none],
            events: Vec::with_capacity(2 * pipeline.n_stages() * pipeline.n_microbatches),
        }
    }

    /// Runs what `device` can run now; whether that was anything.
    fn advance(&mut self, device: usize) -> bool {
        let before = self.n_done[device];
        while let Some(&task) = self.orders[device].get(self.n_done[device]) {
            let Some(ready_secs) = self.ready_secs(task) else { break };
            self.run(device, task, ready_secs.max(self.free_secs[device]));
        }
        self.n_done[device] > before
    }

    fn run(&mut self, device: usize, (phase, stage, microbatch): Task, start_secs: f64) {
        let secs = match phase {
            Part::Forward => self.pipeline.forward_secs[stage],
            Part::Backward | Part::WeightGradient => self.pipeline.backward_secs[stage],
        };
        let end_secs = start_secs + secs;
        let last_secs = &mut self.last_secs[phase as usize][device];
        let arrives_secs = self.pipeline.arrival_secs(phase, stage, end_secs, *last_secs);
        *last_secs = arrives_secs;
        self.arrived_secs[phase as usize][stage][microbatch] = Some(arrives_secs);
        self.events.push(Event { stage, microbatch, phase, start_secs, end_secs, arrives_secs });
        self.free_secs[device] = end_secs;
        self.n_done[device] += 1;
    }

    /// When the input of a task is there; `None` while its producer has not run.
    fn ready_secs(&self, (phase, stage, microbatch): Task) -> Option<f64> {
        let last = self.pipeline.n_stages() - 1;
        let [forward, backward] = &self.arrived_secs;
        match phase {
            Part::Forward if stage == 0 => Some(0.0),
            Part::Forward => forward[stage - 1][microbatch],
            _ if stage == last => forward[stage][microbatch],
            _ => backward[stage + 1][microbatch],
        }
    }
}
