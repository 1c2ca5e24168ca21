//! The largest of any range of numbers, in constant time.

/// Per power of two the largest of as many numbers from each position.
pub struct RangeMax(Vec<Vec<f64>>);

impl RangeMax {
    /// Over these numbers.
    pub fn new(numbers: Vec<f64>) -> RangeMax {
        let (n, mut width) = (numbers.len(), 1);
        let mut levels = vec![numbers];
        while 2 * width <= n {
            let last = &levels[levels.len() - 1];
            let next = (0..=n - 2 * width).map(|at| last[at].max(last[at + width])).collect();
            levels.push(next);
            width *= 2;
        }
        RangeMax(levels)
    }

    /// The largest in `first..end`; 0 where that is empty.
    pub fn of(&self, first: usize, end: usize) -> f64 {
        if first >= end {
            return 0.0;
        }
        let level = (end - first).ilog2() as usize;
        self.0[level][first].max(self.0[level][end - (1 << level)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_some_numbers() {
        let numbers = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let most = RangeMax::new(numbers.to_vec());
        for first in 0..=numbers.len() {
            for end in first..=numbers.len() {
                let expected = numbers[first..end].iter().copied().fold(0.0, f64::max);
                assert_eq!(most.of(first, end), expected);
            }
        }
    }
}
