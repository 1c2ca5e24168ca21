//! What precedes what: a transitively closed order of operators.

use phzc_ir::{Diagnostic, Result};

/// An order of operators by position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Graph {
    /// By operator: whether it precedes another.
    before: Vec<Vec<bool>>,
    /// Operators, each after those that precede it.
    sorted: Vec<usize>,
}

impl Graph {
    /// Of edges `(before, after)`.
    pub fn new(n_ops: usize, edges: &[(usize, usize)]) -> Result<Graph> {
        if edges.iter().any(|(from, to)| *from >= n_ops || *to >= n_ops) {
            return Err(Diagnostic::error("an edge of a schedule leads to no operator"));
        }
        let mut n_inputs = vec![0; n_ops];
        edges.iter().for_each(|(_, to)| n_inputs[*to] += 1);
        let mut sorted: Vec<usize> = (0..n_ops).filter(|at| n_inputs[*at] == 0).collect();
        let mut next = 0;
        while next < sorted.len() {
            let first = sorted[next];
            for (_, to) in edges.iter().filter(|edge| edge.0 == first) {
                n_inputs[*to] -= 1;
                if n_inputs[*to] == 0 {
                    sorted.push(*to);
                }
            }
            next += 1;
        }
        if sorted.len() < n_ops {
            return Err(Diagnostic::error("operators of a schedule precede each other in a cycle"));
        }
        let mut before = vec![vec![false; n_ops]; n_ops];
        for from in sorted.iter().rev() {
            for (_, to) in edges.iter().filter(|edge| edge.0 == *from) {
                let after = before[*to].clone();
                before[*from].iter_mut().zip(after).for_each(|(own, it)| *own |= it);
                before[*from][*to] = true;
            }
        }
        Ok(Graph { before, sorted })
    }

    /// The order among some of its operators, which follow each other by position.
    pub fn restricted(&self, kept: &[usize]) -> Graph {
        let before =
            kept.iter().map(|from| kept.iter().map(|to| self.before[*from][*to]).collect()).collect();
        let position = |at: &usize| kept.iter().position(|known| known == at);
        Graph { before, sorted: self.sorted.iter().filter_map(position).collect() }
    }

    /// The order the other way round.
    pub fn reversed(&self) -> Graph {
        let n = self.before.len();
        let before = (0..n).map(|from| (0..n).map(|to| self.before[to][from]).collect()).collect();
        Graph { before, sorted: self.sorted.iter().rev().copied().collect() }
    }

    /// Whether one operator precedes another.
    pub fn precedes(&self, first: usize, second: usize) -> bool {
        self.before[first][second]
    }

    /// Whether neither of two operators precedes the other.
    pub fn is_free(&self, a: usize, b: usize) -> bool {
        a != b && !self.before[a][b] && !self.before[b][a]
    }

    /// Operators, each after those that precede it.
    pub fn sorted(&self) -> &[usize] {
        &self.sorted
    }

    /// Lets one operator precede another, which does not precede it.
    pub fn add(&mut self, first: usize, second: usize) {
        let n = self.before.len();
        let is_after = |at: usize, of: usize, before: &[Vec<bool>]| at == of || before[of][at];
        let later: Vec<usize> = (0..n).filter(|at| is_after(*at, second, &self.before)).collect();
        let earlier: Vec<usize> = (0..n).filter(|at| is_after(first, *at, &self.before)).collect();
        for from in earlier {
            later.iter().for_each(|to| self.before[from][*to] = true);
        }
        let n_before: Vec<usize> =
            (0..n).map(|to| (0..n).filter(|from| self.before[*from][to]).count()).collect();
        self.sorted.sort_by_key(|at| n_before[*at]);
    }

    /// By operator: the longest path after it.
    pub fn longest_after(&self, cycles: &[f64]) -> Vec<f64> {
        let mut paths = vec![0.0; cycles.len()];
        for from in self.sorted.iter().rev() {
            let after =
                (0..cycles.len()).filter(|to| self.before[*from][*to]).map(|to| paths[to] + cycles[to]);
            paths[*from] = after.fold(0.0, f64::max);
        }
        paths
    }

    /// By operator: the longest path before it.
    pub fn longest(&self, cycles: &[f64]) -> Vec<f64> {
        let mut starts = vec![0.0; cycles.len()];
        for to in &self.sorted {
            let paths = (0..cycles.len())
                .filter(|from| self.before[*from][*to])
                .map(|from| starts[from] + cycles[from]);
            starts[*to] = paths.fold(0.0, f64::max);
        }
        starts
    }
}
