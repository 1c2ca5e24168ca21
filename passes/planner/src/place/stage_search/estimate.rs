//! What cuts of a sketched program take, before any text is written.

use super::{Sketch, Stages};
use crate::place::chain::{Gains, Layers};
use crate::place::cut::Chain;
use crate::place::evaluate_candidate::Draft;
use crate::place::interleave::CHUNKS;
use crate::place::limits::Limits;
use phzc_cost::Schedule;
use phzc_plan::derive::derive;
use std::sync::Arc;

/// The best cut in some layouts, as the chain has it.
pub struct Estimate {
    /// Seconds of a step; infinite where none fits.
    pub secs: f64,
    /// The number of microbatches that would be better, if the layouts do not allow it.
    pub n_microbatches: Option<usize>,
    pub n_chunks: usize,
    /// The number of microbatches of that cut.
    pub n_cut_for: usize,
    /// The numbers of microbatches that the layouts allow.
    pub allowed: Vec<usize>,
    pub gains: Arc<Gains>,
}

impl Stages<'_> {
    /// What the chain takes the best cut in layouts for so many microbatches to take, by how many stages each
    /// device group holds.
    pub fn estimate(&self, draft: &Draft, n_microbatches: usize, chunks: &[usize]) -> Estimate {
        let problem = self.problem;
        let mut layers = self.layers(draft);
        let allowed = problem.counts_for(&draft.text, layers.facts()).unwrap_or_default();
        let usable = problem.cluster.accelerator.usable_bytes();
        let estimate = |&n_chunks: &usize| {
            let (n_stages, limits) = (self.n_stages * n_chunks, Limits::new(usable));
            let problem = problem.chunked(n_chunks);
            let (fastest, wanted) = problem.fastest(&mut layers, n_stages, &limits, &allowed);
            let (secs, n_cut_for) =
                fastest.map_or((f64::INFINITY, n_microbatches), |it| (it.0.step_secs, it.1));
            (secs, wanted, n_chunks, n_cut_for)
        };
        let all = chunks.iter().map(estimate);
        let least = all.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a group holds a stage");
        let (secs, n_microbatches, n_chunks, n_cut_for) = least;
        Estimate { secs, n_microbatches, n_chunks, n_cut_for, allowed, gains: Arc::new(layers.gains()) }
    }

    /// The best cut of those with several stages per device group, if it takes less than `best_secs`: its
    /// seconds, and how many stages.
    pub fn interleaved(&self, sketch: &Sketch, best_secs: f64) -> Option<(f64, usize)> {
        let (problem, draft) = (self.problem, sketch.draft());
        let mut layers = self.layers(&draft);
        let asked = || problem.counts_for(&draft.text, layers.facts()).unwrap_or_default();
        let allowed = draft.allowed.clone().unwrap_or_else(asked);
        let mut open: Vec<(f64, usize, usize, Chain)> = Vec::new();
        for count in allowed {
            let plain = problem.chain(&mut layers, count);
            for n_chunks in CHUNKS {
                let chain = Chain { schedule: Schedule::Interleaved(n_chunks), ..plain.clone() };
                open.push((chain.floor_secs(self.n_stages * n_chunks, count), count, n_chunks, chain));
            }
        }
        open.sort_by(|a, b| a.0.total_cmp(&b.0));
        let limits = Limits::new(problem.cluster.accelerator.usable_bytes());
        let (mut best, mut found) = (best_secs, None);
        for (floor, count, n_chunks, chain) in open {
            if floor >= best {
                break;
            }
            let cut = problem.cut_within(&mut layers, chain, (self.n_stages * n_chunks, count), &limits);
            if let Some(cut) = cut.filter(|cut| cut.step_secs < best) {
                (best, found) = (cut.step_secs, Some((cut.step_secs, n_chunks)));
            }
        }
        found
    }

    /// The chain of a draft.
    fn layers<'t>(&'t self, draft: &'t Draft) -> Layers<'t> {
        let facts = derive(&draft.text).expect("the header's notes are the planner's own");
        let (cluster, short) = (self.problem.cluster, self.problem.subject.short.as_ref());
        Layers::new(&draft.text, facts, cluster, short).knowing(draft.gains.as_deref())
    }
}
