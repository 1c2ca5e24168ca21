//! Ops whose part is more than the same op on parts: positions, constants, look-ups and updates in split
//! dimensions.

use super::lookups::{self, Span};
use super::lower::{Lowerer, Op};
use super::operands::axes_of_loop;
use super::refuse;
use phzc_ir::{Dims, FactorKind, InstrId, Key, Result, Shape, TensorMap, View};
use smallvec::SmallVec;

impl Lowerer<'_> {
    pub(super) fn iota(&mut self, op: &Op, shape: Shape) -> InstrId {
        let dim = op.view.instr.int(Key::IotaDimension).unwrap_or(0) as usize;
        let spans = spans(op, &op.rule.results[0], |_| true);
        match (spans.into_iter().nth(dim).flatten(), shape.as_array()) {
            (Some(span), Some(array)) => lookups::iota(self.build(), (array.dtype, &array.dims), dim, &span),
            _ => self.plain(op, &[], shape),
        }
    }

    pub(super) fn constant(&mut self, op: &Op, shape: Shape) -> Result<InstrId> {
        let instr = op.view.instr;
        match shape.as_array().filter(|_| shape != instr.shape) {
            None => Ok(self.plain(op, &[], shape)),
            Some(array) => {
                let element = phzc_ir::ops::literal::splat(instr);
                let element = element.ok_or_else(|| refuse(instr, "is split, but its elements differ"))?;
                Ok(lookups::splat(self.build(), (array.dtype, &array.dims), element))
            }
        }
    }

    pub(super) fn gather(&mut self, op: &Op, operands: &[InstrId], shape: Shape) -> InstrId {
        let reduces = |factor: u32| matches!(op.rule.factors[factor as usize].kind, FactorKind::Reduce(_));
        let spans = spans(op, &op.rule.operands[0], reduces);
        if spans.iter().all(Option::is_none) {
            return self.plain(op, operands, shape);
        }
        let global = global_dims(&op.view, 0);
        let instr = op.view.instr;
        let (indices, mask) = lookups::gather_indices(self.build(), instr, operands[1], &global, &spans);
        let gathered = self.plain(op, &[operands[0], indices], shape);
        self.without_promises(gathered);
        lookups::masked(self.build(), instr, gathered, mask)
    }

    pub(super) fn scatter(&mut self, op: &Op, operands: &[InstrId], shape: Shape) -> InstrId {
        let looked_up = op.view.instr.ints(Key::InsertedWindowDims);
        let indexed = op.view.instr.ints(Key::ScatterDimsToOperandDims);
        let mut spans = spans(op, &op.rule.operands[0], |_| true);
        for (dim, span) in spans.iter_mut().enumerate() {
            let dim = dim as i64;
            *span = span.take().filter(|_| looked_up.contains(&dim) && indexed.contains(&dim));
        }
        let mut operands = self.counted_once(op, operands);
        if spans.iter().all(Option::is_none) {
            return self.plain(op, &operands, shape);
        }
        let at = operands.len() / 2;
        let global = global_dims(&op.view, 0);
        operands[at] = lookups::scatter_indices(self.build(), op.view.instr, operands[at], &global, &spans);
        let made = self.plain(op, &operands, shape);
        self.without_promises(made);
        made
    }

    /// The operands of a scatter whose look-ups are split: one device starts from the arrays' own values.
    fn counted_once(&mut self, op: &Op, operands: &[InstrId]) -> Vec<InstrId> {
        let n_arrays = operands.len() / 2;
        let reduces = |factor: u32| matches!(op.rule.factors[factor as usize].kind, FactorKind::Reduce(_));
        let spans = spans(op, &op.rule.operands[n_arrays], reduces);
        let axes: Vec<usize> = spans.into_iter().flatten().flat_map(|span| span.axes).collect();
        let mut operands = operands.to_vec();
        if axes.is_empty() {
            return operands;
        }
        for (at, operand) in operands.iter_mut().enumerate().take(n_arrays) {
            if let Some(reducer) = phzc_ir::ops::counted_once(&op.view, at) {
                *operand = lookups::on_first(self.build(), *operand, &axes, reducer);
            }
        }
        operands
    }

    /// Indices that were moved are no longer sorted, nor unique outside of the array.
    fn without_promises(&mut self, id: InstrId) {
        let attrs = &mut self.build().instrs[id.index()].attrs;
        attrs.retain(|attr| !matches!(attr.key, Key::IndicesAreSorted | Key::UniqueIndices));
    }

    pub(super) fn update(&mut self, op: &Op, operands: &[InstrId], shape: Shape) -> InstrId {
        let (array, update) = (global_dims(&op.view, 0), global_dims(&op.view, 1));
        let mut spans = spans(op, &op.rule.results[0], |_| true);
        for (dim, span) in spans.iter_mut().enumerate() {
            *span = span.take().filter(|_| update[dim] != array[dim]);
        }
        if spans.iter().all(Option::is_none) {
            return self.plain(op, operands, shape);
        }
        let starts = lookups::scalar_starts(self.build(), &operands[2..], array.len());
        lookups::update(self.build(), (operands[0], operands[1]), &starts, &spans)
    }
}

/// Sizes of an operand in the whole program.
fn global_dims(view: &View, index: usize) -> Dims {
    view.operand_shape(index).and_then(Shape::as_array).map_or_else(Dims::new, |array| array.dims.clone())
}

/// Per dimension of a tensor of one loop each: how it is split, if it is and `wanted` says so of its loop.
fn spans(op: &Op, map: &TensorMap, wanted: impl Fn(u32) -> bool) -> Vec<Option<Span>> {
    let span = |factors: &SmallVec<[u32; 2]>| {
        let factor = *factors.first().filter(|&&factor| wanted(factor))?;
        let axes = axes_of_loop(&op.loops, factor, op.mesh);
        let global = op.rule.factors[factor as usize].size;
        let n_tiles: i64 = axes.iter().map(|&axis| op.mesh.sizes[axis]).product();
        (!axes.is_empty()).then(|| Span { axes, global, local: global / n_tiles })
    };
    map.iter().map(span).collect()
}
