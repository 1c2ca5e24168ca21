//! A 2x2 mesh of devices, each with local arrays of integers, and what movements and ops do there.

use super::super::{Id, Kinds, Move, Typing};
use phzc_ir::{Dims, FactorKind, Layout, Mesh, Reducer};

/// A local array, as seen over all loops: a loop that it does not have is of size 1 and no movement changes
/// it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    has: Vec<bool>,
    dims: Vec<usize>,
    data: Vec<i64>,
}

/// Per device: its local arrays, one per operand, or the result's.
pub(super) type Local = Vec<Vec<Array>>;

/// An op and where its operands lie.
pub(super) struct Case {
    pub(super) typing: Typing,
    pub(super) leaf: Local,
}

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
    fn fill(has: &[bool], dims: &[usize], mut value: impl FnMut(&[usize]) -> i64) -> Array {
        let n_elements: usize = dims.iter().product();
        let index = |mut flat: usize| -> Vec<usize> {
            let mut index = vec![0; dims.len()];
            for (dim, &size) in dims.iter().enumerate().rev() {
                (index[dim], flat) = (flat % size, flat / size);
            }
            index
        };
        let data = (0..n_elements).map(|flat| value(&index(flat))).collect();
        Array { has: has.to_vec(), dims: dims.to_vec(), data }
    }

    /// The element here; a loop of size 1 has the same one everywhere.
    fn at(&self, index: &[usize]) -> i64 {
        let step = |flat, (&at, &size): (&usize, &usize)| flat * size + if size == 1 { 0 } else { at };
        self.data[index.iter().zip(&self.dims).fold(0, step)]
    }

    /// One of two halves of a dimension.
    fn half(&self, dim: usize, which: usize) -> Option<Array> {
        if !*self.has.get(dim)? {
            return Some(self.clone());
        }
        let mut dims = self.dims.clone();
        let size = dims.get_mut(dim).filter(|size| size.is_multiple_of(2))?;
        *size /= 2;
        let start = which * *size;
        Some(Array::fill(&self.has, &dims, |index| {
            let mut whole = index.to_vec();
            whole[dim] += start;
            self.at(&whole)
        }))
    }

    /// Two arrays side by side along a dimension.
    fn beside(&self, other: &Array, dim: usize) -> Option<Array> {
        if !*self.has.get(dim)? {
            return Some(self.clone());
        }
        let mut dims = self.dims.clone();
        let half = *dims.get(dim).filter(|_| self.dims == other.dims)?;
        dims[dim] *= 2;
        Some(Array::fill(&self.has, &dims, |index| {
            let mut part = index.to_vec();
            part[dim] %= half;
            if index[dim] < half { self.at(&part) } else { other.at(&part) }
        }))
    }

    fn with(&self, other: &Array, reducer: Reducer) -> Option<Array> {
        let same = self.dims == other.dims;
        let element = |index: &[usize]| combine(reducer, self.at(index), other.at(index));
        same.then(|| Array::fill(&self.has, &self.dims, element))
    }

    /// A loop reduced.
    fn reduced(&self, dim: usize, reducer: Reducer) -> Array {
        let (mut has, mut dims) = (self.has.clone(), self.dims.clone());
        (has[dim], dims[dim]) = (false, 1);
        Array::fill(&has, &dims, |index| {
            let element = |at: usize| {
                let mut index = index.to_vec();
                index[dim] = at;
                self.at(&index)
            };
            (1..self.dims[dim]).map(element).fold(element(0), |all, one| combine(reducer, all, one))
        })
    }

    /// Every element plus all before it.
    fn prefix_sums(&self, dim: usize) -> Array {
        Array::fill(&self.has, &self.dims, |index| {
            let element = |at: usize| {
                let mut index = index.to_vec();
                index[dim] = at;
                self.at(&index)
            };
            (0..=index[dim]).map(element).sum()
        })
    }
}

fn combine(reducer: Reducer, a: i64, b: i64) -> i64 {
    match reducer {
        Reducer::Add => a.wrapping_add(b),
        Reducer::Mul => a.wrapping_mul(b),
        Reducer::Max => a.max(b),
        Reducer::Min => a.min(b),
        Reducer::And => a & b,
        Reducer::Or => a | b,
        Reducer::Xor => a ^ b,
    }
}

/// The op of these loops: of the product of all operands a function of each element, then along loops that
/// have to be whole sums of all before, then the reductions.
fn apply(operands: &[Array], kinds: &Kinds) -> Array {
    let size = |dim: usize| operands.iter().map(|it| it.dims[dim]).max().unwrap_or(1);
    let dims: Vec<usize> = (0..kinds.len()).map(size).collect();
    let element = |index: &[usize]| operands.iter().map(|it| it.at(index)).product::<i64>().pow(2) % 1009 + 1;
    let product = Array::fill(&vec![true; dims.len()], &dims, element);
    let loops = || kinds.iter().copied().enumerate();
    let summed = loops().fold(product, |array, (dim, kind)| match kind {
        FactorKind::Permute | FactorKind::Replicate => array.prefix_sums(dim),
        FactorKind::Pass | FactorKind::Reduce(_) => array,
    });
    loops().fold(summed, |array, (dim, kind)| match kind {
        FactorKind::Reduce(reducer) => array.reduced(dim, reducer),
        _ => array,
    })
}

/// What each device gets from its pair along an axis, array by array.
fn pairs(local: &Local, axis: usize, get: impl Fn(usize, &Array, &Array) -> Option<Array>) -> Option<Local> {
    let device_gets = |device: usize| -> Option<Vec<Array>> {
        let [a, b] = [0, 1].map(|at| &local[moved(device, axis, at)]);
        a.iter().zip(b).map(|(a, b)| get(position(device, axis), a, b)).collect()
    };
    (axis < N_AXES).then(|| (0..local.len()).map(device_gets).collect())?
}

fn gather(local: &Local, axis: usize, dim: usize) -> Option<Local> {
    pairs(local, axis, |_, a, b| a.beside(b, dim))
}

fn slice(local: &Local, axis: usize, dim: usize) -> Option<Local> {
    let halves = |device: usize| -> Option<Vec<Array>> {
        local[device].iter().map(|array| array.half(dim, position(device, axis))).collect()
    };
    (axis < N_AXES).then(|| (0..local.len()).map(halves).collect())?
}

fn reduce(local: &Local, axis: usize, reducer: Reducer) -> Option<Local> {
    pairs(local, axis, |_, a, b| a.with(b, reducer))
}

/// A device gets what the device has that stands on axis `from` where it stands on axis `to`.
fn permute(local: &Local, from: usize, to: usize) -> Option<Local> {
    let source = |device: usize| local[moved(device, from, position(device, to))].clone();
    (from < N_AXES && to < N_AXES).then(|| (0..local.len()).map(source).collect())
}

/// How partial values are combined: as the op reduces, sums where it does not.
fn reducer(kinds: &Kinds) -> Reducer {
    let found = kinds.iter().find_map(|kind| match kind {
        FactorKind::Reduce(reducer) => Some(*reducer),
        _ => None,
    });
    found.unwrap_or(Reducer::Add)
}

/// What a node means; `None` where no device could do it.
pub(super) fn meaning(node: &Move, case: &Case, child: impl Fn(Id) -> Option<Meaning>) -> Option<Meaning> {
    let kinds = &case.typing.kinds;
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
        Move::Leaf => case.leaf.clone(),
        Move::AllGather([axis, dim, t]) => gather(&value(t)?, num(axis)?, num(dim)?)?,
        Move::Slice([axis, dim, t]) => slice(&value(t)?, num(axis)?, num(dim)?)?,
        Move::AllReduce([axis, t]) => reduce(&value(t)?, num(axis)?, reducer(kinds))?,
        Move::ReduceScatter([axis, dim, t]) => {
            let axis = num(axis)?;
            slice(&reduce(&value(t)?, axis, reducer(kinds))?, axis, num(dim)?)?
        }
        Move::AllToAll([axis, from, to, t]) => {
            let (axis, from, to) = (num(axis)?, num(from)?, num(to)?);
            let swap = |at, a: &Array, b: &Array| a.half(to, at)?.beside(&b.half(to, at)?, from);
            pairs(&value(t)?, axis, swap)?
        }
        Move::Permute([from, to, _, t]) => permute(&value(t)?, num(from)?, num(to)?)?,
        Move::Apply([t]) => value(t)?.iter().map(|operands| vec![apply(operands, kinds)]).collect(),
    }))
}

/// An op by what it does with its loops, and which of them each operand has.
pub(super) type Op<'a> = (&'a [FactorKind], &'a [&'a [bool]]);

/// An op's operands as they lie: every layout, and every set of axes that they may be partial over.
pub(super) fn cases(dims: &[i64], (kinds, operands): Op) -> Vec<Case> {
    let mesh = Mesh::new(&[2; N_AXES]);
    let slots = |code: usize| [code % (dims.len() + 1), code / (dims.len() + 1)];
    let layout = |code: usize| {
        let with = |layout: Layout, (axis, slot): (usize, &usize)| layout.with(axis, slot.checked_sub(1));
        slots(code).iter().enumerate().fold(Layout::REPLICATED, with)
    };
    let mut found = Vec::new();
    for layout in (0..(dims.len() + 1).pow(2)).map(layout).filter(|layout| layout.divides(dims, &mesh)) {
        let is_split = |axis: usize| layout.dim_of(axis).is_some();
        let is_legal = |partial: &u8| (0..N_AXES).all(|axis| partial >> axis & 1 == 0 || !is_split(axis));
        for partial in (0..1u8 << N_AXES).filter(is_legal) {
            let typing = Typing {
                mesh: mesh.clone(),
                dims: Dims::from_slice(dims),
                kinds: Kinds::from_slice(kinds),
                source: (layout, partial),
            };
            let leaf = distributed(&typing, operands);
            found.push(Case { typing, leaf });
        }
    }
    found
}

/// Each device's parts of random integers; partial values differ between the devices that they are partial
/// over.
fn distributed(typing: &Typing, operands: &[&[bool]]) -> Local {
    let (layout, partial) = typing.source;
    let mut state = 1u64;
    let mut random = move |_: &[usize]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as i64
    };
    let mut summand = |has: &&[bool]| {
        let size = |(&size, &has): (&i64, &bool)| if has { size as usize } else { 1 };
        let sizes: Vec<usize> = typing.dims.iter().zip(*has).map(size).collect();
        Array::fill(has, &sizes, &mut random)
    };
    let summands: Vec<Vec<Array>> =
        (0..1 << N_AXES).map(|_| operands.iter().map(&mut summand).collect()).collect();
    let part = |device: usize| {
        let is_partial = |axis: usize| partial >> axis & 1 == 1;
        let summand = (0..N_AXES).filter(|&axis| is_partial(axis)).map(|axis| position(device, axis) << axis);
        let mut arrays = summands[summand.sum::<usize>()].clone();
        for (axis, dim) in (0..N_AXES).filter_map(|axis| Some((axis, layout.dim_of(axis)?))) {
            let halved = |array: &Array| array.half(dim, position(device, axis)).expect("layouts divide");
            arrays = arrays.iter().map(halved).collect();
        }
        arrays
    };
    (0..1 << N_AXES).map(part).collect()
}
