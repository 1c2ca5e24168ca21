//! Closer bounds of the stages that a node's bound rests on.
//!
//! ```text
//! the stages of a plan by their bounds -> each solved for itself -> the least cap at which there still is one -> its stages ...
//! ```

use super::search::WIDTH;
use super::{Side, Solver, Span, Stages};
use indexmap::IndexSet;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::sync::Mutex;

/// How often the stages of a node are solved.
const MAX_REFINED: usize = 300;

/// The stages that were asked to be solved.
pub(super) type Asked = Mutex<IndexSet<Span, FxBuildHasher>>;

/// What solving brought.
pub(super) struct Refined {
    /// No plan has all its stages below this.
    pub low: f64,
    /// The best plan of solved stages.
    pub best: Option<(f64, Vec<Span>)>,
}

impl<S: Stages> Solver<'_, S> {
    /// Solves stages until a plan below `high` is made of solved ones, or none is left below `cap`; none is below `low`.
    pub(super) fn refine(&self, n_stages: usize, [mut low, mut high]: [f64; 2], cap: f64) -> Refined {
        let mut best: Option<(f64, Vec<Span>)> = None;
        for _ in 0..MAX_REFINED {
            if low >= cap {
                break;
            }
            let Some((_, spans)) = self.least_sum(n_stages, high, Side::Lower, None) else {
                (low, high) = (high, high * (1.0 + WIDTH));
                continue;
            };
            let fresh: Vec<&Span> = spans.iter().filter(|span| self.is_fresh(span)).collect();
            fresh.par_iter().for_each(|span| self.solve(span, cap));
            let (is_solved, cost) = (fresh.is_empty(), self.cost(&spans, Side::Upper));
            if best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, spans));
            }
            if is_solved {
                break;
            }
        }
        Refined { low, best }
    }

    fn is_fresh(&self, span: &Span) -> bool {
        let twin = self.stages.twin(span.end).of(span);
        super::memo::lock(&self.asked).insert(twin)
    }

    fn solve(&self, span: &Span, cap: f64) {
        let twin = self.stages.twin(span.end).of(span);
        let [lower_ms, upper_ms] = self.stages.refined(&twin, cap);
        let rows = self.rows(span, Side::Lower);
        rows.set(span, lower_ms.max(self.in_rows(&rows, *span, Side::Lower)));
        self.rows(span, Side::Upper).set(span, upper_ms);
    }
}
