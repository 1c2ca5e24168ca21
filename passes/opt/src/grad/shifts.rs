//! Values that cancel: the maximum that a softmax or a log-sum-exp subtracts has no influence, so no gradient
//! goes there.

use phzc_ir::dtype::Class;
use phzc_ir::ops::{literal, reducer};
use phzc_ir::{Computation, Instr, InstrId, Key, Opcode, Reducer, View};
use std::collections::BTreeMap;

/// How a value depends on a shift `m` that is subtracted from all elements along some dimensions.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// `v + k·m`.
    Sum { k: i32, dims: Vec<usize> },
    /// `v·e^(k·m)`.
    Scaled { k: i32, dims: Vec<usize> },
    /// Not at all.
    Free,
}

/// The maxima that cancel in all that is computed from them; `root` is what is asked for.
pub(super) fn cancelling(comps: &[Computation], instrs: &[Instr], root: InstrId) -> Vec<InstrId> {
    let is_candidate = |instr: &Instr| instr.op == Opcode::Broadcast && is_extreme(instrs, instr.operands[0]);
    let shifts: Vec<InstrId> =
        instrs.iter().filter(|instr| is_candidate(instr)).map(|instr| instr.operands[0]).collect();
    if shifts.is_empty() {
        return Vec::new();
    }
    let mut readers: Vec<Vec<InstrId>> = vec![Vec::new(); instrs.len()];
    for (index, instr) in instrs.iter().enumerate() {
        instr.operands.iter().for_each(|id| readers[id.index()].push(InstrId::new(index)));
    }
    shifts.into_iter().filter(|&shift| cancels(comps, instrs, &readers, root, shift)).collect()
}

/// Whether a value is a maximum, perhaps in other sizes and held within constants.
fn is_extreme(instrs: &[Instr], id: InstrId) -> bool {
    let mut todo = vec![id];
    for _ in 0..16 {
        let Some(id) = todo.pop() else { return false };
        let instr = &instrs[id.index()];
        match instr.op {
            Opcode::Reduce => {
                return instr.shape.as_array().is_some_and(|it| it.dtype.class() == Class::Float);
            }
            Opcode::Reshape
            | Opcode::Broadcast
            | Opcode::Convert
            | Opcode::Copy
            | Opcode::Select
            | Opcode::Maximum => {
                todo.extend(&instr.operands);
            }
            _ => {}
        }
    }
    false
}

fn cancels(
    comps: &[Computation],
    instrs: &[Instr],
    readers: &[Vec<InstrId>],
    root: InstrId,
    shift: InstrId,
) -> bool {
    let sizes = instrs[shift.index()].shape.as_array().map_or(Default::default(), |array| array.dims.clone());
    let dims = (0..sizes.len()).filter(|&dim| sizes[dim] != 1).collect();
    let mut forms = BTreeMap::from([(shift, Form::Sum { k: 1, dims })]);
    let mut todo: Vec<InstrId> = readers[shift.index()].clone();
    // Readers come after what they read: the first one has all its operands known.
    for _ in 0..64 {
        todo.sort_unstable_by(|a, b| b.cmp(a));
        todo.dedup();
        let Some(next) = todo.pop() else { return !forms.contains_key(&root) };
        match form(&instrs[next.index()], comps, instrs, &forms) {
            None => return false,
            Some(Form::Free) => {}
            Some(_) if readers[next.index()].is_empty() => return false,
            Some(known) => {
                forms.insert(next, known);
                todo.extend(&readers[next.index()]);
            }
        }
    }
    false
}

/// How an op's result depends on the shift, given how its operands do; `None` if in another way.
fn form(
    instr: &Instr,
    comps: &[Computation],
    instrs: &[Instr],
    forms: &BTreeMap<InstrId, Form>,
) -> Option<Form> {
    let of = |index: usize| instr.operands.get(index).and_then(|id| forms.get(id));
    match (instr.op, of(0), of(1)) {
        (Opcode::Broadcast, Some(form), _) => {
            moved(form, |dim| instr.ints(Key::Dimensions).get(dim).map(|&at| at as usize))
        }
        (Opcode::Reshape, Some(form), _) => {
            let [from, to] = [&instrs[instr.operands[0].index()], instr].map(|it| it.shape.as_array());
            reshaped(form, &from?.dims, &to?.dims)
        }
        (Opcode::Convert | Opcode::Copy, Some(form), _) => {
            instr.shape.as_array().is_some_and(|it| it.dtype.class() == Class::Float).then(|| form.clone())
        }
        (Opcode::Subtract, a, b) => sum(a, b, -1),
        (Opcode::Add, a, b) => sum(a, b, 1),
        (Opcode::Exponential, Some(Form::Sum { k, dims }), _) => {
            Some(Form::Scaled { k: *k, dims: dims.clone() })
        }
        (Opcode::Log, Some(Form::Scaled { k, dims }), _) => Some(Form::Sum { k: *k, dims: dims.clone() }),
        (Opcode::Reduce, Some(form @ Form::Scaled { .. }), None) => {
            let view = View { comps, instrs, instr };
            let is_sum = instr.operands.len() == 2 && reducer(&view, Key::ToApply, 0) == Some(Reducer::Add);
            let is_plain = literal::splat(view.operand(1)).is_some_and(|text| text.parse() == Ok(0.0));
            if is_sum && is_plain { reduced(form, instr) } else { None }
        }
        (Opcode::Multiply, a, b) => product(a, b, 1),
        (Opcode::Divide, a, b) => product(a, b, -1),
        _ => None,
    }
}

fn moved(form: &Form, to: impl Fn(usize) -> Option<usize>) -> Option<Form> {
    let all = |dims: &[usize]| dims.iter().map(|&dim| to(dim)).collect::<Option<Vec<_>>>();
    Some(match form {
        Form::Sum { k, dims } => Form::Sum { k: *k, dims: all(dims)? },
        Form::Scaled { k, dims } => Form::Scaled { k: *k, dims: all(dims)? },
        Form::Free => Form::Free,
    })
}

/// A reshape that adds or removes dimensions of size 1.
fn reshaped(form: &Form, from: &[i64], to: &[i64]) -> Option<Form> {
    let large = |dims: &[i64]| -> Vec<usize> { (0..dims.len()).filter(|&dim| dims[dim] != 1).collect() };
    let (old, new) = (large(from), large(to));
    if !old.iter().map(|&dim| from[dim]).eq(new.iter().map(|&dim| to[dim])) {
        return None;
    }
    let mut form = form.clone();
    if let Form::Sum { dims, .. } | Form::Scaled { dims, .. } = &mut form {
        dims.retain(|&dim| from[dim] != 1);
    }
    moved(&form, |dim| old.iter().position(|&it| it == dim).map(|at| new[at]))
}

fn sum(a: Option<&Form>, b: Option<&Form>, sign: i32) -> Option<Form> {
    match (a, b) {
        (Some(Form::Sum { k: i, dims }), Some(Form::Sum { k: j, dims: other })) if dims == other => {
            let k = i + sign * j;
            Some(if k == 0 { Form::Free } else { Form::Sum { k, dims: dims.clone() } })
        }
        (Some(form @ Form::Sum { .. }), None) => Some(form.clone()),
        (None, Some(Form::Sum { k, dims })) => Some(Form::Sum { k: sign * k, dims: dims.clone() }),
        _ => None,
    }
}

fn product(a: Option<&Form>, b: Option<&Form>, sign: i32) -> Option<Form> {
    match (a, b) {
        (Some(Form::Scaled { k: i, dims }), Some(Form::Scaled { k: j, dims: other })) if dims == other => {
            let k = i + sign * j;
            Some(if k == 0 { Form::Free } else { Form::Scaled { k, dims: dims.clone() } })
        }
        (Some(form @ Form::Scaled { .. }), None) => Some(form.clone()),
        (None, Some(Form::Scaled { k, dims })) => Some(Form::Scaled { k: sign * k, dims: dims.clone() }),
        _ => None,
    }
}

/// A sum over dimensions along which the shift is the same.
fn reduced(form: &Form, instr: &Instr) -> Option<Form> {
    let gone = instr.ints(Key::Dimensions);
    moved(form, |dim| {
        let is_gone = gone.contains(&(dim as i64));
        (!is_gone).then(|| dim - gone.iter().filter(|&&other| (other as usize) < dim).count())
    })
}
