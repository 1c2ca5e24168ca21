//! A graph as a computation: parameters, then node after node, then results.

use super::archive::Archive;
use super::node::{Cx, Scope, names, outputs, types};
use super::operators::{Lowering, find, is_scope, short};
use super::schema::{Argument, Graph, InputSpec, Named, Node, OutputSpec, Program, Signature, TensorMeta};
use super::sizes::{self, Symbols};
use super::source;
use crate::Options;
use crate::onnx::{self, Value};
use indexmap::{IndexMap, IndexSet};
use phzc_ir::build::Builder;
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Diagnostic, InstrId, Module, Result, Shape};
use std::collections::BTreeMap;

/// Larger constants are parameters.
const MAX_KNOWN: i64 = 1024;

/// Whose an array is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Caller,
    Model,
}

struct Converter<'a> {
    b: Builder,
    scope: Scope,
    symbols: Symbols<'a>,
    /// The types of the graph's values, as far as it says them.
    metas: &'a BTreeMap<String, TensorMeta>,
    /// Names of instructions that are taken.
    taken: IndexSet<String>,
    /// Inputs and the model's own arrays, which may have the same names, for those that a step changes.
    params: IndexMap<(Owner, &'a str), InstrId>,
    /// Of the last parameters: those of the model.
    weights: Vec<&'a str>,
}

/// The program, and the names of the model's arrays that are its last parameters.
pub(super) fn convert(
    program: &Program,
    archive: &mut Archive,
    options: &Options,
) -> Result<(Module, Vec<String>)> {
    let (graph, signature) = (&program.graph_module.graph, &program.graph_module.signature);
    super::unread::all_supported(graph)?;
    let mut converter = Converter {
        b: Builder::new("exported"),
        scope: Scope { read: names_read(graph), ..Scope::default() },
        symbols: Symbols::new(options.dims, &program.range_constraints),
        metas: &graph.tensor_values,
        taken: IndexSet::new(),
        params: IndexMap::new(),
        weights: Vec::new(),
    };
    converter.user_inputs(graph, signature)?;
    converter.symbols.all_used()?;
    converter.arrays(signature, archive)?;
    converter.nodes(graph)?;
    let (root, aliases) = converter.results(signature)?;
    let weights = converter.weights.into_iter().map(str::to_owned).collect();
    let mut module = converter.b.finish(root);
    if !aliases.is_empty() {
        module.set_attr("input_output_alias", format!("{{ {} }}", aliases.join(", ")));
    }
    Ok((module, weights))
}

/// The names that nodes and outputs read.
fn names_read(graph: &Graph) -> IndexSet<String> {
    let inputs = graph.nodes.iter().flat_map(|node| node.inputs.iter().map(|input| &input.arg));
    let all = inputs.chain(&graph.outputs).flat_map(names);
    all.flatten().map(str::to_owned).collect()
}

impl<'a> Converter<'a> {
    fn user_inputs(&mut self, graph: &'a Graph, signature: &'a Signature) -> Result<()> {
        for spec in &signature.input_specs {
            let InputSpec::UserInput { arg } = spec else { continue };
            match arg {
                Argument::AsTensor(Named { name }) => {
                    let id = self.parameter(name, name).map_err(|error| of_input(name, error))?;
                    self.params.insert((Owner::Caller, name), id);
                    self.scope.values.insert(name.clone(), Value::Made(id));
                }
                Argument::AsSymInt(_) => {
                    return Err(Diagnostic::error("an input that is a number is not supported")
                        .help("export the model with the number itself"));
                }
                _ => {}
            }
        }
        debug_assert!(graph.inputs.len() >= self.params.len());
        Ok(())
    }

    /// The model's own arrays: parameters of the program, and constants where they are few numbers that a
    /// step does not change.
    fn arrays(&mut self, signature: &'a Signature, archive: &mut Archive) -> Result<()> {
        let changed: IndexSet<(Owner, &str)> = signature.output_specs.iter().filter_map(changed).collect();
        for spec in &signature.input_specs {
            let (arg, name, may_be_known) = match spec {
                InputSpec::Parameter { arg, parameter_name } => (arg, parameter_name, false),
                InputSpec::Buffer { arg, buffer_name } => {
                    (arg, buffer_name, !changed.contains(&(Owner::Model, &**buffer_name)))
                }
                InputSpec::TensorConstant { arg, tensor_constant_name } => (arg, tensor_constant_name, true),
                InputSpec::CustomObj { custom_obj_name } => {
                    let message =
                        format!("`{custom_obj_name}` is a Python object; the program must have tensors only");
                    return Err(Diagnostic::error(message));
                }
                _ => continue,
            };
            if !self.scope.read.contains(&arg.name) && !changed.contains(&(Owner::Model, &**name)) {
                continue;
            }
            let value = match may_be_known && archive.has(name) && self.is_small(&arg.name)? {
                true => Value::Known(archive.array(name)?),
                false => {
                    let id = self.parameter(&arg.name, name).map_err(|error| of_input(name, error))?;
                    self.params.insert((Owner::Model, name), id);
                    self.weights.push(name);
                    Value::Made(id)
                }
            };
            self.scope.values.insert(arg.name.clone(), value);
        }
        Ok(())
    }

    /// Whether a value is a scalar, or few integers, which may be places or sizes.
    fn is_small(&mut self, value: &str) -> Result<bool> {
        let shape = self.shape(value)?;
        let array = shape.as_array().map(|array| (array.dims.iter().product::<i64>(), array.dtype));
        let counts = |dtype: DType| matches!(dtype.class(), Class::Bool | Class::Signed | Class::Unsigned);
        Ok(array.is_some_and(|(n, dtype)| n == 1 || counts(dtype) && n <= MAX_KNOWN))
    }

    /// The type that the file gives a value.
    fn shape(&mut self, value: &str) -> Result<Shape> {
        let unknown = || Diagnostic::error(format!("the type of `{value}` is not known"));
        let meta = self.metas.get(value).ok_or_else(unknown)?;
        let dims = meta.sizes.iter().map(|size| self.symbols.size(size)).collect::<Result<Vec<i64>>>()?;
        onnx::checked(&dims)?;
        Ok(Shape::array(sizes::dtype(meta.dtype)?, &dims))
    }

    /// A parameter for a value, of the name that the model has for it.
    fn parameter(&mut self, value: &str, name: &str) -> Result<InstrId> {
        let (shape, base) = (self.shape(value)?, onnx::identifier(name));
        let numbered = |n: usize| if n == 0 { base.clone() } else { format!("{base}_{n}") };
        let unique = (0..).map(numbered).find(|name| !self.taken.contains(name)).unwrap_or_default();
        let id = self.b.parameter(&unique, shape);
        self.taken.insert(unique);
        source::remember(&mut self.b, id.index(), &source::named(name));
        Ok(id)
    }

    fn nodes(&mut self, graph: &Graph) -> Result<()> {
        for node in &graph.nodes {
            self.node(node).map_err(|error| super::unread::at(node, error))?;
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let first = self.b.instrs().len();
        match find(node) {
            Some(Lowering::Nothing) => return Ok(()),
            Some(Lowering::Size(of)) => return self.size(node, of),
            _ if is_scope(node) => return self.nested(node),
            _ => {}
        }
        let lowering = find(node).ok_or_else(|| Diagnostic::error("the operator is not supported"))?;
        let names = outputs(node);
        let made = types(&names, self.metas)?;
        let cx = Cx { b: &mut self.b, node, scope: &self.scope, made: &made };
        let ids = lowering.lower(cx)?;
        for (index, name) in names.iter().enumerate() {
            let Some(name) = name else { continue };
            match ids.get(index).copied().flatten() {
                Some(id) => self.define(name, id, made[index])?,
                None if self.scope.read.contains(*name) => {
                    let message = format!("its output {index} is read, which is not supported");
                    return Err(Diagnostic::error(message));
                }
                None => {}
            }
        }
        source::remember(&mut self.b, first, &source::of_node(node));
        Ok(())
    }

    /// Gives a value its name; it is what the file says.
    fn define(&mut self, name: &str, id: InstrId, dtype: Option<DType>) -> Result<()> {
        let id = dtype.map_or(id, |dtype| self.b.convert(id, dtype));
        let dims = self.b.dims(id);
        onnx::checked(&dims)?;
        if let Some(meta) = self.metas.get(name) {
            let stated: Vec<Option<i64>> = meta.sizes.iter().map(|size| sizes::fixed(size).ok()).collect();
            let fits = stated.len() == dims.len()
                && stated.iter().zip(&dims).all(|(stated, dim)| stated.is_none_or(|stated| stated == *dim));
            if !fits {
                let stated: Vec<String> =
                    stated.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string())).collect();
                let message = format!(
                    "it makes sizes {dims:?}, but `{name}` has [{}] in the program",
                    stated.join(", ")
                );
                return Err(Diagnostic::error(message));
            }
        }
        self.scope.values.insert(name.to_owned(), Value::Made(id));
        Ok(())
    }

    /// A size that is computed.
    fn size(&mut self, node: &Node, of: fn(&[i64]) -> Option<i64>) -> Result<()> {
        let wrong = || Diagnostic::error("the size does not follow from the sizes of the inputs");
        let mut operands = Vec::new();
        for input in &node.inputs {
            match &input.arg {
                Argument::AsInt(number) => operands.push(*number),
                Argument::AsSymInt(size) => operands.push(self.scope.size(size)?),
                Argument::AsTensor(Named { name }) => {
                    let value = self.scope.values.get(name).cloned().ok_or_else(wrong)?;
                    let id = value.made(&mut self.b);
                    operands.extend(self.b.dims(id));
                }
                _ => return Err(wrong()),
            }
        }
        if let [Some(name)] = outputs(node)[..] {
            self.scope.sizes.insert(name.to_owned(), of(&operands).ok_or_else(wrong)?);
        }
        Ok(())
    }

    /// A graph within a node, written out: what stands in a `with` statement of the model.
    fn nested(&mut self, node: &Node) -> Result<()> {
        let wrong = || Diagnostic::error("its graph does not fit its operands");
        let graph = node.inputs.iter().find_map(|input| match &input.arg {
            Argument::AsGraph(nested) => Some(&*nested.graph),
            _ => None,
        });
        let graph = graph.ok_or_else(wrong)?;
        let given: Vec<&str> = node.inputs.iter().flat_map(|input| names(&input.arg)).flatten().collect();
        let mut inner = Scope { read: names_read(graph), ..Scope::default() };
        let wanted: Vec<&str> = graph.inputs.iter().flat_map(names).flatten().collect();
        if wanted.len() != given.len() {
            return Err(wrong());
        }
        for (inside, outside) in wanted.iter().zip(given) {
            match (self.scope.values.get(outside), self.scope.sizes.get(outside)) {
                (Some(value), _) => drop(inner.values.insert((*inside).to_owned(), value.clone())),
                (_, Some(&size)) => drop(inner.sizes.insert((*inside).to_owned(), size)),
                _ => return Err(wrong()),
            }
        }
        let inner = self.within(graph, inner)?;
        let made = graph.outputs.iter().flat_map(names).flatten().map(|name| inner.values.get(name).cloned());
        for (name, value) in outputs(node).into_iter().flatten().zip(made) {
            self.scope.values.insert(name.to_owned(), value.ok_or_else(wrong)?);
        }
        Ok(())
    }

    /// The values of a nested graph.
    fn within(&mut self, graph: &Graph, inner: Scope) -> Result<Scope> {
        let mut nested = Converter {
            b: std::mem::replace(&mut self.b, Builder::new("exported")),
            scope: inner,
            symbols: Symbols::new(&[], self.symbols.ranges),
            metas: &graph.tensor_values,
            taken: IndexSet::new(),
            params: IndexMap::new(),
            weights: Vec::new(),
        };
        nested.nodes(graph)?;
        self.b = nested.b;
        Ok(nested.scope)
    }

    /// The root, and the header's entries for results that take parameters' places.
    fn results(&mut self, signature: &'a Signature) -> Result<(InstrId, Vec<String>)> {
        let (mut ids, mut aliases) = (Vec::new(), Vec::new());
        for spec in &signature.output_specs {
            let name = match spec {
                OutputSpec::UserOutput { arg: Argument::AsTensor(arg) }
                | OutputSpec::LossOutput { arg }
                | OutputSpec::BufferMutation { arg, .. }
                | OutputSpec::ParameterMutation { arg, .. }
                | OutputSpec::UserInputMutation { arg, .. }
                | OutputSpec::GradientToParameter { arg }
                | OutputSpec::GradientToUserInput { arg } => &arg.name,
                // Numbers and `None`, which no device computes.
                OutputSpec::UserOutput { .. } | OutputSpec::Token(_) => continue,
            };
            let Some(value) = self.scope.values.get(name).cloned() else {
                return Err(Diagnostic::error(format!("nothing makes the result `{name}`")));
            };
            if let Some(param) = changed(spec).and_then(|of| self.params.get(&of)) {
                aliases.push((ids.len(), param.index()));
            }
            ids.push(value.made(&mut self.b));
        }
        let root = if let [one] = ids[..] { one } else { self.b.tuple(&ids) };
        let place = |at: usize| if ids.len() == 1 { String::new() } else { at.to_string() };
        let entry = |(at, param)| format!("{{{}}}: ({param}, {{}}, may-alias)", place(at));
        Ok((root, aliases.into_iter().map(entry).collect()))
    }
}

/// The input or array whose next value an output is.
fn changed(spec: &OutputSpec) -> Option<(Owner, &str)> {
    match spec {
        OutputSpec::BufferMutation { buffer_name: name, .. }
        | OutputSpec::ParameterMutation { parameter_name: name, .. } => Some((Owner::Model, name)),
        OutputSpec::UserInputMutation { user_input_name: name, .. } => Some((Owner::Caller, name)),
        _ => None,
    }
}

/// An error with the input that it is about.
fn of_input(name: &str, error: Diagnostic) -> Diagnostic {
    Diagnostic { message: format!("input `{name}`: {}", error.message), ..error }
}

/// A node in a sentence.
pub(super) fn described(node: &Node) -> String {
    let name = outputs(node).into_iter().flatten().next();
    let name = name.map_or_else(|| "a node".to_owned(), |name| format!("node `{name}`"));
    let place = source::place(node).map_or(String::new(), |(file, line)| format!(", {file}:{line}"));
    format!("{name} (`{}`{place})", short(node))
}
