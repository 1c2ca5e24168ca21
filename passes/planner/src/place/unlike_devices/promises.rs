//! What pipelines over several kinds of devices may take, and in which orders of kinds.

use super::{Kinds, SLACK, Sizes};

/// What a pipeline may take.
pub(super) struct Promise {
    pub secs: f64,
    /// The place of its layouts.
    pub layouts: usize,
    /// Its kinds in the order of its stages.
    pub order: Vec<usize>,
}

/// What pipelines in some layouts promise.
pub(super) struct Promises<'p, 's, 'a> {
    pub kinds: &'p Kinds<'a>,
    pub layouts: usize,
    pub sizes: &'p mut Sizes<'s>,
    pub found: Vec<Promise>,
}

impl Promises<'_, '_, '_> {
    /// Of the fastest kind with every other one, before it or behind, and of the best of those with more and
    /// more kinds, each where it promises most.
    pub fn grown(mut self) -> Vec<Promise> {
        let kinds = self.kinds.floors.fastest_first();
        let kinds: Vec<usize> = kinds.into_iter().filter(|&kind| self.is_laid_out(kind)).collect();
        for &kind in kinds.iter().skip(1) {
            self.insert(&kinds[..1], kind);
        }
        for &kind in kinds.iter().skip(1) {
            let best = self.found.iter().min_by(|a, b| a.secs.total_cmp(&b.secs));
            let order = best.map(|best| best.order.clone()).unwrap_or_default();
            if !order.is_empty() && !order.contains(&kind) {
                self.insert(&order, kind);
            }
        }
        self.found
    }

    fn n_layers(&self) -> usize {
        self.sizes.all[0].1.n_layers()
    }

    fn is_laid_out(&self, kind: usize) -> bool {
        self.sizes.all.iter().any(|(group, _, _)| group.kind == kind)
    }

    /// Looks at all places of one kind more.
    fn insert(&mut self, order: &[usize], kind: usize) {
        for place in 0..=order.len() {
            let order = [&order[..place], &[kind], &order[place..]].concat();
            let best_secs = self.found.iter().map(|it| it.secs).fold(f64::INFINITY, f64::min);
            self.sizes.to_beat_secs = SLACK * best_secs;
            let floor_secs = self.kinds.floors.of(&order);
            let is_possible =
                self.kinds.wanted == 0 || (order.len()..=self.n_layers()).contains(&self.kinds.wanted);
            if self.kinds.all.control.ends() || floor_secs >= best_secs || !is_possible {
                return;
            }
            self.kinds.on(self.sizes, &order);
            let promised = self.kinds.all.promised(self.sizes);
            let promise = |secs| Promise { secs, layouts: self.layouts, order };
            self.found.extend(promised.map(promise));
        }
    }
}
