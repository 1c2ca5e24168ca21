//! A graph as a computation: parameters, then node after node.

use super::super::Options;
use super::node::{Cx, Value};
use super::operators::{Lowering, find};
use super::proto::{Graph, Node, Tensor, ValueInfo};
use super::{control, tensor};
use indexmap::{IndexMap, IndexSet};
use phzc_ir::build::Builder;
use phzc_ir::dtype::Class;
use phzc_ir::{Attr, Diagnostic, InstrId, Key, Module, Opcode, Result, Shape};
use phzc_ir::{Value as AttrValue, eval};

/// Values of more elements are computed by the program, not while converting; larger initializers are
/// parameters.
const MAX_KNOWN: i64 = 1024;
/// No array on the way to a known value is larger.
const MAX_SCRATCH_BYTES: f64 = 1e8;

/// A graph that is being converted.
pub(super) struct Converter<'a> {
    b: Builder,
    opset: i64,
    options: &'a Options<'a>,
    /// By name; those of a nested graph are among them, since ONNX's names are unique.
    values: IndexMap<String, Value>,
    /// Names of instructions that are taken.
    names: IndexSet<String>,
    /// Dimensions that the file names.
    symbols: IndexSet<String>,
}

/// The program, and which initializers are its last parameters.
pub(super) fn convert(graph: &Graph, opset: i64, options: &Options) -> Result<(Module, Vec<usize>)> {
    let mut converter = Converter {
        b: Builder::new(&identifier(&graph.name)),
        opset,
        options,
        values: IndexMap::new(),
        names: IndexSet::new(),
        symbols: IndexSet::new(),
    };
    all_supported(graph, opset)?;
    converter.inputs(graph)?;
    let weights = converter.initializers(graph)?;
    converter.nodes(graph)?;
    let outputs = converter.outputs(graph)?;
    let ids: Vec<InstrId> = outputs.iter().map(|value| value.made(&mut converter.b)).collect();
    let root = if let [one] = ids[..] { one } else { converter.b.tuple(&ids) };
    Ok((converter.b.finish(root), weights))
}

/// An error that names the first node whose operator is not supported, and the other such operators.
fn all_supported(graph: &Graph, opset: i64) -> Result<()> {
    let known = |node: &&Node| find(node).is_none();
    let mut unknown = graph.node.iter().filter(known);
    let Some(first) = unknown.next() else { return Ok(()) };
    let others: IndexSet<String> = unknown.map(operator).filter(|other| *other != operator(first)).collect();
    let error = Diagnostic::error(format!("{}: the operator is not supported", described(first, opset)));
    let others: Vec<String> = others.into_iter().collect();
    Err(if others.is_empty() { error } else { error.help(format!("nor are: {}", others.join(", "))) })
}

fn operator(node: &Node) -> String {
    if node.domain.is_empty() { node.op_type.clone() } else { format!("{}::{}", node.domain, node.op_type) }
}

/// A node in a sentence.
fn described(node: &Node, opset: i64) -> String {
    let name = match (&*node.name, node.output.first()) {
        ("", Some(output)) => format!("the node that makes `{output}`"),
        (name, _) => format!("node `{name}`"),
    };
    format!("{name} (`{}`, opset {opset})", operator(node))
}

impl Converter<'_> {
    fn inputs(&mut self, graph: &Graph) -> Result<()> {
        let initialized: IndexSet<&str> = graph.initializer.iter().map(|one| &*one.name).collect();
        for input in graph.input.iter().filter(|input| !initialized.contains(&*input.name)) {
            let shape = self.shape(input).map_err(|error| {
                let message = format!("input `{}`: {}", input.name, error.message);
                Diagnostic { message, ..error }
            })?;
            let id = self.parameter(&input.name, shape);
            self.values.insert(input.name.clone(), Value::Made(id));
        }
        let unknown = self.options.dims.iter().find(|(name, _)| !self.symbols.contains(name));
        unknown.map_or(Ok(()), |(name, _)| Err(self.no_symbol(name)))
    }

    fn no_symbol(&self, name: &str) -> Diagnostic {
        let known: Vec<&str> = self.symbols.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("`--dim {name}`: the model has no dimension of this name");
        Diagnostic::error(message).help(format!("dimensions without a fixed size: {known}"))
    }

    fn shape(&mut self, input: &ValueInfo) -> Result<Shape> {
        let found = input.r#type.as_ref().and_then(|found| found.tensor_type.as_ref());
        let found = found.ok_or_else(|| Diagnostic::error("only tensors are supported"))?;
        let dtype = tensor::dtype(found.elem_type)?;
        let shape = found
            .shape
            .as_ref()
            .ok_or_else(|| Diagnostic::error("the number of its dimensions is not known"))?;
        let mut dims = Vec::new();
        for (at, dim) in shape.dim.iter().enumerate() {
            dims.push(match dim.dim_value {
                Some(size) => size,
                None if dim.dim_param.is_empty() => self.size_of(format!("{}.{at}", input.name))?,
                None => self.size_of(dim.dim_param.clone())?,
            });
        }
        tensor::checked(&dims)?;
        Ok(Shape::array(dtype, &dims))
    }

    /// The size that the user gave a dimension.
    fn size_of(&mut self, symbol: String) -> Result<i64> {
        let given = self.options.dims.iter().rev().find(|(name, _)| *name == symbol);
        let unknown = || {
            let error = Diagnostic::error(format!("dimension `{symbol}` has no fixed size"));
            error.help(format!("say it: `--dim {symbol}=8`"))
        };
        let size = given.map(|(_, size)| *size).ok_or_else(unknown)?;
        self.symbols.insert(symbol);
        Ok(size)
    }

    /// Constants and parameters; the latter's indices.
    fn initializers(&mut self, graph: &Graph) -> Result<Vec<usize>> {
        let mut read: IndexSet<&str> = graph.output.iter().map(|output| &*output.name).collect();
        names_read(graph, &mut read);
        let mut weights = Vec::new();
        for (index, one) in graph.initializer.iter().enumerate().filter(|(_, one)| read.contains(&*one.name))
        {
            let value = match is_small(one)? {
                true => Value::Known(tensor::array(one, self.options.path)?),
                false => {
                    weights.push(index);
                    let shape = Shape::array(tensor::dtype(one.data_type)?, &one.dims);
                    Value::Made(self.parameter(&one.name, shape))
                }
            };
            self.values.insert(one.name.clone(), value);
        }
        Ok(weights)
    }

    fn parameter(&mut self, name: &str, shape: Shape) -> InstrId {
        let base = identifier(name);
        let numbered = |n: usize| if n == 0 { base.clone() } else { format!("{base}_{n}") };
        let name = (0..).map(numbered).find(|name| !self.names.contains(name)).unwrap_or_default();
        let id = self.b.parameter(&name, shape);
        self.names.insert(name);
        id
    }

    /// Converts all nodes of the graph or of one within it.
    pub fn nodes(&mut self, graph: &Graph) -> Result<()> {
        for node in &graph.node {
            let first = self.b.instrs().len();
            let outputs = self.node(node).map_err(|error| self.at(node, error))?;
            for id in outputs.iter().filter_map(id) {
                tensor::checked(&self.b.dims(id)).map_err(|error| self.at(node, error))?;
            }
            self.remember(node, first);
            let named = node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty());
            self.values.extend(named.map(|(name, value)| (name.clone(), value)));
        }
        Ok(())
    }

    /// An error with the node that it is about.
    fn at(&self, node: &Node, error: Diagnostic) -> Diagnostic {
        let message = format!("{}: {}", described(node, self.opset), error.message);
        Diagnostic { message, ..error }
    }

    /// What a graph returns.
    pub fn outputs(&self, graph: &Graph) -> Result<Vec<Value>> {
        graph.output.iter().map(|output| self.value(&output.name)).collect()
    }

    fn value(&self, name: &str) -> Result<Value> {
        let unknown = || Diagnostic::error(format!("nothing before makes the value `{name}`"));
        self.values.get(name).cloned().ok_or_else(unknown)
    }

    fn node(&mut self, node: &Node) -> Result<Vec<Value>> {
        let value = |name: &String| if name.is_empty() { Ok(None) } else { self.value(name).map(Some) };
        let inputs = node.input.iter().map(value).collect::<Result<Vec<_>>>()?;
        let opset = self.opset;
        let lowering = find(node).ok_or_else(|| Diagnostic::error("the operator is not supported"))?;
        if let Lowering::Branch = lowering {
            let condition = Cx { b: &mut self.b, node, opset, inputs: &inputs }.int(0)?;
            return self.branch(control::branch(node, condition != 0)?);
        }
        if inputs.iter().flatten().all(|value| matches!(value, Value::Known(_))) {
            let mut scratch = Builder::new("known");
            let outputs = lowering.lower(Cx { b: &mut scratch, node, opset, inputs: &inputs })?;
            if let Some(outputs) = computed(scratch, outputs)? {
                return Ok(outputs);
            }
        }
        lowering.lower(Cx { b: &mut self.b, node, opset, inputs: &inputs })
    }

    /// What a graph within a node returns; its initializers are constants.
    fn branch(&mut self, graph: &Graph) -> Result<Vec<Value>> {
        all_supported(graph, self.opset)?;
        for one in &graph.initializer {
            let value = Value::Known(tensor::array(one, self.options.path)?);
            self.values.insert(one.name.clone(), value);
        }
        self.nodes(graph)?;
        self.outputs(graph)
    }

    /// Notes at the node's instructions where they are from.
    fn remember(&mut self, node: &Node, first: usize) {
        let name: String = node.name.chars().filter(|c| !c.is_control() && !"\"\\".contains(*c)).collect();
        for index in (first..self.b.instrs().len()).filter(|_| !name.is_empty()) {
            let instr = self.b.instr_mut(InstrId::new(index));
            if instr.op != Opcode::Constant && instr.attrs.iter().all(|attr| attr.key != Key::Metadata) {
                let text = format!("{{op_name=\"{name}\"}}");
                instr.attrs.push(Attr { key: Key::Metadata, value: AttrValue::Raw(text.into()) });
            }
        }
    }
}

/// The names that nodes read, those of nested graphs among them.
fn names_read<'a>(graph: &'a Graph, found: &mut IndexSet<&'a str>) {
    for node in &graph.node {
        found.extend(node.input.iter().map(String::as_str));
        let nested = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        for graph in nested {
            found.extend(graph.output.iter().map(|output| &*output.name));
            names_read(graph, found);
        }
    }
}

/// Whether an initializer is a constant of the program: a scalar, or a small array that may hold sizes.
fn is_small(initializer: &Tensor) -> Result<bool> {
    tensor::checked(&initializer.dims)?;
    let dtype = tensor::dtype(initializer.data_type)?;
    let counts = matches!(dtype.class(), Class::Bool | Class::Signed | Class::Unsigned);
    let n: i64 = initializer.dims.iter().product();
    Ok(initializer.dims.is_empty() || counts && n <= MAX_KNOWN)
}

/// The values of a scratch computation, if they are few.
fn computed(mut scratch: Builder, outputs: Vec<Value>) -> Result<Option<Vec<Value>>> {
    let ids: Vec<InstrId> = outputs.iter().filter_map(id).collect();
    let n_elements: i64 = ids.iter().map(|&id| scratch.dims(id).iter().product::<i64>()).sum();
    if n_elements > MAX_KNOWN {
        return Ok(None);
    }
    let root = scratch.tuple(&ids);
    let options = eval::Options { max_array_bytes: MAX_SCRATCH_BYTES, ..eval::Options::default() };
    // What cannot be computed here may still be a program.
    let Ok(made) = eval::run(&scratch.finish(root), &[], &options) else { return Ok(None) };
    let mut arrays = made.leaves().into_iter().cloned();
    let known = |value: Value| match value {
        Value::Made(_) => arrays.next().map(Value::Known),
        known => Some(known),
    };
    Ok(outputs.into_iter().map(known).collect())
}

fn id(value: &Value) -> Option<InstrId> {
    match value {
        Value::Made(id) => Some(*id),
        Value::Known(_) => None,
    }
}

/// A name as HLO allows it, and unlike those that the builder makes up: `add.7`.
pub(crate) fn identifier(name: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let mut made: String = name.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    if !made.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        made.insert(0, '_');
    }
    if made.rsplit('.').next().is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_digit())) {
        made.push('_');
    }
    made
}
