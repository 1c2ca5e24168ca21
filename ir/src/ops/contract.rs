//! Contractions of two arrays: `dot` and its ragged and scaled kin.

use super::linear;
use super::maps::{dim, fallback, operand_dims};
use super::read::{
    DimList, Inferred, describe_array, dim_list, dims_of, expect_size, mixed_dtype, plain, stated_dtype,
};
use crate::attr::Key;
use crate::dtype::{Class, DType};
use crate::eval::contract as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorId, FactorKind, Reducer, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims};
use crate::view::View;
use crate::work::Work;

/// `dot`: batch and free dimensions pass, contracting dimensions add up.
pub const DOT: OpDef = OpDef::new(Arity::Exactly(2), infer_dot, rule_dot, work_dot, FusionKind::Matrix)
    .linear_in(linear::either)
    .evaluated(eval::dot);
/// `ragged-dot`: rows of the left belong to groups, each with its own right-hand matrix.
pub const RAGGED_DOT: OpDef =
    OpDef::new(Arity::Exactly(3), infer_ragged, rule_ragged, work_ragged, FusionKind::Matrix);
/// `scaled-dot`: block-scaled operands with their scales; no rule of its own yet.
pub const SCALED_DOT: OpDef =
    OpDef::new(Arity::AtLeast(2), infer_dot, fallback, work_dot, FusionKind::Matrix);

/// The roles of one operand's dimensions.
struct Roles {
    batch: DimList,
    contracting: DimList,
}

impl Roles {
    fn read(view: &View, batch: Key, contracting: Key, rank: usize) -> Result<Roles, String> {
        let roles =
            Roles { batch: dim_list(view, batch, rank)?, contracting: dim_list(view, contracting, rank)? };
        match roles.batch.iter().find(|dim| roles.contracting.contains(dim)) {
            Some(both) => {
                let op = view.instr.op.as_str();
                Err(format!("dimension {both} of an operand of `{op}` is both batch and contracting"))
            }
            None => Ok(roles),
        }
    }

    fn free(&self, rank: usize) -> DimList {
        (0..rank).filter(|dim| !self.batch.contains(dim) && !self.contracting.contains(dim)).collect()
    }
}

/// Both operands' roles, with equal sizes where they meet.
fn roles(view: &View, a: &ArrayShape, b: &ArrayShape) -> Result<(Roles, Roles), String> {
    let lhs = Roles::read(view, Key::LhsBatchDims, Key::LhsContractingDims, a.rank())?;
    let rhs = Roles::read(view, Key::RhsBatchDims, Key::RhsContractingDims, b.rank())?;
    meet(view, "batch", (a, &lhs.batch), (b, &rhs.batch))?;
    meet(view, "contracting", (a, &lhs.contracting), (b, &rhs.contracting))?;
    Ok((lhs, rhs))
}

fn meet(
    view: &View,
    role: &str,
    a: (&ArrayShape, &DimList),
    b: (&ArrayShape, &DimList),
) -> Result<(), String> {
    let op = view.instr.op.as_str();
    if a.1.len() != b.1.len() {
        let (m, n) = (a.1.len(), b.1.len());
        return Err(format!("`{op}` needs as many {role} dimensions on both sides, got {m} and {n}"));
    }
    for (&i, &j) in a.1.iter().zip(b.1) {
        let (m, n) = (a.0.dims[i], b.0.dims[j]);
        if m != n {
            return Err(format!("`{op}` needs equal {role} sizes, got {m} and {n}"));
        }
    }
    Ok(())
}

/// The element type of a product; a wider accumulation type is as written.
pub(crate) fn product_dtype(view: &View, a: DType, b: DType) -> Result<DType, String> {
    let narrow = |dtype: DType| matches!(dtype.class(), Class::Signed | Class::Unsigned);
    let natural = if narrow(a) && narrow(b) {
        if a.bits() >= b.bits() { a } else { b }
    } else {
        mixed_dtype(view, a, b)?
    };
    Ok(stated_dtype(view, natural))
}

fn infer_dot(view: &View) -> Inferred {
    let (a, b) = (view.array(0)?, view.array(1)?);
    let (lhs, rhs) = roles(view, a, b)?;
    let mut dims: Dims = lhs.batch.iter().map(|&dim| a.dims[dim]).collect();
    dims.extend(lhs.free(a.rank()).iter().map(|&dim| a.dims[dim]));
    dims.extend(rhs.free(b.rank()).iter().map(|&dim| b.dims[dim]));
    Ok(Some(plain(product_dtype(view, a.dtype, b.dtype)?, dims)))
}

/// Factors by dimension: of the left operand, then those that only the right one has.
fn rule_dot(view: &View) -> Rule {
    let lhs = Roles {
        batch: dims_of(view, Key::LhsBatchDims),
        contracting: dims_of(view, Key::LhsContractingDims),
    };
    let rhs = Roles {
        batch: dims_of(view, Key::RhsBatchDims),
        contracting: dims_of(view, Key::RhsContractingDims),
    };
    let mut rule = Rule::default();
    let left = operand_dims(view, 0).iter().enumerate().map(|(index, &size)| {
        let sums = lhs.contracting.contains(&index);
        rule.factor(size, if sums { FactorKind::Reduce(Reducer::Add) } else { FactorKind::Pass })
    });
    let left: Vec<FactorId> = left.collect();
    let right = operand_dims(view, 1).iter().enumerate().map(|(index, &size)| {
        let met = |mine: &DimList, theirs: &DimList| {
            mine.iter().position(|&dim| dim == index).map(|at| left[theirs[at]])
        };
        let shared = met(&rhs.batch, &lhs.batch).or_else(|| met(&rhs.contracting, &lhs.contracting));
        shared.unwrap_or_else(|| rule.factor(size, FactorKind::Pass))
    });
    let right: Vec<FactorId> = right.collect();
    let batch = lhs.batch.iter().map(|&dim| left[dim]);
    let rows = lhs.free(left.len()).into_iter().map(|dim| left[dim]);
    let columns = rhs.free(right.len()).into_iter().map(|dim| right[dim]);
    rule.results.push(batch.chain(rows).chain(columns).map(dim).collect());
    rule.operands.push(left.into_iter().map(dim).collect());
    rule.operands.push(right.into_iter().map(dim).collect());
    rule
}

/// A multiply and an add per result element and contracted index.
fn work_dot(view: &View) -> Work {
    let lhs = operand_dims(view, 0);
    let contracted: f64 = dims_of(view, Key::LhsContractingDims).iter().map(|&dim| lhs[dim] as f64).product();
    let result = view.instr.shape.as_array().map_or(0.0, ArrayShape::n_elements);
    Work::flops(2.0 * result * contracted)
}

/// Where the ragged dimension of the left operand lies.
#[derive(PartialEq)]
enum Ragged {
    /// Rows: the right operand has a group dimension.
    Free,
    /// Summands: the result has a group dimension in front.
    Contracting,
    /// Matrices.
    Batch,
}

fn ragged(view: &View, lhs: &Roles, a: &ArrayShape) -> Result<Ragged, String> {
    match *dim_list(view, Key::LhsRaggedDims, a.rank())? {
        [dim] if lhs.contracting.contains(&dim) => Ok(Ragged::Contracting),
        [dim] if lhs.batch.contains(&dim) => Ok(Ragged::Batch),
        [_] => Ok(Ragged::Free),
        _ => Err("`lhs_ragged_dims` must name one dimension".to_owned()),
    }
}

fn infer_ragged(view: &View) -> Inferred {
    let (a, b, groups) = (view.array(0)?, view.array(1)?, view.array(2)?);
    let (lhs, rhs) = roles(view, a, b)?;
    let grouped = dim_list(view, Key::RhsGroupDims, b.rank())?;
    let Some(&n_groups) = groups.dims.last() else {
        return Err(format!("`ragged-dot` needs group sizes, got {}", describe_array(groups)));
    };
    let kind = ragged(view, &lhs, a)?;
    expect_size("the number of `rhs_group_dims`", i64::from(kind == Ragged::Free), grouped.len() as i64)?;
    for &dim in &grouped {
        expect_size("the group dimension", n_groups, b.dims[dim])?;
        if rhs.batch.contains(&dim) || rhs.contracting.contains(&dim) {
            return Err(format!("`rhs_group_dims` names dimension {dim}, which is batch or contracting"));
        }
    }
    let mut dims = Dims::new();
    dims.extend((kind == Ragged::Contracting).then_some(n_groups));
    dims.extend(lhs.batch.iter().map(|&dim| a.dims[dim]));
    dims.extend(lhs.free(a.rank()).iter().map(|&dim| a.dims[dim]));
    dims.extend(rhs.free(b.rank()).iter().filter(|dim| !grouped.contains(dim)).map(|&dim| b.dims[dim]));
    Ok(Some(plain(product_dtype(view, a.dtype, b.dtype)?, dims)))
}

/// Ragged rows and groups stay whole; what is not ragged behaves as in `dot`.
fn rule_ragged(view: &View) -> Rule {
    let ragged = dims_of(view, Key::LhsRaggedDims);
    let is_row = dims_of(view, Key::RhsGroupDims).len() == 1 && operand_dims(view, 2).len() == 1;
    if !is_row {
        return super::maps::all_replicated(view);
    }
    let mut rule = rule_dot(view);
    let group = dims_of(view, Key::RhsGroupDims)[0];
    let group_factor = rule.operands[1][group][0];
    rule.results[0].retain(|factors| factors[0] != group_factor);
    let whole = ragged.iter().map(|&dim| rule.operands[0][dim][0]).chain([group_factor]);
    for factor in whole.collect::<Vec<_>>() {
        rule.factors[factor as usize].kind = FactorKind::Replicate;
    }
    rule.operands.push(TensorMap::from_iter([dim(group_factor)]));
    rule
}

/// Every row (or summand) belongs to one group, so groups cost nothing (XLA's own count differs here).
fn work_ragged(view: &View) -> Work {
    let has_groups = dims_of(view, Key::RhsGroupDims).is_empty()
        && dims_of(view, Key::LhsRaggedDims)
            .iter()
            .any(|dim| dims_of(view, Key::LhsContractingDims).contains(dim));
    let n_groups = operand_dims(view, 2).last().map_or(1.0, |&size| size.max(1) as f64);
    work_dot(view) * (if has_groups { 1.0 / n_groups } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn dot_contracts_the_shared_dimension() {
        let body = "x: f32[2,3]; w: f32[3,4]; ROOT d = f32[2,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        assert_eq!(rule(body), "([a,b],[b,c])->([a,c]) {a=2, b=3+, c=4}");
        assert_eq!(work(body).flops, 48.0);
    }

    #[test]
    fn dot_keeps_batches_in_front() {
        let body = "x: bf16[5,2,3]; w: bf16[5,4,3]
            ROOT d = f32[5,2,4] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}";
        assert_eq!(rule(body), "([a,b,c],[a,d,c])->([a,b,d]) {a=5, b=2, c=3+, d=4}");
    }

    #[test]
    fn dot_says_what_does_not_fit() {
        let dot =
            |attrs: &str| error(&format!("x: f32[2,3]; w: f32[4,5]; ROOT d = f32[2,5] dot(x, w){attrs}"));
        let contract = |i, j| dot(&format!(", lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}"));
        assert_eq!(contract(1, 0), "`dot` needs equal contracting sizes, got 3 and 4");
        assert_eq!(contract(2, 0), "`lhs_contracting_dims` names dimension 2 of a rank-2 array");
        assert_eq!(contract(-1, 0), "`lhs_contracting_dims` names dimension -1 of a rank-2 array");
        assert_eq!(dot(", lhs_contracting_dims={1,1}"), "`lhs_contracting_dims` names dimension 1 twice");
        assert_eq!(
            dot(", lhs_contracting_dims={1}"),
            "`dot` needs as many contracting dimensions on both sides, got 1 and 0"
        );
        assert_eq!(dot(""), "`dot` makes f32[2,3,4,5], not f32[2,5]");
        let both =
            ", lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        assert_eq!(dot(both), "dimension 0 of an operand of `dot` is both batch and contracting");
    }

    #[test]
    fn ragged_dot_keeps_rows_and_groups_whole() {
        let body = "x: f32[6,8]; w: f32[3,8,2]; g: s32[3]
            ROOT r = f32[6,2] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}";
        assert_eq!(rule(body), "([a,b],[c,b,d],[c])->([a,d]) {a=6!, b=8+, c=3!, d=2}");
        assert_eq!(work(body).flops, 192.0);
    }

    #[test]
    fn a_product_of_integers_has_the_wider_type_or_the_one_that_is_stated() {
        let of = |a: &str, b: &str, made: &str| {
            error(&format!(
                "x: {a}[2]; y: {b}[2]; ROOT z = {made}[] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
            ))
        };
        assert_eq!(
            [
                of("s8", "s32", "s32"),
                of("s32", "s8", "s32"),
                of("s8", "s8", "s32"),
                of("bf16", "bf16", "f32")
            ],
            [""; 4]
        );
        assert_eq!([of("s8", "s32", "f32"), of("s32", "s8", "f32")], ["`dot` makes s32[], not f32[]"; 2]);
        assert_eq!(of("f32", "f32", "s32"), "`dot` makes f32[], not s32[]");
    }
}
