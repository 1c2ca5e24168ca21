//! How far the search over candidates is, what ends it early, and what is shown of it meanwhile.
//!
//! A candidate is a choice of layouts for a number of stages, evaluated with its best cut. What ends a search
//! counts candidates and compares seconds of plans, never those of a clock.

use super::candidate::Evaluated;
use super::stage_counts::StageCounts;
use phzc_ir::{Diagnostic, Result};
use phzc_pass::pass::{Context, Interrupt, OptionInfo, OptionKind, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The option that ends a search by the number of candidates.
pub const MAX_PLANS: OptionInfo = OptionInfo {
    name: "max-plans",
    kind: OptionKind::Int { min: 0, max: 1 << 20 },
    default: "0",
    help: "ends the search once so many candidates are evaluated and one fits; 0 is no limit",
};

/// The option that ends a search by its bound.
pub const GAP: OptionInfo = OptionInfo {
    name: "gap",
    kind: OptionKind::Checked("percent from 0 to 100, such as 0.5", |text| percent(text).map(drop)),
    default: "0",
    help: "ends the search once the best plan is so many percent above the lower bound of all plans, at most; 0 is no such end",
};

/// Why a search ended before all candidates were evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// So many candidates were evaluated as the user allows.
    Limit,
    /// The best plan is as near to the bound as the user asked for.
    Gap,
    /// The user has had enough.
    Interrupted,
}

impl End {
    /// The value of `stop`.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Limit => "limit",
            End::Gap => "gap",
            End::Interrupted => "interrupted",
        }
    }
}

/// One search over candidates.
pub struct SearchControl<'a> {
    /// The most candidates; 0 is no limit.
    most_evaluated: usize,
    /// The gap that will do; 0 is none.
    gap: f64,
    progress: &'a (dyn Fn(&str) + Sync),
    interrupt: Interrupt<'a>,
    /// Whether there is a plan that this search need not find.
    is_part: bool,
    /// Instructions of all texts.
    n_instrs: AtomicUsize,
    state: Mutex<State>,
    /// What is known of every number of stages.
    counts: Mutex<StageCounts>,
}

#[derive(Default)]
struct State {
    n_known: usize,
    /// Candidates that were evaluated or need not be.
    n_done: usize,
    n_evaluated: usize,
    best: Option<Best>,
    end: Option<End>,
    /// No plan of another form of the program takes less.
    beside_secs: Option<f64>,
}

/// The best plan so far.
struct Best {
    time_secs: f64,
    /// The same in the model of its bound.
    planned_secs: f64,
    /// No plan takes less, if that is known.
    bound_secs: Option<f64>,
}

impl Best {
    fn gap(&self) -> Option<f64> {
        let bound_secs = self.bound_secs?.min(self.planned_secs);
        Some((self.planned_secs - bound_secs) / self.planned_secs)
    }

    /// What is shown of it.
    fn text(&self) -> String {
        let bound = self.bound_secs.zip(self.gap());
        let bound = bound.map(|(secs, gap)| format!(", bound {}, gap {:.1} %", short(secs), 100.0 * gap));
        format!(", best {}{}", short(self.planned_secs), bound.unwrap_or_default())
    }
}

impl<'a> SearchControl<'a> {
    /// A search that these options end, and the user.
    pub fn new(options: &Options, cx: &Context<'a>) -> SearchControl<'a> {
        SearchControl {
            most_evaluated: options.int(MAX_PLANS.name) as usize,
            gap: percent(options.text(GAP.name)).unwrap_or(0.0) / 100.0,
            progress: cx.progress,
            interrupt: cx.interrupt,
            is_part: false,
            n_instrs: AtomicUsize::new(0),
            state: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// A search for another plan beside one that is there: only the user ends it.
    pub fn part(&self) -> SearchControl<'a> {
        SearchControl {
            most_evaluated: 0,
            gap: 0.0,
            progress: &|_| {},
            interrupt: self.interrupt,
            is_part: true,
            n_instrs: AtomicUsize::new(0),
            state: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Adds what a part of the search has done, as one candidate.
    pub fn join(&self, part: &SearchControl) {
        self.n_instrs.fetch_add(part.n_instrs(), Ordering::Relaxed);
        let n_evaluated = part.state().n_evaluated;
        self.counts().join(&part.counts());
        let mut state = self.state();
        state.n_evaluated += n_evaluated;
        state.n_done += 1;
        self.show_candidates(&state);
    }

    /// A text of so many instructions has been written.
    pub fn written(&self, n_instrs: usize) {
        self.n_instrs.fetch_add(n_instrs, Ordering::Relaxed);
    }

    /// Instructions of all texts so far.
    pub fn n_instrs(&self) -> usize {
        self.n_instrs.load(Ordering::Relaxed)
    }

    /// How many candidates were evaluated.
    pub fn n_evaluated(&self) -> usize {
        self.state().n_evaluated
    }

    /// Why the search ended early, if it did.
    pub fn ended(&self) -> Option<End> {
        self.state().end
    }

    /// Whether options may end the search: then what is done ahead of time may be in vain.
    pub fn may_end(&self) -> bool {
        self.most_evaluated > 0 || self.gap > 0.0
    }

    /// Whether the search ends here, asked where it would go on. Without a plan it does not.
    pub fn ends(&self) -> bool {
        let mut state = self.state();
        if state.end.is_none() && (self.is_part || state.best.is_some()) {
            state.end = self.reason(&state);
        }
        state.end.is_some()
    }

    /// Whether the user ends the search here: what leads to no plan is in vain.
    pub fn is_interrupted(&self) -> bool {
        (self.interrupt.is_requested)() && self.ends()
    }

    fn reason(&self, state: &State) -> Option<End> {
        let gap = state.best.as_ref().and_then(Best::gap);
        if self.most_evaluated > 0 && state.n_evaluated >= self.most_evaluated {
            Some(End::Limit)
        } else if self.gap > 0.0 && gap.is_some_and(|gap| gap <= self.gap) {
            Some(End::Gap)
        } else {
            (self.interrupt.is_requested)().then_some(End::Interrupted)
        }
    }

    /// There are so many candidates more.
    pub fn know(&self, n_candidates: usize) {
        let mut state = self.state();
        state.n_known += n_candidates;
        self.show_candidates(&state);
    }

    /// A candidate need not be evaluated.
    pub fn skipped(&self) {
        let mut state = self.state();
        state.n_done += 1;
        self.show_candidates(&state);
    }

    /// A candidate has been evaluated.
    pub fn evaluated(&self, found: &Evaluated) {
        let mut state = self.state();
        state.n_done += 1;
        state.n_evaluated += 1;
        self.counts().evaluated(found);
        if let Evaluated::Placed(found) = found {
            (self.interrupt.has_plan)();
            if state.best.as_ref().is_none_or(|best| found.time_secs < best.time_secs) {
                let (time_secs, planned_secs) = (found.time_secs, found.planned_secs());
                state.best = Some(Best { time_secs, planned_secs, bound_secs: None });
            }
        }
        self.show_candidates(&state);
    }

    /// What bounds all plans is worked out next.
    pub fn bounding(&self) {
        self.show("lower bound", &self.state());
    }

    /// What bounds the plans of another form of the program, beside those that are searched now.
    pub fn bounded_beside(&self, bound_secs: f64) {
        self.state().beside_secs = Some(bound_secs);
    }

    /// What is known to bound all plans, the best so far among them.
    pub fn bounded(&self, bound_secs: f64) {
        let mut state = self.state();
        let bound_secs = state.beside_secs.map_or(bound_secs, |beside| bound_secs.min(beside));
        if let Some(best) = &mut state.best {
            best.bound_secs = Some(bound_secs);
        }
        self.show_candidates(&state);
    }

    /// Layouts have been chosen for so many numbers of stages of so many.
    pub fn laid_out(&self, n_counts: usize, n_all: usize) {
        self.show(&format!("layouts {n_counts} of {n_all}"), &self.state());
    }

    fn show_candidates(&self, state: &State) {
        self.show(&format!("{} of {} candidates", state.n_done, state.n_known), state);
    }

    fn show(&self, what: &str, state: &State) {
        if state.end.is_some() {
            return;
        }
        let best = state.best.as_ref().map(Best::text).unwrap_or_default();
        (self.progress)(&format!("place: {what}{best}"));
    }

    /// What is known of every number of stages.
    pub fn counts(&self) -> MutexGuard<'_, StageCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counts are whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Percent as the user writes them.
pub fn percent(text: &str) -> Result<f64> {
    let is_legal = |percent: &f64| (0.0..=100.0).contains(percent);
    let wrong = || {
        let error = Diagnostic::error(format!("expected percent from 0 to 100, found `{text}`"));
        error.help("`0.5` ends the search with a plan at most half a percent above the bound")
    };
    text.parse().ok().filter(is_legal).ok_or_else(wrong)
}

/// Seconds in three digits or so.
fn short(secs: f64) -> String {
    match secs {
        secs if secs >= 1.0 => format!("{secs:.2} s"),
        secs if secs >= 1e-3 => format!("{:.2} ms", 1e3 * secs),
        secs => format!("{:.2} us", 1e6 * secs),
    }
}

#[cfg(test)]
mod tests;
