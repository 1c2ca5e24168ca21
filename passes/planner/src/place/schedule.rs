//! Which schedule a text runs in: the one that is asked for, or the fastest that fits.
//!
//! Cuts are made for the schedule that is asked for, else for 1F1B, and of unlike stages also for
//! zero-bubble. Then the other schedules are tried on the text of the cut, as the report has them.
//! Zero-bubble fills bubbles with gradients of weights. GPipe is faster than 1F1B where sends are slow: fewer
//! of them are waited for; it needs memory for all microbatches. Interleaved pipelines have more stages, so
//! they are cut anew: see [`super::interleave`].

use super::Problem;
use super::candidate::Staged;
use super::chain::Layers;
use super::cut::Chain;
use super::interleave::CHUNKS;
use phzc_cost::Schedule;
use phzc_ir::Module;
use phzc_plan::derive::Facts;
use phzc_plan::memory::memory_of;
use phzc_plan::plan_note;

/// The schedule that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The fastest that fits.
    Fastest,
    /// Interleaved, of as many stages per device group as is fastest.
    Interleaved,
    This(Schedule),
}

/// Another schedule must be faster by this share: rounding is no reason.
const FASTER: f64 = 1e-6;

impl Wanted {
    /// By its name; `auto` and others are the fastest.
    pub fn parse(word: &str) -> Wanted {
        match word {
            "interleaved" => Wanted::Interleaved,
            _ => word.parse().map_or(Wanted::Fastest, Wanted::This),
        }
    }

    /// Notes the schedule that is asked for.
    pub fn note(self, text: &mut Module) {
        if let Wanted::This(schedule) = self {
            plan_note::set(text, &[("schedule", schedule.to_string().into())]);
        }
    }

    /// What a cut is made for.
    pub(super) fn of_cut(self) -> Schedule {
        if let Wanted::This(schedule) = self { schedule } else { Schedule::OneFOneB }
    }

    /// Every schedule that may be chosen.
    pub fn all(self) -> Vec<Schedule> {
        let interleaved = CHUNKS.map(Schedule::Interleaved);
        match self {
            Wanted::Fastest => Schedule::ALL.into_iter().chain(interleaved).collect(),
            Wanted::Interleaved => interleaved.to_vec(),
            Wanted::This(schedule) => vec![schedule],
        }
    }

    /// The share of 1F1B's least time, every stage once and the slowest for each further microbatch, that no
    /// schedule falls below: where bubbles may be filled, the stages' work remains, `B` of `S + B - 1`. Where
    /// device groups hold several stages, they count, not those.
    pub fn fill(self, n_stages: usize, most_microbatches: usize) -> f64 {
        match self {
            Wanted::This(Schedule::OneFOneB | Schedule::GPipe) => 1.0,
            _ => most_microbatches as f64 / (n_stages + most_microbatches - 1) as f64,
        }
    }
}

impl Problem<'_> {
    /// The chain for a number of microbatches, to be cut for the schedule that is asked for.
    pub(super) fn chain(&self, layers: &mut Layers, n_microbatches: usize) -> Chain {
        Chain { schedule: self.schedule.of_cut(), ..layers.chain(n_microbatches) }
    }

    /// Gives a text another schedule than 1F1B if that is faster, replayed as well as reported, and fits.
    pub(super) fn reorder(&self, staged: &mut Staged, mut facts: Facts) {
        let usable = self.cluster.accelerator.usable_bytes();
        let is_open = self.schedule == Wanted::Fastest && facts.header.meshes.len() > 1;
        if !is_open || staged.peak_bytes() > usable {
            return;
        }
        let pipeline = staged.plan.pipeline();
        // 1F1B's closed form is an estimate, mostly from above: like is compared with like. Of stages that
        // are unlike it may be from below; the report has it all the same.
        let replayed_secs = pipeline.simulate(Schedule::OneFOneB).step_secs();
        let to_beat = (1.0 - FASTER) * replayed_secs.min(pipeline.step_secs(Schedule::OneFOneB));
        let others = [Schedule::ZeroBubble, Schedule::GPipe];
        let mut faster: Vec<(f64, Schedule)> =
            others.map(|schedule| (pipeline.step_secs(schedule), schedule)).to_vec();
        faster.retain(|(secs, _)| *secs < to_beat);
        faster.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, schedule) in faster {
            facts.header.schedule = schedule;
            let stages = memory_of(&staged.text, &facts, self.cluster).stages;
            let usable = |stage: usize| facts.header.around(self.cluster, stage).accelerator.usable_bytes();
            if stages.iter().enumerate().all(|(at, stage)| stage.peak_bytes <= usable(at)) {
                Wanted::This(schedule).note(&mut staged.text);
                let plan = staged.plan.by(schedule, &stages);
                staged.time_secs = plan.time_secs;
                staged.reordered = Some(plan);
                return;
            }
        }
    }
}

/// The share of 1F1B's time that zero-bubble takes for equal stages, a gradient of weights as long as a
/// forward: `(3B + S - 1) / 3(B + S - 1)` ([`phzc_cost::Pipeline::step_secs`]).
pub fn filled(n_stages: usize, n_microbatches: usize) -> f64 {
    let (n_others, parts) = ((n_stages - 1) as f64, n_microbatches as f64);
    (3.0 * parts + n_others) / (3.0 * (parts + n_others))
}

#[cfg(test)]
mod tests {
    use phzc_cost::{Pipeline, Schedule};
    use proptest::prelude::*;

    prop_compose! {
        fn any_pipeline()(n_stages in 1_usize..9)(
            forward_secs in prop::collection::vec(0.0..2.0, n_stages),
            weight_secs in prop::collection::vec(0.0..2.0, n_stages),
            input_secs in prop::collection::vec(0.0..2.0, n_stages),
            send_secs in prop::collection::vec(0.0..0.5, n_stages - 1),
            n_microbatches in 1_usize..33,
        ) -> Pipeline {
            let backward_secs = weight_secs.iter().zip(&input_secs).map(|(weight, input): (&f64, &f64)| weight + input);
            let backward_secs = backward_secs.collect();
            Pipeline { forward_secs, backward_secs, weight_secs, send_secs, n_microbatches }
        }
    }

    proptest! {
        /// What [`super::super::staged`] takes for a bound, for any cut and any number of microbatches up to
        /// the most.
        #[test]
        fn no_schedule_falls_below_its_share_of_the_weighted_sum(pipeline in any_pipeline(), n_more in 0_usize..9) {
            let (n_stages, most) = (pipeline.n_stages(), pipeline.n_microbatches + n_more);
            let both = pipeline.forward_secs.iter().chain(&pipeline.backward_secs).sum::<f64>();
            let weight = (n_stages + most - 1) as f64 / (most * n_stages) as f64;
            let weighted = weight * both * pipeline.n_microbatches as f64;
            for schedule in Schedule::ALL {
                let secs = pipeline.step_secs(schedule) * (1.0 + 1e-9);
                for wanted in [super::Wanted::Fastest, super::Wanted::This(schedule)] {
                    prop_assert!(wanted.fill(n_stages, most) * weighted <= secs, "{schedule}");
                }
            }
            for n_chunks in (2..=n_stages).filter(|&n_chunks| n_stages.is_multiple_of(n_chunks)) {
                let (schedule, n_groups) = (Schedule::Interleaved(n_chunks), n_stages / n_chunks);
                let weight = (n_groups + most - 1) as f64 / (most * n_groups) as f64;
                let weighted = weight * both * pipeline.n_microbatches as f64;
                let secs = pipeline.step_secs(schedule) * (1.0 + 1e-9);
                for wanted in [super::Wanted::Fastest, super::Wanted::Interleaved, super::Wanted::This(schedule)] {
                    prop_assert!(wanted.fill(n_groups, most) * weighted <= secs, "{schedule}");
                }
            }
        }
    }

    #[test]
    fn a_word_says_which_schedules_may_be_chosen() {
        use super::Wanted;
        let this = Wanted::This;
        assert_eq!(["auto", "interleaved"].map(Wanted::parse), [Wanted::Fastest, Wanted::Interleaved]);
        assert_eq!(Wanted::parse("gpipe"), this(Schedule::GPipe));
        assert_eq!(Wanted::parse("interleaved:3"), this(Schedule::Interleaved(3)));
        let interleaved = [2, 3, 4].map(Schedule::Interleaved);
        assert_eq!(Wanted::Interleaved.all(), interleaved);
        assert_eq!(Wanted::Fastest.all(), [&Schedule::ALL[..], &interleaved].concat());
        assert_eq!(this(Schedule::GPipe).all(), [Schedule::GPipe]);
        assert_eq!(this(Schedule::GPipe).of_cut(), Schedule::GPipe);
        assert_eq!(Wanted::Fastest.of_cut(), Schedule::OneFOneB);
        assert!(Wanted::Fastest.is_open() && !Wanted::Interleaved.is_open());
        let is_interleaved = |word: &str| Wanted::parse(word).is_interleaved();
        assert!(is_interleaved("interleaved") && is_interleaved("interleaved:4") && !is_interleaved("1f1b"));
        let chunks = |word: &str| Wanted::parse(word).chunks().to_vec();
        assert_eq!([chunks("auto"), chunks("interleaved:2")], [[1], [2]]);
        assert_eq!([chunks("interleaved:3"), chunks("interleaved:4")], [[3], [4]]);
        assert_eq!(chunks("interleaved"), [2, 3, 4]);
    }

    #[test]
    fn an_interleaved_schedule_needs_groups() {
        use super::Wanted;
        let allows = |word: &str, n_devices, wanted| Wanted::parse(word).allows(n_devices, wanted).is_ok();
        assert!(allows("interleaved", 4, 2) && allows("interleaved", 4, 0) && allows("1f1b", 1, 1));
        assert!(!allows("interleaved", 4, 1) && !allows("interleaved:2", 1, 0));
    }

    #[test]
    fn zero_bubble_takes_its_share_of_the_time_of_equal_stages() {
        for (n_stages, n_microbatches) in [(2, 4), (4, 8), (3, 3), (1, 5)] {
            let thirds = vec![1.0; n_stages];
            let pipeline = Pipeline {
                forward_secs: thirds.clone(),
                backward_secs: vec![2.0; n_stages],
                weight_secs: thirds,
                send_secs: vec![0.0; n_stages - 1],
                n_microbatches,
            };
            let [plain, zero] = [Schedule::OneFOneB, Schedule::ZeroBubble].map(|it| pipeline.step_secs(it));
            let share = super::filled(n_stages, n_microbatches);
            assert!(
                (zero / plain - share).abs() < 1e-9,
                "{n_stages}, {n_microbatches}: {share} {}",
                zero / plain
            );
        }
    }
}
