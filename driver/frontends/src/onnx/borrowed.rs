//! ONNX's operators for other readers: what they cannot say more plainly, they say as ONNX does.

use super::node::{Cx, Value};
use super::operators::find;
use super::proto::{Attribute, Node};
use phzc_ir::build::Builder;
use phzc_ir::{Diagnostic, Result};
use std::sync::LazyLock;

/// The version of the operators; none means anything else in it than in later ones.
const OPSET: i64 = 23;

/// No node at all, for helpers that read none.
static NOTHING: LazyLock<Node> = LazyLock::new(Node::default);

/// The outputs of an operator.
pub(crate) fn operator(
    b: &mut Builder,
    name: &str,
    inputs: &[Value],
    attribute: Vec<Attribute>,
    n_outputs: usize,
) -> Result<Vec<Value>> {
    let output = (0..n_outputs).map(|index| index.to_string()).collect();
    let node = Node { op_type: name.to_owned(), attribute, output, ..Node::default() };
    let lowering = find(&node).ok_or_else(|| Diagnostic::error(format!("ONNX has no `{name}`")))?;
    let inputs: Vec<Option<Value>> = inputs.iter().cloned().map(Some).collect();
    lowering.lower(Cx { b, node: &node, opset: OPSET, inputs: &inputs })
}

impl Cx<'_> {
    /// A builder with this one's helpers.
    pub(crate) fn of(b: &mut Builder) -> Cx<'_> {
        Cx { b, node: &NOTHING, opset: OPSET, inputs: &[] }
    }
}

impl Attribute {
    /// An integer.
    pub fn int(name: &str, i: i64) -> Attribute {
        Attribute { name: name.to_owned(), i, ..Attribute::default() }
    }

    /// A list of integers.
    pub fn ints(name: &str, ints: &[i64]) -> Attribute {
        Attribute { name: name.to_owned(), ints: ints.to_vec(), ..Attribute::default() }
    }

    /// A float.
    pub fn float(name: &str, f: f64) -> Attribute {
        Attribute { name: name.to_owned(), f: f as f32, ..Attribute::default() }
    }

    /// A text.
    pub fn text(name: &str, text: &str) -> Attribute {
        Attribute { name: name.to_owned(), s: text.as_bytes().to_vec(), ..Attribute::default() }
    }
}
