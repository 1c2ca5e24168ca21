//! Zero-bubble pipelines: the gradients of weights wait for idle moments (Qi et al., ICLR 2024, ZB-H1).
//!
//! Only the gradient of the input holds up the stage before, so a stage runs first what others wait for: forwards, as long as
//! it holds no more activations than 1F1B would and no more than 1F1B's first stage, input gradients, then weight gradients.

use super::Pipeline;

/// What a stage can do next, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Forward,
    InputGradient,
    WeightGradient,
}

/// Where one stage stands.
#[derive(Clone, Default)]
struct Stage {
    free_secs: f64,
    forward_ends_secs: Vec<f64>,
    input_ends_secs: Vec<f64>,
    n_weights: usize,
}

impl Pipeline {
    /// Seconds of one step when `weight_secs` of each stage's backward time are gradients of weights.
    ///
    /// For equal stages with forward `f`, input gradient `b` and weight gradient `w <= f`: `B (f + b + w) + (S - 1) (f + b - w)`.
    pub fn zero_bubble_secs(&self, weight_secs: &[f64]) -> f64 {
        let mut stages = vec![Stage::default(); self.n_stages()];
        while let Some((start_secs, work, stage)) = self.next(&stages) {
            let backward_secs = self.backward_secs[stage];
            let one = &mut stages[stage];
            match work {
                Work::Forward => {
                    one.free_secs = start_secs + self.forward_secs[stage];
                    one.forward_ends_secs.push(one.free_secs);
                }
                Work::InputGradient => {
                    one.free_secs = start_secs + backward_secs - weight_secs[stage];
                    one.input_ends_secs.push(one.free_secs);
                }
                Work::WeightGradient => {
                    one.free_secs = start_secs + weight_secs[stage];
                    one.n_weights += 1;
                }
            }
        }
        stages.iter().map(|stage| stage.free_secs).fold(0.0, f64::max)
    }

    /// The work that can start first; of several the most urgent, then that of the first stage.
    fn next(&self, stages: &[Stage]) -> Option<(f64, Work, usize)> {
        let of_stage = |stage: usize| {
            self.possible(stages, stage).into_iter().flatten().map(move |(secs, work)| (secs, work, stage))
        };
        (0..stages.len())
            .flat_map(of_stage)
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)))
    }

    fn possible(&self, stages: &[Stage], stage: usize) -> [Option<(f64, Work)>; 3] {
        let one = &stages[stage];
        let at = |ready_secs: f64, work| (ready_secs.max(one.free_secs), work);
        let (n_forward, n_input) = (one.forward_ends_secs.len(), one.input_ends_secs.len());
        let forward = || match stage {
            0 => Some(0.0),
            _ => {
                stages[stage - 1].forward_ends_secs.get(n_forward).map(|end| end + self.send_secs[stage - 1])
            }
        };
        let input = || match stages.get(stage + 1) {
            None => one.forward_ends_secs.get(n_input).copied(),
            Some(next) => next.input_ends_secs.get(n_input).map(|end| end + self.send_secs[stage]),
        };
        let is_full =
            n_forward - n_input >= self.n_stages() - stage || n_forward - one.n_weights >= self.n_stages();
        [
            input().filter(|_| n_input < n_forward).map(|ready| at(ready, Work::InputGradient)),
            forward()
                .filter(|_| n_forward < self.n_microbatches && !is_full)
                .map(|ready| at(ready, Work::Forward)),
            (one.n_weights < n_input).then(|| at(0.0, Work::WeightGradient)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    fn pipeline(n_stages: usize, n_microbatches: usize) -> Pipeline {
        let (forward_secs, backward_secs) = (vec![1.0; n_stages], vec![2.0; n_stages]);
        Pipeline { forward_secs, backward_secs, send_secs: vec![0.0; n_stages - 1], n_microbatches }
    }

    #[test]
    fn equal_stages_have_a_third_of_the_bubble() {
        for (n_stages, n_microbatches) in [(2, 4), (4, 8), (4, 16), (8, 24)] {
            let secs = pipeline(n_stages, n_microbatches).zero_bubble_secs(&vec![1.0; n_stages]);
            assert_eq!(
                secs,
                (3 * n_microbatches + n_stages - 1) as f64,
                "{n_stages} stages, {n_microbatches} microbatches"
            );
        }
    }

    #[test]
    fn without_weight_gradients_nothing_is_gained() {
        let pipeline = pipeline(4, 8);
        let one_f_one_b = pipeline.simulate(Schedule::OneFOneB).step_secs();
        assert_eq!(pipeline.zero_bubble_secs(&[0.0; 4]), one_f_one_b);
    }
}
