//! When operators run on the cores of one accelerator.
//!
//! An operator runs on one core of each kind that it needs, or on all of them, alone on the chip. A schedule
//! respects precedence and the number of cores; its makespan is to be least.
//! Source: Phaze's integer program, `reference/phaze.md`, section 4.

mod bound;
mod branch;
mod graph;
#[cfg(feature = "ilp")]
mod ilp;
mod list;
#[cfg(test)]
mod tests;

use graph::Graph;
use phzc_ir::{Diagnostic, Result};

/// Makespans that differ by less, relatively, are equal: the integer program's tolerance.
const TOLERANCE: f64 = 1e-7;

/// The kinds of cores that an operator needs one of, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Units {
    /// Tensor cores.
    Tensor,
    /// Vector cores.
    Vector,
    /// Both: a contraction with functions fused behind it.
    Both,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// Where it runs.
    pub units: Units,
    /// Cycles on one core.
    pub one_core_cycles: f64,
    /// Cycles on all cores.
    pub all_cores_cycles: f64,
}

/// Operators, what precedes what, and the cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The operators.
    pub ops: Vec<Op>,
    /// Tensor cores.
    pub n_tensor: usize,
    /// Vector cores.
    pub n_vector: usize,
    graph: Graph,
}

/// When operators run.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// First cycle, by operator.
    pub starts: Vec<f64>,
    /// Whether an operator runs on all cores, by operator.
    pub on_all_cores: Vec<bool>,
    /// Cycles from the first start to the last end.
    pub cycles: f64,
    /// No schedule takes fewer.
    pub bound_cycles: f64,
}

impl Schedule {
    /// Whether no schedule is shorter.
    pub fn is_optimal(&self) -> bool {
        self.cycles <= self.bound_cycles * (1.0 + TOLERANCE)
    }
}

impl Op {
    /// Cycles on one core or on all of them.
    pub fn cycles(&self, on_all_cores: bool) -> f64 {
        if on_all_cores { self.all_cores_cycles } else { self.one_core_cycles }
    }

    /// Cycles at least.
    pub fn least_cycles(&self) -> f64 {
        self.one_core_cycles.min(self.all_cores_cycles)
    }

    /// Tensor and vector cores that it needs one of.
    fn needs(&self) -> [usize; 2] {
        match self.units {
            Units::Tensor => [1, 0],
            Units::Vector => [0, 1],
            Units::Both => [1, 1],
        }
    }
}

impl Instance {
    /// An instance whose operators follow their own position; `None` is an operator that takes no time and no
    /// core, which is left out after the edges `(before, after)` through it are drawn together.
    ///
    /// # Errors
    /// For a cycle, an edge to nowhere, cycles that are no number, and cores that are needed and not there.
    pub fn new(
        ops: &[Option<Op>],
        edges: &[(usize, usize)],
        n_tensor: usize,
        n_vector: usize,
    ) -> Result<Instance> {
        let kept: Vec<usize> = (0..ops.len()).filter(|at| ops[*at].is_some()).collect();
        let graph = Graph::new(ops.len(), edges)?.restricted(&kept);
        let ops: Vec<Op> = ops.iter().copied().flatten().collect();
        let is_time = |cycles: f64| cycles.is_finite() && cycles >= 0.0;
        if !ops.iter().all(|op| is_time(op.one_core_cycles) && is_time(op.all_cores_cycles)) {
            return Err(Diagnostic::error("an operator's cycles are no finite number above zero"));
        }
        let lacks = |op: &Op| op.needs()[0] > n_tensor || op.needs()[1] > n_vector;
        if ops.iter().any(lacks) {
            return Err(Diagnostic::error("an operator needs a kind of core that the accelerator lacks"));
        }
        // No more cores than operators are ever at work beside each other.
        let [n_tensor, n_vector] = [n_tensor, n_vector].map(|n_cores| n_cores.min(ops.len().max(1)));
        Ok(Instance { ops, n_tensor, n_vector, graph })
    }

    /// The instance of a backward pass: edges the other way round, with that pass's cycles.
    ///
    /// # Errors
    /// Where there are not as many operators.
    pub fn reversed(&self, ops: Vec<Op>) -> Result<Instance> {
        if ops.len() != self.ops.len() {
            return Err(Diagnostic::error("a backward pass has as many operators as its forward pass"));
        }
        Ok(Instance { ops, graph: self.graph.reversed(), ..*self })
    }

    /// Its cores and cycles as bits: equal for equal instances.
    pub fn fingerprint(&self) -> Vec<u64> {
        let cycles = self.ops.iter().flat_map(|op| [op.one_core_cycles, op.all_cores_cycles]);
        let cores = [self.n_tensor, self.n_vector].map(|n_cores| n_cores as u64);
        cores.into_iter().chain(cycles.map(f64::to_bits)).collect()
    }

    /// No schedule takes fewer cycles: the critical path, and the work of each kind of core between any two
    /// moments.
    pub fn bound_cycles(&self) -> f64 {
        let (heads, tails) = (self.heads(), self.tails());
        let path = heads.iter().zip(&self.ops).map(|(head, op)| head + op.least_cycles());
        self.rounded(path.fold(bound::work_cycles(self, &heads, &tails, |_| None), f64::max))
    }

    /// A bound, rounded up where every makespan is a whole number.
    fn rounded(&self, bound_cycles: f64) -> f64 {
        if self.is_whole() { (bound_cycles * (1.0 - 1e-12)).ceil() } else { bound_cycles }
    }

    /// Whether all cycles are whole numbers.
    fn is_whole(&self) -> bool {
        self.ops.iter().all(|op| op.one_core_cycles.fract() == 0.0 && op.all_cores_cycles.fract() == 0.0)
    }

    /// A short schedule, by list scheduling; its bound is [`Self::bound_cycles`].
    pub fn list(&self) -> Schedule {
        list::improved(self)
    }

    /// The shortest schedule, with the best proved bound: list scheduling, then branch and bound where the
    /// list's makespan is above the bound.
    ///
    /// `max_nodes` limits branch and bound; past it the best schedule so far is returned.
    pub fn solve(&self, max_nodes: u32) -> Schedule {
        let schedule = self.list();
        if schedule.is_optimal() { schedule } else { branch::improve(self, schedule, max_nodes) }
    }

    /// The same by Phaze's integer program, in HiGHS; much slower, and independent of branch and bound.
    ///
    /// # Errors
    /// Where HiGHS fails.
    #[cfg(feature = "ilp")]
    pub fn solve_program(&self, max_nodes: u32) -> Result<Schedule> {
        let schedule = self.list();
        if schedule.is_optimal() { Ok(schedule) } else { ilp::improve(self, schedule, max_nodes) }
    }

    /// Whether a schedule is one: precedence, cores, and the makespan.
    ///
    /// # Errors
    /// For the first rule that it breaks.
    pub fn check(&self, schedule: &Schedule) -> Result<()> {
        let n = self.ops.len();
        let end = |at: usize| schedule.starts[at] + self.ops[at].cycles(schedule.on_all_cores[at]);
        let pairs = || (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        let precedes =
            pairs().all(|(a, b)| !self.graph.precedes(a, b) || end(a) <= schedule.starts[b] * (1.0 + 1e-12));
        let ends = (0..n).map(end).fold(0.0, f64::max);
        let rules = [
            (precedes, "an operator starts before one that precedes it ends"),
            ((0..n).all(|at| list::overload(self, schedule, at).is_none()), "there are not enough cores"),
            ((ends - schedule.cycles).abs() <= 1e-9 * ends, "the makespan is another"),
        ];
        rules.into_iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err(Diagnostic::error(rule.1)))
    }

    /// By operator: cycles before it at least.
    fn heads(&self) -> Vec<f64> {
        self.graph.longest(&self.ops.iter().map(Op::least_cycles).collect::<Vec<_>>())
    }

    /// By operator: cycles after it at least.
    fn tails(&self) -> Vec<f64> {
        self.graph.reversed().longest(&self.ops.iter().map(Op::least_cycles).collect::<Vec<_>>())
    }
}
