//! The inner loop: adds tables up and minimises over their first axis.

use rayon::prelude::*;

/// A dense table; the last node of its scope varies fastest.
#[derive(Clone, Copy)]
pub(super) struct Factor<'t> {
    pub scope: &'t [u32],
    pub values: &'t [f64],
}

impl Factor<'_> {
    /// Index of the entry that `option` (per step) selects.
    pub(super) fn index(scope: &[u32], sizes: &[usize], option: &[u32]) -> usize {
        scope.iter().fold(0, |at, &step| at * sizes[step as usize] + option[step as usize] as usize)
    }
}

/// Table entries below which a thread is not worth its start.
const PARALLEL_ENTRIES: usize = 1 << 17;

/// For each entry of `scope`: the least of `own[x] + Σ inputs` over x, and the first x that has it.
///
/// Every input's scope begins with the node being eliminated; all scopes ascend.
pub(super) fn eliminate(
    own: &[f64],
    inputs: &[Factor],
    scope: &[u32],
    sizes: &[usize],
) -> (Vec<f64>, Vec<u16>) {
    let size = |&step: &u32| sizes[step as usize];
    let entries: usize = scope.iter().map(size).product();
    let row = scope.last().map_or(1, size);
    let outer: Vec<usize> = scope.iter().rev().skip(1).rev().map(size).collect();
    let strides: Vec<Strides> = inputs.iter().map(|input| Strides::new(input, scope, sizes)).collect();
    let (mut least, mut first) = (vec![f64::INFINITY; entries], vec![0; entries]);
    let sweep = Sweep { own, outer: &outer, row };
    let rows = (PARALLEL_ENTRIES / (row * own.len())).max(1);
    let chunks = least.par_chunks_mut(rows * row).zip(first.par_chunks_mut(rows * row)).enumerate();
    if entries * own.len() < 2 * PARALLEL_ENTRIES {
        sweep.fill(0, &strides, &mut least, &mut first);
    } else {
        chunks.for_each(|(chunk, (least, first))| sweep.fill(chunk * rows, &strides, least, first));
    }
    (least, first)
}

/// How to walk through an input along the axes of the result.
#[derive(Clone)]
struct Strides<'t> {
    values: &'t [f64],
    /// Along the node being eliminated.
    first: usize,
    /// Along each outer axis of the result; 0 where the input does not have it.
    outer: Vec<usize>,
    /// Whether the input has the result's last axis (its own last one then).
    has_row: bool,
}

impl<'t> Strides<'t> {
    fn new(input: &Factor<'t>, scope: &[u32], sizes: &[usize]) -> Self {
        let after = |at: usize| input.scope[at + 1..].iter().map(|&step| sizes[step as usize]).product();
        let stride = |step: &u32| input.scope.iter().position(|own| own == step).map_or(0, after);
        let mut outer: Vec<usize> = scope.iter().map(stride).collect();
        let has_row = outer.pop().is_some_and(|stride| stride > 0);
        Self { values: input.values, first: after(0), outer, has_row }
    }
}

struct Sweep<'o> {
    own: &'o [f64],
    /// Sizes of the result's axes but the last.
    outer: &'o [usize],
    /// Size of the last axis.
    row: usize,
}

impl Sweep<'_> {
    /// Fills whole rows of the result, from row number `start` on.
    fn fill(&self, start: usize, inputs: &[Strides], least: &mut [f64], first: &mut [u16]) {
        let mut place = Place::at(start, self.outer, inputs);
        // As wide as the costs, so that the compiler can compare and select both in one vector.
        let mut best = vec![0u64; self.row];
        let mut sum = vec![0.0; self.row];
        for (least, first) in least.chunks_exact_mut(self.row).zip(first.chunks_exact_mut(self.row)) {
            for (x, &own) in self.own.iter().enumerate() {
                self.lower(own, x, inputs, &place.offsets, &mut sum, least, &mut best);
            }
            first.iter_mut().zip(&mut best).for_each(|(first, best)| *first = std::mem::take(best) as u16);
            place.advance(self.outer, inputs);
        }
    }

    /// Lowers one row of the result to what option `x` costs.
    #[allow(clippy::too_many_arguments, reason = "the innermost loop, with its scratch space passed in")]
    fn lower(
        &self,
        own: f64,
        x: usize,
        inputs: &[Strides],
        offsets: &[usize],
        sum: &mut [f64],
        least: &mut [f64],
        best: &mut [u64],
    ) {
        let mut base = own;
        let mut pending: Option<&[f64]> = None;
        let mut summed = false;
        for (input, offset) in inputs.iter().zip(offsets) {
            let values = &input.values[offset + x * input.first..];
            if !input.has_row {
                base += values[0];
                continue;
            }
            match pending.replace(&values[..self.row]) {
                Some(row) if summed => add(sum, row),
                Some(row) => sum.copy_from_slice(row),
                None => continue,
            }
            summed = true;
        }
        match pending {
            _ if base == f64::INFINITY => {}
            Some(row) if summed => lower_by_two(least, best, row, sum, base, x as u64),
            Some(row) => lower_by_one(least, best, row, base, x as u64),
            None => lower_by_one(least, best, &[0.0], base, x as u64),
        }
    }
}

/// Where a walk through the outer axes stands.
struct Place {
    index: Vec<usize>,
    /// Per input, where its entries for this place begin.
    offsets: Vec<usize>,
}

impl Place {
    fn at(row: usize, outer: &[usize], inputs: &[Strides]) -> Self {
        let mut index = vec![0; outer.len()];
        let mut rest = row;
        for (axis, &size) in outer.iter().enumerate().rev() {
            index[axis] = rest % size;
            rest /= size;
        }
        let offset = |input: &Strides| input.outer.iter().zip(&index).map(|(stride, at)| stride * at).sum();
        let offsets = inputs.iter().map(offset).collect();
        Self { index, offsets }
    }

    fn advance(&mut self, outer: &[usize], inputs: &[Strides]) {
        for axis in (0..outer.len()).rev() {
            self.index[axis] += 1;
            let wrap = self.index[axis] == outer[axis];
            for (offset, input) in self.offsets.iter_mut().zip(inputs) {
                *offset += input.outer[axis];
                *offset -= if wrap { input.outer[axis] * outer[axis] } else { 0 };
            }
            if !wrap {
                return;
            }
            self.index[axis] = 0;
        }
    }
}

fn add(sum: &mut [f64], row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
}

fn lower_by_one(least: &mut [f64], best: &mut [u64], row: &[f64], base: f64, x: u64) {
    for ((least, best), value) in least.iter_mut().zip(best).zip(row) {
        let cost = value + base;
        let less = cost < *least;
        *least = if less { cost } else { *least };
        *best = if less { x } else { *best };
    }
}

fn lower_by_two(least: &mut [f64], best: &mut [u64], row: &[f64], sum: &[f64], base: f64, x: u64) {
    for (((least, best), value), other) in least.iter_mut().zip(best).zip(row).zip(sum) {
        let cost = value + other + base;
        let less = cost < *least;
        *least = if less { cost } else { *least };
        *best = if less { x } else { *best };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The node of step 0, of two options, eliminated from tables over it and the node of step 1.
    fn eliminated(own: [f64; 2], tables: &[[f64; 4]]) -> (Vec<f64>, Vec<u16>) {
        let inputs: Vec<Factor> = tables.iter().map(|values| Factor { scope: &[0, 1], values }).collect();
        eliminate(&own, &inputs, &[1], &[2, 2])
    }

    #[test]
    fn each_entry_is_the_least_sum_and_of_equal_ones_the_first() {
        let (a, b) = ([1.0, 5.0, 2.0, 3.0], [0.5, 0.5, 0.0, 4.0]);
        assert_eq!(eliminated([0.0, 1.0], &[a]), (vec![1.0, 4.0], vec![0, 1]));
        assert_eq!(eliminated([0.0, 1.0], &[a, b]), (vec![1.5, 5.5], vec![0, 0]));
        for n_tables in 1..4 {
            assert_eq!(
                eliminated([2.0; 2], &vec![[1.0; 4]; n_tables]),
                (vec![2.0 + n_tables as f64; 2], vec![0; 2])
            );
        }
    }

    #[test]
    fn a_large_table_is_the_same_however_many_threads_fill_it() {
        let (n, values) = (64, |at: usize| ((at * 7919) % 1009) as f64);
        let tables: Vec<Vec<f64>> =
            (1..3).map(|by| (0..n * n * n).map(|at| values(at * by)).collect()).collect();
        let inputs: Vec<Factor> = tables.iter().map(|values| Factor { scope: &[0, 1, 2], values }).collect();
        let own: Vec<f64> = (0..n).map(values).collect();
        let (least, first) = eliminate(&own, &inputs, &[1, 2], &[n; 3]);
        for entry in (0..n * n).step_by(97) {
            let cost = |x: usize| own[x] + tables[0][x * n * n + entry] + tables[1][x * n * n + entry];
            let best = (0..n).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("options");
            assert_eq!((least[entry], first[entry] as usize), (cost(best), best), "{entry}");
        }
    }
}
