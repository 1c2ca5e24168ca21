//! Sources and sinks of values, sizes at run time, and calls that XLA does not look into.

use super::linear;
use super::literal::splat;
use super::maps::{alike, all_replicated, fallback, identity, operand_dims, source};
use super::read::{Inferred, array, expect_scalar, like, one_dim, stated};
use crate::attr::Key;
use crate::dtype::DType;
use crate::eval::{border, source};
use crate::fusion::FusionKind;
use crate::kernels;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::Shape;
use crate::view::View;
use crate::work::Work;

/// An op without arithmetic.
const fn idle(
    arity: Arity,
    infer: fn(&View) -> Inferred,
    rule: fn(&View) -> Rule,
    fusion: FusionKind,
) -> OpDef {
    OpDef::new(arity, infer, rule, |_| Work::default(), fusion)
}

/// `parameter`: every dimension is free.
pub const PARAMETER: OpDef =
    idle(Arity::Exactly(0), |_| Ok(None), |view| source(view, FactorKind::Pass), FusionKind::Control);
/// `constant`: free if all elements are alike, else on every device.
pub const CONSTANT: OpDef = idle(Arity::Exactly(0), |_| Ok(None), rule_constant, FusionKind::Control);
/// `iota`: every dimension is free, for a device knows where its part starts.
pub const IOTA: OpDef =
    idle(Arity::Exactly(0), infer_iota, |view| source(view, FactorKind::Pass), FusionKind::Free)
        .evaluated(source::iota);
/// `custom-call`: what its kernel's line says; else whatever it does, it does it on whole arrays.
pub const CUSTOM_CALL: OpDef =
    OpDef::new(Arity::AtLeast(0), infer_custom_call, rule_custom_call, kernels::work, FusionKind::Opaque)
        .linear_in(linear::marker)
        .evaluated_jointly(border::custom_call);
/// Transfers to and from elsewhere.
pub const OPAQUE: OpDef = idle(Arity::AtLeast(0), |_| Ok(None), fallback, FusionKind::Opaque);
/// `outfeed`: makes a token.
pub const OUTFEED: OpDef = idle(Arity::AtLeast(1), |_| Ok(Some(Shape::Token)), fallback, FusionKind::Opaque);
/// `partition-id`, `replica-id`.
pub const DEVICE_ID: OpDef =
    idle(Arity::Exactly(0), |_| array(DType::U32, []), all_replicated, FusionKind::Control)
        .evaluated_jointly(source::device_id);
/// `get-dimension-size`: of one dimension; the others do not matter.
pub const GET_DIMENSION_SIZE: OpDef =
    idle(Arity::Exactly(1), infer_get_dimension_size, rule_get_dimension_size, FusionKind::Control)
        .evaluated(source::dimension_size);
/// `set-dimension-size`: the dimension becomes dynamic.
pub const SET_DIMENSION_SIZE: OpDef =
    idle(Arity::Exactly(2), infer_set_dimension_size, rule_set_dimension_size, FusionKind::Opaque)
        .evaluated(source::set_dimension_size);

fn rule_constant(view: &View) -> Rule {
    source(view, if splat(view.instr).is_some() { FactorKind::Pass } else { FactorKind::Replicate })
}

fn infer_iota(view: &View) -> Inferred {
    if let Some(shape) = stated(view)? {
        one_dim(view, Key::IotaDimension, shape.rank())?;
    }
    Ok(None)
}

/// Markers of a layout are copies; their operand and result have one shape.
fn is_marker(view: &View) -> bool {
    let target = view.instr.word(Key::CustomCallTarget);
    view.n_operands() == 1
        && matches!(target, Some("Sharding" | "xla.sdy.FuncResultSharding"))
        && view.operand(0).shape.same_type(&view.instr.shape)
}

fn infer_custom_call(view: &View) -> Inferred {
    match view.instr.word(Key::CustomCallTarget) {
        Some("Sharding") => Ok(view.operand_shape(0).cloned()),
        Some(_) => Ok(None),
        None => Err("`custom-call` needs `custom_call_target`".to_owned()),
    }
}

fn rule_custom_call(view: &View) -> Rule {
    match is_marker(view) {
        true => identity(view),
        false => kernels::rule(view).unwrap_or_else(|| fallback(view)),
    }
}

fn infer_get_dimension_size(view: &View) -> Inferred {
    one_dim(view, Key::Dimensions, view.array(0)?.rank())?;
    array(DType::S32, [])
}

fn rule_get_dimension_size(view: &View) -> Rule {
    let asked = super::read::dim_of(view, Key::Dimensions);
    let mut rule = Rule::default();
    let map = rule.fresh(operand_dims(view, 0), FactorKind::Pass);
    rule.factors[asked].kind = FactorKind::Replicate;
    rule.operands.push(map);
    rule.results.push(TensorMap::new());
    rule
}

fn infer_set_dimension_size(view: &View) -> Inferred {
    let operand = view.array(0)?;
    expect_scalar(view, 1)?;
    one_dim(view, Key::Dimensions, operand.rank())?;
    Ok(Some(like(operand)))
}

fn rule_set_dimension_size(view: &View) -> Rule {
    let set = super::read::dim_of(view, Key::Dimensions);
    alike(view, |dim| if dim == set { FactorKind::Replicate } else { FactorKind::Pass })
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule};

    #[test]
    fn sources_are_free_where_their_elements_can_be_made_anywhere() {
        assert_eq!(rule("ROOT x = f32[2,3] parameter(0)"), "()->([a,b]) {a=2, b=3}");
        assert_eq!(rule("ROOT x = s32[2,3] iota(), iota_dimension=1"), "()->([a,b]) {a=2, b=3}");
        assert_eq!(rule("ROOT x = f32[2] constant({7, 7})"), "()->([a]) {a=2}");
        assert_eq!(rule("ROOT x = f32[2] constant({7, 8})"), "()->([a]) {a=2!}");
        assert_eq!(rule("ROOT x = f32[64] constant({...})"), "()->([a]) {a=64!}");
    }

    #[test]
    fn custom_calls_are_whole_but_for_markers() {
        let call = |target: &str| {
            format!("x: f32[2,3]; ROOT y = f32[2,3] custom-call(x), custom_call_target=\"{target}\"")
        };
        assert_eq!(rule(&call("Sharding")), "([a,b])->([a,b]) {a=2, b=3}");
        assert_eq!(rule(&call("cuda_magic")), "([a,b])->([c,d]) {a=2!, b=3!, c=2!, d=3!}");
    }

    #[test]
    fn says_what_does_not_fit() {
        assert_eq!(
            error("ROOT x = s32[2] iota(), iota_dimension=1"),
            "`iota_dimension` names dimension 1 of a rank-1 array"
        );
        assert_eq!(error("ROOT x = s32[] partition-id()"), "`partition-id` makes u32[], not s32[]");
        assert_eq!(
            error("x: f32[2]; ROOT y = f32[2] custom-call(x)"),
            "`custom-call` needs `custom_call_target`"
        );
    }
}
