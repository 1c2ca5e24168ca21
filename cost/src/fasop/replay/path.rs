//! The longest chain of dependent work in a replayed step.

use super::{Replay, Variant, replay};

/// A chain of dependent work up to the end of one stage, as a sum: no cut ends that stage before
/// `constant_secs` plus each stage's seconds of a microbatch times its weight, whatever these seconds are.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalPath {
    /// Seconds of the sends on it.
    pub constant_secs: f64,
    /// Per stage: how many microbatches on it, a forward part counted as a third.
    pub weights: Vec<f64>,
}

/// A moment that others wait for.
#[derive(Clone, Copy)]
enum Moment {
    /// A task's end.
    End(usize, usize),
    /// The arrival of a backward result.
    Sent(usize, usize),
}
use Moment::{End, Sent};

/// The critical path to the end of a stage, for the times that are given.
pub fn critical_path(
    stage_secs: &[f64],
    boundary_secs: &[f64],
    n_microbatches: usize,
    variant: Variant,
    end: usize,
) -> CriticalPath {
    let replay = replay(stage_secs, boundary_secs, n_microbatches, variant);
    let mut path = CriticalPath { constant_secs: 0.0, weights: vec![0.0; stage_secs.len()] };
    let mut moment = Some(End(end, 2 * n_microbatches - 1));
    while let Some(now) = moment {
        if let End(stage, place) = now {
            path.weights[stage] += replay.part(stage, place) / 3.0;
        }
        let waited = replay.waited(now).into_iter().flatten();
        let last = waited.map(|(from, send)| (replay.secs(from) + send, from, send));
        let last = last.max_by(|a, b| a.0.total_cmp(&b.0));
        path.constant_secs += last.map_or(0.0, |(_, _, send)| send);
        moment = last.map(|(_, from, _)| from);
    }
    path
}

impl Replay<'_> {
    fn secs(&self, moment: Moment) -> f64 {
        match moment {
            End(stage, place) => self.ends[stage][place],
            Sent(stage, place) => self.sent(stage, place).unwrap_or(0.0),
        }
    }

    /// The moments that one waits for, and the seconds of a send from there.
    fn waited(&self, moment: Moment) -> [Option<(Moment, f64)>; 2] {
        match moment {
            Sent(0, place) => [Some((End(0, place), 0.0)), None],
            Sent(stage, place) => {
                let wanted = self.place(stage - 1, self.orders[stage][place]);
                let ready = wanted.checked_sub(1).map(|before| End(stage - 1, before));
                let send = self.send_secs(stage, false);
                [Some((End(stage, place), send)), ready.map(|ready| (ready, send))]
            }
            End(stage, place) => [self.own(stage, place), self.input(stage, place)],
        }
    }

    /// What the stage itself does before a task.
    fn own(&self, stage: usize, place: usize) -> Option<(Moment, f64)> {
        let before = place.checked_sub(1)?;
        let is_forward = self.orders[stage][before].is_forward;
        Some((if is_forward { End(stage, before) } else { Sent(stage, before) }, 0.0))
    }

    /// What another stage does before it.
    fn input(&self, stage: usize, place: usize) -> Option<(Moment, f64)> {
        let task = self.orders[stage][place];
        let maker = if task.is_forward { stage.checked_sub(1)? } else { stage + 1 };
        if maker == self.orders.len() {
            return None;
        }
        let made = self.place(maker, task);
        Some(match task.is_forward {
            true => (End(maker, made), self.send_secs(maker, true)),
            false => (Sent(maker, made), 0.0),
        })
    }
}
