//! HiGHS as a solver: one thread and fixed options, so that every run gives the same answer.

use highs::{HighsModelStatus, HighsSolutionStatus, HighsStatus, Model, RowProblem, Sense, SolvedModel};

use super::solver::{Program, Solution, SolveError, Solver};

/// The HiGHS solver.
#[derive(Clone, Debug, Default)]
pub struct Highs {
    /// Branch-and-bound nodes to solve at most.
    pub max_nodes: Option<u64>,
}

impl Solver for Highs {
    fn name(&self) -> &'static str {
        "highs"
    }

    fn solve(&self, program: &Program) -> Result<Solution, SolveError> {
        let failed = |status: HighsStatus| SolveError::Failed(format!("HiGHS status {status:?}"));
        let mut model = build(program).try_optimise(Sense::Minimise).map_err(failed)?;
        self.set_options(&mut model);
        if let Some(start) = &program.start {
            model.try_set_solution(Some(start), None, None, None).map_err(failed)?;
        }
        read(program, &model.try_solve().map_err(failed)?)
    }
}

impl Highs {
    fn set_options(&self, model: &mut Model) {
        model.make_quiet();
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        model.set_option("mip_rel_gap", 1e-10);
        model.set_option("mip_abs_gap", 1e-10);
        if let Some(nodes) = self.max_nodes {
            model.set_option("mip_max_nodes", i32::try_from(nodes).unwrap_or(i32::MAX));
        }
    }
}

fn build(program: &Program) -> RowProblem {
    let mut model = RowProblem::default();
    let add = |column: &super::Column| {
        model.add_column_with_integrality(column.cost, column.lower..=column.upper, column.integer)
    };
    let columns: Vec<highs::Col> = program.columns.iter().map(add).collect();
    for row in &program.rows {
        let terms: Vec<_> =
            row.terms.iter().map(|&(column, factor)| (columns[column as usize], factor)).collect();
        model.add_row(row.lower..=row.upper, &terms);
    }
    model
}

fn read(program: &Program, solved: &SolvedModel) -> Result<Solution, SolveError> {
    let status = solved.status();
    let optimal = match status {
        HighsModelStatus::Infeasible | HighsModelStatus::UnboundedOrInfeasible => {
            return Err(SolveError::Infeasible);
        }
        HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => true,
        _ if solved.primal_solution_status() == HighsSolutionStatus::Feasible => false,
        _ => return Err(SolveError::Failed(format!("HiGHS stopped with {status:?}"))),
    };
    let values = solved.get_solution().columns().to_vec();
    let bound = solved.double_info_value(c"mip_dual_bound").unwrap_or(f64::NEG_INFINITY);
    Ok(program.solution(values, bound, optimal, nodes(solved)))
}

#[allow(unsafe_code, reason = "the node count is a 64-bit value, which the safe crate cannot read")]
fn nodes(solved: &SolvedModel) -> u64 {
    let mut nodes = 0;
    // SAFETY: the model outlives the call, the name ends in NUL and HiGHS writes one i64.
    let status = unsafe {
        highs_sys::Highs_getInt64InfoValue(solved.as_ptr(), c"mip_node_count".as_ptr(), &mut nodes)
    };
    if status == highs_sys::STATUS_OK { u64::try_from(nodes).unwrap_or(0) } else { 0 }
}
