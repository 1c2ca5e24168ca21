//! Sums that are still to be done: which ops may work on them, and where they have to be done.

use super::{Facts, Leaf, Loops, Problem};
use crate::partial::names;
use crate::pricing::{AxisMask, axes_of};
use phzc_ir::layout::AXIS_NAMES;
use phzc_ir::ops::linear::{Summands, is_zero};
use phzc_ir::{InstrId, Layout, Module, View};

/// What is wrong about an op whose operands are partial over these axes, each to be read after the op's name.
pub fn problems(view: &View, operands: &[AxisMask], result: AxisMask, loops: &Loops) -> Vec<String> {
    let read = operands.iter().fold(0, |all, axes| all | axes);
    axes_of(read).filter_map(|axis| problem(view, operands, (result, axis), loops)).collect()
}

fn problem(
    view: &View,
    operands: &[AxisMask],
    (result, axis): (AxisMask, usize),
    loops: &Loops,
) -> Option<String> {
    let is_held = |position: usize| operands[position] >> axis & 1 == 1;
    let over = format!("partial over `{}`", AXIS_NAMES[axis]);
    let first = (0..operands.len()).find(|&position| is_held(position))?;
    let is_nothing = |position: usize| is_zero(view.instrs, view.instr.operands[position]);
    if !is_linear(view, operands.len(), is_held, is_nothing) {
        return Some(format!(
            "cannot work on operand {first}, which is {over}: the sum has to be done before"
        ));
    }
    if loops.split[axis].is_some() {
        return Some(format!("is split over an axis on which operand {first} is {over}"));
    }
    let is_kept = result >> axis & 1 == 1;
    (!is_kept).then(|| format!("reads operand {first}, which is {over}, but its result is not"))
}

/// Whether an op is linear in the operands that are held; those that are nothing are summands of any sum.
pub fn is_linear(
    view: &View,
    n_leaves: usize,
    is_held: impl Fn(usize) -> bool,
    is_nothing: impl Fn(usize) -> bool,
) -> bool {
    // Operands that are tuples have no place in a set of summands.
    let is_flat = n_leaves == view.n_operands() && n_leaves <= Summands::BITS as usize;
    let fits = |summands: &Summands| {
        (0..n_leaves).all(|position| match summands >> position & 1 == 1 {
            true => is_held(position) || is_nothing(position),
            false => !is_held(position),
        })
    };
    is_flat && (view.instr.op.def().linear)(view).iter().any(fits)
}

/// The axes over which an op leaves the sums that it makes itself undone: those of its result that no operand
/// brings.
pub fn left(operands: &[AxisMask], results: &[Leaf]) -> AxisMask {
    let brought = operands.iter().fold(0, |all, axes| all | axes);
    let said = results.iter().fold(0, |all, leaf| all | leaf.partial);
    said & !brought
}

/// What a movement does to a partial value: the axes it scatters, those it reduces, and the layout after
/// both.
///
/// An axis can be scattered where its tiles are the next minor ones of their dimension.
pub fn reductions(from: Layout, to: Layout, partial: AxisMask) -> (AxisMask, AxisMask, Layout) {
    let mut at = from;
    let mut scattered = 0;
    for axis in axes_of(partial) {
        let Some(dim) = to.dim_of(axis) else { continue };
        let is_next = at.axes_of(dim).all(|other| other < axis)
            && to.axes_of(dim).filter(|&other| other < axis).all(|other| at.dim_of(other) == Some(dim));
        if is_next {
            (at, scattered) = (at.with(axis, Some(dim)), scattered | 1 << axis);
        }
    }
    (scattered, partial & !scattered, at)
}

/// Sums that the program starts or ends with.
pub fn ends(module: &Module, facts: &Facts) -> Vec<Problem> {
    let entry = module.entry();
    let given = entry.params().into_iter().map(|id| (id, "is a parameter"));
    let ends = given.chain([(entry.root, "is the program's result")]);
    let problem = |(id, what): (InstrId, &str)| {
        let leaves = &facts.comps[module.entry.index()][id.index()].leaves;
        let partial = leaves.iter().map(|leaf| leaf.partial).find(|&axes| axes != 0)?;
        let message = format!("`{}` {what}, but partial over `{}`", entry.instr(id).name, names(partial));
        Some(Problem { comp: module.entry, instr: id, is_fatal: true, message })
    };
    ends.filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_scattered_where_its_tiles_are_the_next_minor_ones() {
        let layout = |dims: [Option<usize>; 3]| {
            (0..3).fold(Layout::REPLICATED, |layout, axis| layout.with(axis, dims[axis]))
        };
        let done = |from, to, partial| reductions(layout(from), layout(to), partial);
        let (none, rows) = ([None; 3], [Some(0); 3]);
        // All three along the rows, in turn; the major ones have to be there.
        assert_eq!(done(none, rows, 0b111), (0b111, 0, layout(rows)));
        assert_eq!(done(none, rows, 0b110), (0, 0b110, layout(none)));
        assert_eq!(done([Some(0), None, None], rows, 0b110), (0b110, 0, layout(rows)));
        // A minor one is there already.
        assert_eq!(done([None, None, Some(0)], rows, 0b010), (0, 0b010, layout([None, None, Some(0)])));
        // An axis that splits nothing afterwards is reduced, one along another dimension is in nobody's way.
        assert_eq!(done([Some(1), None, None], [Some(1), Some(0), None], 0b110).0, 0b010);
    }
}
