//! Nodes joined to very many others: options that cannot be in a best choice are dropped before tables that hold them are made.
//!
//! Without hubs a model is a chain. Every hub multiplies the chain's tables by its options. So each hub in turn is kept,
//! the others relaxed (every neighbour picks the option of theirs that suits it), and the chain solved for all of the
//! kept hub's options at once: that bounds each of them, and those beyond a choice in hand go.

use super::eliminate::{Found, least_per_option, minimise_at_once};
use super::plan::Plan;
use super::reduce::{Reduced, reduce};
use super::{Infeasible, Limits, Problem, TOLERANCE};

/// Bounds tighten as options go; more rounds than this rarely drop any.
const MAX_ROUNDS: usize = 6;
/// How many times smaller the hubs' own eliminations must be than the whole one to be worth their while.
const WORTH: u64 = 4;

/// A problem whose hubs have fewer options, and a choice in hand.
pub(super) struct Narrow {
    problem: Problem,
    /// The cheapest choice seen and its cost.
    best: Option<(f64, Vec<u32>)>,
    bound: f64,
    evaluations: u64,
}

/// Drops hub options; `None` if there is no hub or the plan is small enough as it is.
pub(super) fn narrow(reduced: &Reduced, plan: &Plan, limits: &Limits) -> Option<Narrow> {
    let hubs = hubs(reduced, limits.hub_neighbours);
    if hubs.is_empty() {
        return None;
    }
    let mut narrow =
        Narrow { problem: reduced.problem(), best: None, bound: f64::NEG_INFINITY, evaluations: 0 };
    let mut whole = (plan.evaluations, plan.exact);
    for _ in 0..MAX_ROUNDS {
        let views: Option<Vec<View>> =
            hubs.iter().map(|&hub| View::new(&narrow.problem, &hubs, hub, limits)).collect();
        let Some(views) = views else { break };
        let cost: u64 = views.iter().map(|view| view.plan.evaluations).sum();
        let worth = !whole.1 || cost.saturating_mul(WORTH) <= whole.0;
        if !worth || cost.saturating_mul(WORTH) > limits.max_evaluations {
            break;
        }
        if !narrow.round(&views, &hubs, limits) {
            break;
        }
        let Ok(rest) = reduce(&narrow.problem, None) else { break };
        let plan = Plan::new(&rest, limits, None);
        whole = (plan.evaluations, plan.exact);
    }
    (narrow.evaluations > 0).then_some(narrow)
}

fn hubs(reduced: &Reduced, neighbours: usize) -> Vec<u32> {
    let mut count = vec![0; reduced.cost.len()];
    for pair in &reduced.pairs {
        count[pair.a as usize] += 1;
        count[pair.b as usize] += 1;
    }
    (0..).zip(count).filter(|&(_, count)| count > neighbours).map(|(node, _)| node).collect()
}

/// The problem with all hubs but one relaxed.
struct View {
    hub: usize,
    reduced: Reduced,
    plan: Plan,
}

impl View {
    /// `None` if even this is too large to be exact, or infeasible.
    fn new(problem: &Problem, hubs: &[u32], hub: u32, limits: &Limits) -> Option<Self> {
        let mut relaxed = problem.clone();
        hubs.iter().filter(|&&other| other != hub).for_each(|&other| relax(&mut relaxed, other));
        let reduced = reduce(&relaxed, Some(hub)).ok()?;
        let plan = Plan::new(&reduced, limits, Some(hub));
        plan.exact.then_some(Self { hub: hub as usize, reduced, plan })
    }

    /// A lower bound for each option of the hub; infinite for one dropped before.
    fn bounds(&self, options: usize) -> Vec<f64> {
        let mut bounds = vec![f64::INFINITY; options];
        let least = least_per_option(&self.reduced, &self.plan);
        self.reduced.kept[self.hub]
            .iter()
            .zip(least)
            .for_each(|(&option, least)| bounds[option as usize] = least);
        bounds
    }
}

/// Lets every neighbour of a node choose the node's option for itself.
fn relax(problem: &mut Problem, node: u32) {
    let own = problem.nodes[node as usize].cost.clone();
    let edges = std::mem::take(&mut problem.edges);
    let (mine, others) = edges.into_iter().partition(|edge| edge.a == node || edge.b == node);
    problem.edges = others;
    for edge in mine {
        let (is_a, table) = (edge.a == node, &edge.cost);
        let at =
            |mine: usize, theirs: usize| if is_a { table.at(mine, theirs) } else { table.at(theirs, mine) };
        let allowed = || (0..own.len()).filter(|&mine| own[mine] < f64::INFINITY);
        let other = &mut problem.nodes[if is_a { edge.b } else { edge.a } as usize].cost;
        for (theirs, cost) in other.iter_mut().enumerate() {
            *cost += allowed().map(|mine| at(mine, theirs)).fold(f64::INFINITY, f64::min);
        }
    }
}

impl Narrow {
    /// Bounds every hub's options and drops what is beyond the choice in hand; says whether any went.
    fn round(&mut self, views: &[View], hubs: &[u32], limits: &Limits) -> bool {
        let options = |view: &View| self.problem.nodes[view.hub].cost.len();
        let bounds: Vec<Vec<f64>> = views.iter().map(|view| view.bounds(options(view))).collect();
        self.evaluations += views.iter().map(|view| view.plan.evaluations).sum::<u64>();
        for bounds in &bounds {
            self.bound = self.bound.max(bounds.iter().copied().fold(f64::INFINITY, f64::min));
        }
        self.try_hubs(hubs, &bounds.iter().map(|bounds| first_least(bounds)).collect::<Vec<_>>(), limits);
        let Some((best, _)) = &self.best else { return false };
        let beyond = best + 0.1 * TOLERANCE * best.abs();
        let mut dropped = false;
        for (view, bounds) in views.iter().zip(&bounds) {
            let costs = &mut self.problem.nodes[view.hub].cost;
            for (cost, _) in costs.iter_mut().zip(bounds).filter(|(_, bound)| **bound > beyond) {
                dropped |= *cost < f64::INFINITY;
                *cost = f64::INFINITY;
            }
        }
        dropped
    }

    /// Solves the rest with the hubs' options fixed, and keeps the choice if it is the cheapest.
    fn try_hubs(&mut self, hubs: &[u32], options: &[usize], limits: &Limits) {
        let mut fixed = self.problem.clone();
        for (&hub, &option) in hubs.iter().zip(options) {
            let costs = fixed.nodes[hub as usize].cost.iter_mut().enumerate();
            costs.filter(|(index, _)| *index != option).for_each(|(_, cost)| *cost = f64::INFINITY);
        }
        let Ok(found) = minimise_at_once(&fixed, limits) else { return };
        self.evaluations += found.evaluations;
        self.keep(found.option);
    }

    fn keep(&mut self, option: Vec<u32>) {
        let cost = self.problem.cost(&option);
        if self.best.as_ref().is_none_or(|(best, _)| cost < *best) {
            self.best = Some((cost, option));
        }
    }

    /// Minimises over the options left.
    pub(super) fn minimise(mut self, limits: &Limits) -> Result<Found, Infeasible> {
        let found = minimise_at_once(&self.problem, limits)?;
        self.keep(found.option);
        let (cost, option) = self.best.unwrap_or((f64::INFINITY, Vec::new()));
        let bound = if found.exact { found.bound } else { found.bound.max(self.bound) };
        let evaluations = found.evaluations + self.evaluations;
        Ok(Found { option, bound: bound.min(cost), exact: found.exact, evaluations })
    }
}

fn first_least(bounds: &[f64]) -> usize {
    (0..bounds.len()).min_by(|&p, &q| bounds[p].total_cmp(&bounds[q])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{brute_force, small_problem};
    use super::super::{Stop, choose};
    use super::*;

    #[test]
    fn dropping_hub_options_keeps_the_optimum() {
        let mut optimal = [0, 0];
        for seed in 0..500 {
            let problem = small_problem(seed);
            let (best, _) = brute_force(&problem);
            for (count, hub_neighbours) in optimal.iter_mut().zip([2, usize::MAX]) {
                let limits = Limits { max_table: 8, hub_neighbours, ..Limits::default() };
                let Ok(choice) = choose(&problem, &limits) else { continue };
                assert!(choice.lower_bound <= best + 1e-9 && best <= choice.cost + 1e-9, "seed {seed}");
                *count += usize::from(choice.stop == Stop::Optimal);
            }
        }
        assert!(optimal[0] > optimal[1], "{optimal:?} proved best with and without");
    }
}
