//! Which instructions do something besides computing their value; the rest may go when nobody reads them.

use crate::attr::{Key, Value};
use crate::module::{CompId, Instr, Module};
use crate::opcode::Opcode;

/// Whether the instruction itself, called computations aside, has an effect (XLA's rule, `HasSideEffectNoRecurse`).
pub fn has_side_effect(instr: &Instr) -> bool {
    use Opcode::{
        AllGather, AllReduce, AllToAll, AsyncDone, AsyncStart, AsyncUpdate, CollectiveBroadcast,
        CollectivePermute, CustomCall, Infeed, Outfeed, RaggedAllToAll, Recv, RecvDone, ReduceScatter, Rng,
        RngGetAndUpdateState, Send, SendDone,
    };
    match instr.op {
        Infeed | Outfeed | Send | SendDone | Recv | RecvDone | Rng | RngGetAndUpdateState => true,
        AsyncStart | AsyncUpdate | AsyncDone => true,
        op if is_start_or_done(op) => true,
        // Devices meet in a collective with a channel: one that drops it leaves the others waiting.
        AllGather | AllReduce | AllToAll | CollectiveBroadcast | CollectivePermute | RaggedAllToAll
        | ReduceScatter => instr.attr(Key::ChannelId).is_some(),
        CustomCall => instr.attr(Key::CustomCallHasSideEffect) == Some(&Value::Bool(true)),
        _ => false,
    }
}

fn is_start_or_done(op: Opcode) -> bool {
    use Opcode::{
        AllGatherDone, AllGatherStart, AllReduceDone, AllReduceStart, CollectivePermuteDone,
        CollectivePermuteStart, CopyDone, CopyStart,
    };
    matches!(op, AllGatherDone | AllGatherStart | AllReduceDone | AllReduceStart)
        || matches!(op, CollectivePermuteDone | CollectivePermuteStart | CopyDone | CopyStart)
}

/// Per computation, whether running it has an effect, its callees included.
pub fn effects(module: &Module) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(module.comps.len());
    for comp in &module.comps {
        // Callees come first, so their answers are there.
        let acts = |instr: &Instr| has_side_effect(instr) || calls_any(instr, &found);
        let answer = comp.instrs.iter().any(acts);
        found.push(answer);
    }
    found
}

/// Whether the instruction calls a computation that `found` marks.
pub fn calls_any(instr: &Instr, found: &[bool]) -> bool {
    instr.called().any(|comp: CompId| found[comp.index()])
}
