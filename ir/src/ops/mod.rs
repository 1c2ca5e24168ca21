//! What every op is: one file per family, each with shape inference, factor rule and work.
//!
//! A family file exports one [`OpDef`](crate::opcode::OpDef) per kind of op; `opcode.rs` says which op is
//! which.
//!
//! Three rules promise more than slicing the operands: a looked-up dimension of `gather`, an indexed
//! dimension of `scatter` and an updated dimension of `dynamic-update-slice` may be split, and the op
//! then has to subtract where the device's part starts and mask what falls outside. Where the look-ups of a
//! `scatter` are split, one device starts from the array's own values ([`counted_once`]). What windows read
//! beyond their tile is no part of these rules; [`split_rule`] adds it.

pub mod collective;
pub mod contract;
pub mod control;
pub mod convolution;
pub mod elementwise;
pub mod indexing;
pub mod linalg;
pub mod linear;
pub mod literal;
pub mod movement;
pub mod other;
pub mod random;
pub mod reduce;
pub mod reshape;
pub mod window;

mod batch_norm;
pub(crate) mod gather;
mod halo;
pub(crate) mod maps;
pub(crate) mod positions;
mod read;
pub(crate) mod reducer;
pub(crate) mod scatter;
mod windowed;

#[cfg(test)]
pub(crate) mod check;

pub use halo::{local_padding, local_window, outside, split_rule};
pub use reducer::reducer;
pub use scatter::counted_once;

pub(crate) use read::describe;
