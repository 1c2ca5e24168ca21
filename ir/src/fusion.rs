//! How an op meets memory: which kernels it can be a part of, and what it touches of its operands.

use std::ops::Range;

/// What fusion does with an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionKind {
    /// Names values: no work, and its readers find its operands' buffers.
    Control,
    /// The same elements in another shape or order: free on a value in memory, else part of its maker's
    /// kernel.
    View,
    /// Made from nothing or from little wherever it is read: `iota`, `broadcast`.
    Free,
    /// Elementwise or moves elements: fuses with makers and with readers.
    Loop,
    /// Fuses with its makers; its result goes to memory.
    Root,
    /// A kernel of its own: reads and writes memory.
    Opaque,
    /// A kernel of its own on the matrix units.
    Matrix,
}

/// What an op reads and writes, as in XLA's `HloCostAnalysis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// All of its operands and its result.
    Whole,
    /// Of its first operand as much as its result has: slices and gathers.
    Part,
    /// In place, what operand 1 replaces: `dynamic-update-slice`.
    Update,
    /// In place, what the updates combine with: `scatter` of arrays, indices, updates.
    Scatter,
}

impl Touch {
    /// Bytes that one execution moves between memory and a device's cores.
    ///
    /// `operands`: bytes per operand, 0 for one that is not in memory. `updates`: bytes of the operands at
    /// [`Touch::updates`], in memory or not. `result`: bytes of the result; `writes` says whether it goes to
    /// memory. Scalar starts of an update are not counted.
    pub fn bytes(self, operands: &[f64], updates: f64, result: f64, writes: bool) -> f64 {
        let all = |operands: &[f64]| operands.iter().sum::<f64>();
        let written = if writes { result } else { 0.0 };
        let read = || all(operands.get(self.updates(operands.len())).unwrap_or_default());
        match (self, operands) {
            (Touch::Part, [source, indices @ ..]) => source.min(result) + all(indices) + written,
            (Touch::Update, _) => read() + updates,
            (Touch::Scatter, _) => {
                let indices = operands.get(operands.len() / 2).copied().unwrap_or(0.0);
                indices + read() + 2.0 * updates
            }
            _ => all(operands) + written,
        }
    }

    /// The operands, of so many, that are written into others in place.
    pub fn updates(self, n_operands: usize) -> Range<usize> {
        match self {
            Touch::Update => 1..n_operands.min(2),
            Touch::Scatter => n_operands / 2 + 1..n_operands,
            Touch::Whole | Touch::Part => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::opcode::Opcode;

    fn bytes_with(op: Opcode, read: &[f64], whole: &[f64], result: f64, writes: bool) -> f64 {
        let touch = op.def().touch;
        touch.bytes(read, whole[touch.updates(whole.len())].iter().sum(), result, writes)
    }

    #[test]
    fn what_replaces_a_part_is_written_also_if_it_is_made_in_the_same_kernel() {
        let (update, scatter) = (Opcode::DynamicUpdateSlice, Opcode::Scatter);
        assert_eq!(bytes_with(update, &[100.0, 0.0, 4.0], &[100.0, 10.0, 4.0], 100.0, true), 10.0);
        assert_eq!(bytes_with(scatter, &[100.0, 4.0, 0.0], &[100.0, 4.0, 10.0], 100.0, true), 24.0);
    }

    #[test]
    fn a_slice_reads_what_it_takes_and_an_update_writes_what_it_changes() {
        let bytes =
            |op: Opcode, operands: &[f64], result, writes| bytes_with(op, operands, operands, result, writes);
        assert_eq!(bytes(Opcode::DynamicSlice, &[100.0, 4.0], 10.0, true), 24.0);
        assert_eq!(bytes(Opcode::DynamicUpdateSlice, &[100.0, 10.0, 4.0], 100.0, true), 20.0);
        assert_eq!(bytes(Opcode::Scatter, &[100.0, 4.0, 10.0], 100.0, true), 34.0);
        assert_eq!(bytes(Opcode::Scatter, &[100.0, 90.0, 4.0, 10.0, 20.0], 100.0, true), 4.0 + 3.0 * 30.0);
        assert_eq!(bytes(Opcode::Add, &[8.0, 0.0], 8.0, false), 8.0);
        assert_eq!(bytes(Opcode::Add, &[8.0, 3.0], 8.0, true), 19.0);
    }
}
