//! Pipeline schedules: in which order each stage runs its microbatches, and how long a step takes.
//!
//! Two answers, which must agree where both are exact: a closed form, and a replay of every microbatch
//! ([`Pipeline::simulate`]).

mod interleaved;
mod simulate;
mod zero_bubble;

pub use interleaved::Interleaving;
pub use simulate::{Event, Timeline};

use phzc_ir::{Diagnostic, Result};

/// The order in which stages run forward and backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schedule {
    /// All forwards, then all backwards (Huang et al., NeurIPS 2019).
    GPipe,
    /// One forward, one backward, once the pipeline is full (PipeDream-Flush, Narayanan et al., ICML 2021).
    #[default]
    OneFOneB,
    /// The same, but gradients of weights wait for idle moments (Qi et al., ICLR 2024, ZB-H1).
    ZeroBubble,
    /// 1F1B of device groups that hold so many stages each, two at least (Narayanan et al., SC 2021, section
    /// 2.2): of `S` stages in `p = S / V` groups, stage `s` runs on group `s mod p`.
    Interleaved(usize),
}

/// Which part of a microbatch's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Activations go to the next stage.
    Forward,
    /// Gradients go to the stage before.
    Backward,
    /// The rest of backward, where a schedule puts it off: no other stage waits for it.
    WeightGradient,
}

/// The times of one pipeline, in seconds per microbatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// Forward time of each stage.
    pub forward_secs: Vec<f64>,
    /// Backward time of each stage, recomputation included.
    pub backward_secs: Vec<f64>,
    /// The part of each stage's backward time that no other stage waits for; none where the list is shorter.
    pub weight_secs: Vec<f64>,
    /// Time to send over the boundary after each stage but the last, in either direction.
    pub send_secs: Vec<f64>,
    /// How many microbatches one step has.
    pub n_microbatches: usize,
}

impl Schedule {
    /// Every schedule in which each stage has a device group of its own.
    pub const ALL: [Schedule; 3] = [Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble];

    /// Whether gradients of weights wait for idle moments, so that backward runs in two pieces.
    pub fn defers_weight_gradients(self) -> bool {
        self == Schedule::ZeroBubble
    }

    /// Seconds that the slowest stage waits for others, in those of one microbatch there: the pipeline's
    /// bubble.
    pub fn bubble(self, n_stages: usize) -> f64 {
        match self {
            Schedule::OneFOneB | Schedule::GPipe => (n_stages - 1) as f64,
            Schedule::ZeroBubble => 0.0,
            Schedule::Interleaved(n_chunks) => (self.n_groups(n_stages) - 1) as f64 / n_chunks as f64,
        }
    }

    /// Seconds that no step takes less than, however its work is divided over the stages of `S` device
    /// groups: forward and backward seconds of `B` microbatches on all groups together, updates left out.
    ///
    /// * GPipe, 1F1B: their closed forms, a maximum being at least the mean.
    /// * Zero-bubble, of a microbatch's `f_j`, `i_j` and `w_j` on group `j`: group `j` waits for
    ///   `sum_{k<j} f_k` and then has `B t_j` to do; and before its first input gradient, which waits for
    ///   `sum_k f_k + sum_{k>j} i_k`, it does at most `min(B, S - j)` forwards. The mean over all groups of
    ///   the second has each forward once where `B < S`, that of both `(S-1)/2S sum f` besides the work.
    /// * Interleaved with `V` stages in each group: a microbatch goes through all stages and back. Equal
    ///   stages wait for `(S-1)/V` of a microbatch, stages of the worst sizes for no less than half of it:
    ///   the least of a linear program over all sizes, solved for up to 8 groups, 4 stages in each and 32
    ///   microbatches. A test looks for worse sizes by descent.
    pub fn least_secs(self, n_groups: usize, n_microbatches: usize, work_secs: [f64; 2]) -> f64 {
        let [forward_secs, backward_secs] = work_secs;
        let (groups, parts) = (n_groups as f64, n_microbatches as f64);
        let (all_secs, n_others) = (forward_secs + backward_secs, groups - 1.0);
        let waited_secs = match self {
            Schedule::GPipe | Schedule::OneFOneB => n_others / parts * all_secs,
            Schedule::ZeroBubble => (n_others / (2.0 * parts)).max(groups / parts - 1.0) * forward_secs,
            Schedule::Interleaved(n_chunks) => {
                (n_others / (2.0 * n_chunks as f64 * parts)).max(groups / parts - 1.0) * all_secs
            }
        };
        (all_secs + waited_secs) / groups
    }

    /// How many stages a device group holds.
    pub fn n_chunks(self) -> usize {
        match self {
            Schedule::Interleaved(n_chunks) => n_chunks.max(1),
            _ => 1,
        }
    }

    /// The number of device groups that run so many stages; a number that does not divide evenly is rounded
    /// up.
    pub fn n_groups(self, n_stages: usize) -> usize {
        n_stages.div_ceil(self.n_chunks())
    }

    /// The most microbatches that stage `stage` holds before their gradients come back: `B` for GPipe, by
    /// 1F1B `min(B, S - s)`, of an interleaved pipeline what its order leaves.
    pub fn n_waiting(self, stage: usize, n_stages: usize, n_microbatches: usize) -> usize {
        match self {
            Schedule::GPipe => n_microbatches,
            Schedule::OneFOneB | Schedule::ZeroBubble => (n_stages - stage).min(n_microbatches),
            Schedule::Interleaved(_) => {
                let n_groups = self.n_groups(n_stages);
                Interleaving { n_stages, n_groups, n_microbatches }.n_waiting(stage)
            }
        }
    }

    /// The most microbatches of which stage `stage` holds anything: those that wait for gradients, and under
    /// zero-bubble those whose gradients of weights are put off, `min(B, S)` in all.
    pub fn n_in_flight(self, stage: usize, n_stages: usize, n_microbatches: usize) -> usize {
        match self {
            Schedule::ZeroBubble => n_stages.min(n_microbatches),
            _ => self.n_waiting(stage, n_stages, n_microbatches),
        }
    }

    /// The tasks of `stage` in order, backward in one piece: warm up, then one backward and one forward in
    /// turn, then drain.
    fn order(self, stage: usize, pipeline: &Pipeline) -> Vec<(Part, usize)> {
        let n_warmup = self.n_waiting(stage, pipeline.n_stages(), pipeline.n_microbatches);
        let warmup = (0..n_warmup).map(|microbatch| (Part::Forward, microbatch));
        let rest = (0..pipeline.n_microbatches).flat_map(|microbatch| {
            let next = microbatch + n_warmup;
            let forward = (next < pipeline.n_microbatches).then_some((Part::Forward, next));
            [Some((Part::Backward, microbatch)), forward].into_iter().flatten()
        });
        warmup.chain(rest).collect()
    }
}

/// Whether each schedule ends a stage's task before it begins another of the same microbatch: the first
/// stage's forward, forward to the last, backward to the first; gradients of weights after their own stage's
/// backward, in no order among stages.
pub fn comes_before((phase, stage): (Part, usize), (later, later_stage): (Part, usize)) -> bool {
    use Part::{Backward, Forward, WeightGradient};
    match (phase, later) {
        (Forward, Forward) => stage < later_stage,
        (Forward, _) => true,
        (Backward, Backward) => stage > later_stage,
        (Backward, WeightGradient) => stage >= later_stage,
        (Backward, Forward) | (WeightGradient, _) => false,
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Schedule::GPipe => f.write_str("gpipe"),
            Schedule::OneFOneB => f.write_str("1f1b"),
            Schedule::ZeroBubble => f.write_str("zero-bubble"),
            Schedule::Interleaved(n_chunks) => write!(f, "interleaved:{n_chunks}"),
        }
    }
}

impl std::str::FromStr for Schedule {
    type Err = Diagnostic;
    fn from_str(text: &str) -> Result<Schedule> {
        let chunks = text.strip_prefix("interleaved:").and_then(|digits| digits.parse::<usize>().ok());
        let found = match text {
            "gpipe" => Some(Schedule::GPipe),
            "1f1b" => Some(Schedule::OneFOneB),
            "zero-bubble" => Some(Schedule::ZeroBubble),
            _ => chunks.filter(|&n_chunks| n_chunks >= 2).map(Schedule::Interleaved),
        };
        found.ok_or_else(|| {
            let names =
                "`gpipe`, `1f1b`, `zero-bubble` or `interleaved:V` with V >= 2 stages per device group";
            Diagnostic::error(format!("expected a schedule, {names}, found `{text}`"))
        })
    }
}

impl Pipeline {
    /// How many stages there are.
    pub fn n_stages(&self) -> usize {
        self.forward_secs.len()
    }

    /// Seconds of one step, in closed form; `B` microbatches, stage `i` takes `f_i` forward and `b_i`
    /// backward.
    ///
    /// * GPipe: `sum f_i + sum p_i + (B-1) max(f_i, p_i)`, and the same of `b_i`. Exact: identical jobs
    ///   through a flow shop of stages and links, twice; `p_i` is the send over boundary `i`.
    /// * 1F1B: `sum t_i + (B-1) max t_i` with `t_i = f_i + b_i + 2 p_i` (Alpa, OSDI'22, section 5.1). Exact
    ///   for equal stages and free sends. Otherwise an estimate, from above where every backward takes the
    ///   same multiple of its forward: a stage of long forwards before one of long backwards can take longer.
    /// * Zero-bubble: that of the replay. For equal stages with input gradient `i`, weight gradient `w <= f`
    ///   and free sends it is `B (f + i + w) + (S-1) (f + i - w)`.
    /// * Interleaved: that of the replay. For `V` equal stages on each of `p` groups, free sends and `B` a
    ///   multiple of `p` it is `(B V + p - 1) (f + b)` (Narayanan et al., SC 2021, section 2.2.2).
    pub fn step_secs(&self, schedule: Schedule) -> f64 {
        match schedule {
            Schedule::GPipe => {
                let with_sends = |secs: &[f64]| self.flow_secs(&[secs, &self.send_secs].concat());
                with_sends(&self.forward_secs) + with_sends(&self.backward_secs)
            }
            Schedule::OneFOneB => self.flow_secs(&self.stage_secs()),
            Schedule::ZeroBubble | Schedule::Interleaved(_) => self.simulate(schedule).step_secs(),
        }
    }

    /// Seconds of one microbatch on each stage, both ways, its sends to the next stage and back included.
    pub fn stage_secs(&self) -> Vec<f64> {
        let sends = self.send_secs.iter().copied().chain(std::iter::repeat(0.0));
        let compute =
            self.forward_secs.iter().zip(&self.backward_secs).map(|(forward, backward)| forward + backward);
        compute.zip(sends).map(|(compute, send)| compute + 2.0 * send).collect()
    }

    /// All microbatches through a line of machines.
    fn flow_secs(&self, secs: &[f64]) -> f64 {
        let n_further = self.n_microbatches.saturating_sub(1) as f64;
        let once = f64::from(u8::from(self.n_microbatches > 0));
        once * secs.iter().sum::<f64>() + n_further * secs.iter().copied().fold(0.0, f64::max)
    }

    /// The most microbatches of which each stage holds anything at once: [`Schedule::n_in_flight`].
    pub fn in_flight(&self, schedule: Schedule) -> Vec<usize> {
        let of = |stage| schedule.n_in_flight(stage, self.n_stages(), self.n_microbatches);
        (0..self.n_stages()).map(of).collect()
    }
}

#[cfg(test)]
mod tests;
