//! Axes that split nothing of a product: GSPMD's partitioner lets them take over what another axis has to leave.

use super::partition::{Op, Split, has};
use phzc_ir::FactorId;

/// What becomes of a product's loops.
#[derive(Default)]
pub(super) struct Regrouped {
    /// An operand that idle axes split instead before it is gathered.
    pub(super) via: Option<(usize, Split)>,
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
            let mut moved = held[slot];
            moved[axis] = None;
            idle.iter().for_each(|&other| moved[other] = Some(of));
            if found.cut.is_some() || !op.is_whole(slot, moved) {
                return found;
            }
            match op.is_summed(of) {
                true => idle.iter().for_each(|&other| split[other] = Some(of)),
                false => found.via = Some((slot, moved)),
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

/// The operand that an axis leaves because the result is split along a loop that only the other operand has.
fn leaving(op: &Op, held: &[Split], wanted: Split, split: &Split, axis: usize) -> Option<(usize, FactorId)> {
    let own = split[axis].filter(|&of| !op.is_summed(of) && wanted[axis] == Some(of))?;
    let leaves = |slot: usize| held[slot][axis].filter(|&of| of != own && !has(op.map(slot), own));
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
