//! Layouts on the devices of one of several stages, and what comes of cutting the program in them.

use super::tried::{Bound, Draft, Tried};
use super::{Problem, text};
use crate::shard::model::{Goal, Input, Model};
use crate::shard::{Solved, meshes, solve_on, solve_over};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Mesh};

/// The search over one number of stages.
struct Stages<'p> {
    problem: &'p Problem<'p>,
    /// The devices of a stage.
    cluster: Cluster,
    n_stages: usize,
    weights: [f64; 3],
    /// Seconds of a step that a plan must beat.
    to_beat: f64,
}

impl Problem<'_> {
    /// The best placement on several stages, unless it provably takes `to_beat` or longer.
    ///
    /// A step takes `sum_i t_i / B + (B-1)/B max_j t_j + max_j u_j`, and a maximum is at least the mean:
    /// with weight `(S+B-1)/(B S)` on forward and backward and `1/S` on the update, and `B` as large as
    /// the batch allows, the least weighted sum over all layouts bounds every placement on `S` stages.
    ///
    /// Layouts are chosen for the whole batch first. If they split it so far that the number of microbatches that
    /// would be best cannot be split as well, they are chosen again for that number.
    pub fn staged(&self, n_stages: usize, to_beat: f64) -> Tried {
        let (fewest, most) = self.fewest_and_most();
        let stages = Stages::new(self, n_stages, to_beat);
        let Some(solved) = stages.solve(fewest) else {
            return if to_beat.is_finite() { Tried::Worse } else { Tried::Impossible(illegal()) };
        };
        let bound = Bound { lower_bound_secs: solved.bound(), stop: solved.stop().to_owned() };
        let tried = stages.cut(fewest, &solved, bound.clone());
        let wanted = match &tried {
            Tried::Placed(placement) => placement.wanted,
            Tried::TooLarge(_) => Some(most).filter(|&most| most > fewest),
            Tried::Worse | Tried::Impossible(_) => None,
        };
        match wanted.and_then(|count| Some((count, stages.solve(count)?))) {
            Some((count, solved)) => tried.or_faster(stages.cut(count, &solved, bound)),
            None => tried,
        }
    }
}

impl<'p> Stages<'p> {
    fn new(problem: &'p Problem, n_stages: usize, to_beat: f64) -> Stages<'p> {
        let cluster = problem.cluster.submesh(problem.cluster.n_devices() / n_stages);
        let (stages, most) = (n_stages as f64, problem.fewest_and_most().1 as f64);
        let weight = (stages + most - 1.0) / (most * stages);
        Stages { problem, cluster, n_stages, weights: [weight, weight, 1.0 / stages], to_beat }
    }

    /// What to choose layouts from, such that so many microbatches can be split as the batch is.
    fn input(&self, n_microbatches: usize) -> Input<'_> {
        let Problem { facts, graph, blocks, .. } = self.problem;
        Input { n_microbatches, ..facts.input(graph, blocks, &self.cluster) }
    }

    fn goal(&self, limit_bytes: f64) -> Goal {
        Goal { weights: self.weights, memory_bytes: Some(self.n_stages as f64 * limit_bytes) }
    }

    fn solve(&self, n_microbatches: usize) -> Option<Solved> {
        let (input, goal) = (self.input(n_microbatches), self.goal(self.cluster.accelerator.usable_bytes()));
        let all = meshes(self.cluster.n_devices() as i64).into_iter();
        let open: Vec<Mesh> =
            all.filter(|mesh| Model::new(input, mesh).floor(&goal) < self.to_beat).collect();
        solve_over(input, &open, &goal, self.to_beat)
    }

    fn cut(&self, n_microbatches: usize, solved: &Solved, bound: Bound) -> Tried {
        let input = self.input(n_microbatches);
        self.problem.within_memory(self.n_stages, self.draft(input, solved), bound, |limit, moves_again| {
            let input = Input { moves_again, ..input };
            let again = solve_on(input, &solved.mesh, &self.goal(limit));
            again.map(|again| self.draft(input, &again))
        })
    }

    fn draft(&self, input: Input, solved: &Solved) -> Draft {
        Draft {
            text: text::sharded(self.problem, input, solved),
            memory_bytes: Some(solved.choice.memory / self.n_stages as f64),
        }
    }
}

fn illegal() -> Diagnostic {
    Diagnostic::error("no layout of this program is legal on a stage's devices")
}
