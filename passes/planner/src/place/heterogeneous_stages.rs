//! Stages with different numbers of devices: one chain over the layouts of several sizes, and the text that
//! has each stage in its own.
//!
//! ```text
//! layouts on 4 devices, on 2, on 1     →     stage 0 on 4, stage 1 on 2, stage 2 on 2
//! ```

mod sizes;
mod values;

use sizes::SizedLayers;
pub(super) use sizes::{EqualStages, Sizes};
use values::{free_arrays, with_tuples};

use super::candidate::{Bound, Evaluated, Staged};
use super::chain::Layers;
use super::cut::Chain;
use super::cut::mixed::{Group, Mix, MixedCut, Pool};
use super::evaluate_candidate::{Draft, GUESSED, SAFE, too_few_layers};
use super::limits::{Limits, Texts};
use super::neighborhood_search::filled_of;
use super::recompute::rematerialize::Asked;
use super::stage_search::Sketch;
use super::units::{CUTS_PER_LAYER, MAX_UNITS};
use super::{LONG, Problem, Recompute, materialize_plan};
use crate::layer_repeats::expand::{Source, Stages, merge};
use crate::layer_repeats::representative_layers::Short;
use crate::recomputation::{Marks, rewrite};
use phzc_ir::{Diagnostic, Module, counted, notes};
use phzc_plan::derive::{Facts, derive, order};
use rayon::prelude::*;
use std::ops::RangeInclusive;

/// How many sizes there are in one plan at most: those nearest to that of the best plan with equal ones.
const MAX_SIZES: usize = 4;
/// By how much a plan must take less than those with equal sizes, and the chain promise less: it does not
/// know what it costs to go from one mesh to another.
const MARGIN: f64 = 0.002;
/// The same where a text is long.
const LONG_MARGIN: f64 = 0.02;
/// The most units of the chain times devices.
const MAX_WORK: usize = 4096;
/// For how many numbers of microbatches texts are made at most.
const MAX_COUNTS: usize = 3;
/// How many texts are made, with less and less memory to use.
const MAX_TEXTS: usize = 4;

/// A cut, of which sizes, and for how many microbatches.
struct Found {
    mixed: MixedCut,
    /// Per chain: its place among the sizes.
    sizes: Vec<usize>,
    n_microbatches: usize,
}

impl Problem<'_> {
    /// Whether stages may have different numbers of devices.
    pub(super) fn may_be_unequal(&self, wanted: usize) -> bool {
        let is_open = !self.is_given && !self.groups.is_equal() && !self.schedule.is_interleaved();
        is_open && wanted != 1 && self.groups.sizes().len() > 1
    }

    /// Whether the chain is so long, on so many devices, that cuts with all sizes would take longer than all
    /// else; they are made if they are asked for.
    pub(super) fn is_huge(&self, wanted: usize) -> bool {
        let n_devices = self.cluster.n_devices();
        let n_layers = |short: &Short| short.n_layers.iter().sum::<usize>();
        let n_units = self.subject.short.as_ref().map_or(MAX_UNITS, |short| CUTS_PER_LAYER * n_layers(short));
        let is_asked = self.groups.is_asked() || wanted > 0 && !n_devices.is_multiple_of(wanted);
        n_units * n_devices > MAX_WORK && !is_asked
    }

    /// The best placement whose stages have different numbers of devices, if it takes less than what was
    /// tried; what to say if there is no other plan either.
    pub(super) fn with_unequal(
        &self,
        sketches: &[Sketch],
        wanted: usize,
        tried: &[Evaluated],
    ) -> Option<Evaluated> {
        let none = || {
            let devices = counted(self.cluster.n_devices(), "device");
            let message = match wanted {
                0 => format!("no plan with such groups of {devices} was found"),
                _ => format!("no plan with {} on {devices} was found", counted(wanted, "stage")),
            };
            let help = "ask for a number of stages that divides the devices";
            Some(Evaluated::Impossible(Diagnostic::error(message).help(help)))
        };
        self.control.know(1);
        let found = self.unequal(sketches, wanted, tried);
        found.as_ref().map_or_else(|| self.control.skipped(), |found| self.control.evaluated(found));
        found.or_else(none)
    }

    fn unequal(&self, sketches: &[Sketch], wanted: usize, tried: &[Evaluated]) -> Option<Evaluated> {
        if self.is_spent() || self.is_huge(wanted) {
            return None;
        }
        let n_devices = self.cluster.n_devices();
        let made = self.missing(sketches, wanted);
        let near = sketches.iter().min_by(|a, b| a.secs.total_cmp(&b.secs)).map(Sketch::n_devices);
        let near = if wanted > 0 { n_devices.div_ceil(wanted) } else { near? };
        let chosen = chosen(sketches.iter().chain(&made), near, |size| self.groups.sizes().contains(&size));
        if chosen.len() < 2 {
            return None;
        }
        let chosen: Vec<Sketch> =
            chosen.into_par_iter().filter_map(|sketch| sketch.clone().beside()).collect();
        let chosen: Vec<&Sketch> = chosen.iter().collect();
        let drafts: Vec<Draft> = chosen.par_iter().map(|sketch| sketch.draft()).collect();
        let itself;
        let short = match &self.subject.short {
            Some(short) => short,
            None => {
                itself = Short::itself(self.plain);
                &itself
            }
        };
        let most = n_devices / chosen.iter().map(|sketch| sketch.n_devices()).min()?;
        let n_stages = if wanted > 0 { wanted..=wanted } else { 2..=most };
        let all = self.layers(&chosen, &drafts, |_| 0)?;
        let n_layers = all[0].1.n_layers();
        if wanted > n_layers {
            return Some(Evaluated::Impossible(too_few_layers(n_layers, wanted)));
        }
        let (pools, to_beat_secs) = (vec![Pool::of(self.cluster, 0, self.cluster)], self.to_beat_secs(tried));
        let found = self.within(Sizes { n_stages, pools, to_beat_secs, ..Sizes::new(short, &drafts, all) });
        found.filter(|found| found.time_secs() < to_beat_secs)
    }

    /// Layouts on numbers of devices that are not tried as stages of their own.
    fn missing(&self, sketches: &[Sketch], wanted: usize) -> Vec<Sketch<'_>> {
        let n_devices = self.cluster.n_devices();
        let is_new = |size: &usize| {
            let is_known = sketches.iter().any(|sketch| sketch.n_devices() == *size);
            !is_known && (wanted > 0 || !n_devices.is_multiple_of(*size))
        };
        let mut sizes: Vec<usize> = self.groups.sizes().into_iter().filter(is_new).collect();
        if wanted > 0 {
            sizes.sort_by(|a, b| {
                far(*a, n_devices.div_ceil(wanted)).total_cmp(&far(*b, n_devices.div_ceil(wanted)))
            });
        }
        sizes.truncate(MAX_SIZES);
        sizes.par_iter().filter_map(|&size| self.laid_out(size)).collect()
    }

    /// What a plan must take less than: it has a weaker bound than one with equal sizes.
    fn to_beat_secs(&self, tried: &[Evaluated]) -> f64 {
        let margin = if self.subject.short.is_some() { LONG_MARGIN } else { MARGIN };
        (1.0 - margin) * tried.iter().map(Evaluated::time_secs).fold(f64::INFINITY, f64::min)
    }

    /// The layers of all drafts, which are those of the first; of which kind the devices are is known by
    /// place.
    pub(super) fn layers<'a>(
        &'a self,
        chosen: &[&Sketch<'a>],
        drafts: &'a [Draft],
        kind: impl Fn(usize) -> usize,
    ) -> Option<Vec<SizedLayers<'a>>> {
        let plain = self.subject.module(self.plain);
        let mut all: Vec<SizedLayers> = Vec::new();
        for (at, (sketch, draft)) in chosen.iter().zip(drafts).enumerate() {
            let nodes = sketch.nodes();
            let facts = derive(&draft.text).expect("the header's notes are the planner's own");
            let allowed = self.counts_for(&draft.text, &facts).unwrap_or_default();
            let layers = match all.first() {
                None => Layers::new(&draft.text, facts, nodes, self.subject.short.as_ref()),
                Some((_, first, _)) => Layers::like(&draft.text, facts, nodes, first, plain)?,
            };
            let group = Group { kind: kind(at), n_devices: sketch.n_devices() };
            all.push((group, layers, allowed));
        }
        Some(all)
    }

    /// The best text that fits.
    fn within(&self, mut sizes: Sizes) -> Option<Evaluated> {
        let staged = self.best_within(&mut sizes, |_, _| true)?;
        let bound = Bound { lower_bound_secs: f64::INFINITY, stop: "stages-open".to_owned() };
        let n_stages = staged.plan.stages.len();
        Some(Evaluated::Placed(Box::new(staged.placed(n_stages, bound))))
    }

    /// The best text that fits, one in which every stage is of use if there is such. Where schedules are
    /// open, of those cut for zero-bubble with the two best numbers of microbatches, and of one that is cut
    /// for 1F1B, which needs less memory.
    pub(super) fn best_within(&self, sizes: &mut Sizes, is_of_use: IsOfUse) -> Option<Staged> {
        let (mut found, to_beat_secs) = (Vec::new(), sizes.to_beat_secs);
        if let Some(filled) = filled_of(self) {
            filled.add_texts(sizes, (2, is_of_use), &mut found);
            // How bubbles of a cut for 1F1B are filled is seen once it is written.
            if self.sharded.entry().instrs.len() <= LONG {
                sizes.to_beat_secs = to_beat_secs;
            }
        }
        self.add_texts(sizes, (1, is_of_use), &mut found);
        let better =
            |a: &Staged, b: &Staged| b.is_of_use.cmp(&a.is_of_use).then(a.time_secs.total_cmp(&b.time_secs));
        found.into_iter().min_by(better)
    }

    /// Adds so many texts of which every stage is of use, and what is found before them.
    fn add_texts(
        &self,
        sizes: &mut Sizes,
        (mut n_wanted, is_of_use): (usize, IsOfUse),
        found: &mut Vec<Staged>,
    ) {
        let (mut counts, most) = (self.counts.clone(), found.len() + MAX_COUNTS);
        while n_wanted > 0 && found.len() < most && (found.is_empty() || !self.is_spent()) {
            let Some(staged) = self.text_within(sizes, &counts, is_of_use) else { return };
            counts.retain(|count| *count != staged.plan.n_microbatches);
            if staged.is_of_use {
                sizes.to_beat_secs = sizes.to_beat_secs.min(staged.time_secs);
                n_wanted -= 1;
            }
            found.push(staged);
        }
    }

    /// The best text for one of these numbers of microbatches that fits.
    fn text_within(&self, sizes: &mut Sizes, counts: &[usize], is_of_use: IsOfUse) -> Option<Staged> {
        let mut texts = Texts::new(self.cluster.accelerator.usable_bytes());
        for _ in 0..MAX_TEXTS {
            let Some(found) = self.fastest_mixed(sizes, counts, &texts.limits) else { break };
            let Some(staged) = self.written_mixed(sizes, found, is_of_use) else { break };
            if !texts.add(staged) || texts.best.is_some() && self.is_spent() {
                break;
            }
        }
        texts.best
    }

    /// Seconds of the fastest cut, by the chain, if that is worth a text; bubbles filled where schedules are
    /// open.
    pub(super) fn promised(&self, sizes: &mut Sizes) -> Option<f64> {
        let limits = Limits::new(self.cluster.accelerator.usable_bytes());
        let filled = filled_of(self);
        let found = filled.as_ref().unwrap_or(self).fastest_mixed(sizes, &self.counts, &limits)?;
        Some(found.mixed.cut.step_secs)
    }

    /// The fastest cut that fits, over the numbers of microbatches: the most promising ones first, for others
    /// need not be looked at then.
    fn fastest_mixed(&self, sizes: &mut Sizes, counts: &[usize], limits: &Limits) -> Option<Found> {
        let (mut best, mut counts): (Option<Found>, _) = (None, counts.to_vec());
        counts.sort_by(|&a, &b| far(a, sizes.made_for).total_cmp(&far(b, sizes.made_for)));
        for count in counts {
            let to_beat = best.as_ref().map_or(sizes.to_beat_secs, |best| best.mixed.cut.step_secs);
            best = self.cut_mixed(sizes, count, limits, to_beat).or(best);
        }
        best
    }

    /// The best cut for a number of microbatches, of stages that compute something again if they must and
    /// may, or that is faster.
    fn cut_mixed(&self, sizes: &mut Sizes, count: usize, limits: &Limits, to_beat: f64) -> Option<Found> {
        let places = sizes.open(count);
        let chains = sizes.chains(self, &places, count);
        let (pools, n_stages) = (sizes.pools.clone(), sizes.n_stages.clone());
        let space = (&pools[..], n_stages, count);
        if chains.len() < 2 || self.mix(&chains, space.clone()).floor_secs() >= self.may_save() * to_beat {
            return None;
        }
        let chains = sizes.eased(self, &places, count);
        let mix = self.mix(&chains, space);
        if mix.floor_secs() >= to_beat {
            return None;
        }
        let mut limit_bytes = limits.of(count);
        let mut found = None;
        if self.recompute != Recompute::All {
            let free = mix.cut(to_beat)?;
            let layers = (&mut sizes.all[..], &places[..]);
            limit_bytes = self.limit_bytes(layers, limits, count, &free);
            found = Some(free).filter(|free| free.cut.memory_bytes <= limit_bytes);
        }
        let mixed = found.or_else(|| Mix { limit_bytes, ..mix }.cut(to_beat))?;
        Some(Found { mixed, sizes: places, n_microbatches: count })
    }

    /// Stages of several sizes, within some groups of devices, of some number, for a number of microbatches;
    /// memory without limit.
    fn mix<'m>(
        &self,
        chains: &'m [(Group, Chain)],
        (pools, n_stages, n_microbatches): (&'m [Pool], RangeInclusive<usize>, usize),
    ) -> Mix<'m> {
        Mix { chains, pools, n_stages, n_microbatches, limit_bytes: f64::INFINITY }
    }

    /// What the chain may plan with: until a text has shown what is there for a moment only, it is what it
    /// would be in one stage.
    fn limit_bytes(
        &self,
        (all, places): (&mut [SizedLayers], &[usize]),
        limits: &Limits,
        count: usize,
        free: &MixedCut,
    ) -> f64 {
        let usable = limits.of(count);
        if free.cut.memory_bytes <= SAFE * usable || !limits.is_guess(count) {
            return usable;
        }
        let passing = places.iter().map(|&at| all[at].1.passing_bytes(count)).fold(0.0, f64::max);
        GUESSED * usable - passing.clamp(0.0, (1.0 - SAFE) * usable)
    }

    /// The text of a cut, with what the report says of it; `None` where a stage would need what another mesh
    /// cannot hand over.
    fn written_mixed(&self, sizes: &Sizes, found: Found, is_of_use: IsOfUse) -> Option<Staged> {
        let Found { mixed: MixedCut { cut, chain_of }, sizes: places, n_microbatches } = found;
        let layer_of = sizes.all[0].1.whole_layers(sizes.short);
        let stage = |layer: &usize| cut.starts.partition_point(|start| start <= layer) - 1;
        let plan_of: Vec<usize> = chain_of.iter().map(|&chain| places[chain]).collect();
        let of = with_tuples(self.plain, layer_of.iter().map(stage).collect());
        let stages = Stages { n: cut.starts.len(), of, plan_of, is_free: free_arrays(self.plain) };
        let plans: Vec<&Module> = sizes.drafts.iter().map(|draft| &draft.text).collect();
        let (mut text, sources) = merge(self.plain, sizes.short, &plans, &stages)?;
        let mesh = |&plan: &usize| plans[plan].note(notes::MESH).unwrap_or_default();
        let meshes: Vec<String> = stages.plan_of.iter().map(mesh).collect();
        let n_devices = stages.plan_of.iter().map(|&plan| sizes.all[plan].0.n_devices).max();
        text.set_attr("num_partitions", n_devices.unwrap_or(1).to_string());
        materialize_plan::head_of(&mut text, &meshes, n_microbatches);
        let groups: Vec<Group> = stages.plan_of.iter().map(|&plan| sizes.all[plan].0).collect();
        materialize_plan::put_on(&mut text, &materialize_plan::first_devices(&groups, self.cluster));
        if cut.is_again() {
            let marks = marks(sizes, &sources, |source| cut.again[layer_of[source.reader.index()]]);
            rewrite(&mut text, &marks);
        }
        self.note(&mut text, stages.n);
        let facts = derive(&text).ok()?;
        if !facts.problems.is_empty() || !order::problems(&text, &facts).is_empty() {
            return None;
        }
        let is_of_use = is_of_use(&text, &facts);
        Some(Staged { is_of_use, ..self.measured_by(facts, text, Some(cut)) })
    }
}

/// Whether every stage of a text is worth its devices.
type IsOfUse = fn(&Module, &Facts) -> bool;

/// How far apart two numbers of devices are, by ratio.
pub(super) fn far(a: usize, b: usize) -> f64 {
    (a as f64 / b as f64).ln().abs()
}

/// Of each of the sizes nearest to one that promises most, the layouts that promise most; the first first.
fn chosen<'s, 'p: 's>(
    all: impl Iterator<Item = &'s Sketch<'p>>,
    near: usize,
    is_open: impl Fn(usize) -> bool,
) -> Vec<&'s Sketch<'p>> {
    let mut all: Vec<&Sketch> = all.filter(|sketch| is_open(sketch.n_devices())).collect();
    all.sort_by(|a, b| {
        let nearer = far(a.n_devices(), near).total_cmp(&far(b.n_devices(), near));
        nearer.then(a.n_devices().cmp(&b.n_devices())).then(a.secs.total_cmp(&b.secs))
    });
    all.dedup_by_key(|sketch| sketch.n_devices());
    all.truncate(MAX_SIZES);
    all
}

/// What is computed again; what comes from another mesh is not.
fn marks(sizes: &Sizes, sources: &[Source], level: impl Fn(&Source) -> usize) -> Marks {
    let mut marks = Marks::default();
    for source in sources {
        match source.like {
            Some(like) => sizes.all[source.plan].1.mark(like, (Asked::All, level(source)), &mut marks),
            None => {
                marks.is_again.push(false);
                marks.is_data.push(true);
                marks.is_free.push(false);
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests;
