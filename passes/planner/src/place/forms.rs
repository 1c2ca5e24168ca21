//! The forms of a program that are placed: as it is written, and with its loops over layers unrolled.
//!
//! A loop cannot be cut into stages, and nothing inside is made again. So a program with loops over layers is
//! planned a second time, as `unroll` writes it; that plan is taken if it is worth the longer text.

use super::candidate::Placement;
use super::device_groups::Groups;
use super::microbatches;
use super::representative_check::shows_cuts;
use super::schedule::Wanted;
use super::search_control::SearchControl;
use super::{Problem, Recompute, Worth, slow_devices};
use crate::plan_state::PlanState;
use crate::shard::control::{asked_again, forbidden};
use crate::shard::planning_input::PlanningInput;
use crate::{fuse, shard};
use phzc_analysis::block_notes;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result, notes};
use phzc_opt::unroll::unrolled;
use phzc_pass::alternative::Alternative;
use phzc_pass::pass::{Context, Options};
use phzc_plan::plan_note;
use serde_json::Value;

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

    /// The same, with what bounds the plans of another form.
    fn bounded(self, bound_secs: f64) -> Found {
        let lower_bound_secs = self.lower_bound_secs.min(bound_secs);
        let mut found = self;
        if let Ok(best) = &mut found.best {
            best.note(lower_bound_secs);
        }
        Found { lower_bound_secs, ..found }
    }
}

/// The best placement of all forms, of those that are of use. Only an unrolled one is cut into stages, where
/// there is one.
///
/// # Errors
/// Why there is none.
pub(super) fn best(
    written: Form,
    options: &Options,
    cx: &mut Context,
    (control, worth): (&SearchControl, Worth),
) -> Result<Found> {
    let n_stages = options.int("stages") as usize;
    let other = if written.state.is_given() { None } else { unrolled_form(&written, cx)? };
    let Some((sharded, state)) = other else {
        return search(written, n_stages, options, cx, control, worth);
    };
    let kept_secs = plan_note::read(written.sharded).get("lower_bound_secs").and_then(Value::as_f64);
    let kept_secs = kept_secs.filter(|_| n_stages <= 1).unwrap_or(f64::INFINITY);
    control.bounded_beside(kept_secs);
    let form = Form { sharded: &sharded, state };
    let unrolled = search(form, n_stages, options, cx, control, worth)?;
    if n_stages > 1 || control.ended().is_some() {
        return Ok(unrolled.bounded(kept_secs));
    }
    control.bounded_beside(unrolled.lower_bound_secs);
    let to_beat = worth.secs.min(unrolled.time_secs() / WORTH);
    match search(written, 1, options, cx, control, Worth { secs: to_beat, ..worth }) {
        Ok(kept) if kept.time_secs() < to_beat => Ok(kept.bounded(unrolled.lower_bound_secs)),
        Ok(kept) => Ok(unrolled.bounded(kept.lower_bound_secs)),
        // Options that no single stage has: groups of devices, interleaved stages.
        Err(_) => Ok(unrolled),
    }
}

/// The unrolled form with `shard`'s layouts, and its state; none where the program has no loop over layers.
pub(super) fn unrolled_form(written: &Form, cx: &mut Context) -> Result<Option<(Module, PlanState)>> {
    let mut program = written.state.program.clone();
    for key in [notes::MESH, notes::PLAN, notes::CLUSTER] {
        program.remove_note(key);
    }
    for (index, comp) in program.comps.iter_mut().enumerate() {
        comp.instrs.iter_mut().for_each(block_notes::remove);
        // Layers that are a loop's are attentions of their own once they are unrolled.
        let is_loop = index != program.entry.index();
        comp.instrs.iter_mut().filter(|_| is_loop).for_each(|instr| instr.remove_note(notes::ATTENTION));
    }
    let Some(mut program) = unrolled(&program)? else { return Ok(None) };
    (cx.progress)("place: layouts of unrolled loops");
    let mut own = Context { wants_artifacts: false, progress: cx.progress, ..Context::new(cx.cluster) };
    (fuse::PASS.run)(&mut program, &fuse::asked_again(written.sharded), &mut own)?;
    if let Err(error) = (shard::PASS.run)(&mut program, &asked_again(written.sharded), &mut own) {
        let message = format!("loops over layers are planned as they are, not unrolled: {}", error.message);
        cx.warnings.push(Diagnostic::warning(message));
        return Ok(None);
    }
    slow_devices::hand_on(written.sharded, &mut program);
    let state = PlanState::of(&program, &mut own)?;
    Ok(Some((program, state)))
}

/// The best placement of one form of the program on so many stages, or any number of them (0), and other
/// plans if asked for.
///
/// # Errors
/// When the options fit no plan.
fn search(
    mut form: Form,
    n_stages: usize,
    options: &Options,
    cx: &mut Context,
    control: &SearchControl,
    worth: Worth,
) -> Result<Found> {
    let subject = subject(&mut form, cx.cluster)?;
    let problem = problem(&form, &subject, options, (cx.cluster, control), worth)?;
    (cx.progress)("place: trying stage counts");
    let n_best = options.int("top") as usize;
    let mut found = problem.best(n_stages)?;
    if n_best > 1 && found.best.is_ok() {
        (cx.progress)("place: ranking plans");
        let (best, alternatives) = problem.ranked(found.best?, n_stages, n_best);
        found = Found { best: Ok(best), alternatives, ..found };
    }
    Ok(found)
}

/// What layouts are chosen for: the program, or one with fewer of its equal layers.
///
/// # Errors
/// When layouts that were given cannot be read again.
pub(super) fn subject(form: &mut Form, cluster: &Cluster) -> Result<PlanningInput> {
    let (sharded, state) = (form.sharded, &mut form.state);
    let (forbid, input) = (forbidden(sharded), state.input.take());
    if state.is_given() {
        let again = shard::reread_given(sharded, state, cluster.n_devices())?;
        let is_of_it = |input: &PlanningInput| input.n_inner_layers() == again.n_inner_layers();
        let free = input.filter(is_of_it).and_then(|input| input.free);
        return Ok(again.with_free(free));
    }
    let short = input.filter(|input| input.short.is_some());
    let is_right = |subject: &PlanningInput| shows_cuts(subject, &state.program, cluster);
    let short = short.filter(is_right);
    let short = short.or_else(|| PlanningInput::each_short(&state.program, None, forbid).find(is_right));
    Ok(short.unwrap_or_else(|| state.whole(forbid)))
}

/// The problem that the options pose.
///
/// # Errors
/// When they do not fit the program or the cluster.
pub(super) fn problem<'a>(
    form: &'a Form,
    subject: &'a PlanningInput,
    options: &Options,
    (cluster, control): (&'a Cluster, &'a SearchControl<'a>),
    worth: Worth,
) -> Result<Problem<'a>> {
    let Form { sharded, state } = form;
    Ok(Problem {
        sharded,
        plain: &state.program,
        cluster,
        counts: microbatches::counts(subject.module(&state.program), &subject.graph, options)?,
        subject,
        is_given: state.is_given(),
        recompute: Recompute::parse(options.text("recompute")),
        schedule: Wanted::parse(options.text("schedule")),
        groups: Groups::read(options.text("groups"), cluster)?,
        control,
        worth,
    })
}
