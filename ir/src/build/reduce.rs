//! Reductions, and what is made of them.

use super::{Builder, dimensions};
use crate::attr::{Attr, Key, Value, Window, WindowDim, WindowKey};
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

    /// The elements of each window combined; `init` is what no elements make.
    pub fn reduce_window(&mut self, x: InstrId, init: f64, op: Opcode, window: &[WindowDim]) -> InstrId {
        let dtype = self.dtype(x);
        let init = self.scalar(dtype, init);
        let keys = [WindowKey::Size, WindowKey::Stride, WindowKey::Pad].into_iter().collect();
        let window = Window { dims: window.iter().copied().collect(), keys };
        let attrs = vec![
            Attr { key: Key::Window, value: Value::Window(Box::new(window)) },
            Attr { key: Key::ToApply, value: Value::Comp(self.reducer(op, dtype)) },
        ];
        self.op(Opcode::ReduceWindow, &[x, init], attrs)
    }

    /// Of each element the sum up to it along a dimension, itself included.
    pub fn cumsum(&mut self, x: InstrId, dim: usize) -> InstrId {
        let size = self.dims(x)[dim];
        let mut window = vec![WindowDim::default(); self.rank(x)];
        window[dim] = WindowDim { size, pad_low: size - 1, ..WindowDim::default() };
        self.reduce_window(x, 0.0, Opcode::Add, &window)
    }

    /// The first place of the largest along a dimension, an `s32`.
    pub fn argmax(&mut self, x: InstrId, dim: usize) -> InstrId {
        let (dtype, dims) = (self.dtype(x), self.dims(x));
        let places = self.iota(DType::S32, &dims, dim);
        let least = self.scalar(dtype, f64::NEG_INFINITY);
        let first = self.scalar(DType::S32, 0.0);
        let comp = self.larger(dtype);
        let attrs =
            vec![dimensions(Key::Dimensions, &[dim]), Attr { key: Key::ToApply, value: Value::Comp(comp) }];
        let both = self.op(Opcode::Reduce, &[x, places, least, first], attrs);
        self.element(both, 1)
    }

    /// Of two values with places the larger, of equal ones the first.
    fn larger(&mut self, dtype: DType) -> CompId {
        self.begin("argmax");
        let scalars = [("a", dtype), ("i", DType::S32), ("b", dtype), ("j", DType::S32)];
        let [a, i, b, j] = scalars.map(|(name, dtype)| self.parameter(name, Shape::array(dtype, &[])));
        let (more, equal) = (self.compare(a, b, "GT"), self.compare(a, b, "EQ"));
        let earlier = self.compare(i, j, "LT");
        let tie = self.and(equal, earlier);
        let is_first = self.or(more, tie);
        let (value, place) = (self.select(is_first, a, b), self.select(is_first, i, j));
        let both = self.tuple(&[value, place]);
        self.end(both)
    }
}
