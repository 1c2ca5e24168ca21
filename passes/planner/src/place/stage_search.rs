//! Layouts on the devices of one of several stages, and what comes of cutting the program in them.

mod beside;
mod estimate;

use super::candidate::{Bound, Evaluated};
use super::chain::Gains;
use super::evaluate_candidate::{Draft, GUESSED};
use super::interleave::{CHUNKS, HOPELESS};
use super::schedule::Wanted;
use super::{LONG, Problem, Recompute, materialize_plan};
use crate::shard::forbid::Forbid;
use crate::shard::illegal::illegal;
use crate::shard::model::{Goal, Input, Model};
use crate::shard::{Solved, solve_on, solve_over};
use estimate::Estimate;
use phzc_cost::{Cluster, Schedule};
use phzc_ir::Mesh;
use phzc_solver::choose::Stop;
use rayon::prelude::*;
use std::sync::Arc;

/// The search over one number of stages.
#[derive(Clone)]
struct Stages<'p> {
    problem: &'p Problem<'p>,
    /// The devices of a stage.
    cluster: Cluster,
    n_stages: usize,
    weights: [f64; 3],
    /// The share of a weighted sum below which no schedule falls.
    fill: f64,
    /// Seconds of a step that a plan must beat, as weighted sums have them.
    to_beat: f64,
    /// Whether weights are to be kept in parts, however often they are gathered.
    is_lean: bool,
    /// Whether other stages have layouts of their own.
    is_beside: bool,
}

/// Layouts for one number of stages, not yet written into the program.
#[derive(Clone)]
pub struct Sketch<'p> {
    stages: Stages<'p>,
    solved: Solved,
    /// The number of microbatches that they are made for.
    n_microbatches: usize,
    /// The bytes that they were to need at most, if those were limited.
    limit_bytes: Option<f64>,
    bound: Bound,
    /// How many stages each device group holds in its best cut.
    n_chunks: usize,
    /// The number of microbatches of that cut.
    n_cut_for: usize,
    /// The numbers of microbatches that the layouts allow, where that has been asked.
    allowed: Option<Vec<usize>>,
    /// What is known of its layers.
    gains: Option<Arc<Gains>>,
    /// Seconds of a step of its best cut, by the chain's estimate; infinite where that sees none that fits.
    pub secs: f64,
}

/// The layouts for one number of stages.
pub struct Sketched<'p> {
    /// For the whole batch, or for the number of microbatches that seems to be best, whichever promises more.
    pub found: Vec<Sketch<'p>>,
    /// Where these need more memory than there is, the whole batch at once: what others are chosen from.
    pub limited: Option<Limited<'p>>,
}

/// What layouts that need less memory are chosen from.
pub struct Limited<'p> {
    stages: Stages<'p>,
    /// Per mesh: what no layouts take less than.
    floors: Vec<(Mesh, f64)>,
    bound: Bound,
}

impl Problem<'_> {
    /// Layouts for several stages, unless they provably take `to_beat` or longer.
    ///
    /// A step takes `sum_i t_i / B + (B-1)/B max_j t_j + max_j u_j`, and a maximum is at least the mean: with
    /// weight `(S+B-1)/(B S)` on forward and backward and `1/S` on the update, and `B` as large as the batch
    /// allows, the least weighted sum over all layouts bounds every placement on `S` stages. Schedules that
    /// fill bubbles leave no less than a share of that: see [`super::schedule::Wanted::fill`].
    ///
    /// Layouts are chosen as if memory did not matter: microbatches and recomputation may make room.
    pub fn sketched(&self, n_stages: usize, to_beat: f64) -> Result<Sketched<'_>, Evaluated> {
        if self.control.ends() {
            return Err(Evaluated::Slower);
        }
        let fewest = self.fewest_and_most().0;
        let stages = Stages::new(self, n_stages, to_beat);
        let floors = stages.floors(fewest);
        let least = floors.iter().map(|(_, floor)| *floor).fold(f64::INFINITY, f64::min);
        // Choices that lay equal layers out alike bound no others.
        let noted = if n_stages == 1 { self.noted_bound().lower_bound_secs } else { 0.0 };
        let floor = self.subject.short.as_ref().map(|_| stages.fill * least.max(noted));
        let Some(free) = stages.solve(fewest, &floors, None) else {
            return Err(match to_beat.is_infinite() {
                true => Evaluated::Impossible(illegal(self.sharded, "a stage's devices", Forbid::default())),
                false => Evaluated::Slower,
            });
        };
        let bound = Bound {
            lower_bound_secs: floor.unwrap_or(stages.fill * free.bound()),
            stop: free.stop().to_owned(),
        };
        let usable = self.cluster.accelerator.usable_bytes();
        let is_tight = free.choice.memory > n_stages as f64 * usable;
        let found = stages.sketches(free, None, &bound);
        let bound = Bound { stop: Stop::MemoryGap.as_str().to_owned(), ..bound };
        let limited = is_tight.then_some(Limited { stages, floors, bound });
        Ok(Sketched { found, limited })
    }
}

/// The layouts that were found, and those that need less memory where these need much.
pub fn sketches<'p>(
    all: impl Iterator<Item = Result<Sketched<'p>, Evaluated>>,
    tried: &mut Vec<Evaluated>,
) -> Vec<Sketch<'p>> {
    let (mut found, mut limited): (Vec<Sketch>, Vec<(f64, Limited)>) = Default::default();
    for sketched in all {
        match sketched {
            Ok(sketched) => {
                let secs = sketched.secs();
                limited.extend(sketched.limited.map(|limited| (secs, limited)));
                found.extend(sketched.found);
            }
            Err(failed) => tried.push(failed),
        }
    }
    found.extend(leaner(limited));
    found
}

/// How many stage counts are worth layouts that need less memory, besides those that have no other plan.
const MAX_LIMITED: usize = 1;

/// Sketches that need less memory, for those stage counts that promise most without, and those that promise
/// nothing.
fn leaner(mut all: Vec<(f64, Limited<'_>)>) -> Vec<Sketch<'_>> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_worth = |(at, (secs, _)): &(usize, (f64, Limited))| *at < MAX_LIMITED || secs.is_infinite();
    let some: Vec<Limited> = all.into_iter().enumerate().filter(is_worth).map(|(_, it)| it.1).collect();
    let found: Vec<Vec<Sketch>> = some.par_iter().map(Limited::sketches).collect();
    found.into_iter().flatten().collect()
}

impl<'p> Sketched<'p> {
    /// Seconds of the best cut of these; infinite if none fits.
    pub fn secs(&self) -> f64 {
        self.found.iter().map(|sketch| sketch.secs).fold(f64::INFINITY, f64::min)
    }
}

impl<'p> Limited<'p> {
    /// The same with layouts that need less memory.
    pub fn sketches(&self) -> Vec<Sketch<'p>> {
        let problem = self.stages.problem;
        let (fewest, usable) = (problem.fewest_and_most().0, problem.cluster.accelerator.usable_bytes());
        let solved = self.stages.solve(fewest, &self.floors, Some(usable));
        solved.map(|solved| self.stages.sketches(solved, Some(usable), &self.bound)).unwrap_or_default()
    }
}

/// Another number of stages per group may take this share of what is estimated for the best.
const ALIKE: f64 = 0.97;
/// Cuts are made for 1F1B; schedules that fill its bubbles take this share of its time, or not much less.
const FILLED: f64 = 0.9;

impl<'p> Sketch<'p> {
    /// Devices of a stage.
    pub fn n_devices(&self) -> usize {
        self.stages.cluster.n_devices()
    }

    /// All devices of which a stage has some.
    pub fn nodes(&self) -> &'p Cluster {
        self.stages.problem.cluster
    }

    /// How many stages there are, or device groups that hold several.
    pub fn n_stages(&self) -> usize {
        self.stages.n_stages
    }

    /// The number of microbatches of its best cut.
    pub fn n_cut_for(&self) -> usize {
        self.n_cut_for
    }

    /// The program in its layouts, not yet cut.
    pub fn draft(&self) -> Draft {
        let draft = self.stages.draft(self.stages.input(self.n_microbatches), &self.solved);
        Draft { allowed: self.allowed.clone(), gains: self.gains.clone(), ..draft }
    }

    /// The best placement, unless the estimate is no better than what is known.
    pub fn tried(&self, best_secs: f64) -> Evaluated {
        let problem = self.stages.problem;
        let is_better = self.promised_secs() < best_secs && !problem.is_spent();
        if !is_better && (best_secs.is_finite() || problem.control.ends()) {
            problem.control.skipped();
            return Evaluated::Slower;
        }
        let found = self.stages.cut(self);
        problem.control.evaluated(&found);
        problem.control.counts().evaluated_on(self.stages.n_stages, &found);
        found
    }

    /// The same for a problem that differs in what is computed again.
    pub fn of<'s>(&self, problem: &'s Problem<'s>) -> Sketch<'s>
    where
        'p: 's,
    {
        Sketch { stages: Stages { problem, ..self.stages.clone() }, gains: None, ..self.clone() }
    }

    /// Whether it may need more memory than there is.
    pub fn is_tight(&self) -> bool {
        let usable = self.nodes().accelerator.usable_bytes();
        self.solved.choice.memory > self.n_stages() as f64 * usable
    }

    /// Whether it is one of several stages.
    pub fn is_cut(&self) -> bool {
        self.stages.n_stages > 1
    }

    /// Whether its stages may fill their bubbles: between them, each on devices of its own.
    pub fn may_fill(&self) -> bool {
        self.stages.n_stages > 1 && self.n_chunks == 1
    }

    /// The same with other numbers of stages per device group, where it has several: estimates of cuts do not
    /// tell them apart.
    pub fn rechunked(&self) -> Vec<Self> {
        let schedule = self.stages.problem.schedule;
        let allowed = if schedule.is_open() { &CHUNKS } else { schedule.chunks() };
        let others = allowed.iter().filter(|&&other| self.n_chunks > 1 && other != self.n_chunks);
        others.map(|&n_chunks| Sketch { n_chunks, secs: ALIKE * self.secs, ..self.clone() }).collect()
    }

    /// What it may take once the schedule is chosen too.
    fn promised_secs(&self) -> f64 {
        let schedule = self.stages.problem.schedule;
        let is_open = schedule.is_open() || schedule == Wanted::This(Schedule::ZeroBubble);
        let is_open = is_open && self.stages.n_stages > 1 && self.n_chunks == 1;
        let is_long = self.stages.problem.sharded.entry().instrs.len() > LONG;
        match is_open {
            true if is_long => FILLED * self.secs,
            true => GUESSED * super::schedule::filled(self.stages.n_stages, self.n_cut_for) * self.secs,
            false => self.secs,
        }
    }

    /// The same with several stages per device group, if the fastest schedule is asked for and that seems to
    /// take less than `best_secs`.
    pub fn interleaved(&self, best_secs: f64) -> Option<Self> {
        let problem = self.stages.problem;
        let is_open = self.stages.n_stages > 1 && problem.schedule.is_open() && !problem.is_spent();
        if !is_open || self.bound.lower_bound_secs >= best_secs || self.secs > HOPELESS * best_secs {
            return None;
        }
        let (secs, n_chunks) = self.stages.interleaved(self, best_secs)?;
        Some(Sketch { n_chunks, secs, ..self.clone() })
    }
}

impl<'p> Stages<'p> {
    fn new(problem: &'p Problem, n_stages: usize, to_beat: f64) -> Stages<'p> {
        Stages::on(problem, problem.cluster.n_devices() / n_stages, n_stages, to_beat)
    }

    fn on(problem: &'p Problem, n_devices: usize, n_stages: usize, to_beat: f64) -> Stages<'p> {
        let cluster = problem.cluster.submesh(n_devices);
        let (stages, most) = (n_stages as f64, problem.fewest_and_most().1 as f64);
        let weight = (stages + most - 1.0) / (most * stages);
        let fill = problem.schedule.fill(n_stages, problem.fewest_and_most().1);
        let weights = [weight, weight, 1.0 / stages];
        Stages {
            problem,
            cluster,
            n_stages,
            weights,
            fill,
            to_beat: to_beat / fill,
            is_lean: false,
            is_beside: false,
        }
    }

    /// Whether phases are tasks of their own: of several stages, and where all is computed again.
    fn in_tasks(&self) -> bool {
        self.n_stages > 1 || self.problem.recompute == Recompute::All
    }

    /// What to choose layouts from, such that so many microbatches can be split as the batch is.
    fn input(&self, n_microbatches: usize) -> Input<'_> {
        let own = self.problem.subject.input(&self.cluster, self.in_tasks(), &[]);
        let own = if self.is_lean { own.gathering_once() } else { own };
        let own = if self.is_beside { self.problem.subject.beside(own) } else { own };
        Input { n_microbatches, ..own }
    }

    /// Per mesh: what no layouts take less than, every block's fastest, moves left out. It holds whether
    /// equal layers are laid out alike or not.
    fn floors(&self, n_microbatches: usize) -> Vec<(Mesh, f64)> {
        let goal = self.goal(None);
        let floor = |mesh: &Mesh| Model::new(self.input(n_microbatches), mesh).floors(&goal).iter().sum();
        let all = self.problem.meshes(self.cluster.n_devices()).into_iter();
        all.map(|mesh| (mesh.clone(), floor(&mesh))).collect()
    }

    fn goal(&self, limit_bytes: Option<f64>) -> Goal {
        Goal { weights: self.weights, memory_bytes: limit_bytes.map(|limit| self.n_stages as f64 * limit) }
    }

    /// Layouts as sketches: for the whole batch, or for the number of microbatches that seems to be best.
    fn sketches(&self, solved: Solved, limit_bytes: Option<f64>, bound: &Bound) -> Vec<Sketch<'p>> {
        let (fewest, most) = self.problem.fewest_and_most();
        let chunks = self.problem.schedule.chunks();
        let draft = self.draft(self.input(fewest), &solved);
        let first = self.estimate(&draft, fewest, chunks);
        // What weights cost to gather is up to how many microbatches gather them. On one device all layouts
        // are alike.
        let wanted =
            if first.secs.is_finite() { first.n_microbatches.unwrap_or(first.n_cut_for) } else { most };
        let wanted = Some(wanted).filter(|&wanted| wanted > fewest && self.cluster.n_devices() > 1);
        let sketch = |solved: Solved, n_microbatches: usize, found: Estimate| Sketch {
            stages: self.clone(),
            solved,
            n_microbatches,
            limit_bytes,
            bound: bound.clone(),
            n_chunks: found.n_chunks,
            n_cut_for: found.n_cut_for,
            allowed: Some(found.allowed),
            gains: Some(found.gains),
            secs: found.secs,
        };
        let mut found = vec![sketch(solved, fewest, first)];
        let again = |count| Some((count, self.solve(count, &self.floors(count), limit_bytes)?));
        if let Some((count, solved)) = wanted.and_then(again) {
            let other = self.draft(self.input(count), &solved);
            if other.text != draft.text {
                let other = sketch(solved, count, self.estimate(&other, count, chunks));
                // The worse one is seldom better once it is written.
                found.retain(|it| it.secs <= other.secs);
                found.extend(Some(other).filter(|it| found.is_empty() || it.secs.is_infinite()));
            }
        }
        found
    }

    fn solve(&self, n_microbatches: usize, floors: &[(Mesh, f64)], limit: Option<f64>) -> Option<Solved> {
        let goal = self.goal(limit);
        let is_shards = (n_microbatches, goal.weights, limit) == (1, [1.0; 3], None) && !self.is_beside;
        let is_all = self.cluster.n_devices() == self.problem.cluster.n_devices();
        if let Some(known) = self.problem.subject.free.as_ref().filter(|_| is_shards && is_all) {
            return Some(known.clone()).filter(|known| known.bound() < self.to_beat);
        }
        let open = floors.iter().filter(|(_, floor)| *floor < self.to_beat);
        let open: Vec<Mesh> = open.map(|(mesh, _)| mesh.clone()).collect();
        solve_over(self.input(n_microbatches), &open, &goal, self.to_beat)
    }

    fn cut(&self, sketch: &Sketch) -> Evaluated {
        let (n_stages, n_chunks) = (self.n_stages * sketch.n_chunks, sketch.n_chunks);
        let (problem, bound) = (self.problem.chunked(n_chunks), sketch.bound.clone());
        problem.within_memory(n_stages, sketch.draft(), bound, |limit, moves_again| {
            let input = Input { moves_again, ..self.input(sketch.n_microbatches) };
            let again = solve_on(input, &sketch.solved.mesh, &self.goal(Some(limit)));
            again.map(|again| self.draft(input, &again))
        })
    }

    fn draft(&self, input: Input, solved: &Solved) -> Draft {
        Draft {
            text: materialize_plan::sharded(self.problem, input, solved, self.in_tasks()),
            is_whole: self.problem.subject.short.is_none(),
            memory_bytes: Some(solved.choice.memory / self.n_stages as f64),
            allowed: None,
            gains: None,
        }
    }
}
