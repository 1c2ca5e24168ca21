//! Common-factor decomposition: which loops a reshape's two sides share (reference/cfp-alpa.md 4.4).

/// A factor of a reshape, with the dimension that holds it on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Iterations.
    pub size: i64,
    /// Dimension of the operand, if the operand has this factor.
    pub input: Option<usize>,
    /// Dimension of the result, if the result has this factor.
    pub output: Option<usize>,
}

/// One side while it is scanned, major to minor.
struct Side<'a> {
    dims: &'a [i64],
    /// The dimension being taken apart.
    at: usize,
    /// What is left of it.
    rest: i64,
    /// Product of the factors emitted so far.
    done: i64,
}

/// The factors of a reshape from `input` to `output`, major to minor on both sides.
///
/// A factor in both is shared; one in a single side belongs to a stretch in which the sides' boundaries
/// do not meet, and can only be replicated. Dimensions of size 1 have factors of their own.
pub fn factorize(input: &[i64], output: &[i64]) -> Vec<Piece> {
    if input.iter().chain(output).any(|&size| size < 1) {
        return apart(input, output);
    }
    let mut pieces = Vec::new();
    let (mut a, mut b) = (Side::new(input), Side::new(output));
    loop {
        a.skip_done(&mut |size, dim| pieces.push(Piece { size, input: Some(dim), output: None }));
        b.skip_done(&mut |size, dim| pieces.push(Piece { size, input: None, output: Some(dim) }));
        if a.at_end() && b.at_end() {
            return pieces;
        }
        if a.done == b.done {
            let common = gcd(a.rest, b.rest);
            if common > 1 {
                pieces.push(Piece { size: common, input: Some(a.at), output: Some(b.at) });
                a.take(common);
                b.take(common);
                continue;
            }
            pieces.push(Piece { size: a.rest, input: Some(a.at), output: None });
            pieces.push(Piece { size: b.rest, input: None, output: Some(b.at) });
            a.take(a.rest);
            b.take(b.rest);
        } else if a.done < b.done {
            let size = a.step_towards(&b);
            pieces.push(Piece { size, input: Some(a.at), output: None });
            a.take(size);
        } else {
            let size = b.step_towards(&a);
            pieces.push(Piece { size, input: None, output: Some(b.at) });
            b.take(size);
        }
    }
}

impl<'a> Side<'a> {
    fn new(dims: &'a [i64]) -> Side<'a> {
        Side { dims, at: 0, rest: dims.first().copied().unwrap_or(1), done: 1 }
    }

    fn at_end(&self) -> bool {
        self.at >= self.dims.len()
    }

    fn take(&mut self, size: i64) {
        self.rest /= size;
        self.done = self.done.saturating_mul(size);
    }

    /// Moves to the next dimension with something left; dimensions of size 1 are reported.
    fn skip_done(&mut self, single: &mut impl FnMut(i64, usize)) {
        while !self.at_end() && self.rest == 1 {
            if self.dims[self.at] == 1 {
                single(1, self.at);
            }
            self.at += 1;
            self.rest = self.dims.get(self.at).copied().unwrap_or(1);
        }
    }

    /// The smallest step after which the sides can meet again.
    fn step_towards(&self, ahead: &Side) -> i64 {
        let missing = ahead.done / self.done;
        if ahead.done % self.done == 0 && self.rest % missing == 0 {
            return missing;
        }
        match self.rest / gcd(self.rest, ahead.rest) {
            1 => self.rest,
            step => step,
        }
    }
}

/// Nothing shared.
fn apart(input: &[i64], output: &[i64]) -> Vec<Piece> {
    let own = |(dim, &size): (usize, &i64)| Piece { size, input: Some(dim), output: None };
    let other = |(dim, &size): (usize, &i64)| Piece { size, input: None, output: Some(dim) };
    input.iter().enumerate().map(own).chain(output.iter().enumerate().map(other)).collect()
}

/// The greatest common divisor of two positive numbers.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `2:0-0` is a factor of 2 in dimension 0 of both sides, `3:1-` one of the operand only.
    fn check(input: &[i64], output: &[i64], expected: &str) {
        let side = |dim: Option<usize>| dim.map_or(String::new(), |dim| dim.to_string());
        let pieces = factorize(input, output);
        let text: Vec<String> = pieces
            .iter()
            .map(|piece| format!("{}:{}-{}", piece.size, side(piece.input), side(piece.output)))
            .collect();
        assert_eq!(text.join(" "), expected, "{input:?} to {output:?}");
        for (dims, dim_of) in
            [(input, (|piece| piece.input) as fn(&Piece) -> Option<usize>), (output, |piece| piece.output)]
        {
            for (dim, &size) in dims.iter().enumerate() {
                let product: i64 = pieces
                    .iter()
                    .filter(|piece| dim_of(piece) == Some(dim))
                    .map(|piece| piece.size)
                    .product();
                assert_eq!(product, size, "dimension {dim} of {dims:?}");
            }
        }
    }

    #[test]
    fn the_examples_of_the_reference() {
        check(&[8, 4], &[2, 16], "2:0-0 4:0-1 4:1-1");
        check(&[65536, 1280], &[64, 1024, 1280], "64:0-0 1024:0-1 1280:1-2");
    }

    #[test]
    fn splits_and_merges_of_heads() {
        check(&[4, 2048, 4096], &[4, 2048, 32, 128], "4:0-0 2048:1-1 32:2-2 128:2-3");
        check(&[4, 2048, 32, 128], &[8192, 4096], "4:0-0 2048:1-0 32:2-1 128:3-1");
    }

    #[test]
    fn dimensions_of_size_one_are_apart() {
        check(&[1, 4], &[4, 1, 1], "1:0- 4:1-0 1:-1 1:-2");
        check(&[], &[1, 1], "1:-0 1:-1");
    }

    #[test]
    fn sides_that_diverge_meet_again() {
        check(&[2, 3, 5], &[3, 2, 5], "2:0- 3:-0 3:1- 2:-1 5:2-2");
        check(&[6, 2, 7], &[4, 3, 7], "2:0-0 3:0- 2:-0 3:-1 2:1- 7:2-2");
        check(&[4, 6], &[6, 4], "2:0-0 2:0- 3:-0 3:1- 2:-1 2:1-1");
    }

    #[test]
    fn empty_arrays_share_nothing() {
        check(&[0, 4], &[2, 0], "0:0- 4:1- 2:-0 0:-1");
    }

    /// The values of the factors at linear index `at`, read off the coordinates of one side.
    fn digits(
        pieces: &[Piece],
        dims: &[i64],
        side: fn(&Piece) -> Option<usize>,
        at: i64,
    ) -> Vec<Option<i64>> {
        let mut found = vec![None; pieces.len()];
        let mut rest = at;
        for dim in (0..dims.len()).rev() {
            let mut coordinate = rest % dims[dim];
            rest /= dims[dim];
            for (index, piece) in
                pieces.iter().enumerate().rev().filter(|(_, piece)| side(piece) == Some(dim))
            {
                found[index] = Some(coordinate % piece.size);
                coordinate /= piece.size;
            }
            assert_eq!(coordinate, 0, "dimension {dim} of {dims:?} is covered");
        }
        found
    }

    #[test]
    fn a_shared_factor_has_one_value_on_both_sides_of_every_element() {
        let splits = |n: i64| -> Vec<Vec<i64>> {
            let divisors = |n: i64| (1..=n).filter(move |d| n % d == 0);
            divisors(n).flat_map(|a| divisors(n / a).map(move |b| vec![a, b, n / a / b])).collect()
        };
        for n in [12, 36, 64] {
            for (input, output) in splits(n).iter().flat_map(|a| splits(n).into_iter().map(move |b| (a, b))) {
                let pieces = factorize(input, &output);
                for at in 0..n {
                    let from = digits(&pieces, input, |piece| piece.input, at);
                    let to = digits(&pieces, &output, |piece| piece.output, at);
                    let agree = from.iter().zip(&to).all(|(a, b)| a.is_none() || b.is_none() || a == b);
                    assert!(agree, "{input:?} {output:?} {at}");
                }
            }
        }
    }
}
