//! Seconds of a step of a cut, by schedule: estimates in closed form, for the report replays the text; of interleaved pipelines the replay.

use super::table::StageTable;
use phzc_cost::{Pipeline, Schedule};

impl StageTable<'_> {
    /// Seconds of a step, the update included. With `t` of a stage's seconds for a microbatch both ways, sends to the next
    /// stage included:
    ///
    /// * 1F1B: `sum t + (B-1) max t` (Alpa, OSDI'22, section 5.1).
    /// * GPipe: `sum t + (B-1) (max f + max b)`, sends delaying once.
    /// * Zero-bubble: 1F1B's, less twice what the other stages than the slowest put off, as far as it is no longer than a forward,
    ///   but no less than the slowest stage's work; exact for equal stages (Qi et al., ICLR 2024, table 1).
    /// * Interleaved: the replay of every task.
    pub fn step_secs(&self, starts: &[usize], schedule: Schedule) -> f64 {
        let secs = self.stage_secs(starts);
        let most = |secs: &[f64]| secs.iter().copied().fold(0.0, f64::max);
        let n_further = self.n_microbatches as f64 - 1.0;
        let [sum, longest, update] = [secs.iter().sum::<f64>(), most(&secs), self.update_secs(starts)];
        let one_f_one_b = sum + n_further * longest;
        let forward = self.sums(starts, &self.forward);
        let step_secs = match schedule {
            Schedule::OneFOneB => one_f_one_b,
            Schedule::GPipe => {
                let sends = self.send_secs(starts);
                let backward: Vec<f64> =
                    (0..secs.len()).map(|stage| secs[stage] - forward[stage] - sends[stage]).collect();
                sum + n_further * (most(&forward) + most(&backward))
            }
            Schedule::ZeroBubble => {
                let weight = self.sums(starts, &self.weight);
                let put_off: Vec<f64> = weight.iter().zip(&forward).map(|(w, f)| w.min(*f)).collect();
                let filled = 2.0 * (put_off.iter().sum::<f64>() - most(&put_off));
                (one_f_one_b - filled).max((n_further + 1.0) * longest)
            }
            Schedule::Interleaved(_) => self.replayed_secs(starts, schedule, self.n_microbatches),
        };
        step_secs + update
    }

    /// The same by the replay of so many microbatches, without the update; infinite where memory does not allow the cut.
    pub(super) fn replayed_secs(&self, starts: &[usize], schedule: Schedule, n_microbatches: usize) -> f64 {
        let (both, forward_secs) = (self.stage_secs(starts), self.sums(starts, &self.forward));
        if both.iter().any(|secs| secs.is_infinite()) {
            return f64::INFINITY;
        }
        let sends = self.send_secs(starts);
        let backward =
            both.iter().zip(&forward_secs).zip(&sends).map(|((both, forward), send)| both - forward - send);
        let pipeline = Pipeline {
            backward_secs: backward.collect(),
            forward_secs,
            weight_secs: Vec::new(),
            send_secs: sends.iter().take(starts.len() - 1).map(|send| 0.5 * send).collect(),
            n_microbatches,
        };
        pipeline.step_secs(schedule)
    }

    fn sums(&self, starts: &[usize], of: &[f64]) -> Vec<f64> {
        self.stages(starts).map(|(from, to)| of[to] - of[from]).collect()
    }

    fn send_secs(&self, starts: &[usize]) -> Vec<f64> {
        let send = |(_, to): (usize, usize)| self.chain.send_secs.get(to).copied().unwrap_or(0.0);
        self.stages(starts).map(send).collect()
    }
}
