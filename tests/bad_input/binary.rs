//! The cases in binary formats.

use super::cases::{Case, Input, case};

/// Everything that must fail.
pub fn bad() -> Vec<Case> {
    let bytes = |name, says, bytes: &[u8]| case(name, says, Input::Bytes(bytes.to_vec()));
    vec![
        bytes("onnx of noise", "this is no ONNX model", b"\x08\x08\xff\xff\xff\xff\xff\xff"),
        bytes("onnx cut off", "this is no ONNX model", b"\x08\x08\x3a\x7f"),
        bytes("onnx without an opset", "the ONNX model names no opset", b"\x08\x08"),
        bytes("onnx without a graph", "the ONNX model has no graph", b"\x08\x08\x42\x02\x10\x11"),
    ]
}
