//! `enumeration.txt`: every combination of strategies for the blocks of a segment, as CFP's benchmark lists
//! them.
//!
//! ```text
//! segment PB search space: [3, 3, 3, 3]
//! Comm Volume: 1.63084e+10
//! Comm Overhead: 0.789642
//! Comp Overhead: 0.12948
//! sval [0, 1, 0, 2] [0.919 0.306 0.582] 11500000000
//! ```
//!
//! Bytes that one device sends in a step, seconds of collectives and of kernels; then the combination, the
//! seconds of the step and of its forward and backward parts, and bytes per device. A combination gives the
//! blocks of the repeated segment, and all its copies, the strategies at these positions of Alpa's list, over
//! all axes of the mesh; what joined a block follows it where it can, and all else is chosen for the best.

use super::explain;
use super::model::{Goal, Input, Model};
use super::strategies::Strategy;
use super::strategy_map::ordered;
use crate::units::general;
use phzc_analysis::block_list::repeated_segment;
use phzc_analysis::blocks::BlockId;
use phzc_ir::{Diagnostic, Mesh, Module, Result};
use phzc_solver::choose::{Choice, Limits, Problem, choose};

/// More combinations than these are not listed.
const MAX_COMBINATIONS: usize = 4096;

/// A block that a combination decides, with its copies and the options it takes.
struct Place {
    blocks: Vec<BlockId>,
    /// Positions in the block's menu, in Alpa's order.
    options: Vec<u32>,
}

/// The report on a mesh.
///
/// # Errors
/// When there are too many combinations.
pub(super) fn enumerate(module: &Module, input: Input, mesh: &Mesh, goal: &Goal) -> Result<String> {
    let mut model = Model::new(input, mesh);
    let places: Vec<Place> = repeated_segment(module, input.graph, input.blocks)
        .into_iter()
        .map(|blocks| Place { options: options(&model, blocks[0]), blocks })
        .collect();
    let counts: Vec<usize> = places.iter().map(|place| place.options.len()).collect();
    let n_all = counts.iter().try_fold(1usize, |all, &count| all.checked_mul(count));
    let Some(n_all) = n_all.filter(|&n_all| n_all <= MAX_COMBINATIONS) else {
        let message = format!(
            "the segment's blocks have {counts:?} strategies: more than {MAX_COMBINATIONS} combinations"
        );
        return Err(
            Diagnostic::error(message).help("name a mesh with fewer axes, or forbid some by `forbid`")
        );
    };
    let problem = model.problem(goal);
    let mut out = format!("segment PB search space: {counts:?}\n");
    for code in 0..n_all {
        let digits = digits(code, &counts);
        match best(&problem, &places, &digits) {
            Some(choice) => out += &entry(module, &mut model, &digits, &choice),
            None => out += &format!("sval {digits:?} [inf inf inf] inf\n"),
        }
    }
    Ok(out)
}

/// The options of a block that use every axis of the mesh, one per name in Alpa's list; all if none does.
fn options(model: &Model, block: BlockId) -> Vec<u32> {
    let strategies = &model.menus[block as usize].strategies;
    let is_full = |strategy: &Strategy| (0..model.mesh.n_axes()).all(|axis| strategy[axis] > 0);
    let entry = phzc_analysis::merged::contractions(model.input.graph, model.input.blocks, block).next();
    let all = entry.map(|entry| ordered(model, entry)).unwrap_or_default();
    let full: Vec<u32> =
        all.iter().copied().filter(|&option| is_full(&strategies[option as usize])).collect();
    if full.is_empty() { all } else { full }
}

/// A number as positions, the last one the fastest.
fn digits(mut code: usize, counts: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = counts
        .iter()
        .rev()
        .map(|&count| {
            let digit = code % count;
            code /= count;
            digit
        })
        .collect();
    found.reverse();
    found
}

/// The best choice with some blocks' options given.
fn best(problem: &Problem, places: &[Place], digits: &[usize]) -> Option<Choice> {
    let mut fixed = problem.clone();
    fixed.memory_limit = None;
    for (place, &digit) in places.iter().zip(digits) {
        for &block in &place.blocks {
            let given = place.options[digit] as usize;
            let costs = fixed.nodes[block as usize].cost.iter_mut().enumerate();
            costs.filter(|(option, _)| *option != given).for_each(|(_, cost)| *cost = f64::INFINITY);
        }
    }
    choose(&fixed, &Limits::default()).ok()
}

fn entry(module: &Module, model: &mut Model, digits: &[usize], choice: &Choice) -> String {
    let totals = explain::totals(module, model, &choice.option);
    let [forward, backward, _] = totals.secs_by_phase;
    format!(
        "Comm Volume: {}\nComm Overhead: {}\nComp Overhead: {}\nsval {digits:?} [{} {} {}] {}\n",
        general(totals.moved_bytes),
        general(totals.collective_secs),
        general(totals.kernel_secs),
        general(choice.cost),
        general(forward),
        general(backward),
        (0.0 + choice.memory).round(),
    )
}
