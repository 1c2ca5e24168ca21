//! Matrices and spectra: `cholesky`, `triangular-solve`, `fft`. Computed in double precision, row by row.

use super::Call;
use super::value::{Array, Data, Value};
use crate::attr::{Key, Value as Attr};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use num_complex::Complex;

/// All element types at once.
type Number = Complex<f64>;

fn numbers(array: Array) -> Result<Vec<Number>> {
    Ok(match array.dense() {
        Data::F32(buf) => buf.iter().map(|&x| f64::from(x).into()).collect(),
        Data::F64(buf) => buf.iter().map(|&x| x.into()).collect(),
        Data::C64(buf) => buf.iter().map(|x| Complex::new(f64::from(x.re), f64::from(x.im))).collect(),
        Data::C128(buf) => buf.iter().copied().collect(),
        _ => return Err(Diagnostic::error("floats or complex numbers are needed")),
    })
}

fn array(dtype: DType, dims: &[usize], numbers: Vec<Number>) -> Result<Array> {
    let made = match Data::zeros(dtype, &[]) {
        Data::F32(_) => Array::from_vec(dtype, dims, numbers.iter().map(|x| x.re as f32).collect()),
        Data::F64(_) => Array::from_vec(dtype, dims, numbers.iter().map(|x| x.re).collect()),
        Data::C64(_) => {
            let narrow = |x: &Number| Complex::new(x.re as f32, x.im as f32);
            Array::from_vec(dtype, dims, numbers.iter().map(narrow).collect())
        }
        _ => Array::from_vec(dtype, dims, numbers),
    };
    made.ok_or_else(|| Diagnostic::error("the result does not fit its shape"))
}

fn is_set(call: &Call, key: Key) -> bool {
    matches!(call.view.instr.attr(key), Some(Attr::Bool(true)))
}

/// `cholesky`: the other triangle of the result is zero; NaN where there is no root.
pub(crate) fn cholesky(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let operand = args.swap_remove(0).array()?;
    let (dtype, dims, lower) = (operand.dtype(), operand.dims().to_vec(), is_set(call, Key::Lower));
    let n = dims.last().copied().unwrap_or(0);
    let mut all = numbers(operand)?;
    for matrix in all.chunks_mut((n * n).max(1)) {
        if !lower {
            flip(matrix, n);
        }
        root(matrix, n);
        if !lower {
            flip(matrix, n);
        }
    }
    Ok(array(dtype, &dims, all)?.into())
}

/// The lower triangle's root in its place, zeros above it.
fn root(matrix: &mut [Number], n: usize) {
    for row in 0..n {
        for column in 0..=row {
            let before: Number =
                (0..column).map(|k| matrix[row * n + k] * matrix[column * n + k].conj()).sum();
            let rest = matrix[row * n + column] - before;
            matrix[row * n + column] = match row == column {
                true => rest.re.sqrt().into(),
                false => rest / matrix[column * n + column],
            };
        }
        matrix[row * n + row + 1..(row + 1) * n].fill(Number::default());
    }
}

/// The conjugate transpose.
fn flip(matrix: &mut [Number], n: usize) {
    let old = matrix.to_vec();
    (0..n * n).for_each(|at| matrix[at] = old[at % n * n + at / n].conj());
}

/// `triangular-solve`: `op(a) x = b`, or `x op(a) = b`.
pub(crate) fn triangular_solve(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (b, a) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    let (dtype, dims) = (b.dtype(), b.dims().to_vec());
    let [.., rows, columns] = dims[..] else { return Err(Diagnostic::error("matrices are needed")) };
    let left = is_set(call, Key::LeftSide);
    let n = if left { rows } else { columns };
    let system = System {
        n,
        transposed: call.view.instr.word(Key::TransposeA).is_some_and(|word| word != "NO_TRANSPOSE"),
        conjugated: call.view.instr.word(Key::TransposeA) == Some("ADJOINT"),
        lower: is_set(call, Key::Lower),
        unit: is_set(call, Key::UnitDiagonal),
        left,
    };
    let (a, mut b) = (numbers(a)?, numbers(b)?);
    for (a, b) in a.chunks((n * n).max(1)).zip(b.chunks_mut((rows * columns).max(1))) {
        system.solve(a, b, rows, columns);
    }
    Ok(array(dtype, &dims, b)?.into())
}

/// How a triangular matrix is to be read.
struct System {
    n: usize,
    transposed: bool,
    conjugated: bool,
    lower: bool,
    unit: bool,
    left: bool,
}

impl System {
    /// Element of op(a), transposed once more for systems `x a = b`, which are `a^T x^T = b^T`.
    fn at(&self, a: &[Number], i: usize, j: usize) -> Number {
        let found = if self.transposed == self.left { a[j * self.n + i] } else { a[i * self.n + j] };
        if self.conjugated { found.conj() } else { found }
    }

    fn solve(&self, a: &[Number], b: &mut [Number], rows: usize, columns: usize) {
        let forward = self.lower != (self.transposed == self.left);
        let n_systems = if self.left { columns } else { rows };
        let place =
            |i: usize, system: usize| if self.left { i * columns + system } else { system * columns + i };
        for system in 0..n_systems {
            for step in 0..self.n {
                let i = if forward { step } else { self.n - 1 - step };
                let known = if forward { 0..i } else { i + 1..self.n };
                let before: Number = known.map(|j| self.at(a, i, j) * b[place(j, system)]).sum();
                let rest = b[place(i, system)] - before;
                b[place(i, system)] = if self.unit { rest } else { rest / self.at(a, i, i) };
            }
        }
    }
}

/// `fft` of the last one to three dimensions.
pub(crate) fn fft(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let operand = args.swap_remove(0).array()?;
    let lengths: Vec<usize> = call.view.instr.ints(Key::FftLength).iter().map(|&n| n as usize).collect();
    let kind = call.view.instr.word(Key::FftType).unwrap_or("FFT");
    let shape = call.view.instr.shape.as_array().ok_or_else(|| Diagnostic::error("an array is made"))?;
    let (mut dims, rank) = (operand.dims().to_vec(), operand.rank());
    let mut all = numbers(operand)?;
    let sign = if kind.starts_with('I') { 1.0 } else { -1.0 };
    let (first, last) = (rank - lengths.len(), rank - 1);
    if kind == "IRFFT" && !all.is_empty() {
        // The other dimensions first: the missing half mirrors what they make.
        (first..last).for_each(|dim| transform(&mut all, &dims, dim, sign));
        all = mirrored(&all, dims[last], lengths[lengths.len() - 1]);
        dims[last] = lengths[lengths.len() - 1];
        transform(&mut all, &dims, last, sign);
    } else {
        (first..rank).rev().for_each(|dim| transform(&mut all, &dims, dim, sign));
    }
    if kind == "RFFT" {
        let (whole, half) = (dims[last], dims[last] / 2 + usize::from(dims[last] > 0));
        all = all.chunks(whole.max(1)).flat_map(|row| row[..half].to_vec()).collect();
        dims[last] = half;
    }
    if sign > 0.0 {
        let n: usize = lengths.iter().product();
        all.iter_mut().for_each(|x| *x /= n as f64);
    }
    Ok(array(shape.dtype, &dims, all)?.into())
}

/// Rows of `half` numbers continued to rows of `n` whose transform is real.
fn mirrored(all: &[Number], half: usize, n: usize) -> Vec<Number> {
    let row = |row: &[Number]| -> Vec<Number> {
        (0..n).map(|k| if k < half { row[k] } else { row[n - k].conj() }).collect()
    };
    all.chunks(half.max(1)).flat_map(row).collect()
}

/// Every line along one dimension.
fn transform(all: &mut [Number], dims: &[usize], dim: usize, sign: f64) {
    let (n, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
    for block in all.chunks_mut((n * inner).max(1)) {
        for offset in 0..inner {
            let line: Vec<Number> = block.iter().skip(offset).step_by(inner).copied().collect();
            spectrum(&line, sign).into_iter().enumerate().for_each(|(k, x)| block[k * inner + offset] = x);
        }
    }
}

/// Cooley and Tukey's splitting by the smallest factor; the sum itself for primes.
fn spectrum(line: &[Number], sign: f64) -> Vec<Number> {
    let n = line.len();
    let turn = |k: usize| Complex::from_polar(1.0, sign * std::f64::consts::TAU * k as f64 / n as f64);
    let Some(factor) =
        (2..=n).take_while(|factor| factor * factor <= n).find(|factor| n.is_multiple_of(*factor))
    else {
        return (0..n).map(|k| line.iter().enumerate().map(|(j, x)| x * turn(j * k % n)).sum()).collect();
    };
    let parts: Vec<Vec<Number>> = (0..factor)
        .map(|start| spectrum(&line.iter().skip(start).step_by(factor).copied().collect::<Vec<_>>(), sign))
        .collect();
    let sum = |k: usize| {
        parts.iter().enumerate().map(|(start, part)| part[k % (n / factor)] * turn(start * k % n)).sum()
    };
    (0..n).map(sum).collect()
}

#[cfg(test)]
mod tests;
