//! Mixed-integer programs and who solves them: microlp always, HiGHS with the feature `ilp`.

use std::fmt;

use microlp::{ComparisonOp, Error, OptimizationDirection, SolveOptions, SolveOutcome, Variable};

/// Minimise the columns' cost subject to the rows.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The variables.
    pub columns: Vec<Column>,
    /// The constraints.
    pub rows: Vec<Row>,
    /// A point to begin from, one value per column; a point that breaks a row is ignored.
    pub start: Option<Vec<f64>>,
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Cost of one unit.
    pub cost: f64,
    /// Least value.
    pub lower: f64,
    /// Greatest value.
    pub upper: f64,
    /// Whether the value is a whole number.
    pub integer: bool,
}

/// `lower <= sum of terms <= upper`; either side may be infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Least value of the sum.
    pub lower: f64,
    /// Greatest value of the sum.
    pub upper: f64,
    /// Column index and coefficient; no column twice.
    pub terms: Vec<(u32, f64)>,
}

impl Row {
    /// A row whose terms add up to exactly `sum`.
    pub fn equal(sum: f64, terms: Vec<(u32, f64)>) -> Self {
        Self { lower: sum, upper: sum, terms }
    }

    /// A row whose terms add up to no more than `most`.
    pub fn at_most(most: f64, terms: Vec<(u32, f64)>) -> Self {
        Self { lower: f64::NEG_INFINITY, upper: most, terms }
    }
}

/// What a solver found.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// One value per column, whole for integer columns.
    pub values: Vec<f64>,
    /// Cost of the values.
    pub cost: f64,
    /// No feasible values cost less.
    pub bound: f64,
    /// Whether the solver proved the values to be best.
    pub optimal: bool,
    /// Branch-and-bound nodes solved.
    pub nodes: u64,
}

/// Why there is no solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SolveError {
    /// No values meet all rows.
    Infeasible,
    /// The solver gave up, with its reason.
    Failed(String),
}

impl fmt::Display for SolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SolveError::Infeasible => write!(f, "the integer program has no solution"),
            SolveError::Failed(reason) => write!(f, "the solver gave up: {reason}"),
        }
    }
}

impl std::error::Error for SolveError {}

/// Solves mixed-integer programs, deterministically and on one thread.
pub trait Solver: Sync {
    /// The name that `--solver` takes.
    fn name(&self) -> &'static str;

    /// Minimises.
    fn solve(&self, program: &Program) -> Result<Solution, SolveError>;
}

impl Program {
    /// Adds a column between 0 and 1; returns its position.
    pub(super) fn add(&mut self, cost: f64) -> u32 {
        self.columns.push(Column { cost, lower: 0.0, upper: 1.0, integer: false });
        self.columns.len() as u32 - 1
    }

    /// A solution from a solver's values: whole where they must be, and with the cost that they then have.
    pub(super) fn solution(&self, mut values: Vec<f64>, bound: f64, optimal: bool, nodes: u64) -> Solution {
        for (value, column) in values.iter_mut().zip(&self.columns) {
            *value = if column.integer { value.round() } else { *value };
        }
        let cost = values.iter().zip(&self.columns).map(|(value, column)| value * column.cost).sum();
        Solution { values, cost, bound: if optimal { cost } else { bound.min(cost) }, optimal, nodes }
    }
}

/// The pure-Rust solver.
#[derive(Clone, Debug, Default)]
pub struct MicroLp {
    /// Branch-and-bound nodes to solve at most.
    pub max_nodes: Option<u64>,
}

impl Solver for MicroLp {
    fn name(&self) -> &'static str {
        "microlp"
    }

    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        let mut model = microlp::Problem::new(OptimizationDirection::Minimize);
        let columns: Vec<Variable> =
            program.columns.iter().map(|column| add_column(&mut model, column)).collect();
        program.rows.iter().for_each(|row| add_row(&mut model, &columns, row));
        let start =
            program.start.as_ref().map(|start| columns.iter().copied().zip(start.iter().copied()).collect());
        let mut options = SolveOptions::default();
        (options.node_limit, options.warm_start) = (self.max_nodes, start);
        let outcome = model.solve_with(options).map_err(|error| match error {
            Error::Infeasible => SolveError::Infeasible,
            other => SolveError::Failed(other.to_string()),
        })?;
        let (optimal, stats) = (outcome.is_optimal(), outcome.stats());
        let SolveOutcome::Solution(found) = outcome else {
            return Err(SolveError::Failed(format!("no solution within {} nodes", stats.nodes_solved)));
        };
        let values = columns.iter().map(|&column| found.var_value(column)).collect();
        let bound = stats.best_bound.unwrap_or(f64::NEG_INFINITY);
        Ok(program.solution(values, bound, optimal, stats.nodes_solved))
    }
}

fn add_column(model: &mut microlp::Problem, column: &Column) -> Variable {
    match column.integer {
        // Its integer bounds are `i32`; a float beyond saturates, as infinity should.
        true => model.add_integer_var(column.cost, (column.lower.ceil() as i32, column.upper.floor() as i32)),
        false => model.add_var(column.cost, (column.lower, column.upper)),
    }
}

fn add_row(model: &mut microlp::Problem, columns: &[Variable], row: &Row) {
    let terms =
        || row.terms.iter().map(|&(column, factor)| (columns[column as usize], factor)).collect::<Vec<_>>();
    if row.lower == row.upper {
        return model.add_constraint(terms(), ComparisonOp::Eq, row.upper);
    }
    if row.upper < f64::INFINITY {
        model.add_constraint(terms(), ComparisonOp::Le, row.upper);
    }
    if row.lower > f64::NEG_INFINITY {
        model.add_constraint(terms(), ComparisonOp::Ge, row.lower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_whole_where_they_must_be_and_cost_what_they_then_do() {
        let column = |cost: f64, integer: bool| Column { cost, lower: 0.0, upper: 1.0, integer };
        let program = Program { columns: vec![column(2.0, true), column(4.0, false)], ..Program::default() };
        let found = |bound, optimal| program.solution(vec![0.75, 0.25], bound, optimal, 7);
        let solution =
            |bound, optimal| Solution { values: vec![1.0, 0.25], cost: 3.0, bound, optimal, nodes: 7 };
        assert_eq!(found(1.0, true), solution(3.0, true));
        assert_eq!([found(1.0, false), found(5.0, false)], [solution(1.0, false), solution(3.0, false)]);
    }

    #[test]
    fn a_program_of_rows_of_every_kind_is_solved() {
        let mut program = Program::default();
        let column = |cost: f64| Column { cost, lower: 0.0, upper: 1.0, integer: true };
        program.columns = vec![column(1.0), column(3.0), column(-2.0)];
        program.rows = vec![
            Row::equal(1.0, vec![(0, 1.0), (1, 1.0)]),
            Row::at_most(1.0, vec![(0, 1.0), (2, 1.0)]),
            Row { lower: 1.0, upper: f64::INFINITY, terms: vec![(1, 1.0), (2, 1.0)] },
        ];
        let found = MicroLp::default().solve(&program).expect("it has a solution");
        // The first and the third exclude each other: 1 and -2 are not to be had together, 3 - 2 is.
        assert_eq!((found.values, found.cost, found.optimal), (vec![0.0, 1.0, 1.0], 1.0, true));
        assert_eq!(MicroLp::default().name(), "microlp");
        program.rows.push(Row::at_most(0.0, vec![(1, 1.0)]));
        assert_eq!(MicroLp::default().solve(&program), Err(SolveError::Infeasible));
    }
}
