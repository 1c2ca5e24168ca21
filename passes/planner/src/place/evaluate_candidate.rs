//! Tries one stage count: layouts on a stage's devices, the cut, and what the text then says of time and
//! memory.

use super::candidate::{Bound, Evaluated, Staged};
use super::chain::{Gains, Layers};
use super::cut::{Chain, Cut};
use super::limits::{Leanest, Limits, Texts};
use super::recompute::rematerialize::Asked;
use super::{Problem, Recompute, materialize_plan, slow_devices};
use crate::layer_repeats::expand::{Source, Stages, expand};
use crate::recomputation::rewrite;
use phzc_ir::{Diagnostic, InstrId, Module, Result, counted, notes};
use phzc_plan::derive::{Facts, derive, known};
use phzc_plan::memory::{amount, largest_at_peak, memory_of, remedy};
use phzc_plan::report;
use phzc_solver::choose::Stop;
use std::sync::Arc;

/// How many texts are made, with less and less memory to use, when the first turns out to need more than
/// planned.
const MAX_TEXTS: usize = 12;

/// Where the chain needs no more of what there is to use, what it does not know of fits beside it.
pub(super) const SAFE: f64 = 0.4;

/// The chain is a percent off: of a first text this much is planned with, or a second would have to be made.
pub(super) const GUESSED: f64 = 0.98;

/// How many texts more are made, each with so much of the memory of the one before, where phases move values
/// for themselves.
const MOVING_AGAIN: i32 = 6;
const LESS: f64 = 0.8;

/// A sharded text, not yet cut.
pub(super) struct Draft {
    pub text: Module,
    /// Whether it is of the whole program, not of what stands for it.
    pub is_whole: bool,
    /// What the choice of its layouts took its memory to be, if that is known.
    pub memory_bytes: Option<f64>,
    /// The numbers of microbatches that its layouts allow, if that has been asked ([`Problem::counts_for`]).
    pub allowed: Option<Vec<usize>>,
    /// What is known of its layers.
    pub gains: Option<Arc<Gains>>,
}

impl Problem<'_> {
    /// The least and the largest number of microbatches to try.
    pub(super) fn fewest_and_most(&self) -> (usize, usize) {
        (self.counts.first().copied().unwrap_or(1), self.counts.last().copied().unwrap_or(1))
    }

    /// Cuts a draft; as long as its text needs more memory than there is, cuts it otherwise or makes it
    /// `again` with less. What the choice and the chain take for memory is scaled by what the text turned out
    /// to need.
    pub(super) fn within_memory(
        &self,
        n_stages: usize,
        mut draft: Draft,
        mut bound: Bound,
        again: impl Fn(f64, bool) -> Option<Draft>,
    ) -> Evaluated {
        let (mut texts, mut is_new) = (Texts::new(self.cluster.accelerator.usable_bytes()), true);
        for _ in 0..MAX_TEXTS {
            match self.cut(&draft, n_stages, &texts.limits, is_new) {
                Err(error) => return Evaluated::Impossible(error),
                Ok(Some(staged)) => {
                    is_new = false;
                    let is_open = texts.add(staged);
                    if !is_open || texts.best.is_some() && self.is_spent() {
                        break;
                    }
                }
                Ok(None) => {
                    let Some(next) = leaner(&draft, &texts, &again) else { break };
                    // Of many layers the text is written only where the chain, corrected by the last text,
                    // sees it fit.
                    (draft, is_new) = (next, self.subject.short.is_none());
                    Stop::MemoryGap.as_str().clone_into(&mut bound.stop);
                }
            }
        }
        if let Some(staged) = texts.best {
            return Evaluated::Placed(Box::new(staged.placed(n_stages, bound)));
        }
        if let Some(staged) = self.moving_again(n_stages, &again) {
            Stop::MemoryGap.as_str().clone_into(&mut bound.stop);
            return Evaluated::Placed(Box::new(staged.placed(n_stages, bound)));
        }
        match texts.leanest {
            Some(leanest) => Evaluated::TooLarge(self.too_large(&leanest)),
            None => self.last_resort(&draft, n_stages, bound),
        }
    }

    /// The text of a cut whatever memory it needs, where the chain saw none that fits: it may fit all the
    /// same, or says how much is missing. Without one no number of microbatches is possible.
    fn last_resort(&self, draft: &Draft, n_stages: usize, bound: Bound) -> Evaluated {
        let usable = self.cluster.accelerator.usable_bytes();
        match self.cut(draft, n_stages, &Limits::new(f64::INFINITY), true).ok().flatten() {
            Some(staged) if staged.peak_bytes() > usable => {
                Evaluated::TooLarge(self.too_large(&Leanest::new(staged)))
            }
            Some(staged) => Evaluated::Placed(Box::new(staged.placed(n_stages, bound))),
            None => Evaluated::Impossible(self.refusal(&draft.text)),
        }
    }

    /// The first text that fits, of layouts made with less and less memory where each phase moves values for
    /// itself: no copy that forward gathers waits for backward.
    fn moving_again(&self, n_stages: usize, again: &impl Fn(f64, bool) -> Option<Draft>) -> Option<Staged> {
        let (usable, mut before_bytes) = (self.cluster.accelerator.usable_bytes(), None);
        for step in 0..MOVING_AGAIN {
            let Some(draft) = again(usable * LESS.powi(step), true) else { continue };
            if step > 0 && draft.memory_bytes == before_bytes {
                return None; // no choice needs less
            }
            before_bytes = draft.memory_bytes;
            let is_new = step == 0 || self.subject.short.is_none();
            let staged = self.cut(&draft, n_stages, &Limits::new(usable), is_new).ok().flatten();
            if let Some(staged) = staged.filter(|staged| staged.peak_bytes() <= usable) {
                return Some(staged);
            }
        }
        None
    }

    /// The best cut of a sharded text over the microbatch counts, with what the report says of the result.
    ///
    /// The chain only estimates memory. When no cut fits by its estimate, there is none, but of a `new` text
    /// the one that needs least is tried all the same.
    pub(super) fn cut(
        &self,
        draft: &Draft,
        n_stages: usize,
        limits: &Limits,
        is_new: bool,
    ) -> Result<Option<Staged>> {
        let text = &draft.text;
        if draft.is_whole && self.subject.short.is_some() && self.counts[0] == 1 {
            // As `shard` left it; if that needs too much, what stands for it is laid out anew.
            return is_new.then(|| self.measured(text.clone(), (1, 1), None)).transpose();
        }
        let short = self.subject.short.as_ref().filter(|_| !draft.is_whole);
        let layers = Layers::new(text, derive(text)?, self.cluster, short);
        let mut layers = layers.knowing(draft.gains.as_deref());
        if layers.n_layers() < n_stages {
            return Err(too_few_layers(layers.n_layers(), n_stages));
        }
        if n_stages == 1 && self.counts[0] == 1 && self.recompute != Recompute::All {
            // One stage waits for nobody: to cut the batch only saves memory.
            let mut chain = self.chain(&mut layers, 1);
            self.ease(&mut layers, &mut chain, 1, Asked::Gains);
            let whole = chain.cut(1, 1, f64::INFINITY);
            if let Some(whole) = whole.filter(|whole| whole.memory_bytes <= limits.of(1)) {
                return self.written(draft, &layers, whole, (1, 1)).map(Some);
            }
        }
        let asked = || self.counts_for(text, layers.facts()).unwrap_or_default();
        let allowed = draft.allowed.clone().unwrap_or_else(asked);
        let (fastest, _) = self.fastest(&mut layers, n_stages, limits, &allowed);
        let mut leanest = || {
            let most = self.counts.iter().rev().copied().find(|count| is_new && allowed.contains(count))?;
            let mut chain = self.chain(&mut layers, most);
            self.ease(&mut layers, &mut chain, most, Asked::All);
            Some((chain.leanest(n_stages, most)?, most))
        };
        let Some((cut, count)) = fastest.or_else(&mut leanest) else { return Ok(None) };
        self.written(draft, &layers, cut, (n_stages, count)).map(Some)
    }

    /// The fastest cut that fits, over the microbatch counts that the layouts allow, with its count; and the
    /// count of the fastest cut of all if they do not allow it.
    pub(super) fn fastest(
        &self,
        layers: &mut Layers,
        n_stages: usize,
        limits: &Limits,
        allowed: &[usize],
    ) -> (Option<(Cut, usize)>, Option<usize>) {
        let share = self.gained_share(layers, n_stages);
        let chains = self.counts.iter().map(|&count| (self.chain(layers, count), count));
        let floor =
            |(chain, count): (Chain, usize)| (share * chain.floor_secs(n_stages, count), count, chain);
        let mut chains: Vec<(f64, usize, Chain)> = chains.map(floor).collect();
        chains.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut best, mut is_limited): (Option<(Cut, usize)>, bool) = (None, false);
        let mut fastest: Option<(f64, usize)> = None;
        for (floor, count, chain) in chains {
            let is_allowed = allowed.contains(&count);
            let known =
                if is_allowed { best.as_ref().map(|(cut, _)| cut.step_secs) } else { fastest.map(|it| it.0) };
            if known.is_some_and(|known| floor >= known) {
                continue;
            }
            let cut = self.cut_within(layers, chain, (n_stages, count), limits);
            is_limited |= cut.as_ref().is_none_or(|cut| cut.is_limited);
            let Some(cut) = cut else { continue };
            if fastest.is_none_or(|(secs, _)| cut.step_secs < secs) {
                fastest = Some((cut.step_secs, count));
            }
            if is_allowed && best.as_ref().is_none_or(|(known, _)| cut.step_secs < known.step_secs) {
                best = Some((cut, count));
            }
        }
        best.iter_mut().for_each(|(cut, _)| cut.is_limited = is_limited);
        (best, fastest.map(|it| it.1).filter(|count| !allowed.contains(count)))
    }

    /// The share of its seconds that a chain takes where it computes again what is faster made than read;
    /// with other numbers of microbatches it is about the same.
    fn gained_share(&self, layers: &mut Layers, n_stages: usize) -> f64 {
        let count = self.counts[0];
        let mut chain = self.chain(layers, count);
        let plain_secs = chain.floor_secs(n_stages, count);
        self.ease(layers, &mut chain, count, Asked::Gains);
        if plain_secs > 0.0 { chain.floor_secs(n_stages, count) / plain_secs } else { 1.0 }
    }

    /// The best cut that fits, of stages that compute something again if they must and may.
    pub(super) fn cut_within(
        &self,
        layers: &mut Layers,
        mut chain: Chain,
        (n_stages, n_microbatches): (usize, usize),
        limits: &Limits,
    ) -> Option<Cut> {
        let usable = limits.of(n_microbatches);
        if self.recompute == Recompute::All {
            self.ease(layers, &mut chain, n_microbatches, Asked::All);
            return chain.cut(n_stages, n_microbatches, usable);
        }
        self.ease(layers, &mut chain, n_microbatches, Asked::Gains);
        let free = chain.cut(n_stages, n_microbatches, f64::INFINITY)?;
        if free.memory_bytes <= SAFE * usable {
            return Some(free);
        }
        // Until a text has shown what is there for a moment only, it is what it would be in one stage.
        let passing =
            if limits.is_guess(n_microbatches) { layers.passing_bytes(n_microbatches) } else { 0.0 };
        let share = if limits.is_guess(n_microbatches) { GUESSED } else { 1.0 };
        let limit_bytes = share * usable - passing.clamp(0.0, (1.0 - SAFE) * usable);
        if free.memory_bytes <= limit_bytes {
            return Some(free);
        }
        self.ease(layers, &mut chain, n_microbatches, Asked::All);
        chain.cut(n_stages, n_microbatches, limit_bytes)
    }

    /// Lets the layers of a chain compute again what they may, or must.
    pub(super) fn ease(&self, layers: &mut Layers, chain: &mut Chain, n_microbatches: usize, asked: Asked) {
        if self.recompute != Recompute::Never {
            chain.levels = layers.levels(n_microbatches, asked);
            chain.asked = asked;
            chain.is_all_again = self.recompute == Recompute::All;
        }
    }

    /// The text of a cut, with what the report says of it.
    fn written(
        &self,
        draft: &Draft,
        layers: &Layers,
        cut: Cut,
        (n_stages, n_microbatches): (usize, usize),
    ) -> Result<Staged> {
        let Some(short) = self.subject.short.as_ref().filter(|_| !draft.is_whole) else {
            let mut found = draft.text.clone();
            materialize_plan::write(&mut found, &layers.stages(&cut.starts), n_stages, n_microbatches);
            if cut.is_again() {
                let all = layers.layers().iter().enumerate();
                let own = all.map(|(id, &layer)| (InstrId::new(id), layer));
                rewrite(&mut found, &layers.marks(&cut, own));
            }
            return self.measured(found, (n_stages, n_microbatches), Some(cut));
        };
        let layer_of = layers.whole_layers(short);
        let stage = |layer: &usize| cut.starts.partition_point(|start| start <= layer) - 1;
        let stages = Stages::alike(n_stages, layer_of.iter().map(stage).collect());
        let (mut found, sources) = expand(self.plain, short, &draft.text, &stages);
        for key in [notes::MESH, notes::PLAN] {
            draft.text.note(key).into_iter().for_each(|text| found.set_note(key, &text));
        }
        materialize_plan::head(&mut found, n_stages, n_microbatches);
        if cut.is_again() {
            let like = |source: &Source| source.like.expect("one plan hands nothing over");
            let own = sources.iter().map(|source| (like(source), layer_of[source.reader.index()]));
            rewrite(&mut found, &layers.marks(&cut, own));
        }
        self.measured(found, (n_stages, n_microbatches), Some(cut))
    }

    /// What the report says of a text; of one that was cut, with what the chain says.
    pub(super) fn measured(
        &self,
        mut text: Module,
        (n_stages, n_microbatches): (usize, usize),
        cut: Option<Cut>,
    ) -> Result<Staged> {
        if cut.is_none() {
            materialize_plan::head(&mut text, n_stages, n_microbatches);
        }
        self.note(&mut text, n_stages);
        let facts = derive(&text)?;
        Ok(self.measured_by(facts, text, cut))
    }

    /// Notes what a text is measured by.
    pub(super) fn note(&self, text: &mut Module, n_stages: usize) {
        slow_devices::hand_on(self.sharded, text);
        if n_stages > 1 {
            self.schedule.note(text);
        }
    }

    /// The same of a text whose facts are known.
    pub(super) fn measured_by(&self, facts: Facts, text: Module, cut: Option<Cut>) -> Staged {
        self.control.written(text.entry().instrs.len());
        let plan = report::figures_of(&text, &facts, self.cluster);
        let is_again = cut.as_ref().is_some_and(Cut::is_again);
        let is_limited = cut.as_ref().is_some_and(|cut| cut.is_limited);
        let time_secs = plan.time_secs;
        let (reordered, cut_bytes, is_of_use) = (None, 0.0, true);
        let mut staged =
            Staged { text, plan, reordered, time_secs, cut_bytes, is_again, is_limited, is_of_use };
        staged.cut_bytes = cut.map_or_else(|| staged.peak_bytes(), |cut| cut.memory_bytes);
        self.reorder(&mut staged, facts);
        staged
    }

    fn too_large(&self, leanest: &Leanest) -> Diagnostic {
        let device = &self.cluster.accelerator;
        let (needed, usable) = (amount(leanest.peak_bytes), amount(device.usable_bytes()));
        let text =
            format!("the program needs {needed} on each device, `{}` has {usable} to use", device.name);
        let help = remedy(self.cluster, self.cluster.n_devices(), leanest.peak_bytes);
        let error = Diagnostic::error(text).help(help);
        let Some((text, stage)) = &leanest.text else { return error };
        let facts = derive(text).expect("the header's notes are the planner's own");
        let at = memory_of(text, &facts, self.cluster).stages[*stage].at.map(|id| text.entry().instr(id));
        let error = match at {
            Some(peak) => error.note(known(peak.span), format!("most is in use at `{}`", peak.name)),
            None => error,
        };
        largest_at_peak(text, &facts, *stage)
            .into_iter()
            .fold(error, |error, largest| error.note(None, largest))
    }
}

/// A draft that needs less memory than this one, of whose texts some have been made.
fn leaner(draft: &Draft, texts: &Texts, again: &impl Fn(f64, bool) -> Option<Draft>) -> Option<Draft> {
    if texts.best.is_some() || texts.leanest.is_none() && draft.memory_bytes.is_some() {
        return None; // there is no need, or layouts chosen for these counts do not allow them either
    }
    let usable = texts.limits.usable_bytes;
    // Nothing has been measured where the layouts allow none of the counts.
    let least = texts.leanest.as_ref().map(|leanest| leanest.peak_bytes);
    let scaled = |bytes: f64| least.map_or(usable, |least| 0.95 * bytes * usable / least);
    // Where no choice needs as little, the one that needs least is what there is to try.
    let leaner = again(draft.memory_bytes.map_or(usable, scaled), false)?;
    let is_leaner = |bytes: f64| draft.memory_bytes.is_none_or(|before| bytes < 0.999 * before);
    Some(leaner).filter(|leaner| leaner.memory_bytes.is_none_or(is_leaner))
}

pub(super) fn too_few_layers(n_layers: usize, n_stages: usize) -> Diagnostic {
    let most = counted(n_layers, "stage");
    Diagnostic::error(format!("the program can be cut into {most} at most, not into {n_stages}"))
        .help("a loop is never cut: unroll it, or ask for fewer stages")
}

#[cfg(test)]
mod tests;
