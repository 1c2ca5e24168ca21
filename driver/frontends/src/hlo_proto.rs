//! HLO protobufs: `HloModuleProto`, and `HloProto` as XLA's dumps write it (`*.hlo.pb`).
//!
//! A module that is read here is the one that XLA's text of it reads as, to the order of the attributes. What
//! XLA keeps beside the module is not in the protobuf: the numbers of replicas and partitions, say.

mod attrs;
mod groups;
mod literal;
mod message;
mod module;
mod shape;
mod sharding;

use phzc_ir::{Diagnostic, Module, Result};
use prost::Message;
use std::path::Path;

/// Whether a file is called `.pb`, or starts as a protobuf and is no text.
pub fn recognises(bytes: &[u8], path: &Path) -> bool {
    let is_binary = bytes.first() == Some(&0x0a) && bytes.iter().take(4096).any(|&byte| byte < 9);
    path.extension().is_some_and(|extension| extension == "pb") || is_binary
}

/// Reads a module.
///
/// # Errors
/// Bytes that are no such message; what this version of HLO's text has no form for.
pub fn read(bytes: &[u8]) -> Result<Module> {
    let whole = message::Hlo::decode(bytes).ok().and_then(|hlo| hlo.hlo_module);
    let module = match whole.filter(|module| !module.computations.is_empty()) {
        Some(module) => module,
        None => message::Module::decode(bytes).map_err(|error| {
            Diagnostic::error(format!("the file is no HLO protobuf: {error}"))
                .help("`HloModuleProto` and `HloProto` are read, as XLA's dumps write them (`*.hlo.pb`)")
        })?,
    };
    module::module(&module)
}
