//! HLO text, as JAX and XLA print it.

use phzc_ir::{Module, Result, parse};

/// The program of a text.
pub(super) fn read(text: &str) -> Result<Module> {
    parse(text).map_err(|error| match text.trim_start().starts_with("module ") && error.help.is_none() {
        true => error.help("StableHLO is not read; JAX prints HLO with `.lower(x).as_text(dialect=\"hlo\")`"),
        false => error,
    })
}
