//! Counting the (output, kernel) positions of a convolution at which the kernel meets an input element.

use crate::attr::WindowDim;

/// Kernels and results both longer than this are counted as if nothing fell into padding.
const MAX_STEPS: i64 = 1 << 20;

/// Pairs of output index `y` and kernel index `k` with `y*stride + k*dilation - pad` on an input element.
pub(crate) fn valid_positions(input: i64, output: i64, dim: &WindowDim) -> f64 {
    if dim.size.min(output) > MAX_STEPS {
        return dim.size as f64 * output as f64;
    }
    // Step through the shorter of the two, count the other in closed form.
    let (stride, dilation) = (i128::from(dim.stride), i128::from(dim.rhs_dilate));
    let (steps, step, others, other) = match dim.size <= output {
        true => (dim.size, dilation, output, stride),
        false => (output, stride, dim.size, dilation),
    };
    let hits = |index: i64| {
        let line = Line { offset: i128::from(index) * step - i128::from(dim.pad_low), step: other };
        line.hits(others, input, i128::from(dim.lhs_dilate))
    };
    (0..steps).map(hits).sum::<i128>() as f64
}

/// `offset + n*step`.
struct Line {
    offset: i128,
    step: i128,
}

impl Line {
    /// How many `n` in `0..count` lie on `0, spacing, …, (input-1)*spacing`.
    fn hits(&self, count: i64, input: i64, spacing: i128) -> i128 {
        if input < 1 || count < 1 || self.step < 1 || spacing < 1 {
            return 0;
        }
        let last = (i128::from(input) - 1) * spacing;
        let low = div_ceil(-self.offset, self.step).max(0);
        let high = (last - self.offset).div_euclid(self.step).min(i128::from(count) - 1);
        let (common, inverse) = gcd_inverse(self.step.rem_euclid(spacing), spacing);
        if low > high || self.offset.rem_euclid(common) != 0 {
            return 0;
        }
        // n = first (mod period) solves offset + n*step = 0 (mod spacing).
        let period = spacing / common;
        let first = (-self.offset / common).rem_euclid(period) * inverse.rem_euclid(period) % period;
        let start = low + (first - low).rem_euclid(period);
        if start > high { 0 } else { (high - start) / period + 1 }
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// The greatest common divisor `g` of `a` and `m`, and `x` with `a*x = g (mod m)`.
fn gcd_inverse(a: i128, m: i128) -> (i128, i128) {
    let (mut old, mut new) = ((m, 0i128), (a, 1i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brute(input: i64, output: i64, dim: &WindowDim) -> f64 {
        let hit = |y: i64, k: i64| {
            let at = y * dim.stride - dim.pad_low + k * dim.rhs_dilate;
            0 <= at && at <= (input - 1) * dim.lhs_dilate && at % dim.lhs_dilate == 0
        };
        (0..output).map(|y| (0..dim.size).filter(|&k| hit(y, k)).count()).sum::<usize>() as f64
    }

    #[test]
    fn agrees_with_counting_one_by_one() {
        let mut seed = 7u64;
        let mut next = |range: i64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as i64 % range
        };
        for _ in 0..5000 {
            let (input, output) = (next(20), next(20));
            let dim = WindowDim {
                size: next(12),
                stride: 1 + next(5),
                pad_low: next(13) - 6,
                pad_high: 0,
                lhs_dilate: 1 + next(6),
                rhs_dilate: 1 + next(4),
                reversed: false,
            };
            assert_eq!(
                valid_positions(input, output, &dim),
                brute(input, output, &dim),
                "{input} {output} {dim:?}"
            );
        }
    }

    #[test]
    fn hostile_sizes_take_no_time() {
        let huge =
            WindowDim { size: 1 << 40, stride: i64::MAX, lhs_dilate: i64::MAX, ..WindowDim::default() };
        assert!(valid_positions(1 << 60, 1 << 60, &huge).is_finite());
        assert!(valid_positions(1 << 60, 7, &huge).is_finite());
    }
}
