//! What fuse, shard and place hand on to one another: the program that is planned, its graph and blocks, and
//! what layouts are chosen for.
//!
//! The text says all of it too ([`PlanState::of`]): a run that resumes from a dump plans the same.

use crate::shard::forbid::Forbid;
use crate::shard::planning_input::PlanningInput;
use phzc_analysis::block_notes;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, alias_pairs};
use phzc_ir::{InstrId, Module, Result, annotations, notes};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context};
use phzc_plan::derive::{is_added, is_planned};
use phzc_plan::strip::strip;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inlines all calls; of a program without a plan, takes out constraints that restrict nothing.
///
/// # Errors
/// Those of inlining.
pub fn flatten(module: &mut Module) -> Result<Changed> {
    let is_dropped = !is_planned(module) && annotations::drop_idle(module);
    let flattened = inline::flatten(module)?;
    Ok(if is_dropped { Changed::Yes } else { flattened })
}

/// The same, with what the program's tuple of outputs says as constraints of these.
///
/// # Errors
/// Those of inlining.
pub fn flatten_to_plan(module: &mut Module) -> Result<Changed> {
    let flattened = flatten(module)?;
    let is_constrained = !is_planned(module) && annotations::constrain_outputs(module, &reused(module));
    Ok(if is_constrained { Changed::Yes } else { flattened })
}

/// Per output that takes the buffer of a whole parameter: that parameter.
fn reused(module: &Module) -> BTreeMap<usize, InstrId> {
    let params = module.entry().params();
    let pairs = module.attr("input_output_alias").map(alias_pairs).unwrap_or_default();
    let whole = |(output, param, index): (Vec<u32>, u32, Vec<u32>)| match (&output[..], &index[..]) {
        (&[output], []) => Some((output as usize, *params.get(param as usize)?)),
        _ => None,
    };
    pairs.into_iter().filter_map(whole).collect()
}

/// The program that is planned, and what is known of it.
pub struct PlanState {
    /// The program with fuse's notes, calls inlined, without layouts but those that are given.
    pub program: Module,
    /// Its graph.
    pub graph: Arc<Graph>,
    /// Its blocks, with their phases.
    pub blocks: Arc<Blocks>,
    /// What `shard` chose layouts for.
    pub input: Option<PlanningInput>,
}

impl PlanState {
    /// The state of a module: what the pass before has handed on, or what the text says.
    ///
    /// # Errors
    /// Those of inlining.
    pub fn of(module: &Module, cx: &mut Context) -> Result<PlanState> {
        let mut state = match cx.handed_on.take::<PlanState>() {
            Some(state) => state,
            None => PlanState::read(module)?,
        };
        // The pass manager writes down what has run in the header.
        state.program.attrs.clone_from(&module.attrs);
        Ok(state)
    }

    /// What the text of a module says.
    fn read(module: &Module) -> Result<PlanState> {
        let mut program = module.clone();
        if is_planned(&program) {
            strip(&mut program);
            let instrs = program.comps.iter_mut().flat_map(|comp| &mut comp.instrs);
            instrs.for_each(|instr| instr.remove_note(notes::STRATEGY));
        }
        flatten_to_plan(&mut program)?;
        let mut state = PlanState::analysed(program);
        if !block_notes::is_noted(&state.program) {
            block_notes::note(&mut state.program, &state.graph, &state.blocks);
        }
        Ok(state)
    }

    /// A program, without a plan, with its graph and blocks.
    pub fn analysed(program: Module) -> PlanState {
        let graph = Graph::build(&program);
        let blocks = Blocks::build(&program, &graph, &vec![false; graph.tensors.len()]);
        PlanState { program, graph: Arc::new(graph), blocks: Arc::new(blocks), input: None }
    }

    /// Whether a plan is of the program as it is here: where it has added tuples, they are now the program's.
    pub fn is_of(&self, plan: &Module) -> bool {
        let n_own = |module: &Module| {
            let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
            instrs.filter(|instr| !is_added(instr)).count()
        };
        n_own(plan) == n_own(&self.program)
    }

    /// Whether layouts came with the program.
    pub fn is_given(&self) -> bool {
        let mut instrs = self.program.comps.iter().flat_map(|comp| &comp.instrs);
        instrs.any(|instr| instr.note(notes::GIVEN).is_some())
    }

    /// The blocks of the program where some tensors stand alone.
    pub fn blocks_beside(&self, alone: &[bool]) -> Arc<Blocks> {
        match alone.contains(&true) {
            true => Arc::new(Blocks::build(&self.program, &self.graph, alone)),
            false => Arc::clone(&self.blocks),
        }
    }

    /// What layouts of the program are chosen for, none being given.
    pub fn whole(&self, forbid: Forbid) -> PlanningInput {
        let pinned = vec![None; self.graph.tensors.len()];
        PlanningInput::whole(&self.program, Arc::clone(&self.graph), Arc::clone(&self.blocks), pinned, forbid)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn what_is_handed_on_is_gone_when_the_program_changes() {
        let program = "ENTRY e {
            x = f32[64,32] parameter(0)
            dead = f32[64,32] tanh(x)
            ROOT y = f32[64,32] negate(x)
        }";
        assert!(check("fuse,shard{mesh=8}", program).contains("dead"));
        assert!(!check("fuse,dce,shard{mesh=8}", program).contains("dead"));
    }
}
