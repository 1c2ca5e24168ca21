//! Communication that the program already contains.
//!
//! The dimension that a collective acts on is whole on every device; the others pass.

use super::maps::{dim, fallback, identity, leaf_dims};
use super::read::{Inferred, describe_array, has, like, one_dim, one_or_tuple};
use crate::attr::Key;
use crate::diag::counted;
use crate::eval::collective as eval;
use crate::fusion::FusionKind;
use crate::module::Instr;
use crate::opcode::{Arity, OpDef, Opcode};
use crate::rule::{FactorKind, Rule};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;
use std::ops::Range;

/// `all-reduce`: every array alone.
pub const ALL_REDUCE: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_same, identity, combinations, FusionKind::Opaque)
        .evaluated_jointly(eval::collective);
/// `collective-broadcast`: every group its first device's value.
pub const BROADCAST: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_same, identity, |_| Work::default(), FusionKind::Opaque)
        .evaluated_jointly(eval::collective);
/// `collective-permute`.
pub const PERMUTE: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_permute, identity, |_| Work::default(), FusionKind::Opaque)
        .evaluated_jointly(eval::permute);
/// `all-gather`: one dimension grows.
pub const ALL_GATHER: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_all_gather, rule_resized, |_| Work::default(), FusionKind::Opaque)
        .evaluated_jointly(eval::collective);
/// `reduce-scatter`: one dimension shrinks.
pub const REDUCE_SCATTER: OpDef = OpDef::new(
    Arity::AtLeast(1),
    infer_reduce_scatter,
    rule_resized,
    |_| Work::default(),
    FusionKind::Opaque,
)
.evaluated_jointly(eval::collective);
/// `all-to-all`: of one array along a dimension, or of a tuple.
pub const ALL_TO_ALL: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_all_to_all, rule_all_to_all, |_| Work::default(), FusionKind::Opaque)
        .evaluated_jointly(eval::collective);
/// The first half of an asynchronous op.
pub const START: OpDef = OpDef::new(Arity::AtLeast(1), infer_start, fallback, work_start, FusionKind::Opaque)
    .evaluated_jointly(eval::start);
/// `async-start`: what it wraps may take nothing.
pub const ASYNC_START: OpDef = OpDef { arity: Arity::AtLeast(0), infer: infer_async_start, ..START };
/// The second half of an asynchronous op.
pub const DONE: OpDef =
    OpDef::new(Arity::Exactly(1), infer_done, fallback, |_| Work::default(), FusionKind::Control)
        .evaluated_jointly(eval::done);

/// The leaves of a `-start`'s value that are its result; the others are its operands and contexts. None of
/// other ops.
pub fn started_leaves(instr: &Instr) -> Option<Range<usize>> {
    use Opcode::{
        AllGatherStart, AllReduceStart, AsyncStart, AsyncUpdate, CollectivePermuteStart, CopyStart,
    };
    let parts = instr.shape.parts();
    let part = match instr.op {
        AllReduceStart => return Some(0..instr.shape.n_leaves()),
        AllGatherStart | CollectivePermuteStart if parts.is_empty() => return Some(0..1),
        CopyStart => 0,
        AllGatherStart | AsyncStart | AsyncUpdate | CollectivePermuteStart => 1,
        _ => return None,
    };
    let start = parts.iter().take(part).map(Shape::n_leaves).sum();
    Some(start..start + parts.get(part).map_or(0, Shape::n_leaves))
}

/// Whether an opcode hands out what a `-start` has begun.
pub fn is_done(op: Opcode) -> bool {
    use Opcode::{AllGatherDone, AllReduceDone, AsyncDone, CollectivePermuteDone, CopyDone};
    matches!(op, AllGatherDone | AllReduceDone | AsyncDone | CollectivePermuteDone | CopyDone)
}

fn arrays<'a>(view: &View<'a>) -> Result<Vec<&'a ArrayShape>, String> {
    (0..view.n_operands()).map(|index| view.array(index)).collect()
}

/// The operands, as one array or a tuple.
fn infer_same(view: &View) -> Inferred {
    match view.instr.operands.len() {
        1 => Ok(Some(like(view.array(0)?))),
        _ => Ok(Some(one_or_tuple(arrays(view)?.into_iter().map(like).collect()))),
    }
}

/// With offsets among the operands (the in-place form) the shape is as written.
fn infer_permute(view: &View) -> Inferred {
    if view.instr.attr(Key::SliceSizes).is_some() || view.n_operands() != 1 {
        Ok(None)
    } else {
        infer_same(view)
    }
}

/// The value is as written; the part of it that is the result has to be what the op makes.
fn infer_start(view: &View) -> Inferred {
    let all = view.instr.shape.leaves();
    let results = started_leaves(view.instr).and_then(|range| all.get(range)).unwrap_or_default();
    match view.instr.op {
        Opcode::AllReduceStart => infer_same(view),
        Opcode::AllGatherStart => check_gathered(view, results),
        Opcode::CollectivePermuteStart | Opcode::CopyStart if view.n_operands() == 1 => {
            let (op, operand) = (view.instr.op.as_str(), view.array(0)?);
            let is_same = |leaf: &&Shape| leaf.as_array().is_some_and(|it| it.dims == operand.dims);
            let is_legal = results.len() == 1 && results.iter().all(is_same);
            let wrong = || format!("`{op}` of {} makes another array", describe_array(operand));
            if is_legal { Ok(None) } else { Err(wrong()) }
        }
        _ => Ok(None),
    }
}

/// The part of its `-start`'s value that is the result.
fn infer_done(view: &View) -> Inferred {
    let Some(started) = view.operand_shape(0) else { return Ok(None) };
    let parts = started.parts();
    let part = match view.instr.op {
        Opcode::AllReduceDone => return Ok(Some(started.clone())),
        Opcode::AllGatherDone | Opcode::CollectivePermuteDone if parts.is_empty() => {
            return Ok(Some(started.clone()));
        }
        Opcode::CopyDone => parts.first(),
        _ => parts.get(1),
    };
    let op = view.instr.op.as_str();
    part.cloned().map(Some).ok_or_else(|| format!("`{op}` needs the value of its `-start`"))
}

/// The shape is as written: operands, result, contexts.
fn infer_async_start(view: &View) -> Inferred {
    match view.instr.shape.parts() {
        [Shape::Tuple(_), _, ..] => Ok(None),
        _ => Err("`async-start` makes a tuple: of its operands' tuple, its result, contexts".to_owned()),
    }
}

/// One size per device, as XLA assumes two of them.
fn combinations(view: &View) -> Work {
    let mut total = 0.0;
    view.instr.shape.for_each_leaf(&mut |leaf| total += leaf.as_array().map_or(0.0, ArrayShape::n_elements));
    Work::flops(total)
}

fn work_start(view: &View) -> Work {
    if view.instr.op == Opcode::AllReduceStart { combinations(view) } else { Work::default() }
}

fn infer_all_gather(view: &View) -> Inferred {
    check_gathered(view, &view.instr.shape.leaves())
}

fn check_gathered(view: &View, results: &[&Shape]) -> Inferred {
    check_resized(view, results, |operand, result| operand > 0 && result % operand == 0)
}

fn infer_reduce_scatter(view: &View) -> Inferred {
    check_resized(view, &view.instr.shape.leaves(), |operand, result| result > 0 && operand % result == 0)
}

/// The number of devices decides the size, so it is as written; it has to fit.
fn check_resized(view: &View, results: &[&Shape], fits: fn(i64, i64) -> bool) -> Inferred {
    let operands = arrays(view)?;
    if results.is_empty() {
        return Ok(None);
    }
    let op = view.instr.op.as_str();
    if results.len() != operands.len() {
        return Err(format!(
            "`{op}` of {} makes as many, got {}",
            counted(operands.len(), "array"),
            results.len()
        ));
    }
    for (operand, result) in operands.into_iter().zip(results) {
        let along = one_dim(view, Key::Dimensions, operand.rank())?;
        let legal = result.as_array().is_some_and(|result| {
            let pairs = operand.dims.iter().zip(&result.dims).enumerate();
            let sizes = |(dim, (&a, &b)): (usize, (&i64, &i64))| {
                if dim == along { a == b || fits(a, b) } else { a == b }
            };
            operand.dtype == result.dtype && operand.rank() == result.rank() && pairs.into_iter().all(sizes)
        });
        if !legal {
            let found = super::read::describe(result);
            return Err(format!(
                "`{op}` along dimension {along} cannot make {found} of {}",
                describe_array(operand)
            ));
        }
    }
    Ok(None)
}

/// The acted dimension is apart on both sides.
fn rule_resized(view: &View) -> Rule {
    let along = super::read::dim_of(view, Key::Dimensions);
    acted(view, along)
}

fn acted(view: &View, along: usize) -> Rule {
    let mut rule = Rule::default();
    for (index, leaf) in view.instr.shape.leaves().into_iter().enumerate() {
        let operand = super::maps::operand_dims(view, index);
        let from = rule.fresh(operand, FactorKind::Pass);
        let mut to = from.clone();
        rule.factors[from[along][0] as usize].kind = FactorKind::Replicate;
        to[along] = dim(rule.factor(leaf_dims(leaf)[along], FactorKind::Replicate));
        rule.operands.push(from);
        rule.results.push(to);
    }
    rule
}

fn infer_all_to_all(view: &View) -> Inferred {
    if !has(view, Key::Dimensions) {
        return infer_tuple_form(view);
    }
    let operand = view.array(0)?;
    one_dim(view, Key::Dimensions, operand.rank())?;
    infer_same(view)
}

/// Without a dimension, operand `i` goes to device `i`.
fn infer_tuple_form(view: &View) -> Inferred {
    let operands = arrays(view)?;
    Ok(Some(Shape::Tuple(operands.into_iter().map(like).collect())))
}

fn rule_all_to_all(view: &View) -> Rule {
    if !has(view, Key::Dimensions) {
        return fallback(view);
    }
    acted(view, super::read::dim_of(view, Key::Dimensions))
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn the_acted_dimension_is_whole() {
        let gather = "x: f32[2,3]; ROOT y = f32[8,3] all-gather(x), replica_groups={}, dimensions={0}";
        assert_eq!(rule(gather), "([a,b])->([c,b]) {a=2!, b=3, c=8!}");
        let exchange = "x: f32[2,3]; ROOT y = f32[2,3] all-to-all(x), replica_groups={}, dimensions={0}";
        assert_eq!(rule(exchange), "([a,b])->([c,b]) {a=2!, b=3, c=2!}");
        let reduce = "x: f32[2,3]; ROOT y = f32[2,3] all-reduce(x), replica_groups={}, to_apply=add";
        assert_eq!(rule(reduce), "([a,b])->([a,b]) {a=2, b=3}");
        assert_eq!(work(reduce).flops, 6.0);
    }

    #[test]
    fn says_what_does_not_fit() {
        assert_eq!(
            error("x: f32[2,3]; ROOT y = f32[7,3] all-gather(x), replica_groups={}, dimensions={0}"),
            "`all-gather` along dimension 0 cannot make f32[7,3] of f32[2,3]"
        );
    }

    #[test]
    fn sizes_are_multiples_of_each_other() {
        let scatter = |made: &str| {
            error(&format!(
                "x: f32[8]; ROOT y = f32[{made}] reduce-scatter(x), replica_groups={{}}, dimensions={{0}}, to_apply=add"
            ))
        };
        assert_eq!([scatter("2"), scatter("8")], ["", ""]);
        assert_eq!(scatter("3"), "`reduce-scatter` along dimension 0 cannot make f32[3] of f32[8]");
        assert_eq!(scatter("0"), "`reduce-scatter` along dimension 0 cannot make f32[0] of f32[8]");
        let empty = "x: f32[0]; ROOT y = f32[8] all-gather(x), replica_groups={}, dimensions={0}";
        assert_eq!(error(empty), "`all-gather` along dimension 0 cannot make f32[8] of f32[0]");
        let permute = "x: f32[2]; ROOT y = f32[3] collective-permute(x), source_target_pairs={}";
        assert_eq!(error(permute), "`collective-permute` makes f32[2], not f32[3]");
    }

    #[test]
    fn what_is_done_is_what_was_started() {
        let done = |made: &str| {
            error(&format!(
                "x: f32[2]; s = (f32[2], f32[2], u32[]) collective-permute-start(x), source_target_pairs={{}}; \
                 ROOT y = {made}"
            ))
        };
        assert_eq!(done("f32[2] collective-permute-done(s)"), "");
        assert_eq!(
            done("f32[3] collective-permute-done(s)"),
            "`collective-permute-done` makes f32[2], not f32[3]"
        );
        let other = "x: f32[2]; ROOT y = f32[2] copy-done(x)";
        assert_eq!(error(other), "`copy-done` needs the value of its `-start`");
    }

    #[test]
    fn a_start_begins_what_its_op_makes() {
        let gather = "x: f32[2]; ROOT y = f32[4,2] all-gather-start(x), replica_groups={}, dimensions={1}";
        assert!(error(gather).contains("dimension"), "{}", error(gather));
        let beside =
            "x: f32[2]; ROOT y = (f32[2], f32[3]) all-gather-start(x), replica_groups={}, dimensions={0}";
        assert_eq!(error(beside), "`all-gather-start` along dimension 0 cannot make f32[3] of f32[2]");
        let copy = "x: f32[2]; ROOT y = (f32[3], f32[2], u32[]) copy-start(x)";
        assert_eq!(error(copy), "`copy-start` of f32[2] makes another array");
        let permute =
            "x: f32[2]; ROOT y = (f32[2], f32[4]) collective-permute-start(x), source_target_pairs={{0,1}}";
        assert_eq!(error(permute), "`collective-permute-start` of f32[2] makes another array");
    }

    #[test]
    fn a_start_s_result_is_beside_its_operands() {
        let of = |root: &str| {
            let text = format!("x: f32[2]; y: f32[2]; ROOT z = {root}");
            crate::ops::check::with_root(&text, |view| super::started_leaves(view.instr))
        };
        let gather = ", replica_groups={}, dimensions={0}";
        assert_eq!(of(&format!("(f32[2], f32[8]) all-gather-start(x){gather}")), Some(1..2));
        assert_eq!(
            of(&format!("((f32[2], f32[2]), (f32[8], f32[8])) all-gather-start(x, y){gather}")),
            Some(2..4)
        );
        assert_eq!(of(&format!("f32[8] all-gather-start(x){gather}")), Some(0..1));
        assert_eq!(of("(f32[2], f32[2], u32[]) copy-start(x)"), Some(0..1));
        assert_eq!(of("f32[2] all-reduce-start(x), to_apply=add"), Some(0..1));
        assert_eq!(of("f32[2] add(x, y)"), None);
    }

    #[test]
    fn only_reductions_work() {
        assert_eq!(
            work("x: f32[2,3]; ROOT y = f32[2,3] all-reduce-start(x), replica_groups={}, to_apply=add").flops,
            6.0
        );
        let gather =
            "x: f32[2]; ROOT y = (f32[2], f32[8]) all-gather-start(x), replica_groups={}, dimensions={0}";
        assert_eq!(work(gather).flops, 0.0);
    }
}
