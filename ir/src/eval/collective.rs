//! Collectives: what devices make of each other's values.

use super::combine::Combiner;
use super::movement::joined;
use super::reduce::pair;
use super::value::{Array, Value};
use super::{Joint, Lanes};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::opcode::Opcode;
use crate::ops::describe;
use crate::shape::Shape;

/// `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all` along a dimension, `collective-broadcast`,
/// their `-start` forms: array by array.
pub(crate) fn collective(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    check_lanes(joint)?;
    let instr = joint.view.instr;
    if instr.op == Opcode::AllToAll && instr.attr(Key::Dimensions).is_none() {
        return exchange(joint, args);
    }
    let made = args.into_iter().map(|lanes| one(joint, lanes)).collect::<Result<Vec<Vec<Array>>>>()?;
    let mut results: Vec<Vec<Value>> = vec![Vec::with_capacity(made.len()); joint.n_lanes];
    for lanes in made {
        results.iter_mut().zip(lanes).for_each(|(result, array)| result.push(array.into()));
    }
    let is_tuple = matches!(leaf_shape(joint), Shape::Tuple(_));
    let whole = |mut parts: Vec<Value>| if is_tuple { Value::Tuple(parts) } else { parts.swap_remove(0) };
    let lanes: Lanes = results.into_iter().map(whole).collect();
    check_results(joint, &lanes)?;
    Ok(lanes)
}

/// The shape of the collective's result, also where an asynchronous one carries more along.
fn leaf_shape<'a>(joint: &Joint<'a>) -> &'a Shape {
    match (joint.view.instr.op, &joint.view.instr.shape) {
        (Opcode::AllGatherStart | Opcode::CollectivePermuteStart, Shape::Tuple(parts)) if parts.len() > 1 => {
            &parts[1]
        }
        (_, shape) => shape,
    }
}

fn check_lanes(joint: &Joint) -> Result<()> {
    match joint.n_lanes == joint.machine.devices.n_devices() {
        true => Ok(()),
        false => Err(Diagnostic::error("a computation of scalars cannot communicate")),
    }
}

fn one(joint: &Joint, lanes: Lanes) -> Result<Vec<Array>> {
    let instr = joint.view.instr;
    let arrays = lanes.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let along = instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize);
    let groups = joint.machine.devices.groups(instr)?;
    let mut results: Vec<Option<Array>> = vec![None; arrays.len()];
    for group in groups {
        let parts: Vec<Array> = group.iter().map(|&lane| arrays[lane].clone()).collect();
        let made = match instr.op {
            Opcode::AllReduce | Opcode::AllReduceStart => vec![total(joint, parts)?; group.len()],
            Opcode::AllGather | Opcode::AllGatherStart => vec![joined(&parts, along)?; group.len()],
            Opcode::ReduceScatter => split(&total(joint, parts)?, along, group.len())?,
            Opcode::CollectiveBroadcast => vec![parts[0].clone(); group.len()],
            _ => transposed(&parts, along)?,
        };
        group.iter().zip(made).for_each(|(&lane, array)| results[lane] = Some(array));
    }
    // Devices in no group of a broadcast get zeros; other collectives name every device.
    let rest = results.into_iter().zip(&arrays);
    Ok(rest.map(|(made, own)| made.unwrap_or_else(|| Array::zeros(own.dtype(), own.dims()))).collect())
}

/// Errors unless the results have the shape that the text says: how many devices are in a group decides it.
fn check_results(joint: &Joint, lanes: &Lanes) -> Result<()> {
    let shape = leaf_shape(joint);
    match lanes.iter().all(|value| value.has_shape(shape)) {
        true => Ok(()),
        false => Err(Diagnostic::error(format!("these groups do not make {}", describe(shape)))),
    }
}

/// The group's arrays combined, in the group's order.
fn total(joint: &Joint, parts: Vec<Array>) -> Result<Array> {
    let call = joint.call();
    let combiner = Combiner::of(&call, Key::ToApply, 1)?;
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or_else(|| Diagnostic::error("a group without devices"))?;
    parts.try_fold(first, |sum, part| pair(&call, &combiner, sum, part))
}

/// Equal parts along a dimension.
fn split(array: &Array, along: usize, n: usize) -> Result<Vec<Array>> {
    let size = array.dims()[along];
    if !size.is_multiple_of(n) {
        return Err(Diagnostic::error(format!("{n} devices cannot share a dimension of size {size}")));
    }
    let part = |index: usize| {
        let (mut start, mut limit) = (vec![0; array.rank()], array.dims().to_vec());
        (start[along], limit[along]) = (index * size / n, (index + 1) * size / n);
        array.slice(&start, &limit)
    };
    (0..n).map(part).collect()
}

/// `all-to-all` along a dimension: device `i` gets everybody's part `i`.
fn transposed(parts: &[Array], along: usize) -> Result<Vec<Array>> {
    let pieces = parts.iter().map(|part| split(part, along, parts.len())).collect::<Result<Vec<_>>>()?;
    let of = |index: usize| {
        let own: Vec<Array> = pieces.iter().map(|piece| piece[index].clone()).collect();
        joined(&own, along)
    };
    (0..parts.len()).map(of).collect()
}

/// `all-to-all` of a tuple: device `i` of a group gets everybody's operand `i`.
fn exchange(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    let groups = joint.machine.devices.groups(joint.view.instr)?;
    let mut results = vec![Value::Token; joint.n_lanes];
    for group in groups {
        if group.len() != args.len() {
            let (operands, devices) = (args.len(), group.len());
            return Err(Diagnostic::error(format!("{operands} operands for a group of {devices} devices")));
        }
        for (index, &lane) in group.iter().enumerate() {
            results[lane] = Value::Tuple(group.iter().map(|&from| args[index][from].clone()).collect());
        }
    }
    Ok(results)
}

/// `collective-permute`: each target its source's value, others zeros.
pub(crate) fn permute(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    check_lanes(joint)?;
    let pairs = joint.machine.devices.pairs(joint.view.instr)?;
    if args.len() > 1 && joint.view.instr.attr(Key::SliceSizes).is_some() {
        return Err(Diagnostic::error("a `collective-permute` into a part of an array is not evaluated"));
    }
    let moved = |lanes: &Lanes| -> Result<Lanes> {
        let mut results: Lanes = lanes.iter().map(zeros).collect::<Result<_>>()?;
        pairs.iter().for_each(|pair| results[pair[1]] = lanes[pair[0]].clone());
        Ok(results)
    };
    let made = args.iter().map(moved).collect::<Result<Vec<Lanes>>>()?;
    if made.len() == 1 && !matches!(leaf_shape(joint), Shape::Tuple(_)) {
        return Ok(made.into_iter().next().expect("one"));
    }
    Ok((0..joint.n_lanes)
        .map(|lane| Value::Tuple(made.iter().map(|own| own[lane].clone()).collect()))
        .collect())
}

fn zeros(value: &Value) -> Result<Value> {
    let array = value.as_array().ok_or_else(|| Diagnostic::error("an array is needed"))?;
    Ok(Array::zeros(array.dtype(), array.dims()).into())
}

/// `-start` forms: the result where its `-done` takes it from, beside the operands and contexts.
pub(crate) fn start(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    let instr = joint.view.instr;
    let carried: Vec<Lanes> = args.clone();
    let made = match instr.op {
        Opcode::AllReduceStart => return collective(joint, args),
        Opcode::AllGatherStart => collective(joint, args)?,
        Opcode::CollectivePermuteStart => permute(joint, args)?,
        Opcode::CopyStart => args.into_iter().next().unwrap_or_default(),
        _ => wrapped(joint, args)?,
    };
    let parts = instr.shape.parts();
    let is_async = matches!(instr.op, Opcode::AsyncStart | Opcode::AsyncUpdate);
    let lanes = made.into_iter().enumerate().map(|(lane, result)| {
        let mut own: Vec<Value> = carried.iter().map(|lanes| lanes[lane].clone()).collect();
        let operand = if is_async || own.len() != 1 { Value::Tuple(own) } else { own.swap_remove(0) };
        // `copy-start` alone names its result first.
        let pair = if instr.op == Opcode::CopyStart { [result, operand] } else { [operand, result] };
        let context = parts.iter().skip(2).map(|_| Array::zeros(DType::U32, &[]).into());
        Value::Tuple(pair.into_iter().chain(context).collect())
    });
    Ok(lanes.collect())
}

/// The computation that an `async-start` wraps.
fn wrapped(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    let comp = joint.view.instr.comp(Key::Calls);
    let comp = comp.ok_or_else(|| Diagnostic::error("what runs asynchronously must be a computation"))?;
    joint.machine.run(comp, joint.n_lanes, args)
}

/// `-done` forms.
pub(crate) fn done(joint: &Joint, mut args: Vec<Lanes>) -> Result<Lanes> {
    let part = match joint.view.instr.op {
        Opcode::AllReduceDone => return Ok(args.swap_remove(0)),
        Opcode::CopyDone => 0,
        _ => 1,
    };
    let of = |value: Value| match value {
        Value::Tuple(mut parts) if parts.len() > part => Ok(parts.swap_remove(part)),
        _ => Err(Diagnostic::error("this needs the value of its `-start`")),
    };
    args.swap_remove(0).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use crate::eval::check::check_devices;

    const FLAT: &str = "channel_id=1, use_global_device_ids=true";

    #[test]
    fn groups_reduce_gather_and_scatter() {
        let reduce = format!(
            "x: f32[2]; ROOT y = f32[2] all-reduce(x), replica_groups={{{{0,1}}}}, {FLAT}, to_apply=add"
        );
        check_devices(&reduce, &[&["{1, 2}"], &["{3, 4}"]], &["{4, 6}", "{4, 6}"]);
        let gather = format!(
            "x: f32[1]; ROOT y = f32[2] all-gather(x), replica_groups=[1,2]<=[2], {FLAT}, dimensions={{0}}"
        );
        check_devices(&gather, &[&["{1}"], &["{3}"]], &["{1, 3}", "{1, 3}"]);
        let scatter = format!(
            "x: f32[2]; ROOT y = f32[1] reduce-scatter(x), replica_groups={{{{0,1}}}}, {FLAT}, dimensions={{0}}, to_apply=add"
        );
        check_devices(&scatter, &[&["{1, 2}"], &["{3, 4}"]], &["{4}", "{6}"]);
    }

    #[test]
    fn order_in_a_group_is_order_in_the_result() {
        let gather = format!(
            "x: f32[1]; ROOT y = f32[2] all-gather(x), replica_groups={{{{1,0}}}}, {FLAT}, dimensions={{0}}"
        );
        check_devices(&gather, &[&["{1}"], &["{3}"]], &["{3, 1}", "{3, 1}"]);
    }

    #[test]
    fn everybody_exchanges_with_everybody() {
        let along = "x: f32[2,1]; ROOT y = f32[2,1] all-to-all(x), replica_groups={{0,1}}, channel_id=1, dimensions={0}";
        check_devices(along, &[&["{{1}, {2}}"], &["{{3}, {4}}"]], &["{{1}, {3}}", "{{2}, {4}}"]);
        let tuple = "x: f32[]; y: f32[]; ROOT z = (f32[], f32[]) all-to-all(x, y), replica_groups={{0,1}}, channel_id=1";
        check_devices(tuple, &[&["1", "2"], &["3", "4"]], &["(1, 3)", "(2, 4)"]);
    }

    #[test]
    fn who_gets_nothing_gets_zeros() {
        let permute =
            "x: f32[]; ROOT y = f32[] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2}}";
        check_devices(permute, &[&["1"], &["2"], &["3"]], &["0", "1", "2"]);
        let cast = "x: f32[]; ROOT y = f32[] collective-broadcast(x), channel_id=1, replica_groups={{1,0}}";
        check_devices(cast, &[&["1"], &["2"], &["3"]], &["2", "2", "0"]);
    }

    #[test]
    fn devices_know_their_number() {
        check_devices("ROOT p = u32[] partition-id()", &[&[], &[]], &["0", "1"]);
        check_devices("ROOT p = u32[] replica-id()", &[&[], &[]], &["0", "0"]);
    }

    #[test]
    fn a_start_and_its_done_are_the_collective() {
        let reduce = format!(
            "x: f32[]; s = f32[] all-reduce-start(x), replica_groups={{{{0,1}}}}, {FLAT}, to_apply=add; ROOT y = f32[] all-reduce-done(s)"
        );
        check_devices(&reduce, &[&["1"], &["3"]], &["4", "4"]);
        let permute = "x: f32[]; s = (f32[], f32[], u32[], u32[]) collective-permute-start(x), channel_id=1, source_target_pairs={{0,1},{1,0}}; ROOT y = f32[] collective-permute-done(s)";
        check_devices(permute, &[&["1"], &["3"]], &["3", "1"]);
    }

    #[test]
    fn says_what_does_not_fit() {
        let reduce = format!(
            "x: f32[]; ROOT y = f32[] all-reduce(x), replica_groups={{{{0,5}}}}, {FLAT}, to_apply=add"
        );
        check_devices(&reduce, &[&["1"], &["3"]], &["error: there is no device 5 among 2"]);
    }

    #[test]
    fn groups_name_every_device_once_and_make_the_result() {
        let three: [&[&str]; 3] = [&["{1}"], &["{2}"], &["{3}"]];
        let reduce = |groups: &str| {
            format!("x: f32[1]; ROOT y = f32[1] all-reduce(x), replica_groups={groups}, {FLAT}, to_apply=add")
        };
        check_devices(&reduce("{{0,1}}"), &three, &["error: device 2 is in no group"]);
        check_devices(&reduce("{{0,1},{1,2}}"), &three, &["error: device 1 is in two groups"]);
        let gather = format!(
            "x: f32[1]; ROOT y = f32[4] all-gather(x), replica_groups={{{{0,1,2}}}}, {FLAT}, dimensions={{0}}"
        );
        check_devices(&gather, &three, &["error: these groups do not make f32[4]"]);
        let permute = "x: f32[1]; ROOT y = f32[1] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{2,1}}";
        check_devices(permute, &three, &["error: device 1 gets two values"]);
    }

    #[test]
    fn what_is_started_is_done_later() {
        use crate::eval::check::check;
        let x = &["{1, 2}"];
        check(
            "x: f32[2]; s = (f32[2], f32[2], u32[]) copy-start(x); ROOT y = f32[2] copy-done(s)",
            x,
            "{1, 2}",
        );
        check(
            "x: f32[2]; s = f32[2] all-reduce-start(x), replica_groups={}, to_apply=add; ROOT y = f32[2] all-reduce-done(s)",
            x,
            "{1, 2}",
        );
        check(
            "x: f32[2]; s = (f32[2], f32[2]) all-gather-start(x), dimensions={0}, replica_groups={}; ROOT y = f32[2] all-gather-done(s)",
            x,
            "{1, 2}",
        );
        let permute = "x: f32[2]; s = (f32[2], f32[2], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,0}}; ROOT y = f32[2] collective-permute-done(s)";
        check(permute, x, "{1, 2}");
        let started = permute.replace(
            "ROOT y = f32[2] collective-permute-done(s)",
            "ROOT y = (f32[2], f32[2], u32[], u32[]) copy(s)",
        );
        assert!(
            crate::eval::check::result(&started, x).starts_with("({1, 2}, {1, 2}, 0, 0)"),
            "{}",
            crate::eval::check::result(&started, x)
        );
        let wrapped = "f { a = f32[2] parameter(0) ROOT b = f32[2] negate(a) }\n---\nx: f32[2]; s = ((f32[2]), f32[2], s32[]) async-start(x), calls=f; ROOT y = f32[2] async-done(s), calls=f";
        check(wrapped, x, "{-1, -2}");
    }
}
