//! Programs that `torch.export.save` writes, in ATen's operators.
//!
//! Parameters of the program are the inputs of the model, then its own parameters, buffers and constants, as
//! far as it reads them, by the names that the model has for them. Scalars and small arrays of integers that
//! no step changes are constants. Buffers and inputs that a step changes are results that take their place.
//!
//! Most operators are written as ONNX has them ([`crate::onnx`]), for it has fewer and plainer ones.

mod archive;
mod attention;
mod contract;
mod create;
mod elementwise;
mod expr;
mod graph;
mod index;
mod loss;
mod movement;
mod node;
mod normalize;
mod operators;
mod pool;
mod reduce;
mod schema;
mod sizes;
mod source;
mod unread;

pub(crate) use archive::MAGIC;

use crate::{Binary, Options, Weights};
use archive::Archive;
use phzc_ir::{Diagnostic, Result};
use std::path::Path;

/// The major versions of the schema that are read: PyTorch 2.5 and later.
const SCHEMAS: std::ops::RangeInclusive<i64> = 7..=8;

/// Whether a file is one: it is a zip archive.
pub(super) fn recognises(bytes: &[u8], _: &Path) -> bool {
    bytes.starts_with(MAGIC)
}

/// The program of a model, and its weights.
pub(super) fn read(bytes: Vec<u8>, options: &Options) -> Result<Binary> {
    let mut archive = Archive::open(bytes, options.path)?;
    let program = archive.program()?;
    if !SCHEMAS.contains(&program.schema_version.major) {
        let message = format!(
            "schema version {} of PyTorch {} is not read; {} to {} are",
            program.schema_version.major,
            program.torch_version,
            SCHEMAS.start(),
            SCHEMAS.end()
        );
        return Err(Diagnostic::error(message));
    }
    let (module, weights) = graph::convert(&program, &mut archive, options)?;
    if !weights.iter().all(|name| archive.has(name)) {
        return Ok((module, None));
    }
    let read: Weights = Box::new(move || weights.iter().map(|name| archive.array(name)).collect());
    Ok((module, Some(read)))
}
