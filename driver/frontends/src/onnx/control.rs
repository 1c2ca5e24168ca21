//! `If` whose condition is known while converting.

use super::proto::{Graph, Node};
use phzc_ir::{Diagnostic, Result};

/// The branch that is taken.
pub(super) fn branch(node: &Node, is_true: bool) -> Result<&Graph> {
    let name = if is_true { "then_branch" } else { "else_branch" };
    let graph = node.attribute.iter().find(|attribute| attribute.name == name);
    graph.and_then(|one| one.g.as_ref()).ok_or_else(|| Diagnostic::error(format!("`{name}` is missing")))
}
