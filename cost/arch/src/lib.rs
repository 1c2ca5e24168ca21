//! Accelerators by Phaze's template, and what follows from one: area, mapped operators, their schedule.
//!
//! Phaze (Wang et al., ICML 2024) describes an accelerator by its tensor cores, its vector cores, a global
//! buffer and its HBM. [`template`] has that description, [`area`] what it costs, [`space`] the
//! accelerators that a search visits; [`mapping`] runs one operator on one of them, [`schedule`] those of a
//! layer; [`estimate`] does both, [`search`] chooses among accelerators. A [`model`] has its layers from a
//! graph of operators by [`fuse`]. Formulas, constants and reference
//! rows are those of `reference/phaze.md`.
//!
//! This crate touches no file, prints nothing and reads no environment; the same input gives the same bytes.

pub mod area;
pub mod estimate;
pub mod fuse;
pub mod mapping;
pub mod model;
pub mod program;
pub mod schedule;
pub mod search;
pub mod space;
pub mod technology;
pub mod template;
#[cfg(test)]
mod testing;

pub use space::Space;
pub use technology::Technology;
pub use template::{Cores, Template};
