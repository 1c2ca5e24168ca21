//! What the lowering of an operator sees: its node's arguments by name, a builder, and ONNX's operators.

use super::schema::{Argument, MaybeTensor, Named, Node, SymInt};
use super::sizes;
use crate::onnx::{self, Attribute, Plain};
use indexmap::{IndexMap, IndexSet};
use phzc_ir::build::Builder;
use phzc_ir::dtype::Class;
use phzc_ir::eval::Array;
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// The values of a graph that are made so far.
#[derive(Default)]
pub(super) struct Scope {
    pub values: IndexMap<String, onnx::Value>,
    /// Sizes that nodes compute.
    pub sizes: IndexMap<String, i64>,
    /// The names that nodes and outputs read.
    pub read: IndexSet<String>,
}

/// A node that is being lowered.
///
/// The builder's short methods panic on operands that do not fit, so lowerings check what a file says first,
/// or call [`Cx::op`], [`Cx::onnx`] or a method of [`Cx::plain`].
pub(super) struct Cx<'a> {
    pub b: &'a mut Builder,
    pub node: &'a Node,
    pub scope: &'a Scope,
    /// The element types that the file gives the outputs.
    pub made: &'a [Option<DType>],
}

/// An argument that is not of the kind that an operator takes.
fn misfit(name: &str, wanted: &str) -> Diagnostic {
    Diagnostic::error(format!("the argument `{name}` must be {wanted}"))
}

impl Cx<'_> {
    /// An argument, if it is given and not `None`.
    pub fn arg(&self, name: &str) -> Option<&Argument> {
        let found = self.node.inputs.iter().find(|input| input.name == name);
        found.map(|input| &input.arg).filter(|arg| !matches!(arg, Argument::AsNone(_)))
    }

    /// Whether an argument is given.
    pub fn has(&self, name: &str) -> bool {
        self.arg(name).is_some()
    }

    /// A tensor.
    pub fn tensor(&mut self, name: &str) -> Result<InstrId> {
        self.optional(name)?.ok_or_else(|| misfit(name, "a tensor"))
    }

    /// A tensor that may be left out.
    pub fn optional(&mut self, name: &str) -> Result<Option<InstrId>> {
        match self.arg(name) {
            None | Some(Argument::AsOptionalTensor(MaybeTensor::AsNone(_))) => Ok(None),
            Some(
                Argument::AsTensor(Named { name })
                | Argument::AsOptionalTensor(MaybeTensor::AsTensor(Named { name })),
            ) => {
                let name = name.clone();
                self.named(&name).map(Some)
            }
            Some(_) => Err(misfit(name, "a tensor")),
        }
    }

    /// A list of tensors.
    pub fn tensors(&mut self, name: &str) -> Result<Vec<InstrId>> {
        let all: Option<Vec<_>> = self.optionals(name)?.into_iter().collect();
        all.ok_or_else(|| misfit(name, "a list of tensors"))
    }

    /// A list of tensors, some of which are left out.
    pub fn optionals(&mut self, name: &str) -> Result<Vec<Option<InstrId>>> {
        let names: Vec<Option<String>> = match self.arg(name) {
            Some(Argument::AsTensors(all)) => all.iter().map(|one| Some(one.name.clone())).collect(),
            Some(Argument::AsOptionalTensors(all)) => all.iter().map(of_list).collect(),
            _ => return Err(misfit(name, "a list of tensors")),
        };
        names.iter().map(|name| name.as_ref().map(|name| self.named(name)).transpose()).collect()
    }

    fn named(&mut self, name: &str) -> Result<InstrId> {
        match self.scope.values.get(name) {
            Some(onnx::Value::Made(id)) => Ok(*id),
            Some(onnx::Value::Known(array)) => Ok(onnx::constant(self.b, array)),
            None => Err(Diagnostic::error(format!("nothing before makes the value `{name}`"))),
        }
    }

    /// An integer, or what it is if it is not given.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.arg(name) {
            None => Ok(default),
            Some(Argument::AsInt(number)) => Ok(*number),
            Some(Argument::AsSymInt(size)) => self.scope.size(size),
            Some(_) => Err(misfit(name, "an integer")),
        }
    }

    /// A list of integers; one may stand alone.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Argument::AsInts(all)) => Ok(Some(all.clone())),
            Some(Argument::AsSymInts(all)) => {
                all.iter().map(|size| self.scope.size(size)).collect::<Result<_>>().map(Some)
            }
            Some(Argument::AsInt(_) | Argument::AsSymInt(_)) => Ok(Some(vec![self.int(name, 0)?])),
            // Lists without elements have no type.
            Some(Argument::AsTensors(all)) if all.is_empty() => Ok(Some(Vec::new())),
            Some(Argument::AsFloats(all)) if all.is_empty() => Ok(Some(Vec::new())),
            Some(_) => Err(misfit(name, "a list of integers")),
        }
    }

    /// A list of integers that must be there.
    pub fn list(&self, name: &str) -> Result<Vec<i64>> {
        self.ints(name)?.ok_or_else(|| misfit(name, "a list of integers"))
    }

    /// A number of any kind, if it is given and no tensor.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.arg(name) {
            None | Some(Argument::AsTensor(_)) => Ok(None),
            Some(Argument::AsFloat(number)) => Ok(Some(number.0)),
            Some(Argument::AsBool(is)) => Ok(Some(f64::from(u8::from(*is)))),
            Some(_) => self.int(name, 0).map(|number| Some(number as f64)),
        }
    }

    /// A number, or what it is if it is not given.
    pub fn float(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.number(name)?.unwrap_or(default))
    }

    /// A list of numbers; empty if it is not given.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        match self.arg(name) {
            Some(Argument::AsFloats(all)) => all.iter().map(|number| number.0).collect(),
            _ => Vec::new(),
        }
    }

    /// A truth value, or what it is if it is not given.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        match self.arg(name) {
            Some(Argument::AsBool(is)) => *is,
            _ => default,
        }
    }

    /// A word, or what it is if it is not given.
    pub fn text(&self, name: &str, default: &str) -> String {
        match self.arg(name) {
            Some(Argument::AsString(text)) => text.clone(),
            _ => default.to_owned(),
        }
    }

    /// The element type of the first output.
    pub fn out(&self) -> Result<DType> {
        let unknown = || Diagnostic::error("the type of its result is not known");
        self.made.first().copied().flatten().ok_or_else(unknown)
    }

    /// Whether anything reads an output.
    pub fn is_read(&self, index: usize) -> bool {
        let name = outputs(self.node).get(index).copied().flatten();
        name.is_some_and(|name| self.scope.read.contains(name))
    }

    /// A tensor of the element type of the first output.
    pub fn like_out(&mut self, name: &str) -> Result<InstrId> {
        let (x, dtype) = (self.tensor(name)?, self.out()?);
        Ok(self.cast(x, dtype))
    }

    /// A tensor, or a number as one, of this element type.
    pub fn operand(&mut self, name: &str, dtype: DType) -> Result<InstrId> {
        if let Some(number) = self.number(name)? {
            return Ok(self.b.scalar(dtype, number));
        }
        let x = self.tensor(name)?;
        Ok(self.cast(x, dtype))
    }

    /// The same, or a number if the argument is not given.
    pub fn operand_or(&mut self, name: &str, dtype: DType, default: f64) -> Result<InstrId> {
        if self.has(name) { self.operand(name, dtype) } else { Ok(self.b.scalar(dtype, default)) }
    }

    /// As another element type; a number is true unless it is zero.
    pub fn cast(&mut self, x: InstrId, dtype: DType) -> InstrId {
        if dtype != DType::Pred || self.b.dtype(x) == DType::Pred {
            return self.b.convert(x, dtype);
        }
        let zero = self.b.full_like(x, 0.0);
        self.b.compare(x, zero, "NE")
    }

    /// A dimension: negative ones count from the end. A scalar counts as having one.
    pub fn dim(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        onnx::axis(self.int(name, default)?, rank)
    }

    /// Some dimensions in ascending order; all of them if none are named.
    pub fn dims(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        let given = self.ints(name)?.filter(|dims| !dims.is_empty());
        let Some(given) = given else { return Ok((0..rank).collect()) };
        let mut dims = given.iter().map(|&dim| onnx::axis(dim, rank)).collect::<Result<Vec<_>>>()?;
        dims.sort_unstable();
        dims.dedup();
        Ok(dims)
    }

    /// An instruction; operands that do not fit are an error.
    pub fn op(&mut self, op: Opcode, operands: &[InstrId]) -> Result<InstrId> {
        self.b.try_op(op, operands, Vec::new())
    }

    /// The helpers of ONNX's lowerings: broadcasting, reshapes that are checked.
    pub fn plain(&mut self) -> Plain<'_> {
        Plain::of(self.b)
    }

    /// One of ONNX's operators.
    pub fn onnx(&mut self, op: &str, inputs: &[onnx::Value], attributes: Vec<Attribute>) -> Result<InstrId> {
        let mut made = self.onnx_many(op, inputs, attributes, 1)?;
        if made.is_empty() { Err(Diagnostic::error("it makes nothing")) } else { Ok(made.swap_remove(0)) }
    }

    /// One of ONNX's operators that has several outputs.
    pub fn onnx_many(
        &mut self,
        op: &str,
        inputs: &[onnx::Value],
        attributes: Vec<Attribute>,
        n_outputs: usize,
    ) -> Result<Vec<InstrId>> {
        let made = onnx::operator(self.b, op, inputs, attributes, n_outputs)?;
        Ok(made.iter().map(|value| value.made(self.b)).collect())
    }

    /// An error unless these are floats.
    pub fn expect_floats(&self, x: InstrId) -> Result<()> {
        match self.b.dtype(x).class() == Class::Float {
            true => Ok(()),
            false => Err(Diagnostic::error("the operand must be of floats")),
        }
    }
}

impl Scope {
    /// A size, or the value of one that a node computed.
    pub fn size(&self, size: &SymInt) -> Result<i64> {
        match size {
            SymInt::AsInt(size) => Ok(*size),
            SymInt::AsName(name) => self.sizes.get(name).copied().ok_or_else(|| {
                Diagnostic::error(format!("the size `{name}` does not follow from the sizes of the inputs"))
            }),
        }
    }
}

fn of_list(entry: &MaybeTensor) -> Option<String> {
    match entry {
        MaybeTensor::AsTensor(Named { name }) => Some(name.clone()),
        MaybeTensor::AsNone(_) => None,
    }
}

/// A value that is known while converting.
pub(super) fn known(numbers: &[i64]) -> onnx::Value {
    let array = Array::from_vec(DType::S64, &[numbers.len()], numbers.to_vec());
    onnx::Value::Known(array.unwrap_or_else(|| Array::zeros(DType::S64, &[0])))
}

/// The names of a node's outputs.
pub(super) fn outputs(node: &Node) -> Vec<Option<&str>> {
    node.outputs.iter().flat_map(names).collect()
}

/// The tensors and sizes that an argument names; `None` for what is neither.
pub(super) fn names(arg: &Argument) -> Vec<Option<&str>> {
    match arg {
        Argument::AsTensor(one) | Argument::AsOptionalTensor(MaybeTensor::AsTensor(one)) => {
            vec![Some(&one.name)]
        }
        Argument::AsTensors(all) => all.iter().map(|one| Some(&*one.name)).collect(),
        Argument::AsOptionalTensors(all) => all
            .iter()
            .map(|one| match one {
                MaybeTensor::AsTensor(one) => Some(&*one.name),
                MaybeTensor::AsNone(_) => None,
            })
            .collect(),
        Argument::AsSymInt(SymInt::AsName(name)) => vec![Some(name)],
        _ => vec![None],
    }
}

/// The element types that a file gives the values of these names.
pub(super) fn types(
    names: &[Option<&str>],
    metas: &std::collections::BTreeMap<String, super::schema::TensorMeta>,
) -> Result<Vec<Option<DType>>> {
    let of = |name: &Option<&str>| name.and_then(|name| metas.get(name)).map(|meta| sizes::dtype(meta.dtype));
    names.iter().map(|name| of(name).transpose()).collect()
}
