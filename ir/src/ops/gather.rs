//! `gather`: slices of an array at many computed places.

use super::linear;
use super::maps::{dim, operand_dims, result_dims};
use super::read::{DimList, Inferred, array, dim_list, dims_of, expect_size};
use crate::attr::Key;
use crate::dtype::DType;
use crate::eval::gather as eval;
use crate::fusion::{FusionKind, Touch};
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Reducer, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims};
use crate::view::View;
use crate::work::Work;

/// `gather`: index batches and full windows pass; a looked-up dimension adds up.
///
/// A device that holds a part of a looked-up dimension looks up the indices that fall into it and
/// contributes zeros for the others: the sum over devices is the result.
pub const GATHER: OpDef = OpDef::new(Arity::Exactly(2), infer, rule, |_| Work::default(), FusionKind::Loop)
    .linear_in(linear::first)
    .touching(Touch::Part)
    .evaluated(eval::gather);

/// The attributes that relate operand and indices; scatter has the same under other names.
pub(crate) struct Lookup {
    /// Operand dimensions that an index picks one element of.
    pub picked: DimList,
    /// Operand dimensions that run with a dimension of the indices.
    pub batching: DimList,
    /// Those dimensions of the indices.
    pub indices_batching: DimList,
    /// Operand dimensions that the index vector's components are about.
    pub indexed: DimList,
    /// Dimension of the indices that holds the index vector; their rank when there is none.
    pub vector: usize,
}

/// The attribute names of a [`Lookup`].
pub(crate) struct LookupKeys {
    pub picked: Key,
    pub batching: Key,
    pub indices_batching: Key,
    pub indexed: Key,
}

pub(crate) const KEYS: LookupKeys = LookupKeys {
    picked: Key::CollapsedSliceDims,
    batching: Key::OperandBatchingDims,
    indices_batching: Key::StartIndicesBatchingDims,
    indexed: Key::StartIndexMap,
};

impl Lookup {
    /// Reads and checks the attributes.
    pub fn read(
        view: &View,
        keys: LookupKeys,
        operand: &ArrayShape,
        indices: &ArrayShape,
    ) -> Result<Lookup, String> {
        let rank = indices.rank();
        let vector = view.instr.int(Key::IndexVectorDim).ok_or("`index_vector_dim` is missing")?;
        let vector = usize::try_from(vector).ok().filter(|&dim| dim <= rank);
        let vector = vector.ok_or_else(|| format!("`index_vector_dim` must be at most {rank}"))?;
        let lookup = Lookup {
            picked: dim_list(view, keys.picked, operand.rank())?,
            batching: dim_list(view, keys.batching, operand.rank())?,
            indices_batching: dim_list(view, keys.indices_batching, rank)?,
            indexed: dim_list(view, keys.indexed, operand.rank())?,
            vector,
        };
        lookup.check(operand, indices)?;
        Ok(lookup)
    }

    fn check(&self, operand: &ArrayShape, indices: &ArrayShape) -> Result<(), String> {
        let n_components = indices.dims.get(self.vector).copied().unwrap_or(1);
        expect_size("the number of indexed dimensions", n_components, self.indexed.len() as i64)?;
        expect_size(
            "the number of batching dimensions",
            self.batching.len() as i64,
            self.indices_batching.len() as i64,
        )?;
        for (&a, &b) in self.batching.iter().zip(&self.indices_batching) {
            if self.picked.contains(&a) || self.indexed.contains(&a) || b == self.vector {
                return Err(format!("batching dimension {a} has another role too"));
            }
            expect_size("a batching dimension of the indices", operand.dims[a], indices.dims[b])?;
        }
        Ok(())
    }

    /// The attributes of a verified instruction.
    pub fn verified(view: &View, keys: LookupKeys) -> Lookup {
        Lookup {
            picked: dims_of(view, keys.picked),
            batching: dims_of(view, keys.batching),
            indices_batching: dims_of(view, keys.indices_batching),
            indexed: dims_of(view, keys.indexed),
            vector: view.instr.int(Key::IndexVectorDim).map_or(0, |dim| dim as usize),
        }
    }

    /// Operand dimensions that windows run over, in order.
    pub fn windowed(&self, rank: usize) -> DimList {
        (0..rank).filter(|dim| !self.picked.contains(dim) && !self.batching.contains(dim)).collect()
    }

    /// Dimensions of the indices that count look-ups, in order.
    pub fn counting(&self, rank: usize) -> DimList {
        (0..rank).filter(|&dim| dim != self.vector).collect()
    }
}

fn infer(view: &View) -> Inferred {
    let (operand, indices) = (view.array(0)?, view.array(1)?);
    let lookup = Lookup::read(view, KEYS, operand, indices)?;
    let sizes = view.instr.ints(Key::SliceSizes);
    check_sizes(&lookup, operand, sizes)?;
    let windows = lookup.windowed(operand.rank());
    let rank = windows.len() + lookup.counting(indices.rank()).len();
    let offsets = dim_list(view, Key::OffsetDims, rank)?;
    expect_size("the number of `offset_dims`", windows.len() as i64, offsets.len() as i64)?;
    if !offsets.is_sorted() {
        return Err("`offset_dims` must be sorted".to_owned());
    }
    let mut window_sizes = windows.iter().map(|&dim| sizes[dim]);
    let mut counts = lookup.counting(indices.rank()).into_iter().map(|dim| indices.dims[dim]);
    let dims: Option<Dims> = (0..rank)
        .map(|dim| if offsets.contains(&dim) { window_sizes.next() } else { counts.next() })
        .collect();
    array(operand.dtype, dims.ok_or("`offset_dims` do not fit")?)
}

fn check_sizes(lookup: &Lookup, operand: &ArrayShape, sizes: &[i64]) -> Result<(), String> {
    expect_size("the number of `slice_sizes`", operand.rank() as i64, sizes.len() as i64)?;
    for (dim, (&size, &whole)) in sizes.iter().zip(&operand.dims).enumerate() {
        if !(0..=whole).contains(&size) {
            return Err(format!("`gather` of {size} does not fit a dimension of size {whole}"));
        }
        if size > 1 && (lookup.picked.contains(&dim) || lookup.batching.contains(&dim)) {
            return Err(format!("`slice_sizes` must be 1 in dimension {dim}, got {size}"));
        }
    }
    Ok(())
}

fn rule(view: &View) -> Rule {
    let lookup = Lookup::verified(view, KEYS);
    let (operand, indices, result) = (operand_dims(view, 0), operand_dims(view, 1), result_dims(view));
    let sizes = view.instr.ints(Key::SliceSizes);
    let sum = match view.array(0).map(|shape| shape.dtype) {
        Ok(DType::Pred) => Reducer::Or,
        _ => Reducer::Add,
    };
    let mut rule = Rule::default();
    let kind = |dim: usize| match operand[dim] == sizes[dim] || lookup.batching.contains(&dim) {
        // Picking the only element is a look-up in full.
        true => FactorKind::Pass,
        false if sizes[dim] == 1 && lookup.indexed.contains(&dim) => FactorKind::Reduce(sum),
        false => FactorKind::Replicate,
    };
    let from: TensorMap =
        operand.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    let places = places(&mut rule, &lookup, &from, indices);
    let offsets = dims_of(view, Key::OffsetDims);
    let (mut windows, mut counts) =
        (lookup.windowed(operand.len()).into_iter(), lookup.counting(indices.len()).into_iter());
    let to = result.iter().enumerate().map(|(index, &size)| {
        let shared = match offsets.contains(&index) {
            true => windows.next().filter(|&dim| operand[dim] == size).map(|dim| from[dim].clone()),
            false => counts.next().map(|dim| places[dim].clone()),
        };
        shared.unwrap_or_else(|| dim(rule.factor(size, FactorKind::Replicate)))
    });
    let to = to.collect();
    rule.operands.extend([from, places]);
    rule.results.push(to);
    rule
}

/// The indices' dimensions: batching ones are the operand's, the index vector is whole.
fn places(rule: &mut Rule, lookup: &Lookup, operand: &TensorMap, indices: &[i64]) -> TensorMap {
    let mut place =
        |(index, &size): (usize, &i64)| match lookup.indices_batching.iter().position(|&dim| dim == index) {
            Some(at) => operand[lookup.batching[at]].clone(),
            None if index == lookup.vector => dim(rule.factor(size, FactorKind::Replicate)),
            None => dim(rule.factor(size, FactorKind::Pass)),
        };
    indices.iter().enumerate().map(&mut place).collect()
}
