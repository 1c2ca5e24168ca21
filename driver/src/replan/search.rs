//! The plans that can take the old one's place: as it is, near it, and of all there are.
//!
//! Near it are those whose number of stages, or whose devices per stage, stay, on equal devices; over several
//! kinds those with as many microbatches. Of these few layouts are chosen instead of all that planning looks
//! at.

use crate::controls;
use crate::planned::{Planned, Unpriced, Watch};
use crate::what_if::{Anew, fits};
use phzc_cost::Cluster;
use phzc_io::{Failure, Io};
use phzc_ir::{Diagnostic, Mesh, Module, notes};
use phzc_passes::moving::{Moving, Side, Slot, moving};
use phzc_passes::{Pipeline, place, plan_note, shard};
use rayon::prelude::*;

/// What the plan with the old one's number of stages is called.
const AS_MANY: &str = "in as many stages";

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
    pub is_all: bool,
}

/// Which plans were looked at.
pub(super) enum Searched {
    /// Those near the old one.
    Near,
    /// All there are.
    All,
    /// The same; there is none, and why.
    None(Diagnostic),
}

/// What stays of a plan near the old one.
struct Near {
    name: &'static str,
    /// None: any number of them.
    n_stages: Option<usize>,
    /// The same.
    n_microbatches: Option<usize>,
}

/// Of a number of stages and of microbatches, so many plans are made: the cut that promises most, and the
/// same layouts cut for the schedule that fills bubbles.
const MAX_PLANS: usize = 2;
/// Over several kinds of nodes plans with fewer microbatches say little of how many the next one has.
const MIN_MICROBATCHES: usize = 4;

/// A plan on another cluster, without what was claimed of it on its own.
fn moved_to(mut module: Module, to: &Cluster) -> Module {
    if module.note(notes::CLUSTER).as_deref() != Some(&*to.name) {
        module.set_note(notes::CLUSTER, &to.name);
        plan_note::CLAIMS.iter().for_each(|claim| plan_note::remove(&mut module, claim));
    }
    module
}

impl Search<'_> {
    /// The plan as it is, where it can be, and those near it. The best of all where the user asks for it, or
    /// there is none near that is faster than the plan as it is, or none that is where it is to be within
    /// the budget; then, if that is not either, the best in as many stages.
    ///
    /// # Errors
    /// Why there is none.
    pub fn candidates(&self, io: &Io) -> Result<(Vec<Candidate>, Searched), Failure> {
        let (same, near) = (self.as_it_is(), self.near(io));
        let same_secs = same.as_ref().map_or(f64::INFINITY, |same| same.planned.plan.time_secs);
        let is_faster = near.iter().any(|it| it.planned.plan.time_secs < same_secs);
        let mut found: Vec<Candidate> = same.into_iter().chain(near).collect();
        let is_over = |it: &Candidate| self.budget_secs.is_some_and(|most| it.moving.time_secs > most);
        let mut searched = Searched::Near;
        if self.is_all || !is_faster || found.iter().all(is_over) {
            searched = match self.anew.on(self.to, &self.anew.pipeline, &Watch::of(io)) {
                Ok(free) => {
                    found.push(self.candidate("planned anew", free));
                    Searched::All
                }
                Err(error) if found.is_empty() => return Err(error.into()),
                Err(error) => Searched::None(error),
            };
        }
        if found.iter().all(is_over) && !found.iter().any(|it| it.name == AS_MANY) {
            let n_stages = Some(self.before.facts.header.meshes.len());
            let pipeline = self.pipeline(&Near { name: AS_MANY, n_stages, n_microbatches: None }, false);
            let alike = self.anew.on(self.to, &pipeline, &Watch::of(io)).ok();
            found.extend(alike.map(|alike| self.candidate(AS_MANY, alike)));
        }
        Ok((found, searched))
    }

    fn as_it_is(&self) -> Option<Candidate> {
        let is_as_large = self.to.n_all_devices() >= self.before.cluster.n_all_devices();
        let module = || moved_to(self.before.module.clone(), self.to);
        let same = is_as_large.then(|| Planned::new(module(), self.to.clone()).ok());
        same.flatten().filter(fits).map(|same| self.candidate("the plan as it is", same))
    }

    /// The plans near the old one that there are.
    fn near(&self, io: &Io) -> Vec<Candidate> {
        let all = if self.is_near { self.all_near() } else { Vec::new() };
        let (progress, interrupt) = (io.progress, io.interrupt);
        let planned = |near: &Near| {
            let watch = Watch { progress, interrupt, clock: &|| 0.0 };
            let planned = self.anew.on(self.to, &self.pipeline(near, true), &watch).ok()?;
            Some(self.candidate(near.name, planned))
        };
        all.par_iter().filter_map(planned).collect()
    }

    /// What stays of the old plan: the devices of most of its stages, or as many of them as stages on the new
    /// cluster can all have; its number of stages, if the devices can be divided so; and one stage. Over
    /// several kinds the number of microbatches, unless these are so few that others are worth more.
    fn all_near(&self) -> Vec<Near> {
        let header = &self.before.facts.header;
        let (n_stages, n_microbatches) = (header.n_groups(), header.n_microbatches);
        if self.to.is_unlike() || self.before.cluster.is_unlike() {
            let name = "in as many microbatches";
            let alike = Near { name, n_stages: None, n_microbatches: Some(n_microbatches) };
            let is_near = header.replicas.is_empty() && n_microbatches >= MIN_MICROBATCHES;
            return if is_near { vec![alike] } else { Vec::new() };
        }
        let (n_own, n_devices) = (self.devices_per_stage(), self.to.n_devices());
        let divides_both = |size: &usize| n_own.is_multiple_of(*size) && n_devices.is_multiple_of(*size);
        let n_as_large = n_devices / (1..=n_own).rev().find(divides_both).unwrap_or(1);
        let near = |name, n_stages, n_microbatches| Near { name, n_stages: Some(n_stages), n_microbatches };
        // More stages want more microbatches.
        let kept = Some(n_microbatches).filter(|_| n_as_large <= n_stages);
        let as_large = near("in stages as large", n_as_large, kept);
        let may_stay = n_stages != n_as_large && n_devices.is_multiple_of(n_stages);
        let as_many = may_stay.then(|| near(AS_MANY, n_stages, Some(n_microbatches)));
        let mut all: Vec<Near> = [as_large].into_iter().chain(as_many).collect();
        // What fits on all devices at once waits for nobody.
        let has_one = all.iter().any(|it| it.n_stages == Some(1));
        all.extend((!has_one).then(|| near("in one stage", 1, Some(1))));
        all
    }

    /// The number of devices that most stages of the old plan have, of several the largest.
    fn devices_per_stage(&self) -> usize {
        let meshes = &self.before.facts.header.meshes;
        let sizes: Vec<usize> = meshes.iter().map(|mesh| mesh.n_devices() as usize).collect();
        let often = |size: &usize| (sizes.iter().filter(|other| *other == size).count(), *size);
        sizes.iter().copied().max_by_key(often).unwrap_or(1)
    }

    /// The passes that plan such a plan; a quick one is the best of few.
    fn pipeline(&self, near: &Near, is_quick: bool) -> Pipeline {
        let mut pipeline = self.anew.pipeline.clone();
        for step in controls::steps(&mut pipeline, place::PASS.name) {
            let numbers = [("stages", near.n_stages), ("microbatches", near.n_microbatches)];
            let known = numbers.into_iter().filter_map(|(option, number)| Some((option, number?)));
            known.for_each(|(option, number)| controls::set(step, option, &number.to_string()));
            match near.n_stages {
                None => controls::set(step, "replicas", "never"),
                Some(_) if is_quick => controls::set(step, "max-plans", &MAX_PLANS.to_string()),
                Some(_) => {}
            }
        }
        // Layouts on all devices at once are not what stages have: those on one mesh will do.
        if is_quick && near.n_stages.is_some_and(|n_stages| n_stages > 1) {
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
