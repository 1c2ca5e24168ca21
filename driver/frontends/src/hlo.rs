//! HLO text, as JAX and XLA print it.

use phzc_ir::{Module, Result, parse};

/// The program of a text.
pub(super) fn read(text: &str) -> Result<Module> {
    parse(text)
}
