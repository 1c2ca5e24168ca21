//! The plans that can take the old one's place: as it is, near it, and of all there are.
//!
//! Near it are those whose number of stages, or whose devices per stage, stay: layouts are chosen for one
//! number of stages and of microbatches instead of all, so that they are there in less than a second.

use crate::controls;
use crate::planned::{Planned, Unpriced, Watch};
use crate::what_if::{Anew, fits};
use phzc_cost::Cluster;
use phzc_io::{Failure, Io};
use phzc_ir::Mesh;
use phzc_passes::moving::{Moving, Side, Slot, moving};
use phzc_passes::{Pipeline, place, shard};
use rayon::prelude::*;

/// What the best of all plans is called.
pub(super) const ANEW: &str = "planned anew";

/// A plan that can take the old one's place.
pub(super) struct Candidate {
    pub name: &'static str,
    pub planned: Planned,
    pub moving: Moving,
}

/// What is planned anew, and on what.
pub(super) struct Search<'a> {
    pub before: &'a Unpriced,
    pub anew: &'a Anew,
    pub to: &'a Cluster,
    pub nodes: &'a [Slot],
    pub budget_secs: Option<f64>,
    /// Whether plans near the old one are looked for: not where the user names passes.
    pub is_near: bool,
    /// Whether all plans are looked at, even if one near the old one will do.
    pub is_anew: bool,
}

/// What stays of a plan near the old one.
struct Near {
    name: &'static str,
    /// 0: any number of them.
    n_stages: usize,
    /// The same.
    n_microbatches: usize,
}

/// Of a number of stages and of microbatches, so many plans are made: the cut that promises most, and the
/// same layouts cut for the schedule that fills bubbles.
const MAX_PLANS: usize = 2;

impl Search<'_> {
    /// The plan as it is, where it can be; those near it; and the best of all, where the user asks for it or
    /// none of these is where it is to be within the budget.
    pub fn candidates(&self, io: &Io) -> Result<Vec<Candidate>, Failure> {
        let mut found: Vec<Candidate> = self.as_it_is().into_iter().chain(self.near(io)).collect();
        let is_within = |it: &Candidate| self.budget_secs.is_none_or(|most| it.moving.time_secs <= most);
        if self.is_anew || !self.is_near || !found.iter().any(is_within) {
            match self.anew.on(self.to, &self.anew.pipeline, &Watch::of(io)) {
                Ok(free) => found.push(self.candidate(ANEW, free)),
                Err(error) if found.is_empty() => return Err(error.into()),
                Err(_) => {}
            }
        }
        Ok(found)
    }

    fn as_it_is(&self) -> Option<Candidate> {
        let is_as_large = self.to.n_all_devices() >= self.before.cluster.n_all_devices();
        let same = is_as_large.then(|| Planned::new(self.before.module.clone(), self.to.clone()).ok());
        same.flatten().filter(fits).map(|same| self.candidate("the plan as it is", same))
    }

    /// The plans near the old one that there are.
    fn near(&self, io: &Io) -> Vec<Candidate> {
        let all = if self.is_near { self.all_near() } else { Vec::new() };
        let (progress, interrupt) = (io.progress, io.interrupt);
        let planned = |near: &Near| {
            let watch = Watch { progress, interrupt, clock: &|| 0.0 };
            let planned = self.anew.on(self.to, &self.pipeline(near), &watch).ok()?;
            Some(self.candidate(near.name, planned))
        };
        all.par_iter().filter_map(planned).collect()
    }

    /// What stays of the old plan: its devices per stage, or as many of them as stages on the new cluster can
    /// all have; and its number of stages, if these have some times the devices or a part of them, for
    /// what was split evenly is then. On unlike devices the number of microbatches stays.
    fn all_near(&self) -> Vec<Near> {
        let header = &self.before.facts.header;
        let (n_stages, n_microbatches) = (header.n_groups(), header.n_microbatches);
        if self.to.is_unlike() || self.before.cluster.is_unlike() {
            let alike = Near { name: "in as many microbatches", n_stages: 0, n_microbatches };
            return if header.replicas.is_empty() { vec![alike] } else { Vec::new() };
        }
        let (n_own, n_devices) = (header.n_devices() / n_stages, self.to.n_devices());
        let n_large = n_devices / common_divisor(n_own, n_devices);
        // More stages want more microbatches.
        let n_filled = if n_large > n_stages { 0 } else { n_microbatches };
        let as_large = Near { name: "in stages as large", n_stages: n_large, n_microbatches: n_filled };
        let as_many = Near { name: "in as many stages", n_stages, n_microbatches };
        let n_each = n_devices / n_stages;
        let is_even = |a: usize, b: usize| a.is_multiple_of(b) || b.is_multiple_of(a);
        let may_stay = n_stages != n_large && n_devices.is_multiple_of(n_stages) && is_even(n_each, n_own);
        [as_large].into_iter().chain(may_stay.then_some(as_many)).collect()
    }

    /// The passes that plan such a plan.
    fn pipeline(&self, near: &Near) -> Pipeline {
        let mut pipeline = self.anew.pipeline.clone();
        for step in controls::steps(&mut pipeline, place::PASS.name) {
            controls::set(step, "stages", &near.n_stages.to_string());
            controls::set(step, "microbatches", &near.n_microbatches.to_string());
            match near.n_stages {
                0 => controls::set(step, "replicas", "never"),
                _ => controls::set(step, "max-plans", &MAX_PLANS.to_string()),
            }
        }
        // Layouts on all devices at once are not what stages have: those on one mesh will do.
        if near.n_stages > 1 {
            let mesh = Mesh::new(&[self.to.n_devices() as i64]).to_string();
            controls::steps(&mut pipeline, shard::PASS.name)
                .for_each(|step| controls::set(step, "mesh", &mesh));
        }
        pipeline
    }

    fn candidate(&self, name: &'static str, planned: Planned) -> Candidate {
        let Unpriced { module, facts, .. } = self.before;
        let new = Side { module: &planned.module, facts: &planned.facts };
        let moving = moving(Side { module, facts }, new, self.nodes, self.to);
        Candidate { name, planned, moving }
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
