//! Products of tensors.

use super::{Builder, dimensions};
use crate::attr::{Attr, DimLabels, Key, LabelledDims, Value, Window, WindowDim, WindowKey};
use crate::module::InstrId;
use crate::opcode::Opcode;

impl Builder {
    /// `dot`: batch dimensions, the left one's others, the right one's others.
    pub fn dot(
        &mut self,
        (lhs, rhs): (InstrId, InstrId),
        batch: (&[usize], &[usize]),
        contracting: (&[usize], &[usize]),
    ) -> InstrId {
        let mut attrs = Vec::new();
        if !batch.0.is_empty() {
            attrs.push(dimensions(Key::LhsBatchDims, batch.0));
            attrs.push(dimensions(Key::RhsBatchDims, batch.1));
        }
        attrs.push(dimensions(Key::LhsContractingDims, contracting.0));
        attrs.push(dimensions(Key::RhsContractingDims, contracting.1));
        self.op(Opcode::Dot, &[lhs, rhs], attrs)
    }

    /// The product that two lists of letters and a third describe: `bsh,hk->bsk`.
    ///
    /// A letter in all three is a batch dimension, one that the result lacks is summed over. Every letter of
    /// the result is in an operand, no operand repeats one, and those of one operand alone are in the result.
    pub fn einsum(&mut self, spec: &str, lhs: InstrId, rhs: InstrId) -> InstrId {
        let (inputs, out) = spec.split_once("->").expect("`a,b->c`");
        let (left, right) = inputs.split_once(',').expect("two operands");
        let both = |kept: bool| -> String {
            left.chars().filter(|&c| right.contains(c) && out.contains(c) == kept).collect()
        };
        let own = |a: &str, b: &str| -> String { a.chars().filter(|&c| !b.contains(c)).collect() };
        let (batch, summed) = (both(true), both(false));
        let made = format!("{batch}{}{}", own(left, right), own(right, left));
        let product = self.dot(
            (lhs, rhs),
            (&places(left, &batch), &places(right, &batch)),
            (&places(left, &summed), &places(right, &summed)),
        );
        assert_eq!(made.len(), out.len(), "`{spec}` is no product");
        self.transpose(product, &places(&made, out))
    }

    /// `convolution` of a `b…f` input with an `…io` kernel: batch first, features last (NHWC, HWIO).
    pub fn convolution(&mut self, x: InstrId, kernel: InstrId, window: &[WindowDim]) -> InstrId {
        let n = window.len();
        let keys = [WindowKey::Size, WindowKey::Stride, WindowKey::Pad];
        let window = Window { dims: window.iter().copied().collect(), keys: keys.into_iter().collect() };
        let digits: String = (0..n).map(|dim| dim.to_string()).collect();
        let spatial = |first: usize| (first..first + n).collect();
        let input = LabelledDims { major: 0, minor: n + 1, spatial: spatial(1) };
        let labels = DimLabels {
            lhs: input.clone(),
            rhs: LabelledDims { major: n + 1, minor: n, spatial: spatial(0) },
            out: input,
            text: format!("b{digits}f_{digits}io->b{digits}f").into(),
        };
        let attrs = vec![
            Attr { key: Key::Window, value: Value::Window(Box::new(window)) },
            Attr { key: Key::DimLabels, value: Value::DimLabels(Box::new(labels)) },
        ];
        self.op(Opcode::Convolution, &[x, kernel], attrs)
    }
}

/// Where the wanted letters stand.
fn places(letters: &str, wanted: &str) -> Vec<usize> {
    wanted.chars().filter_map(|letter| letters.find(letter)).collect()
}
