//! Tries one stage count: layouts on a stage's devices, the cut, and what the text then says of time and memory.

use super::chain::Layers;
use super::cut::{Chain, Cut};
use super::{Problem, note, text};
use crate::check::amount;
use crate::choose::Stop;
use crate::copies::expand::{Stages, expand};
use crate::derive::{MESH_NOTE, PLAN_NOTE, derive};
use crate::report::{self, Plan};
use crate::shard::model::{Goal, Input};
use crate::shard::solve_on;
use phzc_ir::{Diagnostic, Mesh, Module, Result, counted};

/// How many texts are made, with less and less memory to use, when the first turns out to need more than planned.
const MAX_TEXTS: usize = 12;

/// How many texts more are made, each with so much of the memory of the one before, where phases move values for themselves.
const MOVING_AGAIN: i32 = 6;
const LESS: f64 = 0.8;

/// A program with its stages and microbatches.
pub struct Placement {
    /// The planned program.
    pub text: Module,
    /// Seconds of a step, as the report of the text says.
    time_secs: f64,
    /// No plan on as many stages takes less.
    lower_bound_secs: f64,
    /// Why the search over layouts stopped.
    stop: String,
    n_stages: usize,
}

/// What became of one stage count.
pub enum Tried {
    Placed(Box<Placement>),
    /// It provably takes no less than another count.
    Worse,
    /// It seems to take longer than another count; no plan like it takes less than so many seconds.
    Slower(f64),
    /// No plan that was tried fits in memory.
    TooLarge(Diagnostic),
    Impossible(Diagnostic),
}

impl Tried {
    /// Seconds of a step; infinite if there is no plan.
    pub fn time_secs(&self) -> f64 {
        match self {
            Tried::Placed(placement) => placement.time_secs,
            _ => f64::INFINITY,
        }
    }

    /// The faster of two; of equal ones the first.
    pub(super) fn or_faster(self, other: Tried) -> Tried {
        if other.time_secs() < self.time_secs() { other } else { self }
    }
}

/// A sharded text, not yet cut.
pub(super) struct Draft {
    pub text: Module,
    /// Whether it is of the whole program, not of what stands for it.
    pub is_whole: bool,
    /// What the choice of its layouts took its memory to be, if that is known.
    pub memory_bytes: Option<f64>,
}

/// What is known of all texts of one stage count.
#[derive(Clone)]
pub(super) struct Bound {
    pub lower_bound_secs: f64,
    pub stop: String,
}

impl Problem<'_> {
    /// All devices as one stage, as `shard` left it, if that fits.
    pub fn as_sharded(&self) -> Tried {
        let draft = Draft { text: self.sharded.clone(), is_whole: true, memory_bytes: None };
        let (usable, bound) = (self.cluster.accelerator.usable_bytes(), self.noted_bound());
        match self.cut(&draft, 1, usable, true) {
            Ok(Some(staged)) if staged.peak_bytes() <= usable => {
                Tried::Placed(Box::new(staged.placed(1, bound)))
            }
            _ => Tried::Slower(bound.lower_bound_secs),
        }
    }

    /// The bound that `shard` noted.
    pub(super) fn noted_bound(&self) -> Bound {
        let plan = note::read(self.sharded);
        let stop = plan.get("stop").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let lower_bound_secs = plan.get("lower_bound_secs").and_then(serde_json::Value::as_f64);
        Bound { lower_bound_secs: lower_bound_secs.unwrap_or(0.0), stop }
    }

    /// All devices as one stage: `shard`'s plan as it stands if it fits, else one that needs less memory.
    pub fn unstaged(&self) -> Tried {
        let draft = Draft { text: self.sharded.clone(), is_whole: true, memory_bytes: None };
        let mesh =
            self.sharded.note("phzc.mesh").and_then(|mesh| Mesh::parse(&mesh).ok()).unwrap_or_default();
        let again = |n_microbatches: usize, limit: f64, moves_again: bool| {
            let goal = Goal { weights: [1.0; 3], memory_bytes: Some(limit) };
            let input = self.subject.input(self.cluster, &[]);
            let input = Input { n_microbatches, moves_again, ..input };
            let solved = solve_on(input, &mesh, &goal).filter(|_| !self.is_given)?;
            let mut text = text::sharded(self, input, &solved);
            note::set(&mut text, &[("planned_secs", solved.choice.cost.into())]);
            let is_whole = self.subject.short.is_none();
            Some(Draft { text, is_whole, memory_bytes: Some(solved.choice.memory) })
        };
        let (fewest, most) = self.fewest_and_most();
        let bound = self.noted_bound();
        let tried = self.within_memory(1, draft, bound.clone(), |limit, moves| again(fewest, limit, moves));
        let is_worth_more = matches!(tried, Tried::TooLarge(_)) && most > fewest;
        let usable = self.cluster.accelerator.usable_bytes();
        match is_worth_more.then(|| again(most, usable, false)).flatten() {
            Some(draft) => {
                tried.or_faster(self.within_memory(1, draft, bound, |limit, moves| again(most, limit, moves)))
            }
            None => tried,
        }
    }

    /// The least and the largest number of microbatches to try.
    pub(super) fn fewest_and_most(&self) -> (usize, usize) {
        (self.counts.first().copied().unwrap_or(1), self.counts.last().copied().unwrap_or(1))
    }

    /// Cuts a draft; as long as its text needs more memory than there is, cuts it otherwise or makes it `again`
    /// with less. What the choice and the chain take for memory is scaled by what the text turned out to need.
    pub(super) fn within_memory(
        &self,
        n_stages: usize,
        mut draft: Draft,
        mut bound: Bound,
        again: impl Fn(f64, bool) -> Option<Draft>,
    ) -> Tried {
        let usable = self.cluster.accelerator.usable_bytes();
        let (mut cut_limit, mut is_new, mut least) = (usable, true, f64::INFINITY);
        for _ in 0..MAX_TEXTS {
            match self.cut(&draft, n_stages, cut_limit, is_new) {
                Err(error) => return Tried::Impossible(error),
                Ok(Some(staged)) => {
                    let peak = staged.peak_bytes();
                    if peak <= usable {
                        return Tried::Placed(Box::new(staged.placed(n_stages, bound)));
                    }
                    least = least.min(peak);
                    (cut_limit, is_new) = (0.95 * staged.cut_bytes * usable / peak, false);
                }
                Ok(None) => {
                    let Some(next) = leaner(&draft, least, usable, &again) else { break };
                    // Of many layers the text is written only where the chain, corrected by the last text, sees it fit.
                    (draft, is_new) = (next, self.subject.short.is_none());
                    Stop::MemoryGap.as_str().clone_into(&mut bound.stop);
                }
            }
        }
        if let Some(staged) = self.moving_again(n_stages, &again) {
            Stop::MemoryGap.as_str().clone_into(&mut bound.stop);
            return Tried::Placed(Box::new(staged.placed(n_stages, bound)));
        }
        match least.is_finite() {
            true => Tried::TooLarge(self.too_large(least)),
            false => Tried::Impossible(self.refusal(&draft.text)),
        }
    }

    /// The first text that fits, of layouts made with less and less memory where each phase moves values for itself: no
    /// copy that forward gathers waits for backward.
    fn moving_again(&self, n_stages: usize, again: &impl Fn(f64, bool) -> Option<Draft>) -> Option<Staged> {
        let usable = self.cluster.accelerator.usable_bytes();
        (0..MOVING_AGAIN).find_map(|step| {
            let draft = again(usable * LESS.powi(step), true)?;
            let is_new = self.subject.short.is_none();
            let staged = self.cut(&draft, n_stages, usable, is_new).ok()??;
            Some(staged).filter(|staged| staged.peak_bytes() <= usable)
        })
    }

    /// The best cut of a sharded text over the microbatch counts, with what the report says of the result.
    ///
    /// The chain only estimates memory. When no cut fits by its estimate, there is none, but of a `new` text the
    /// one that needs least is tried all the same.
    fn cut(&self, draft: &Draft, n_stages: usize, limit_bytes: f64, is_new: bool) -> Result<Option<Staged>> {
        let text = &draft.text;
        if draft.is_whole && self.subject.short.is_some() && self.counts[0] == 1 {
            // As `shard` left it; if that needs too much, what stands for it is laid out anew.
            return is_new.then(|| self.measured(text.clone(), (1, 1), None)).transpose();
        }
        let short = self.subject.short.as_ref().filter(|_| !draft.is_whole);
        let mut layers = Layers::new(text, derive(text)?, self.cluster, short);
        if layers.n_layers() < n_stages {
            return Err(too_few_layers(layers.n_layers(), n_stages));
        }
        if n_stages == 1 && self.counts[0] == 1 {
            // One stage waits for nobody: to cut the batch only saves memory.
            if let Some(whole) = layers.chain(1).cut(1, 1, limit_bytes) {
                return self.written(draft, &layers, whole, (1, 1)).map(Some);
            }
        }
        let allowed = self.counts_for(text, layers.facts()).unwrap_or_default();
        let (fastest, _) = self.fastest(&mut layers, n_stages, limit_bytes, &allowed);
        let mut leanest = || {
            let most = self.counts.iter().rev().copied().find(|count| is_new && allowed.contains(count))?;
            Some((layers.chain(most).leanest(n_stages, most)?, most))
        };
        let Some((cut, count)) = fastest.or_else(&mut leanest) else { return Ok(None) };
        self.written(draft, &layers, cut, (n_stages, count)).map(Some)
    }

    /// The fastest cut that fits, over the microbatch counts that the layouts allow, with its count; and the count
    /// of the fastest cut of all if they do not allow it.
    pub(super) fn fastest(
        &self,
        layers: &mut Layers,
        n_stages: usize,
        limit_bytes: f64,
        allowed: &[usize],
    ) -> (Option<(Cut, usize)>, Option<usize>) {
        let chains = self.counts.iter().map(|&count| (layers.chain(count), count));
        let floor = |(chain, count): (Chain, usize)| (chain.floor_secs(n_stages, count), count, chain);
        let mut chains: Vec<(f64, usize, Chain)> = chains.map(floor).collect();
        chains.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best: Option<(Cut, usize)> = None;
        let mut fastest: Option<(f64, usize)> = None;
        for (floor, count, chain) in chains {
            let is_allowed = allowed.contains(&count);
            let known =
                if is_allowed { best.as_ref().map(|(cut, _)| cut.step_secs) } else { fastest.map(|it| it.0) };
            if known.is_some_and(|known| floor >= known) {
                continue;
            }
            let Some(cut) = chain.cut(n_stages, count, limit_bytes) else { continue };
            if fastest.is_none_or(|(secs, _)| cut.step_secs < secs) {
                fastest = Some((cut.step_secs, count));
            }
            if is_allowed && best.as_ref().is_none_or(|(known, _)| cut.step_secs < known.step_secs) {
                best = Some((cut, count));
            }
        }
        (best, fastest.map(|it| it.1).filter(|count| !allowed.contains(count)))
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
            text::write(&mut found, &layers.stages(&cut.starts), n_stages, n_microbatches);
            return self.measured(found, (n_stages, n_microbatches), Some(cut.memory_bytes));
        };
        let stages = Stages { n: n_stages, of: layers.whole_stages(&cut.starts, short) };
        let mut found = expand(self.plain, short, &draft.text, &stages);
        for key in [MESH_NOTE, PLAN_NOTE] {
            draft.text.note(key).into_iter().for_each(|text| found.set_note(key, &text));
        }
        text::head(&mut found, n_stages, n_microbatches);
        self.measured(found, (n_stages, n_microbatches), Some(cut.memory_bytes))
    }

    /// What the report says of a text.
    fn measured(
        &self,
        mut text: Module,
        (n_stages, n_microbatches): (usize, usize),
        cut_bytes: Option<f64>,
    ) -> Result<Staged> {
        if cut_bytes.is_none() {
            text::head(&mut text, n_stages, n_microbatches);
        }
        let plan = report::plan(&text, self.cluster)?;
        let mut staged = Staged { text, plan, cut_bytes: 0.0 };
        staged.cut_bytes = cut_bytes.unwrap_or_else(|| staged.peak_bytes());
        Ok(staged)
    }

    fn too_large(&self, needed_bytes: f64) -> Diagnostic {
        let device = &self.cluster.accelerator;
        let (needed, usable) = (amount(needed_bytes), amount(device.usable_bytes()));
        let text =
            format!("the program needs {needed} on each device, `{}` has {usable} to use", device.name);
        Diagnostic::error(text).help("plan for more devices, or for devices with more memory")
    }
}

/// A draft that needs less memory than this one, of whose texts one needed `least` bytes at best; infinitely many
/// if none could be cut.
fn leaner(
    draft: &Draft,
    least: f64,
    usable: f64,
    again: &impl Fn(f64, bool) -> Option<Draft>,
) -> Option<Draft> {
    if least.is_infinite() && draft.memory_bytes.is_some() {
        return None; // layouts chosen for these counts do not allow them either
    }
    // Nothing has been measured where the layouts allow none of the counts.
    let scaled = |bytes| if least.is_finite() { 0.95 * bytes * usable / least } else { usable };
    // Where no choice needs as little, the one that needs least is what there is to try.
    let leaner = again(draft.memory_bytes.map_or(usable, scaled), false)?;
    let is_leaner = |bytes: f64| draft.memory_bytes.is_none_or(|before| bytes < 0.999 * before);
    Some(leaner).filter(|leaner| leaner.memory_bytes.is_none_or(is_leaner))
}

fn too_few_layers(n_layers: usize, n_stages: usize) -> Diagnostic {
    let most = counted(n_layers, "stage");
    Diagnostic::error(format!("the program can be cut into {most} at most, not into {n_stages}"))
        .help("a loop is never cut: unroll it, or ask for fewer stages")
}

/// A text with stages.
struct Staged {
    text: Module,
    /// What the report says of it.
    plan: Plan,
    /// The memory of its largest stage, as the chain has it.
    cut_bytes: f64,
}

impl Staged {
    /// Bytes that the device with most to hold needs.
    fn peak_bytes(&self) -> f64 {
        self.plan.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max)
    }

    fn placed(self, n_stages: usize, bound: Bound) -> Placement {
        let Staged { text, plan, .. } = self;
        let Bound { lower_bound_secs, stop } = bound;
        Placement { text, time_secs: plan.time_secs, lower_bound_secs, stop, n_stages }
    }
}

/// The fastest placement, with a bound over all that were tried.
///
/// # Errors
/// Why there is none.
pub fn pick(tried: impl Iterator<Item = Tried>) -> Result<Placement> {
    let (mut best, mut refusal, mut bound): (Option<Placement>, Option<Diagnostic>, f64) =
        (None, None, f64::INFINITY);
    for result in tried {
        match result {
            Tried::Placed(found) => {
                bound = bound.min(found.lower_bound_secs);
                if best.as_ref().is_none_or(|best| found.time_secs < best.time_secs) {
                    best = Some(*found);
                }
            }
            Tried::Impossible(error) | Tried::TooLarge(error) => refusal = refusal.or(Some(error)),
            Tried::Slower(secs) => bound = bound.min(secs),
            Tried::Worse => {}
        }
    }
    let mut best =
        best.ok_or_else(|| refusal.unwrap_or_else(|| Diagnostic::error("no stage count is possible")))?;
    best.note(bound);
    Ok(best)
}

impl Placement {
    /// Adds what was decided to the plan's note.
    fn note(&mut self, bound_secs: f64) {
        let plan = note::read(&self.text);
        let noted = plan.get("planned_secs").and_then(serde_json::Value::as_f64);
        // What `shard` planned is the whole batch on all devices: nothing else is of its model.
        let is_whole = self.n_stages == 1 && plan.get("n_microbatches").is_some_and(|count| *count == 1);
        let planned_secs = noted.filter(|_| is_whole).unwrap_or(self.time_secs);
        let bound_secs = bound_secs.min(planned_secs);
        let gap = (planned_secs - bound_secs) / planned_secs;
        let is_own_bound = is_whole && bound_secs >= self.lower_bound_secs.min(planned_secs);
        let stop = if is_whole && gap <= 1e-9 {
            "optimal"
        } else if is_own_bound {
            self.stop.as_str()
        } else {
            "stages-open"
        };
        let gap = if gap <= 1e-9 { 0.0 } else { gap };
        let figures = [
            ("planned_secs", planned_secs.into()),
            ("lower_bound_secs", bound_secs.into()),
            ("gap", gap.into()),
            ("stop", stop.into()),
            ("fits", true.into()),
        ];
        note::set(&mut self.text, &figures);
    }
}
