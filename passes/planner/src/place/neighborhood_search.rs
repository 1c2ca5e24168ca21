//! The layouts that promise most, tried in other ways than the chain takes to be best: it is for 1F1B, and a
//! percent or two off.

use super::candidate::Evaluated;
use super::schedule::Wanted;
use super::stage_lower_bounds::LowerBounds;
use super::stage_search::Sketch;
use super::{LONG, Problem, Recompute};
use phzc_cost::Schedule;

/// How many layouts are tried otherwise at least, and of shorter texts: as many as have so many instructions
/// together.
const MIN_OTHERWISE: usize = 2;
const MAX_INSTRS: usize = 20_000;

/// A problem with less open.
pub struct Neighborhood<'a> {
    /// With nothing and with all computed again.
    again: Vec<Problem<'a>>,
    /// Cut for zero-bubble.
    filled: Vec<Problem<'a>>,
    /// With one number of microbatches.
    counts: Vec<Problem<'a>>,
}

impl<'a> Neighborhood<'a> {
    pub(super) fn of(problem: &Problem<'a>) -> Neighborhood<'a> {
        let is_open = problem.recompute == Recompute::Auto;
        let recomputes: &[Recompute] = if is_open { &[Recompute::Never, Recompute::All] } else { &[] };
        let again = recomputes.iter().map(|&recompute| Problem { recompute, ..problem.clone() });
        let is_filled = |of: &&Problem| of.schedule == Wanted::Fastest && of.recompute != Recompute::All;
        let fill = |of: &Problem<'a>| Problem { schedule: Wanted::This(Schedule::ZeroBubble), ..of.clone() };
        let again: Vec<Problem<'a>> = again.collect();
        let filled = std::iter::once(problem).chain(&again).filter(is_filled).map(fill).collect();
        let counts =
            problem.counts.iter().map(|&count| Problem { counts: vec![count], ..problem.clone() }).collect();
        Neighborhood { again, filled, counts }
    }

    /// Those with the next numbers of microbatches below and above this one.
    fn beside(&self, n_microbatches: usize) -> Vec<&Problem<'a>> {
        let at = self.counts.iter().position(|it| it.counts[0] == n_microbatches);
        let beside = |at: usize| {
            [at.checked_sub(1), Some(at + 1)]
                .into_iter()
                .flatten()
                .filter_map(|at| self.counts.get(at))
                .collect()
        };
        at.map(beside).unwrap_or_default()
    }
}

impl Problem<'_> {
    /// The sketches that promise most with nothing and with all computed again, with other numbers of stages
    /// per device group, and their numbers of stages with half and twice as many microbatches as the best
    /// plan has: chains are for 1F1B, and a percent or two off.
    pub(super) fn otherwise<'s>(
        &self,
        others: &'s Neighborhood<'s>,
        sketches: &[Sketch<'s>],
        tried: &[Evaluated],
        bounds: &mut LowerBounds,
    ) -> Vec<Evaluated> {
        let n_instrs = self.sharded.entry().instrs.len();
        let most = if n_instrs <= LONG { MIN_OTHERWISE.max(MAX_INSTRS / n_instrs) } else { 0 };
        let some = &sketches[..sketches.len().min(most)];
        let best = tried.iter().min_by(|a, b| a.time_secs().total_cmp(&b.time_secs()));
        let counts =
            best.and_then(Evaluated::n_microbatches).map(|count| others.beside(count)).unwrap_or_default();
        let again = |sketch: &Sketch<'s>| {
            let filled = others.filled.iter().filter(|_| sketch.may_fill());
            others.again.iter().chain(filled).map(|other| sketch.of(other)).collect::<Vec<_>>()
        };
        let recounted = |sketch: &Sketch<'s>| {
            let all = counts.iter().filter(|_| sketch.is_cut());
            all.filter_map(|other| other.sketched(sketch.n_stages(), f64::INFINITY).ok())
                .flat_map(|it| it.found)
                .collect::<Vec<_>>()
        };
        let mut found: Vec<Evaluated> = Vec::new();
        for sketch in some {
            let beside = [again(sketch), recounted(sketch), sketch.rechunked()].concat();
            self.control.know(beside.len());
            for sketch in beside {
                let known =
                    tried.iter().chain(&found).map(Evaluated::time_secs).fold(f64::INFINITY, f64::min);
                let evaluated = sketch.tried(known);
                if evaluated.time_secs() < known {
                    bounds.learn(self, &evaluated);
                }
                found.push(evaluated);
            }
        }
        found
    }
}
