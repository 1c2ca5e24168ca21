//! Best first over numbers of stages: the cap under which none is possible rises until a plan is found that
//! nothing can beat.
//!
//! A node is one problem (a microbatch size, say) with a number of stages. Of each is known a cap below which
//! no plan exists, by the stages' bounds, and with it a bound on its cost. The least bound goes first. Once
//! its cap is known closely, a plan is made of ways that were found; from then on a node is closed by one
//! test whether it can be better at all. What remains open bounds the best plan from below.

use super::refine::{Part, bound, parts};
use super::{Side, Solver, Span, Stages};

/// How hard to look.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Nodes of which plans are made.
    pub max_plans: usize,
    /// Relative gap at which a plan is called best, before much work was done.
    pub tolerance: f64,
    /// Work ([`Stages::work`]) with which the gap grows by that of the beginning; a search without a plan
    /// ends after `GIVE_UP` times as much.
    pub patience: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { max_plans: usize::MAX, tolerance: TOLERANCE, patience: u64::MAX }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing that is left can be better.
    Done,
    /// As many plans were made as were allowed.
    Limit,
}

/// The best plan.
#[derive(Clone, Debug)]
pub struct Best {
    /// Milliseconds of a step; infinite where no plan was found.
    pub cost: f64,
    /// No plan takes fewer.
    pub bound: f64,
    /// Which problem it is a plan of; `None` if none beats the cost that was known before.
    pub problem: Option<usize>,
    /// Its stages in the chain's order.
    pub spans: Vec<Span>,
    /// Why the search ended.
    pub stop: Stop,
}

/// Two plans this close are equally good.
pub const TOLERANCE: f64 = 1e-4;
/// See [`Effort::patience`].
const GIVE_UP: u64 = 2;
/// Nodes of which plans with coarse cuts are made.
const MAX_COARSE: usize = 2;
/// Relative width to which a node's cap is narrowed.
const WIDTH: f64 = 4e-4;
/// The same of a node whose stages are solved.
const COARSE_WIDTH: f64 = 0.01;
/// First relative step of a cap that is raised, and by how much the next is longer.
const STEP: (f64, f64) = (0.02, 1.5);
/// Relative slack of the caps at which the least sum is looked for.
const SLACKS: [f64; 2] = [1.0, 1.002];
/// Bounds are sharpened by a least sum where caps up to this much higher matter.
const MAX_SHARPENED: f64 = 1.03;
/// Chains of up to so many units are searched through: every trade of the slowest stage against the sum.
const MAX_EXHAUSTED: usize = 64;
/// In chains of up to so many units they are sharpened whatever the caps.
const MAX_WIDE: usize = 500;
/// Parts of the caps of those.
const N_PARTS: usize = 4;
/// Every stage takes as many milliseconds.
const LEAST_CAP: f64 = 1e-9;
/// No stage takes as many milliseconds.
const MAX_CAP: f64 = 1e12;

struct Node {
    problem: usize,
    n_stages: usize,
    /// No plan has all its stages below this.
    low: f64,
    /// By their bounds some could.
    high: Option<f64>,
    step: f64,
    bound: f64,
    /// What is left of it once its caps are known, where stages are solved.
    parts: Option<Vec<Part>>,
}

/// The best of some problems; `known` is the cost of a plan that is there already.
///
/// Where there are coarse units, the best plan with cuts there only is found first: it closes most nodes.
pub fn search<S: Stages>(solvers: &[Solver<S>], known: Option<f64>, effort: Effort) -> Best {
    let cost = known.unwrap_or(f64::INFINITY);
    let mut best = Best { cost, bound: f64::INFINITY, problem: None, spans: Vec::new(), stop: Stop::Done };
    let coarse: Vec<Solver<S>> = solvers.iter().filter_map(Solver::coarse).collect();
    if coarse.len() == solvers.len() {
        let effort = Effort { max_plans: effort.max_plans.min(MAX_COARSE), ..effort };
        let first = searched(&coarse, best.clone(), effort, Goal::Plan);
        best = Best { bound: f64::INFINITY, stop: Stop::Done, ..first };
    }
    searched(solvers, best, effort, Goal::Proof)
}

/// What a search is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// A good plan.
    Plan,
    /// The best one, and a bound.
    Proof,
}

fn searched<S: Stages>(solvers: &[Solver<S>], best: Best, effort: Effort, goal: Goal) -> Best {
    let begun = work(solvers);
    let mut search = Search { solvers, open: nodes(solvers), best, n_plans: 0, effort, begun, goal };
    while let Some(at) = search.next() {
        if search.open[at].bound >= search.goal() {
            break;
        }
        let is_begun = goal == Goal::Plan && search.open[at].parts.is_some();
        if search.n_plans >= effort.max_plans && !is_begun || search.is_vain() {
            search.best.stop = Stop::Limit;
            break;
        }
        search.advance(at);
    }
    let open = search.open.iter().map(|node| node.bound).fold(search.best.bound, f64::min);
    Best { bound: open.min(search.best.cost), ..search.best }
}

fn work<S: Stages>(solvers: &[Solver<S>]) -> u64 {
    solvers.iter().map(|solver| solver.stages.work()).sum()
}

fn nodes<S: Stages>(solvers: &[Solver<S>]) -> Vec<Node> {
    let mut open = Vec::new();
    for (problem, solver) in solvers.iter().enumerate() {
        let stages = solver.stages;
        let low = (stages.busy_before(stages.n_units()) / stages.n_devices() as f64).max(LEAST_CAP);
        let most = stages.groups().iter().max().copied().unwrap_or(0);
        let largest = stages.max_stages().min(stages.n_devices()).min(stages.n_units());
        for n_stages in stages.min_stages().max(1)..=largest {
            if n_stages * most >= stages.n_devices() {
                let bound = solver.bound(n_stages, low);
                open.push(Node { problem, n_stages, low, high: None, step: STEP.0, bound, parts: None });
            }
        }
    }
    open
}

pub(super) struct Search<'a, 's, S> {
    pub(super) solvers: &'a [Solver<'s, S>],
    open: Vec<Node>,
    best: Best,
    n_plans: usize,
    effort: Effort,
    /// Work that was done before.
    begun: u64,
    goal: Goal,
}

impl<S: Stages> Search<'_, '_, S> {
    /// The open node with the least bound; until there is a plan, of those of which one will be made soon.
    /// Nodes of the problem that has the best plan with coarse cuts go before the others: one with cuts
    /// anywhere closes more of these at once.
    fn next(&self) -> Option<usize> {
        // A plan with coarse cuts that was begun is made first, stage by stage.
        let is_proof = self.goal == Goal::Proof;
        let is_begun = |node: &Node| !is_proof && node.parts.is_some() && node.bound < self.goal();
        let key = |at: usize| (!is_begun(&self.open[at]), self.is_later(&self.open[at]), self.open[at].bound);
        (0..self.open.len()).min_by(|&a, &b| {
            let (a, b) = (key(a), key(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        })
    }

    fn is_later(&self, node: &Node) -> bool {
        // With coarse cuts it takes little to know all bounds.
        let is_proof = self.goal == Goal::Proof;
        match self.best.problem.filter(|_| is_proof && self.n_plans == 0) {
            Some(problem) => problem != node.problem || node.bound >= self.goal(),
            None => is_proof && self.best.cost.is_infinite() && node.high.is_none(),
        }
    }

    /// A plan at this cost would be no better.
    pub(super) fn goal(&self) -> f64 {
        let done = (work(self.solvers) - self.begun) as f64 / self.effort.patience as f64;
        self.best.cost * (1.0 - (self.effort.tolerance * (1.0 + done)).min(1.0))
    }

    /// Whether so much was done without a plan that none is looked for any more.
    fn is_vain(&self) -> bool {
        let done = work(self.solvers) - self.begun;
        self.best.cost.is_infinite() && done / GIVE_UP > self.effort.patience
    }

    fn advance(&mut self, at: usize) {
        let goal = self.goal();
        let node = &mut self.open[at];
        let (problem, solver) = (node.problem, &self.solvers[node.problem]);
        match node.high {
            Some(high) if solver.stages.is_swept() && high - node.low <= COARSE_WIDTH * high => {
                let node = self.open.swap_remove(at);
                let left = self.solve(node);
                self.open.extend(left);
            }
            Some(high) if high - node.low <= WIDTH * high => {
                let node = self.open.swap_remove(at);
                self.plan(node);
            }
            Some(high) => {
                let middle = 0.5 * (node.low + high);
                self.test(problem, middle);
            }
            None if self.best.cost.is_finite() => {
                let cap = solver.cap_of(node.n_stages, goal);
                match node.low < cap {
                    true => self.test(problem, cap),
                    false => {
                        self.open.swap_remove(at);
                        self.close(goal);
                    }
                }
            }
            None if node.low >= MAX_CAP => {
                self.open.swap_remove(at);
            }
            None => {
                let cap = node.low * (1.0 + node.step);
                node.step *= STEP.1;
                self.test(problem, cap);
            }
        }
    }

    /// Narrows the caps of a problem's nodes by one that is between those of some.
    fn test(&mut self, problem: usize, cap: f64) {
        let (solver, goal) = (&self.solvers[problem], self.goal());
        let is_between =
            |node: &Node| node.parts.is_none() && node.low < cap && node.high.is_none_or(|high| cap < high);
        let is_wanted = |node: &&mut Node| node.problem == problem && node.bound < goal && is_between(node);
        let mut wanted: Vec<&mut Node> = self.open.iter_mut().filter(is_wanted).collect();
        let numbers = wanted.iter().map(|node| node.n_stages);
        let (Some(least), Some(most)) = (numbers.clone().min(), numbers.max()) else { return };
        let feasible = solver.feasible(least..=most, cap, Side::Lower);
        for node in &mut wanted {
            match feasible.contains(&node.n_stages) {
                true => node.high = Some(cap),
                false => node.low = cap,
            }
            node.bound = solver.bound(node.n_stages, node.low);
        }
    }

    pub(super) fn close(&mut self, bound: f64) {
        self.best.bound = self.best.bound.min(bound);
    }

    /// Makes a plan of a node, and closes it.
    fn plan(&mut self, node: Node) {
        self.n_plans += 1;
        if let Some((cost, spans)) = self.found(&node) {
            self.keep(node.problem, cost, spans);
        }
        if self.goal == Goal::Plan {
            return;
        }
        let is_small = self.solvers[node.problem].stages.n_units() <= MAX_EXHAUSTED;
        let bound = if is_small { self.exhausted(&node) } else { self.sharpened(&node) };
        self.close(bound);
    }

    /// One step on the way to a swept node's best plan; whether there is something left of it.
    fn solve(&mut self, mut node: Node) -> Option<Node> {
        let (solver, goal) = (&self.solvers[node.problem], self.goal());
        let caps = [node.low, node.high.unwrap_or(node.low)];
        let mut parts = node.parts.take().unwrap_or_else(|| {
            self.n_plans += 1;
            parts(solver, node.n_stages, caps, goal)
        });
        self.refine(node.problem, node.n_stages, &mut parts);
        node.bound = bound(&parts);
        node.parts = Some(parts);
        node.bound.is_finite().then_some(node)
    }

    pub(super) fn keep(&mut self, problem: usize, cost: f64, spans: Vec<Span>) {
        if cost < self.best.cost {
            self.best = Best { cost, spans, problem: Some(problem), ..self.best };
        }
    }

    /// All plans of a node that could be the best: the least sum under a cap, then under that plan's slowest
    /// stage, and so on.
    fn exhausted(&mut self, node: &Node) -> f64 {
        let solver = &self.solvers[node.problem];
        let mut cap = match self.best.cost.is_finite() {
            true => solver.cap_of(node.n_stages, self.best.cost),
            false => MAX_CAP,
        };
        let reach = solver.front_reach(node.n_stages, cap);
        while let Some((sum_ms, spans)) = solver.least_sum(node.n_stages, cap, Side::Upper, &reach) {
            let longest_ms = spans.iter().map(|&span| solver.ms(span, Side::Upper)).fold(0.0, f64::max);
            let cost = solver.cost(&spans, Side::Upper);
            self.keep(node.problem, cost, spans);
            cap = longest_ms * (1.0 - 1e-12);
            if node.low * solver.stages.rounds() + sum_ms >= self.best.cost {
                break;
            }
        }
        self.sharpened(node)
    }

    fn found(&self, node: &Node) -> Option<(f64, Vec<Span>)> {
        let solver = &self.solvers[node.problem];
        let cap = self.upper_cap(node)?;
        let reach = solver.front_reach(node.n_stages, cap * SLACKS[1]);
        let plans = SLACKS
            .iter()
            .filter_map(|slack| solver.least_sum(node.n_stages, cap * slack, Side::Upper, &reach));
        let costs = plans.map(|(_, spans)| (solver.cost(&spans, Side::Upper), spans));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The least cap at which a plan can be made of ways that were found, if it can beat the best.
    fn upper_cap(&self, node: &Node) -> Option<f64> {
        let solver = &self.solvers[node.problem];
        let is_feasible = |cap: f64| solver.is_feasible(node.n_stages, cap, Side::Upper);
        if self.best.cost.is_finite() && !is_feasible(solver.cap_of(node.n_stages, self.best.cost)) {
            return None;
        }
        let (mut low, mut high, mut step) = (node.low, node.high?, WIDTH);
        while !is_feasible(high) {
            (low, high, step) = (high, high * (1.0 + step), step * 2.0);
            if high > MAX_CAP {
                return None;
            }
        }
        while high - low > 0.5 * WIDTH.max(self.effort.tolerance) * high {
            let middle = 0.5 * (low + high);
            match is_feasible(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }

    /// A node's bound: with a slowest stage of at least `low`, the sum is at least the least one of any plan
    /// that could be the best. What caps could be is divided into parts: in each the slowest stage is at
    /// least its lower end, and all are below its upper one.
    fn sharpened(&self, node: &Node) -> f64 {
        let (solver, goal) = (&self.solvers[node.problem], self.goal());
        let rounds = solver.stages.rounds();
        let cap = solver.cap_of(node.n_stages, goal).min(goal / (rounds + 1.0));
        let is_wide = solver.stages.n_units() > MAX_WIDE && cap > MAX_SHARPENED * node.low;
        if !goal.is_finite() || node.bound >= goal || cap <= node.low || is_wide {
            return node.bound;
        }
        let n_parts = if solver.stages.n_units() > MAX_WIDE { 1 } else { N_PARTS };
        let end = |part: usize| node.low + (cap - node.low) * part as f64 / n_parts as f64;
        let reach = solver.front_reach(node.n_stages, cap);
        let of_part = |part: usize| {
            let least = solver.least_sum(node.n_stages, end(part + 1), Side::Lower, &reach);
            end(part) * rounds + least.map_or(f64::INFINITY, |found| found.0)
        };
        let least = (0..n_parts).map(of_part).fold(goal, f64::min);
        node.bound.max(least)
    }
}
