//! Removes what nobody needs: instructions whose value goes nowhere, computations that nobody calls.
//!
//! ```text
//! before                               after
//! ENTRY e {                            ENTRY e {
//!   x = f32[2] parameter(0)              x = f32[2] parameter(0)
//!   y = f32[2] negate(x)                 ROOT z = f32[2] abs(x)
//!   ROOT z = f32[2] abs(x)             }
//! }
//! ```
//!
//! Parameters stay (they are the computation's signature), and so does whatever has an effect
//! ([`phzc_ir::effects`]) or must run before something that stays (`control-predecessors`).

use indexmap::IndexMap;
use phzc_ir::effects::{calls_any, effects, has_side_effect};
use phzc_ir::{Computation, Instr, InstrId, Module, Result};
use phzc_pass::pass::{Changed, Context, Options, Pass};

/// The pass.
pub static PASS: Pass = Pass {
    name: "dce",
    summary: "removes instructions and computations that nothing needs",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, _: &mut Context) -> Result<Changed> {
    Ok(remove_dead(module))
}

/// Removes every instruction and computation that nothing needs.
pub fn remove_dead(module: &mut Module) -> Changed {
    let n_before = (module.n_instrs(), module.comps.len());
    let acts = effects(module);
    let mut is_called = vec![false; module.comps.len()];
    is_called[module.entry.index()] = true;
    // Callers come after callees: going backwards, all live calls of a computation are known when it is met.
    for index in (0..module.comps.len()).rev() {
        if is_called[index] {
            sweep(&mut module.comps[index], &acts);
            let called = module.comps[index].instrs.iter().flat_map(Instr::called);
            called.for_each(|comp| is_called[comp.index()] = true);
        }
    }
    module.retain_comps(&is_called);
    let changed = (module.n_instrs(), module.comps.len()) != n_before;
    if changed { Changed::Yes } else { Changed::No }
}

fn sweep(comp: &mut Computation, acts: &[bool]) {
    let live = live(comp, acts);
    if live.iter().any(|&live| !live) {
        comp.retain(&live);
    }
}

/// Marks the root, parameters and effects, and whatever they need.
fn live(comp: &Computation, acts: &[bool]) -> Vec<bool> {
    let is_needed =
        |instr: &Instr| instr.param_number().is_some() || has_side_effect(instr) || calls_any(instr, acts);
    let needed = comp.iter().filter(|(_, instr)| is_needed(instr)).map(|(id, _)| id);
    let mut work: Vec<InstrId> = needed.chain([comp.root]).collect();
    let mut live = vec![false; comp.instrs.len()];
    let ids: IndexMap<&str, InstrId> = named_ids(comp);
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut live[id.index()], true) {
            let instr = comp.instr(id);
            work.extend(&instr.operands);
            work.extend(comp.control_predecessors(instr).filter_map(|name| ids.get(name)));
        }
    }
    live
}

/// Ids by name, for control predecessors; empty when there are none, which is nearly always.
fn named_ids(comp: &Computation) -> IndexMap<&str, InstrId> {
    let any = comp.instrs.iter().any(|instr| comp.control_predecessors(instr).next().is_some());
    let pairs = comp.iter().filter(|_| any).map(|(id, instr)| (&*instr.name, id));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::check;
    use insta::assert_snapshot;

    #[test]
    fn removes_chains_that_end_nowhere_but_no_parameter() {
        let text = "ENTRY e {
            x = f32[2] parameter(0)
            unused = f32[2] parameter(1)
            a = f32[2] negate(x)
            b = f32[2] abs(a)
            ROOT r = f32[2] sine(x)
        }";
        assert_snapshot!(check("dce", text), @r"
        HloModule module_e

        ENTRY e {
          x = f32[2] parameter(0)
          unused = f32[2] parameter(1)
          ROOT r = f32[2] sine(x)
        }
        ");
    }

    #[test]
    fn keeps_effects_and_what_must_run_before_something_kept() {
        let text = "ENTRY e {
            x = f32[2] parameter(0)
            before = f32[2] negate(x)
            quiet = f32[2] custom-call(x), custom_call_target=\"f\"
            loud = f32[2] custom-call(x), custom_call_target=\"f\", custom_call_has_side_effect=true
            ROOT r = f32[2] sine(x), control-predecessors={before}
        }";
        assert_snapshot!(check("dce", text), @r#"
        HloModule module_e

        ENTRY e {
          x = f32[2] parameter(0)
          before = f32[2] negate(x)
          loud = f32[2] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true
          ROOT r = f32[2] sine(x), control-predecessors={before}
        }
        "#);
    }

    #[test]
    fn removes_computations_that_only_dead_calls_name() {
        let text = "inner { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
        outer { p = f32[2] parameter(0) ROOT c = f32[2] call(p), to_apply=inner }
        loud { p = f32[2] parameter(0) t = token[] after-all() ROOT o = token[] outfeed(p, t), outfeed_shape=f32[2] }
        ENTRY e {
            x = f32[2] parameter(0)
            dead = f32[2] call(x), to_apply=outer
            alive = token[] call(x), to_apply=loud
            ROOT r = f32[2] sine(x)
        }";
        assert_snapshot!(check("dce", text), @r"
        HloModule module_e

        loud {
          p = f32[2] parameter(0)
          t = token[] after-all()
          ROOT o = token[] outfeed(p, t), outfeed_shape=f32[2]
        }

        ENTRY e {
          x = f32[2] parameter(0)
          alive = token[] call(x), to_apply=loud
          ROOT r = f32[2] sine(x)
        }
        ");
    }
}
