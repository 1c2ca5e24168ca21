//! The integer program of scheduling, in HiGHS.
//!
//! A variable per operator says whether it runs on all cores, one per ordered pair of operators that neither
//! precede each other whether the first ends before the second starts. Numbers of cores enter as rows over
//! sets of operators that overlapped in a solution and are too many; the program is solved again until there
//! are none. Rows (3) to (11) and (18) of `reference/phaze.md`, section 4, in that order; (12) to (17) assign
//! operators to single cores, which follows from their number.
//!
//! Windows from the incumbent's makespan make each row as tight as it can be and leave out pairs that they
//! order.

use super::{Instance, Schedule, list};
use highs::{Col, HighsModelStatus, HighsSolutionStatus, RowProblem, Sense, SolvedModel};
use phzc_ir::{Diagnostic, Result};

/// Solutions with too many operators at once, at most.
const MAX_ROUNDS: usize = 50;

/// What a pair of operators has: a variable, or an order that its windows fix.
#[derive(Clone, Copy)]
enum Before {
    Open(Col),
    Fixed(bool),
}

struct Program<'a> {
    instance: &'a Instance,
    rows: RowProblem,
    makespan: Col,
    starts: Vec<Col>,
    /// By operator; `None` where one core is as fast.
    on_all: Vec<Option<Col>>,
    /// By first and second operator.
    before: Vec<Vec<Before>>,
    /// Cycles that are one unit of time: the incumbent's makespan.
    unit: f64,
}

/// A schedule at least as short, with the bound that was proved.
pub(super) fn improve(instance: &Instance, incumbent: Schedule, max_nodes: u32) -> Result<Schedule> {
    let mut best = incumbent;
    let mut program = Program::new(instance, &best);
    for _ in 0..MAX_ROUNDS {
        let Some(solved) = program.solve(max_nodes)? else { break };
        let bound = solved.double_info_value(c"mip_dual_bound").unwrap_or(0.0) * program.unit;
        best.bound_cycles = best.bound_cycles.max(bound.min(best.cycles));
        let values = solved.get_solution().columns().to_vec();
        let schedule = program.schedule(&values, best.bound_cycles);
        let Some(crowd) = list::crowd(instance, &schedule) else {
            let shorter = (schedule.cycles < best.cycles).then_some(schedule);
            return Ok(Schedule { bound_cycles: best.bound_cycles, ..shorter.unwrap_or(best) });
        };
        program.separate(&crowd);
    }
    Ok(best)
}

impl<'a> Program<'a> {
    fn new(instance: &'a Instance, incumbent: &Schedule) -> Program<'a> {
        let (mut rows, unit) = (RowProblem::default(), incumbent.cycles);
        let makespan = rows.add_column(1.0, incumbent.bound_cycles / unit..=1.0);
        let (heads, tails) = (instance.heads(), instance.tails());
        let n = instance.ops.len();
        let window = |at: usize| heads[at] / unit..=(unit - tails[at]) / unit;
        let starts = (0..n).map(|at| rows.add_column(0.0, window(at))).collect();
        let is_faster = |at: usize| instance.ops[at].all_cores_cycles < instance.ops[at].one_core_cycles;
        let on_all = (0..n).map(|at| is_faster(at).then(|| rows.add_integer_column(0.0, 0..=1))).collect();
        let before = vec![vec![Before::Fixed(false); n]; n];
        let mut program = Program { instance, rows, makespan, starts, on_all, before, unit };
        program.add_durations();
        program.add_pairs(&heads, &tails);
        program
    }

    /// Cycles of an operator as `(constant, factor of its variable)`, in units of time.
    fn duration(&self, at: usize) -> (f64, Option<(Col, f64)>) {
        let op = &self.instance.ops[at];
        let saved = (op.all_cores_cycles - op.one_core_cycles) / self.unit;
        (op.one_core_cycles / self.unit, self.on_all[at].map(|column| (column, saved)))
    }

    /// (3) and (4): the makespan is no earlier than any end.
    fn add_durations(&mut self) {
        for at in 0..self.starts.len() {
            let (constant, saved) = self.duration(at);
            let mut terms = vec![(self.makespan, 1.0), (self.starts[at], -1.0)];
            terms.extend(saved.map(|(column, factor)| (column, -factor)));
            self.rows.add_row(constant.., &terms);
        }
    }

    fn add_pairs(&mut self, heads: &[f64], tails: &[f64]) {
        let n = self.starts.len();
        for first in 0..n {
            for second in 0..n {
                if self.instance.graph.precedes(first, second) {
                    self.before[first][second] = Before::Fixed(true);
                    self.add_order(first, second, None, 0.0);
                } else if self.instance.graph.is_free(first, second) {
                    self.add_free(first, second, [heads, tails]);
                }
            }
        }
        for first in 0..n {
            for second in (0..first).filter(|second| self.instance.graph.is_free(first, *second)) {
                self.add_alternatives(first, second);
            }
        }
    }

    /// (10): an order that may hold; its windows say by how much a start may be too early where it does not.
    fn add_free(&mut self, first: usize, second: usize, [heads, tails]: [&[f64]; 2]) {
        let (one, other) = (&self.instance.ops[first], &self.instance.ops[second]);
        let least = heads[first] + one.least_cycles() + other.least_cycles() + tails[second];
        let slack = (self.unit - tails[first] - heads[second]) / self.unit;
        if slack <= 0.0 {
            self.before[first][second] = Before::Fixed(true);
        } else if least <= self.unit {
            let column = self.rows.add_integer_column(0.0, 0..=1);
            self.before[first][second] = Before::Open(column);
            self.add_order(first, second, Some(column), slack);
        }
    }

    /// (7 to 10): `start of first + duration - slack (1 - column) <= start of second`.
    fn add_order(&mut self, first: usize, second: usize, column: Option<Col>, slack: f64) {
        let (constant, saved) = self.duration(first);
        let mut terms = vec![(self.starts[second], 1.0), (self.starts[first], -1.0)];
        terms.extend(saved.map(|(column, factor)| (column, -factor)));
        terms.extend(column.map(|column| (column, -slack)));
        let least = if column.is_some() { constant - slack } else { constant };
        self.rows.add_row(least.., &terms);
    }

    /// (5) and (11): not both orders; one of them if either operator runs on all cores.
    fn add_alternatives(&mut self, first: usize, second: usize) {
        let (fixed, terms) = self.either(&[(first, second)]);
        if fixed > 0.0 {
            return;
        }
        self.rows.add_row(..=1.0, &terms);
        for column in [first, second].into_iter().filter_map(|at| self.on_all[at]) {
            let mut row = terms.clone();
            row.push((column, -1.0));
            self.rows.add_row(0.0.., &row);
        }
    }

    /// The orders of pairs that hold, and the variables of those that may.
    fn either(&self, pairs: &[(usize, usize)]) -> (f64, Vec<(Col, f64)>) {
        let (mut fixed, mut terms) = (0.0, Vec::new());
        for before in pairs.iter().flat_map(|(a, b)| [self.before[*a][*b], self.before[*b][*a]]) {
            match before {
                Before::Open(column) => terms.push((column, 1.0)),
                Before::Fixed(holds) => fixed += f64::from(u8::from(holds)),
            }
        }
        (fixed, terms)
    }

    /// (18): of operators that are too many at once, two have an order.
    fn separate(&mut self, crowd: &[usize]) {
        let pairs: Vec<(usize, usize)> =
            crowd.iter().flat_map(|a| crowd.iter().filter(move |b| a < b).map(move |b| (*a, *b))).collect();
        let (fixed, terms) = self.either(&pairs);
        if fixed == 0.0 {
            self.rows.add_row(1.0.., &terms);
        }
    }

    /// One thread and fixed options, so that every run gives the same answer; `None` where nothing was found.
    fn solve(&self, max_nodes: u32) -> Result<Option<SolvedModel>> {
        let failed = |status| Diagnostic::error(format!("HiGHS: {status:?}"));
        let mut model = self.rows.clone().try_optimise(Sense::Minimise).map_err(failed)?;
        model.make_quiet();
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        model.set_option("mip_rel_gap", 1e-9);
        model.set_option("mip_abs_gap", 1e-9);
        model.set_option("mip_feasibility_tolerance", 1e-9);
        model.set_option("primal_feasibility_tolerance", 1e-9);
        model.set_option("mip_max_nodes", i32::try_from(max_nodes).unwrap_or(i32::MAX));
        let solved = model.try_solve().map_err(failed)?;
        let is_found = solved.status() == HighsModelStatus::Optimal
            || solved.primal_solution_status() == HighsSolutionStatus::Feasible;
        Ok(is_found.then_some(solved))
    }

    /// The schedule that a solution's orders and choices give, in whole cycles.
    fn schedule(&self, values: &[f64], bound_cycles: f64) -> Schedule {
        let is_set = |column: Col| values[column.index()] > 0.5;
        let on_all_cores: Vec<bool> = self.on_all.iter().map(|column| column.is_some_and(is_set)).collect();
        let n = self.starts.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| values[self.starts[*a].index()].total_cmp(&values[self.starts[*b].index()]));
        let holds = |first: usize, second: usize| match self.before[first][second] {
            Before::Open(column) => is_set(column),
            Before::Fixed(holds) => holds,
        };
        let mut schedule = Schedule { starts: vec![0.0; n], on_all_cores, cycles: 0.0, bound_cycles };
        for _ in 0..n {
            for second in &order {
                let before = (0..n).filter(|first| holds(*first, *second));
                let start =
                    before.map(|first| list::end(self.instance, &schedule, first)).fold(0.0, f64::max);
                schedule.starts[*second] = start;
            }
        }
        let ends = (0..n).map(|at| list::end(self.instance, &schedule, at));
        schedule.cycles = ends.fold(0.0, f64::max);
        schedule
    }
}
