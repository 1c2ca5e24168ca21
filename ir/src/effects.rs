//! Which instructions do something besides computing their value; the rest may go when nobody reads them.

use crate::attr::{Key, Value};
use crate::module::{CompId, Instr, Module};
use crate::opcode::Opcode;

/// Whether the instruction itself, called computations aside, has an effect (XLA's rule,
/// `HasSideEffectNoRecurse`).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::with_root;

    fn acts(root: &str) -> bool {
        with_root(&format!("x: f32[2]; t: token[]; {root}"), |view| has_side_effect(view.instr))
    }

    #[test]
    fn what_devices_or_hosts_wait_for_has_an_effect() {
        assert!(acts("ROOT y = ((f32[2]), token[]) infeed(t)"));
        assert!(acts("ROOT y = (f32[2], u32[], token[]) send(x, t), channel_id=1"));
        assert!(acts("ROOT y = (f32[2], f32[2], u32[]) copy-start(x)"));
        assert!(acts("ROOT y = f32[2] all-reduce-start(x), to_apply=add"));
        assert!(!acts("ROOT y = f32[2] negate(x)"));
    }

    #[test]
    fn a_collective_has_one_with_a_channel_and_a_custom_call_where_it_says_so() {
        assert!(acts("ROOT y = f32[2] all-reduce(x), channel_id=1, to_apply=add"));
        assert!(!acts("ROOT y = f32[2] all-reduce(x), to_apply=add"));
        let call = "ROOT y = f32[2] custom-call(x), custom_call_target=\"f\"";
        assert!(acts(&format!("{call}, custom_call_has_side_effect=true")));
        assert!(!acts(&format!("{call}, custom_call_has_side_effect=false")) && !acts(call));
    }

    #[test]
    fn a_computation_has_the_effects_of_those_that_it_calls() {
        let text = "
            f { t = token[] parameter(0) ROOT y = ((f32[]), token[]) infeed(t) }
            g { t = token[] parameter(0) ROOT y = ((f32[]), token[]) call(t), to_apply=f }
            ENTRY e { ROOT t = token[] parameter(0) }
        ";
        let module = crate::parse(text).expect("legal");
        assert_eq!(effects(&module), [true, true, false]);
        let call = &module.comps[1].instrs[1];
        assert_eq!((calls_any(call, &[true]), calls_any(call, &[false])), (true, false));
    }

    #[test]
    fn every_op_that_talks_to_others_has_an_effect() {
        use Opcode::{
            AllGatherDone, AllGatherStart, AllReduceDone, AllReduceStart, AsyncDone, AsyncStart, AsyncUpdate,
            CollectivePermuteDone, CollectivePermuteStart, CopyDone, CopyStart, Infeed, Outfeed, Recv,
            RecvDone, Rng, RngGetAndUpdateState, Send, SendDone,
        };
        let of = |op| has_side_effect(&Instr { op, ..Instr::nothing(crate::Span::default()) });
        let pairs = [
            AllGatherDone,
            AllGatherStart,
            AllReduceDone,
            AllReduceStart,
            CollectivePermuteDone,
            CollectivePermuteStart,
            CopyDone,
            CopyStart,
        ];
        assert_eq!(pairs.map(of), [true; 8]);
        assert_eq!(
            [
                AsyncStart,
                AsyncUpdate,
                AsyncDone,
                Infeed,
                Outfeed,
                Recv,
                RecvDone,
                Rng,
                RngGetAndUpdateState,
                Send,
                SendDone
            ]
            .map(of),
            [true; 11]
        );
        assert!(!of(Opcode::AllGather) && !of(Opcode::Copy) && !of(Opcode::RngBitGenerator));
    }
}
