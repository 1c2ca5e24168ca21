//! The memory limit: a price per byte is found at which the choice just fits, then choices on both sides of
//! it are mixed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bound_and_prune::SMALL;
use super::descend::Moves;
use super::dual::Dual;
use super::eliminate::{Found, QUICK, eliminate_all, minimise};
use super::ilp::choose_by_ilp;
use super::mix::mix;
use super::plan::Plan;
use super::reduce::{Reduced, reduce, together};
use super::{Choice, Infeasible, Limits, Problem, Stop, TOLERANCE, Table, relative_gap};

/// How many places for a cut `splice` tries.
const SPLICES: usize = 200;
/// A relative gap above which `move_one_by_one` is worth its searches.
const WIDE_GAP: f64 = 1e-4;
/// How far above and below the best price it goes, relative to it.
const SPREAD: f64 = 0.02;
/// Prices tried to raise the bound.
const MAX_PRICES: usize = 40;
/// Message passes at one price.
const PASSES: usize = 12;
/// Message passes at the last price.
const LAST_PASSES: usize = 60;
/// How often the options near the bound are halved until they can be eliminated.
const MAX_HALVINGS: i32 = 10;
/// The most columns, options and pairs of options, that are left to a solver.
const MAX_SOLVER_COLUMNS: usize = 12_000;
/// The most branch-and-bound nodes that it may solve.
const MAX_SOLVER_NODES: u64 = 400;

/// The cheapest choice that needs at most `limit` bytes.
pub(super) fn within(problem: &Problem, limit: f64, limits: &Limits) -> Result<Choice, Infeasible> {
    let free = minimise(&Problem { memory_limit: None, ..problem.clone() }, limits)?;
    let reduced = reduce(problem)?;
    let plan = Plan::new(&reduced, &Limits { max_evaluations: QUICK, ..limits.clone() });
    let mut search = Search::new(problem, &reduced, plan, limit);
    (search.bound, search.exact, search.evaluations) = (free.bound, free.exact, free.evaluations);
    search.run(free, limits)?;
    search.finish()
}

/// The choice of least memory among those of finite cost; its `bound` is in bytes.
pub(super) fn least_memory(problem: &Problem, limits: &Limits) -> Result<Found, Infeasible> {
    let mut made: BTreeMap<*const Table, Arc<Table>> = BTreeMap::new();
    let price = |cost: f64, bytes: f64| if cost < f64::INFINITY { bytes } else { f64::INFINITY };
    let mut sizes = problem.clone();
    sizes.memory_limit = None;
    for node in &mut sizes.nodes {
        let memory = together(&node.usages, node.cost.len());
        node.cost.iter_mut().zip(&memory).for_each(|(cost, &bytes)| *cost = price(*cost, bytes));
    }
    for edge in &mut sizes.edges {
        let table = edge.cost.clone();
        let make =
            || Arc::new(Table::from_fn(table.rows, table.cols, |row, col| price(table.at(row, col), 0.0)));
        edge.cost = made.entry(Arc::as_ptr(&table)).or_insert_with(make).clone();
    }
    for star in &mut sizes.stars {
        star.form = Arc::new(star.form.with(|cost| price(cost, 0.0)));
    }
    minimise(&sizes, limits)
}

#[cfg(feature = "ilp")]
pub(super) fn solver(max_nodes: u64) -> super::Highs {
    super::Highs { max_nodes: Some(max_nodes) }
}

#[cfg(not(feature = "ilp"))]
pub(super) fn solver(max_nodes: u64) -> super::MicroLp {
    super::MicroLp { max_nodes: Some(max_nodes) }
}

/// A choice among surviving options.
#[derive(Clone)]
struct Point {
    option: Vec<u32>,
    cost: f64,
    /// In bytes.
    memory: f64,
}

struct Search<'s> {
    problem: &'s Problem,
    reduced: &'s Reduced,
    /// The same, its node costs overwritten with each price.
    priced: Reduced,
    /// How to solve it at any price, if that is quick.
    plan: Option<Plan>,
    dual: Dual<'s>,
    moves: Moves<'s>,
    limit: f64,
    /// The cheapest choice seen that fits.
    best: Option<Point>,
    bound: f64,
    /// Whether every choice at a price was proved best.
    exact: bool,
    evaluations: u64,
}

impl<'s> Search<'s> {
    fn new(problem: &'s Problem, reduced: &'s Reduced, plan: Option<Plan>, limit: f64) -> Self {
        let moves = Moves::new(reduced);
        Search {
            problem,
            reduced,
            priced: reduced.clone(),
            plan,
            dual: Dual::new(reduced, moves.most()),
            moves,
            limit,
            best: None,
            bound: f64::NEG_INFINITY,
            exact: true,
            evaluations: 0,
        }
    }

    fn run(&mut self, free: Found, limits: &Limits) -> Result<(), Infeasible> {
        // Options that cost more and need less memory are no part of the free choice: it may be cheaper than
        // all others.
        let (cost, memory) = (self.problem.cost(&free.option), self.problem.memory(&free.option));
        if memory <= self.limit && cost < f64::INFINITY {
            let option = self.reduced.restrict(&free.option);
            self.best = option.map(|option| Point { option, cost, memory });
            if self.best.is_some() {
                return Ok(());
            }
        }
        let price = self.prices(limits)?;
        if self.gap() > WIDE_GAP {
            self.close(price, limits);
        }
        Ok(())
    }

    /// Finds the price at which the bound is highest, and choices near it that fit.
    fn prices(&mut self, limits: &Limits) -> Result<f64, Infeasible> {
        let smallest = self.smallest(limits)?;
        let over = self.at_price(|_| 0.0);
        let (price, over, under) = self.raise_price(over, smallest);
        let mixed = mix(self.reduced, &over.option, &under.option, self.limit);
        let mixed = self.point(mixed);
        self.record(&mixed);
        self.splice(&over, &under);
        self.splice(&under, &over);
        if self.gap() > WIDE_GAP {
            self.move_one_by_one(price * (1.0 - SPREAD), price * (1.0 + SPREAD));
        }
        Ok(price)
    }

    /// Few layers leave a gap at any price: drops what no choice better than the best takes, at the best
    /// price, and leaves the rest to an integer-programming solver, if it is small, or to a search among the
    /// options nearest to the bound.
    fn close(&mut self, price: f64, limits: &Limits) {
        let Some(kept) = self.near(price, 1.0) else { return };
        if self.n_columns(&kept) <= MAX_SOLVER_COLUMNS {
            return self.solve_rest(&kept);
        }
        if self.plan.is_some() {
            return;
        }
        for halvings in 0..MAX_HALVINGS {
            let Some(kept) = self.near(price, 0.5f64.powi(halvings)) else { return };
            if let Some(better) = self.among(&kept, limits) {
                self.near(better, 1.0);
                return;
            }
        }
    }

    /// The options by which the bound at a price grows by no more than a share of the gap, and one per node
    /// at least; `None` where the bound at that price proves the best choice. Raises the bound, if it can.
    fn near(&mut self, price: f64, share: f64) -> Option<Vec<Vec<u32>>> {
        let best = self.best.as_ref().map(|best| best.cost)?;
        self.dual.set_prices(self.reduced.priced(|_| price));
        let n_passes = if share < 1.0 { 1 } else { LAST_PASSES };
        let bound = (0..n_passes).fold(f64::NEG_INFINITY, |bound, _| self.dual.pass().max(bound));
        self.bound = self.bound.max(bound - price * self.limit);
        let room = best - TOLERANCE * best.abs() - (bound - price * self.limit);
        let excess = self.dual.excess();
        let is_proof = excess.iter().any(|excess| excess.iter().all(|&excess| excess >= room));
        if is_proof {
            self.bound = best;
            return None;
        }
        let stays = |(kept, excess): (&Vec<u32>, &Vec<f64>)| -> Vec<u32> {
            let least = excess.iter().copied().fold(f64::INFINITY, f64::min);
            let is_near = |excess: f64| excess < room * share || excess <= least;
            kept.iter()
                .zip(excess)
                .filter(|(_, excess)| is_near(**excess))
                .map(|(&option, _)| option)
                .collect()
        };
        Some(self.dual.kept.iter().zip(&excess).map(stays).collect())
    }

    /// Searches among some options, if they can be eliminated at every price; returns the best price there.
    fn among(&mut self, kept: &[Vec<u32>], limits: &Limits) -> Option<f64> {
        let rest = Problem { memory_limit: Some(self.limit), ..self.reduced.on(kept) };
        let reduced = reduce(&rest).ok()?;
        let plan = Plan::new(&reduced, &Limits { max_evaluations: SMALL, ..limits.clone() })?;
        let mut search = Search::new(&rest, &reduced, Some(plan), self.limit);
        let price = search.prices(limits).ok();
        self.evaluations += search.evaluations;
        if let Some(found) = search.best.take() {
            let point = self.point(reduced.expand(&found.option));
            self.record(&point);
        }
        price
    }

    /// Columns of the integer program of some options.
    fn n_columns(&self, kept: &[Vec<u32>]) -> usize {
        let size = |node: u32| kept[node as usize].len();
        let pairs =
            self.reduced.pairs.iter().map(|pair| size(pair.a) * size(pair.b)).filter(|&pairs| pairs > 1);
        kept.iter().map(Vec::len).filter(|&options| options > 1).sum::<usize>() + pairs.sum::<usize>()
    }

    fn solve_rest(&mut self, kept: &[Vec<u32>]) {
        let rest = Problem { memory_limit: Some(self.limit), ..self.reduced.on(kept) };
        let Ok(found) = choose_by_ilp(&rest, &solver(MAX_SOLVER_NODES)) else { return };
        self.evaluations += found.evaluations;
        let point = self.point(found.option);
        self.record(&point);
        // What was dropped is no better than the best choice before.
        let best = self.best.as_ref().map_or(f64::INFINITY, |best| best.cost);
        self.bound = self.bound.max(found.lower_bound.min(best));
    }

    /// The choice of least memory.
    fn smallest(&mut self, limits: &Limits) -> Result<Point, Infeasible> {
        let found = least_memory(&self.reduced.problem(), limits)?;
        self.evaluations += found.evaluations;
        let smallest = self.point(found.option);
        if smallest.memory > self.limit || smallest.cost == f64::INFINITY {
            return Err(Infeasible { least_memory: smallest.memory, proved: found.exact });
        }
        self.record(&smallest);
        Ok(smallest)
    }

    /// Finds the price at which the bound is highest: each round tries the price that makes a choice that is
    /// too large and one that fits cost the same, until no third choice is cheaper at that price.
    fn raise_price(&mut self, mut over: Point, mut under: Point) -> (f64, Point, Point) {
        let mut price = 0.0;
        for _ in 0..MAX_PRICES {
            if over.memory <= self.limit || self.gap() <= TOLERANCE {
                break;
            }
            price = ((under.cost - over.cost) / (over.memory - under.memory)).max(0.0);
            let between = self.at_price(|_| price);
            let line = over.cost + price * over.memory;
            if between.cost + price * between.memory >= line - 1e-9 * line.abs() {
                break;
            }
            let fits = between.memory <= self.limit;
            *(if fits { &mut under } else { &mut over }) = between;
        }
        (price, over, under)
    }

    /// Equal layers all flip at one price, where one choice is too large and the other small: takes the first
    /// nodes' options from one and the others' from the other, as many from the large one as fit, or a few
    /// less.
    fn splice(&mut self, first: &Point, rest: &Point) {
        let memory = |point: &Point, node: usize| self.reduced.memory[node][point.option[node] as usize];
        let mut total = rest.memory;
        let mut fitting = Vec::new();
        for node in 0..first.option.len() {
            total += memory(first, node) - memory(rest, node);
            if total <= self.limit {
                fitting.push(node + 1);
            }
        }
        let nearest = match first.memory > rest.memory {
            true => &fitting[fitting.len().saturating_sub(SPLICES)..],
            false => &fitting[..fitting.len().min(SPLICES)],
        };
        let spliced =
            nearest.iter().map(|&cut| self.point([&first.option[..cut], &rest.option[cut..]].concat()));
        if let Some(best) = spliced.min_by(|p, q| p.cost.total_cmp(&q.cost)) {
            self.record(&best);
        }
    }

    /// The same with prices. Giving the first nodes the lower price and the rest the higher one
    /// flips them in turn; bisection finds how many of the first fit.
    fn move_one_by_one(&mut self, lower: f64, higher: f64) {
        let (mut fits, mut too_many) = (0, self.problem.nodes.len());
        while too_many - fits > 1 && self.gap() > WIDE_GAP {
            let middle = (fits + too_many) / 2;
            let point = self.at_price(|node| if node < middle { lower } else { higher });
            *(if point.memory <= self.limit { &mut fits } else { &mut too_many }) = middle;
        }
    }

    /// A choice, the cheapest if it is proved, when each byte at a node has a price.
    fn at_price(&mut self, price: impl Fn(usize) -> f64) -> Point {
        for (index, costs) in self.priced.cost.iter_mut().enumerate() {
            let options = costs.iter_mut().zip(&self.reduced.cost[index]).zip(&self.reduced.memory[index]);
            options.for_each(|((priced, cost), bytes)| *priced = cost + price(index) * bytes);
        }
        let (option, bound) = match &self.plan {
            Some(plan) => match eliminate_all(&self.priced, plan) {
                Ok(found) => {
                    self.evaluations += found.evaluations;
                    (found.option, found.bound)
                }
                Err(_) => unreachable!("a choice of finite cost is known"),
            },
            None => self.by_messages(&price),
        };
        let last = self.reduced.cost.len().saturating_sub(1);
        if price(0) == price(last) {
            self.bound = self.bound.max(bound - price(0) * self.limit);
        }
        let point = self.point(option);
        self.record(&point);
        point
    }

    /// The same by passing messages, from where they were left at another price.
    fn by_messages(&mut self, price: &impl Fn(usize) -> f64) -> (Vec<u32>, f64) {
        self.dual.set_prices(self.reduced.priced(price));
        let bound = (0..PASSES).fold(f64::NEG_INFINITY, |bound, _| self.dual.pass().max(bound));
        let mut option = self.dual.decode();
        self.evaluations += Moves::new(&self.priced).descend_a_little(&mut option);
        self.exact &= relative_gap(self.priced.total(&option), bound) <= TOLERANCE;
        (option, bound)
    }

    fn point(&self, option: Vec<u32>) -> Point {
        let whole = self.reduced.expand(&option);
        Point { cost: self.problem.cost(&whole), memory: self.problem.memory(&whole), option }
    }

    /// Keeps a choice that fits and is cheaper than any before, after the moves that still lower its cost.
    fn record(&mut self, point: &Point) {
        let best = self.best.as_ref().map_or(f64::INFINITY, |best| best.cost);
        if point.memory > self.limit || point.cost >= best {
            return;
        }
        let mut option = point.option.clone();
        self.evaluations += self.moves.descend(self.limit, &mut option);
        let moved = self.point(option);
        let better = moved.memory <= self.limit && moved.cost < point.cost;
        self.best = Some(if better { moved } else { point.clone() });
    }

    /// Relative gap of the best choice; infinite while there is none.
    fn gap(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| relative_gap(best.cost, self.bound))
    }

    fn finish(self) -> Result<Choice, Infeasible> {
        let optimal = self.gap() <= TOLERANCE;
        let Some(best) = self.best else {
            return Err(Infeasible { least_memory: f64::INFINITY, proved: false });
        };
        let stop = match optimal {
            true => Stop::Optimal,
            false if self.exact => Stop::MemoryGap,
            false => Stop::Width,
        };
        Ok(Choice {
            option: self.reduced.expand(&best.option),
            cost: best.cost,
            memory: best.memory,
            lower_bound: if optimal { best.cost } else { self.bound },
            stop,
            evaluations: self.evaluations + self.dual.evaluations,
        })
    }
}
