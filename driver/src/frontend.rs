//! Readers of programs in other forms.

mod element;
pub mod stablehlo;
