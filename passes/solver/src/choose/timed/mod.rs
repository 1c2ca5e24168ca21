//! Memory that is limited at every time: a price for a byte at each time gives the bound, and choices near
//! it are improved part by part (large neighborhood search, each part an integer program).

mod base;
mod neighborhood;
mod planes;
mod prices;

use super::bound_and_prune::minimise_from;
use super::contract::Contracted;
use super::descend::Moves;
use super::dual::Dual;
use super::eliminate::{Found, minimise};
use super::ilp::choose_from;
use super::lagrangian::solver;
use super::memory::Memory;
use super::reduce::{Reduced, reduce};
use super::{Choice, Infeasible, Limits, Node, Problem, Stop, TOLERANCE, Usage, allowed, relative_gap};
use base::{Base, Part};
use neighborhood::Neighborhoods;
use prices::Prices;

/// By how much prices are raised, one after the other, until a choice fits.
const RAISED: [f64; 8] = [1.0, 1.01, 1.03, 1.1, 1.2, 1.5, 2.0, 4.0];
/// By how much dearer than the prices a byte beyond the limit is at first.
const BEYOND: f64 = 2.0;
/// A first choice that is this near to the bound needs no further ones, relatively.
const SMALL_GAP: f64 = 0.02;
/// Message passes at each of them.
const FIRST_PASSES: usize = 8;
/// Message passes before options are excluded.
const LAST_PASSES: usize = 40;
/// Rounds of the search at each of them.
const FIRST_ROUNDS: usize = 4;
/// Entries of a part's tables, at first and at last.
const N_ENTRIES: [usize; 2] = [6_000, 48_000];
/// Parts of one size before a larger size is tried.
const N_PARTS: usize = 24;
/// Entries of all parts together.
const MAX_WORK: usize = 3_000_000;
/// Branch-and-bound nodes of a part.
const MAX_NODES: u64 = 200;
/// Entries of all that is left, which are few enough to choose from at once.
const MAX_LAST_ENTRIES: usize = 60_000;
/// Branch-and-bound nodes of all that is left.
const MAX_LAST_NODES: u64 = 20_000;
/// How near to the bound an option has to be, as a share of the gap, in turn.
const SHARES: [f64; 4] = [0.02, 0.1, 0.3, 1.0];
/// Shares of the memory that is missing, which a part may go on missing.
const MISSING: [f64; 8] = [0.0, 1.0, 0.85, 0.7, 0.5, 0.3, 0.15, 0.05];
/// The gap that is assumed while no choice fits.
const UNKNOWN_GAP: f64 = 0.02;

/// The cheapest choice that needs at most `limit` bytes at any time.
pub(super) fn within(problem: &Problem, limit: f64) -> Result<Choice, Infeasible> {
    let layers = layers(problem)?;
    let reduced = &layers.last().expect("a problem is reduced once at least").reduced;
    let memory = Memory::new(&reduced.usages, limit);
    let least_room = memory.room.iter().copied().fold(0.0, f64::min);
    if least_room < 0.0 {
        return Err(Infeasible { least_memory: limit - least_room, proved: true });
    }
    let mut search = Search::new(reduced, &memory, limit);
    search.run();
    let option = layers.iter().rev().fold(search.best.option, |option, layer| layer.expand(&option));
    let (cost, used) = (problem.cost(&option), problem.memory(&option));
    if used > limit || cost == f64::INFINITY {
        return Err(Infeasible { least_memory: used, proved: false });
    }
    let is_optimal = relative_gap(cost, search.bound) <= TOLERANCE;
    Ok(Choice {
        option,
        cost,
        memory: used,
        lower_bound: if is_optimal { cost } else { search.bound },
        stop: if is_optimal { Stop::Optimal } else { Stop::MemoryGap },
        evaluations: search.evaluations,
    })
}

/// The cheapest choice, however much memory it needs.
pub(super) fn unlimited(problem: &Problem, limits: &Limits) -> Result<Found, Infeasible> {
    let layers = layers(problem)?;
    let reduced = &layers.last().expect("a problem is reduced once at least").reduced;
    let found = minimise(&reduced.problem(), limits)?;
    let option = layers.iter().rev().fold(found.option, |option, layer| layer.expand(&option));
    Ok(Found { option, ..found })
}

/// A problem without followers, reduced.
struct Layer {
    contracted: Option<Contracted>,
    reduced: Reduced,
}

impl Layer {
    fn expand(&self, option: &[u32]) -> Vec<u32> {
        let option = self.reduced.expand(option);
        self.contracted.as_ref().map_or(option.clone(), |contracted| contracted.expand(&option))
    }
}

/// Contracts and reduces until there is nothing left to contract.
fn layers(problem: &Problem) -> Result<Vec<Layer>, Infeasible> {
    let (mut layers, mut problem) = (Vec::new(), problem.clone());
    loop {
        let contracted = Contracted::new(&problem);
        if contracted.is_none() && !layers.is_empty() {
            return Ok(layers);
        }
        let reduced = reduce(contracted.as_ref().map_or(&problem, |contracted| &contracted.problem))?;
        problem = Problem { memory_limit: problem.memory_limit, ..reduced.problem() };
        layers.push(Layer { contracted, reduced });
    }
}

/// A choice, and what is wrong with it.
#[derive(Clone, Debug)]
struct Point {
    option: Vec<u32>,
    /// Nodes and pairs that are forbidden.
    n_forbidden: usize,
    /// By how many bytes it exceeds the limit at most.
    over_bytes: f64,
    /// What is not forbidden costs this.
    cost: f64,
}

impl Point {
    fn fits(&self) -> bool {
        self.n_forbidden == 0 && self.over_bytes <= 0.0
    }

    /// Where a byte beyond the limit costs so much. What does not fit is never better than what does.
    fn is_better(&self, other: &Point, byte_cost: f64) -> bool {
        if self.fits() != other.fits() {
            return self.fits();
        }
        let key = |it: &Point| (it.n_forbidden, it.cost + byte_cost * it.over_bytes);
        key(self) < key(other)
    }
}

struct Search<'s> {
    reduced: &'s Reduced,
    memory: &'s Memory,
    limit: f64,
    best: Point,
    /// No choice costs less.
    bound: f64,
    /// The bound that options and pairs keep a choice away from, which may be lower.
    bound_of_excess: f64,
    /// What a byte beyond the limit costs.
    byte_cost: f64,
    /// Entries of the parts chosen from.
    work: usize,
    evaluations: u64,
}

impl<'s> Search<'s> {
    fn new(reduced: &'s Reduced, memory: &'s Memory, limit: f64) -> Self {
        let none = Point { option: Vec::new(), n_forbidden: 0, over_bytes: 0.0, cost: 0.0 };
        Search {
            reduced,
            memory,
            limit,
            best: none,
            bound: f64::NEG_INFINITY,
            bound_of_excess: f64::NEG_INFINITY,
            byte_cost: 0.0,
            work: 0,
            evaluations: 0,
        }
    }

    fn run(&mut self) {
        let most = Moves::new(self.reduced).most();
        let mut dual = Dual::new(self.reduced, most);
        let mut prices = Prices::new(self.reduced, self.memory);
        prices.raise(&mut dual);
        planes::polish(&mut prices, self.memory, &mut dual);
        (self.bound, self.bound_of_excess) = (prices.bound, prices.bound);
        self.byte_cost = BEYOND * prices.best.iter().sum::<f64>();
        if let Some((_, option)) = prices.fitting.take() {
            self.consider(option);
        }
        if self.best.option.is_empty() || self.gap() > SMALL_GAP * self.bound.abs() {
            self.first(&mut dual, &prices);
        }
        // The messages of the highest bound may be lost; those that are left exclude from their own bound on.
        self.bound_of_excess = prices.bound_at(&mut dual, &prices.best, LAST_PASSES);
        self.bound = self.bound.max(self.bound_of_excess);
        let base = Base::new(self.reduced, &mut dual);
        self.evaluations += dual.evaluations;
        self.improve(&base, &mut Neighborhoods::new(&base, self.memory, &prices.best, &dual.sizes()));
    }

    fn point(&self, option: Vec<u32>) -> Point {
        let used = self.memory.used(&option);
        let over = used.iter().zip(&self.memory.room).map(|(used, room)| used - room);
        let over_bytes = over.fold(0.0, f64::max);
        let nodes = self.reduced.cost.iter().zip(&option).map(|(cost, &o)| cost[o as usize]);
        let pairs =
            self.reduced.pairs.iter().map(|pair| {
                pair.table.at(option[pair.a as usize] as usize, option[pair.b as usize] as usize)
            });
        let stars = self
            .reduced
            .stars
            .iter()
            .map(|star| star.form.cost(|member| option[star.members[member] as usize]));
        let costs = nodes.chain(pairs).chain(stars).map(allowed);
        let (n_forbidden, cost) = costs.fold((0, 0.0), |(n, sum), cost| match cost == f64::INFINITY {
            true => (n + 1, sum),
            false => (n, sum + cost),
        });
        Point { option, n_forbidden, over_bytes, cost }
    }

    fn consider(&mut self, option: Vec<u32>) -> bool {
        let point = self.point(option);
        let is_better = self.best.option.is_empty() || point.is_better(&self.best, self.byte_cost);
        if is_better {
            self.best = point;
        }
        is_better
    }

    /// Choices at ever higher prices, until one fits.
    fn first(&mut self, dual: &mut Dual, prices: &Prices) {
        let state = dual.state();
        for raised in RAISED {
            let raised: Vec<f64> = prices.best.iter().map(|price| price * raised).collect();
            let fits = self.at_prices(dual, &raised).fits();
            dual.restore(&state);
            if fits {
                return;
            }
        }
    }

    /// The cheapest choice at some prices that is found.
    fn at_prices(&mut self, dual: &mut Dual, prices: &[f64]) -> Point {
        let added = self.memory.priced(prices, &dual.sizes());
        let mut priced = self.reduced.clone();
        for (costs, added) in priced.cost.iter_mut().zip(&added) {
            costs.iter_mut().zip(added).for_each(|(cost, added)| *cost += added);
        }
        dual.set_prices(added);
        for _ in 0..FIRST_PASSES {
            dual.pass();
        }
        let mut option = dual.decode();
        self.evaluations += Moves::new(&priced).descend_a_little(&mut option);
        let limits = Limits { max_rounds: FIRST_ROUNDS, ..Limits::default() };
        let found = minimise_from(&priced, dual.clone(), &limits);
        let option = found.map_or(option, |found| found.option);
        let point = self.point(option.clone());
        self.consider(option);
        point
    }

    /// How far an option or a pair may keep a choice away from the bound that is still better than the best.
    fn gap(&self) -> f64 {
        let known = self.best.cost - self.bound_of_excess;
        if self.best.fits() { known.max(0.0) } else { known.max(UNKNOWN_GAP * self.bound.abs()) }
    }

    fn is_proved(&self) -> bool {
        self.best.fits() && relative_gap(self.best.cost, self.bound) <= TOLERANCE
    }

    /// Chooses parts anew, larger ones where small ones do not help, until nothing is left to find.
    fn improve(&mut self, base: &Base, near: &mut Neighborhoods) {
        let mut n_entries = N_ENTRIES[0];
        while n_entries <= N_ENTRIES[1] && self.work < MAX_WORK && !self.is_proved() {
            let is_better = self.improve_by(base, near, n_entries);
            if self.is_all_of(base, near) {
                return;
            }
            self.byte_cost *= if self.best.fits() { 1.0 } else { BEYOND };
            n_entries *= if is_better { 1 } else { 2 };
        }
    }

    /// Chooses parts of one size anew; says whether that was better.
    fn improve_by(&mut self, base: &Base, near: &mut Neighborhoods, n_entries: usize) -> bool {
        let mut any = false;
        // Shares of which the whole problem was chosen from the best choice as it is.
        let mut done = 0.0;
        for share in SHARES.iter().cycle().take(N_PARTS).copied() {
            if self.is_proved() || self.work >= MAX_WORK {
                break;
            }
            if share <= done {
                continue;
            }
            let (part, n_used, is_whole) = near.part(base, &self.best.option, share * self.gap(), n_entries);
            self.work += n_used;
            let is_better = self.choose(base, &part, MAX_NODES).is_some_and(|(is_better, _)| is_better);
            done = if is_better { 0.0 } else { f64::max(done, if is_whole { share } else { 0.0 }) };
            any |= is_better;
        }
        any
    }

    /// Chooses all that is left anew, if that is little enough; says whether it is done then.
    fn is_all_of(&mut self, base: &Base, near: &mut Neighborhoods) -> bool {
        if !self.best.fits() || self.is_proved() {
            return false;
        }
        let (part, n_used, is_whole) = near.part(base, &self.best.option, self.gap(), MAX_LAST_ENTRIES);
        if !is_whole {
            return false;
        }
        self.work += n_used;
        let before = self.best.cost;
        let Some((_, bound)) = self.choose(base, &part, MAX_LAST_NODES) else { return false };
        // What was left out is no better than the best choice before.
        self.bound = self.bound.max(bound.map_or(self.best.cost, |bound| bound.min(before)));
        true
    }

    /// Chooses a part anew; whether that was better, and its bound where it is not proved best.
    fn choose(&mut self, base: &Base, part: &Part, max_nodes: u64) -> Option<(bool, Option<f64>)> {
        let penalty = 1.0 + 10.0 * self.best.cost.abs();
        let mut problem = base.problem(part, &self.best.option, penalty);
        let mut known = self.best.option.clone();
        if self.best.over_bytes > 0.0 {
            problem.nodes.push(self.more_memory());
            known.push(1);
        }
        problem.memory_limit = Some(self.limit);
        let mut found = choose_from(&problem, &solver(max_nodes), Some(&known)).ok()?;
        self.evaluations += found.evaluations;
        found.option.truncate(self.best.option.len());
        let bound = (found.stop != Stop::Optimal).then_some(found.lower_bound);
        Some((self.consider(found.option), bound))
    }

    /// A node that makes as much memory as is missing, or some of it, at a price.
    fn more_memory(&self) -> Node {
        let times = 0..self.reduced.usages.iter().flatten().map(|usage| usage.alive.end).max().unwrap_or(0);
        let bytes: Vec<f64> = MISSING.iter().map(|share| -share * self.best.over_bytes).collect();
        let cost = bytes.iter().map(|bytes| -bytes * self.byte_cost).collect();
        Node { cost, usages: vec![Usage { alive: times, bytes }] }
    }
}
