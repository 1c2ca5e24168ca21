//! The problem with its costs where they count: by how much each option and pair of options keeps a choice
//! away from the bound.

use std::sync::Arc;

use super::super::dual::Dual;
use super::super::reduce::Reduced;
use super::super::{Edge, Problem, Star, Table, Usage};

/// The same choices at the same costs as in `Reduced`.
pub(super) struct Base {
    costs: Vec<Vec<f64>>,
    /// Per node and option: no choice with it is closer to the bound.
    excess: Vec<Vec<f64>>,
    /// Per pair: its nodes, and per entry the same.
    pairs: Vec<([u32; 2], Table)>,
    usages: Vec<Vec<Usage>>,
    stars: Vec<Star>,
}

/// A part of the problem: per node, the options to choose from; pairs of them count that keep a choice no
/// further away from the bound than `room`.
pub(super) struct Part {
    pub kept: Vec<Vec<u32>>,
    pub room: f64,
}

impl Base {
    /// After a pass.
    pub fn new(reduced: &Reduced, dual: &mut Dual) -> Self {
        let pair = |(at, pair): (usize, &super::super::reduce::Pair)| ([pair.a, pair.b], dual.pair_costs(at));
        Self {
            pairs: reduced.pairs.iter().enumerate().map(pair).collect(),
            costs: dual.node_costs(),
            excess: dual.excess(),
            usages: reduced.usages.clone(),
            stars: reduced.stars.clone(),
        }
    }

    /// The nodes of each pair.
    pub fn pairs(&self) -> impl Iterator<Item = [u32; 2]> {
        self.pairs.iter().map(|(ends, _)| *ends)
    }

    /// The options of a node that keep a choice no further away than `room`, and the one that it has.
    pub fn near(&self, node: usize, has: u32, room: f64) -> Vec<u32> {
        let is_near = |&(option, excess): &(u32, &f64)| option == has || *excess <= room;
        (0..).zip(&self.excess[node]).filter(is_near).map(|(option, _)| option).collect()
    }

    /// Entries of a pair that count in a part.
    pub fn n_entries(&self, pair: usize, part: &Part) -> usize {
        let ([a, b], table) = &self.pairs[pair];
        let (rows, cols) = (&part.kept[*a as usize], &part.kept[*b as usize]);
        if rows.len() == 1 || cols.len() == 1 {
            return 0;
        }
        let near = |&row: &u32| {
            cols.iter().filter(|&&col| table.at(row as usize, col as usize) <= part.room).count()
        };
        rows.iter().map(near).sum()
    }

    /// A part as a problem of its own. What `option` takes stays possible, at `penalty` where it is
    /// forbidden.
    pub fn problem(&self, part: &Part, option: &[u32], penalty: f64) -> Problem {
        let mut problem = Problem { stars: self.stars.clone(), ..Problem::default() };
        for (node, usages) in self.usages.iter().enumerate() {
            let mut cost = vec![f64::INFINITY; self.costs[node].len()];
            part.kept[node].iter().for_each(|&at| cost[at as usize] = self.costs[node][at as usize]);
            problem.nodes.push(super::super::Node { cost, usages: usages.clone() });
        }
        for ([a, b], table) in &self.pairs {
            let has = [option[*a as usize] as usize, option[*b as usize] as usize];
            let (rows, cols) = (&part.kept[*a as usize], &part.kept[*b as usize]);
            let mut values = vec![f64::INFINITY; table.values.len()];
            for row in rows.iter().map(|&row| row as usize) {
                for col in cols.iter().map(|&col| col as usize) {
                    let cost = table.at(row, col);
                    let is_near = cost <= part.room || rows.len() == 1 || cols.len() == 1;
                    values[row * table.cols + col] = match is_near {
                        true => cost,
                        false if [row, col] == has => cost.min(penalty),
                        false => f64::INFINITY,
                    };
                }
            }
            let cost = Arc::new(Table { values, ..*table });
            problem.edges.push(Edge { a: *a, b: *b, cost });
        }
        problem
    }
}
