//! What a stage holds of its microbatches, by the schedule: see `phzc_plan::memory`.

use phzc_cost::Schedule;
use phzc_cost::schedule::Interleaving;

/// How many microbatches a stage holds beside the one that is under way; of stages that share devices the
/// mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holding {
    /// With all that their forward parts have saved, at most.
    n_waiting: f64,
    /// In all; what the others have left is what gradients of weights read that are put off.
    n_others: f64,
    /// Whether these are put off.
    is_put_off: bool,
}

/// Bytes of one microbatch in a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfOne {
    /// What forward has saved.
    pub saved: f64,
    /// What gradients of weights read once they are put off.
    pub late: f64,
    /// The gradients among that, which the one that is under way has too.
    pub gradients: f64,
}

impl Holding {
    /// Of each stage.
    pub fn of_stages(schedule: Schedule, n_stages: usize, n_microbatches: usize) -> Vec<Holding> {
        let n_groups = schedule.n_groups(n_stages);
        let interleaving = Interleaving { n_stages, n_groups, n_microbatches };
        let of = |stage: usize| {
            let n_held = match schedule {
                Schedule::Interleaved(n_chunks) => {
                    interleaving.in_flight(stage % n_groups) as f64 / n_chunks as f64
                }
                _ => schedule.n_in_flight(stage, n_stages, n_microbatches) as f64,
            };
            let n_others = n_held - 1.0;
            let is_put_off = schedule.defers_weight_gradients();
            let n_waiting = match is_put_off {
                true => n_others.min(schedule.n_waiting(stage, n_stages, n_microbatches) as f64),
                false => n_others,
            };
            Holding { n_waiting, n_others, is_put_off }
        };
        (0..n_stages).map(of).collect()
    }

    /// Bytes of all microbatches.
    pub fn bytes(&self, one: OfOne) -> f64 {
        let more = (one.saved - self.late(one)).max(0.0);
        self.least(one) + one.saved + self.n_waiting * more
    }

    /// How much less forward must save, for all to keep within some bytes.
    pub fn too_much(&self, one: OfOne, limit_bytes: f64) -> f64 {
        let (left, late) = (limit_bytes - self.least(one), self.late(one));
        let saved = if left > late { (left + self.n_waiting * late) / (1.0 + self.n_waiting) } else { left };
        one.saved - saved
    }

    /// What is there whatever forward saves.
    fn least(&self, one: OfOne) -> f64 {
        let own = if self.is_put_off { one.gradients } else { 0.0 };
        own + self.n_others * self.late(one)
    }

    fn late(&self, one: OfOne) -> f64 {
        if self.is_put_off { one.late } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: OfOne = OfOne { saved: 10.0, late: 4.0, gradients: 1.0 };

    /// Bytes of each of three stages with eight microbatches.
    fn bytes(schedule: Schedule, one: OfOne) -> Vec<f64> {
        Holding::of_stages(schedule, 3, 8).iter().map(|stage| stage.bytes(one)).collect()
    }

    #[test]
    fn by_1f1b_all_wait_with_what_forward_has_saved() {
        assert_eq!(bytes(Schedule::OneFOneB, ONE), [30.0, 20.0, 10.0]);
        assert_eq!(bytes(Schedule::GPipe, ONE), [80.0; 3]);
    }

    #[test]
    fn by_zero_bubble_those_that_do_not_wait_have_what_is_put_off() {
        // Three in each stage, one of them under way with its gradients; the last one has one that waits.
        assert_eq!(bytes(Schedule::ZeroBubble, ONE), [1.0 + 30.0, 1.0 + 30.0, 1.0 + 10.0 + 10.0 + 4.0]);
        // Where gradients are larger than what is saved none waits.
        let large = OfOne { late: 12.0, ..ONE };
        assert_eq!(bytes(Schedule::ZeroBubble, large), [1.0 + 10.0 + 24.0; 3]);
    }

    #[test]
    fn what_is_too_much_is_what_forward_must_not_save() {
        for schedule in [Schedule::OneFOneB, Schedule::ZeroBubble, Schedule::GPipe] {
            for (stage, bytes) in Holding::of_stages(schedule, 3, 8).iter().zip(bytes(schedule, ONE)) {
                for share in [0.5, 0.8, 1.0] {
                    let limit = 1.0 + 2.0 * 4.0 + share * (bytes - 9.0);
                    let less = OfOne { saved: ONE.saved - stage.too_much(ONE, limit), ..ONE };
                    assert!((stage.bytes(less) - limit).abs() < 1e-9, "{schedule}, {stage:?}, {share}");
                }
            }
        }
    }
}
