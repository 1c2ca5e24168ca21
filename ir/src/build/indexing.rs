//! Elements at computed places.

use super::{Builder, dimensions, ints};
use crate::attr::{Attr, Key, Value};
use crate::module::InstrId;
use crate::opcode::Opcode;

impl Builder {
    /// `sizes` elements from computed places on, one scalar start per dimension.
    pub fn dynamic_slice(&mut self, x: InstrId, starts: &[InstrId], sizes: &[i64]) -> InstrId {
        let operands: Vec<InstrId> = std::iter::once(x).chain(starts.iter().copied()).collect();
        self.op(Opcode::DynamicSlice, &operands, vec![ints(Key::DynamicSliceSizes, sizes.iter().copied())])
    }

    /// The array with `update` from computed places on.
    pub fn dynamic_update_slice(&mut self, x: InstrId, update: InstrId, starts: &[InstrId]) -> InstrId {
        let operands: Vec<InstrId> = [x, update].into_iter().chain(starts.iter().copied()).collect();
        self.op(Opcode::DynamicUpdateSlice, &operands, Vec::new())
    }

    /// Part `index` of a stack along dimension 0, without that dimension.
    pub fn unstack(&mut self, stack: InstrId, index: InstrId) -> InstrId {
        let mut dims = self.dims(stack);
        dims[0] = 1;
        let starts = self.first_starts(stack, index);
        let part = self.dynamic_slice(stack, &starts, &dims);
        self.reshape(part, &dims[1..])
    }

    /// A stack along dimension 0 with its part `index` replaced.
    pub fn restack(&mut self, stack: InstrId, part: InstrId, index: InstrId) -> InstrId {
        let mut dims = self.dims(stack);
        dims[0] = 1;
        let part = self.reshape(part, &dims);
        let starts = self.first_starts(stack, index);
        self.dynamic_update_slice(stack, part, &starts)
    }

    fn first_starts(&mut self, stack: InstrId, index: InstrId) -> Vec<InstrId> {
        let (dtype, rank) = (self.dtype(index), self.rank(stack));
        let zero = self.scalar(dtype, 0.0);
        (0..rank).map(|dim| if dim == 0 { index } else { zero }).collect()
    }

    /// Rows of a table: `table[ids]`, the sizes of `ids` and then those of a row.
    pub fn take_rows(&mut self, table: InstrId, ids: InstrId) -> InstrId {
        let (rank, mut sizes) = (self.rank(ids), self.dims(table));
        sizes[0] = 1;
        let offsets: Vec<usize> = (rank..rank + sizes.len() - 1).collect();
        let attrs = vec![
            dimensions(Key::OffsetDims, &offsets),
            dimensions(Key::CollapsedSliceDims, &[0]),
            dimensions(Key::StartIndexMap, &[0]),
            Attr { key: Key::IndexVectorDim, value: Value::Int(rank as i64) },
            ints(Key::SliceSizes, sizes),
        ];
        self.op(Opcode::Gather, &[table, ids], attrs)
    }

    /// Rows of a table per sample: of `[batch, rows, width]` and `[batch, n]` of row numbers `[batch, n,
    /// width]`.
    pub fn take_rows_of_each(&mut self, tables: InstrId, ids: InstrId) -> InstrId {
        let width = self.dims(tables)[2];
        let attrs = vec![
            dimensions(Key::OffsetDims, &[2]),
            dimensions(Key::CollapsedSliceDims, &[1]),
            dimensions(Key::StartIndexMap, &[1]),
            dimensions(Key::OperandBatchingDims, &[0]),
            dimensions(Key::StartIndicesBatchingDims, &[0]),
            Attr { key: Key::IndexVectorDim, value: Value::Int(2) },
            ints(Key::SliceSizes, [1, 1, width]),
        ];
        self.op(Opcode::Gather, &[tables, ids], attrs)
    }

    /// `[batch, places]` with `[batch, n]` values added at computed places; those out of range are dropped.
    pub fn add_at(&mut self, x: InstrId, places: InstrId, values: InstrId) -> InstrId {
        let reducer = self.reducer(Opcode::Add, self.dtype(x));
        let attrs = vec![
            dimensions(Key::UpdateWindowDims, &[]),
            dimensions(Key::InsertedWindowDims, &[1]),
            dimensions(Key::ScatterDimsToOperandDims, &[1]),
            dimensions(Key::InputBatchingDims, &[0]),
            dimensions(Key::ScatterIndicesBatchingDims, &[0]),
            Attr { key: Key::IndexVectorDim, value: Value::Int(2) },
            Attr { key: Key::ToApply, value: Value::Comp(reducer) },
        ];
        self.op(Opcode::Scatter, &[x, places, values], attrs)
    }
}
