//! ONNX models (opset 13 and later) as the exporters of PyTorch write them.
//!
//! Parameters of the program are the graph's inputs and then its initializers, both in the file's order.
//! Initializers that no node reads are left out; scalars and small arrays of integers are constants. What
//! depends on sizes alone is computed while converting: every size of an HLO program is fixed.

mod activation;
mod borrowed;
mod control;
mod convolution;
mod elementwise;
mod generate;
mod graph;
mod index;
mod loss;
mod matmul;
mod movement;
mod node;
mod normalize;
mod operators;
mod pool;
mod proto;
mod reduce;
mod select;
mod tensor;

pub(crate) use borrowed::operator;
pub(crate) use convolution::windowed;
pub(crate) use graph::identifier;
pub(crate) use index::{from_start, take};
pub(crate) use matmul::dot;
pub(crate) use node::{Cx as Plain, Value, axis, constant};
pub(crate) use normalize::{standard, unit};
pub(crate) use proto::Attribute;
pub(crate) use tensor::{checked, from_bytes};

use super::{Binary, Options, Weights};
use phzc_ir::{Diagnostic, Result};
use prost::Message;
use prost::bytes::Bytes;
use proto::{Model, Tensor};
use std::path::Path;

/// The versions of the operators that are read; older ones mean other things by the same names.
const OLDEST_OPSET: i64 = 13;

/// Whether a file is one: by its name, or since it begins with the field `ir_version`.
pub(super) fn recognises(bytes: &[u8], path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    bytes.first() == Some(&0x08) || name.trim_end_matches(".gz").ends_with(".onnx")
}

/// The program of a model, and its weights.
pub(super) fn read(bytes: Vec<u8>, options: &Options) -> Result<Binary> {
    // Arrays stay where they are: their bytes are parts of these.
    let model = Model::decode(Bytes::from(bytes));
    let model = model.map_err(|error| Diagnostic::error(format!("this is no ONNX model: {error}")))?;
    let opset = opset(&model)?;
    let graph = model.graph.ok_or_else(|| Diagnostic::error("the ONNX model has no graph"))?;
    let (module, weights) = graph::convert(&graph, opset, options)?;
    let mut initializers: Vec<Option<Tensor>> = graph.initializer.into_iter().map(Some).collect();
    let tensors: Vec<Tensor> = weights.iter().filter_map(|&index| initializers[index].take()).collect();
    let path = options.path.to_owned();
    let read: Weights = Box::new(move || tensors.iter().map(|one| tensor::array(one, &path)).collect());
    Ok((module, Some(read)))
}

/// The version of ONNX's own operators.
fn opset(model: &Model) -> Result<i64> {
    let own = model.opset_import.iter().find(|opset| matches!(&*opset.domain, "" | "ai.onnx"));
    let version = own.ok_or_else(|| Diagnostic::error("the ONNX model names no opset"))?.version;
    let help = "export the model with a newer `opset_version`, or convert it with `onnx.version_converter`";
    match version >= OLDEST_OPSET {
        true => Ok(version),
        false => {
            let message = format!("opset {version} is older than {OLDEST_OPSET}, the oldest that is read");
            Err(Diagnostic::error(message).help(help))
        }
    }
}
