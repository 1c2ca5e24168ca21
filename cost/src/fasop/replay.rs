//! 1F1B, replayed with the sends that FASOP waits for.

mod path;

pub use path::{CriticalPath, critical_path};

use super::Variant;

/// A stage's work in the order in which it runs: microbatches forward or backward.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Task {
    is_forward: bool,
    microbatch: usize,
}

/// When each stage has ended its last backward part.
///
/// A forward result goes across while its stage goes on. A backward one goes across once the receiver has
/// ended the task before the one that takes it, and its stage waits for that. FASOP's own form lets only the
/// first stage's forward and the last stage's backward results take time. (Which of both waits was told by
/// the times of its 33,274 rows.)
pub fn step_secs(
    stage_secs: &[f64],
    boundary_secs: &[f64],
    n_microbatches: usize,
    variant: Variant,
) -> Vec<f64> {
    let n = stage_secs.len();
    if n == 1 {
        return vec![n_microbatches as f64 * stage_secs[0]];
    }
    let replay = replay(stage_secs, boundary_secs, n_microbatches, variant);
    replay.ends.iter().map(|ends| ends.last().copied().unwrap_or(0.0)).collect()
}

/// A step, replayed to its end.
fn replay<'a>(
    stage_secs: &'a [f64],
    boundary_secs: &'a [f64],
    n_microbatches: usize,
    variant: Variant,
) -> Replay<'a> {
    let n = stage_secs.len();
    let mut replay = Replay {
        stage_secs,
        boundary_secs,
        is_strict: variant == Variant::Strict,
        orders: (0..n).map(|stage| order(n - 1 - stage, n_microbatches)).collect(),
        ends: vec![vec![f64::NAN; 2 * n_microbatches]; n],
        done: vec![0; n],
    };
    replay.run();
    replay
}

/// Warm-up, one forward and one backward in turn, the rest.
fn order(n_warm: usize, n_microbatches: usize) -> Vec<Task> {
    let n_warm = n_warm.min(n_microbatches);
    let task = |is_forward, microbatch| Task { is_forward, microbatch };
    let mut order: Vec<Task> = (0..n_warm).map(|it| task(true, it)).collect();
    for it in n_warm..n_microbatches {
        order.extend([task(true, it), task(false, it - n_warm)]);
    }
    order.extend((n_microbatches - n_warm..n_microbatches).map(|it| task(false, it)));
    order
}

struct Replay<'a> {
    stage_secs: &'a [f64],
    boundary_secs: &'a [f64],
    is_strict: bool,
    orders: Vec<Vec<Task>>,
    /// Per stage and place in its order.
    ends: Vec<Vec<f64>>,
    /// How many tasks of each stage have ended.
    done: Vec<usize>,
}

impl Replay<'_> {
    /// Runs what can run until nothing can.
    fn run(&mut self) {
        let mut is_open = true;
        while is_open {
            is_open = false;
            for stage in 0..self.orders.len() {
                while self.done[stage] < self.orders[stage].len() && self.try_next(stage) {
                    is_open = true;
                }
            }
        }
    }

    /// Runs the next task of a stage, if what it waits for is known.
    fn try_next(&mut self, stage: usize) -> bool {
        let place = self.done[stage];
        let before = if place == 0 { Some(0.0) } else { self.free(stage, place - 1) };
        let (Some(before), Some(arrived)) = (before, self.arrived(stage, place)) else { return false };
        let part = self.part(stage, place);
        self.ends[stage][place] = before.max(arrived) + part * self.stage_secs[stage] / 3.0;
        self.done[stage] += 1;
        true
    }

    /// Thirds of a microbatch's seconds that a task takes.
    fn part(&self, stage: usize, place: usize) -> f64 {
        if self.orders[stage][place].is_forward { 1.0 } else { 2.0 }
    }

    /// When a stage goes on after a task: a result of a backward part is waited for until it is across.
    fn free(&self, stage: usize, place: usize) -> Option<f64> {
        if self.orders[stage][place].is_forward {
            return (place < self.done[stage]).then(|| self.ends[stage][place]);
        }
        self.sent(stage, place)
    }

    /// When the input of a task is there; at the ends of the pipeline there is none.
    fn arrived(&self, stage: usize, place: usize) -> Option<f64> {
        let task = self.orders[stage][place];
        let maker = if task.is_forward { stage.checked_sub(1) } else { Some(stage + 1) };
        let Some(maker) = maker.filter(|maker| *maker < self.orders.len()) else { return Some(0.0) };
        self.sent(maker, self.place(maker, task))
    }

    /// When the result of a task is with its receiver.
    fn sent(&self, stage: usize, place: usize) -> Option<f64> {
        if place >= self.done[stage] {
            return None;
        }
        let (task, end) = (self.orders[stage][place], self.ends[stage][place]);
        let receiver = if task.is_forward { Some(stage + 1) } else { stage.checked_sub(1) };
        let Some(receiver) = receiver.filter(|it| *it < self.orders.len()) else { return Some(end) };
        let send_secs = self.send_secs(stage, task.is_forward);
        if task.is_forward {
            return Some(end + send_secs);
        }
        let wanted = self.place(receiver, task);
        let ready = if wanted == 0 {
            0.0
        } else if wanted <= self.done[receiver] {
            self.ends[receiver][wanted - 1]
        } else {
            return None;
        };
        Some(end.max(ready) + send_secs)
    }

    fn send_secs(&self, stage: usize, is_forward: bool) -> f64 {
        let last = self.orders.len() - 1;
        match is_forward {
            true if self.is_strict || stage == 0 => self.boundary_secs[stage],
            false if self.is_strict || stage == last => self.boundary_secs[stage - 1],
            _ => 0.0,
        }
    }

    /// Where a task stands in a stage's order.
    fn place(&self, stage: usize, task: Task) -> usize {
        let n_microbatches = self.orders[stage].len() / 2;
        let n_warm = (self.orders.len() - 1 - stage).min(n_microbatches);
        let it = task.microbatch;
        match task.is_forward {
            true if it < n_warm => it,
            true => n_warm + 2 * (it - n_warm),
            false if it + n_warm < n_microbatches => n_warm + 2 * it + 1,
            false => n_microbatches + it,
        }
    }
}
