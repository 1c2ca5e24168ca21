//! The choice over meshes: each is bounded first, and one whose bound is beaten needs no choice.

use super::model::{Goal, Input, Model};
use phzc_ir::Mesh;
use phzc_solver::choose::{Choice, Limits, Problem, Stop, choose, relative_gap};
use rayon::prelude::*;

/// Why a search stopped that looked at equal layers only as laid out alike.
const LAYERS_ALIKE: &str = "layers-alike";

/// By how much, relatively, a bound must exceed a cost: sums of seconds differ by rounding.
const ROUNDING: f64 = 1e-9;

/// The choice on one mesh.
#[derive(Clone)]
pub struct Solved {
    /// The mesh.
    pub mesh: Mesh,
    /// The choice: a strategy per block.
    pub choice: Choice,
    /// Whether it keeps within the memory limit.
    pub fits: bool,
    /// No choice takes less, were there memory enough.
    pub free_bound: f64,
    /// Whether it would be the choice were there memory enough.
    pub is_free: bool,
}

impl Solved {
    /// Why the search stopped. What is proved within a memory limit is not proved of the text, whose need is
    /// another.
    pub fn stop(&self) -> &'static str {
        match self.choice.stop {
            Stop::Optimal if self.bound() == self.choice.lower_bound => Stop::Optimal.as_str(),
            Stop::Optimal if self.is_free => LAYERS_ALIKE,
            Stop::Optimal => Stop::MemoryGap.as_str(),
            stop => stop.as_str(),
        }
    }

    /// No plan takes less, however much memory it needs.
    pub fn bound(&self) -> f64 {
        self.choice.lower_bound.min(self.free_bound)
    }

    /// The gap to that bound, relative to the choice's cost.
    pub fn gap(&self) -> f64 {
        relative_gap(self.choice.cost, self.bound())
    }

    /// Whether this is better than another choice: what fits comes first, then cost, or memory where nothing
    /// fits.
    pub(super) fn is_better(&self, other: &Solved) -> bool {
        let weight = |it: &Solved| if it.fits { it.choice.cost } else { it.choice.memory };
        if self.fits == other.fits { weight(self) < weight(other) } else { self.fits }
    }
}

/// A mesh whose plans are bounded, and not yet chosen from.
pub struct Open {
    mesh: Mesh,
    problem: Problem,
    /// The best choice if memory did not matter.
    free: Choice,
    /// No choice costs less.
    bound: f64,
}

impl Open {
    /// The bound of a mesh; `None` when no choice on it is legal.
    pub fn new(input: Input, mesh: &Mesh, goal: &Goal) -> Option<Open> {
        let mut model = Model::new(input, mesh);
        let mut problem = model.problem(goal);
        let limit = problem.memory_limit.take();
        let free = choose(&problem, &Limits::default()).ok()?;
        problem.memory_limit = limit;
        let bound = match input.relaxed {
            [] => free.lower_bound,
            _ => relaxed_bound(input, model, goal)?.min(free.lower_bound),
        };
        Some(Open { mesh: mesh.clone(), problem, free, bound })
    }

    /// No plan on the mesh takes less, in weighted seconds.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// The best choice; the one with least memory when none fits; `None` when none is legal.
    pub fn solve(mut self, input: Input) -> Option<Solved> {
        let free_bound = self.bound;
        let limit = self.problem.memory_limit.unwrap_or(f64::INFINITY);
        let is_free = self.free.memory <= limit;
        let (mut choice, fits) = match self.free.memory <= limit {
            true => (self.free, true),
            false => match choose(&self.problem, &Limits::default()) {
                Ok(choice) => (choice, true),
                Err(infeasible) => {
                    self.problem.memory_limit = Some(infeasible.least_memory * (1.0 + 1e-9));
                    (choose(&self.problem, &Limits::default()).ok()?, false)
                }
            },
        };
        input.untie(&mut choice.option);
        Some(Solved { mesh: self.mesh, choice, fits, free_bound, is_free })
    }

    /// Whether no choice on this mesh can be better than one that is known.
    fn is_beaten(&self, known: &Solved) -> bool {
        known.fits && self.bound() > known.choice.cost * (1.0 + ROUNDING)
    }
}

/// No plan costs less than the relaxed inputs' best choices together, however much memory they need. Ways
/// that `model` knows are theirs too.
fn relaxed_bound(input: Input, model: Model, goal: &Goal) -> Option<f64> {
    let (mesh, mut reshards, mut bound) = (model.mesh, model.reshards, 0.0);
    for relaxed in input.relaxed {
        let mut model = Model::new(relaxed.alike(&input), &mesh);
        model.reshards = reshards;
        bound += free_bound(&mut model, goal)?;
        reshards = model.reshards;
    }
    Some(bound)
}

/// No choice costs less, however much memory it needs; `None` when none is legal.
fn free_bound(model: &mut Model, goal: &Goal) -> Option<f64> {
    let problem = Problem { memory_limit: None, ..model.problem(goal) };
    Some(choose(&problem, &Limits::default()).ok()?.lower_bound)
}

/// What no plan takes less than.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    /// Seconds of everything, or more than was to be beaten.
    pub secs: f64,
    /// Of these, seconds of forward and backward; movements left out.
    pub work_secs: [f64; 2],
}

impl Least {
    /// The lesser of each figure.
    pub fn min(self, other: Least) -> Least {
        let [forward_secs, backward_secs] = self.work_secs;
        let [other_forward_secs, other_backward_secs] = other.work_secs;
        let work_secs = [forward_secs.min(other_forward_secs), backward_secs.min(other_backward_secs)];
        Least { secs: self.secs.min(other.secs), work_secs }
    }
}

/// Per block: what no plan on a mesh takes less for it than, in all these inputs together, times a weight;
/// movements left out.
pub fn block_floors(inputs: &[Input], mesh: &Mesh, weight: f64) -> Vec<f64> {
    let goal = Goal { weights: [weight; 3], memory_bytes: None };
    let floors = inputs.iter().map(|&input| Model::new(input, mesh).floors(&goal));
    let sum = |a: Vec<f64>, b: Vec<f64>| a.into_iter().zip(b).map(|(a, b)| a + b).collect();
    floors.reduce(sum).unwrap_or_default()
}

/// What no plan on a mesh takes less than, as none is below the best choices of these inputs together, each
/// phase times its weight; movements left out where that says enough: `is_enough`. `None` when none is legal.
pub fn least_secs(
    inputs: &[Input],
    mesh: &Mesh,
    weight: f64,
    is_enough: impl Fn(&Least) -> bool,
) -> Option<Least> {
    let mut models: Vec<Model> = inputs.iter().map(|&input| Model::new(input, mesh)).collect();
    let mut floor = |weights: [f64; 3]| {
        let goal = Goal { weights, memory_bytes: None };
        models.iter_mut().flat_map(|model| model.floors(&goal)).sum::<f64>()
    };
    let work_secs = [floor([weight, 0.0, 0.0]), floor([0.0, weight, 0.0])];
    let goal = Goal { weights: [weight; 3], memory_bytes: None };
    let least = Least { secs: floor(goal.weights), work_secs };
    if is_enough(&least) {
        return Some(least);
    }
    let bounds = models.iter_mut().map(|model| free_bound(model, &goal));
    Some(Least { secs: bounds.sum::<Option<f64>>()?, work_secs })
}

/// The best choice on one mesh; the one with least memory when none fits; `None` when none is legal.
pub fn solve_on(input: Input, mesh: &Mesh, goal: &Goal) -> Option<Solved> {
    Open::new(input, mesh, goal)?.solve(input)
}

/// The best choice over some meshes, with a bound over all of them; of equal ones that on the first mesh.
/// `None` when none is legal, or all provably take `to_beat` weighted seconds or longer.
pub fn solve_over(input: Input, meshes: &[Mesh], goal: &Goal, to_beat: f64) -> Option<Solved> {
    let bounded: Vec<Option<Open>> = meshes.par_iter().map(|mesh| Open::new(input, mesh, goal)).collect();
    let mut open: Vec<(usize, Open)> =
        bounded.into_iter().enumerate().filter_map(|(at, it)| Some((at, it?))).collect();
    open.sort_by(|(_, a), (_, b)| a.bound().total_cmp(&b.bound()));
    let bound = open.first().map(|(_, it)| it.bound()).filter(|bound| *bound < to_beat)?;
    let mut best: Option<(usize, Solved)> = None;
    for (at, it) in open {
        if best.as_ref().is_some_and(|(_, best)| it.is_beaten(best)) {
            break;
        }
        let Some(solved) = it.solve(input) else { continue };
        let wins = best
            .as_ref()
            .is_none_or(|(first, best)| solved.is_better(best) || (!best.is_better(&solved) && at < *first));
        best = if wins { Some((at, solved)) } else { best };
    }
    let (_, mut best) = best?;
    best.free_bound = best.free_bound.min(bound);
    Some(best)
}
