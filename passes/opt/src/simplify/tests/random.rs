//! Random programs: simplified ones make the same numbers.

use super::*;
use crate::testing::Random;
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::build::{Builder, dimensions};
use phzc_ir::eval::Array;
use phzc_ir::{Attr, DType, InstrId, Key, Opcode, Shape, Value as AttrValue};
use rayon::prelude::*;

/// Programs of each kind.
const N_PROGRAMS: u64 = 600;

/// A program in the making that moves small arrays about and computes with constants.
struct Writer {
    b: Builder,
    random: Random,
    values: Vec<InstrId>,
}

const DTYPES: &[DType] = &[DType::F32, DType::F32, DType::S32, DType::Bf16, DType::Pred, DType::S8];

fn moving(seed: u64) -> Module {
    let mut writer = Writer { b: Builder::new("m"), random: Random(seed), values: Vec::new() };
    for (name, dims) in [("x", [2, 3].as_slice()), ("y", &[4]), ("z", &[])] {
        let dtype = writer.random.pick(DTYPES);
        let value = writer.b.parameter(name, Shape::array(dtype, dims));
        writer.values.push(value);
    }
    let n_steps = 4 + writer.random.below(16);
    (0..n_steps).for_each(|_| writer.step());
    let outputs = writer.values.split_off(writer.values.len() - 4);
    let root = writer.b.tuple(&outputs);
    writer.b.finish(root)
}

impl Writer {
    fn step(&mut self) {
        let late = self.values.len().min(6);
        let x = self.values[self.values.len() - 1 - self.random.below(late)];
        let made = match self.random.below(16) {
            0 | 1 => self.transpose(x),
            2 | 3 => self.reshape(x),
            4 => self.broadcast(x),
            5 | 6 => self.slice(x),
            7 => self.join(x),
            8 => self.pad(x),
            9 => self.reverse(x),
            10 => self.convert(x),
            11 => self.product(x),
            12 => self.select(x),
            _ => self.arithmetic(x),
        };
        let is_small = self.b.shape(made).as_array().is_some_and(|array| array.n_elements() <= 200.0);
        self.values.push(if is_small { made } else { x });
    }

    fn dimension(&mut self, x: InstrId) -> usize {
        let rank = self.b.rank(x);
        self.random.below(rank.max(1))
    }

    fn transpose(&mut self, x: InstrId) -> InstrId {
        let mut order: Vec<usize> = (0..self.b.rank(x)).collect();
        (1..order.len()).for_each(|dim| order.swap(dim, self.random.below(dim + 1)));
        self.b.op(Opcode::Transpose, &[x], vec![dimensions(Key::Dimensions, &order)])
    }

    fn reshape(&mut self, x: InstrId) -> InstrId {
        let (mut dims, dtype) = (self.b.dims(x), self.b.dtype(x));
        let at = self.dimension(x);
        match self.random.below(3) {
            0 if dims.len() > at + 1 => dims[at] *= dims.remove(at + 1),
            1 => dims.retain(|size| *size != 1),
            _ => dims.insert(at, 1),
        }
        self.b.shaped(Opcode::Reshape, &[x], Shape::array(dtype, &dims), Vec::new())
    }

    fn broadcast(&mut self, x: InstrId) -> InstrId {
        let (mut dims, dtype, at) = (self.b.dims(x), self.b.dtype(x), self.dimension(x));
        dims.insert(at, self.random.pick(&[1, 2, 3]));
        let kept: Vec<usize> = (0..dims.len()).filter(|&dim| dim != at).collect();
        let attrs = vec![dimensions(Key::Dimensions, &kept)];
        self.b.shaped(Opcode::Broadcast, &[x], Shape::array(dtype, &dims), attrs)
    }

    fn slice(&mut self, x: InstrId) -> InstrId {
        let dims = self.b.dims(x);
        let range = |size: &i64| {
            let start = self.random.below(*size as usize) as i64;
            let stride = 1 + self.random.below(2) as i64;
            match self.random.below(3) {
                0 => SliceDim { start, limit: *size, stride },
                _ => SliceDim { start: 0, limit: *size - start, stride: 1 },
            }
        };
        let ranges: Vec<SliceDim> = dims.iter().map(range).collect();
        if self.random.below(3) == 0 {
            let starts: Vec<InstrId> =
                ranges.iter().map(|it| self.b.scalar(DType::S32, it.start as f64)).collect();
            let sizes: Vec<i64> = ranges.iter().map(|it| it.limit - it.start).collect();
            return self.b.dynamic_slice(x, &starts, &sizes);
        }
        self.b.op(Opcode::Slice, &[x], vec![Attr { key: Key::Slice, value: AttrValue::Slices(ranges) }])
    }

    /// Of an array and another like it, or its own halves.
    fn join(&mut self, x: InstrId) -> InstrId {
        if self.b.rank(x) == 0 {
            return self.b.concatenate_scalars(x);
        }
        let (dim, other) = (self.dimension(x), self.like(x));
        let size = self.b.dims(x)[dim];
        let halves = [self.b.slice_in(x, dim, 0, size / 2), self.b.slice_in(x, dim, size / 2, size)];
        let parts = if self.random.below(2) == 0 { halves } else { [x, other] };
        self.b.concatenate(&parts, dim)
    }

    fn pad(&mut self, x: InstrId) -> InstrId {
        let dims: Vec<PadDim> = (0..self.b.rank(x))
            .map(|_| PadDim {
                low: self.random.below(2) as i64,
                high: self.random.below(2) as i64,
                interior: 0,
            })
            .collect();
        let zero = self.b.scalar(self.b.dtype(x), 0.0);
        self.b.pad(x, zero, &dims)
    }

    fn reverse(&mut self, x: InstrId) -> InstrId {
        let dim = self.dimension(x);
        if self.b.rank(x) == 0 { x } else { self.b.reverse(x, &[dim]) }
    }

    fn convert(&mut self, x: InstrId) -> InstrId {
        let shape = Shape::array(self.random.pick(DTYPES), &self.b.dims(x));
        self.b.shaped(Opcode::Convert, &[x], shape, Vec::new())
    }

    /// With a transposed factor, and transposed.
    fn product(&mut self, x: InstrId) -> InstrId {
        if self.b.rank(x) != 2 || self.b.dtype(x) != DType::F32 {
            return self.arithmetic(x);
        }
        let turned = self.b.transpose(x, &[1, 0]);
        let made = if self.random.below(2) == 0 {
            self.b.einsum("ij,jk->ik", x, turned)
        } else {
            self.b.einsum("ij,ik->jk", x, x)
        };
        self.b.transpose(made, &[1, 0])
    }

    /// An array of this type and these sizes: a value, or copies of a telling number.
    fn like(&mut self, x: InstrId) -> InstrId {
        let fits: Vec<InstrId> =
            self.values.iter().copied().filter(|&id| self.b.shape(id) == self.b.shape(x)).collect();
        if self.random.below(3) > 0 && !fits.is_empty() {
            return self.random.pick(&fits);
        }
        let number = self.random.pick(&[0.0, 1.0, -1.0, 2.0]);
        self.b.full_like(x, number)
    }

    fn select(&mut self, x: InstrId) -> InstrId {
        let (other, third, direction) =
            (self.like(x), self.like(x), self.random.pick(&["EQ", "NE", "LT", "GE"]));
        let by = self.b.compare(x, other, direction);
        let by = if self.random.below(2) == 0 { self.b.op(Opcode::Not, &[by], Vec::new()) } else { by };
        self.b.select(by, other, third)
    }

    fn arithmetic(&mut self, x: InstrId) -> InstrId {
        use Opcode::{Abs, Add, And, Floor, Maximum, Minimum, Multiply, Negate, Not, Or, Subtract};
        let other = self.like(x);
        let (binary, unary): (&[Opcode], &[Opcode]) = match self.b.dtype(x) {
            DType::Pred => (&[And, Or], &[Not]),
            DType::S32 | DType::S8 => (&[Add, Subtract, Multiply, Maximum], &[Negate, Abs]),
            _ => (&[Add, Subtract, Multiply, Minimum], &[Negate, Abs, Floor]),
        };
        match self.random.below(3) {
            0 => self.b.op(self.random.pick(unary), &[x], Vec::new()),
            _ => self.b.op(self.random.pick(binary), &[x, other], Vec::new()),
        }
    }
}

trait Scalars {
    fn concatenate_scalars(&mut self, x: InstrId) -> InstrId;
}

impl Scalars for Builder {
    /// Two copies of a scalar in a row, as indices are made.
    fn concatenate_scalars(&mut self, x: InstrId) -> InstrId {
        let one = self.reshape(x, &[1]);
        self.concatenate(&[one, one], 0)
    }
}

/// Equal up to this share of the largest element; NaNs are equal.
fn is_same(a: &Value, b: &Value, tolerance: f64) -> bool {
    let (a, b) = (a.leaves(), b.leaves());
    let is_equal = |a: &[f64], b: &[f64]| {
        let most = a.iter().fold(0f64, |most, x| most.max(x.abs()));
        let same =
            |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * most;
        a.iter().zip(b).all(same)
    };
    let shape = |array: &Array| (array.dtype(), array.dims().to_vec());
    let mut pairs = a.iter().zip(&b);
    a.len() == b.len()
        && pairs.all(|(a, b)| shape(a) == shape(b) && is_equal(&a.to_f64_vec(), &b.to_f64_vec()))
}

/// Simplifies so many programs; what they compute stays. Returns how often each rule was of use.
fn all_agree(what: &str, tolerance: f64, make: impl Fn(u64) -> Module + Sync) -> Counts {
    let one = |seed: u64| {
        let before = make(seed);
        let (after, counts) = simplified(&before);
        let [old, new] = values(&before, &after, seed);
        assert!(is_same(&old, &new, tolerance), "{what} {seed}:\n{}\n{}", print(&before), print(&after));
        (before.n_instrs() as u64, after.n_instrs() as u64, counts)
    };
    let found: Vec<(u64, u64, Counts)> = (0..N_PROGRAMS).into_par_iter().map(one).collect();
    let mut sum = Counts::default();
    let (mut n_before, mut n_after) = (0, 0);
    for (before, after, counts) in found {
        (n_before, n_after) = (n_before + before, n_after + after);
        sum.fired.iter_mut().zip(&counts.fired).for_each(|(sum, n)| *sum += n);
        sum.n_merged += counts.n_merged;
    }
    println!("{N_PROGRAMS} programs of {what}: {n_before} instructions become {n_after}\n{}", describe(&sum));
    sum
}

fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn movements_keep_their_values() {
    let counts = all_agree("movements", 0.0, moving);
    let used = counts.fired.iter().filter(|n| **n > 0).count();
    assert!(used >= 50, "only {used} of {} rules were tried", RULES.len());
}

#[test]
fn programs_of_every_family_keep_their_values() {
    all_agree("every family", 0.0, |seed| {
        let mut random = Random(seed ^ 0x51_3f);
        let n_ops = 4 + random.below(12);
        read(&phzc_testing::ops::program(&mut random, n_ops))
    });
}

#[test]
fn programs_of_layers_keep_their_values() {
    // Sums of an array that was transposed before are taken in another order.
    all_agree("layers", 1e-6, |seed| read(&phzc_testing::program::program(seed, 14)));
}
