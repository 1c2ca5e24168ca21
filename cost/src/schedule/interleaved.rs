//! Pipelines whose devices hold several stages each: interleaved 1F1B (Narayanan et al., SC 2021).
//!
//! With `v` stages per device, stage `s` of the `p v` runs on device `s mod p`. Microbatches go in groups of
//! `p`: a device runs a whole group through its first stage, then the group through its second, and so on;
//! backward in reverse. A last group that is part full runs as a full one would, less what is missing: in any
//! other order devices can come to wait for one another for ever.

use super::simulate::{Task, Timeline};
use super::{Part, Pipeline};

/// Who runs what in an interleaved pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaving {
    /// Stages; a multiple of the device groups.
    pub n_stages: usize,
    /// Device groups (devices, where each stage runs on one).
    pub n_groups: usize,
    /// Microbatches of one step.
    pub n_microbatches: usize,
}

impl Pipeline {
    /// Replays one step in which `n_devices` devices share the stages in turn; with as many devices as stages
    /// it is 1F1B.
    ///
    /// A device holds at most `2 (p - d - 1) + (v - 1) p + 1` activations of one stage each: twice what
    /// 1F1B's warm-up has, for the backwards of its last stage come back late.
    pub fn simulate_interleaved(&self, n_devices: usize) -> Timeline {
        let interleaving = self.interleaving(n_devices);
        self.replay((0..n_devices).map(|device| interleaving.order(device)).collect())
    }

    /// The most activations, each of one stage, that `device` holds at once.
    pub fn interleaved_in_flight(&self, device: usize, n_devices: usize) -> usize {
        self.interleaving(n_devices).in_flight(device)
    }

    /// The most that `device` holds at once, each of its stages keeping so much for a microbatch between its
    /// forward and its backward part.
    pub fn interleaved_held(&self, device: usize, n_devices: usize, kept: &[f64]) -> f64 {
        self.interleaving(n_devices).most_held(device, kept)
    }

    fn interleaving(&self, n_groups: usize) -> Interleaving {
        Interleaving { n_stages: self.n_stages(), n_groups, n_microbatches: self.n_microbatches }
    }
}

impl Interleaving {
    /// The most activations, each of one stage, that `group` holds at once.
    pub fn in_flight(&self, group: usize) -> usize {
        self.most_held(group, &vec![1.0; self.n_chunks()]) as usize
    }

    /// The most microbatches that `stage` has begun and not done backward.
    pub fn n_waiting(&self, stage: usize) -> usize {
        let mut one = vec![0.0; self.n_chunks()];
        one[stage / self.n_groups] = 1.0;
        self.most_held(stage % self.n_groups, &one) as usize
    }

    /// The most that `group` holds at once, each of its stages keeping so much for a microbatch between its
    /// forward and its backward part.
    pub fn most_held(&self, group: usize, kept: &[f64]) -> f64 {
        self.held_by_task(group, kept).into_iter().flatten().fold(0.0, f64::max)
    }

    /// The same while a task of each of the group's stages is under way, forward and backward.
    pub fn held_by_task(&self, group: usize, kept: &[f64]) -> Vec<[f64; 2]> {
        // Counts are exact where sums of bytes are not.
        let mut n_held = vec![0_usize; self.n_chunks()];
        let mut most = vec![[0.0f64; 2]; self.n_chunks()];
        for (phase, stage, _) in self.order(group) {
            let chunk = stage / self.n_groups;
            n_held[chunk] += usize::from(phase == Part::Forward);
            let held: f64 = n_held.iter().zip(kept).map(|(&n, kept)| n as f64 * kept).sum();
            let own = &mut most[chunk][usize::from(phase != Part::Forward)];
            *own = own.max(held);
            n_held[chunk] -= usize::from(phase != Part::Forward);
        }
        most
    }

    fn n_chunks(&self) -> usize {
        self.n_stages / self.n_groups.max(1)
    }

    /// Forwards that a group runs before it turns to one forward, one backward.
    fn n_warmup(&self, group: usize) -> usize {
        let n_chunks = self.n_chunks();
        let in_turn = if n_chunks > 1 { 2 } else { 1 };
        in_turn * (self.n_groups - group - 1) + (n_chunks - 1) * self.n_groups
    }

    /// The tasks of a group in order.
    fn order(&self, group: usize) -> Vec<Task> {
        let [forwards, backwards] = [Part::Forward, Part::Backward].map(|phase| self.tasks(group, phase));
        let n_warmup = self.n_warmup(group).min(forwards.len());
        let (warmup, steady) = forwards.split_at(n_warmup);
        let in_turn = steady.iter().zip(&backwards).flat_map(|(&forward, &backward)| [forward, backward]);
        let drain = backwards[steady.len()..].iter().copied();
        let all = warmup.iter().copied().chain(in_turn).chain(drain);
        all.filter(|(.., microbatch)| *microbatch < self.n_microbatches).collect()
    }

    /// The tasks of one phase in order: as many microbatches as there are groups, through all stages of the
    /// group, then the next ones; the last ones as if there were as many.
    fn tasks(&self, group: usize, phase: Part) -> Vec<Task> {
        let (n_groups, n_chunks) = (self.n_groups, self.n_chunks());
        let stage = |turn: usize| match phase {
            Part::Forward => turn * n_groups + group,
            _ => (n_chunks - 1 - turn) * n_groups + group,
        };
        let firsts = (0..self.n_microbatches).step_by(n_groups);
        let through =
            |first: usize, turn: usize| (first..first + n_groups).map(move |one| (phase, stage(turn), one));
        firsts.flat_map(|first| (0..n_chunks).flat_map(move |turn| through(first, turn))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;
    use proptest::prelude::*;

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

    prop_compose! {
        fn any_pipeline()(n_devices in 1_usize..6, n_chunks in 2_usize..5)(
            n_devices in Just(n_devices),
            n_chunks in Just(n_chunks),
            forward_secs in prop::collection::vec(0.1..2.0, n_devices * n_chunks),
            backward_secs in prop::collection::vec(0.1..4.0, n_devices * n_chunks),
            send_secs in prop::collection::vec(0.0..1.0, n_devices * n_chunks - 1),
            n_microbatches in 1_usize..20,
        ) -> (usize, usize, Pipeline) {
            (n_devices, n_chunks, Pipeline { forward_secs, backward_secs, send_secs, n_microbatches, ..Pipeline::default() })
        }
    }

    #[test]
    fn the_bubble_shrinks_by_the_number_of_chunks() {
        for (n_devices, n_chunks, n_microbatches) in [(4, 1, 8), (4, 2, 8), (4, 3, 12), (8, 4, 16), (2, 2, 2)]
        {
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
    fn a_group_of_microbatches_that_is_part_full_still_ends() {
        for (n_devices, n_chunks) in (1..8).flat_map(|n| (2..6).map(move |v| (n, v))) {
            for n_microbatches in 1..20 {
                let timeline = chunked(n_devices, n_chunks, n_microbatches).simulate_interleaved(n_devices);
                let n_tasks = 2 * n_devices * n_chunks * n_microbatches;
                assert_eq!(timeline.events.len(), n_tasks, "{n_devices} {n_chunks} {n_microbatches}");
            }
        }
    }

    #[test]
    fn a_schedule_names_its_number_of_chunks() {
        assert_eq!("interleaved:3".parse(), Ok(Schedule::Interleaved(3)));
        assert_eq!(Schedule::Interleaved(3).to_string(), "interleaved:3");
        for text in ["interleaved", "interleaved:", "interleaved:1", "interleaved:0", "interleaved:-2"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_task_runs_once_after_what_it_waits_for_and_alone_on_its_device((n_devices, n_chunks, pipeline) in any_pipeline()) {
            let timeline = pipeline.simulate(Schedule::Interleaved(n_chunks));
            let mut ends = std::collections::BTreeMap::new();
            let mut free_secs = vec![0.0; n_devices];
            let n_stages = pipeline.n_stages();
            for event in &timeline.events {
                let device = timeline.device(event);
                prop_assert!(device == event.stage % n_devices && event.start_secs >= free_secs[device]);
                free_secs[device] = event.end_secs;
                let of = |phase, stage: usize| ends[&(phase, stage, event.microbatch)];
                let ready = match (event.phase, event.stage) {
                    (Part::Forward, 0) => 0.0,
                    (Part::Forward, stage) => of(Part::Forward, stage - 1) + pipeline.send_secs[stage - 1],
                    (_, stage) if stage + 1 == n_stages => of(Part::Forward, stage),
                    (_, stage) => of(Part::Backward, stage + 1) + pipeline.send_secs[stage],
                };
                prop_assert!(event.start_secs >= ready, "{event:?}: {ready}");
                prop_assert!(ends.insert((event.phase, event.stage, event.microbatch), event.end_secs).is_none());
            }
            prop_assert_eq!(ends.len(), 2 * n_stages * pipeline.n_microbatches);
        }

        #[test]
        fn the_replay_holds_as_many_activations_as_the_formulas_say((n_devices, n_chunks, pipeline) in any_pipeline()) {
            let schedule = Schedule::Interleaved(n_chunks);
            let formula: Vec<usize> =
                (0..n_devices).map(|device| pipeline.interleaved_in_flight(device, n_devices)).collect();
            let most = |device: usize| 2 * (n_devices - device - 1) + (n_chunks - 1) * n_devices + 1;
            prop_assert!((0..n_devices).all(|device| formula[device] <= most(device)), "{formula:?}");
            let timeline = pipeline.simulate(schedule);
            prop_assert_eq!(timeline.in_flight(), formula.clone());
            let held = |device| pipeline.interleaved_held(device, n_devices, &vec![1.0; n_chunks]);
            prop_assert_eq!((0..n_devices).map(held).collect::<Vec<_>>(), formula.iter().map(|&n| n as f64).collect::<Vec<_>>());
            let (mut now, mut most) = (vec![0_usize; pipeline.n_stages()], vec![0_usize; pipeline.n_stages()]);
            for event in &timeline.events {
                now[event.stage] += usize::from(event.phase == Part::Forward);
                most[event.stage] = most[event.stage].max(now[event.stage]);
                now[event.stage] -= usize::from(timeline.frees(event));
            }
            prop_assert_eq!(most, pipeline.in_flight(schedule));
        }

        #[test]
        fn no_replay_beats_the_busiest_device_or_link_or_one_microbatch((n_devices, n_chunks, pipeline) in any_pipeline()) {
            let both: Vec<f64> = pipeline.forward_secs.iter().zip(&pipeline.backward_secs).map(|(f, b)| f + b).collect();
            let of_device = |device: usize| both.iter().skip(device).step_by(n_devices).sum::<f64>();
            let of_link = |device: usize| pipeline.send_secs.iter().skip(device).step_by(n_devices).sum::<f64>();
            let each = (0..n_devices).map(|device| of_device(device).max(of_link(device)));
            let busiest = each.fold(0.0, f64::max) * pipeline.n_microbatches as f64;
            let once = both.iter().sum::<f64>() + 2.0 * pipeline.send_secs.iter().sum::<f64>();
            let replayed = pipeline.step_secs(Schedule::Interleaved(n_chunks));
            prop_assert!(replayed >= busiest.max(once) * (1.0 - 1e-9), "{replayed} {busiest} {once}");
        }
    }
}
