//! Where nodes come from: the module of the model, and the line of its source.

use super::node::outputs;
use super::schema::Node;
use phzc_ir::build::Builder;
use phzc_ir::{Attr, InstrId, Key, Opcode, Value};

/// The file and the line of the model's source that made a node.
pub(super) fn place(node: &Node) -> Option<(&str, u64)> {
    let mut frames = node.metadata.get("stack_trace")?.lines().filter_map(frame);
    // The innermost of the model's own; PyTorch's modules call its functions.
    let is_own = |(file, _): &(&str, u64)| !file.contains("/torch/") && !file.starts_with('<');
    frames.clone().rfind(is_own).or_else(|| frames.next_back())
}

/// `File "model.py", line 12, in forward`.
fn frame(line: &str) -> Option<(&str, u64)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    Some((file, rest.split(',').next()?.trim().parse().ok()?))
}

/// The path of the module that a node is part of: `layers.0.attn`.
fn module(node: &Node) -> Option<&str> {
    // `key,path,class` of each module around it, separated by `;`.
    let innermost = node.metadata.get("nn_module_stack")?.rsplit(';').next()?;
    innermost.split(',').nth(1).filter(|path| !path.is_empty())
}

/// `metadata` of the instructions of a node.
pub(super) fn of_node(node: &Node) -> String {
    let name = outputs(node).into_iter().flatten().next().unwrap_or_default();
    let path = module(node).map_or_else(|| name.to_owned(), |path| format!("{path}/{name}"));
    let place =
        place(node).map(|(file, line)| format!(" source_file=\"{}\" source_line={line}", quotable(file)));
    format!("op_name=\"{}\"{}", quotable(&path), place.unwrap_or_default())
}

/// `metadata` of what the model has a name for.
pub(super) fn named(name: &str) -> String {
    format!("op_name=\"{}\"", quotable(name))
}

fn quotable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !"\"\\".contains(*c)).collect()
}

/// Notes at the instructions from the `first` on where they are from.
pub(super) fn remember(b: &mut Builder, first: usize, metadata: &str) {
    for index in first..b.instrs().len() {
        let instr = b.instr_mut(InstrId::new(index));
        if instr.op != Opcode::Constant && instr.attrs.iter().all(|attr| attr.key != Key::Metadata) {
            let text = format!("{{{metadata}}}");
            instr.attrs.push(Attr { key: Key::Metadata, value: Value::Raw(text.into()) });
        }
    }
}
