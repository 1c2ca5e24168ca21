//! What the lowering of an operator sees: its node's inputs and attributes, and a builder.

use super::proto::{Attribute, Node};
use super::tensor;
use phzc_ir::build::Builder;
use phzc_ir::dtype::Class;
use phzc_ir::eval::Array;
use phzc_ir::{Attr, DType, Diagnostic, InstrId, Opcode, Result};

/// A value of a graph.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// An instruction's.
    Made(InstrId),
    /// Known while converting: shapes, mostly. It becomes a constant only where an instruction reads it.
    Known(Array),
}

impl From<InstrId> for Value {
    fn from(id: InstrId) -> Value {
        Value::Made(id)
    }
}

impl Value {
    /// As an instruction.
    pub fn made(&self, b: &mut Builder) -> InstrId {
        match self {
            Value::Made(id) => *id,
            Value::Known(array) => constant(b, array),
        }
    }
}

/// A node that is being lowered.
///
/// The builder's short methods panic on operands that do not fit, so lowerings check what a file says first,
/// or call [`Cx::op`].
pub(crate) struct Cx<'a> {
    pub b: &'a mut Builder,
    pub node: &'a Node,
    /// Version of the operators.
    pub opset: i64,
    pub inputs: &'a [Option<Value>],
}

impl Cx<'_> {
    /// Whether the node has this input.
    pub fn has(&self, index: usize) -> bool {
        matches!(self.inputs.get(index), Some(Some(_)))
    }

    fn value(&self, index: usize) -> Result<&Value> {
        let missing = || Diagnostic::error(format!("input {index} is missing"));
        self.inputs.get(index).and_then(Option::as_ref).ok_or_else(missing)
    }

    /// An input as an instruction.
    pub fn input(&mut self, index: usize) -> Result<InstrId> {
        Ok(self.value(index)?.clone().made(self.b))
    }

    /// An input that may be left out.
    pub fn optional(&mut self, index: usize) -> Result<Option<InstrId>> {
        if self.has(index) { self.input(index).map(Some) } else { Ok(None) }
    }

    /// All inputs.
    pub fn all(&mut self) -> Result<Vec<InstrId>> {
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// An input of floats.
    pub fn float(&mut self, index: usize) -> Result<InstrId> {
        let x = self.input(index)?;
        match self.b.dtype(x).class() {
            Class::Float => Ok(x),
            _ => Err(Diagnostic::error(format!("input {index} must be of floats"))),
        }
    }

    /// The elements of an input, which must be known while converting.
    pub fn known(&self, index: usize) -> Result<&Array> {
        match self.value(index)? {
            Value::Known(array) => Ok(array),
            Value::Made(_) => Err(Diagnostic::error(format!(
                "input {index} depends on the program's inputs; it must be constant, since the sizes of arrays are"
            ))),
        }
    }

    /// The integers of a known input.
    pub fn ints(&self, index: usize) -> Result<Vec<i64>> {
        let wrong = || Diagnostic::error(format!("input {index} must be of integers"));
        tensor::ints(self.known(index)?).ok_or_else(wrong)
    }

    /// The one integer of a known input.
    pub fn int(&self, index: usize) -> Result<i64> {
        match self.ints(index)?[..] {
            [one] => Ok(one),
            _ => Err(Diagnostic::error(format!("input {index} must be one integer"))),
        }
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// An integer attribute.
    pub fn attr_int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.i)
    }

    /// A float attribute.
    pub fn attr_float(&self, name: &str, default: f64) -> f64 {
        self.attribute(name).map_or(default, |attribute| f64::from(attribute.f))
    }

    /// A text attribute.
    pub fn attr_text(&self, name: &str, default: &str) -> String {
        let found = self.attribute(name).map(|attribute| String::from_utf8_lossy(&attribute.s).into_owned());
        found.unwrap_or_else(|| default.to_owned())
    }

    /// A list of integers.
    pub fn attr_ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints.clone())
    }

    /// An attribute in whatever form.
    pub fn attr(&self, name: &str) -> Option<&Attribute> {
        self.attribute(name)
    }

    /// A dimension: negative ones count from the end.
    pub fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        self::axis(axis, rank)
    }

    /// The attribute `axis` as a dimension of `x`.
    pub fn attr_axis(&self, x: InstrId, default: i64) -> Result<usize> {
        self.axis(self.attr_int("axis", default), self.b.rank(x))
    }

    /// Dimensions, each at most once, in ascending order.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
        let mut found = axes.iter().map(|&axis| self.axis(axis, rank)).collect::<Result<Vec<_>>>()?;
        found.sort_unstable();
        match found.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(Diagnostic::error(format!("axes {axes:?} name a dimension twice"))),
            false => Ok(found),
        }
    }

    /// `axes`, an attribute in older opsets and input `index` in newer ones.
    pub fn axes_given(&self, index: usize) -> Result<Option<Vec<i64>>> {
        if self.has(index) { self.ints(index).map(Some) } else { Ok(self.attr_ints("axes")) }
    }

    /// An instruction; operands that do not fit are an error.
    pub fn op(&mut self, op: Opcode, operands: &[InstrId], attrs: Vec<Attr>) -> Result<InstrId> {
        self.b.try_op(op, operands, attrs)
    }

    /// Two arrays combined element by element, after broadcasting.
    pub fn binary(&mut self, op: Opcode, a: InstrId, b: InstrId) -> Result<InstrId> {
        let [a, b] = self.alike([a, b])?;
        self.op(op, &[a, b], Vec::new())
    }

    /// Arrays broadcast against each other as NumPy does.
    pub fn alike<const N: usize>(&mut self, mut arrays: [InstrId; N]) -> Result<[InstrId; N]> {
        let dims = self.common_dims(&arrays)?;
        for array in &mut arrays {
            *array = self.broadcast_to(*array, &dims)?;
        }
        Ok(arrays)
    }

    /// The sizes that arrays are broadcast to.
    pub fn common_dims(&self, arrays: &[InstrId]) -> Result<Vec<i64>> {
        let all: Vec<_> = arrays.iter().map(|&array| self.b.dims(array)).collect();
        let both = |a: Vec<i64>, b: &phzc_ir::Dims| common(&a, b);
        all.iter().try_fold(Vec::new(), both)
    }

    /// As NumPy: sizes count from the end, those of 1 are repeated.
    pub fn broadcast_to(&mut self, x: InstrId, dims: &[i64]) -> Result<InstrId> {
        tensor::checked(dims)?;
        let own = self.b.dims(x);
        let misfit = || Diagnostic::error(format!("sizes {own:?} cannot be broadcast to {dims:?}"));
        let first = dims.len().checked_sub(own.len()).ok_or_else(misfit)?;
        let (mut kept, mut at) = (Vec::new(), Vec::new());
        for (dim, &size) in own.iter().enumerate() {
            match size == dims[first + dim] {
                true => (kept.push(size), at.push(first + dim)),
                false if size == 1 => continue,
                false => return Err(misfit()),
            };
        }
        if own[..] == *dims {
            return Ok(x);
        }
        let kept = self.b.reshape(x, &kept);
        Ok(self.b.broadcast(kept, dims, &at))
    }

    /// The same elements in other sizes.
    pub fn reshape(&mut self, x: InstrId, dims: &[i64]) -> Result<InstrId> {
        tensor::checked(dims)?;
        let own = self.b.dims(x);
        match own.iter().product::<i64>() == dims.iter().product::<i64>() {
            true => Ok(self.b.reshape(x, dims)),
            false => Err(Diagnostic::error(format!("sizes {own:?} cannot become {dims:?}"))),
        }
    }

    /// What lacks these dimensions of `like`, repeated along them.
    pub fn spread(&mut self, x: InstrId, like: InstrId, dims: &[usize]) -> InstrId {
        let at: Vec<usize> = (0..self.b.rank(like)).filter(|dim| !dims.contains(dim)).collect();
        self.b.broadcast_like(x, like, &at)
    }
}

/// A dimension: negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    let legal = usize::try_from(counted).ok().filter(|&axis| axis < rank);
    legal.ok_or_else(|| Diagnostic::error(format!("axis {axis} of an array of rank {rank}")))
}

/// The sizes that two arrays are broadcast to.
pub(super) fn common(a: &[i64], b: &[i64]) -> Result<Vec<i64>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[i64], at: usize| (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    let both = |at: usize| match (size(a, at), size(b, at)) {
        (x, y) if x == y || y == 1 => Ok(x),
        (1, y) => Ok(y),
        _ => Err(Diagnostic::error(format!("sizes {a:?} and {b:?} cannot be broadcast together"))),
    };
    (0..rank).map(both).collect()
}

/// A known array as a constant; one of equal elements as a scalar that is broadcast.
pub(crate) fn constant(b: &mut Builder, array: &Array) -> InstrId {
    let dims: Vec<i64> = array.dims().iter().map(|&size| size as i64).collect();
    let zeros = vec![0; array.rank()];
    let first = array.slice(&zeros, &vec![1; array.rank()]).ok().filter(|_| !array.is_empty());
    if let Some(first) = first.filter(|_| array.rank() > 0) {
        let text = tensor::literal(&first).replace(['{', '}'], "");
        if is_all(array, &first) {
            let scalar = b.literal(array.dtype(), &[], &text);
            return b.broadcast(scalar, &dims, &[]);
        }
    }
    b.literal(array.dtype(), &dims, &tensor::literal(array))
}

fn is_all(array: &Array, first: &Array) -> bool {
    match (tensor::ints(array), tensor::ints(first)) {
        (Some(all), Some(first)) => all.iter().all(|x| first.first() == Some(x)),
        _ => array.to_f64_vec().iter().all(|x| first.to_f64_vec().first() == Some(x)),
    }
}

/// An element type's name in messages.
pub(super) fn is_float(dtype: DType) -> bool {
    dtype.class() == Class::Float
}
