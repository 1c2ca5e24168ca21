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
    /// With one number of microbatches, and cut for zero-bubble too.
    counts: Vec<(Problem<'a>, Option<Problem<'a>>)>,
}

impl<'a> Neighborhood<'a> {
    pub(super) fn of(problem: &Problem<'a>) -> Neighborhood<'a> {
        let is_open = problem.recompute == Recompute::Auto;
        let recomputes: &[Recompute] = if is_open { &[Recompute::Never, Recompute::All] } else { &[] };
        let again: Vec<Problem<'a>> =
            recomputes.iter().map(|&recompute| Problem { recompute, ..problem.clone() }).collect();
        let filled = std::iter::once(problem).chain(&again).filter_map(filled_of).collect();
        let one = |&count: &usize| {
            let of = Problem { counts: vec![count], ..problem.clone() };
            let filled = filled_of(&of);
            (of, filled)
        };
        Neighborhood { again, filled, counts: problem.counts.iter().map(one).collect() }
    }

    /// A sketch's number of stages with these many microbatches and those that it is cut for, half and twice
    /// as many.
    fn recounted<'s>(&'s self, sketch: &Sketch<'s>, n_microbatches: Option<usize>) -> Vec<Sketch<'s>> {
        let own = sketch.n_cut_for();
        let at = |count: &usize| self.counts.iter().position(|it| it.0.counts[0] == *count);
        let places: Vec<usize> = [n_microbatches, Some(own)].iter().flatten().filter_map(at).collect();
        let mut all = Vec::new();
        for (at, (other, filled)) in self.counts.iter().enumerate().filter(|_| sketch.is_cut()) {
            let is_near = places.iter().any(|place| place.abs_diff(at) <= 1);
            if other.counts[0] == own || !is_near {
                continue;
            }
            let found = other.sketched(sketch.n_stages(), f64::INFINITY).map(|it| it.found);
            for found in found.unwrap_or_default() {
                all.extend(filled.iter().filter(|_| found.may_fill()).map(|filled| found.of(filled)));
                all.push(found);
            }
        }
        all
    }
}

/// The same cut for zero-bubble, where schedules are open.
pub(super) fn filled_of<'a>(of: &Problem<'a>) -> Option<Problem<'a>> {
    let is_open = of.schedule == Wanted::Fastest && of.recompute != Recompute::All;
    is_open.then(|| Problem { schedule: Wanted::This(Schedule::ZeroBubble), ..of.clone() })
}

impl Problem<'_> {
    /// The sketches that promise most with nothing and with all computed again, with other numbers of stages
    /// per device group, and their numbers of stages with as many microbatches as the best plan has, half
    /// and twice as many, and half and twice as many as they were cut for: chains are for 1F1B, and a percent
    /// or two off.
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
        let best_count = best.and_then(Evaluated::n_microbatches);
        // Where nothing fits, what recomputes nothing or fills bubbles needs more memory still.
        let has_plan = best.is_some_and(|best| best.time_secs().is_finite());
        let again = |sketch: &Sketch<'s>| {
            let filled = others.filled.iter().filter(|_| sketch.may_fill());
            let all = others.again.iter().chain(filled);
            let all = all.filter(|other| has_plan || other.recompute == Recompute::All);
            all.map(|other| sketch.of(other)).collect::<Vec<_>>()
        };
        let mut found: Vec<Evaluated> = Vec::new();
        for sketch in some {
            let beside = [again(sketch), others.recounted(sketch, best_count), sketch.rechunked()].concat();
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
