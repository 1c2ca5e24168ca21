//! Functions of two elements, `select`, `clamp`, `compare`.

use super::convert::convert;
use super::map::{map, map_in_place, zip, zip_in_place};
use super::number::Real;
use super::value::{Array, Buf, Data, Element, Sizes, Value};
use super::{Call, undefined};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::opcode::Opcode;
use num_complex::Complex;
use num_traits::Zero;
use std::cmp::Ordering;

/// `add`, `power`, `shift-left`, …
pub(crate) fn binary(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (b, a) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    Ok(apply(call.view.instr.op, a, b)?.into())
}

/// `op` of two arrays, or of an array and a scalar.
pub(crate) fn apply(op: Opcode, a: Array, b: Array) -> Result<Array> {
    let (a, b) = alike(a, b);
    let (dtype, dims) = (a.dtype(), wider(&a, &b));
    let data = match (a.stored(), b.stored()) {
        (Data::F32(a), Data::F32(b)) => Data::F32(real(op, a, b)?),
        (Data::F64(a), Data::F64(b)) => Data::F64(real(op, a, b)?),
        (Data::Int(a), Data::Int(b)) => Data::Int(int(op, dtype, a, b)?),
        (Data::Pred(a), Data::Pred(b)) => Data::Pred(paired(a, b, pred(op)?)),
        (Data::C64(a), Data::C64(b)) => Data::C64(paired(a, b, complex(op)?)),
        (Data::C128(a), Data::C128(b)) => Data::C128(paired(a, b, complex(op)?)),
        _ => return Err(undefined(op, dtype)),
    };
    Ok(respread(Array::new(dtype, data), &dims))
}

/// Floats of two widths become those of the wider.
fn alike(a: Array, b: Array) -> (Array, Array) {
    let (x, y) = (a.dtype(), b.dtype());
    if x == y || x.class() != Class::Float || y.class() != Class::Float {
        return (a, b);
    }
    let wide = if x.bits() >= y.bits() { x } else { y };
    (convert(a, wide), convert(b, wide))
}

/// The sizes of the one that is no scalar.
fn wider(a: &Array, b: &Array) -> Sizes {
    if a.rank() >= b.rank() { a.dims().into() } else { b.dims().into() }
}

fn respread(array: Array, dims: &[usize]) -> Array {
    if array.rank() == dims.len() { array } else { array.spread(dims) }
}

/// One function of pairs; a buffer of rank 0 stands for as many equal elements as needed.
fn paired<T: Element>(a: Buf<T>, b: Buf<T>, f: impl Fn(T, T) -> T + Sync) -> Buf<T> {
    match (a.ndim(), b.ndim()) {
        (0, n) if n > 0 => {
            let x = a[[]];
            map_in_place(b, move |y| f(x, y))
        }
        (n, 0) if n > 0 => {
            let y = b[[]];
            map_in_place(a, move |x| f(x, y))
        }
        _ => zip_in_place(a, b, f),
    }
}

fn real<T: Real>(op: Opcode, a: Buf<T>, b: Buf<T>) -> Result<Buf<T>> {
    Ok(match op {
        // The common ones without a call per element.
        Opcode::Add => paired(a, b, |x, y| x + y),
        Opcode::Subtract => paired(a, b, |x, y| x - y),
        Opcode::Multiply => paired(a, b, |x, y| x * y),
        Opcode::Divide => paired(a, b, |x, y| x / y),
        Opcode::Maximum => paired(a, b, maximum),
        Opcode::Minimum => paired(a, b, minimum),
        Opcode::Remainder => paired(a, b, |x, y| x % y),
        Opcode::Power => paired(a, b, T::powf as fn(T, T) -> T),
        Opcode::Atan2 => paired(a, b, T::atan2 as fn(T, T) -> T),
        _ => return Err(undefined(op, DType::F32)),
    })
}

/// NaN if either is.
pub(crate) fn maximum<T: Real>(x: T, y: T) -> T {
    if x > y || x.is_nan() { x } else { y }
}

/// NaN if either is.
pub(crate) fn minimum<T: Real>(x: T, y: T) -> T {
    if x < y || x.is_nan() { x } else { y }
}

fn int(op: Opcode, dtype: DType, a: Buf<i64>, b: Buf<i64>) -> Result<Buf<i64>> {
    let (bits, signed) = (i64::from(dtype.bits()), dtype.class() == Class::Signed);
    let less = move |x: i64, y: i64| if signed { x < y } else { (x as u64) < (y as u64) };
    let fits = move |y: i64| (0..bits).contains(&y);
    Ok(match op {
        Opcode::Add => paired(a, b, i64::wrapping_add),
        Opcode::Subtract => paired(a, b, i64::wrapping_sub),
        Opcode::Multiply => paired(a, b, i64::wrapping_mul),
        Opcode::And => paired(a, b, |x, y| x & y),
        Opcode::Or => paired(a, b, |x, y| x | y),
        Opcode::Xor => paired(a, b, |x, y| x ^ y),
        Opcode::Maximum => paired(a, b, move |x, y| if less(x, y) { y } else { x }),
        Opcode::Minimum => paired(a, b, move |x, y| if less(x, y) { x } else { y }),
        Opcode::Divide => paired(a, b, if signed { divide } else { divide_unsigned }),
        Opcode::Remainder => paired(a, b, if signed { remainder } else { remainder_unsigned }),
        Opcode::Power => paired(a, b, move |x, y| power(x, y, signed)),
        Opcode::ShiftLeft => paired(a, b, move |x, y| if fits(y) { x << y } else { 0 }),
        Opcode::ShiftRightLogical => {
            let mask = u64::MAX >> (64 - bits);
            paired(a, b, move |x, y| if fits(y) { ((x as u64 & mask) >> y) as i64 } else { 0 })
        }
        Opcode::ShiftRightArithmetic => {
            let unused = 64 - bits;
            paired(a, b, move |x, y| (x << unused >> unused) >> if fits(y) { y } else { 63 })
        }
        Opcode::Mulhi if signed => paired(a, b, move |x, y| ((i128::from(x) * i128::from(y)) >> bits) as i64),
        Opcode::Mulhi => {
            paired(a, b, move |x, y| ((u128::from(x as u64) * u128::from(y as u64)) >> bits) as i64)
        }
        _ => return Err(undefined(op, dtype)),
    })
}

fn divide(x: i64, y: i64) -> i64 {
    if y == 0 { -1 } else { x.wrapping_div(y) }
}

fn divide_unsigned(x: i64, y: i64) -> i64 {
    (x as u64).checked_div(y as u64).map_or(-1, |quotient| quotient as i64)
}

fn remainder(x: i64, y: i64) -> i64 {
    if y == 0 { x } else { x.wrapping_rem(y) }
}

fn remainder_unsigned(x: i64, y: i64) -> i64 {
    (x as u64).checked_rem(y as u64).map_or(x, |rest| rest as i64)
}

fn power(base: i64, exponent: i64, signed: bool) -> i64 {
    if signed && exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i64, base, exponent as u64);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

/// Arithmetic of truth values: addition is `or`, multiplication is `and`.
fn pred(op: Opcode) -> Result<fn(bool, bool) -> bool> {
    Ok(match op {
        Opcode::And | Opcode::Multiply | Opcode::Minimum => |x, y| x & y,
        Opcode::Or | Opcode::Add | Opcode::Maximum => |x, y| x | y,
        Opcode::Xor | Opcode::Subtract => |x, y| x ^ y,
        _ => return Err(undefined(op, DType::Pred)),
    })
}

/// A function of two complex numbers.
type Complex2<T> = fn(Complex<T>, Complex<T>) -> Complex<T>;

fn complex<T: Real>(op: Opcode) -> Result<Complex2<T>> {
    Ok(match op {
        Opcode::Add => |x, y| x + y,
        Opcode::Subtract => |x, y| x - y,
        Opcode::Multiply => |x, y| x * y,
        Opcode::Divide => |x, y| x / y,
        Opcode::Power => |x, y| match (x.is_zero(), y.is_zero()) {
            (_, true) => Complex::from(T::one()),
            (true, _) => x,
            _ => x.powc(y),
        },
        _ => return Err(undefined(op, DType::C64)),
    })
}

/// `compare`.
pub(crate) fn compare(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (b, a) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    let (a, b) = alike(a, b);
    let direction = call.view.instr.word(Key::Direction).unwrap_or("EQ");
    let total = call.view.instr.word(Key::Type) == Some("TOTALORDER");
    let (dtype, dims) = (a.dtype(), wider(&a, &b));
    let made = match (a.stored(), b.stored()) {
        (Data::F32(a), Data::F32(b)) => floats(direction, total, &a, &b),
        (Data::F64(a), Data::F64(b)) => floats(direction, total, &a, &b),
        (Data::Int(a), Data::Int(b)) if dtype == DType::U64 => {
            tested(&a, &b, by_order(direction, |x: i64, y: i64| Some((x as u64).cmp(&(y as u64)))))
        }
        (Data::Int(a), Data::Int(b)) => tested(&a, &b, by_order(direction, |x: i64, y| Some(x.cmp(&y)))),
        (Data::Pred(a), Data::Pred(b)) => tested(&a, &b, by_order(direction, |x: bool, y| Some(x.cmp(&y)))),
        (Data::C64(a), Data::C64(b)) => tested(&a, &b, by_order(direction, equality)),
        (Data::C128(a), Data::C128(b)) => tested(&a, &b, by_order(direction, equality)),
        _ => return Err(undefined(Opcode::Compare, dtype)),
    };
    Ok(respread(Array::exact(DType::Pred, Data::Pred(made)), &dims).into())
}

fn floats<T: Real>(direction: &str, total: bool, a: &Buf<T>, b: &Buf<T>) -> Buf<bool> {
    match total {
        true => tested(a, b, by_order(direction, |x: T, y| Some(x.total_order(y)))),
        false => tested(a, b, by_order(direction, |x: T, y| x.partial_cmp(&y))),
    }
}

fn equality<T: PartialEq>(x: T, y: T) -> Option<Ordering> {
    (x == y).then_some(Ordering::Equal)
}

/// The test that a direction makes of an order; unordered pairs are unequal and nothing else.
fn by_order<T>(
    direction: &str,
    order: impl Fn(T, T) -> Option<Ordering> + Sync,
) -> impl Fn(T, T) -> bool + Sync {
    let wanted: fn(Option<Ordering>) -> bool = match direction {
        "EQ" => |found| found == Some(Ordering::Equal),
        "NE" => |found| found != Some(Ordering::Equal),
        "GE" => |found| found.is_some_and(Ordering::is_ge),
        "GT" => |found| found.is_some_and(Ordering::is_gt),
        "LE" => |found| found.is_some_and(Ordering::is_le),
        _ => |found| found.is_some_and(Ordering::is_lt),
    };
    move |x, y| wanted(order(x, y))
}

fn tested<T: Element>(a: &Buf<T>, b: &Buf<T>, f: impl Fn(T, T) -> bool + Sync) -> Buf<bool> {
    match (a.ndim(), b.ndim()) {
        (0, n) if n > 0 => {
            let x = a[[]];
            map(b.view(), move |y| f(x, y))
        }
        (n, 0) if n > 0 => {
            let y = b[[]];
            map(a.view(), move |x| f(x, y))
        }
        _ => zip(a.view(), b.view(), f),
    }
}

/// `complex`.
pub(crate) fn complex_of(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (im, re) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    Ok(match (re.dense(), im.dense()) {
        (Data::F32(re), Data::F32(im)) => {
            Array::exact(DType::C64, Data::C64(zip(re.view(), im.view(), Complex::new)))
        }
        (Data::F64(re), Data::F64(im)) => {
            Array::exact(DType::C128, Data::C128(zip(re.view(), im.view(), Complex::new)))
        }
        _ => return Err(Diagnostic::error("`complex` needs operands of f32 or f64")),
    }
    .into())
}

#[cfg(test)]
mod tests;
