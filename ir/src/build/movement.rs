//! The same elements elsewhere.

use super::{Builder, dimensions};
use crate::attr::{Attr, Key, PadDim, SliceDim, Value};
use crate::module::InstrId;
use crate::opcode::Opcode;
use crate::shape::Shape;

impl Builder {
    /// The operand's dimension `d` at place `at[d]` of an array of these sizes.
    pub fn broadcast(&mut self, x: InstrId, dims: &[i64], at: &[usize]) -> InstrId {
        if *self.dims(x) == *dims {
            return x;
        }
        let shape = Shape::array(self.dtype(x), dims);
        self.shaped(Opcode::Broadcast, &[x], shape, vec![dimensions(Key::Dimensions, at)])
    }

    /// The operand's dimension `d` at place `at[d]` of an array of another's sizes.
    pub fn broadcast_like(&mut self, x: InstrId, like: InstrId, at: &[usize]) -> InstrId {
        let dims = self.dims(like);
        self.broadcast(x, &dims, at)
    }

    /// The same elements in other sizes.
    pub fn reshape(&mut self, x: InstrId, dims: &[i64]) -> InstrId {
        if *self.dims(x) == *dims {
            return x;
        }
        let shape = Shape::array(self.dtype(x), dims);
        self.shaped(Opcode::Reshape, &[x], shape, Vec::new())
    }

    /// Dimension `order[d]` of the operand at place `d`.
    pub fn transpose(&mut self, x: InstrId, order: &[usize]) -> InstrId {
        if order.iter().copied().eq(0..order.len()) {
            return x;
        }
        self.op(Opcode::Transpose, &[x], vec![dimensions(Key::Dimensions, order)])
    }

    /// The elements from `start` to before `limit` of every dimension.
    pub fn slice(&mut self, x: InstrId, starts: &[i64], limits: &[i64]) -> InstrId {
        let bounds = starts.iter().zip(limits);
        let dims = bounds.map(|(&start, &limit)| SliceDim { start, limit, stride: 1 }).collect();
        self.op(Opcode::Slice, &[x], vec![Attr { key: Key::Slice, value: Value::Slices(dims) }])
    }

    /// The elements from `start` to before `limit` of one dimension.
    pub fn slice_in(&mut self, x: InstrId, dim: usize, start: i64, limit: i64) -> InstrId {
        let mut limits = self.dims(x);
        if (start, limit) == (0, limits[dim]) {
            return x;
        }
        let mut starts = vec![0; limits.len()];
        (starts[dim], limits[dim]) = (start, limit);
        self.slice(x, &starts, &limits)
    }

    /// With elements of `value`, a scalar, before, after and between.
    pub fn pad(&mut self, x: InstrId, value: InstrId, dims: &[PadDim]) -> InstrId {
        let padding = Attr { key: Key::Padding, value: Value::Padding(dims.iter().copied().collect()) };
        self.op(Opcode::Pad, &[x, value], vec![padding])
    }

    /// One after another along a dimension.
    pub fn concatenate(&mut self, parts: &[InstrId], dim: usize) -> InstrId {
        self.op(Opcode::Concatenate, parts, vec![dimensions(Key::Dimensions, &[dim])])
    }

    /// The elements of some dimensions in the opposite order.
    pub fn reverse(&mut self, x: InstrId, dims: &[usize]) -> InstrId {
        self.op(Opcode::Reverse, &[x], vec![dimensions(Key::Dimensions, dims)])
    }
}
