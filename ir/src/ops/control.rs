//! Tuples, calls, loops, branches, fusions, ordering.
//!
//! The rules of calls, loops, branches and fusions replicate everything and are never asked for: a
//! planner goes into the computations instead.

use super::maps::{all_replicated, fallback, identity};
use super::read::{self, Inferred, describe, expect_size};
use crate::attr::{Key, Value};
use crate::diag::counted;
use crate::dtype::DType;
use crate::eval::control as eval;
use crate::fusion::FusionKind;
use crate::module::{CompId, Computation, Instr};
use crate::opcode::{Arity, OpDef, Opcode};
use crate::shape::Shape;
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

const fn control(arity: Arity, infer: fn(&View) -> Inferred, rule: fn(&View) -> crate::rule::Rule) -> OpDef {
    OpDef::new(arity, infer, rule, |_| Work::default(), FusionKind::Control)
}

/// `tuple`.
pub const TUPLE: OpDef = control(Arity::AtLeast(0), infer_tuple, identity).evaluated(eval::tuple);
/// `get-tuple-element`.
pub const GET_TUPLE_ELEMENT: OpDef =
    control(Arity::Exactly(1), infer_element, rule_element).evaluated(eval::get_tuple_element);
/// `opt-barrier`: its operand.
pub const OPT_BARRIER: OpDef =
    control(Arity::Exactly(1), |view| Ok(view.operand_shape(0).cloned()), identity).evaluated(eval::pass);
/// `add-dependency`: its first operand, after the second.
pub const ADD_DEPENDENCY: OpDef =
    control(Arity::Exactly(2), |view| Ok(view.operand_shape(0).cloned()), identity).evaluated(eval::pass);
/// `domain`: its operand.
pub const DOMAIN: OpDef =
    control(Arity::Exactly(1), |view| Ok(view.operand_shape(0).cloned()), identity).evaluated(eval::pass);
/// `after-all`: a token.
pub const AFTER_ALL: OpDef =
    control(Arity::AtLeast(0), |_| Ok(Some(Shape::Token)), all_replicated).evaluated(eval::token);
/// `call`.
pub const CALL: OpDef = control(Arity::AtLeast(0), |view| infer_call(view, Key::ToApply), all_replicated)
    .evaluated_jointly(eval::call);
/// `fusion`.
pub const FUSION: OpDef = OpDef::new(
    Arity::AtLeast(0),
    |view| infer_call(view, Key::Calls),
    all_replicated,
    |_| Work::default(),
    FusionKind::Opaque,
)
.evaluated_jointly(eval::call);
/// `while`.
pub const WHILE: OpDef =
    control(Arity::Exactly(1), infer_while, all_replicated).evaluated_jointly(eval::while_loop);
/// `conditional`.
pub const CONDITIONAL: OpDef =
    control(Arity::AtLeast(1), infer_conditional, all_replicated).evaluated_jointly(eval::conditional);
/// `scan`: a loop over slices.
pub const SCAN: OpDef =
    OpDef::new(Arity::AtLeast(1), |_| Ok(None), fallback, |_| Work::default(), FusionKind::Opaque);

/// The attributes that name computations which run as part of the program's control flow, not per element.
pub fn control_keys(op: Opcode) -> &'static [Key] {
    match op {
        Opcode::While => &[Key::Condition, Key::Body],
        Opcode::Conditional => &[Key::BranchComputations, Key::TrueComputation, Key::FalseComputation],
        _ => &[],
    }
}

/// Computations that an instruction runs as control flow.
pub fn control_comps(instr: &Instr) -> Vec<CompId> {
    let of = |key: &Key| match instr.attr(key.clone()) {
        Some(Value::Comp(comp)) => vec![*comp],
        Some(Value::Comps(comps)) => comps.clone(),
        _ => Vec::new(),
    };
    control_keys(instr.op).iter().flat_map(of).collect()
}

/// The computation that a call or fusion runs in its own place.
pub fn callee(instr: &Instr) -> Option<CompId> {
    match instr.op {
        Opcode::Call => instr.comp(Key::ToApply),
        Opcode::Fusion => instr.comp(Key::Calls),
        _ => None,
    }
}

fn infer_tuple(view: &View) -> Inferred {
    let parts = (0..view.n_operands()).filter_map(|index| view.operand_shape(index).cloned());
    Ok(Some(Shape::Tuple(parts.collect())))
}

fn infer_element(view: &View) -> Inferred {
    let Some(Shape::Tuple(parts)) = view.operand_shape(0) else {
        return Err("`get-tuple-element` needs a tuple".to_owned());
    };
    let index = view.instr.int(Key::Index).ok_or("`get-tuple-element` needs `index`")?;
    let part = usize::try_from(index).ok().and_then(|index| parts.get(index));
    part.cloned().map(Some).ok_or_else(|| format!("`index` must be below {}, got {index}", parts.len()))
}

/// The leaves of one part are the result's; the other parts are free.
fn rule_element(view: &View) -> crate::rule::Rule {
    use crate::rule::{FactorKind, Rule};
    let mut rule = Rule::default();
    let parts = view.operand(0).shape.parts();
    let index = view.instr.int(Key::Index).map_or(0, |index| index as usize);
    let start: usize = parts.iter().take(index).map(Shape::n_leaves).sum();
    for leaf in view.operand(0).shape.leaves() {
        let map = rule.fresh(super::maps::leaf_dims(leaf), FactorKind::Pass);
        rule.operands.push(map);
    }
    rule.results = rule.operands[start..start + parts[index].n_leaves()].to_vec();
    rule
}

/// Checks that the computation's parameters are these shapes, in order.
fn check_params(comp: &Computation, args: &[&Shape]) -> Result<(), String> {
    let mut found = 0;
    for instr in &comp.instrs {
        let Some(number) = instr.param_number() else { continue };
        found += 1;
        match args.get(number as usize) {
            Some(wanted) if wanted.same_type(&instr.shape) => {}
            Some(wanted) => {
                let (wanted, found) = (describe(wanted), describe(&instr.shape));
                return Err(format!(
                    "parameter {number} of `{}` is {found}, but {wanted} is passed",
                    comp.name
                ));
            }
            None => {
                return Err(format!(
                    "`{}` has a parameter {number}, but is passed {}",
                    comp.name,
                    counted(args.len(), "value")
                ));
            }
        }
    }
    expect_size(&format!("the number of values passed to `{}`", comp.name), found, args.len() as i64)
}

fn infer_call(view: &View, key: Key) -> Inferred {
    let comp = read::callee(view, key)?;
    let args: SmallVec<[&Shape; 8]> =
        (0..view.n_operands()).filter_map(|index| view.operand_shape(index)).collect();
    check_params(comp, &args)?;
    Ok(Some(comp.root().shape.clone()))
}

fn infer_while(view: &View) -> Inferred {
    let state = view.operand_shape(0).ok_or("`while` needs an operand")?;
    let (condition, body) = (read::callee(view, Key::Condition)?, read::callee(view, Key::Body)?);
    check_params(condition, &[state])?;
    check_params(body, &[state])?;
    let is_pred =
        |shape: &Shape| shape.as_array().is_some_and(|shape| shape.dtype == DType::Pred && shape.rank() == 0);
    if !is_pred(&condition.root().shape) {
        let found = describe(&condition.root().shape);
        return Err(format!("condition `{}` must return pred[], got {found}", condition.name));
    }
    if !body.root().shape.same_type(state) {
        let (wanted, found) = (describe(state), describe(&body.root().shape));
        return Err(format!("body `{}` must return what it takes, {wanted}, got {found}", body.name));
    }
    Ok(Some(state.clone()))
}

/// The branches, however they are written.
fn branches<'a>(view: &View<'a>) -> Result<Vec<&'a Computation>, String> {
    match view.instr.attr(Key::BranchComputations) {
        Some(Value::Comps(comps)) => {
            let get = |id: &CompId| view.comps.get(id.index());
            comps.iter().map(get).collect::<Option<_>>().ok_or("a branch comes later".to_owned())
        }
        _ => Ok(vec![read::callee(view, Key::TrueComputation)?, read::callee(view, Key::FalseComputation)?]),
    }
}

fn infer_conditional(view: &View) -> Inferred {
    let branches = branches(view)?;
    let Some((first, _)) = branches.split_first() else {
        return Err("`conditional` needs branches".to_owned());
    };
    expect_size(
        "the number of operands of `conditional`",
        branches.len() as i64 + 1,
        view.n_operands() as i64,
    )?;
    let selector = view.array(0)?;
    match selector.dtype {
        DType::Pred => expect_size("the number of branches selected by a pred", 2, branches.len() as i64)?,
        DType::S32 => {}
        other => return Err(format!("`conditional` selects by pred[] or s32[], got {}", other.as_str())),
    }
    read::expect_scalar(view, 0)?;
    for (index, branch) in branches.iter().enumerate() {
        let arg = view.operand_shape(index + 1).ok_or("`conditional` lacks an operand")?;
        check_params(branch, &[arg])?;
        if !branch.root().shape.same_type(&first.root().shape) {
            let (a, b) = (describe(&first.root().shape), describe(&branch.root().shape));
            return Err(format!("branches must return the same shape, got {a} and {b}"));
        }
    }
    Ok(Some(first.root().shape.clone()))
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule};

    #[test]
    fn tuples_pass_their_leaves_on() {
        assert_eq!(
            rule("x: f32[2]; y: s32[]; ROOT t = (f32[2], s32[]) tuple(x, y)"),
            "([a],[])->([a],[]) {a=2}"
        );
        let element = "x: f32[2]; t: (f32[3], (f32[4], f32[5])); ROOT g = (f32[4], f32[5]) get-tuple-element(t), index=1";
        assert_eq!(rule(element), "([a],[b],[c])->([b],[c]) {a=3, b=4, c=5}");
        assert_eq!(
            rule("t: (f32[3], f32[4]); ROOT b = (f32[3], f32[4]) opt-barrier(t)"),
            "([a],[b])->([a],[b]) {a=3, b=4}"
        );
    }

    #[test]
    fn says_what_does_not_fit() {
        let check = |op: &str, expected: &str| {
            assert_eq!(
                error(&format!("x: f32[]; s: s32[]; v: f32[2]; t: (f32[], f32[]); ROOT r = {op}")),
                expected
            );
        };
        check("f32[] get-tuple-element(t), index=2", "`index` must be below 2, got 2");
        check("f32[] get-tuple-element(t), index=-1", "`index` must be below 2, got -1");
        check("f32[] get-tuple-element(x), index=0", "`get-tuple-element` needs a tuple");
        check("f32[] call(x, v), to_apply=add", "parameter 1 of `add` is f32[], but f32[2] is passed");
        check("f32[] call(x), to_apply=add", "`add` has a parameter 1, but is passed 1 value");
        check("f32[] call(x, x, x), to_apply=add", "the number of values passed to `add` must be 2, got 3");
        check("f32[] while(x), condition=add, body=add", "`add` has a parameter 1, but is passed 1 value");
        check(
            "f32[] conditional(x, x), branch_computations={add}",
            "`conditional` selects by pred[] or s32[], got f32",
        );
        check(
            "f32[] conditional(s), branch_computations={add}",
            "the number of operands of `conditional` must be 2, got 1",
        );
        check(
            "f32[] conditional(s, x), branch_computations={add}",
            "`add` has a parameter 1, but is passed 1 value",
        );
        check("f32[] conditional(s), branch_computations={}", "`conditional` needs branches");
    }

    #[test]
    fn control_flow_names_what_it_runs() {
        let text = "
            f { t = (s32[]) parameter(0) ROOT p = pred[] constant(false) }
            g { ROOT t = (s32[]) parameter(0) }
            ENTRY e {
                x = (s32[]) parameter(0)
                p = pred[] parameter(1)
                w = (s32[]) while(x), condition=f, body=g
                b = (s32[]) conditional(p, w, w), true_computation=g, false_computation=g
                i = s32[] parameter(2)
                n = (s32[]) conditional(i, b, b), branch_computations={g, g}
                c = (s32[]) call(n), to_apply=g
                ROOT r = (s32[]) fusion(c), kind=kLoop, calls=g
            }";
        let module = crate::parse(text).expect("legal");
        let of = |name: &str| module.entry().instrs.iter().find(|instr| &*instr.name == name).expect(name);
        let comps =
            |name: &str| super::control_comps(of(name)).iter().map(|comp| comp.index()).collect::<Vec<_>>();
        assert_eq!(
            [comps("w"), comps("b"), comps("n"), comps("c")],
            [vec![0, 1], vec![1, 1], vec![1, 1], vec![]]
        );
        let called = |name: &str| super::callee(of(name)).map(|comp| comp.index());
        assert_eq!([called("c"), called("r"), called("w")], [Some(1), Some(1), None]);
    }

    #[test]
    fn a_loop_needs_a_truth_value_and_its_own_state() {
        let looped = |condition: &str, body: &str| {
            error(&format!(
                "c {{ t = f32[2] parameter(0) {condition} }}\nb {{ t = f32[2] parameter(0) {body} }}\n---\nx: f32[2]; ROOT w = f32[2] while(x), condition=c, body=b"
            ))
        };
        let (fine, same) = ("ROOT p = pred[] constant(false)", "ROOT n = f32[2] negate(t)");
        assert_eq!(looped(fine, same), "");
        assert_eq!(
            looped("ROOT p = pred[2] compare(t, t), direction=EQ", same),
            "condition `c` must return pred[], got pred[2]"
        );
        assert_eq!(looped("ROOT p = s32[] constant(0)", same), "condition `c` must return pred[], got s32[]");
        assert_eq!(
            looped(fine, "ROOT n = f32[] constant(0)"),
            "body `b` must return what it takes, f32[2], got f32[]"
        );
    }
}
