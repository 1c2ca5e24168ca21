//! Programs on unlike devices: each kind of nodes alone, and pipelines over several kinds, stage after stage
//! on one kind each.
//!
//! ```text
//! 32 A100, 32 V100, 16 T4     →     stages 0 and 1 on 16 A100 each, stage 2 on 32 V100; the T4 are idle
//! ```

mod floors;
mod orders;

use super::candidate::Staged;
use super::cut::mixed::Pool;
use super::evaluate_candidate::Draft;
use super::forms::{Form, problem, subject, unrolled_form};
use super::heterogeneous_stages::{Sizes, far};
use super::search_control::{End, SearchControl};
use super::stage_search::Sketch;
use super::{Problem, materialize_plan};
use crate::layer_repeats::representative_layers::Short;
use crate::plan_state::PlanState;
use crate::shard;
use crate::shard::control::asked_again;
use floors::Floors;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result, notes};
use phzc_pass::pass::{Context, Options};
use phzc_plan::derive::derive;
use phzc_plan::{plan_note, report};
use rayon::prelude::*;

/// How many pipelines, those that promise most, are written as texts.
const MAX_WRITTEN: usize = 4;
/// By how much a pipeline over several kinds must promise less than the best plan so far: the chain does not
/// know what it costs to go from one mesh to another.
const MARGIN: f64 = 0.01;
/// A pipeline of one stage per node is a few percent bubbles with so many microbatches per stage.
const MICROBATCHES_PER_NODE: usize = 4;

/// A plan on the whole cluster.
struct Known {
    text: Module,
    time_secs: f64,
    end: Option<End>,
}

/// Places a program that `shard` has laid out for the first kind on all kinds.
///
/// What pipelines over several kinds promise comes first: a kind alone is planned only where it may beat them,
/// for to find that the program does not fit takes long.
///
/// # Errors
/// Why there is no plan.
pub(super) fn place(module: &Module, options: &Options, cx: &mut Context) -> Result<Module> {
    let kinds: Vec<Cluster> = cx.cluster.kinds().map(Cluster::alone).collect();
    let state = PlanState::of(module, cx)?;
    let control = SearchControl::new(options, cx);
    let written = Form { sharded: module, state };
    let is_given = written.state.is_given();
    let unrolled = if is_given { None } else { unrolled_form(&written, cx)? };
    let program = written.state.program.clone();
    let mut form = match &unrolled {
        Some((sharded, _)) => Form { sharded, state: PlanState::of(sharded, &mut Context::new(&kinds[0]))? },
        None => written,
    };
    let subject = subject(&mut form, &kinds[0])?.with_free(None);
    let on = |cluster| problem(&form, &subject, options, (cluster, &control), f64::INFINITY);
    let (all, each) = (on(cx.cluster)?, kinds.iter().map(on).collect::<Result<Vec<Problem>>>()?);
    let floors = Floors::new(&each);
    let kinds = Kinds { all: &all, each: &each, floors: &floors };
    let is_cut = !is_given && options.int("stages") != 1 && !all.schedule.is_interleaved();
    (cx.progress)("place: pipelines over several kinds of devices");
    let itself = Short::itself(all.plain);
    let layouts = if is_cut { kinds.layouts() } else { Vec::new() };
    let mut sizes = layouts.iter().filter_map(|layouts| kinds.sizes(layouts, &itself)).collect::<Vec<_>>();
    let promised = kinds.promised(&mut sizes);
    let mut alone = Alone {
        module,
        program: &program,
        options,
        first_devices: cx.cluster.first_devices(),
        best: Err(no_plan()),
    };
    let may_beat = promised.first().map_or(f64::INFINITY, |first| all.may_save() * first.secs);
    for kind in floors.fastest_first() {
        if floors.alone_secs(kind) < may_beat {
            alone.plan(kind, floors.alone_secs(kind), cx);
        }
    }
    let best = kinds.best(&mut sizes, &promised, alone.best)?;
    Ok(best.noted(floors.secs()))
}

fn no_plan() -> Diagnostic {
    Diagnostic::error("no kind of the cluster's devices can hold the program")
}

/// The search over plans on one kind alone.
struct Alone<'a> {
    /// The program in `shard`'s layouts for the first kind, and without.
    module: &'a Module,
    program: &'a Module,
    options: &'a Options,
    /// The first device of each kind.
    first_devices: Vec<usize>,
    best: Result<Known>,
}

impl Alone<'_> {
    /// Plans for one kind, unless no plan on it can be the best.
    fn plan(&mut self, kind: usize, floor_secs: f64, cx: &mut Context) {
        if self.best.as_ref().is_ok_and(|best| best.time_secs <= floor_secs) {
            return;
        }
        let nodes = cx.cluster.kinds().nth(kind).expect("a kind of the cluster").alone();
        let mut own = Context { progress: cx.progress, interrupt: cx.interrupt, ..Context::new(&nodes) };
        let found = self.planned(kind, &mut own);
        let is_better = match (&found, &self.best) {
            (Ok(found), Ok(best)) => found.time_secs < best.time_secs,
            (Err(_), Ok(_)) => false,
            (_, Err(_)) => true,
        };
        if is_better {
            cx.alternatives = own.alternatives;
            cx.stage_counts = own.stage_counts;
            self.best = found;
        }
    }

    fn planned(&self, kind: usize, cx: &mut Context) -> Result<Known> {
        let mut text = self.module.clone();
        if kind > 0 {
            text = self.program.clone();
            [notes::MESH, notes::PLAN, notes::CLUSTER].into_iter().for_each(|key| text.remove_note(key));
            (shard::PASS.run)(&mut text, &asked_again(self.module), cx)?;
        }
        super::run(&mut text, self.options, cx)?;
        let facts = derive(&text)?;
        let time_secs = report::figures_of(&text, &facts, cx.cluster).time_secs;
        let first = self.first_devices[kind];
        materialize_plan::put_on(
            &mut text,
            &facts.header.firsts.iter().map(|it| it + first).collect::<Vec<_>>(),
        );
        Ok(Known { text, time_secs, end: None })
    }
}

/// The search over pipelines on several kinds.
struct Kinds<'a> {
    /// The problem on the whole cluster, and on each kind.
    all: &'a Problem<'a>,
    each: &'a [Problem<'a>],
    floors: &'a Floors,
}

/// Layouts on some numbers of devices of every kind, with the kind's place, and their texts.
struct Layouts<'a> {
    sketches: Vec<(usize, Sketch<'a>)>,
    drafts: Vec<Draft>,
}

/// What a pipeline may take.
struct Promise {
    secs: f64,
    /// The place of its layouts.
    layouts: usize,
    /// Its kinds in the order of its stages.
    order: Vec<usize>,
}

impl<'a> Kinds<'a> {
    /// Layouts for the fewest microbatches, and for as many as a stage per node needs.
    fn layouts(&self) -> Vec<Layouts<'a>> {
        let n_nodes: usize = self.each.iter().map(|problem| problem.cluster.n_nodes()).sum();
        let wanted = MICROBATCHES_PER_NODE * n_nodes;
        let counts = self.all.counts.iter().copied();
        let near = counts.min_by(|&a, &b| far(a, wanted).total_cmp(&far(b, wanted)));
        let mut counts: Vec<usize> = self.all.counts.first().copied().into_iter().chain(near).collect();
        counts.dedup();
        counts.into_iter().map(|count| self.laid_out(count)).collect()
    }

    fn laid_out(&self, n_microbatches: usize) -> Layouts<'a> {
        let sizes = |kind: usize| sizes(&self.each[kind]).into_iter().map(move |size| (kind, size));
        let all: Vec<(usize, usize)> = (0..self.each.len()).flat_map(sizes).collect();
        let sketch =
            |(kind, size): (usize, usize)| Some((kind, self.each[kind].laid_out_for(size, n_microbatches)?));
        let sketches: Vec<(usize, Sketch)> = all.into_par_iter().filter_map(sketch).collect();
        let drafts = sketches.par_iter().map(|(_, sketch)| sketch.draft()).collect();
        Layouts { sketches, drafts }
    }

    /// What stages are made of, no kinds chosen yet.
    fn sizes<'s>(&self, layouts: &'s Layouts<'s>, itself: &'s Short) -> Option<Sizes<'s>>
    where
        'a: 's,
    {
        let all: &'s Problem<'s> = self.all;
        let short = all.subject.short.as_ref().unwrap_or(itself);
        let (kind_of, chosen): (Vec<usize>, Vec<&Sketch>) =
            layouts.sketches.iter().map(|(kind, sketch)| (*kind, sketch)).unzip();
        let groups = all.layers(&chosen, &layouts.drafts, |at| kind_of[at])?;
        let (drafts, pools) = (&layouts.drafts[..], Vec::new());
        Some(Sizes { short, drafts, all: groups, n_stages: 2..=2, pools, to_beat_secs: f64::INFINITY })
    }

    /// What pipelines promise, the fastest first.
    fn promised(&self, sizes: &mut [Sizes]) -> Vec<Promise> {
        let usable_bytes = |kind: usize| self.each[kind].cluster.accelerator.usable_bytes();
        let (orders, mut found) = (orders::of(self.each.len(), usable_bytes), Vec::new());
        for (layouts, sizes) in sizes.iter_mut().enumerate() {
            for order in &orders {
                if self.all.control.ends() {
                    break;
                }
                self.on(sizes, order);
                let promise = |secs| Promise { secs, layouts, order: order.clone() };
                found.extend(self.all.promised_secs(sizes).map(promise));
            }
        }
        found.sort_by(|a: &Promise, b: &Promise| a.secs.total_cmp(&b.secs));
        found
    }

    /// The best of a plan on one kind and pipelines over several.
    fn best(&self, sizes: &mut [Sizes], promised: &[Promise], alone: Result<Known>) -> Result<Known> {
        let mut best = alone;
        for promise in promised.iter().take(MAX_WRITTEN) {
            let to_beat = best.as_ref().map_or(f64::INFINITY, |best| (1.0 - MARGIN) * best.time_secs);
            if promise.secs >= to_beat || self.floors.of(&promise.order) >= to_beat {
                continue;
            }
            let sizes = &mut sizes[promise.layouts];
            sizes.to_beat_secs = to_beat;
            self.on(sizes, &promise.order);
            let staged = self.all.best_within(sizes).filter(|staged| staged.time_secs < to_beat);
            let end = self.all.control.ended();
            let known = |staged: Staged| Known { time_secs: staged.time_secs, text: staged.text, end };
            best = staged.map(known).map_or(best, Ok);
        }
        best
    }

    /// Sets the kinds that stages take, in this order.
    fn on(&self, sizes: &mut Sizes, order: &[usize]) {
        sizes.pools = order.iter().map(|&kind| self.all.pool(kind, self.each[kind].cluster)).collect();
        let most = |pool: &Pool| {
            let own = sizes.all.iter().filter(|(group, _, _)| group.kind == pool.kind);
            pool.n_devices / own.map(|(group, _, _)| group.n_devices).min().unwrap_or(pool.n_devices)
        };
        let n_layers = sizes.all[0].1.n_layers();
        sizes.n_stages = order.len()..=sizes.pools.iter().map(most).sum::<usize>().min(n_layers);
    }
}

/// Numbers of devices that a stage on one kind may have: all, a node's, half of that, and what lies between.
fn sizes(problem: &Problem) -> Vec<usize> {
    let (all, node) = (problem.cluster.n_devices(), problem.cluster.per_node());
    let allowed = problem.groups.sizes();
    let nearest =
        |wanted: usize| allowed.iter().copied().min_by(|&a, &b| far(a, wanted).total_cmp(&far(b, wanted)));
    let between = ((all * node) as f64).sqrt() as usize;
    let wanted = if all == node {
        [all.div_ceil(2), all.div_ceil(4)].to_vec()
    } else {
        vec![between, node, node.div_ceil(2)]
    };
    let mut sizes: Vec<usize> = wanted.into_iter().filter_map(nearest).collect();
    sizes.extend(Some(all).filter(|&all| problem.groups.has(all)));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Known {
    /// The text, with what no plan on the cluster takes less than.
    fn noted(self, bound_secs: f64) -> Module {
        let Known { mut text, time_secs, end } = self;
        let bound_secs = bound_secs.min(time_secs);
        let figures = [
            ("planned_secs", time_secs.into()),
            ("lower_bound_secs", bound_secs.into()),
            ("gap", ((time_secs - bound_secs) / time_secs).into()),
            ("stop", end.map_or("stages-open", End::as_str).into()),
            ("fits", true.into()),
        ];
        plan_note::set(&mut text, &figures);
        text
    }
}

#[cfg(test)]
mod tests;
