//! The choice as a 0/1 program: one column per option and per pair of joined options, tied together by
//! equalities.
//!
//! The pairs of an edge sum to the option they share, with `=` and not `<=`: its relaxation is then as tight
//! as pairwise constraints can make it, and on a tree has whole-number corners only.

use std::fmt;

use super::lagrangian::least_memory;
use super::memory::{self, Memory};
use super::reduce::{Pair, Reduced, reduce};
use super::solver::{Column, Program, Row, SolveError, Solver};
use super::star::Star;
use super::{Choice, Infeasible, Limits, Problem, Stop};

/// Largest cost in the program, whatever the unit of the problem: solver tolerances are absolute.
const LARGEST_COST: f64 = 1e3;

/// The memory limit in the program: what a solver lets pass is then below a byte where the limit is 1 GB.
const LIMIT: f64 = 1e3;

/// Why an integer program gave no choice.
#[derive(Clone, Debug, PartialEq)]
pub enum IlpError {
    /// There is none.
    Infeasible(Infeasible),
    /// The solver gave up, with its reason.
    Failed(String),
}

impl fmt::Display for IlpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IlpError::Infeasible(infeasible) => infeasible.fmt(f),
            IlpError::Failed(reason) => write!(f, "the solver gave up: {reason}"),
        }
    }
}

impl std::error::Error for IlpError {}

/// Finds the cheapest choice within the memory limit with an integer-programming solver.
///
/// # Panics
/// If an edge names a missing node, or a table's or a node's sizes disagree.
pub fn choose_by_ilp(problem: &Problem, solver: &dyn Solver) -> Result<Choice, IlpError> {
    choose_from(problem, solver, None)
}

/// The same from a choice that is known, if it takes no option that needs not be considered.
pub(super) fn choose_from(
    problem: &Problem,
    solver: &dyn Solver,
    known: Option<&[u32]>,
) -> Result<Choice, IlpError> {
    problem.check();
    let reduced = reduce(problem).map_err(IlpError::Infeasible)?;
    let (mut program, scale) = program(problem, &reduced);
    let known = known.and_then(|known| reduced.restrict(known)).filter(|_| reduced.stars.is_empty());
    program.start = known.map(|known| start(&reduced, &known));
    let solution = solver.solve(&program).map_err(|error| match error {
        SolveError::Infeasible => IlpError::Infeasible(too_large(problem)),
        SolveError::Failed(reason) => IlpError::Failed(reason),
    })?;
    let option = reduced.expand(&taken(&reduced, &solution.values));
    let cost = problem.cost(&option);
    Ok(Choice {
        memory: problem.memory(&option),
        option,
        cost,
        lower_bound: if solution.optimal { cost } else { cost.min(solution.bound / scale) },
        stop: if solution.optimal { Stop::Optimal } else { Stop::SolverLimit },
        evaluations: solution.nodes,
    })
}

/// What to say when the solver proves that there is no choice.
fn too_large(problem: &Problem) -> Infeasible {
    let smallest = least_memory(problem, &Limits::default());
    let bytes = |found: super::eliminate::Found| problem.memory(&found.option);
    Infeasible { least_memory: smallest.map_or(f64::INFINITY, bytes), proved: true }
}

/// The program, and by what its costs are multiplied.
fn program(problem: &Problem, reduced: &Reduced) -> (Program, f64) {
    let tables = reduced.pairs.iter().map(|pair| &*pair.table.values);
    let costs = reduced.cost.iter().map(Vec::as_slice).chain(tables).flatten();
    let largest = costs.filter(|cost| cost.is_finite()).fold(0.0, |most: f64, cost| most.max(cost.abs()));
    let scale = if largest > 0.0 { LARGEST_COST / largest } else { 1.0 };
    let mut program = Program::default();
    let starts = add_nodes(&mut program, reduced, scale);
    reduced.pairs.iter().for_each(|pair| add_pair(&mut program, reduced, &starts, pair, scale));
    reduced.stars.iter().for_each(|star| add_star(&mut program, &starts, star, scale));
    if let Some(limit) = problem.memory_limit {
        add_memory(&mut program, &starts, &Memory::new(&reduced.usages, limit), limit);
    }
    (program, scale)
}

/// The columns of a choice among surviving options.
fn start(reduced: &Reduced, option: &[u32]) -> Vec<f64> {
    let mut values = Vec::new();
    for (costs, &option) in reduced.cost.iter().zip(option) {
        values.extend((0..costs.len()).map(|at| f64::from(u8::from(at == option as usize))));
    }
    for pair in &reduced.pairs {
        let taken = option[pair.a as usize] as usize * pair.table.cols + option[pair.b as usize] as usize;
        let entries = pair.table.values.iter().enumerate().filter(|(_, cost)| cost.is_finite());
        values.extend(entries.map(|(at, _)| f64::from(u8::from(at == taken))));
    }
    values
}

/// At no time more than there is, the limit being `LIMIT`: bytes beside ones would be badly scaled, and a
/// solver's tolerances are absolute.
fn add_memory(program: &mut Program, starts: &[u32], over_time: &Memory, limit: f64) {
    let unit = if limit > 0.0 { limit / LIMIT } else { 1.0 };
    let mut rows: Vec<Row> =
        over_time.room.iter().map(|room| Row::at_most(room / unit, Vec::new())).collect();
    for (&start, usages) in starts.iter().zip(&over_time.held) {
        for usage in usages {
            let terms = (start..).zip(&usage.bytes).filter(|(_, bytes)| **bytes != 0.0);
            let terms: Vec<(u32, f64)> = terms.map(|(column, bytes)| (column, bytes / unit)).collect();
            rows[memory::rows(&usage.alive)].iter_mut().for_each(|row| row.terms.extend(&terms));
        }
    }
    for row in &mut rows {
        row.terms.sort_by_key(|(column, _)| *column);
        row.terms.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            first.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
    }
    program.rows.extend(rows);
}

/// One 0/1 column per option; of each node exactly one is 1. Returns each node's first column.
fn add_nodes(program: &mut Program, reduced: &Reduced, scale: f64) -> Vec<u32> {
    let mut starts = Vec::with_capacity(reduced.cost.len());
    for costs in &reduced.cost {
        let start = program.columns.len() as u32;
        let column = |cost: &f64| Column { cost: cost * scale, lower: 0.0, upper: 1.0, integer: true };
        program.columns.extend(costs.iter().map(column));
        program.rows.push(Row::equal(1.0, (start..).zip(costs).map(|(column, _)| (column, 1.0)).collect()));
        starts.push(start);
    }
    starts
}

/// One column per allowed pair; those of one option sum to that option.
fn add_pair(program: &mut Program, reduced: &Reduced, starts: &[u32], pair: &Pair, scale: f64) {
    let [a, b] = [pair.a as usize, pair.b as usize];
    let cols = reduced.cost[b].len();
    let sums =
        |node: usize| (starts[node]..).zip(&reduced.cost[node]).map(|(option, _)| vec![(option, -1.0)]);
    let (mut rows_a, mut rows_b): (Vec<_>, Vec<_>) = (sums(a).collect(), sums(b).collect());
    for (at, cost) in pair.table.values.iter().enumerate().filter(|(_, cost)| cost.is_finite()) {
        let column = program.columns.len() as u32;
        program.columns.push(Column { cost: cost * scale, lower: 0.0, upper: 1.0, integer: false });
        rows_a[at / cols].push((column, 1.0));
        rows_b[at % cols].push((column, 1.0));
    }
    program.rows.extend(rows_a.into_iter().chain(rows_b).map(|terms| Row::equal(0.0, terms)));
}

/// The columns of bringing a star's value somewhere, per place wanted.
struct Brought {
    /// Among other places.
    apart: Vec<Vec<u32>>,
    /// To that place alone.
    alone: Vec<Vec<u32>>,
}

/// A reader needs the value brought to where it wants it, alone only if all do.
fn add_star(program: &mut Program, starts: &[u32], star: &Star, scale: f64) {
    let at = |member: usize, place: usize| -> Vec<u32> {
        let options = (starts[star.members[member] as usize]..).zip(&star.form.place[member]);
        options.filter(|(_, own)| usize::from(**own) == place).map(|(column, _)| column).collect()
    };
    let brought = add_moves(program, star, scale, |source| at(0, source));
    for reader in 1..star.members.len() {
        for (wanted, (apart, alone)) in brought.apart.iter().zip(&brought.alone).enumerate() {
            let wants = at(reader, wanted);
            let served = [terms(&wants, 1.0), terms(apart, -1.0), terms(alone, -1.0)].concat();
            program.rows.push(Row::at_most(0.0, served));
            program.rows.push(Row::at_most(0.0, [terms(alone, 1.0), terms(&wants, -1.0)].concat()));
        }
    }
}

/// Per place of the maker a column for being read apart, and two per place wanted; they sum to the maker's
/// being there.
fn add_moves(program: &mut Program, star: &Star, scale: f64, maker: impl Fn(usize) -> Vec<u32>) -> Brought {
    let (form, none) = (&star.form, vec![Vec::new(); star.form.n_wanted]);
    let mut brought = Brought { apart: none.clone(), alone: none };
    for source in 0..form.home.len() {
        let apart = program.add(form.home[source] * scale);
        let mut all = vec![(apart, 1.0)];
        for wanted in 0..form.n_wanted {
            let [each, only] = [&form.each, &form.only].map(|costs| costs[source * form.n_wanted + wanted]);
            if each.is_finite() {
                let column = program.add(each * scale);
                brought.apart[wanted].push(column);
                program.rows.push(Row::at_most(0.0, vec![(column, 1.0), (apart, -1.0)]));
            }
            if only.is_finite() {
                let column = program.add(only * scale);
                brought.alone[wanted].push(column);
                all.push((column, 1.0));
            }
        }
        all.extend(terms(&maker(source), -1.0));
        program.rows.push(Row::equal(0.0, all));
    }
    brought
}

fn terms(columns: &[u32], factor: f64) -> Vec<(u32, f64)> {
    columns.iter().map(|&column| (column, factor)).collect()
}

/// The option of each node whose column is 1.
fn taken(reduced: &Reduced, values: &[f64]) -> Vec<u32> {
    let mut rest = values;
    let mut take = |costs: &Vec<f64>| {
        let (mine, others) = rest.split_at(costs.len());
        rest = others;
        mine.iter().position(|&value| value > 0.5).unwrap_or(0) as u32
    };
    reduced.cost.iter().map(&mut take).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{brute_force, small_problem};
    use super::super::{MicroLp, choose};
    use super::*;

    fn agrees_with_brute_force(solver: &dyn Solver) {
        for seed in 0..150 {
            let mut problem = small_problem(seed);
            problem.memory_limit = (seed % 2 == 0).then_some(40.0 * problem.nodes.len() as f64);
            let (best, least) = brute_force(&problem);
            match choose_by_ilp(&problem, solver) {
                Ok(choice) => {
                    assert!((choice.cost - best).abs() < 1e-6, "seed {seed}: {} for {best}", choice.cost)
                }
                Err(IlpError::Infeasible(infeasible)) => {
                    assert_eq!((best, infeasible.least_memory), (f64::INFINITY, least), "seed {seed}");
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }

    #[test]
    fn microlp_finds_what_brute_force_finds() {
        agrees_with_brute_force(&MicroLp::default());
    }

    #[cfg(feature = "ilp")]
    #[test]
    fn highs_finds_what_brute_force_finds() {
        agrees_with_brute_force(&super::super::Highs::default());
    }

    #[test]
    fn a_program_in_seconds_gives_the_choice_of_one_in_nanoseconds() {
        let problem = small_problem(4);
        let mut small = problem.clone();
        small.nodes.iter_mut().flat_map(|node| &mut node.cost).for_each(|cost| *cost *= 1e-9);
        for edge in &mut small.edges {
            let table = std::sync::Arc::make_mut(&mut edge.cost);
            table.values.iter_mut().for_each(|cost| *cost *= 1e-9);
        }
        let option =
            |problem: &Problem| choose_by_ilp(problem, &MicroLp::default()).map(|choice| choice.option);
        assert_eq!(option(&problem), option(&small));
        assert_eq!(option(&small), Ok(choose(&small, &Limits::default()).unwrap().option));
    }

    #[test]
    fn bytes_make_the_same_program_in_any_unit() {
        let problem = Problem { memory_limit: Some(4096.0), ..small_problem(4) };
        let program = |unit: f64| {
            let mut problem =
                Problem { memory_limit: problem.memory_limit.map(|limit| limit * unit), ..problem.clone() };
            let usages = problem.nodes.iter_mut().flat_map(|node| &mut node.usages);
            usages.flat_map(|usage| &mut usage.bytes).for_each(|bytes| *bytes *= unit);
            super::program(&problem, &reduce(&problem).expect("legal")).0.rows
        };
        let rows = program(1.0);
        assert!(rows.last().is_some_and(|row| !row.terms.is_empty()));
        assert_eq!([program(1024.0), program(0.5)], [rows.clone(), rows]);
    }
}
