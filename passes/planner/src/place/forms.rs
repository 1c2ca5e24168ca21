//! The forms of a program that are placed: as it is written, and with its loops over layers unrolled.
//!
//! A loop cannot be cut into stages, and nothing inside is made again. So a program with loops over layers is
//! planned a second time, as `unroll` writes it; that plan is taken if it is worth the longer text.

use super::candidate::Placement;
use super::{Made, search};
use crate::plan_state::PlanState;
use crate::shard::control::asked_again;
use crate::{fuse, shard};
use phzc_ir::{Module, Result, notes};
use phzc_opt::unroll::unrolled;
use phzc_pass::alternative::Alternative;
use phzc_pass::pass::{Context, Options};

/// A plan of unrolled loops takes at most so much of the seconds of one that keeps them: the rest is worth a
/// text as many times longer as there are layers.
const WORTH: f64 = 0.995;

/// A program to place, with `shard`'s layouts and without.
pub(super) struct Form<'m> {
    pub sharded: &'m Module,
    pub state: PlanState,
}

/// What the search found: a plan if there is one, a bound in any case, and other plans if asked for.
pub(super) struct Found {
    pub best: Result<Placement>,
    pub lower_bound_secs: f64,
    pub alternatives: Vec<Alternative>,
}

impl Found {
    fn time_secs(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.time_secs)
    }
}

/// The best placement of all forms.
///
/// # Errors
/// Why there is none.
pub(super) fn best(written: Form, options: &Options, cx: &mut Context, made: &Made) -> Result<Found> {
    let other = if written.state.is_given() { None } else { unrolled_form(&written, cx)? };
    let found = search(written, options, cx, made, f64::INFINITY)?;
    let Some((sharded, state)) = other else { return Ok(found) };
    let to_beat = WORTH * found.time_secs();
    let unrolled = search(Form { sharded: &sharded, state }, options, cx, made, to_beat)?;
    let lower_bound_secs = found.lower_bound_secs.min(unrolled.lower_bound_secs);
    let is_worth = unrolled.time_secs() < to_beat;
    let mut found = if is_worth { unrolled } else { found };
    if let Ok(best) = &mut found.best {
        best.note(lower_bound_secs);
    }
    Ok(Found { lower_bound_secs, ..found })
}

/// The unrolled form with `shard`'s layouts, and its state; none where the program has no loop over layers.
fn unrolled_form(written: &Form, cx: &Context) -> Result<Option<(Module, PlanState)>> {
    let mut program = written.state.program.clone();
    for key in [notes::MESH, notes::PLAN, notes::CLUSTER] {
        program.remove_note(key);
    }
    for instr in program.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        [notes::BLOCK, notes::PHASE].iter().for_each(|key| instr.remove_note(key));
    }
    let Some(mut program) = unrolled(&program)? else { return Ok(None) };
    (cx.progress)("place: layouts of unrolled loops");
    let mut own = Context { wants_artifacts: false, progress: cx.progress, ..Context::new(cx.cluster) };
    (fuse::PASS.run)(&mut program, &Options::default(), &mut own)?;
    (shard::PASS.run)(&mut program, &asked_again(written.sharded), &mut own)?;
    let state = PlanState::of(&program, &mut own)?;
    Ok(Some((program, state)))
}
