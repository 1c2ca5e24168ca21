//! Axes that split nothing of a product: GSPMD's partitioner lets them take over what another axis leaves.

use super::partition::{Op, Split, has};
use phzc_ir::FactorId;

/// What becomes of a product's loops.
#[derive(Default)]
pub(super) struct Regrouped {
    /// An operand that idle axes split instead before it is gathered, and how, step by step.
    pub(super) via: Option<(usize, [Option<Split>; 2])>,
    /// An idle axis of which only a part is as large as the axis that it stands for: to be cut in two.
    pub(super) cut: Option<(usize, i64)>,
}

/// Lets the idle axes of a product take part in it, whose operands and result are split like this.
pub(super) fn regroup(op: &Op, held: &[Split], wanted: Split, split: &mut Split) -> Regrouped {
    let is_idle = |axis: &usize| split[*axis].is_none() && wanted[*axis].is_none();
    let idle: Vec<usize> = (0..op.flow.mesh.n_axes()).filter(is_idle).collect();
    let mut found = Regrouped::default();
    if idle.is_empty() {
        return found;
    }
    for axis in 0..op.flow.mesh.n_axes() {
        if let Some((slot, of)) = leaving(op, held, wanted, split, axis) {
            found.cut = cut(op, &idle, axis);
            if has(op.map(slot), split[axis].unwrap_or(of)) {
                found.via = swapped(op, (slot, of), held[slot], split, (axis, &idle));
                return found;
            }
            let mut moved = held[slot];
            moved[axis] = None;
            idle.iter().for_each(|&other| moved[other] = Some(of));
            if found.cut.is_some() || !op.is_whole(slot, moved) {
                return found;
            }
            match op.is_summed(of) && op.sums_less(slot, *split) {
                true => idle.iter().for_each(|&other| split[other] = Some(of)),
                false => found.via = Some((slot, [Some(moved), None])),
            }
            return found;
        }
        let is_scattered = split[axis].is_some_and(|of| op.is_summed(of)) && wanted[axis].is_some();
        if is_scattered {
            found.cut = cut(op, &idle, axis);
            let sizes = &op.flow.mesh.sizes;
            if let Some(&other) = idle.iter().find(|&&other| sizes[other] == sizes[axis]) {
                split[other] = wanted[axis];
            }
            return found;
        }
    }
    found
}

/// An operand that an axis splits along the wrong loop of two: an idle axis of its size splits the other one,
/// then they change places.
fn swapped(
    op: &Op,
    (slot, of): (usize, FactorId),
    held: Split,
    split: &Split,
    (axis, idle): (usize, &[usize]),
) -> Option<(usize, [Option<Split>; 2])> {
    let sizes = &op.flow.mesh.sizes;
    let &other = idle.iter().find(|&&other| sizes[other] == sizes[axis])?;
    let (mut first, mut second) = (held, held);
    first[other] = split[axis];
    (second[other], second[axis]) = (Some(of), split[axis]);
    (op.is_whole(slot, first) && op.is_whole(slot, second)).then_some((slot, [Some(first), Some(second)]))
}

/// The operand that an axis leaves because the other operand and the result are split along another loop.
fn leaving(op: &Op, held: &[Split], wanted: Split, split: &Split, axis: usize) -> Option<(usize, FactorId)> {
    let own = split[axis].filter(|&of| !op.is_summed(of) && wanted[axis] == Some(of))?;
    let is_held = held.iter().any(|split| split[axis] == Some(own));
    let leaves = |slot: usize| held[slot][axis].filter(|&of| is_held && of != own);
    (0..held.len()).find_map(|slot| Some((slot, leaves(slot)?)))
}

/// An idle axis that is a multiple of another, where none is of its size.
fn cut(op: &Op, idle: &[usize], axis: usize) -> Option<(usize, i64)> {
    let sizes = &op.flow.mesh.sizes;
    let size = sizes[axis];
    if op.flow.mesh.n_axes() == phzc_ir::MAX_AXES || idle.iter().any(|&other| sizes[other] == size) {
        return None;
    }
    idle.iter().find(|&&other| sizes[other] % size == 0).map(|&other| (other, size))
}
