//! Branch and bound over schedules.
//!
//! A node decides for some operators whether they run on all cores, and adds orders of pairs. Each operator
//! has a window between the longest path before it and the longest one after it below the incumbent's
//! makespan; what windows exclude is decided without branching. A node whose earliest schedule breaks no
//! rule is a schedule; otherwise the broken rule is branched on: an operator of a path that is too long on
//! one core, or the orders of two operators that cannot run at once.

use super::bound::work_cycles;
use super::graph::Graph;
use super::{Instance, Op, Schedule, TOLERANCE, list};

/// What is decided.
#[derive(Clone)]
struct Node {
    graph: Graph,
    on_all: Vec<Option<bool>>,
}

/// A decision.
#[derive(Clone, Copy)]
enum Step {
    /// An operator runs on all cores, or on one.
    Cores(usize, bool),
    /// One operator ends before another starts.
    Order(usize, usize),
}

/// A schedule at least as short as `incumbent`, and its bound; past `max_nodes` nodes the bound is that of
/// the nodes that are left.
pub(super) fn improve(instance: &Instance, incumbent: Schedule, max_nodes: u32) -> Schedule {
    let mut best = incumbent;
    let root = Node { graph: instance.graph.clone(), on_all: instance.ops.iter().map(|_| None).collect() };
    let mut open = vec![(best.bound_cycles, root)];
    let mut n_nodes = 0;
    while let Some((bound, mut node)) = open.pop() {
        if n_nodes == max_nodes {
            let left = open.iter().map(|it| it.0).fold(bound, f64::min);
            best.bound_cycles = best.bound_cycles.max(instance.rounded(left.min(best.cycles)));
            return best;
        }
        n_nodes += 1;
        let Some((bound, windows)) = node.tighten(instance, limit(instance, &best)) else { continue };
        let schedule = node.earliest(instance, best.bound_cycles);
        let is_long = schedule.cycles >= limit(instance, &best);
        let steps = match is_long {
            true => node.shorten(instance, &schedule, limit(instance, &best)),
            false => node.separate(instance, &windows, &schedule),
        };
        open.extend(steps.iter().rev().map(|step| (bound, node.with(*step))));
        if !is_long && steps.is_empty() {
            // Open operators may do better on all cores: the node goes on below the new limit.
            best = schedule;
            open.push((bound, node));
        }
    }
    best.bound_cycles = best.bound_cycles.max(instance.rounded(limit(instance, &best)));
    best
}

/// Schedules that take as much are not wanted: those within the tolerance, or no whole cycle shorter.
fn limit(instance: &Instance, best: &Schedule) -> f64 {
    let shorter = if instance.is_whole() { best.cycles - 0.999 } else { best.cycles };
    shorter.min(best.cycles * (1.0 - TOLERANCE))
}

impl Node {
    fn with(&self, step: Step) -> Node {
        let mut node = self.clone();
        // The pairs that are branched on are free, and the operators open.
        node.decide(step).unwrap_or_default();
        node
    }

    /// Takes a decision; `None` where an earlier one is against it.
    fn decide(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Cores(at, on_all) if self.on_all[at].is_none_or(|known| known == on_all) => {
                self.on_all[at] = Some(on_all);
            }
            Step::Order(first, second) if !self.graph.precedes(second, first) => {
                self.graph.add(first, second)
            }
            _ => return None,
        }
        Some(())
    }

    /// Cycles of each operator as decided, or at least.
    fn least_cycles(&self, instance: &Instance) -> Vec<f64> {
        let of = |(on_all, op): (&Option<bool>, &Op)| on_all.map_or(op.least_cycles(), |it| op.cycles(it));
        self.on_all.iter().zip(&instance.ops).map(of).collect()
    }

    /// Decides what windows leave one choice for; `None` where they leave none, or else the bound and the
    /// windows.
    fn tighten(&mut self, instance: &Instance, limit: f64) -> Option<(f64, Windows)> {
        loop {
            let cycles = self.least_cycles(instance);
            let windows = Windows {
                before: self.graph.longest(&cycles),
                after: self.graph.longest_after(&cycles),
                cycles,
            };
            let work = work_cycles(instance, &windows.before, &windows.after, |at| self.on_all[at]);
            let bound = (0..windows.cycles.len()).map(|at| windows.path(at)).fold(work, f64::max);
            let steps = if bound < limit { self.forced(instance, &windows, limit)? } else { return None };
            if steps.is_empty() {
                return Some((bound, windows));
            }
            for step in steps {
                self.decide(step)?;
            }
        }
    }

    /// The decisions that windows leave no choice for; `None` where there is a pair that has no order.
    fn forced(&self, instance: &Instance, windows: &Windows, limit: f64) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        for (at, op) in instance.ops.iter().enumerate().filter(|(at, _)| self.on_all[*at].is_none()) {
            let others = windows.before[at] + windows.after[at];
            let fits = [false, true].map(|on_all| others + op.cycles(on_all) < limit);
            let is_slower = op.all_cores_cycles >= op.one_core_cycles;
            match fits {
                [false, true] if !is_slower => steps.push(Step::Cores(at, true)),
                [_, false] => steps.push(Step::Cores(at, false)),
                _ if is_slower => steps.push(Step::Cores(at, false)),
                _ => {}
            }
        }
        for (a, b) in self.free_pairs() {
            let [first, second] = [windows.in_order(a, b) < limit, windows.in_order(b, a) < limit];
            match (self.excludes(instance, a, b), first, second) {
                (true, false, false) => return None,
                (true, true, false) => steps.push(Step::Order(a, b)),
                (true, false, true) => steps.push(Step::Order(b, a)),
                (false, false, false) => {
                    let open = [a, b].into_iter().filter(|at| self.on_all[*at].is_none());
                    steps.extend(open.map(|at| Step::Cores(at, false)));
                }
                _ => {}
            }
        }
        Some(steps)
    }

    fn free_pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let n = self.on_all.len();
        (0..n).flat_map(move |a| (0..a).map(move |b| (a, b))).filter(|(a, b)| self.graph.is_free(*a, *b))
    }

    /// Whether two operators cannot run at once.
    fn excludes(&self, instance: &Instance, a: usize, b: usize) -> bool {
        let (one, other) = (instance.ops[a].needs(), instance.ops[b].needs());
        let cores = [instance.n_tensor, instance.n_vector];
        let is_short = (0..2).any(|kind| one[kind] + other[kind] > cores[kind]);
        is_short || self.on_all[a] == Some(true) || self.on_all[b] == Some(true)
    }

    /// Every operator at its earliest; those that are not decided run on one core.
    fn earliest(&self, instance: &Instance, bound_cycles: f64) -> Schedule {
        let on_all_cores: Vec<bool> = self.on_all.iter().map(|on_all| *on_all == Some(true)).collect();
        let of = |(op, on_all): (&Op, &bool)| op.cycles(*on_all);
        let cycles: Vec<f64> = instance.ops.iter().zip(&on_all_cores).map(of).collect();
        let starts = self.graph.longest(&cycles);
        let ends = starts.iter().zip(&cycles).map(|(start, cycles)| start + cycles);
        Schedule { cycles: ends.fold(0.0, f64::max), starts, on_all_cores, bound_cycles }
    }

    /// The ways to make the earliest schedule shorter than it is: an operator of a path that is too long on
    /// all cores, or on one for good.
    fn shorten(&self, instance: &Instance, schedule: &Schedule, limit: f64) -> Vec<Step> {
        let of = |(op, on_all): (&Op, &bool)| op.cycles(*on_all);
        let cycles: Vec<f64> = instance.ops.iter().zip(&schedule.on_all_cores).map(of).collect();
        let after = self.graph.longest_after(&cycles);
        let late = (0..cycles.len()).filter(|at| schedule.starts[*at] + cycles[*at] + after[*at] >= limit);
        let saved = |at: usize| instance.ops[at].one_core_cycles - instance.ops[at].all_cores_cycles;
        let open = late.filter(|at| self.on_all[*at].is_none());
        let most = open.max_by(|a, b| saved(*a).total_cmp(&saved(*b)).then(b.cmp(a)));
        most.map_or(Vec::new(), |at| vec![Step::Cores(at, true), Step::Cores(at, false)])
    }

    /// The orders, one of which has to hold, of operators that run at once and cannot; none where all can.
    fn separate(&self, instance: &Instance, windows: &Windows, schedule: &Schedule) -> Vec<Step> {
        let meet = |a: usize, b: usize| {
            schedule.starts[a] < list::end(instance, schedule, b)
                && schedule.starts[b] < list::end(instance, schedule, a)
        };
        let pairs = self.free_pairs().filter(|(a, b)| self.excludes(instance, *a, *b) && meet(*a, *b));
        let pair = pairs.max_by(|x, y| windows.either_order(*x).total_cmp(&windows.either_order(*y)));
        let crowd = match pair {
            Some((a, b)) => vec![a, b],
            None => list::crowd(instance, schedule).unwrap_or_default(),
        };
        let ordered = crowd.iter().flat_map(|a| crowd.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
        let mut orders: Vec<(usize, usize)> = ordered.collect();
        orders.sort_by(|x, y| schedule.starts[x.0].total_cmp(&schedule.starts[y.0]).then(x.cmp(y)));
        orders.into_iter().map(|(a, b)| Step::Order(a, b)).collect()
    }
}

/// Longest paths before and after each operator, and its own cycles.
struct Windows {
    before: Vec<f64>,
    after: Vec<f64>,
    cycles: Vec<f64>,
}

impl Windows {
    /// The longest path through an operator.
    fn path(&self, at: usize) -> f64 {
        self.before[at] + self.cycles[at] + self.after[at]
    }

    /// The longest path through two operators in the better order.
    fn either_order(&self, (a, b): (usize, usize)) -> f64 {
        self.in_order(a, b).min(self.in_order(b, a))
    }

    /// The longest path through two operators, one after the other.
    fn in_order(&self, first: usize, second: usize) -> f64 {
        self.before[first] + self.cycles[first] + self.cycles[second] + self.after[second]
    }
}
