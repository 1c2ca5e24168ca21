//! Local search: moves of one node or of two joined nodes that lower the cost, within a memory limit.

use super::reduce::{Reduced, stars_of};
use super::star::Star;

/// Sweeps over all moves before a search gives up; it nearly always reaches its local minimum first.
const MAX_SWEEPS: usize = 50;
/// Sweeps where a search is one of many.
const FEW_SWEEPS: usize = 4;

/// The moves of a problem.
pub(super) struct Moves<'r> {
    reduced: &'r Reduced,
    /// Per node, its tables.
    pairs_of: Vec<Vec<u32>>,
    /// Per node, its stars, and which member of them it is.
    stars_of: Vec<Vec<(u32, usize)>>,
    /// Stands for infinity: outweighs any sum of finite costs, and still tells one violation from two.
    penalty: f64,
}

impl<'r> Moves<'r> {
    pub(super) fn new(reduced: &'r Reduced) -> Self {
        let mut pairs_of = vec![Vec::new(); reduced.kept.len()];
        for (index, pair) in (0..).zip(&reduced.pairs) {
            pairs_of[pair.a as usize].push(index);
            pairs_of[pair.b as usize].push(index);
        }
        let nodes = reduced.cost.iter().map(|cost| spread(cost));
        let pairs = reduced.pairs.iter().map(|pair| spread(&pair.table.values));
        let star = |star: &Star| {
            let form = &star.form;
            form.place.len() as f64 * (spread(&form.home) + spread(&form.each) + spread(&form.only))
        };
        let all = nodes.chain(pairs).chain(reduced.stars.iter().map(star));
        let mut stars_of = stars_of(&reduced.stars, reduced.kept.len());
        stars_of.iter_mut().for_each(|stars| stars.dedup_by_key(|(star, _)| *star));
        Self { reduced, pairs_of, stars_of, penalty: 1.0 + 2.0 * all.sum::<f64>() }
    }

    /// More than a choice worth having costs: what a first one does, several times, or any sum of finite
    /// costs.
    pub(super) fn most(&self) -> f64 {
        let cheapest = |cost: &Vec<f64>| {
            (0..cost.len()).min_by(|&p, &q| cost[p].total_cmp(&cost[q])).unwrap_or(0) as u32
        };
        let mut option: Vec<u32> = self.reduced.cost.iter().map(cheapest).collect();
        self.descend(f64::INFINITY, &mut option);
        let cost = self.reduced.total(&option);
        if cost.is_finite() { self.penalty.min(8.0 * cost.abs()) } else { self.penalty }
    }

    /// Moves while that lowers the cost and keeps memory under `limit` bytes; returns the entries evaluated.
    pub(super) fn descend(&self, limit: f64, option: &mut [u32]) -> u64 {
        self.sweep(MAX_SWEEPS, limit, option)
    }

    /// The same, with a few sweeps only: most of the gain.
    pub(super) fn descend_a_little(&self, option: &mut [u32]) -> u64 {
        self.sweep(FEW_SWEEPS, f64::INFINITY, option)
    }

    fn sweep(&self, n_sweeps: usize, limit: f64, option: &mut [u32]) -> u64 {
        let used = self.reduced.memory.iter().zip(&*option).map(|(memory, &o)| memory[o as usize]).sum();
        let mut walk = Walk { moves: self, limit, used, option, evaluations: 0 };
        for _ in 0..n_sweeps {
            let singles = (0..self.pairs_of.len()).fold(false, |moved, node| walk.move_one(node) | moved);
            if !singles
                && !(0..self.reduced.pairs.len()).fold(false, |moved, pair| walk.move_two(pair) | moved)
            {
                break;
            }
        }
        walk.evaluations
    }
}

/// Sum of the largest sizes that a finite cost of the table can have.
fn spread(costs: &[f64]) -> f64 {
    costs.iter().filter(|cost| cost.is_finite()).fold(0.0, |most, cost| most.max(cost.abs()))
}

struct Walk<'w> {
    moves: &'w Moves<'w>,
    limit: f64,
    /// Memory of the options taken, in bytes.
    used: f64,
    option: &'w mut [u32],
    evaluations: u64,
}

impl Walk<'_> {
    fn move_one(&mut self, node: usize) -> bool {
        let costs = self.costs(node, None, &[]);
        let now = self.option[node] as usize;
        let memory = &self.moves.reduced.memory[node];
        let room = self.limit - self.used + memory[now];
        let fits = |o: &usize| memory[*o] <= room || memory[*o] <= memory[now];
        let best =
            (0..costs.len()).filter(fits).min_by(|&p, &q| costs[p].total_cmp(&costs[q])).unwrap_or(now);
        let better = costs[best] < costs[now] - noise(costs[now]);
        if better {
            self.used += memory[best] - memory[now];
            self.option[node] = best as u32;
        }
        better
    }

    fn move_two(&mut self, index: usize) -> bool {
        let pair = &self.moves.reduced.pairs[index];
        let [a, b] = [pair.a as usize, pair.b as usize];
        let stars = self.stars_of_both(a, b);
        let (costs_a, costs_b) = (self.costs(a, Some(index), &stars), self.costs(b, Some(index), &stars));
        let memory = [&self.moves.reduced.memory[a], &self.moves.reduced.memory[b]];
        let now = self.option[a] as usize * costs_b.len() + self.option[b] as usize;
        let memory_at = |at: usize| memory[0][at / costs_b.len()] + memory[1][at % costs_b.len()];
        let cost_at = |at: usize| {
            let both = [(a, (at / costs_b.len()) as u32), (b, (at % costs_b.len()) as u32)];
            let shared: f64 = stars.iter().map(|&star| self.star(star, &both)).sum();
            costs_a[at / costs_b.len()]
                + costs_b[at % costs_b.len()]
                + self.finite(pair.table.values[at])
                + shared
        };
        let (held, start) = (memory_at(now), cost_at(now));
        let room = self.limit - self.used + held;
        let mut best = (start - noise(start), now);
        for at in 0..pair.table.values.len() {
            let cost = cost_at(at);
            if cost < best.0 && (memory_at(at) <= room || memory_at(at) <= held) {
                best = (cost, at);
            }
        }
        self.evaluations += pair.table.values.len() as u64;
        self.used += memory_at(best.1) - held;
        self.option[a] = (best.1 / costs_b.len()) as u32;
        self.option[b] = (best.1 % costs_b.len()) as u32;
        best.1 != now
    }

    /// The stars that two nodes are both members of.
    fn stars_of_both(&self, a: usize, b: usize) -> Vec<u32> {
        let of_b = &self.moves.stars_of[b];
        let mine = self.moves.stars_of[a].iter().map(|&(star, _)| star);
        mine.filter(|star| of_b.iter().any(|(other, _)| other == star)).collect()
    }

    /// Cost of a star as its members stand, some of them with other options.
    fn star(&self, star: u32, moved: &[(usize, u32)]) -> f64 {
        let Star { members, form } = &self.moves.reduced.stars[star as usize];
        self.finite(form.cost(|member| {
            let node = members[member] as usize;
            moved.iter().find(|(other, _)| *other == node).map_or(self.option[node], |&(_, option)| option)
        }))
    }

    /// Cost of each option of a node as the others stand, one table and some stars left out.
    fn costs(&mut self, node: usize, without: Option<usize>, without_stars: &[u32]) -> Vec<f64> {
        let mut costs: Vec<f64> =
            self.moves.reduced.cost[node].iter().map(|&cost| self.finite(cost)).collect();
        for &index in self.moves.pairs_of[node].iter().filter(|&&index| Some(index as usize) != without) {
            let pair = &self.moves.reduced.pairs[index as usize];
            let cols = self.moves.reduced.cost[pair.b as usize].len();
            for (o, cost) in costs.iter_mut().enumerate() {
                *cost += self.finite(match pair.a as usize == node {
                    true => pair.table.values[o * cols + self.option[pair.b as usize] as usize],
                    false => pair.table.values[self.option[pair.a as usize] as usize * cols + o],
                });
            }
            self.evaluations += costs.len() as u64;
        }
        for &(star, _) in &self.moves.stars_of[node] {
            if !without_stars.contains(&star) {
                (0..).zip(&mut costs).for_each(|(o, cost)| *cost += self.star(star, &[(node, o)]));
                self.evaluations += costs.len() as u64;
            }
        }
        costs
    }

    fn finite(&self, cost: f64) -> f64 {
        if cost == f64::INFINITY { self.moves.penalty } else { cost }
    }
}

/// A gain below this is rounding, and could be taken for ever.
fn noise(cost: f64) -> f64 {
    1e-12 * cost.abs()
}
