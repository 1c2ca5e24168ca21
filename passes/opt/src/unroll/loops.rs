//! Which loops are over layers.

use indexmap::IndexMap;
use phzc_ir::effects::{calls_any, effects, has_side_effect};
use phzc_ir::trip::counter;
use phzc_ir::{Computation, FusionKind, Instr, InstrId, Key, Module, Opcode, Shape};

/// No loop with more trips is unrolled: the deepest published models have a few hundred layers.
pub(super) const MAX_TRIPS: u64 = 1024;

/// Nor is one whose trips, written one after another, are more instructions than this: those of a GPT with
/// as many layers.
const MAX_INSTRS: u64 = 400_000;

/// The loops of the entry that are over layers, with their numbers of trips.
pub(super) fn over_layers(module: &Module) -> IndexMap<InstrId, u64> {
    let acts = effects(module);
    let loops = module.entry().iter().filter(|(_, instr)| instr.op == Opcode::While);
    let found = loops.filter_map(|(id, instr)| {
        let n_trips = counter(module, module.entry, id)?.n_trips;
        let body = module.comp(instr.comp(Key::Body)?);
        let is_ordered = |it: &Instr| body.control_predecessors(it).next().is_some();
        let is_bound = |it: &Instr| has_side_effect(it) || calls_any(it, &acts) || is_ordered(it);
        let is_pure = !body.instrs.iter().any(is_bound);
        let is_short = (2..=MAX_TRIPS).contains(&n_trips)
            && n_trips * body.instrs.len() as u64 <= MAX_INSTRS
            && matches!(instr.shape, Shape::Tuple(_));
        (is_pure && is_short && is_layer(body, n_trips as i64)).then_some((id, n_trips))
    });
    found.collect()
}

/// Whether a trip hands an array on through a contraction, and reads a part of a stack that it leaves alone.
fn is_layer(body: &Computation, n_trips: i64) -> bool {
    let elements = elements(body);
    hands_on(body, &elements) && reads_stack(body, &elements, n_trips)
}

/// Per instruction the element of the state that it is, and whether a trip leaves it alone.
fn elements(body: &Computation) -> Vec<Option<bool>> {
    let element = |instr: &Instr| {
        let of_state = instr.op == Opcode::GetTupleElement
            && body.instr(*instr.operands.first()?).param_number().is_some();
        of_state.then(|| instr.int(Key::Index)).flatten()
    };
    let all: Vec<Option<i64>> = body.instrs.iter().map(element).collect();
    let returned = &body.root().operands;
    let is_kept =
        |index: i64| returned.get(index as usize).is_some_and(|next| all[next.index()] == Some(index));
    all.iter().map(|element| element.map(is_kept)).collect()
}

/// Whether an array that trips change reaches a contraction of the next trip. What a trip only writes a part
/// of, or adds to, does not.
fn hands_on(body: &Computation, elements: &[Option<bool>]) -> bool {
    let mut is_reached = vec![false; body.instrs.len()];
    for (index, instr) in body.instrs.iter().enumerate() {
        let is_array = instr.shape.as_array().is_some_and(|array| array.rank() > 0);
        let reads = match instr.op {
            Opcode::DynamicUpdateSlice => &instr.operands[1..],
            _ => &instr.operands[..],
        };
        let reads_it = reads.iter().any(|id| is_reached[id.index()]);
        let contracts = instr.op.def().fusion == FusionKind::Matrix
            || instr.called().next().is_some() && !matches!(instr.op, Opcode::Reduce | Opcode::Map);
        if reads_it && contracts {
            return true;
        }
        is_reached[index] = reads_it || is_array && elements[index] == Some(false);
    }
    false
}

/// Whether a part of a stack with a part per trip is read.
fn reads_stack(body: &Computation, elements: &[Option<bool>], n_trips: i64) -> bool {
    body.instrs.iter().any(|instr| {
        let stack = instr.operands.first().filter(|_| instr.op == Opcode::DynamicSlice);
        stack.is_some_and(|id| {
            let dims = body.instr(*id).shape.as_array().map(|array| &array.dims);
            elements[id.index()] == Some(true)
                && dims.is_some_and(|dims| dims.first() == Some(&n_trips))
                && instr.ints(Key::DynamicSliceSizes).first() == Some(&1)
        })
    })
}
