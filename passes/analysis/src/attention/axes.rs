//! What the dimensions of an attention's values run over, and how that goes through an instruction.

use phzc_ir::eval::is_elementwise;
use phzc_ir::ops::reshape::factorize;
use phzc_ir::{ArrayShape, AttentionLoop, Computation, Instr, Key, Opcode};
use smallvec::SmallVec;

/// What a dimension runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Sequences, heads, or several things at once.
    Other,
    /// Queries.
    Query,
    /// Keys.
    Key,
    /// One element.
    One,
}

/// The dimensions of a value.
pub type Axes = SmallVec<[Axis; 5]>;

/// Whether a value has an element per query and key.
pub fn has_keys(axes: &Axes) -> bool {
    axes.contains(&Axis::Key)
}

fn array(instr: &Instr) -> Option<&ArrayShape> {
    instr.shape.as_array()
}

/// Whether the result at an index depends on the operands at that index.
pub fn is_by_element(instr: &Instr) -> bool {
    is_elementwise(instr.op) || matches!(instr.op, Opcode::Convert | Opcode::Copy)
}

/// The axes of a result by those of one operand; none if they cannot be told.
pub fn through(
    comp: &Computation,
    instr: &Instr,
    slot: usize,
    axes: &Axes,
    key_sizes: &[i64],
) -> Option<Axes> {
    let (from, to) = (array(comp.instr(instr.operands[slot]))?, array(instr)?);
    match instr.op {
        Opcode::Transpose => {
            instr.ints(Key::Dimensions).iter().map(|&dim| axes.get(dim as usize).copied()).collect()
        }
        Opcode::Reshape | Opcode::Bitcast => regrouped(&from.dims, &to.dims, axes),
        Opcode::Broadcast => Some(repeated(instr, to, axes, key_sizes)),
        Opcode::Reduce if slot == 0 && instr.operands.len() == 2 => summed(instr, axes),
        _ if is_by_element(instr) && from.dims == to.dims => Some(axes.clone()),
        _ => None,
    }
}

/// The axes of an operand by those of the result.
pub fn back_through(comp: &Computation, instr: &Instr, slot: usize, axes: &Axes) -> Option<Axes> {
    let (from, to) = (array(comp.instr(instr.operands[slot]))?, array(instr)?);
    match instr.op {
        Opcode::Transpose => {
            let mut found = axes.clone();
            for (at, &dim) in instr.ints(Key::Dimensions).iter().enumerate() {
                *found.get_mut(dim as usize)? = *axes.get(at)?;
            }
            Some(found)
        }
        Opcode::Reshape | Opcode::Bitcast => regrouped(&to.dims, &from.dims, axes),
        _ if is_by_element(instr) && from.dims == to.dims => Some(axes.clone()),
        _ => None,
    }
}

/// Axes behind a reshape: keys stay by themselves, what else meets in one dimension is several things.
fn regrouped(from: &[i64], to: &[i64], axes: &Axes) -> Option<Axes> {
    if from.iter().product::<i64>() != to.iter().product::<i64>() {
        return None;
    }
    let pieces = factorize(from, to);
    let is_lost = |dim: usize| {
        let mut lost = pieces.iter().filter(|piece| piece.input == Some(dim) && piece.output.is_none());
        lost.any(|piece| piece.size > 1)
    };
    if (0..from.len()).any(|dim| axes.get(dim) == Some(&Axis::Key) && is_lost(dim)) {
        return None;
    }
    let of = |dim: usize| {
        let own = pieces.iter().filter(|piece| piece.output == Some(dim) && piece.size > 1);
        let mut axes = own.map(|piece| piece.input.and_then(|from| axes.get(from).copied()));
        let Some(first) = axes.next() else { return Some(Axis::One) };
        let (mut is_mixed, mut has_key) = (first.is_none(), first == Some(Axis::Key));
        for axis in axes {
            is_mixed |= axis != first;
            has_key |= axis == Some(Axis::Key);
        }
        match first.filter(|_| !is_mixed) {
            Some(axis) => Some(axis),
            None if has_key => None,
            None => Some(Axis::Other),
        }
    };
    (0..to.len()).map(of).collect()
}

/// Axes of a broadcast: what is repeated along a dimension as long as that of keys is repeated for all keys.
fn repeated(instr: &Instr, to: &ArrayShape, axes: &Axes, key_sizes: &[i64]) -> Axes {
    let dims = instr.ints(Key::Dimensions);
    let of = |dim: usize| match dims.iter().position(|&own| own as usize == dim) {
        Some(at) => axes.get(at).copied().unwrap_or(Axis::Other),
        None if !has_keys(axes) && key_sizes.contains(&to.dims[dim]) => Axis::Key,
        None => Axis::Other,
    };
    let found: Axes = (0..to.dims.len()).map(of).collect();
    // The last is that of keys where queries are as many.
    let last = found.iter().enumerate().rposition(|(dim, axis)| is_new(dims, dim) && *axis == Axis::Key);
    let keep = |(dim, axis): (usize, Axis)| match axis == Axis::Key && is_new(dims, dim) && Some(dim) != last
    {
        true => Axis::Other,
        false => axis,
    };
    found.into_iter().enumerate().map(keep).collect()
}

fn is_new(dims: &[i64], dim: usize) -> bool {
    !dims.contains(&(dim as i64))
}

/// Axes of a reduction over all keys and nothing else, or of a row over dimensions of one element, as JAX
/// writes the gradient of a row that is repeated.
fn summed(instr: &Instr, axes: &Axes) -> Option<Axes> {
    let is_summed = |dim: usize| instr.ints(Key::Dimensions).contains(&(dim as i64));
    let (summed, kept): (Vec<_>, Vec<_>) = axes.iter().enumerate().partition(|(dim, _)| is_summed(*dim));
    let is_over_keys = summed.iter().all(|(_, axis)| matches!(axis, Axis::Key | Axis::One));
    let found: Axes = kept.into_iter().map(|(_, axis)| *axis).collect();
    (is_over_keys && !has_keys(&found)).then_some(found)
}

/// The dimensions of one operand of a dot: batches, sums and the others.
fn dot_dims(instr: &Instr, slot: usize, rank: usize) -> [Vec<usize>; 3] {
    let [batch, sums] = match slot {
        0 => [Key::LhsBatchDims, Key::LhsContractingDims],
        _ => [Key::RhsBatchDims, Key::RhsContractingDims],
    };
    let of = |key: Key| instr.ints(key).iter().map(|&dim| dim as usize).collect::<Vec<_>>();
    let (batch, sums) = (of(batch), of(sums));
    let free = (0..rank).filter(|dim| !batch.contains(dim) && !sums.contains(dim)).collect();
    [batch, sums, free]
}

fn free_dims(comp: &Computation, instr: &Instr, slot: usize) -> Option<Vec<usize>> {
    let rank = array(comp.instr(*instr.operands.get(slot)?))?.rank();
    let [_, _, free] = dot_dims(instr, slot, rank);
    Some(free)
}

/// The axes of a product of queries and keys, the latter being operand `keys`; and the sizes of keys. None
/// if it has no batches, as products with weights have none, or no keys.
pub fn scores(comp: &Computation, instr: &Instr, keys: usize) -> Option<(Axes, Vec<i64>)> {
    let n_batches = instr.ints(Key::LhsBatchDims).len();
    let free = [free_dims(comp, instr, 0)?, free_dims(comp, instr, 1)?];
    if n_batches == 0 || free[keys].is_empty() {
        return None;
    }
    let side = |slot: usize| {
        let axis = if slot == keys { Axis::Key } else { Axis::Query };
        std::iter::repeat_n(axis, free[slot].len())
    };
    let axes: Axes = std::iter::repeat_n(Axis::Other, n_batches).chain(side(0)).chain(side(1)).collect();
    let sizes = array(instr)?.dims.iter().zip(&axes).filter(|(_, axis)| **axis == Axis::Key);
    let sizes = sizes.map(|(&size, _)| size).collect();
    Some((axes, sizes))
}

/// The loops of a product that makes scores, or as many values.
pub fn loops_to(comp: &Computation, instr: &Instr, axes: &Axes) -> Option<[AttentionLoop; 3]> {
    use AttentionLoop::{Head, Keys, Queries};
    let n_batches = instr.ints(Key::LhsBatchDims).len();
    let rows = free_dims(comp, instr, 0)?.len();
    let is_by_key = axes.iter().skip(n_batches).take(rows).any(|axis| *axis == Axis::Key);
    Some(if is_by_key { [Keys, Queries, Head] } else { [Queries, Keys, Head] })
}

/// The loops of a product that reads scores, or as many values, as operand `slot`.
pub fn loops_from(comp: &Computation, instr: &Instr, slot: usize, axes: &Axes) -> Option<[AttentionLoop; 3]> {
    use AttentionLoop::{Head, Keys, Queries};
    let rank = array(comp.instr(instr.operands[slot]))?.rank();
    let [_, sums, free] = dot_dims(instr, slot, rank);
    let of = |dims: &[usize]| dims.iter().map(|&dim| axes.get(dim).copied()).collect::<Option<Axes>>();
    let (sums, free) = (of(&sums)?, of(&free)?);
    let is_key = |axis: &Axis| matches!(axis, Axis::Key | Axis::One);
    let (own, sums) = match (has_keys(&sums), has_keys(&free)) {
        (true, false) if sums.iter().all(is_key) => (Queries, Keys),
        (false, true) => (Keys, Queries),
        _ => return None,
    };
    Some(if slot == 0 { [own, Head, sums] } else { [Head, own, sums] })
}
