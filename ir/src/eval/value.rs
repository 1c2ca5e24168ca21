//! Values of the evaluator: arrays of every element type, tuples, tokens.

use super::round;
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::shape::Shape;
use ndarray::{ArcArray, ArrayD, ArrayViewD, IxDyn};
use num_complex::Complex;
use smallvec::SmallVec;

/// A buffer that clones share until one of them is written to.
pub type Buf<T> = ArcArray<T, IxDyn>;
/// Sizes of an array, major to minor.
pub type Sizes = SmallVec<[usize; 5]>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An array.
    Array(Array),
    /// Several values.
    Tuple(Vec<Value>),
    /// What orders effects.
    Token,
}

/// Elements in storage that holds every value of their type exactly.
///
/// Integers of all widths are `i64`: signed ones as they are, unsigned ones extended with zeros, so that
/// a `u64` is its bit pattern. Floats of at most 32 bits are `f32`. Results are cut down to their type's
/// width after every op ([`Array::new`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// `pred`.
    Pred(Buf<bool>),
    /// All integers.
    Int(Buf<i64>),
    /// `f32` and narrower floats.
    F32(Buf<f32>),
    /// `f64`.
    F64(Buf<f64>),
    /// `c64`.
    C64(Buf<Complex<f32>>),
    /// `c128`.
    C128(Buf<Complex<f64>>),
}

/// An array.
///
/// One whose elements are all equal may hold a single one: `data` is then of rank 0 whatever `dims` are.
/// [`Array::dense`] writes such an array out.
#[derive(Clone, Debug)]
pub struct Array {
    dtype: DType,
    dims: Sizes,
    data: Data,
}

/// Runs `$body` on the buffer, of whatever element type, and wraps the new buffer again.
macro_rules! each {
    ($data:expr, $buf:ident => $body:expr) => {
        match $data {
            $crate::eval::value::Data::Pred($buf) => $crate::eval::value::Data::Pred($body),
            $crate::eval::value::Data::Int($buf) => $crate::eval::value::Data::Int($body),
            $crate::eval::value::Data::F32($buf) => $crate::eval::value::Data::F32($body),
            $crate::eval::value::Data::F64($buf) => $crate::eval::value::Data::F64($body),
            $crate::eval::value::Data::C64($buf) => $crate::eval::value::Data::C64($body),
            $crate::eval::value::Data::C128($buf) => $crate::eval::value::Data::C128($body),
        }
    };
}
/// Runs `$body` on the buffer, of whatever element type.
macro_rules! any {
    ($data:expr, $buf:ident => $body:expr) => {
        match $data {
            $crate::eval::value::Data::Pred($buf) => $body,
            $crate::eval::value::Data::Int($buf) => $body,
            $crate::eval::value::Data::F32($buf) => $body,
            $crate::eval::value::Data::F64($buf) => $body,
            $crate::eval::value::Data::C64($buf) => $body,
            $crate::eval::value::Data::C128($buf) => $body,
        }
    };
}
/// Runs `$body` on two buffers of one element type and wraps the new buffer again.
macro_rules! both {
    ($a:expr, $b:expr, $x:ident, $y:ident => $body:expr) => {
        match ($a, $b) {
            ($crate::eval::value::Data::Pred($x), $crate::eval::value::Data::Pred($y)) => {
                Ok($crate::eval::value::Data::Pred($body))
            }
            ($crate::eval::value::Data::Int($x), $crate::eval::value::Data::Int($y)) => {
                Ok($crate::eval::value::Data::Int($body))
            }
            ($crate::eval::value::Data::F32($x), $crate::eval::value::Data::F32($y)) => {
                Ok($crate::eval::value::Data::F32($body))
            }
            ($crate::eval::value::Data::F64($x), $crate::eval::value::Data::F64($y)) => {
                Ok($crate::eval::value::Data::F64($body))
            }
            ($crate::eval::value::Data::C64($x), $crate::eval::value::Data::C64($y)) => {
                Ok($crate::eval::value::Data::C64($body))
            }
            ($crate::eval::value::Data::C128($x), $crate::eval::value::Data::C128($y)) => {
                Ok($crate::eval::value::Data::C128($body))
            }
            _ => Err($crate::diag::Diagnostic::error("operands of different element types")),
        }
    };
}
pub(crate) use {both, each};

/// A type that elements are stored in.
pub trait Element: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The buffer as data.
    fn wrap(buf: Buf<Self>) -> Data;
    /// The buffer of data of this type.
    fn unwrap(data: Data) -> Option<Buf<Self>>;
}

macro_rules! elements {
    ($($ty:ty, $variant:ident;)*) => {$(
        impl Element for $ty {
            fn wrap(buf: Buf<$ty>) -> Data {
                Data::$variant(buf)
            }
            fn unwrap(data: Data) -> Option<Buf<$ty>> {
                match data {
                    Data::$variant(buf) => Some(buf),
                    _ => None,
                }
            }
        }
    )*};
}
elements! {
    bool, Pred;
    i64, Int;
    f32, F32;
    f64, F64;
    Complex<f32>, C64;
    Complex<f64>, C128;
}

impl Data {
    /// Sizes of the buffer.
    pub fn shape(&self) -> &[usize] {
        any!(self, buf => buf.shape())
    }

    /// `dims` default elements (zero, false) in the storage of `dtype`.
    pub fn zeros(dtype: DType, dims: &[usize]) -> Data {
        each!(Data::zero(dtype), _buf => Buf::from_elem(IxDyn(dims), Default::default()))
    }

    fn zero(dtype: DType) -> Data {
        fn scalar<T: Element>() -> Data {
            T::wrap(Buf::from_elem(IxDyn(&[]), T::default()))
        }
        match (dtype.class(), dtype) {
            (Class::Bool, _) => scalar::<bool>(),
            (Class::Signed | Class::Unsigned, _) => scalar::<i64>(),
            (Class::Float, DType::F64) => scalar::<f64>(),
            (Class::Float, _) => scalar::<f32>(),
            (Class::Complex, DType::C128) => scalar::<Complex<f64>>(),
            (Class::Complex, _) => scalar::<Complex<f32>>(),
        }
    }

    /// Whether this is the storage of `dtype`.
    pub fn fits(&self, dtype: DType) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(&Data::zero(dtype))
    }
}

impl Array {
    /// Data in the storage of `dtype`, cut down to its width: rounded, wrapped around.
    pub fn new(dtype: DType, data: Data) -> Array {
        debug_assert!(data.fits(dtype), "{} in foreign storage", dtype.as_str());
        Array::exact(dtype, round::to_width(dtype, data))
    }

    /// Data whose elements are values of `dtype` already.
    pub(crate) fn exact(dtype: DType, data: Data) -> Array {
        Array { dtype, dims: data.shape().into(), data }
    }

    /// An array of `values`, in row-major order, cut down to the type's width; `None` if their count or
    /// storage does not fit.
    pub fn from_vec<T: Element>(dtype: DType, dims: &[usize], values: Vec<T>) -> Option<Array> {
        let data = T::wrap(ArrayD::from_shape_vec(IxDyn(dims), values).ok()?.into_shared());
        data.fits(dtype).then(|| Array::new(dtype, data))
    }

    /// A scalar.
    pub(crate) fn scalar<T: Element>(dtype: DType, value: T) -> Array {
        Array::new(dtype, T::wrap(Buf::from_elem(IxDyn(&[]), value)))
    }

    /// Zeros, false.
    pub fn zeros(dtype: DType, dims: &[usize]) -> Array {
        Array { dtype, dims: dims.into(), data: Data::zero(dtype) }
    }

    /// A scalar as an array of these sizes, without writing it out.
    pub(crate) fn spread(self, dims: &[usize]) -> Array {
        debug_assert!(self.data.shape().is_empty());
        Array { dims: dims.into(), ..self }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, major to minor.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one element stands for all.
    pub(crate) fn is_spread(&self) -> bool {
        self.data.shape().is_empty() && !self.dims.is_empty()
    }

    /// The data as stored: of rank 0 where one element stands for all.
    pub(crate) fn stored(self) -> Data {
        self.data
    }

    /// The data with all elements written out.
    pub fn dense(self) -> Data {
        if !self.is_spread() {
            return self.data;
        }
        let dims = IxDyn(&self.dims);
        each!(self.data, buf => Buf::from_elem(dims, *buf.first().expect("a scalar has an element")))
    }

    /// The elements, written out, in the storage `T`.
    ///
    /// # Errors
    /// The storage is another one.
    pub fn buf<T: Element>(self) -> Result<Buf<T>> {
        let dtype = self.dtype;
        T::unwrap(self.dense())
            .ok_or_else(|| Diagnostic::error(format!("{} elements cannot be used here", dtype.as_str())))
    }

    /// The same elements under other sizes, in row-major order.
    pub(crate) fn reshaped(self, dims: &[usize]) -> Array {
        if self.is_spread() || self.dims[..] == *dims {
            return Array { dims: dims.into(), ..self };
        }
        let shaped = IxDyn(dims);
        let data = each!(self.data, buf => {
            let is_plain = buf.is_standard_layout();
            let buf = if is_plain { buf } else { buf.as_standard_layout().into_owned().into_shared() };
            buf.into_shape_with_order(shaped).expect("a reshape keeps the count")
        });
        Array { dtype: self.dtype, dims: dims.into(), data }
    }

    /// The part `start..limit` of every dimension.
    ///
    /// # Errors
    /// The bounds do not fit the array.
    pub fn slice(&self, start: &[usize], limit: &[usize]) -> Result<Array> {
        let bounds = start.iter().zip(limit).zip(&self.dims);
        let fits = start.len() == self.rank()
            && limit.len() == self.rank()
            && bounds.clone().all(|((start, limit), size)| start <= limit && limit <= size);
        if !fits {
            return Err(Diagnostic::error(format!(
                "no part {start:?}..{limit:?} of an array of sizes {:?}",
                self.dims()
            )));
        }
        let dims: Sizes = bounds.map(|((start, limit), _)| limit - start).collect();
        if self.is_spread() {
            return Ok(Array { dims, ..self.clone() });
        }
        let part = |axis: ndarray::AxisDescription| (start[axis.axis.0]..limit[axis.axis.0]).into();
        Ok(Array::exact(self.dtype, each!(self.data.clone(), buf => owned(buf.slice_each_axis(part)))))
    }

    /// Elements as `f64`, in row-major order; complex numbers as two, integers beyond 2^53 rounded.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        let unsigned = self.dtype == DType::U64;
        match self.clone().dense() {
            Data::Pred(buf) => buf.iter().map(|&x| f64::from(u8::from(x))).collect(),
            Data::Int(buf) if unsigned => buf.iter().map(|&x| x as u64 as f64).collect(),
            Data::Int(buf) => buf.iter().map(|&x| x as f64).collect(),
            Data::F32(buf) => buf.iter().map(|&x| f64::from(x)).collect(),
            Data::F64(buf) => buf.iter().copied().collect(),
            Data::C64(buf) => buf.iter().flat_map(|x| [f64::from(x.re), f64::from(x.im)]).collect(),
            Data::C128(buf) => buf.iter().flat_map(|x| [x.re, x.im]).collect(),
        }
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.dtype == other.dtype
            && self.dims == other.dims
            && (self.is_spread() && other.is_spread() && self.data == other.data
                || self.clone().dense() == other.clone().dense())
    }
}

/// A view written out in row-major order.
pub(crate) fn owned<T: Element>(view: ArrayViewD<T>) -> Buf<T> {
    view.as_standard_layout().into_owned().into_shared()
}

impl Value {
    /// The array, if this is one.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The array.
    pub(crate) fn array(self) -> Result<Array> {
        match self {
            Value::Array(array) => Ok(array),
            _ => Err(Diagnostic::error("an array is needed, got a tuple or a token")),
        }
    }

    /// The arrays in it, in pre-order; tokens are left out.
    pub fn leaves(&self) -> Vec<&Array> {
        match self {
            Value::Array(array) => vec![array],
            Value::Tuple(parts) => parts.iter().flat_map(Value::leaves).collect(),
            Value::Token => Vec::new(),
        }
    }

    /// Whether it is a value of this shape.
    pub fn has_shape(&self, shape: &Shape) -> bool {
        match (self, shape) {
            (Value::Array(array), shape) => shape.as_array().is_some_and(|wanted| {
                let same = wanted.dims.iter().zip(array.dims()).all(|(&a, &b)| usize::try_from(a) == Ok(b));
                wanted.dtype == array.dtype && wanted.rank() == array.rank() && same
            }),
            (Value::Tuple(parts), Shape::Tuple(shapes)) => {
                parts.len() == shapes.len()
                    && parts.iter().zip(shapes).all(|(part, shape)| part.has_shape(shape))
            }
            (Value::Token, Shape::Token) => true,
            _ => false,
        }
    }
}

impl From<Array> for Value {
    fn from(array: Array) -> Value {
        Value::Array(array)
    }
}

/// Sizes of a static shape.
pub(crate) fn sizes(dims: &[i64]) -> Result<Sizes> {
    let of = |&size: &i64| {
        usize::try_from(size)
            .map_err(|_| Diagnostic::error("an array without a fixed size cannot be evaluated"))
    };
    dims.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
