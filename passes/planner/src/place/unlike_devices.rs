//! Programs on unlike devices: each kind of nodes alone, and pipelines over several kinds, stage after stage
//! on one kind each.
//!
//! ```text
//! 32 A100, 32 V100, 16 T4     →     stages 0 and 1 on 16 A100 each, stage 2 on 32 V100; the T4 are idle
//! ```

mod alone;
mod floors;
mod promises;
mod replicas;
mod search;

use super::cut::mixed::Pool;
use super::evaluate_candidate::Draft;
use super::forms::{Form, problem, subject, unrolled_form};
use super::heterogeneous_stages::{Sizes, far};
use super::search_control::{End, SearchControl};
use super::stage_search::Sketch;
use super::{Problem, Worth};
use crate::layer_repeats::representative_layers::Short;
use crate::plan_state::PlanState;
use alone::Alone;
use floors::Floors;
use phzc_analysis::graph::Graph;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result};
use phzc_pass::alternative::{Alternative, StageCount};
use phzc_pass::pass::{Context, Options};
use phzc_plan::derive::Facts;
use promises::{Promise, Promises};
use rayon::prelude::*;
use search::Search;
use std::collections::BTreeSet;

/// By how much a pipeline over several kinds must promise less than the best plan so far: the chain does not
/// know what it costs to go from one mesh to another.
const MARGIN: f64 = 0.01;
/// Orders of kinds are looked at that promise up to so many times the best one's seconds.
const SLACK: f64 = 1.2;
/// A kind whose devices together have less than so much of the fastest one's speed is left out of pipelines,
/// if their stages are open: for one more stage others wait longer than it saves.
const LEAST_SPEED: f64 = 0.04;
/// What is said where `top` asks for plans that the search does not list.
const NONE_LISTED: &str =
    "`top` lists no plans but those on one kind of devices alone: there is none to list";
/// A pipeline is a few percent bubbles with so many microbatches per stage.
const MICROBATCHES_PER_STAGE: usize = 4;

/// A plan on the whole cluster.
struct Known {
    text: Module,
    time_secs: f64,
    end: Option<End>,
    said: Said,
}

/// What the search that found a plan lists beside it; those over several kinds list nothing.
#[derive(Default)]
struct Said {
    alternatives: Vec<Alternative>,
    stage_counts: Vec<StageCount>,
}

/// Places a program that `shard` has laid out for the first kind on all kinds.
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
    let on = |cluster| problem(&form, &subject, options, (cluster, &control), Worth::ALL);
    let (all, each) = (on(cx.cluster)?, kinds.iter().map(on).collect::<Result<Vec<Problem>>>()?);
    let floors = Floors::new(&each);
    let kinds = Kinds { all: &all, each: &each, floors: &floors, wanted: options.int("stages") as usize };
    let is_cut = !is_given && kinds.wanted != 1 && !all.schedule.is_interleaved() && !all.groups.is_equal();
    (cx.progress)("place: pipelines over several kinds of devices");
    let itself = Short::itself(all.plain);
    let layouts = if is_cut { kinds.layouts() } else { Vec::new() };
    let mut sizes: Vec<Sizes> =
        layouts.par_iter().filter_map(|layouts| kinds.sizes(layouts, &itself)).collect();
    let promised = kinds.promised(&mut sizes);
    let search = Search {
        kinds,
        alone: Alone { module, program: &program, options, first_devices: cx.cluster.first_devices() },
        cluster: cx.cluster,
        progress: cx.progress,
        interrupt: cx.interrupt,
        with_replicas: !is_given && options.text("replicas") == "auto",
    };
    let (mut best, warnings) = search.best(&mut sizes, &promised)?;
    cx.warnings.extend(warnings);
    Said { alternatives: cx.alternatives, stage_counts: cx.stage_counts } = std::mem::take(&mut best.said);
    if options.int("top") > 1 && cx.alternatives.is_empty() {
        cx.warnings.push(Diagnostic::warning(NONE_LISTED));
    }
    Ok(best.noted(floors.secs(), options.text("recompute")))
}

/// Why there is none, with what stands against the fastest kind.
fn no_plan(cluster: &str, refusal: Option<Diagnostic>) -> Diagnostic {
    let message = format!("no plan on one kind of `{cluster}`, or over several, was found that fits");
    let error = Diagnostic::error(message);
    match refusal {
        Some(of_one) => error.note(None, format!("on the fastest kind alone: {}", of_one.message)),
        None => error,
    }
    .help("use more devices, a smaller batch, or leave `stages`, `groups` and `schedule` of `place` open")
}

/// The search over pipelines on several kinds.
struct Kinds<'a> {
    /// The problem on the whole cluster, and on each kind.
    all: &'a Problem<'a>,
    each: &'a [Problem<'a>],
    floors: &'a Floors,
    /// How many stages the user wants; 0 is any number.
    wanted: usize,
}

/// Layouts on some numbers of devices of every kind, with the kind's place, and their texts.
struct Layouts<'a> {
    /// How many microbatches they are made for.
    n_microbatches: usize,
    sketches: Vec<(usize, Sketch<'a>)>,
    drafts: Vec<Draft>,
}

impl Layouts<'_> {
    /// Whether the texts are the same.
    fn is_like(&self, other: &Layouts) -> bool {
        let texts = self.drafts.iter().map(|draft| &draft.text);
        texts.eq(other.drafts.iter().map(|draft| &draft.text))
    }

    fn is_tight(&self) -> bool {
        self.sketches.iter().any(|(_, sketch)| sketch.is_tight())
    }
}

impl<'a> Kinds<'a> {
    /// Layouts for the fewest microbatches, and for as many as two stages need, or a stage per node of the
    /// fastest kinds, of two or more: what a cluster without the slowest kinds would choose is tried too.
    /// Those for several keep weights whole, so where memory may be short there are others that keep parts.
    fn layouts(&self) -> Vec<Layouts<'a>> {
        let kinds = self.floors.fastest_first().into_iter();
        let n_nodes = kinds.scan(0, |sum, kind| {
            *sum += self.each[kind].cluster.n_nodes();
            Some(*sum)
        });
        let all = || self.all.counts.iter().copied();
        let near = |wanted: usize| all().min_by(|&a, &b| far(a, wanted).total_cmp(&far(b, wanted)));
        let n_stages = n_nodes.skip(1).chain([2]);
        let near = n_stages.filter_map(|n_stages| near(MICROBATCHES_PER_STAGE * n_stages));
        let counts: BTreeSet<usize> = all().take(1).chain(near).collect();
        let (mut whole, mut lean) = (Vec::new(), Vec::new());
        for &count in counts.iter().rev() {
            // Weights in parts are what few microbatches choose as well.
            if !lean.is_empty() && Some(&count) == counts.first() {
                break;
            }
            whole.push(self.laid_out(count, false));
            let is_tight = whole.last().is_some_and(Layouts::is_tight) && count > 1;
            lean.extend(is_tight.then(|| self.laid_out(count, true)));
        }
        let mut found: Vec<Layouts> = Vec::new();
        for layouts in whole.into_iter().chain(lean) {
            if !found.iter().any(|known| known.is_like(&layouts)) {
                found.push(layouts);
            }
        }
        found
    }

    fn laid_out(&self, n_microbatches: usize, is_lean: bool) -> Layouts<'a> {
        let sizes = |kind: usize| {
            let (most, all) = (self.floors.most_stages(kind), self.each[kind].cluster.n_devices());
            let is_fast = self.wanted > 0 || self.floors.relative_speed(kind) >= LEAST_SPEED;
            let own = sizes(&self.each[kind]).into_iter().filter(move |size| is_fast && all / size <= most);
            own.map(move |size| (kind, size))
        };
        let all: Vec<(usize, usize)> = (0..self.each.len()).flat_map(sizes).collect();
        let sketch = |(kind, size): (usize, usize)| {
            Some((kind, self.each[kind].laid_out_for(size, n_microbatches, is_lean)?))
        };
        let sketches: Vec<(usize, Sketch)> = all.into_par_iter().filter_map(sketch).collect();
        let drafts = sketches.par_iter().map(|(_, sketch)| sketch.draft()).collect();
        Layouts { n_microbatches, sketches, drafts }
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
        let drafts = &layouts.drafts[..];
        Some(Sizes { made_for: layouts.n_microbatches, ..Sizes::new(short, drafts, groups) })
    }

    /// What pipelines promise, the fastest first.
    fn promised(&self, sizes: &mut [Sizes]) -> Vec<Promise> {
        let all = sizes.par_iter_mut().enumerate();
        let of_one = |(layouts, sizes)| Promises { kinds: self, layouts, sizes, found: Vec::new() }.grown();
        let mut found: Vec<Promise> = all.flat_map_iter(of_one).collect();
        found.sort_by(|a, b| a.secs.total_cmp(&b.secs));
        found
    }

    /// The best pipeline over some kinds that takes less than so many seconds, and whether all its stages
    /// have products, or their number is asked for.
    fn written(&self, sizes: &mut Sizes, promise: &Promise, to_beat_secs: f64) -> Option<(bool, Known)> {
        sizes.to_beat_secs = to_beat_secs;
        self.on(sizes, &promise.order);
        // So many stages are what is asked for, be they of use or not.
        let is_of_use = if self.wanted > 0 { |_: &Module, _: &Facts| true } else { is_busy };
        let staged = self.all.best_within(sizes, is_of_use)?;
        let end = self.all.control.ended();
        let known = Known { time_secs: staged.time_secs, text: staged.text, end, said: Said::default() };
        Some((staged.is_of_use, known)).filter(|(_, known)| known.time_secs < to_beat_secs)
    }

    /// Sets the kinds that stages take, in this order.
    fn on(&self, sizes: &mut Sizes, order: &[usize]) {
        sizes.pools =
            order.iter().map(|&kind| Pool::of(self.each[kind].cluster, kind, self.all.cluster)).collect();
        let most = |pool: &Pool| {
            let own = sizes.all.iter().filter(|(group, _, _)| group.kind == pool.kind);
            pool.n_devices / own.map(|(group, _, _)| group.n_devices).min().unwrap_or(pool.n_devices)
        };
        let n_layers = sizes.all[0].1.n_layers();
        sizes.n_stages = match self.wanted {
            0 => order.len()..=sizes.pools.iter().map(most).sum::<usize>().min(n_layers),
            wanted => wanted..=wanted,
        };
    }
}

/// The faster of two plans, the first if both take as long.
fn best_of(a: Option<Known>, b: Option<Known>) -> Option<Known> {
    let secs = |known: &Option<Known>| known.as_ref().map_or(f64::INFINITY, |known| known.time_secs);
    if secs(&b) < secs(&a) { b } else { a }
}

/// Whether every stage of a text has a product.
fn is_busy(text: &Module, facts: &Facts) -> bool {
    let graph = Graph::build(text);
    let products = graph.nodes.iter().filter(|node| node.is_contraction);
    let busy: BTreeSet<usize> =
        products.map(|node| facts.comps[node.comp.index()][node.instr.index()].stage).collect();
    busy.len() == facts.header.meshes.len()
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

#[cfg(test)]
mod tests;
