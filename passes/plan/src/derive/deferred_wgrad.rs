//! The part of backward that can be put off: no gradient that another stage waits for is made of it.
//!
//! Gradients of weights are of it, and what only they need. A zero-bubble schedule runs it when a stage is
//! idle. It is found by reachability: what another stage's forward or backward part reads, and what that is
//! made of, is waited for.

use super::origin::origin_by;
use super::{Facts, InstrFacts, Nature, Phase, is_naming};
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Computation, Instr, InstrId, Module, Opcode};

/// When an instruction runs, as far as others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// In a forward part: what it reads is waited for.
    Forward,
    /// In this stage's backward part, once per microbatch.
    Backward(usize),
    /// After all microbatches, or wherever it is read.
    After,
}

/// Whether each instruction of `comp` is of a backward part and can be put off.
pub fn put_off(comp: &Computation, turn: impl Fn(InstrId) -> Turn) -> Vec<bool> {
    let mut is_awaited = vec![false; comp.instrs.len()];
    let mut found = vec![false; comp.instrs.len()];
    let mut passed: Vec<InstrId> = Vec::new();
    for (id, instr) in comp.iter().rev() {
        let (own, mut waits) = (turn(id), is_awaited[id.index()]);
        if !is_naming(instr) {
            // The order of effects stays.
            waits |= has_side_effect(instr);
            found[id.index()] = matches!(own, Turn::Backward(_)) && !waits;
        }
        // What passes a barrier waits for all that passes it; other names are those of what they name.
        let is_passed = instr.op == Opcode::OptBarrier && waits;
        if is_naming(instr) && !is_passed || !is_naming(instr) && own == Turn::After {
            continue;
        }
        for &operand in &instr.operands {
            for leaf in 0..comp.instr(operand).shape.n_leaves() {
                passed.clear();
                let barrier = |id: &InstrId| comp.instr(*id).op == Opcode::OptBarrier;
                let (maker, _) = origin_by(comp, operand, leaf, |id| passed.extend(Some(id).filter(barrier)));
                let is_others = !is_naming(instr) && turn(maker) != own;
                is_awaited[maker.index()] |= waits || is_others;
                let is_gradient = matches!(turn(maker), Turn::Backward(_));
                for barrier in &passed {
                    is_awaited[barrier.index()] |= waits || is_others && is_gradient;
                }
            }
        }
    }
    found
}

/// The same of the entry of a plan.
pub fn put_off_of_plan(module: &Module, facts: &Facts) -> Vec<bool> {
    let own = &facts.comps[module.entry.index()];
    put_off_of(module, facts, |id| own[id.index()].stage)
}

/// Per instruction of the entry: whether the plan's schedule defers it, as zero-bubble does with gradients of
/// weights; other schedules defer nothing.
pub fn deferred_by_schedule(module: &Module, facts: &Facts) -> Vec<bool> {
    match facts.header.schedule.defers_weight_gradients() {
        true => put_off_of_plan(module, facts),
        false => vec![false; module.entry().instrs.len()],
    }
}

/// The same where each instruction of the entry is on the stage that `stage` says.
pub fn put_off_of(module: &Module, facts: &Facts, stage: impl Fn(InstrId) -> usize) -> Vec<bool> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let is_sum = |instr: &Instr, own: &InstrFacts| {
        let natures = instr.operands.iter().flat_map(|operand| &all[operand.index()].natures);
        facts.header.n_microbatches > 1 && natures.chain(&own.natures).max() == Some(&Nature::Sum)
    };
    let turn = |(id, instr): (InstrId, &Instr)| match all[id.index()].phase {
        Phase::Update => Turn::After,
        Phase::Backward if is_sum(instr, &all[id.index()]) => Turn::After,
        Phase::Backward => Turn::Backward(stage(id)),
        Phase::Forward => Turn::Forward,
    };
    let turns: Vec<Turn> = comp.iter().map(turn).collect();
    put_off(comp, |id| turns[id.index()])
}

#[cfg(test)]
mod tests {
    use crate::derive::{derive, put_off_of_plan};

    /// The names of what a program of two stages puts off; lines are instruction, stage and phase.
    fn put_off(lines: &[(&str, usize, &str)]) -> Vec<String> {
        put_off_by("", lines)
    }

    /// The same with figures of the plan.
    fn put_off_by(plan: &str, lines: &[(&str, usize, &str)]) -> Vec<String> {
        let line = |(text, stage, phase): &(&str, usize, &str)| {
            format!("{text}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}\n")
        };
        let lines: String = lines.iter().map(line).collect();
        let header = format!("frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{{{plan}}}\"}}");
        let module = phzc_ir::parse(&format!("HloModule m, {header}\nENTRY e {{\n{lines}}}")).expect("legal");
        let found = put_off_of_plan(&module, &derive(&module).expect("a plan"));
        let all = module.entry().iter().filter(|(id, _)| found[id.index()]);
        all.map(|(_, instr)| instr.name.to_string()).collect()
    }

    #[test]
    fn what_an_earlier_stage_s_gradient_is_made_of_is_waited_for_and_nothing_else() {
        let found = put_off(&[
            ("x = f32[4] parameter(0)", 0, "fwd"),
            ("h = f32[4] negate(x)", 0, "fwd"),
            ("k = f32[4] negate(h)", 1, "fwd"),
            ("g = f32[4] multiply(k, k)", 1, "bwd"),
            ("w = f32[4] multiply(g, h)", 1, "bwd"),
            ("v = f32[4] negate(w)", 1, "bwd"),
            ("both = (f32[4], f32[4]) tuple(g, w)", 1, "bwd"),
            ("again = f32[4] get-tuple-element(both), index=0", 1, "bwd"),
            ("d = f32[4] add(again, h)", 1, "bwd"),
            ("u = f32[4] multiply(d, x)", 0, "bwd"),
            ("n = f32[4] add(u, v)", 0, "upd"),
            ("ROOT r = (f32[4], f32[4]) tuple(n, d)", 0, "upd"),
        ]);
        assert_eq!(found, ["w", "v", "u"]);
    }

    #[test]
    fn what_passes_a_barrier_with_something_is_waited_for_as_that_is() {
        let found = put_off(&[
            ("x = f32[4] parameter(0)", 0, "fwd"),
            ("k = f32[4] negate(x)", 1, "fwd"),
            ("w = f32[4] multiply(k, k)", 1, "bwd"),
            ("v = f32[4] negate(w)", 1, "bwd"),
            ("held = (f32[4], f32[4]) tuple(k, w)", 1, "bwd"),
            ("barrier = (f32[4], f32[4]) opt-barrier(held)", 1, "bwd"),
            ("first = f32[4] get-tuple-element(barrier), index=0", 1, "bwd"),
            ("again = f32[4] negate(first)", 1, "bwd"),
            ("d = f32[4] negate(again)", 0, "bwd"),
            ("ROOT r = (f32[4], f32[4]) tuple(v, d)", 0, "upd"),
        ]);
        assert_eq!(found, ["v", "d"]);
    }

    #[test]
    fn what_is_made_of_sums_over_microbatches_comes_after_all_and_is_not_put_off() {
        let lines = [
            ("x = f32[4] parameter(0)", 0, "fwd"),
            ("g = f32[4] negate(x)", 0, "bwd"),
            ("e = f32[4] add(g, g)", 0, "bwd"),
            ("f = f32[4] negate(e)", 0, "bwd"),
            ("n = f32[4] add(e, f)", 0, "upd"),
            ("ROOT r = f32[4] negate(n)", 0, "upd"),
        ];
        assert_eq!(put_off(&lines), ["g", "e", "f"]);
        // `e` is a sum, for the update reads it.
        assert_eq!(put_off_by("\\\"n_microbatches\\\":2", &lines), ["g", "e"]);
    }

    #[test]
    fn effects_stay_in_their_order() {
        let lines = |op: &'static str| {
            [
                ("x = f32[4] parameter(0)", 0, "fwd"),
                ("g = f32[4] negate(x)", 1, "bwd"),
                (op, 1, "bwd"),
                ("d = f32[4] negate(g)", 0, "bwd"),
                ("ROOT r = (f32[4], f32[4]) tuple(w, d)", 0, "upd"),
            ]
        };
        assert_eq!(put_off(&lines("w = f32[4] negate(g)")), ["w", "d"]);
        let call = "w = f32[4] custom-call(g), custom_call_target=\"log\", custom_call_has_side_effect=true";
        assert_eq!(put_off(&lines(call)), ["d"]);
    }
}
