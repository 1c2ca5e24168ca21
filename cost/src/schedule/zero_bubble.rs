//! Zero-bubble pipelines: the gradients of weights wait for idle moments (Qi et al., ICLR 2024, ZB-H1).
//!
//! Only the gradient of the input holds up the stage before, so a stage runs first what others wait for:
//! forwards, as long as it holds no more activations than 1F1B would and no more than 1F1B's first stage,
//! input gradients, then weight gradients.

use super::simulate::{Event, Timeline};
use super::{Part, Pipeline, Schedule};
use std::collections::BTreeSet;

/// Where one stage stands.
#[derive(Clone, Default)]
struct Stage {
    free_secs: f64,
    /// When what each forward has made is where it is read, and each input gradient.
    forward_arrives_secs: Vec<f64>,
    input_arrives_secs: Vec<f64>,
    n_weights: usize,
    /// What it would do next, as it is queued.
    next: Option<(u64, Part)>,
}

/// A replay under way.
struct Replay<'a> {
    pipeline: &'a Pipeline,
    stages: Vec<Stage>,
    /// What each stage would do next: first what can start first; of several the most urgent, then that of
    /// the first stage. Times are not negative, so their bits are in their order.
    queue: BTreeSet<(u64, Part, usize)>,
    events: Vec<Event>,
}

impl Pipeline {
    /// Replays one step, each stage doing the most urgent of what it can start first.
    pub(super) fn zero_bubble(&self) -> Timeline {
        let n_stages = self.n_stages();
        let stages = vec![Stage::default(); n_stages];
        let mut replay = Replay { pipeline: self, stages, queue: BTreeSet::new(), events: Vec::new() };
        (0..n_stages).for_each(|stage| replay.queue(stage));
        while let Some((start, phase, stage)) = replay.queue.pop_first() {
            replay.run(f64::from_bits(start), phase, stage);
            // Only neighbours wait for what a stage does.
            (stage.saturating_sub(1)..n_stages.min(stage + 2)).for_each(|stage| replay.queue(stage));
        }
        Timeline { events: replay.events, n_devices: n_stages, is_split: true }
    }

    fn weight_gradient_secs(&self, stage: usize) -> f64 {
        self.weight_secs.get(stage).copied().unwrap_or(0.0)
    }
}

impl Replay<'_> {
    /// Queues what a stage would do next, in place of what was queued of it.
    fn queue(&mut self, stage: usize) {
        let next = self.possible(stage).into_iter().flatten();
        let next = next.map(|(start_secs, phase)| (start_secs.to_bits(), phase)).min();
        if let Some((start, phase)) = std::mem::replace(&mut self.stages[stage].next, next) {
            self.queue.remove(&(start, phase, stage));
        }
        self.queue.extend(next.map(|(start, phase)| (start, phase, stage)));
    }

    fn run(&mut self, start_secs: f64, phase: Part, stage: usize) {
        let (pipeline, weight_secs) = (self.pipeline, self.pipeline.weight_gradient_secs(stage));
        let one = &mut self.stages[stage];
        let (microbatch, secs) = match phase {
            Part::Forward => (one.forward_arrives_secs.len(), pipeline.forward_secs[stage]),
            Part::Backward => (one.input_arrives_secs.len(), pipeline.backward_secs[stage] - weight_secs),
            Part::WeightGradient => (one.n_weights, weight_secs),
        };
        let end_secs = start_secs + secs;
        one.free_secs = end_secs;
        let sent = match phase {
            Part::Forward => Some(&mut one.forward_arrives_secs),
            Part::Backward => Some(&mut one.input_arrives_secs),
            Part::WeightGradient => None,
        };
        let mut arrives_secs = end_secs;
        match sent {
            Some(sent) => {
                let last_secs = sent.last().copied().unwrap_or(0.0);
                arrives_secs = pipeline.arrival_secs(phase, stage, end_secs, last_secs);
                sent.push(arrives_secs);
            }
            None => one.n_weights += 1,
        }
        self.events.push(Event { stage, microbatch, phase, start_secs, end_secs, arrives_secs });
        if phase == Part::Backward && weight_secs <= 0.0 {
            // Nothing is put off.
            self.run(end_secs, Part::WeightGradient, stage);
        }
    }

    /// What a stage can do next of each phase, and when that can start.
    fn possible(&self, stage: usize) -> [Option<(f64, Part)>; 3] {
        let (stages, pipeline) = (&self.stages, self.pipeline);
        let one = &stages[stage];
        let at = |ready_secs: f64, phase| (ready_secs.max(one.free_secs), phase);
        let (n_forward, n_input) = (one.forward_arrives_secs.len(), one.input_arrives_secs.len());
        let forward = match stage.checked_sub(1) {
            None => Some(0.0),
            Some(last) => stages[last].forward_arrives_secs.get(n_forward).copied(),
        };
        let input = match stages.get(stage + 1) {
            None => one.forward_arrives_secs.get(n_input).copied(),
            Some(next) => next.input_arrives_secs.get(n_input).copied(),
        };
        let (n_stages, n_microbatches, schedule) =
            (stages.len(), pipeline.n_microbatches, Schedule::ZeroBubble);
        let is_full = n_forward - n_input >= schedule.n_waiting(stage, n_stages, n_microbatches)
            || n_forward - one.n_weights >= schedule.n_in_flight(stage, n_stages, n_microbatches);
        [
            input.filter(|_| n_input < n_forward).map(|ready| at(ready, Part::Backward)),
            forward.filter(|_| n_forward < n_microbatches && !is_full).map(|ready| at(ready, Part::Forward)),
            (one.n_weights < n_input).then(|| at(0.0, Part::WeightGradient)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(n_stages: usize, n_microbatches: usize, weight_secs: f64) -> Pipeline {
        Pipeline {
            forward_secs: vec![1.0; n_stages],
            backward_secs: vec![2.0; n_stages],
            weight_secs: vec![weight_secs; n_stages],
            send_secs: vec![0.0; n_stages - 1],
            n_microbatches,
        }
    }

    #[test]
    fn equal_stages_have_a_third_of_the_bubble() {
        for (n_stages, n_microbatches) in [(2, 4), (4, 8), (4, 16), (8, 24)] {
            let secs = pipeline(n_stages, n_microbatches, 1.0).step_secs(Schedule::ZeroBubble);
            assert_eq!(
                secs,
                (3 * n_microbatches + n_stages - 1) as f64,
                "{n_stages} stages, {n_microbatches} microbatches"
            );
        }
    }

    #[test]
    fn without_weight_gradients_nothing_is_gained() {
        let pipeline = pipeline(4, 8, 0.0);
        let one_f_one_b = pipeline.simulate(Schedule::OneFOneB).step_secs();
        assert_eq!(pipeline.step_secs(Schedule::ZeroBubble), one_f_one_b);
    }

    #[test]
    fn every_stage_may_come_to_hold_as_many_as_the_first() {
        let pipeline = pipeline(4, 16, 1.0);
        assert_eq!(pipeline.in_flight(Schedule::ZeroBubble), [4; 4]);
        assert_eq!(pipeline.simulate(Schedule::ZeroBubble).in_flight()[0], 4);
    }

    #[test]
    fn gradients_of_weights_are_tasks_that_free_the_microbatch() {
        let timeline = pipeline(2, 3, 1.0).simulate(Schedule::ZeroBubble);
        let of = |phase| timeline.events.iter().filter(|event| event.phase == phase).count();
        assert_eq!([Part::Forward, Part::Backward, Part::WeightGradient].map(of), [6; 3]);
        let frees = timeline.events.iter().filter(|event| timeline.frees(event));
        assert!(frees.clone().count() == 6 && frees.clone().all(|it| it.phase == Part::WeightGradient));
    }
}
