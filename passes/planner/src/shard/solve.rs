//! The choice over meshes: each is bounded first, and one whose bound is beaten needs no choice.

use super::model::{Goal, Input, Model};
use phzc_ir::Mesh;
use phzc_pass::alternative::OnMesh;
use phzc_solver::choose::{Choice, Limits, Node, Problem, Stop, choose, relative_gap};
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

/// A mesh with what is chosen on it.
struct Stated<'a> {
    model: Model<'a>,
    problem: Problem,
    /// No choice costs less: every block's fastest, movements left out.
    floor: f64,
}

impl<'a> Stated<'a> {
    fn new(input: Input<'a>, mesh: &Mesh, goal: &Goal) -> Stated<'a> {
        let mut model = Model::new(input, mesh);
        let problem = model.problem(goal);
        let least = |node: &Node| node.cost.iter().copied().fold(f64::INFINITY, f64::min);
        let floor = problem.nodes.iter().map(least).sum();
        Stated { model, problem, floor }
    }

    /// The bound of a mesh; `None` when no choice on it is legal. A bound of `enough` says that it is no
    /// better than another mesh: its best choice does not matter then.
    fn bounded(mut self, input: Input<'a>, goal: &Goal, enough: f64) -> Option<Open> {
        let limit = self.problem.memory_limit.take();
        let free = choose(&self.problem, &Limits { enough, ..Limits::default() }).ok()?;
        self.problem.memory_limit = limit;
        let mesh = self.model.mesh.clone();
        let bound = match input.relaxed {
            [] => free.lower_bound,
            _ => relaxed_bound(input, self.model, goal)?.min(free.lower_bound),
        };
        Some(Open { mesh, problem: self.problem, free, bound })
    }
}

impl Open {
    /// The bound of a mesh; `None` when no choice on it is legal.
    pub fn new(input: Input, mesh: &Mesh, goal: &Goal) -> Option<Open> {
        Stated::new(input, mesh, goal).bounded(input, goal, f64::INFINITY)
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

    /// The bound at which another mesh is no better than the best choice on this one.
    fn beaten_at(&self) -> f64 {
        let fits = self.problem.memory_limit.is_none_or(|limit| self.free.memory <= limit);
        if fits { self.free.cost * (1.0 + 2.0 * ROUNDING) } else { f64::INFINITY }
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
        bound += free_bound(&mut model, goal, &Limits::default())?;
        reshards = model.reshards;
    }
    Some(bound)
}

/// No choice costs less, however much memory it needs; `None` when none is legal.
fn free_bound(model: &mut Model, goal: &Goal, limits: &Limits) -> Option<f64> {
    let problem = Problem { memory_limit: None, ..model.problem(goal) };
    Some(choose(&problem, limits).ok()?.lower_bound)
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

/// A bound so near the best choice, relatively, is as good as that choice's own cost, and one that rises by
/// less in a round comes no nearer: to prove the rest takes most of the time.
const NEAR: f64 = 1e-3;
const LEAST_RISE: f64 = 2e-4;

/// What no plan on a mesh takes less than, as none is below the best choices of these inputs together, each
/// phase times its weight; movements left out where the seconds are `enough` without them. `None` when none
/// is legal.
pub fn least_secs(
    inputs: &[Input],
    mesh: &Mesh,
    weight: f64,
    enough: impl Fn(&Least) -> f64,
) -> Option<Least> {
    let mut models: Vec<Model> = inputs.iter().map(|&input| Model::new(input, mesh)).collect();
    let mut floors = |weights: [f64; 3]| -> Vec<f64> {
        let goal = Goal { weights, memory_bytes: None };
        models.iter_mut().map(|model| model.floors(&goal).iter().sum()).collect()
    };
    let work_secs = [[weight, 0.0, 0.0], [0.0, weight, 0.0]].map(|it| floors(it).iter().sum());
    let goal = Goal { weights: [weight; 3], memory_bytes: None };
    let all = floors(goal.weights);
    let mut least = Least { secs: all.iter().sum(), work_secs };
    let enough = enough(&least);
    for (model, floor) in models.iter_mut().zip(all) {
        if least.secs < enough {
            let enough = enough - (least.secs - floor);
            let limits = Limits { enough, gap: NEAR, least_rise: LEAST_RISE, ..Limits::default() };
            least.secs += free_bound(model, &goal, &limits)? - floor;
        }
    }
    Some(least)
}

/// The best choice on one mesh; the one with least memory when none fits; `None` when none is legal.
pub fn solve_on(input: Input, mesh: &Mesh, goal: &Goal) -> Option<Solved> {
    Open::new(input, mesh, goal)?.solve(input)
}

/// The best choice over some meshes, with a bound over all of them; of equal ones that on the first mesh.
/// `None` when none is legal, or all provably take `to_beat` weighted seconds or longer.
pub fn solve_over(input: Input, meshes: &[Mesh], goal: &Goal, to_beat: f64) -> Option<Solved> {
    solve_known(input, meshes, goal, to_beat, &mut Vec::new())
}

/// The same, and what is known of every mesh.
pub fn solve_known(
    input: Input,
    meshes: &[Mesh],
    goal: &Goal,
    to_beat: f64,
    known: &mut Vec<OnMesh>,
) -> Option<Solved> {
    let mut open = bounded(input, meshes, goal, to_beat);
    open.sort_by(|(_, a), (_, b)| a.bound().total_cmp(&b.bound()));
    let bound = open.first().map(|(_, it)| it.bound()).filter(|bound| *bound < to_beat)?;
    let mut best: Option<(usize, Solved)> = None;
    for (at, it) in open {
        let is_beaten = best.as_ref().is_some_and(|(_, best)| it.is_beaten(best));
        let on_mesh = OnMesh { mesh: it.mesh.to_string(), lower_bound_secs: it.bound(), best: None };
        if is_beaten || it.bound() >= to_beat {
            // Bounds rise, so those that follow are beaten too.
            known.push(on_mesh);
            continue;
        }
        let Some(solved) = it.solve(input) else { continue };
        known.push(OnMesh { best: Some([solved.choice.cost, solved.choice.memory]), ..on_mesh });
        let wins = best
            .as_ref()
            .is_none_or(|(first, best)| solved.is_better(best) || (!best.is_better(&solved) && at < *first));
        best = if wins { Some((at, solved)) } else { best };
    }
    let (_, mut best) = best?;
    best.free_bound = best.free_bound.min(bound);
    Some(best)
}

/// The meshes on which something is legal, by their places in the list, with their bounds: of all but the
/// most promising one no more than says that they are no better.
fn bounded(input: Input, meshes: &[Mesh], goal: &Goal, to_beat: f64) -> Vec<(usize, Open)> {
    let stated = meshes.par_iter().map(|mesh| Stated::new(input, mesh, goal));
    let mut stated: Vec<(usize, Stated)> = stated.collect::<Vec<_>>().into_iter().enumerate().collect();
    stated.sort_by(|(_, a), (_, b)| a.floor.total_cmp(&b.floor));
    let mut rest = stated.into_iter();
    let first = rest.next().and_then(|(at, it)| Some((at, it.bounded(input, goal, f64::INFINITY)?)));
    let enough = first.as_ref().map_or(to_beat, |(_, first)| to_beat.min(first.beaten_at()));
    let others = rest.collect::<Vec<_>>().into_par_iter();
    let others = others.map(|(at, it)| Some((at, it.bounded(input, goal, enough)?)));
    let others: Vec<Option<(usize, Open)>> = others.collect();
    first.into_iter().chain(others.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A choice that costs 2 and needs 8 bytes, and nothing bounds but that cost.
    fn solved() -> Solved {
        let choice = Choice {
            option: vec![0],
            cost: 2.0,
            memory: 8.0,
            lower_bound: 2.0,
            stop: Stop::Optimal,
            evaluations: 0,
        };
        Solved { mesh: Mesh::new(&[2]), choice, fits: true, free_bound: 2.0, is_free: true }
    }

    fn costing(cost: f64, memory: f64, fits: bool) -> Solved {
        Solved { choice: Choice { cost, memory, ..solved().choice }, fits, ..solved() }
    }

    #[test]
    fn what_fits_is_better_then_what_costs_less_or_where_nothing_fits_needs_less() {
        let is_better = |a: (f64, f64, bool), b: (f64, f64, bool)| {
            costing(a.0, a.1, a.2).is_better(&costing(b.0, b.1, b.2))
        };
        for (better, worse) in [
            ((2.0, 9.0, true), (3.0, 8.0, true)),
            ((3.0, 8.0, false), (2.0, 9.0, false)),
            ((3.0, 9.0, true), (2.0, 8.0, false)),
        ] {
            assert!(is_better(better, worse) && !is_better(worse, better), "{better:?} {worse:?}");
            assert!(!is_better(better, better), "{better:?}");
        }
    }

    #[test]
    fn a_choice_is_optimal_where_nothing_else_bounds_it() {
        assert_eq!((solved().stop(), solved().gap()), ("optimal", 0.0));
        let alike = Solved { free_bound: 1.5, ..solved() };
        assert_eq!((alike.stop(), alike.bound(), alike.gap()), ("layers-alike", 1.5, 0.25));
        assert_eq!(Solved { is_free: false, ..alike }.stop(), "memory-gap");
        let wide = Solved { choice: Choice { stop: Stop::Width, ..solved().choice }, ..solved() };
        assert_eq!(wide.stop(), "width");
    }

    #[test]
    fn of_two_bounds_each_figure_is_the_lesser() {
        let least = |secs, work_secs| Least { secs, work_secs };
        let found = least(3.0, [1.0, 2.0]).min(least(2.0, [1.5, 0.5]));
        assert_eq!((found.secs, found.work_secs), (2.0, [1.0, 0.5]));
    }
}
