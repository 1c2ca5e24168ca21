//! What a plan with different sizes is made of, with the chains that are known of it.

use super::super::Problem;
use super::super::chain::Layers;
use super::super::cut::Chain;
use super::super::cut::mixed::{Group, Pool};
use super::super::evaluate_candidate::Draft;
use super::super::recompute::rematerialize::Asked;
use crate::layer_repeats::representative_layers::Short;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The devices of a draft, its layers, and the numbers of microbatches that it allows.
pub type SizedLayers<'a> = (Group, Layers<'a>, Vec<usize>);

/// What a plan with different sizes is made of.
pub(in super::super) struct Sizes<'a> {
    pub short: &'a Short,
    pub drafts: &'a [Draft],
    /// Per draft.
    pub all: Vec<SizedLayers<'a>>,
    /// The number of microbatches that promises most, as far as is known.
    pub made_for: usize,
    pub n_stages: RangeInclusive<usize>,
    pub pools: Vec<Pool>,
    pub to_beat_secs: f64,
    /// By draft and number of microbatches: its chain, and the same with what may be computed again.
    pub chains: BTreeMap<(usize, usize), (Chain, Option<Chain>)>,
}

impl<'a> Sizes<'a> {
    /// Two stages of them, no devices chosen yet.
    pub fn new(short: &'a Short, drafts: &'a [Draft], all: Vec<SizedLayers<'a>>) -> Sizes<'a> {
        let (n_stages, pools, to_beat_secs) = (2..=2, Vec::new(), f64::INFINITY);
        Sizes { short, drafts, all, made_for: 1, n_stages, pools, to_beat_secs, chains: BTreeMap::new() }
    }

    /// The drafts for so many microbatches whose kind of devices is there.
    pub fn open(&self, count: usize) -> Vec<usize> {
        let is_open = |at: &usize| {
            let (group, _, allowed) = &self.all[*at];
            allowed.contains(&count) && self.pools.iter().any(|pool| pool.kind == group.kind)
        };
        (0..self.all.len()).filter(is_open).collect()
    }

    /// The chain of each of some drafts, to be cut for the schedule of a problem.
    pub fn chains(&mut self, problem: &Problem, places: &[usize], count: usize) -> Vec<(Group, Chain)> {
        let chain = |&at: &usize| {
            let (group, layers, _) = &mut self.all[at];
            let known =
                self.chains.entry((at, count)).or_insert_with(|| (problem.chain(layers, count), None));
            (*group, Chain { schedule: problem.schedule.of_cut(), ..known.0.clone() })
        };
        places.iter().map(chain).collect()
    }

    /// The same chains with what may be computed again.
    pub fn eased(&mut self, problem: &Problem, places: &[usize], count: usize) -> Vec<(Group, Chain)> {
        let eased = |&at: &usize| {
            let (group, layers, _) = &mut self.all[at];
            let (plain, eased) = self.chains.get_mut(&(at, count)).expect("a chain that is known");
            let eased = eased.get_or_insert_with(|| {
                let mut chain = plain.clone();
                problem.ease(layers, &mut chain, count, Asked::All);
                chain
            });
            (*group, Chain { schedule: problem.schedule.of_cut(), ..eased.clone() })
        };
        places.iter().map(eased).collect()
    }

    /// The drafts for some devices of one kind in equal stages, for so many microbatches.
    pub fn equal(&self, on: EqualStages, count: usize) -> Vec<usize> {
        let is_open = |at: &usize| on.has(self.all[*at].0) && self.all[*at].2.contains(&count);
        (0..self.all.len()).filter(is_open).collect()
    }

    /// Seconds of one of so many microbatches, and of all, on equal stages, of the number of these that takes
    /// the fewest for all; infinite where none fits.
    pub fn equal_secs(
        &mut self,
        problem: &Problem,
        on: EqualStages,
        (count, limit_bytes): (usize, f64),
    ) -> [f64; 2] {
        let places = self.equal(on, count);
        self.chains(problem, &places, count);
        let mut best = [f64::INFINITY; 2];
        for (group, chain) in self.eased(problem, &places, count) {
            let n_stages = on.n_devices / group.n_devices;
            let chain = Chain { devices: [on.n_devices, chain.devices[1]], ..chain };
            let is_long = n_stages <= chain.secs.len();
            let cut = is_long.then(|| chain.cut(n_stages, count, limit_bytes)).flatten();
            if let Some(cut) = cut.filter(|cut| cut.step_secs < best[1]) {
                // What is computed again, and once per step, is spread over all microbatches.
                let one = chain.secs.iter().sum::<f64>().max(cut.step_secs / count as f64);
                best = [one.min(cut.step_secs), cut.step_secs];
            }
        }
        best
    }
}

/// Some devices of one kind, all of which equal stages have.
#[derive(Clone, Copy)]
pub(in super::super) struct EqualStages {
    /// The place of their kind in the cluster.
    pub kind: usize,
    pub n_devices: usize,
    /// How many stages; 0 is any number.
    pub wanted: usize,
}

impl EqualStages {
    /// Whether stages may be on such groups of devices.
    fn has(self, group: Group) -> bool {
        let is_whole = self.n_devices.is_multiple_of(group.n_devices);
        let n_stages = self.n_devices / group.n_devices;
        self.kind == group.kind && is_whole && (self.wanted == 0 || self.wanted == n_stages)
    }
}
