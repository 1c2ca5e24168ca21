//! What plans to look among: sizes, and what is forced or forbidden.

use super::super::Effort;
use phzc_cost::aceso::{OpChoice, PipelinePlan, PlanSchedule};

/// What plans to look among.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Devices in all.
    pub n_devices: usize,
    /// The most stages.
    pub max_stages: usize,
    /// The most devices of a stage.
    pub max_group: usize,
    /// The most devices that share a sample.
    pub max_tensor: u32,
    /// Samples of a microbatch that are tried.
    pub microbatches: Vec<u32>,
    /// Whether operators of one stage may be split in different ways.
    pub is_mixed: bool,
    /// What is forced or forbidden beside.
    pub limits: Limits,
}

/// What is forced or forbidden. Empty lists are those of Aceso's space.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The fewest stages; 0 is 1.
    pub min_stages: usize,
    /// Devices that a stage may have; powers of two if empty.
    pub groups: Vec<usize>,
    /// Tensor-parallel degrees; any if empty.
    pub tensor: Vec<u32>,
    /// Replicas; any if empty.
    pub data: Vec<u32>,
    /// ZeRO stages; 0 if empty.
    pub zero: Vec<u32>,
    /// Schedules; 1F1B if empty.
    pub schedules: Vec<PlanSchedule>,
    /// Nothing is recomputed.
    pub keeps_all: bool,
    /// Numbers of stages of which plans are made, per microbatch, schedule and devices; no limit if absent.
    pub max_plans: Option<usize>,
    /// By how much, relatively, the best plan may be faster than the one that is found; the search's own if
    /// absent.
    pub gap: Option<f64>,
    /// The plans that are wanted; 0 is 1.
    pub n_best: usize,
}

impl Limits {
    /// An effort of these limits; where they set none, that of the search. A gap that is asked for does not
    /// grow.
    pub(super) fn effort(&self, own: Effort) -> Effort {
        let max_plans = self.max_plans.unwrap_or(own.max_plans);
        match self.gap {
            Some(tolerance) => Effort { max_plans, tolerance, patience: u64::MAX },
            None => Effort { max_plans, ..own },
        }
    }
}

/// A plan that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The plan; its cost is that of [`phzc_cost::aceso::Machine::price`].
    pub plan: PipelinePlan,
    /// No plan of the space, those before it in the list left out, takes fewer milliseconds.
    pub bound_ms: f64,
    /// Whether the search's limit ended it: what was left is in the bound only.
    pub is_limited: bool,
    /// Whether the plans of the space are those that give all operators of a stage the same degrees.
    pub is_alike: bool,
}

/// How a stage's devices are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degrees {
    /// Devices that share each sample.
    pub tensor: u32,
    /// Replicas.
    pub data: u32,
    /// What the replicas share.
    pub zero: u32,
}

impl Degrees {
    /// An operator that is not recomputed.
    pub fn choice(self, algo: u32) -> OpChoice {
        OpChoice { tensor: self.tensor, data: self.data, algo, zero: self.zero, recompute: false }
    }
}

impl Space {
    /// Numbers of devices that a stage may have, ascending.
    pub(super) fn group_sizes(&self) -> Vec<usize> {
        let most = self.n_devices.min(self.max_group);
        let mut sizes = match self.limits.groups.is_empty() {
            true => std::iter::successors(Some(1), |size| Some(size * 2))
                .take_while(|&size| size <= most)
                .collect(),
            false => self.limits.groups.clone(),
        };
        sizes.retain(|&size| size <= self.n_devices);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The ways to use some devices.
    pub(super) fn degrees(&self, n_devices: usize) -> Vec<Degrees> {
        let limits = &self.limits;
        let is_in = |list: &[u32], degree: u32| list.is_empty() || list.contains(&degree);
        let zero: &[u32] = if limits.zero.is_empty() { &[0] } else { &limits.zero };
        let n_devices = n_devices as u32;
        let tensors = (1..=n_devices.min(self.max_tensor)).filter(|tensor| n_devices.is_multiple_of(*tensor));
        let pairs = tensors.map(|tensor| (tensor, n_devices / tensor));
        let allowed =
            pairs.filter(|&(tensor, data)| is_in(&limits.tensor, tensor) && is_in(&limits.data, data));
        // One replica has nothing to share.
        let with_zero = |(tensor, data): (u32, u32)| {
            let zero = if data > 1 { zero } else { &[0][..] };
            zero.iter().map(move |&zero| Degrees { tensor, data, zero })
        };
        allowed.flat_map(with_zero).collect()
    }

    /// Schedules that the search itself knows, with their numbers of stages.
    pub(super) fn schedules(&self) -> Vec<(PlanSchedule, std::ops::RangeInclusive<usize>)> {
        let (least, most) = (self.limits.min_stages.max(1), self.max_stages.min(self.n_devices));
        let wanted = &self.limits.schedules;
        let is_wanted = |schedule: PlanSchedule| wanted.contains(&schedule);
        let mut all = Vec::new();
        // Parts of interleaved pipelines are made of plans for 1F1B.
        if wanted.is_empty() || is_wanted(PlanSchedule::OneFOneB) || self.chunks().next().is_some() {
            all.push((PlanSchedule::OneFOneB, least..=most));
        }
        if is_wanted(PlanSchedule::GPipe) {
            all.push((PlanSchedule::GPipe, least..=most));
        }
        if is_wanted(PlanSchedule::ZeroBubble) {
            // How much a stage holds depends on how many there are; one stage has no bubble.
            let first = if all.is_empty() { least } else { least.max(2) };
            all.extend((first..=most).map(|n_stages| (PlanSchedule::ZeroBubble, n_stages..=n_stages)));
        }
        all
    }

    /// Stages per device of the interleaved pipelines that are tried.
    pub(super) fn chunks(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.limits.schedules.iter().map(|schedule| schedule.n_chunks());
        all.filter(|&n_chunks| n_chunks > 1)
    }
}
