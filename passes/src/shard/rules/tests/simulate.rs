//! A 2x2 mesh of devices, each with a local array of integers, and what movements do there.

use super::super::{Dims, Id, Layout, Mesh, Move, Typing};

/// A local array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    dims: Vec<usize>,
    data: Vec<i64>,
}

/// Per device: its local array.
pub(super) type Local = Vec<Array>;

/// What a term is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Num(usize),
    Value(Local),
}

pub(super) const N_AXES: usize = 2;

/// A device's position on an axis; device 2 is at (1, 0).
fn position(device: usize, axis: usize) -> usize {
    device >> (N_AXES - 1 - axis) & 1
}

fn moved(device: usize, axis: usize, position: usize) -> usize {
    let bit = 1 << (N_AXES - 1 - axis);
    if position == 1 { device | bit } else { device & !bit }
}

impl Array {
    fn fill(dims: &[usize], mut value: impl FnMut(&[usize]) -> i64) -> Array {
        let n_elements: usize = dims.iter().product();
        let index = |mut flat: usize| -> Vec<usize> {
            let mut index = vec![0; dims.len()];
            for (dim, &size) in dims.iter().enumerate().rev() {
                (index[dim], flat) = (flat % size, flat / size);
            }
            index
        };
        let data = (0..n_elements).map(|flat| value(&index(flat))).collect();
        Array { dims: dims.to_vec(), data }
    }

    fn at(&self, index: &[usize]) -> i64 {
        self.data[index.iter().zip(&self.dims).fold(0, |flat, (&at, &size)| flat * size + at)]
    }

    /// One of two halves of a dimension.
    fn half(&self, dim: usize, which: usize) -> Option<Array> {
        let mut dims = self.dims.clone();
        let size = dims.get_mut(dim).filter(|size| size.is_multiple_of(2))?;
        *size /= 2;
        let start = which * *size;
        Some(Array::fill(&dims, |index| {
            let mut whole = index.to_vec();
            whole[dim] += start;
            self.at(&whole)
        }))
    }

    /// Two arrays side by side along a dimension.
    fn beside(&self, other: &Array, dim: usize) -> Option<Array> {
        let mut dims = self.dims.clone();
        let half = *dims.get(dim).filter(|_| self.dims == other.dims)?;
        dims[dim] *= 2;
        Some(Array::fill(&dims, |index| {
            let mut part = index.to_vec();
            part[dim] %= half;
            if index[dim] < half { self.at(&part) } else { other.at(&part) }
        }))
    }

    fn plus(&self, other: &Array) -> Option<Array> {
        let same = self.dims == other.dims;
        same.then(|| Array::fill(&self.dims, |index| self.at(index) + other.at(index)))
    }
}

/// What each device gets from its pair along an axis.
fn pairs(local: &Local, axis: usize, get: impl Fn(usize, &Array, &Array) -> Option<Array>) -> Option<Local> {
    let device_gets = |device: usize| {
        let pair = [0, 1].map(|at| &local[moved(device, axis, at)]);
        get(position(device, axis), pair[0], pair[1])
    };
    (axis < N_AXES).then(|| (0..local.len()).map(device_gets).collect())?
}

fn gather(local: &Local, axis: usize, dim: usize) -> Option<Local> {
    pairs(local, axis, |_, a, b| a.beside(b, dim))
}

fn slice(local: &Local, axis: usize, dim: usize) -> Option<Local> {
    let half = |device: usize| local[device].half(dim, position(device, axis));
    (axis < N_AXES).then(|| (0..local.len()).map(half).collect())?
}

fn reduce(local: &Local, axis: usize) -> Option<Local> {
    pairs(local, axis, |_, a, b| a.plus(b))
}

/// A device gets what the device has that stands on axis `from` where it stands on axis `to`.
fn permute(local: &Local, from: usize, to: usize) -> Option<Local> {
    let source = |device: usize| local[moved(device, from, position(device, to))].clone();
    (from < N_AXES && to < N_AXES).then(|| (0..local.len()).map(source).collect())
}

/// What a node means; `None` where no device could do it.
pub(super) fn meaning(node: &Move, leaf: &Local, child: impl Fn(Id) -> Option<Meaning>) -> Option<Meaning> {
    let num = |id: Id| match child(id) {
        Some(Meaning::Num(number)) => Some(number),
        _ => None,
    };
    let value = |id: Id| match child(id) {
        Some(Meaning::Value(local)) => Some(local),
        _ => None,
    };
    Some(Meaning::Value(match *node {
        Move::Num(number) => return Some(Meaning::Num(number as usize)),
        Move::Leaf => leaf.clone(),
        Move::AllGather([axis, dim, t]) => gather(&value(t)?, num(axis)?, num(dim)?)?,
        Move::Slice([axis, dim, t]) => slice(&value(t)?, num(axis)?, num(dim)?)?,
        Move::AllReduce([axis, t]) => reduce(&value(t)?, num(axis)?)?,
        Move::ReduceScatter([axis, dim, t]) => {
            let axis = num(axis)?;
            slice(&reduce(&value(t)?, axis)?, axis, num(dim)?)?
        }
        Move::AllToAll([axis, from, to, t]) => {
            let (axis, from, to) = (num(axis)?, num(from)?, num(to)?);
            let swap = |at, a: &Array, b: &Array| a.half(to, at)?.beside(&b.half(to, at)?, from);
            pairs(&value(t)?, axis, swap)?
        }
        Move::Permute([from, to, _, t]) => permute(&value(t)?, num(from)?, num(to)?)?,
        Move::Apply([t]) => {
            let square = |array: &Array| Array::fill(&array.dims, |index| array.at(index).pow(2) + 1);
            value(t)?.iter().map(square).collect()
        }
    }))
}

/// A tensor as it lies: every layout, and every set of axes that it may be partial over.
pub(super) fn sources(dims: &[i64]) -> Vec<(Typing, Local)> {
    let mesh = Mesh::new(&[2; N_AXES]);
    let slots = |code: usize| [code % (dims.len() + 1), code / (dims.len() + 1)];
    let layout = |code: usize| {
        slots(code)
            .iter()
            .enumerate()
            .fold(Layout::REPLICATED, |layout, (axis, slot)| layout.with(axis, slot.checked_sub(1)))
    };
    let mut found = Vec::new();
    for layout in (0..(dims.len() + 1).pow(2)).map(layout).filter(|layout| layout.divides(dims, &mesh)) {
        let is_split = |axis: usize| layout.dim_of(axis).is_some();
        let is_legal = |partial: &u8| (0..N_AXES).all(|axis| partial >> axis & 1 == 0 || !is_split(axis));
        for partial in (0..1u8 << N_AXES).filter(is_legal) {
            let typing =
                Typing { mesh: mesh.clone(), dims: Dims::from_slice(dims), source: (layout, partial) };
            found.push((typing, distributed(dims, layout, partial)));
        }
    }
    found
}

/// Each device's part of random integers; partial values differ between the devices that they are partial over.
fn distributed(dims: &[i64], layout: Layout, partial: u8) -> Local {
    let sizes: Vec<usize> = dims.iter().map(|&size| size as usize).collect();
    let mut state = 1u64;
    let mut random = move |_: &[usize]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as i64
    };
    let summands: Vec<Array> = (0..1 << N_AXES).map(|_| Array::fill(&sizes, &mut random)).collect();
    let part = |device: usize| {
        let is_partial = |axis: usize| partial >> axis & 1 == 1;
        let summand = (0..N_AXES).filter(|&axis| is_partial(axis)).map(|axis| position(device, axis) << axis);
        let mut array = summands[summand.sum::<usize>()].clone();
        for axis in (0..N_AXES).filter(|&axis| layout.dim_of(axis).is_some()) {
            let dim = layout.dim_of(axis).expect("it is there");
            array = array.half(dim, position(device, axis)).expect("layouts divide");
        }
        array
    };
    (0..1 << N_AXES).map(part).collect()
}
