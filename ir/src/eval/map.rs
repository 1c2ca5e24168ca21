//! Applying functions to all elements, on several cores where it pays, in place where nobody else reads.
//!
//! Work is shared out by chunks and through `dyn` functions of chunks, so that the compiler sees one short
//! loop per op and not a copy of everything around it.

use super::value::{Buf, Element};
use ndarray::{ArrayD, ArrayViewD, CowArray, IxDyn};
use rayon::prelude::*;

/// From so many elements on, work is shared between cores.
pub(crate) const PARALLEL_FROM: usize = 1 << 15;
/// Elements that a core works on at a time.
const CHUNK: usize = 1 << 13;

/// Writes a chunk from a chunk.
type Write<'a, T, U> = &'a (dyn Fn(&[T], &mut [U]) + Sync);
/// Writes a chunk from two.
type Merge<'a, T, U, R> = &'a (dyn Fn(&[T], &[U], &mut [R]) + Sync);

/// `f` of every element.
pub(crate) fn map<T: Element, U: Element>(view: ArrayViewD<T>, f: impl Fn(T) -> U + Sync) -> Buf<U> {
    written(view, &|from, to| to.iter_mut().zip(from).for_each(|(y, &x)| *y = f(x)))
}

/// `f` of every element; the buffer is used again if it has no other reader.
pub(crate) fn map_in_place<T: Element>(buf: Buf<T>, f: impl Fn(T) -> T + Sync) -> Buf<T> {
    match buf.try_into_owned_nocopy() {
        Ok(own) => updated(own, &|chunk| chunk.iter_mut().for_each(|x| *x = f(*x))),
        Err(shared) => map(shared.view(), f),
    }
}

/// `f` of every pair of elements.
pub(crate) fn zip<T: Element, U: Element, R: Element>(
    a: ArrayViewD<T>,
    b: ArrayViewD<U>,
    f: impl Fn(T, U) -> R + Sync,
) -> Buf<R> {
    merged(a, b, &|a, b, to| {
        to.iter_mut().zip(a.iter().zip(b)).for_each(|(z, (&x, &y))| *z = f(x, y));
    })
}

/// `f` of every pair of elements; either buffer is used again if it has no other reader.
pub(crate) fn zip_in_place<T: Element>(a: Buf<T>, b: Buf<T>, f: impl Fn(T, T) -> T + Sync) -> Buf<T> {
    let same = a.is_standard_layout() && b.is_standard_layout();
    let a = match if same { a.try_into_owned_nocopy() } else { Err(a) } {
        Ok(own) => {
            let step: Write<T, T> = &|from, to| to.iter_mut().zip(from).for_each(|(x, &y)| *x = f(*x, y));
            return updated_with(own, b.view(), step);
        }
        Err(shared) => shared,
    };
    match if same { b.try_into_owned_nocopy() } else { Err(b) } {
        Ok(own) => {
            let step: Write<T, T> = &|from, to| to.iter_mut().zip(from).for_each(|(y, &x)| *y = f(x, *y));
            updated_with(own, a.view(), step)
        }
        Err(shared) => zip(a.view(), shared.view(), f),
    }
}

/// Elements in row-major order, and the sizes to give the result.
fn ordered<T: Element>(view: ArrayViewD<T>) -> (CowArray<T, IxDyn>, IxDyn) {
    let dims = IxDyn(view.shape());
    // A view that is in order already is not copied.
    (
        if view.is_standard_layout() { view.into() } else { view.as_standard_layout().into_owned().into() },
        dims,
    )
}

fn slice<'a, T: Element>(array: &'a CowArray<T, IxDyn>) -> &'a [T] {
    array.as_slice().expect("it was put in order")
}

fn shaped<U: Element>(dims: IxDyn, values: Vec<U>) -> Buf<U> {
    ArrayD::from_shape_vec(dims, values).expect("one result per element").into_shared()
}

fn written<T: Element, U: Element>(view: ArrayViewD<T>, write: Write<T, U>) -> Buf<U> {
    let (array, dims) = ordered(view);
    let from = slice(&array);
    let mut to = vec![U::default(); from.len()];
    match from.len() >= PARALLEL_FROM {
        true => to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| write(from, to)),
        false => write(from, &mut to),
    }
    shaped(dims, to)
}

fn merged<T: Element, U: Element, R: Element>(
    a: ArrayViewD<T>,
    b: ArrayViewD<U>,
    merge: Merge<T, U, R>,
) -> Buf<R> {
    let ((a, dims), (b, _)) = (ordered(a), ordered(b));
    let (a, b) = (slice(&a), slice(&b));
    let mut to = vec![R::default(); a.len()];
    match a.len() >= PARALLEL_FROM {
        true => {
            let parts = a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK));
            to.par_chunks_mut(CHUNK).zip(parts).for_each(|(to, (a, b))| merge(a, b, to));
        }
        false => merge(a, b, &mut to),
    }
    shaped(dims, to)
}

/// All elements, in whatever order they lie in memory.
fn updated<T: Element>(mut own: ArrayD<T>, step: &(dyn Fn(&mut [T]) + Sync)) -> Buf<T> {
    if own.as_slice_memory_order().is_none() {
        own = own.as_standard_layout().into_owned();
    }
    let all = own.as_slice_memory_order_mut().expect("it was put in order");
    match all.len() >= PARALLEL_FROM {
        true => all.par_chunks_mut(CHUNK).for_each(step),
        false => step(all),
    }
    own.into_shared()
}

/// `own` with every element of `other`; both in row-major order.
fn updated_with<T: Element>(mut own: ArrayD<T>, other: ArrayViewD<T>, step: Write<T, T>) -> Buf<T> {
    let to = own.as_slice_mut().expect("in order");
    let from = other.as_slice().expect("in order");
    match to.len() >= PARALLEL_FROM {
        true => to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| step(from, to)),
        false => step(from, to),
    }
    own.into_shared()
}
