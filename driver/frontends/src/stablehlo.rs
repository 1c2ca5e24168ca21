//! StableHLO text, as JAX prints it (`jax.jit(f).lower(x).as_text()`), in short and in generic form.
//!
//! `parse` reads MLIR's syntax into operations, `lower` gives each the HLO of the same meaning: one table,
//! `ops`, says which function does so for which name. Functions and regions become computations, several
//! results a tuple. What a region reads from outside becomes an operand; constants are repeated inside
//! instead. Operations of CHLO that HLO lacks are written out as XLA writes them out (`expand`).

mod ast;
mod attr;
mod capture;
mod dense;
mod expand;
mod header;
mod lower;
mod ops;
mod parse;
mod pretty;
mod sharding;
mod types;

use phzc_ir::{Module, Result};

/// Whether a file's bytes look like MLIR text: a module, an operation in generic form, an alias.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    let starts = [&b"module"[..], b"\"builtin.module\"", b"#loc", b"func.func", b"\"func.func\""];
    let after = |start: &[u8]| {
        text.get(start.len()).is_none_or(|&next| !next.is_ascii_alphanumeric() && next != b'_')
    };
    starts.iter().any(|start| text.starts_with(start) && (start.ends_with(b"c") || after(start)))
}

/// Reads a program; its instructions point into the text.
///
/// # Errors
/// One diagnostic with its place: a syntax error, an operation or an attribute that HLO has no counterpart
/// for.
pub fn read(text: &str) -> Result<Module> {
    let file = parse::parse(text)?;
    header::module(&file)
}
