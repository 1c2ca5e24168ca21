//! Constants, and arrays that are made of nothing.

use super::Builder;
use crate::attr::{Attr, Key, Value};
use crate::dtype::{Class, DType};
use crate::module::{Instr, InstrId, Payload};
use crate::opcode::Opcode;
use crate::shape::Shape;

impl Builder {
    /// A constant, as its literal says it: `{1, 2}`. Equal ones are made once per computation.
    pub fn literal(&mut self, dtype: DType, dims: &[i64], text: &str) -> InstrId {
        let key = (dtype, text.into());
        let known = dims.is_empty().then(|| self.frame().constants.get(&key).copied()).flatten();
        known.unwrap_or_else(|| {
            let name = self.new_name("constant");
            let shape = Shape::array(dtype, dims);
            let instr = self.instruction(name, Opcode::Constant, &[], shape, Vec::new());
            let id = self.push(Instr { payload: Payload::Literal(text.into()), ..instr });
            if dims.is_empty() {
                self.frame().constants.insert(key, id);
            }
            id
        })
    }

    /// A scalar.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> InstrId {
        self.literal(dtype, &[], &literal(dtype, value))
    }

    /// An array of equal elements.
    pub fn full(&mut self, dtype: DType, dims: &[i64], value: f64) -> InstrId {
        let scalar = self.scalar(dtype, value);
        self.broadcast(scalar, dims, &[])
    }

    /// An array of equal elements, of the type and sizes of another.
    pub fn full_like(&mut self, like: InstrId, value: f64) -> InstrId {
        let (dtype, dims) = (self.dtype(like), self.dims(like));
        self.full(dtype, &dims, value)
    }

    /// 0, 1, 2, … along one dimension.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], along: usize) -> InstrId {
        let along = Attr { key: Key::IotaDimension, value: Value::Int(along as i64) };
        self.shaped(Opcode::Iota, &[], Shape::array(dtype, dims), vec![along])
    }
}

/// A number as HLO text writes it.
pub fn literal(dtype: DType, value: f64) -> String {
    match dtype.class() {
        Class::Bool => (value != 0.0).to_string(),
        Class::Float | Class::Complex if value.is_nan() => "nan".to_owned(),
        Class::Float | Class::Complex if value.is_infinite() => {
            if value > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        Class::Complex => format!("({value}, 0)"),
        Class::Float if value == value.trunc() && value.abs() < 1e9 => format!("{value}"),
        Class::Float => format!("{value:?}"),
        _ => format!("{}", value as i64),
    }
}
