//! Pipelines whose devices hold several stages each: interleaved 1F1B (Narayanan et al., SC 2021).
//!
//! With `v` stages per device, stage `s` of the `p v` runs on device `s mod p`. Microbatches go in groups of `p`: a device
//! runs a whole group through its first stage, then the group through its second, and so on; backward in reverse.

use super::simulate::{Task, Timeline};
use super::{Phase, Pipeline};

impl Pipeline {
    /// Replays one step in which `n_devices` devices share the stages in turn; with as many devices as stages it is 1F1B.
    ///
    /// A device holds at most `2 (p - d - 1) + (v - 1) p + 1` activations of one stage each: twice what 1F1B's warm-up has, for
    /// the backwards of its last stage come back late.
    pub fn simulate_interleaved(&self, n_devices: usize) -> Timeline {
        self.replay((0..n_devices).map(|device| self.interleaved_order(device, n_devices)).collect())
    }

    /// The most activations, each of one stage, that `device` holds at once.
    pub fn interleaved_in_flight(&self, device: usize, n_devices: usize) -> usize {
        let n_tasks = self.n_microbatches * (self.n_stages() / n_devices.max(1));
        (self.n_warmup_chunks(device, n_devices) + 1).min(n_tasks)
    }

    /// The most that `device` holds at once, each of its stages keeping so much for a microbatch between its forward and its backward part.
    pub fn interleaved_held(&self, device: usize, n_devices: usize, kept: &[f64]) -> f64 {
        let (mut held, mut most) = (0.0, 0.0f64);
        for (phase, stage, _) in self.interleaved_order(device, n_devices) {
            let own = kept[stage / n_devices];
            held += if phase == Phase::Forward { own } else { -own };
            most = most.max(held);
        }
        most
    }

    /// Forwards that a device runs before it turns to one forward, one backward.
    fn n_warmup_chunks(&self, device: usize, n_devices: usize) -> usize {
        let n_chunks = self.n_stages() / n_devices.max(1);
        let in_turn = if n_chunks > 1 { 2 } else { 1 };
        in_turn * (n_devices - device - 1) + (n_chunks - 1) * n_devices
    }

    fn interleaved_order(&self, device: usize, n_devices: usize) -> Vec<Task> {
        let forwards = self.chunk_tasks(device, n_devices, Phase::Forward);
        let backwards = self.chunk_tasks(device, n_devices, Phase::Backward);
        let n_warmup = self.n_warmup_chunks(device, n_devices).min(forwards.len());
        let (warmup, steady) = forwards.split_at(n_warmup);
        let in_turn = steady.iter().zip(&backwards).flat_map(|(&forward, &backward)| [forward, backward]);
        let drain = backwards[steady.len()..].iter().copied();
        warmup.iter().copied().chain(in_turn).chain(drain).collect()
    }

    /// The tasks of one phase in order: groups of `n_devices` microbatches, each through all stages of the device.
    fn chunk_tasks(&self, device: usize, n_devices: usize, phase: Phase) -> Vec<Task> {
        let n_chunks = self.n_stages() / n_devices;
        let stage = |turn: usize| match phase {
            Phase::Forward => turn * n_devices + device,
            _ => (n_chunks - 1 - turn) * n_devices + device,
        };
        let group = |first: usize| first..(first + n_devices).min(self.n_microbatches);
        let groups = (0..self.n_microbatches).step_by(n_devices).map(group);
        groups
            .flat_map(|group| {
                (0..n_chunks).flat_map(move |turn| group.clone().map(move |one| (phase, stage(turn), one)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    fn chunked(n_devices: usize, n_chunks: usize, n_microbatches: usize) -> Pipeline {
        let n_stages = n_devices * n_chunks;
        let (forward_secs, backward_secs) = (vec![1.0; n_stages], vec![2.0; n_stages]);
        Pipeline {
            forward_secs,
            backward_secs,
            send_secs: vec![0.0; n_stages - 1],
            n_microbatches,
            ..Pipeline::default()
        }
    }

    #[test]
    fn the_bubble_shrinks_by_the_number_of_chunks() {
        for (n_devices, n_chunks, n_microbatches) in [(4, 1, 8), (4, 2, 8), (4, 3, 12), (8, 4, 16)] {
            let step =
                chunked(n_devices, n_chunks, n_microbatches).simulate_interleaved(n_devices).step_secs();
            assert_eq!(step, 3.0 * (n_microbatches * n_chunks + n_devices - 1) as f64);
        }
    }

    #[test]
    fn one_chunk_is_one_f_one_b() {
        let pipeline = chunked(5, 1, 9);
        assert_eq!(pipeline.simulate_interleaved(5), pipeline.simulate(Schedule::OneFOneB));
    }

    #[test]
    fn the_replay_holds_as_many_activations_as_the_formula_says() {
        let pipeline = chunked(4, 3, 16);
        let formula: Vec<usize> = (0..4).map(|device| pipeline.interleaved_in_flight(device, 4)).collect();
        assert_eq!(pipeline.simulate_interleaved(4).in_flight(), formula);
        let held: Vec<f64> = (0..4).map(|device| pipeline.interleaved_held(device, 4, &[1.0; 3])).collect();
        assert_eq!(held, formula.iter().map(|&n| n as f64).collect::<Vec<_>>());
    }

    #[test]
    fn a_group_of_microbatches_that_is_part_full_still_ends() {
        let timeline = chunked(4, 2, 6).simulate_interleaved(4);
        assert_eq!(timeline.events.len(), 2 * 8 * 6);
    }
}
