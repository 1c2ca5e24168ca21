//! The derivative of a loop: a loop that runs backwards over what the forward one has stacked.

use super::activity::{Activity, Leaves, reached};
use super::residuals::{Residuals, Source};
use super::scope::{Body, Cx, Scope, home};
use phzc_ir::build::Builder;
use phzc_ir::verify::MAX_ELEMENTS;
use phzc_ir::{CompId, DType, InstrId, Key, Opcode, Result, Shape};

/// A loop as the text has it.
struct Loop {
    condition: CompId,
    body: CompId,
    root: InstrId,
    /// The body's parameter.
    state: InstrId,
    /// Shapes of the state's elements.
    parts: Vec<Shape>,
    /// The elements before the first trip, in the computation around the loop.
    starts: Vec<InstrId>,
    n_trips: i64,
}

/// An argument of the backward body that is a cotangent.
#[derive(Clone, Copy)]
enum Carried {
    /// Of an element that changes from trip to trip.
    Changing(usize),
    /// Of an element that stays: what the trips give adds up.
    Staying(usize),
}

impl Carried {
    fn element(self) -> usize {
        match self {
            Carried::Changing(element) | Carried::Staying(element) => element,
        }
    }
}

/// Differentiates the body, lets the forward loop stack what that reads, and runs it backwards.
pub(super) fn while_loop(cx: &mut Cx) -> Result<()> {
    let it = read(cx)?;
    check_trips(cx, &it)?;
    cx.b.reopen(it.body);
    let frame = cx.b.leave();
    let state = cx.scope.active.leaves(cx.id).to_vec();
    let active = Activity::of(cx.b.comps(), frame.instrs(), it.root, |_| state.as_slice().into());
    let kept: Vec<bool> =
        (0..it.parts.len()).map(|leaf| home(frame.instrs(), it.root, leaf) == (it.state, leaf)).collect();
    let carried = carried(cx, &it, frame.instrs(), &active, &kept);
    cx.b.begin(&format!("{}.grad", cx.b.comps()[it.body.index()].name.clone()));
    let trip = cx.b.argument("trip", Shape::array(DType::S32, &[]));
    let args: Vec<InstrId> =
        carried.iter().map(|of| cx.b.argument("ct", it.parts[of.element()].clone())).collect();
    let last = cx.b.scalar(DType::S32, (it.n_trips - 1) as f64);
    let forward_trip = cx.b.sub(last, trip);
    let counter = cx.scope.loops.counter(cx.scope.key(cx.id));
    let residuals = Residuals::new(frame.instrs(), it.n_trips, forward_trip, counter, kept);
    let n = frame.instrs().len();
    let body = Body { frame, residuals };
    let loops = cx.scope.loops.clone();
    let mut inside = Scope::new(it.body, n, Some(body), active, loops);
    for (of, &arg) in carried.iter().zip(&args) {
        let at = match of {
            Carried::Changing(_) => it.root,
            Carried::Staying(_) => it.state,
        };
        inside.give(cx.b, (at, of.element()), arg);
    }
    inside.sweep(cx.b)?;
    let body = finish(cx.b, &it, &mut inside, trip, &carried);
    let first_stack = stack(cx, &it, inside.body.take().expect("it is a loop's body"), &body);
    run_back(cx, &it, &carried, body, first_stack);
    Ok(())
}

/// Errors on a loop that never runs, or too often for its values to be stacked.
fn check_trips(cx: &Cx, it: &Loop) -> Result<()> {
    let instrs = &cx.b.comps()[it.body.index()].instrs;
    let arrays = instrs.iter().flat_map(|instr| instr.shape.leaves()).filter_map(|leaf| leaf.as_array());
    let largest = arrays.map(|array| array.n_elements()).fold(1.0, f64::max);
    if it.n_trips < 1 {
        return Err(cx.refuse("it never runs"));
    }
    if it.n_trips > i64::from(i32::MAX) || largest * it.n_trips as f64 > MAX_ELEMENTS as f64 {
        return Err(cx.refuse("what its trips make cannot be stacked"));
    }
    Ok(())
}

fn read(cx: &mut Cx) -> Result<Loop> {
    let (Some(condition), Some(body)) = (cx.instr.comp(Key::Condition), cx.instr.comp(Key::Body)) else {
        return Err(cx.refuse("it has no body"));
    };
    let parts = cx.instr.shape.parts().to_vec();
    if parts.is_empty() || parts.iter().any(|part| part.as_array().is_none()) {
        return Err(cx.refuse("its state is no tuple of arrays"));
    }
    let Some(n_trips) = cx.scope.loops.n_trips(cx.scope.key(cx.id)) else {
        return Err(cx.refuse("how often it runs is not known"));
    };
    let start = cx.instr.operands[0];
    let is_tuple = cx.scope.instr(cx.b, start).op == Opcode::Tuple;
    let starts = if is_tuple {
        cx.scope.instr(cx.b, start).operands.to_vec()
    } else {
        cx.scope.extend_forward(cx.b, |b| b.elements(start))
    };
    let comp = &cx.b.comps()[body.index()];
    Ok(Loop { condition, body, root: comp.root, state: comp.params()[0], parts, starts, n_trips })
}

/// The elements whose cotangents are carried from trip to trip.
fn carried(cx: &Cx, it: &Loop, instrs: &[phzc_ir::Instr], active: &Activity, kept: &[bool]) -> Vec<Carried> {
    let is_active = active.leaves(it.state);
    let given = |leaf: usize| cx.cts.get(leaf).copied().flatten().is_some();
    let mut wanted: Leaves =
        (0..kept.len()).map(|leaf| given(leaf) && is_active[leaf] && !kept[leaf]).collect();
    let mut found = reached(instrs, it.root, active, &wanted);
    loop {
        let next: Leaves = (0..kept.len())
            .map(|leaf| wanted[leaf] || (found[leaf] && !kept[leaf] && is_active[leaf]))
            .collect();
        if next == wanted {
            break;
        }
        wanted = next;
        found = reached(instrs, it.root, active, &wanted);
    }
    let changing = (0..kept.len()).filter(|&leaf| wanted[leaf]).map(Carried::Changing);
    let staying = (0..kept.len()).filter(|&leaf| kept[leaf] && found[leaf] && is_active[leaf]);
    changing.chain(staying.map(Carried::Staying)).collect()
}

/// The backward body and what it is given besides cotangents.
struct Backward {
    body: CompId,
    state: Shape,
    args: Vec<Source>,
    stacked: Vec<InstrId>,
}

fn finish(b: &mut Builder, it: &Loop, inside: &mut Scope, trip: InstrId, carried: &[Carried]) -> Backward {
    let one = b.scalar(DType::S32, 1.0);
    let mut next = vec![b.add(trip, one)];
    for of in carried {
        let ct = inside.take(b, (it.state, of.element()));
        next.push(ct.unwrap_or_else(|| zeros(b, &it.parts[of.element()])));
    }
    let residuals = &inside.body.as_ref().expect("it is a loop's body").residuals;
    next.extend(residuals.args.iter().map(|(_, arg)| *arg));
    let args = residuals.args.iter().map(|(source, _)| *source).collect();
    let stacked = residuals.stacked.clone();
    let root = b.tuple(&next);
    let state = b.shape(root).clone();
    Backward { body: b.end_packed(root), state, args, stacked }
}

fn zeros(b: &mut Builder, shape: &Shape) -> InstrId {
    let shape = shape.as_array().expect("a cotangent is an array");
    b.full(shape.dtype, &shape.dims, 0.0)
}

/// Lets the forward loop stack what the backward one reads; the element of its state that is the first stack.
fn stack(cx: &mut Cx, it: &Loop, body: Body, backward: &Backward) -> usize {
    let Body { frame, residuals, .. } = body;
    let n_old = it.parts.len();
    cx.b.enter(frame);
    if backward.stacked.is_empty() {
        cx.b.close(it.body, it.root);
        return n_old;
    }
    let counts = residuals.counter.filter(|&(_, start, step)| (start, step) == (0, 1)).map(|it| it.0);
    let own = usize::from(counts.is_none());
    let shape_of = |b: &Builder, id: InstrId| {
        let array = b.shape(id).as_array().expect("arrays are stacked").clone();
        Shape::array(array.dtype, &[&[it.n_trips], &array.dims[..]].concat())
    };
    let stacks: Vec<Shape> = backward.stacked.iter().map(|&id| shape_of(cx.b, id)).collect();
    let counter = Shape::array(DType::S32, &[]);
    let added: Vec<Shape> = std::iter::repeat_n(counter, own).chain(stacks).collect();
    let state = Shape::Tuple(it.parts.iter().chain(&added).cloned().collect());
    set_shape(cx.b.instr_mut(it.state), &state);
    let trip = cx.b.element(it.state, counts.unwrap_or(n_old));
    let mut next: Vec<InstrId> = match cx.b.instr(it.root).op {
        Opcode::Tuple => cx.b.instr(it.root).operands.to_vec(),
        _ => (0..n_old).map(|index| cx.b.element(it.root, index)).collect(),
    };
    if own == 1 {
        let one = cx.b.scalar(DType::S32, 1.0);
        next.push(cx.b.add(trip, one));
    }
    for (index, &id) in backward.stacked.iter().enumerate() {
        let so_far = cx.b.element(it.state, n_old + own + index);
        next.push(cx.b.restack(so_far, id, trip));
    }
    let root = cx.b.tuple(&next);
    cx.b.close(it.body, root);
    widen(cx, it, &state, &added);
    n_old + own
}

/// Gives the forward loop a state with more elements, zeros at first.
fn widen(cx: &mut Cx, it: &Loop, state: &Shape, added: &[Shape]) {
    let condition = &mut cx.b.module().comps[it.condition.index()];
    let param = condition.params()[0];
    set_shape(&mut condition.instrs[param.index()], state);
    let (id, starts) = (cx.id, it.starts.clone());
    cx.scope.extend_forward(cx.b, |b| {
        let new = added.iter().map(|shape| zeros(b, shape)).collect::<Vec<_>>();
        let start = b.tuple(&[starts, new].concat());
        b.instr_mut(id).operands[0] = start;
        set_shape(b.instr_mut(id), state);
    });
}

fn set_shape(instr: &mut phzc_ir::Instr, shape: &Shape) {
    instr.shape = shape.clone();
    instr.attrs.retain(|attr| attr.key != Key::Sharding);
}

/// The backward loop, and its results as cotangents of what the forward one began with.
fn run_back(cx: &mut Cx, it: &Loop, carried: &[Carried], backward: Backward, first_stack: usize) {
    let mut state = vec![cx.b.scalar(DType::S32, 0.0)];
    for of in carried {
        let given = cx.cts.get(of.element()).copied().flatten();
        let start = match of {
            Carried::Changing(_) => given,
            Carried::Staying(element) => {
                let at = (it.starts[*element], 0);
                given.into_iter().for_each(|ct| cx.scope.give(cx.b, at, ct));
                cx.scope.take_dense(cx.b, at)
            }
        };
        state.push(start.unwrap_or_else(|| zeros(cx.b, &it.parts[of.element()])));
    }
    pass_by(cx, it, carried);
    for source in &backward.args {
        let id = match *source {
            Source::Kept(element) => it.starts[element],
            Source::Stack(number) => {
                let id = cx.id;
                cx.scope.extend_forward(cx.b, |b| b.element(id, first_stack + number))
            }
        };
        state.push(cx.scope.primal(cx.b, id));
    }
    let condition = cx.b.below(&backward.state, it.n_trips);
    let start = cx.b.tuple(&state);
    let left = cx.b.while_loop(start, condition, backward.body);
    for (index, of) in carried.iter().enumerate() {
        let at = (it.starts[of.element()], 0);
        if cx.scope.wants(cx.b, at.0) {
            let ct = cx.b.element(left, index + 1);
            cx.scope.give(cx.b, at, ct);
        }
    }
}

/// Cotangents of elements that stay and that no trip reads go past the loop.
fn pass_by(cx: &mut Cx, it: &Loop, carried: &[Carried]) {
    for leaf in 0..it.parts.len() {
        let ct = cx.cts.get(leaf).copied().flatten();
        let is_carried = carried.iter().any(|of| of.element() == leaf);
        if let Some(ct) = ct.filter(|_| !is_carried && cx.scope.wants(cx.b, it.starts[leaf])) {
            cx.scope.give(cx.b, (it.starts[leaf], 0), ct);
        }
    }
}
