//! Arithmetic element by element.

use super::{Builder, word};
use crate::attr::Key;
use crate::dtype::DType;
use crate::module::InstrId;
use crate::opcode::Opcode;
use crate::shape::Shape;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $op:ident,)*) => {
        impl Builder {
            $($(#[$doc])* pub fn $name(&mut self, x: InstrId) -> InstrId {
                self.op(Opcode::$op, &[x], Vec::new())
            })*
        }
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $op:ident,)*) => {
        impl Builder {
            $($(#[$doc])* pub fn $name(&mut self, a: InstrId, b: InstrId) -> InstrId {
                self.op(Opcode::$op, &[a, b], Vec::new())
            })*
        }
    };
}

unary! {
    /// −x.
    neg Negate,
    /// eˣ.
    exp Exponential,
    /// Natural logarithm.
    log Log,
    /// Hyperbolic tangent.
    tanh Tanh,
    /// Square root.
    sqrt Sqrt,
    /// 1/√x.
    rsqrt Rsqrt,
    /// 1/(1 + e⁻ˣ).
    logistic Logistic,
    /// |x|.
    abs Abs,
    /// −1, 0 or 1.
    sign Sign,
    /// Cosine.
    cos Cosine,
    /// Sine.
    sin Sine,
    /// Error function.
    erf Erf,
    /// Logical or bitwise complement.
    not Not,
}

binary! {
    /// a + b.
    add Add,
    /// a − b.
    sub Subtract,
    /// a·b.
    mul Multiply,
    /// a/b.
    div Divide,
    /// The larger.
    max Maximum,
    /// The smaller.
    min Minimum,
    /// aᵇ.
    power Power,
    /// Logical or bitwise conjunction.
    and And,
    /// Logical or bitwise disjunction.
    or Or,
}

impl Builder {
    /// x·c.
    pub fn scale(&mut self, x: InstrId, c: f64) -> InstrId {
        let c = self.full_like(x, c);
        self.mul(x, c)
    }

    /// x + c.
    pub fn shift(&mut self, x: InstrId, c: f64) -> InstrId {
        let c = self.full_like(x, c);
        self.add(x, c)
    }

    /// x².
    pub fn square(&mut self, x: InstrId) -> InstrId {
        self.mul(x, x)
    }

    /// Whether `a` is in this relation to `b`: `EQ`, `NE`, `LT`, `LE`, `GT`, `GE`.
    pub fn compare(&mut self, a: InstrId, b: InstrId, direction: &str) -> InstrId {
        self.op(Opcode::Compare, &[a, b], vec![word(Key::Direction, direction)])
    }

    /// `a` where the predicate holds, else `b`.
    pub fn select(&mut self, predicate: InstrId, a: InstrId, b: InstrId) -> InstrId {
        self.op(Opcode::Select, &[predicate, a, b], Vec::new())
    }

    /// The values as another type; the operand itself if they have it.
    pub fn convert(&mut self, x: InstrId, dtype: DType) -> InstrId {
        if self.dtype(x) == dtype {
            return x;
        }
        let dims = self.dims(x);
        self.shaped(Opcode::Convert, &[x], Shape::array(dtype, &dims), Vec::new())
    }
}
