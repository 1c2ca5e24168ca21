//! The dimensions of a model family: a struct, its command-line options and their checks, from one list.

use phzc_ir::{Diagnostic, Result};

/// A dimension: its option's name, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Dim {
    /// As in `--layers`.
    pub name: &'static str,
    /// For the help.
    pub about: &'static str,
}

/// The largest value of a dimension: products of five still fit 64 bits with those of real models.
pub const MAX_DIM: i64 = 10_000_000;

/// Declares the dimensions of a family: a struct with one field each, in the order of its sizes' values.
macro_rules! dims {
    ($(#[$doc:meta])* $name:ident { $($field:ident $text:literal $about:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $(#[doc = $about] pub $field: i64),* }

        impl $name {
            /// All dimensions in order.
            pub const DIMS: &[Dim] = &[$(Dim { name: $text, about: $about }),*];

            /// From one value per dimension.
            pub fn new(values: &[i64]) -> $name {
                let [$($field),*] = values else { unreachable!("one value per dimension") };
                $name { $($field: *$field),* }
            }
        }
    };
}
pub(super) use dims;

/// Errors unless one dimension is a multiple of another.
pub fn divides((small, by): (&str, i64), (large, size): (&str, i64)) -> Result<()> {
    if by > 0 && size % by == 0 {
        return Ok(());
    }
    let message = format!("`--{large}` has to be a multiple of `--{small}`, got {size} and {by}");
    Err(Diagnostic::error(message))
}
