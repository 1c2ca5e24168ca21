//! Local search: moves of one node or of two joined nodes that lower the cost, within a memory limit.

use super::reduce::Reduced;

/// Sweeps over all moves before a search gives up; it nearly always reaches its local minimum first.
const MAX_SWEEPS: usize = 50;

/// The moves of a problem.
pub(super) struct Moves<'r> {
    reduced: &'r Reduced,
    /// Per node, its tables.
    pairs_of: Vec<Vec<u32>>,
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
        Self { reduced, pairs_of, penalty: 1.0 + 2.0 * nodes.chain(pairs).sum::<f64>() }
    }

    /// Moves while that lowers the cost and keeps memory under `limit` bytes; returns the entries evaluated.
    pub(super) fn descend(&self, limit: f64, option: &mut [u32]) -> u64 {
        let used = self.reduced.memory.iter().zip(&*option).map(|(memory, &o)| memory[o as usize]).sum();
        let mut walk = Walk { moves: self, limit, used, option, evaluations: 0 };
        for _ in 0..MAX_SWEEPS {
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
        let costs = self.costs(node, None);
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
        let (costs_a, costs_b) = (self.costs(a, Some(index)), self.costs(b, Some(index)));
        let memory = [&self.moves.reduced.memory[a], &self.moves.reduced.memory[b]];
        let now = self.option[a] as usize * costs_b.len() + self.option[b] as usize;
        let memory_at = |at: usize| memory[0][at / costs_b.len()] + memory[1][at % costs_b.len()];
        let cost_at = |at: usize| {
            costs_a[at / costs_b.len()] + costs_b[at % costs_b.len()] + self.finite(pair.table.values[at])
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

    /// Cost of each option of a node as the others stand, one table left out.
    fn costs(&mut self, node: usize, without: Option<usize>) -> Vec<f64> {
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
