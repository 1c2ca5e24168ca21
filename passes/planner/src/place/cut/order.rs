//! Seconds of a step of a cut, by schedule: estimates in closed form, for the report replays the text; of
//! interleaved pipelines, and of unlike stages whose bubbles are filled, the replay.

use phzc_cost::{Pipeline, Schedule};

/// What a stage takes: seconds of one microbatch, and of the update.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Both ways, with what is computed again and sends to the next stage.
    pub secs: f64,
    /// The forward part of them.
    pub forward_secs: f64,
    /// The part of backward that no other stage waits for.
    pub weight_secs: f64,
    /// Sends to the next stage, both ways.
    pub send_secs: f64,
    /// The update, once per step.
    pub update_secs: f64,
}

/// Seconds of a step, the update included. With `t` of a stage's seconds for a microbatch both ways, sends to
/// the next stage included:
///
/// * 1F1B: `sum t + (B-1) max t` (Alpa, OSDI'22, section 5.1).
/// * GPipe: `sum t + (B-1) (max f + max b)`, sends delaying once.
/// * Zero-bubble: 1F1B's, less twice what the other stages than the slowest put off, as far as it is no
///   longer than a forward, but no less than the slowest stage's work; exact for equal stages (Qi et al.,
///   ICLR 2024, table 1).
/// * Interleaved: the replay of every task.
pub fn step_secs(stages: &[Times], n_microbatches: usize, schedule: Schedule) -> f64 {
    let most = |of: &dyn Fn(&Times) -> f64| stages.iter().map(of).fold(0.0, f64::max);
    let sum = |of: &dyn Fn(&Times) -> f64| stages.iter().map(of).sum::<f64>();
    let n_further = n_microbatches as f64 - 1.0;
    let longest = most(&|it| it.secs);
    let one_f_one_b = sum(&|it| it.secs) + n_further * longest;
    let step_secs = match schedule {
        Schedule::OneFOneB => one_f_one_b,
        Schedule::GPipe => {
            let backward = most(&|it| it.secs - it.forward_secs - it.send_secs);
            sum(&|it| it.secs) + n_further * (most(&|it| it.forward_secs) + backward)
        }
        Schedule::ZeroBubble => {
            let put_off = stages.iter().map(|it| it.weight_secs.min(it.forward_secs));
            let filled = 2.0 * (put_off.clone().sum::<f64>() - put_off.fold(0.0, f64::max));
            (one_f_one_b - filled).max((n_further + 1.0) * longest)
        }
        Schedule::Interleaved(_) => replayed_secs(stages, n_microbatches, schedule),
    };
    step_secs + update_secs(stages, schedule)
}

/// The same by the replay, without the update; infinite where memory does not allow the cut.
pub fn replayed_secs(stages: &[Times], n_microbatches: usize, schedule: Schedule) -> f64 {
    if stages.iter().any(|it| it.secs.is_infinite()) {
        return f64::INFINITY;
    }
    let n_sends = stages.len() - 1;
    // What recomputation gains may be taken from what is put off.
    let backward_secs = |it: &Times| (it.secs - it.forward_secs - it.send_secs).max(0.0);
    // No stage waits for the first one's gradients.
    let put_off_secs = |(stage, it): (usize, &Times)| match stage {
        0 => backward_secs(it),
        _ => it.weight_secs.min(backward_secs(it)),
    };
    let pipeline = Pipeline {
        forward_secs: stages.iter().map(|it| it.forward_secs).collect(),
        backward_secs: stages.iter().map(backward_secs).collect(),
        weight_secs: stages.iter().enumerate().map(put_off_secs).collect(),
        send_secs: stages[..n_sends].iter().map(|it| 0.5 * it.send_secs).collect(),
        n_microbatches,
    };
    pipeline.step_secs(schedule)
}

/// Seconds of the longest update of a device group.
pub fn update_secs(stages: &[Times], schedule: Schedule) -> f64 {
    of_groups(stages.iter().map(|it| it.update_secs), stages.len(), schedule)
}

/// The most that a device group has of something, all its stages together.
pub fn of_groups(of_stages: impl Iterator<Item = f64>, n_stages: usize, schedule: Schedule) -> f64 {
    let n_groups = schedule.n_groups(n_stages);
    let mut sums = vec![0.0; n_groups];
    of_stages.enumerate().for_each(|(stage, figure)| sums[stage % n_groups] += figure);
    sums.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
