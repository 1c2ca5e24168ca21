//! What is not read, said at once: operators, with their nodes and source lines.

use super::graph::described;
use super::operators::{find, is_scope, short};
use super::schema::{Argument, Graph, Node};
use indexmap::IndexMap;
use phzc_ir::{Diagnostic, Result};

/// Nodes of one operator that are named.
const MAX_NAMED: usize = 3;

/// An error with all operators that are not read.
pub(super) fn all_supported(graph: &Graph) -> Result<()> {
    let mut found: IndexMap<&str, Vec<&Node>> = IndexMap::new();
    collect(graph, &mut found);
    let Some(first) = found.values().next().map(|nodes| nodes[0]) else { return Ok(()) };
    let n: usize = found.values().map(Vec::len).sum();
    let message = match n {
        1 => format!("{}: the operator is not read", described(first)),
        n => format!("{n} nodes have operators that are not read"),
    };
    let notes = found.values().filter(|_| n > 1).map(|nodes| (None, listed(nodes)));
    Err(Diagnostic { notes: notes.collect(), ..Diagnostic::error(message).help(remedy(&found)) })
}

fn collect<'a>(graph: &'a Graph, found: &mut IndexMap<&'a str, Vec<&'a Node>>) {
    for node in &graph.nodes {
        let nested = node.inputs.iter().filter_map(|input| match &input.arg {
            Argument::AsGraph(nested) => Some(&nested.graph),
            _ => None,
        });
        nested.filter(|_| is_scope(node)).for_each(|graph| collect(graph, found));
        if find(node).is_none() && !is_scope(node) {
            found.entry(short(node)).or_default().push(node);
        }
    }
}

/// Nodes of one operator, a few of them by name.
fn listed(nodes: &[&Node]) -> String {
    let named: Vec<String> = nodes.iter().take(MAX_NAMED).map(|node| described(node)).collect();
    let more = nodes.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", named.join(", "))
}

/// What may help: operators that write to their operands, and composite ones, have others in their place.
fn remedy(found: &IndexMap<&str, Vec<&Node>>) -> String {
    let is_random = |name: &&&str| ["rand", "bernoulli", "dropout"].iter().any(|word| name.contains(word));
    match found.keys().find(is_random) {
        Some(_) => {
            "random numbers are not read: export the model in inference mode, `model.eval()`".to_owned()
        }
        None => {
            "write the program in core operators: `torch.export.export(model, args).run_decompositions()`"
                .to_owned()
        }
    }
}

/// An error with the node that it is about.
pub(super) fn at(node: &Node, error: Diagnostic) -> Diagnostic {
    // An error within a nested graph has its own node.
    let is_named = error.message.starts_with("node `");
    let message =
        if is_named { error.message.clone() } else { format!("{}: {}", described(node), error.message) };
    Diagnostic { message, ..error }
}
