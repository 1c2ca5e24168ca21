//! Replicas of one plan on unlike devices: each runs as many microbatches as it can while the others run
//! theirs, and their gradients are summed up before the update.
//!
//! ```text
//! 32 A100, 32 V100     →     13 of 16 microbatches on the A100, 3 on the V100
//! ```
//!
//! Plans are made for the devices of one replica of the fastest kind with the least memory of all kinds.

use super::super::Worth;
use super::super::heterogeneous_stages::{EqualStages, Sizes};
use super::super::neighborhood_search::filled_of;
use super::super::search_control::MAX_PLANS;
use super::alone::plan_on;
use super::{Kinds, Known, LEAST_SPEED, MARGIN, Said};
use phzc_cost::{Cluster, Pipeline};
use phzc_ir::{ArrayShape, InstrId, Module, notes};
use phzc_pass::pass::{Context, Options};
use phzc_plan::derive::{Facts, Nature, Replica, derive, note_of};
use phzc_plan::plan_note;
use phzc_plan::report::{self, ring_secs, whole_summed_bytes};

/// States that fill more of a device than this leave too little for activations to look for a plan.
const MOST_STATES: f64 = 2.0 / 3.0;
/// How many candidates a plan for a replica is the best of: they are tried by what they promise.
const MAX_EVALUATED: usize = 6;
/// Of numbers of microbatches the first that is looked at promises no more than so many times the least
/// seconds: more make smaller products.
const EVEN: f64 = 1.1;
/// Replicas may share microbatches out otherwise than their blocks promise, so that the fastest run fewer.
const SLACK: f64 = 1.1;
/// How many numbers of microbatches are looked at: with eight times as many products are small.
const MAX_FINER: usize = 4;
/// Chains of equal stages may promise so many times the seconds that a plan takes: interleaved ones were seen
/// to take 2 % less.
const STAGED: f64 = 1.02;

/// Replicas that may be worth a plan.
pub(super) struct Layout {
    /// Devices of a replica.
    n_devices: usize,
    /// The kinds that have some.
    kinds: Vec<usize>,
    /// Microbatches of a step.
    n_microbatches: usize,
    /// Seconds of the slowest replica's blocks, were they as fast as can be.
    busy_secs: f64,
    /// The most microbatches that a replica on the first of these kinds runs, for which plans are made.
    n_most: usize,
    /// Bytes that all replicas sum up, and the seconds that it takes.
    summed_bytes: f64,
    summed_secs: f64,
}

impl Layout {
    /// No plan with such replicas takes less.
    pub fn least_secs(&self) -> f64 {
        self.busy_secs + self.summed_secs
    }

    /// What one replica on the first kind has for all microbatches, for the step to be a better one; no
    /// bounds are of use.
    fn worth(&self, best_secs: f64) -> Worth {
        let share = self.n_most as f64 / self.n_microbatches as f64;
        Worth { secs: SLACK * best_secs / share, bound_secs: 0.0 }
    }
}

/// A place for a replica.
#[derive(Clone, Copy)]
struct Slot {
    kind: usize,
    first: usize,
}

impl Kinds<'_> {
    /// Replicas over the fastest kinds that may take less than some seconds: of the size that promises most
    /// of those whose equal stages, in the layouts at hand, promise enough.
    ///
    /// A size promises that its blocks come as near to the fastest as those of a plan that takes so many
    /// seconds.
    pub(super) fn replicas(&self, sizes: &mut [Sizes], best_secs: f64) -> Option<Layout> {
        let (fastest, sharded) = (self.floors.fastest_first(), self.all.sharded);
        let facts = derive(sharded).expect("the header's notes are the planner's own");
        let summed_bytes = whole_summed_bytes(sharded, &facts);
        let states_bytes = states_bytes(sharded, &facts);
        let mut found = Vec::new();
        for n_kinds in 2..=fastest.len() {
            let kinds = &fastest[..n_kinds];
            let layout = |size| self.shared_by(kinds, size, summed_bytes);
            found.extend(self.sizes_for(kinds).into_iter().filter_map(layout));
        }
        let reached = (best_secs / self.floors.alone_secs(fastest[0])).max(1.0);
        let promised = |layout: &Layout| match best_secs.is_finite() {
            true => reached * layout.busy_secs + layout.summed_secs,
            false => layout.least_secs(),
        };
        found.retain(|layout| self.has_room(layout, states_bytes));
        found.retain(|layout: &Layout| promised(layout) < (1.0 - MARGIN) * best_secs);
        found.sort_by(|a, b| promised(a).total_cmp(&promised(b)));
        found.into_iter().find_map(|layout| self.staged(sizes, layout, STAGED * best_secs))
    }

    /// The replicas, with microbatches as small as take the least seconds on equal stages, if that is less
    /// than some seconds; as they are where no layouts for such stages are at hand.
    fn staged(&self, sizes: &mut [Sizes], layout: Layout, best_secs: f64) -> Option<Layout> {
        if !self.is_staged(sizes, &layout) {
            return Some(layout);
        }
        let finer = std::iter::successors(Some(layout), |layout| self.finer(layout)).take(MAX_FINER);
        let finer: Vec<Layout> = finer.filter(|layout| self.is_staged(sizes, layout)).collect();
        let secs = |layout: Layout| (self.staged_secs(sizes, &layout), layout);
        let (secs, best) = finer.into_iter().map(secs).min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(best).filter(|_| secs < best_secs || best_secs.is_infinite())
    }

    /// Whether there are layouts for equal stages on every kind that has some: very slow ones have none.
    fn is_staged(&self, sizes: &[Sizes], layout: &Layout) -> bool {
        let has = |kind| {
            let on = self.equal_stages(layout, kind);
            sizes.iter().any(|sizes| !sizes.equal(on, layout.n_microbatches).is_empty())
        };
        layout.kinds.iter().all(|&kind| self.floors.relative_speed(kind) < LEAST_SPEED || has(kind))
    }

    /// A replica on a kind.
    fn equal_stages(&self, layout: &Layout, kind: usize) -> EqualStages {
        EqualStages { kind, n_devices: layout.n_devices, wanted: self.wanted }
    }

    /// What replicas take by the chains of equal stages on each kind, none of which has more memory than the
    /// kind with the least.
    fn staged_secs(&self, sizes: &mut [Sizes], layout: &Layout) -> f64 {
        let (count, limit_bytes) = (layout.n_microbatches, self.nodes(layout).accelerator.usable_bytes());
        let slots = self.slots(&layout.kinds, layout.n_devices);
        let mut each: Vec<[f64; 2]> = Vec::with_capacity(slots.len());
        for slot in &slots {
            let known = slots[..each.len()].iter().position(|other| other.kind == slot.kind);
            let filling = || self.filling(sizes, self.equal_stages(layout, slot.kind), (count, limit_bytes));
            each.push(known.map_or_else(filling, |at| each[at]));
        }
        // A pipeline fills before a few microbatches as before many.
        let secs = |at: usize, n: usize| each[at][0] + n as f64 * each[at][1];
        let shares = shared_out(slots.len(), count, secs);
        let busy = shares.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, &n)| secs(at, n));
        busy.fold(0.0, f64::max) + layout.summed_secs
    }

    /// What a replica on some devices takes for no microbatch and for each one more, by the best chain of
    /// equal stages.
    fn filling(&self, sizes: &mut [Sizes], on: EqualStages, (count, limit_bytes): (usize, f64)) -> [f64; 2] {
        let filled = filled_of(self.all);
        let mut best = [f64::INFINITY; 2];
        for problem in filled.iter().chain([self.all]) {
            let all = sizes.iter_mut().map(|sizes| sizes.equal_secs(problem, on, (count, limit_bytes)));
            best = all.fold(best, |best, other| if other[1] < best[1] { other } else { best });
        }
        let [one, all] = best;
        if all.is_infinite() {
            return best;
        }
        let each = if count > 1 { (all - one) / (count - 1) as f64 } else { all };
        [all - count as f64 * each, each]
    }

    /// The same replicas with the next smaller microbatches.
    pub(super) fn finer(&self, layout: &Layout) -> Option<Layout> {
        let next = self.all.counts.iter().find(|&&count| count > layout.n_microbatches)?;
        Some(self.layout((&layout.kinds, layout.n_devices), *next, layout.summed_bytes))
    }

    /// Numbers of devices of a replica: those of a node of each kind, or of all nodes.
    fn sizes_for(&self, kinds: &[usize]) -> Vec<usize> {
        let least = |of: fn(&Cluster) -> usize| kinds.iter().map(|&kind| of(self.each[kind].cluster)).min();
        let sizes = [least(Cluster::per_node), least(Cluster::n_devices)];
        let mut sizes: Vec<usize> = sizes.into_iter().flatten().collect();
        sizes.dedup();
        sizes
    }

    /// The fewest microbatches that replicas of a size share about as well as any number.
    fn shared_by(&self, kinds: &[usize], n_devices: usize, summed_bytes: f64) -> Option<Layout> {
        let counts = self.all.counts.iter();
        let all: Vec<Layout> =
            counts.map(|&count| self.layout((kinds, n_devices), count, summed_bytes)).collect();
        let least = all.iter().map(Layout::least_secs).fold(f64::INFINITY, f64::min);
        all.into_iter().find(|layout| layout.least_secs() <= EVEN * least)
    }

    /// What replicas on so many devices take with so many microbatches, were blocks as fast as can be.
    fn layout(
        &self,
        (kinds, n_devices): (&[usize], usize),
        n_microbatches: usize,
        summed_bytes: f64,
    ) -> Layout {
        let slots = self.slots(kinds, n_devices);
        let one = |slot: &Slot| self.floors.replica_secs(slot.kind, n_devices) / n_microbatches as f64;
        let each: Vec<f64> = slots.iter().map(one).collect();
        let shares = shared_out(slots.len(), n_microbatches, |at, n| each[at] * n as f64);
        let busy_secs = shares.iter().zip(&each).map(|(&n, secs)| n as f64 * secs).fold(0.0, f64::max);
        let of_first = slots.iter().zip(&shares).filter(|(slot, _)| slot.kind == kinds[0]);
        let n_most = of_first.map(|(_, &n)| n).max().unwrap_or(0);
        let used = slots.iter().zip(shares).filter(|(_, n)| *n > 0);
        let used: Vec<[usize; 2]> = used.map(|(it, _)| [it.first, it.first + n_devices - 1]).collect();
        let summed_secs = ring_secs(self.all.cluster, &used, summed_bytes / n_devices as f64);
        let kinds = kinds.to_vec();
        Layout { n_devices, kinds, n_microbatches, busy_secs, n_most, summed_bytes, summed_secs }
    }

    /// Whether states leave enough of the least memory.
    fn has_room(&self, layout: &Layout, states_bytes: f64) -> bool {
        let usable = self.nodes(layout).accelerator.usable_bytes();
        states_bytes / layout.n_devices as f64 <= MOST_STATES * usable
    }

    /// All places of replicas, kind after kind.
    fn slots(&self, kinds: &[usize], n_devices: usize) -> Vec<Slot> {
        let firsts = self.all.cluster.first_devices();
        let of_kind = |&kind: &usize| {
            let first = firsts[kind];
            let n_slots = self.each[kind].cluster.n_devices() / n_devices;
            (0..n_slots).map(move |at| Slot { kind, first: first + at * n_devices })
        };
        kinds.iter().flat_map(of_kind).collect()
    }

    /// The best plan with such replicas, if there is one that fits and may take less than `best_secs`.
    pub(super) fn replicated(
        &self,
        layout: &Layout,
        (options, asked): (&Options, &Module),
        best_secs: f64,
        cx: &mut Context,
    ) -> Option<Known> {
        let nodes = self.nodes(layout);
        let mut options = options.clone();
        options.values.insert("microbatches", layout.n_microbatches.to_string());
        if options.int(MAX_PLANS.name) == 0 {
            options.values.insert(MAX_PLANS.name, MAX_EVALUATED.to_string());
        }
        let mut own = Context { progress: cx.progress, interrupt: cx.interrupt, ..Context::new(&nodes) };
        let mut text = self.all.plain.clone();
        plan_on(&mut text, &options, (asked, layout.worth(best_secs)), &mut own).ok()?;
        self.put(text, layout)
    }

    /// The devices of a replica of the fastest kind, with no more memory than any of them has.
    fn nodes(&self, layout: &Layout) -> Cluster {
        let mut nodes = self.each[layout.kinds[0]].cluster.submesh(layout.n_devices);
        let usable = layout.kinds.iter().map(|&kind| self.each[kind].cluster.accelerator.usable_bytes());
        nodes.accelerator.hbm_bytes = usable.fold(f64::INFINITY, f64::min) / nodes.accelerator.usable;
        nodes
    }

    /// Puts replicas of a plan on their devices, each with the microbatches that it has time for: on the
    /// fastest kinds, as many of them as take the least time.
    fn put(&self, text: Module, layout: &Layout) -> Option<Known> {
        let facts = derive(&text).ok()?;
        let slots = self.slots(&layout.kinds, layout.n_devices);
        let timed: Vec<(usize, Pipeline)> =
            layout.kinds.iter().map(|&kind| (kind, self.timed(&text, &facts, (&slots, kind)))).collect();
        let mut best: Option<Known> = None;
        for n_kinds in 2..=layout.kinds.len() {
            let kinds = &layout.kinds[..n_kinds];
            let slots: Vec<Slot> = slots.iter().copied().filter(|slot| kinds.contains(&slot.kind)).collect();
            let found = self.put_on(text.clone(), &facts, (&slots, &timed));
            let best_secs = best.as_ref().map_or(f64::INFINITY, |best| best.time_secs);
            best = found.filter(|found| found.time_secs < best_secs).or(best);
        }
        best
    }

    /// The same on some places; none if there is too little memory.
    fn put_on(&self, mut text: Module, facts: &Facts, on: (&[Slot], &[(usize, Pipeline)])) -> Option<Known> {
        let ((slots, timed), header) = (on, &facts.header);
        let shares = shared_out(slots.len(), header.n_microbatches, |at, n_microbatches| {
            let of_kind = timed.iter().find(|(kind, _)| *kind == slots[at].kind);
            let pipeline = of_kind.map(|(_, it)| Pipeline { n_microbatches, ..it.clone() });
            pipeline.map_or(f64::INFINITY, |it| it.step_secs(header.schedule))
        });
        let own = |(slot, n_microbatches): (&Slot, usize)| Replica {
            n_microbatches,
            firsts: header.firsts.iter().map(|first| slot.first + first).collect(),
        };
        let used = slots.iter().zip(shares).filter(|(_, n)| *n > 0);
        let replicas: Vec<Replica> = used.map(own).collect();
        super::super::materialize_plan::put_on(&mut text, &replicas[0].firsts);
        if replicas.len() > 1 {
            text.set_note(notes::REPLICAS, &note_of(&replicas));
        }
        let facts = derive(&text).ok()?;
        let plan = report::figures_of(&text, &facts, self.all.cluster);
        plan_note::set(&mut text, &[("planned_secs", plan.time_secs.into())]);
        let found =
            Known { text, time_secs: plan.time_secs, end: self.all.control.ended(), said: Said::default() };
        Some(found).filter(|_| plan.most_memory_share() <= 1.0)
    }

    /// How long the microbatches of a replica of a plan take on a kind.
    fn timed(&self, text: &Module, facts: &Facts, (slots, kind): (&[Slot], usize)) -> Pipeline {
        let mut own = facts.clone();
        let first = slots.iter().find(|slot| slot.kind == kind).map_or(0, |slot| slot.first);
        own.header.firsts.iter_mut().for_each(|it| *it += first);
        report::pipeline_of(text, &own, self.all.cluster)
    }
}

/// Bytes of parameters and optimizer states, each once.
fn states_bytes(module: &Module, facts: &Facts) -> f64 {
    let (entry, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let of = |id: InstrId| {
        let leaves = entry.instr(id).shape.leaves().into_iter().zip(&all[id.index()].natures);
        let states = leaves.filter(|(_, nature)| **nature == Nature::State);
        states.filter_map(|(shape, _)| shape.as_array()).map(ArrayShape::bytes).sum::<f64>()
    };
    entry.params().into_iter().map(of).sum()
}

/// How many of `n` microbatches each of some replicas runs, given the seconds that one takes for so many:
/// each goes to the replica that is done first with it, so the slowest takes as short as can be.
fn shared_out(n_replicas: usize, n: usize, secs: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let mut shares = vec![0; n_replicas];
    let mut next: Vec<f64> = (0..n_replicas).map(|at| secs(at, 1)).collect();
    for _ in 0..n {
        let first = (0..n_replicas).min_by(|&a, &b| next[a].total_cmp(&next[b])).expect("a replica");
        shares[first] += 1;
        next[first] = secs(first, shares[first] + 1);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::shared_out;

    #[test]
    fn replicas_get_microbatches_by_their_speed() {
        let shares = |secs: [f64; 3], n| shared_out(3, n, |at, n| secs[at] * n as f64);
        assert_eq!(shares([1.0, 1.0, 5.0], 11), [5, 5, 1]);
        assert_eq!(shares([1.0, 1.0, 9.0], 8), [4, 4, 0]);
        // A replica that is no faster for fewer microbatches gets none.
        assert_eq!(shared_out(2, 3, |at, n| if at == 0 { n as f64 } else { 9.0 }), [3, 0]);
    }
}
