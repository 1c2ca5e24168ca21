//! `select` and `clamp`.

use super::Call;
use super::binary;
use super::convert::convert;
use super::map::{map, zip};
use super::value::{Array, Buf, Element, Value, both};
use crate::diag::Result;
use crate::opcode::Opcode;
use ndarray::Zip;

/// `select`: of each pair one, by a truth value per element or a single one.
pub(crate) fn select(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (no, yes) = (args.swap_remove(2).array()?, args.swap_remove(1).array()?);
    Ok(choose(args.swap_remove(0).array()?, yes, no)?.into())
}

/// Of each pair one.
pub(crate) fn choose(test: Array, yes: Array, no: Array) -> Result<Array> {
    let widest = [&test, &yes, &no].into_iter().max_by_key(|array| array.rank()).expect("three");
    let dims = widest.dims().to_vec();
    let dtype = if yes.dtype().bits() >= no.dtype().bits() { yes.dtype() } else { no.dtype() };
    let (yes, no) = (widen(convert(yes, dtype), &dims), widen(convert(no, dtype), &dims));
    if test.rank() == 0 || test.is_spread() {
        let test = super::convert::first(&test);
        return Ok(if test { yes } else { no });
    }
    let test = test.buf::<bool>()?;
    let data = both!(yes.stored(), no.stored(), a, b => chosen(&test, &a, &b))?;
    Ok(Array::exact(dtype, data))
}

/// A scalar among arrays stands for equal elements.
fn widen(array: Array, dims: &[usize]) -> Array {
    if array.rank() == dims.len() { array } else { array.spread(dims) }
}

/// `yes` where the test holds, else `no`; a scalar stands for as many equal elements.
fn chosen<T: Element>(test: &Buf<bool>, yes: &Buf<T>, no: &Buf<T>) -> Buf<T> {
    match (yes.ndim() == test.ndim(), no.ndim() == test.ndim()) {
        (true, true) => {
            let zip = Zip::from(test.view()).and(yes).and(no);
            zip.map_collect(|&test, &yes, &no| if test { yes } else { no }).into_shared()
        }
        (true, false) => {
            let no = no[[]];
            zip(test.view(), yes.view(), move |test, yes| if test { yes } else { no })
        }
        (false, true) => {
            let yes = yes[[]];
            zip(test.view(), no.view(), move |test, no| if test { yes } else { no })
        }
        (false, false) => {
            let (yes, no) = (yes[[]], no[[]]);
            map(test.view(), move |test| if test { yes } else { no })
        }
    }
}

/// `clamp(low, x, high)` is the minimum of `high` and the maximum of `low` and `x`.
pub(crate) fn clamp(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (high, x) = (args.swap_remove(2).array()?, args.swap_remove(1).array()?);
    let low = args.swap_remove(0).array()?;
    Ok(binary::apply(Opcode::Minimum, binary::apply(Opcode::Maximum, x, low)?, high)?.into())
}
