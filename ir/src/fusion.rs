//! How an op meets memory: which kernels it can be a part of, and what it touches of its operands.

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
    /// `operands`: bytes per operand, 0 for one that is not in memory. `result`: bytes of the result;
    /// `writes` says whether it goes to memory. Scalar starts of an update are not counted.
    pub fn bytes(self, operands: &[f64], result: f64, writes: bool) -> f64 {
        let all = |operands: &[f64]| operands.iter().sum::<f64>();
        let written = if writes { result } else { 0.0 };
        match (self, operands) {
            (Touch::Part, [source, indices @ ..]) => source.min(result) + all(indices) + written,
            (Touch::Update, [_, update, ..]) => 2.0 * update,
            (Touch::Scatter, _) => {
                let (_, rest) = operands.split_at(operands.len() / 2);
                let indices = rest.first().copied().unwrap_or(0.0);
                indices + 3.0 * all(rest.get(1..).unwrap_or_default())
            }
            _ => all(operands) + written,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::opcode::Opcode;

    #[test]
    fn a_slice_reads_what_it_takes_and_an_update_writes_what_it_changes() {
        let bytes =
            |op: Opcode, operands: &[f64], result, writes| op.def().touch.bytes(operands, result, writes);
        assert_eq!(bytes(Opcode::DynamicSlice, &[100.0, 4.0], 10.0, true), 24.0);
        assert_eq!(bytes(Opcode::DynamicUpdateSlice, &[100.0, 10.0, 4.0], 100.0, true), 20.0);
        assert_eq!(bytes(Opcode::Scatter, &[100.0, 4.0, 10.0], 100.0, true), 34.0);
        assert_eq!(bytes(Opcode::Scatter, &[100.0, 90.0, 4.0, 10.0, 20.0], 100.0, true), 4.0 + 3.0 * 30.0);
        assert_eq!(bytes(Opcode::Add, &[8.0, 0.0], 8.0, false), 8.0);
        assert_eq!(bytes(Opcode::Add, &[8.0, 3.0], 8.0, true), 19.0);
    }
}
