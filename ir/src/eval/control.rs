//! Tuples, calls, loops and branches.

use super::convert::first;
use super::{Call, Joint, Lanes, Value};
use crate::attr::{Key, Value as Attr};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::module::CompId;
use crate::ops::control::callee;

/// `tuple`.
pub(crate) fn tuple(_: &Call, args: Vec<Value>) -> Result<Value> {
    Ok(Value::Tuple(args))
}

/// `get-tuple-element`.
pub(crate) fn get_tuple_element(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let index = call.view.instr.int(Key::Index).map_or(0, |index| index as usize);
    match args.swap_remove(0) {
        Value::Tuple(mut parts) if index < parts.len() => Ok(parts.swap_remove(index)),
        _ => Err(Diagnostic::error("`get-tuple-element` needs a tuple")),
    }
}

/// The first operand, unchanged.
pub(crate) fn pass(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    Ok(args.swap_remove(0))
}

/// A token.
pub(crate) fn token(_: &Call, _: Vec<Value>) -> Result<Value> {
    Ok(Value::Token)
}

/// `call`, `fusion`.
pub(crate) fn call(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    let comp = callee(joint.view.instr).ok_or_else(|| Diagnostic::error("no computation is named"))?;
    joint.machine.run(comp, joint.n_lanes, args)
}

/// `while`: all devices leave the loop together.
pub(crate) fn while_loop(joint: &Joint, mut args: Vec<Lanes>) -> Result<Lanes> {
    let named =
        |key: Key| joint.view.instr.comp(key).ok_or_else(|| Diagnostic::error("no computation is named"));
    let (condition, body) = (named(Key::Condition)?, named(Key::Body)?);
    let mut state = args.swap_remove(0);
    let limit = joint.machine.options.max_trips;
    for _ in 0..limit {
        if !is_true(joint.machine.run(condition, joint.n_lanes, vec![state.clone()])?)? {
            return Ok(state);
        }
        state = joint.machine.run(body, joint.n_lanes, vec![state])?;
    }
    Err(Diagnostic::error(format!("this loop has not ended after {limit} trips")))
}

fn is_true(lanes: Lanes) -> Result<bool> {
    Ok(agreed(lanes)? != 0)
}

/// The number that all devices' scalars are.
fn agreed(lanes: Lanes) -> Result<i64> {
    let numbers = lanes.into_iter().map(|value| {
        let array = value.array()?;
        match (array.rank(), array.dtype()) {
            (0, DType::Pred) => Ok(i64::from(first(&array))),
            (0, _) => Ok(array.buf::<i64>()?[[]]),
            _ => Err(Diagnostic::error("a branch must be chosen by a scalar")),
        }
    });
    let numbers = numbers.collect::<Result<Vec<i64>>>()?;
    match numbers.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other == first) => Ok(*first),
        _ => Err(Diagnostic::error("the devices take different branches here")
            .help("the evaluator runs all devices in lock-step: make the condition equal on all")),
    }
}

/// `conditional`: by a truth value, or by an index that means the last branch when out of range.
pub(crate) fn conditional(joint: &Joint, mut args: Vec<Lanes>) -> Result<Lanes> {
    let instr = joint.view.instr;
    let by_pred = matches!(&args[0][0], Value::Array(array) if array.dtype() == DType::Pred);
    let branches: Vec<CompId> = match instr.attr(Key::BranchComputations) {
        Some(Attr::Comps(comps)) => comps.clone(),
        _ => [Key::TrueComputation, Key::FalseComputation]
            .into_iter()
            .filter_map(|key| instr.comp(key))
            .collect(),
    };
    let selector = agreed(args.swap_remove(0).into_iter().collect())?;
    let last =
        branches.len().checked_sub(1).ok_or_else(|| Diagnostic::error("`conditional` needs branches"))?;
    let index = match by_pred {
        true => usize::from(selector == 0),
        false => usize::try_from(selector).map_or(last, |index| index.min(last)),
    };
    // `swap_remove` has put the last operand where the selector was.
    let operand = if index == last { args.swap_remove(0) } else { args.swap_remove(index + 1) };
    joint.machine.run(branches[index], joint.n_lanes, vec![operand])
}

/// `map`: a computation of scalars for every element.
pub(crate) fn map(call: &Call, args: Vec<Value>) -> Result<Value> {
    let comp =
        call.view.instr.comp(Key::ToApply).ok_or_else(|| Diagnostic::error("no computation is named"))?;
    let dims = args[0].as_array().map_or(Vec::new(), |array| array.dims().to_vec());
    let arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let made = super::combine::on_arrays(call, comp, arrays, &dims)?;
    made.into_iter().next().map(Value::from).ok_or_else(|| Diagnostic::error("`map` made nothing"))
}

/// `custom-call`: markers of layouts pass their operand on; nothing else is known.
pub(crate) fn custom_call(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let target = call.view.instr.word(Key::CustomCallTarget).unwrap_or("");
    let is_marker = matches!(
        target,
        "Sharding"
            | "xla.sdy.FuncResultSharding"
            | "MoveToHost"
            | "MoveToDevice"
            | "annotate_device_placement"
            | "LayoutConstraint"
            | "InspectSharding"
            | "PinToDevice"
            | "xla.megascale.provide_metadata"
    );
    let same = args.len() == 1 && args[0].has_shape(&call.view.instr.shape);
    if is_marker && same {
        return Ok(args.swap_remove(0));
    }
    Err(Diagnostic::error(format!("a custom call of `{target}` is not evaluated"))
        .help("only markers of layouts are, which pass their operand on"))
}

#[cfg(test)]
mod tests {
    use super::super::{Array, Options, Value, run};
    use crate::dtype::DType;
    use crate::eval::check::{check, check_devices};

    const LOOP: &str = "
less4 { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4) ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  f = f32[] convert(i) g = f32[1] reshape(f) y = f32[4] dynamic-update-slice(x, g, i)
  ROOT t = (s32[], f32[4]) tuple(j, y) }
ENTRY e { p = (s32[], f32[4]) parameter(0)
  ROOT w = (s32[], f32[4]) while(p), condition=less4, body=step }";

    #[test]
    fn a_loop_runs_until_its_condition_is_false() {
        let module = crate::parse(LOOP).expect("legal");
        let start =
            Value::Tuple(vec![Array::zeros(DType::S32, &[]).into(), Array::zeros(DType::F32, &[4]).into()]);
        let found = run(&module, &[start], &Options::default()).expect("it ends");
        assert_eq!(found.leaves()[0].to_f64_vec(), [4.0]);
        assert_eq!(found.leaves()[1].to_f64_vec(), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_map_of_nothing_has_the_type_of_its_results() {
        let text = "
yes { a = f32[] parameter(0) ROOT c = pred[] compare(a, a), direction=EQ }
f { a = f32[] parameter(0) p = pred[] compare(a, a), direction=EQ
  ROOT c = pred[] conditional(p, a, a), true_computation=yes, false_computation=yes }
ENTRY e { x = f32[0,2] parameter(0) ROOT m = pred[0,2] map(x), dimensions={0,1}, to_apply=f }";
        let module = crate::parse(text).expect("legal");
        let nothing = Array::zeros(DType::F32, &[0, 2]).into();
        let found = run(&module, &[nothing], &Options::default()).expect("it is evaluated");
        assert!(found.has_shape(&module.entry().root().shape), "{found:?}");
    }

    #[test]
    fn a_branch_is_taken() {
        let body = "i: s32[]; t: (f32[], f32[]); ROOT r = f32[] conditional(i, t, t), branch_computations={fst, snd}";
        check(body, &["0", "(5, 6)"], "5");
        check(body, &["1", "(5, 6)"], "6");
        check(body, &["-1", "(5, 6)"], "6");
        let by_pred = "p: pred[]; t: (f32[], f32[]); ROOT r = f32[] conditional(p, t, t), true_computation=fst, false_computation=snd";
        check(by_pred, &["true", "(5, 6)"], "5");
        check(by_pred, &["false", "(5, 6)"], "6");
    }

    #[test]
    fn devices_must_take_the_same_branch() {
        let body = "i: s32[]; t: (f32[], f32[]); ROOT r = f32[] conditional(i, t, t), branch_computations={fst, snd}";
        check_devices(
            body,
            &[&["0", "(5, 6)"], &["1", "(5, 6)"]],
            &["error: the devices take different branches here"],
        );
    }

    #[test]
    fn calls_maps_and_markers() {
        check("x: f32[]; ROOT r = f32[] call(x, x), to_apply=add", &["3"], "6");
        check("x: f32[2]; ROOT r = f32[2] map(x, x), dimensions={0}, to_apply=add", &["{1, 2}"], "{2, 4}");
        check(
            "x: f32[2]; ROOT r = f32[2] custom-call(x), custom_call_target=\"Sharding\"",
            &["{1, 2}"],
            "{1, 2}",
        );
        check(
            "x: f32[2]; ROOT r = f32[2] custom-call(x), custom_call_target=\"magic\"",
            &["{1, 2}"],
            "error: a custom call of `magic` is not evaluated",
        );
    }
}
