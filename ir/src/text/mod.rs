//! HLO text: reading it and writing it back.
//!
//! Grammar: reference/hlo-text.md section 1 (checked there against XLA's own parser).

mod attrs;
pub mod cursor;
mod layout;
mod literal;
pub mod number;
mod parser;
mod print;
mod shape;

pub use layout::sharding;
pub use parser::parse;
pub use print::{print, print_instr, print_instr_long, print_with, shape_text};

#[cfg(test)]
mod tests;
