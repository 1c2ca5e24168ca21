//! The JSON of an exported program, as far as it is read: `torch/_export/serde/schema.py`, major versions 7
//! and 8.

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A file `models/model.json` or `serialized_exported_program.json`.
#[derive(Deserialize)]
pub struct Program {
    pub graph_module: GraphModule,
    #[serde(default)]
    pub range_constraints: BTreeMap<String, Range>,
    pub schema_version: Version,
    #[serde(default)]
    pub torch_version: String,
}

/// Of the schema: a new major version breaks readers.
#[derive(Deserialize)]
pub struct Version {
    pub major: i64,
}

/// What a symbolic size may be.
#[derive(Deserialize)]
pub struct Range {
    pub min_val: Option<i64>,
    pub max_val: Option<i64>,
}

/// A graph with what its inputs and outputs are to the model.
#[derive(Deserialize)]
pub struct GraphModule {
    pub graph: Graph,
    pub signature: Signature,
}

/// Nodes in an order in which they can be run.
#[derive(Deserialize)]
pub struct Graph {
    pub inputs: Vec<Argument>,
    pub outputs: Vec<Argument>,
    pub nodes: Vec<Node>,
    pub tensor_values: BTreeMap<String, TensorMeta>,
}

/// One call of an operator.
#[derive(Deserialize)]
pub struct Node {
    /// `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// By the names in the operator's schema; defaults are left out.
    pub inputs: Vec<NamedArgument>,
    pub outputs: Vec<Argument>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub struct NamedArgument {
    pub name: String,
    pub arg: Argument,
}

/// A value of a graph by its name.
#[derive(Clone, Deserialize)]
pub struct Named {
    pub name: String,
}

/// What a node is given, or makes.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    AsNone(IgnoredAny),
    AsTensor(Named),
    AsTensors(Vec<Named>),
    AsOptionalTensor(MaybeTensor),
    AsOptionalTensors(Vec<MaybeTensor>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsSymInt(SymInt),
    AsSymInts(Vec<SymInt>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsBool(bool),
    AsString(String),
    AsGraph(NestedGraph),
    /// Of a kind that no operator here needs: an element type (the result says it), a device.
    #[serde(untagged)]
    Other(IgnoredAny),
}

/// An entry of a list in which some are left out.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaybeTensor {
    AsTensor(Named),
    AsNone(IgnoredAny),
}

/// A size, or the name of one that a node computes.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymInt {
    AsName(String),
    AsInt(i64),
}

/// A graph within a node: what a `with` statement of the model holds.
#[derive(Deserialize)]
pub struct NestedGraph {
    pub graph: Box<Graph>,
}

/// A number; JSON has no words for those that are not finite, so they are strings.
#[derive(Clone, Copy)]
pub struct Float(pub f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Float, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Word(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Float(number)),
            // "Infinity", "-Infinity" and "NaN" are Rust's words too.
            Either::Word(word) => word.parse().map(Float).map_err(D::Error::custom),
        }
    }
}

/// An array's type.
#[derive(Clone, Deserialize)]
pub struct TensorMeta {
    /// Its `ScalarType`.
    pub dtype: i32,
    pub sizes: Vec<Size>,
    pub strides: Vec<Size>,
    pub storage_offset: Size,
}

/// A size that may follow from symbols.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    AsInt(i64),
    AsExpr(Expr),
}

/// Of numbers and symbols: `2*s0 + 1`.
#[derive(Clone, Deserialize)]
pub struct Expr {
    pub expr_str: String,
    /// What it was when the model was exported.
    #[serde(default)]
    pub hint: Option<Hint>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    AsInt(i64),
    #[serde(untagged)]
    Other(IgnoredAny),
}

/// What the graph's inputs and outputs are to the model, in the graph's order.
#[derive(Deserialize)]
pub struct Signature {
    pub input_specs: Vec<InputSpec>,
    pub output_specs: Vec<OutputSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputSpec {
    UserInput { arg: Argument },
    Parameter { arg: Named, parameter_name: String },
    Buffer { arg: Named, buffer_name: String },
    TensorConstant { arg: Named, tensor_constant_name: String },
    ConstantInput(IgnoredAny),
    Token(IgnoredAny),
    CustomObj { custom_obj_name: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSpec {
    UserOutput { arg: Argument },
    LossOutput { arg: Named },
    BufferMutation { arg: Named, buffer_name: String },
    ParameterMutation { arg: Named, parameter_name: String },
    GradientToParameter { arg: Named },
    GradientToUserInput { arg: Named },
    UserInputMutation { arg: Named, user_input_name: String },
    Token(IgnoredAny),
}

/// A file `model_weights_config.json` or `model_constants_config.json`: where the arrays are, by name.
#[derive(Default, Deserialize)]
pub struct Payloads {
    pub config: BTreeMap<String, Payload>,
}

#[derive(Deserialize)]
pub struct Payload {
    /// The file beside this one.
    pub path_name: String,
    /// Whether it is a Python object; such a file is not read.
    #[serde(default)]
    pub use_pickle: bool,
    pub tensor_meta: Option<TensorMeta>,
}
