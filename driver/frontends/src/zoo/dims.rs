//! The dimensions of a model family: a struct, its command-line options and their checks, from one list.

use phzc_ir::{Diagnostic, Result};

/// A dimension: its option's name, what it is, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Dim {
    /// As in `--layers`.
    pub name: &'static str,
    /// For the help.
    pub about: &'static str,
    /// Least and largest value.
    pub range: (i64, i64),
}

/// What a size may be: products of four still fit 64 bits.
const SIZES: (i64, i64) = (1, 1_000_000);

impl Dim {
    /// A size.
    pub const fn size(name: &'static str, about: &'static str) -> Dim {
        Dim { name, about, range: SIZES }
    }

    /// A number of layers, which are written one after the other.
    pub const fn layers(name: &'static str, about: &'static str) -> Dim {
        Dim { name, about, range: (1, 16_384) }
    }

    /// A number that is no size.
    pub const fn within(name: &'static str, range: (i64, i64), about: &'static str) -> Dim {
        Dim { name, about, range }
    }
}

/// Declares the dimensions of a family: a struct with one field each, in the order of its sizes' values.
macro_rules! dims {
    (
        $(#[$doc:meta])*
        $name:ident { $($field:ident: $dim:expr,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($field: i64),* }

        impl $name {
            /// All dimensions in order.
            pub const DIMS: &[Dim] = &[$($dim),*];

            /// From one value per dimension.
            pub fn new(values: &[i64]) -> $name {
                let [$($field),*] = values else { unreachable!("one value per dimension") };
                $name { $($field: *$field),* }
            }
        }
    };
}
pub(super) use dims;

/// Errors unless every tensor has fewer elements than 64 bits count: the largest is no more than the batch
/// times the largest size squared (positions by positions) times the second largest.
pub fn countable(dims: &[Dim], values: &[i64], batch: i64) -> Result<()> {
    let is_size = |(dim, _): &(&Dim, &i64)| dim.range == SIZES;
    let mut sizes: Vec<f64> =
        dims.iter().zip(values).filter(is_size).map(|(_, &value)| value as f64).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let largest: f64 = sizes.iter().take(1).chain(sizes.iter().take(2)).product();
    if largest * (batch as f64) < 2f64.powi(63) {
        return Ok(());
    }
    let error = Diagnostic::error("these dimensions may make tensors of more elements than 64 bits count");
    Err(error.help("make the batch smaller, or the largest dimension"))
}

/// Errors unless one dimension is a multiple of another.
pub fn divides((small, by): (&str, i64), (large, size): (&str, i64)) -> Result<()> {
    if by > 0 && size % by == 0 {
        return Ok(());
    }
    let message = format!("`--{large}` has to be a multiple of `--{small}`, got {size} and {by}");
    Err(Diagnostic::error(message))
}
