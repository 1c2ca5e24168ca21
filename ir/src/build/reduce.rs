//! Reductions, and what is made of them.

use super::{Builder, dimensions};
use crate::attr::{Attr, Key, Value};
use crate::dtype::{Class, DType};
use crate::module::{CompId, InstrId};
use crate::opcode::Opcode;
use crate::shape::Shape;

impl Builder {
    /// The computation of two scalars that applies this opcode.
    pub fn reducer(&mut self, op: Opcode, dtype: DType) -> CompId {
        if let Some(&comp) = self.reducers.get(&(op, dtype)) {
            return comp;
        }
        self.begin(&format!("{}_{}", op.as_str(), dtype.as_str()));
        let [a, b] = ["a", "b"].map(|name| self.parameter(name, Shape::array(dtype, &[])));
        let root = self.op(op, &[a, b], Vec::new());
        let comp = self.end(root);
        self.reducers.insert((op, dtype), comp);
        comp
    }

    /// The elements along some dimensions combined; `init` is what no elements make.
    pub fn reduce(&mut self, x: InstrId, init: f64, op: Opcode, dims: &[usize]) -> InstrId {
        if dims.is_empty() {
            return x;
        }
        let dtype = self.dtype(x);
        let init = self.scalar(dtype, init);
        let comp = Attr { key: Key::ToApply, value: Value::Comp(self.reducer(op, dtype)) };
        self.op(Opcode::Reduce, &[x, init], vec![dimensions(Key::Dimensions, dims), comp])
    }

    /// The sum along some dimensions.
    pub fn sum(&mut self, x: InstrId, dims: &[usize]) -> InstrId {
        self.reduce(x, 0.0, Opcode::Add, dims)
    }

    /// The largest along some dimensions.
    pub fn max_of(&mut self, x: InstrId, dims: &[usize]) -> InstrId {
        let least = match self.dtype(x).class() {
            Class::Float => f64::NEG_INFINITY,
            Class::Signed => -(2f64.powi(self.dtype(x).bits() as i32 - 1)),
            _ => 0.0,
        };
        self.reduce(x, least, Opcode::Maximum, dims)
    }

    /// The mean along some dimensions.
    pub fn mean(&mut self, x: InstrId, dims: &[usize]) -> InstrId {
        let n: i64 = dims.iter().map(|&dim| self.dims(x)[dim]).product();
        let sum = self.sum(x, dims);
        let n = self.full_like(sum, n as f64);
        self.div(sum, n)
    }
}
