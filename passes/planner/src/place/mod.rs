//! `place`: cuts the program into pipeline stages on submeshes, and the batch into microbatches.
//!
//! ```text
//! h = … dot(x, w), …, sharding={devices=[8,1]<=[8]}     →     the same, or over a stage's own devices
//!                                                             with frontend_attributes={…,phzc.stage="1"}
//! ```
//!
//! For every stage count that divides the devices, `shard`'s choice is made again on a stage's devices; the
//! chain of instructions, in forward order, is cut exactly; of the texts that result, the fastest that fits
//! in memory, both as `check` and `estimate` see them, is kept. Then the chain is cut over the layouts of all
//! sizes at once (`heterogeneous_stages.rs`). One stage is not cut: it is as `shard` wrote it, if that fits
//! and nothing is faster computed again. Precondition: `shard` has run.

mod already_placed;
mod candidate;
mod chain;
pub mod cut;
mod device_groups;
#[cfg(test)]
mod effort_tests;
mod evaluate_candidate;
mod forms;
mod heterogeneous_stages;
mod interleave;
mod layer_cut;
mod limits;
mod materialize_plan;
mod memory_ladder;
mod memory_lower_bound;
mod microbatches;
mod neighborhood_search;
mod one_stage;
mod position;
mod recompute;
mod representative_check;
mod schedule;
mod search_control;
mod slow_devices;
mod stage_counts;
mod stage_lower_bounds;
mod stage_search;
#[cfg(test)]
mod tests;
pub mod top;
mod units;
mod unlike_devices;

use crate::plan_state::PlanState;
use crate::shard::planning_input::PlanningInput;
use already_placed::placed;
use candidate::{Evaluated, Placement, pick};
use device_groups::Groups;
use forms::{Form, Found};
pub use layer_cut::{cut_at_layers, recompute_attention, recompute_layers};
use neighborhood_search::Neighborhood;
use phzc_cost::{Cluster, Schedule};
use phzc_ir::{Diagnostic, Module, Result, counted, notes};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use phzc_plan::partitioned::partitioned;
use phzc_plan::plan_note;
use rayon::prelude::*;
use schedule::Wanted;
pub use search_control::percent;
use search_control::{End, SearchControl};
pub use slow_devices::straggler;
use stage_lower_bounds::LowerBounds;
use stage_search::{Sketch, Sketched, sketches};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The pass.
pub static PASS: Pass = Pass {
    name: "place",
    summary: "cuts the program into pipeline stages on submeshes and the batch into microbatches",
    options: &[
        OptionInfo {
            name: "stages",
            kind: OptionKind::Int { min: 0, max: 4096 },
            default: "0",
            help: "number of pipeline stages, where interleaved of device groups that hold several each; 0 tries every divisor of the devices, and others with different numbers of devices",
        },
        OptionInfo {
            name: "microbatches",
            kind: OptionKind::Int { min: 0, max: 1 << 20 },
            default: "0",
            help: "microbatches per step; 0 tries every power of two that divides the batch",
        },
        OptionInfo {
            name: "recompute",
            kind: OptionKind::Choice(&["auto", "never", "all"]),
            default: "auto",
            help: "activations that backward computes again: those that are faster made than read, and where memory is short what saves most bytes per second; none; all that layers do not hand on",
        },
        OptionInfo {
            name: "schedule",
            kind: OptionKind::Choice(interleave::NAMES),
            default: "auto",
            help: "in which order stages run microbatches; interleaved: device groups hold several stages each, as many as is fastest or 2, 3, 4; auto takes the fastest that fits in memory",
        },
        OptionInfo {
            name: "replicas",
            kind: OptionKind::Choice(&["auto", "never"]),
            default: "auto",
            help: "of unlike devices: whether all stages may be there several times, each replica with microbatches by its speed",
        },
        slow_devices::OPTION,
        OptionInfo {
            name: "top",
            kind: OptionKind::Int { min: 1, max: 1000 },
            default: "1",
            help: "how many plans to list, the best first: each has other numbers of stages or microbatches, or another schedule",
        },
        search_control::MAX_PLANS,
        search_control::GAP,
        device_groups::OPTION,
    ],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    run_for(module, options, cx, Worth::ALL)
}

/// What is worth looking for.
#[derive(Clone, Copy)]
struct Worth {
    /// Plans that take fewer seconds than these.
    secs: f64,
    /// Bounds up to so many seconds: what else is asked for has no higher ones.
    bound_secs: f64,
}

impl Worth {
    const ALL: Worth = Worth { secs: f64::INFINITY, bound_secs: f64::INFINITY };
}

/// The same where not all is worth looking for.
fn run_for(module: &mut Module, options: &Options, cx: &mut Context, worth: Worth) -> Result<Changed> {
    if let Some(partitioned) = partitioned(module) {
        cx.warn_once(partitioned.left_alone(module, cx.cluster)?);
        return Ok(Changed::No);
    }
    if module.note(notes::MESH).is_none() {
        return Err(
            Diagnostic::error("`place` needs the layouts of `shard`").help("run `--passes fuse,shard,place`")
        );
    }
    let is_noted = slow_devices::note(module, options)?;
    if let Some(placed) = placed(module, options, cx.cluster)? {
        return Ok(if is_noted { Changed::Yes } else { placed });
    }
    if cx.cluster.is_unlike() {
        *module = unlike_devices::place(module, options, cx)?;
        return Ok(Changed::Yes);
    }
    let state = PlanState::of(module, cx)?;
    memory_lower_bound::check(&state.graph, cx.cluster)?;
    let control = SearchControl::new(options, cx);
    let found = forms::best(Form { sharded: module, state }, options, cx, (&control, worth))?;
    let mut best = found.best?;
    cx.alternatives = found.alternatives;
    let (recompute, groups) = (options.text("recompute"), Groups::read(options.text("groups"), cx.cluster)?);
    cx.stage_counts = control.counts().listed(Recompute::parse(recompute), &groups);
    if options.text("recompute") != "auto" {
        plan_note::set(&mut best.text, &[("recompute", options.text("recompute").into())]);
    }
    if control.ended() == Some(End::Interrupted) {
        let n_candidates = counted(control.n_evaluated(), "candidate");
        cx.warnings.push(Diagnostic::warning(format!("interrupted: the best plan of {n_candidates}")));
    }
    let is_same = best.text == *module;
    *module = best.text;
    Ok(if is_same { Changed::No } else { Changed::Yes })
}

/// What placement decides over.
#[derive(Clone)]
struct Problem<'a> {
    /// The program with `shard`'s layouts on all devices.
    sharded: &'a Module,
    /// The program without them, but for what is given.
    plain: &'a Module,
    /// What layouts are chosen for: that program, or one with fewer of its equal layers.
    subject: &'a PlanningInput,
    cluster: &'a Cluster,
    /// Numbers of microbatches to try.
    counts: Vec<usize>,
    /// Whether the user fixed some layouts; then the program stays on all devices.
    is_given: bool,
    recompute: Recompute,
    schedule: Wanted,
    groups: Groups,
    /// How far the search is, and what ends it early.
    control: &'a SearchControl<'a>,
    /// Which plans and bounds are of use.
    worth: Worth,
}

/// Once texts of so many instructions have been written, no more are if one fits: of very many layers a text
/// takes seconds.
const MAX_WRITTEN: usize = 3_000_000;

/// Computing again has been seen to save a fourth of the time. A guess that only says what is looked at: no
/// bound depends on it.
const MAY_SAVE: f64 = 1.35;

/// Which activations the backward part computes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recompute {
    /// What is faster made than read, and where memory is short what saves most bytes per second.
    Auto,
    Never,
    /// All that can be.
    All,
}

impl Recompute {
    fn parse(word: &str) -> Recompute {
        match word {
            "never" => Recompute::Never,
            "all" => Recompute::All,
            _ => Recompute::Auto,
        }
    }
}

impl Problem<'_> {
    /// Whether so much has been written that a text which fits must do.
    fn is_spent(&self) -> bool {
        self.control.n_instrs() > MAX_WRITTEN || self.control.ends()
    }

    /// The numbers of stages to try, `wanted` or any (0): one stage, and several.
    fn stage_counts(&self, wanted: usize) -> Result<(Vec<usize>, Vec<usize>)> {
        let n_devices = self.cluster.n_devices();
        if (wanted > 1 || self.schedule.is_interleaved()) && self.is_given {
            return Err(Diagnostic::error(
                "the program comes with layouts for all devices, so it stays one stage",
            )
            .help("remove its `sharding={…}`, or the option `stages`"));
        }
        self.schedule.allows(n_devices, wanted)?;
        let is_open = |count: usize| n_devices.is_multiple_of(count) && self.groups.has(n_devices / count);
        let counts = (1..=n_devices).filter(|&count| is_open(count));
        let counts = counts.filter(|&count| count > 1 || !self.schedule.is_interleaved());
        let counts =
            counts.filter(|&count| if wanted > 0 { count == wanted } else { count == 1 || !self.is_given });
        let (one, many): (Vec<usize>, Vec<usize>) = counts.partition(|&count| count == 1);
        let is_none = one.is_empty() && many.is_empty();
        match wanted > n_devices || is_none && !self.may_be_unequal(wanted) {
            true => Err(self.groups.no_count(wanted)),
            false => Ok((one, many)),
        }
    }

    /// One stage waits for nobody: it has no schedule.
    fn alone(&self) -> Problem<'_> {
        let schedule = match self.schedule {
            Wanted::This(_) => Wanted::This(Schedule::OneFOneB),
            open => open,
        };
        Problem { schedule, ..self.clone() }
    }

    /// Layouts are worth a look if they take less than so many times the best plan's seconds: computing again
    /// may be faster.
    fn may_save(&self) -> f64 {
        if self.recompute == Recompute::Never { 1.0 } else { MAY_SAVE }
    }

    /// Whether one stage is sketched like others, unless it is as `shard` left it: of many layers only the
    /// best texts are written.
    fn is_late(&self) -> bool {
        self.subject.short.is_some() && self.counts[0] == 1
    }

    /// All devices as one stage.
    fn one_stage(&self) -> Evaluated {
        match self.is_late() {
            true => self.evaluated(|| self.as_sharded()),
            // What is read as it was made is tried first: computing again is to be faster.
            false if self.counts[0] == 1 => match self.evaluated(|| self.as_sharded()) {
                first if self.control.ends() => first,
                first @ Evaluated::Placed(_) => first.or_faster(self.evaluated(|| self.unstaged())),
                _ => self.evaluated(|| self.unstaged().or_faster(self.with_less_memory())),
            },
            false => self.evaluated(|| self.unstaged()),
        }
    }

    /// One candidate more of one stage, evaluated.
    fn evaluated(&self, evaluate: impl FnOnce() -> Evaluated) -> Evaluated {
        self.control.know(1);
        let found = evaluate();
        self.control.evaluated(&found);
        self.control.counts().evaluated_on(1, &found);
        found
    }

    /// Layouts for some numbers of stages, each unless it provably takes `best_secs` or longer; one stage is
    /// of the problem `alone`.
    fn sketched_all<'p>(
        &'p self,
        alone: &'p Problem<'p>,
        counts: &[usize],
        best_secs: f64,
    ) -> Vec<(usize, std::result::Result<Sketched<'p>, Evaluated>)> {
        let problem = |count: usize| if count == 1 { alone } else { self };
        let n_done = AtomicUsize::new(0);
        let sketched = |&count: &usize| {
            let sketched = problem(count).sketched(count, best_secs);
            self.control.laid_out(n_done.fetch_add(1, Ordering::Relaxed) + 1, counts.len());
            (count, sketched)
        };
        counts.par_iter().map(sketched).collect()
    }

    /// The best placement on `wanted` stages, or on any number of them (0).
    fn best(&self, wanted: usize) -> Result<Found> {
        let (one, many) = self.stage_counts(wanted)?;
        let (alone, others, all) = (self.alone(), Neighborhood::of(self), [&one[..], &many].concat());
        let unsketched = || -> Vec<Evaluated> { one.iter().map(|_| alone.one_stage()).collect() };
        let mut bounds = LowerBounds::new(&one, &many);
        let least_secs = bounds.unbeaten(self);
        if least_secs >= self.worth.secs {
            let best =
                Err(Diagnostic::error("no plan with equal stages takes less than the best one so far"));
            return Ok(Found { best, lower_bound_secs: least_secs, alternatives: Vec::new() });
        }
        let is_long = self.is_late() && self.sharded.entry().instrs.len() > LONG;
        let is_long = is_long && !self.control.may_end();
        let (mut tried, early) = match is_long {
            true => rayon::join(unsketched, || self.sketched_all(&alone, &all, f64::INFINITY)),
            false => (unsketched(), Vec::new()),
        };
        tried.iter().for_each(|tried| bounds.learn(self, tried));
        let best = tried.iter().map(Evaluated::time_secs).fold(self.worth.secs, f64::min);
        let is_open = self.is_late() || tried.iter().any(|tried| !self.is_as_sharded(tried));
        let some = if is_open { &all[..] } else { &many[..] };
        let some = bounds.open(some, best);
        let sketched = if is_long { early } else { self.sketched_all(&alone, &some, self.may_save() * best) };
        let of_some = sketched.into_iter().filter(|(count, _)| some.contains(count));
        let of_some =
            of_some.inspect(|it| self.control.counts().sketched(it.0, &it.1, self.may_save() * best));
        let mut sketches = sketches(of_some.map(|(_, sketched)| sketched), &mut tried);
        sketches.extend(interleave::faster(&sketches, best));
        let best = self.try_all(&mut sketches, best, &mut tried, &mut bounds);
        tried.extend(self.otherwise(&others, &sketches, &tried, &mut bounds));
        if self.may_be_unequal(wanted) {
            tried.extend(self.with_unequal(&sketches, wanted, &tried));
        }
        let is_none = best.is_infinite() || tried.iter().all(|it| it.time_secs().is_infinite());
        if self.is_late() && is_none && bounds.of(1) < best && self.recompute != Recompute::All {
            tried.extend(one.iter().map(|_| alone.evaluated(|| alone.unstaged())));
        }
        let may_be_unequal = self.may_be_unequal(wanted) && !self.is_huge(wanted);
        let bound = |best: &Placement| bounds.of_all(self, best, may_be_unequal);
        let found = pick(tried.into_iter(), bound, self.control);
        let lower_bound_secs = match &found {
            Ok(best) => best.lower_bound_secs(),
            Err(_) => bounds.unbeaten(self),
        };
        self.control.counts().bounded(&all, &bounds);
        let best = found.map_err(|error| self.groups.explained(error));
        Ok(Found { best, lower_bound_secs, alternatives: Vec::new() })
    }

    /// Tries sketches, those that promise most first; seconds of the best placement so far.
    fn try_all(
        &self,
        sketches: &mut [Sketch],
        mut best: f64,
        tried: &mut Vec<Evaluated>,
        bounds: &mut LowerBounds,
    ) -> f64 {
        sketches.sort_by(|a, b| a.secs.total_cmp(&b.secs));
        self.control.know(sketches.len());
        for sketch in &*sketches {
            let found = sketch.tried(best);
            if found.time_secs() < best {
                bounds.learn(self, &found);
                best = found.time_secs();
            }
            tried.push(found);
            tried.iter_mut().for_each(|tried| tried.drop_slower(best));
        }
        best
    }
}

/// Of a text with more instructions than this the one that `shard` left, which seldom fits, is measured while
/// others are sketched.
const LONG: usize = 20_000;
