//! Picks one option per node so that the node costs plus the costs of edges between options are least, and
//! says how far from least.

mod bound_and_prune;
mod contract;
mod copies;
mod descend;
mod dual;
#[cfg(test)]
mod effort_tests;
mod eliminate;
mod ilp;
mod kernel;
mod lagrangian;
mod memory;
mod mix;
mod order;
mod plan;
mod random;
mod reduce;
mod solver;
#[cfg(feature = "ilp")]
mod solver_highs;
mod star;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tied;
mod timed;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use ilp::{IlpError, choose_by_ilp};
pub use solver::{Column, MicroLp, Program, Row, Solution, SolveError, Solver};
#[cfg(feature = "ilp")]
pub use solver_highs::Highs;
pub use star::{Form, MAX_READERS, Star};

/// A choice to make: every node takes one option. Costs share one unit, the caller's.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// The nodes; an edge names them by index.
    pub nodes: Vec<Node>,
    /// Costs between two nodes' options; several edges may join the same two nodes.
    pub edges: Vec<Edge>,
    /// Costs that more than two nodes share.
    pub stars: Vec<Star>,
    /// The most that the chosen options' memory may add up to at any time, in bytes.
    pub memory_limit: Option<f64>,
}

/// A node's options, by index.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Cost of each option; infinity or NaN forbids it.
    pub cost: Vec<f64>,
    /// Memory of the options, over time.
    pub usages: Vec<Usage>,
}

/// What a node's options hold on to for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The times at which they do, counted in the caller's steps.
    pub alive: Range<u32>,
    /// Memory of each option, in bytes.
    pub bytes: Vec<f64>,
}

impl Node {
    /// Options that hold on to their memory, in bytes, all the time.
    pub fn new(cost: Vec<f64>, bytes: Vec<f64>) -> Self {
        Self { cost, usages: vec![Usage { alive: 0..1, bytes }] }
    }

    /// Adds memory; what is held at the same times is one usage.
    fn hold(&mut self, more: Usage) {
        match self.usages.iter_mut().find(|usage| usage.alive == more.alive) {
            Some(usage) => usage.bytes.iter_mut().zip(&more.bytes).for_each(|(sum, bytes)| *sum += bytes),
            None => self.usages.push(more),
        }
    }
}

/// A cost that depends on the options of two nodes.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The node whose option is the table's row.
    pub a: u32,
    /// The node whose option is the table's column.
    pub b: u32,
    /// The costs; equal edges share one table.
    pub cost: Arc<Table>,
}

/// A dense matrix of costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Options of node `a`.
    pub rows: usize,
    /// Options of node `b`.
    pub cols: usize,
    /// `rows * cols` costs, row after row; infinity or NaN forbids a pair.
    pub values: Vec<f64>,
}

/// How much work a choice may take. Nothing here is a time: the same problem gives the same choice on every
/// machine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Entries of the largest table of an elimination.
    pub max_table: usize,
    /// Table entries that one elimination may evaluate, about 10^9 a second.
    pub max_evaluations: u64,
    /// Rounds of message passing where an elimination would be too large.
    pub max_rounds: usize,
    /// A lower bound of so much ends these, once there is a choice.
    pub enough: f64,
    /// So does a gap between the best choice seen and the lower bound, relative to that choice.
    pub gap: f64,
    /// And a bound that rises by less in a round, relatively.
    pub least_rise: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_table: 1 << 22,
            max_evaluations: 1 << 28,
            max_rounds: 60,
            enough: f64::INFINITY,
            gap: 0.0,
            least_rise: 1e-7,
        }
    }
}

/// The options taken, and what is known about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The option of each node.
    pub option: Vec<u32>,
    /// Cost of the options taken, summed in the order of nodes, then edges.
    pub cost: f64,
    /// Memory of the options taken, in bytes.
    pub memory: f64,
    /// No choice within the memory limit costs less.
    pub lower_bound: f64,
    /// Why the search ended.
    pub stop: Stop,
    /// Table entries evaluated (solver nodes for an integer program).
    pub evaluations: u64,
}

impl Choice {
    /// `(cost - lower_bound) / |cost|`: 0 when the choice is proved best.
    pub fn gap(&self) -> f64 {
        relative_gap(self.cost, self.lower_bound)
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is better.
    Optimal,
    /// The memory limit leaves a gap between the choice and the bound.
    MemoryGap,
    /// A table was larger than the limit, so the bound is not exact.
    Width,
    /// The integer-programming solver stopped at its own limit.
    SolverLimit,
}

impl Stop {
    /// The name that reports print.
    pub fn as_str(self) -> &'static str {
        match self {
            Stop::Optimal => "optimal",
            Stop::MemoryGap => "memory-gap",
            Stop::Width => "width",
            Stop::SolverLimit => "solver-limit",
        }
    }
}

/// There is no choice within the memory limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Infeasible {
    /// The least memory any choice needs, in bytes; infinity when no choice has a finite cost.
    pub least_memory: f64,
    /// False if a table limit kept the search from proving it; `least_memory` is then what the best choice
    /// found needs.
    pub proved: bool,
}

impl fmt::Display for Infeasible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.proved { "" } else { " found" };
        if self.least_memory == f64::INFINITY {
            return write!(f, "no choice{whole} has a finite cost");
        }
        write!(f, "every choice{whole} needs at least {} bytes", self.least_memory)
    }
}

impl std::error::Error for Infeasible {}

/// Finds the cheapest choice within the memory limit.
///
/// # Panics
/// If an edge names a missing node, or a table's or a node's sizes disagree.
pub fn choose(problem: &Problem, limits: &Limits) -> Result<Choice, Infeasible> {
    problem.check();
    match problem.memory_limit {
        None => unlimited(problem, limits),
        Some(limit) if problem.is_timed() => timed::within(problem, limit),
        Some(limit) => lagrangian::within(problem, limit, limits),
    }
}

fn unlimited(problem: &Problem, limits: &Limits) -> Result<Choice, Infeasible> {
    let found = match problem.is_timed() {
        true => timed::unlimited(problem, limits)?,
        false => eliminate::minimise(problem, limits)?,
    };
    let cost = problem.cost(&found.option);
    if cost == f64::INFINITY {
        return Err(Infeasible { least_memory: f64::INFINITY, proved: false });
    }
    let optimal = found.exact || relative_gap(cost, found.bound) <= TOLERANCE;
    Ok(Choice {
        memory: problem.memory(&found.option),
        option: found.option,
        cost,
        lower_bound: if optimal { cost } else { found.bound },
        stop: if optimal { Stop::Optimal } else { Stop::Width },
        evaluations: found.evaluations,
    })
}

/// Relative gap below which a choice counts as proved.
const TOLERANCE: f64 = 1e-9;

/// `(cost - bound) / |cost|`, 0 where the bound is above.
pub fn relative_gap(cost: f64, bound: f64) -> f64 {
    (cost - bound).max(0.0) / cost.abs().max(f64::MIN_POSITIVE)
}

impl Problem {
    /// Cost of a choice: infinite if it takes a forbidden option or pair.
    pub fn cost(&self, option: &[u32]) -> f64 {
        let nodes = self.nodes.iter().zip(option).map(|(node, &o)| node.cost[o as usize]);
        let edges = self
            .edges
            .iter()
            .map(|edge| edge.cost.at(option[edge.a as usize] as usize, option[edge.b as usize] as usize));
        let stars = self
            .stars
            .iter()
            .map(|star| allowed(star.form.cost(|member| option[star.members[member] as usize])));
        allowed(nodes.chain(edges).chain(stars).sum())
    }

    /// The problem with every reader of a star paying for itself.
    pub fn without_stars(mut self) -> Problem {
        for star in std::mem::take(&mut self.stars) {
            let form = &star.form;
            let home = &mut self.nodes[star.members[0] as usize].cost;
            home.iter_mut().zip(&form.place[0]).for_each(|(cost, &at)| *cost += form.home[usize::from(at)]);
            for (&reader, wanted) in star.members[1..].iter().zip(&form.place[1..]) {
                let each = |row: usize, col: usize| {
                    form.each[usize::from(form.place[0][row]) * form.n_wanted + usize::from(wanted[col])]
                };
                if reader == star.members[0] {
                    let own = self.nodes[reader as usize].cost.iter_mut().enumerate();
                    own.for_each(|(at, cost)| *cost += each(at, at));
                } else {
                    let cost = Arc::new(Table::from_fn(form.place[0].len(), wanted.len(), each));
                    self.edges.push(Edge { a: star.members[0], b: reader, cost });
                }
            }
        }
        self
    }

    /// The most memory that a choice needs at any time, in bytes.
    pub fn memory(&self, option: &[u32]) -> f64 {
        let mut steps: BTreeMap<u32, f64> = BTreeMap::new();
        for (node, &option) in self.nodes.iter().zip(option) {
            for usage in node.usages.iter().filter(|usage| usage.alive.start < usage.alive.end) {
                *steps.entry(usage.alive.start).or_default() += usage.bytes[option as usize];
                *steps.entry(usage.alive.end).or_default() -= usage.bytes[option as usize];
            }
        }
        let sums = steps.values().scan(0.0, |sum, step| {
            *sum += step;
            Some(*sum)
        });
        sums.fold(0.0, f64::max)
    }

    /// Whether memory is held at more than one time.
    fn is_timed(&self) -> bool {
        let mut usages = self.nodes.iter().flat_map(|node| &node.usages);
        usages.any(|usage| usage.alive != (0..1))
    }

    fn check(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let is_whole = |usage: &Usage| usage.bytes.len() == node.cost.len();
            assert!(node.usages.iter().all(is_whole), "node {index}: one memory per cost");
        }
        for (index, edge) in self.edges.iter().enumerate() {
            let sizes = [edge.a, edge.b].map(|node| self.nodes[node as usize].cost.len());
            let table = &edge.cost;
            assert_eq!([table.rows, table.cols], sizes, "edge {index}: one row and column per option");
            assert_eq!(table.values.len(), table.rows * table.cols, "edge {index}: one value per pair");
        }
        for (index, star) in self.stars.iter().enumerate() {
            let sizes = star.members.iter().map(|&node| self.nodes[node as usize].cost.len());
            assert!(sizes.eq(star.form.place.iter().map(Vec::len)), "star {index}: one place per option");
        }
    }
}

impl Table {
    /// The table whose entries are `cost(row, column)`.
    pub fn from_fn(rows: usize, cols: usize, mut cost: impl FnMut(usize, usize) -> f64) -> Self {
        let values = (0..rows * cols).map(|at| cost(at / cols, at % cols)).collect();
        Self { rows, cols, values }
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        allowed(self.values[row * self.cols + col])
    }
}

/// NaN forbids, as infinity does.
fn allowed(cost: f64) -> f64 {
    if cost.is_nan() { f64::INFINITY } else { cost }
}
