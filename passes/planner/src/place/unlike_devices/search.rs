//! The search over all plans: on one kind of devices alone, and pipelines and replicas over several kinds.

use super::super::{Worth, heterogeneous_stages::Sizes};
use super::alone::Alone;
use super::promises::Promise;
use super::replicas::Layout;
use super::{Kinds, Known, MARGIN, best_of, no_plan};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Result};
use phzc_pass::pass::{Context, Interrupt};

/// How many pipelines, those that promise most, are written as texts.
const MAX_WRITTEN: usize = 6;
/// Pipelines are written before plans on one kind are made if one promises no more than so many times the
/// least seconds on the fastest kind alone.
const NEAR: f64 = 1.05;
/// Replicas with smaller microbatches are tried if others take less than so many times the best plan's
/// seconds.
const NEARLY: f64 = 1.08;

/// The search over plans on the whole cluster.
pub(super) struct Search<'a> {
    pub kinds: Kinds<'a>,
    pub alone: Alone<'a>,
    pub cluster: &'a Cluster,
    pub progress: &'a (dyn Fn(&str) + Sync),
    pub interrupt: Interrupt<'a>,
    /// Whether replicas over several kinds are allowed.
    pub with_replicas: bool,
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Found {
    best: Option<Known>,
    /// Why the fastest kind alone cannot hold the program.
    refusal: Option<Diagnostic>,
    /// What was said of plans on one kind that were the best so far.
    warnings: Vec<Diagnostic>,
    /// The best pipeline of which some stages have no products: other plans are worth more, if there are any.
    idle: Option<Known>,
}

impl Found {
    fn secs(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.time_secs)
    }

    fn and(self, other: Found) -> Found {
        Found {
            best: best_of(self.best, other.best),
            refusal: self.refusal.or(other.refusal),
            warnings: [self.warnings, other.warnings].concat(),
            idle: best_of(self.idle, other.idle),
        }
    }
}

impl Search<'_> {
    /// The best plan of all, and what to warn of. Where pipelines may be the best they come first: what must
    /// take less than these need not be looked at for long.
    ///
    /// # Errors
    /// Why there is none.
    pub fn best(&self, sizes: &mut [Sizes], promised: &[Promise]) -> Result<(Known, Vec<Diagnostic>)> {
        let promised = &promised[..promised.len().min(MAX_WRITTEN)];
        let fastest = self.kinds.floors.fastest_first()[0];
        let near_secs = NEAR * self.kinds.floors.alone_secs(fastest);
        let found = match promised.first().is_some_and(|first| first.secs <= near_secs) {
            true => {
                let several = self.over_several(sizes, promised, f64::INFINITY);
                let best_secs = several.secs();
                several.and(self.on_each(best_secs))
            }
            false => {
                let alone = self.on_each(f64::INFINITY);
                let best_secs = alone.secs();
                alone.and(self.over_several(sizes, promised, best_secs))
            }
        };
        let best_secs = found.secs();
        let replicas = self.over_replicas(sizes, best_secs);
        let Found { best, refusal, warnings, idle } = found.and(replicas);
        let best = best.or(idle).ok_or_else(|| no_plan(&self.cluster.name, refusal))?;
        Ok((best, warnings))
    }

    /// Plans for each kind alone that take less than some seconds.
    fn on_each(&self, best_secs: f64) -> Found {
        let mut found = Found::default();
        for kind in self.kinds.floors.fastest_first() {
            let nodes = self.cluster.kinds().nth(kind).expect("a kind of the cluster").alone();
            let best_secs = best_secs.min(found.secs());
            if best_secs <= self.kinds.floors.alone_secs(kind) {
                continue;
            }
            // The bound of all kinds together is what is said in the end.
            let bound_secs = self.kinds.floors.secs().min(best_secs);
            let worth = Worth { secs: best_secs, bound_secs };
            let mut own = self.context(&nodes);
            match self.alone.planned(kind, worth, &mut own) {
                Ok(known) if known.time_secs < best_secs => {
                    found.warnings.extend(own.warnings);
                    found.best = Some(known);
                }
                Ok(_) => {}
                Err(error) => found.refusal = found.refusal.take().or(Some(error)),
            }
        }
        found
    }

    fn context<'c>(&'c self, nodes: &'c Cluster) -> Context<'c> {
        Context { progress: self.progress, interrupt: self.interrupt, ..Context::new(nodes) }
    }

    /// Replicas over several kinds, each with microbatches by its speed, if they may take less than some
    /// seconds.
    fn promising(&self, sizes: &mut [Sizes], best_secs: f64) -> Option<Layout> {
        (self.progress)("place: replicas over several kinds of devices");
        self.kinds.replicas(sizes, best_secs)
    }

    /// Plans replicas; smaller microbatches while these are about as fast as the best plan.
    fn over_replicas(&self, sizes: &mut [Sizes], mut best_secs: f64) -> Found {
        let mut found = Found::default();
        let mut next = if self.with_replicas { self.promising(sizes, best_secs) } else { None };
        while let Some(layout) = next.take().filter(|layout| layout.least_secs() < best_secs) {
            if self.kinds.all.control.ends() {
                break;
            }
            let Alone { options, module, .. } = self.alone;
            let mut own = self.context(self.cluster);
            let replicated = self.kinds.replicated(&layout, (options, module), best_secs, &mut own);
            let Some(known) = replicated else { break };
            next = self.kinds.finer(&layout).filter(|_| known.time_secs < NEARLY * best_secs);
            if known.time_secs < best_secs {
                best_secs = known.time_secs;
                found.best = Some(known);
            }
        }
        found
    }

    /// Plans pipelines over several kinds that take less than some seconds, those that promise most first.
    fn over_several(&self, sizes: &mut [Sizes], promised: &[Promise], best_secs: f64) -> Found {
        let mut found = Found::default();
        for promise in promised {
            let to_beat = (1.0 - MARGIN) * best_secs.min(found.secs());
            if promise.secs < to_beat && self.kinds.floors.of(&promise.order) < to_beat {
                match self.kinds.written(&mut sizes[promise.layouts], promise, to_beat) {
                    Some((true, known)) => found.best = Some(known),
                    Some((false, known)) => found.idle = best_of(found.idle.take(), Some(known)),
                    None => {}
                }
            }
        }
        found
    }
}
