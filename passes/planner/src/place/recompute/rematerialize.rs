//! What it really takes to compute again: the text is rewritten and priced.
//!
//! Sums of instructions' seconds are off both ways. A copy that fuses with its reader costs no memory
//! traffic, and a value that nobody saves is often not written at all: then computing again is faster than
//! reading.

use super::Point;
use crate::recomputation::{Marks, rewrite};
use phzc_cost::Cluster;
use phzc_ir::{InstrId, Module};
use phzc_plan::derive::{Facts, derive, planned_comps, with_callees};
use phzc_plan::report::price::StagePrice;
use std::collections::BTreeMap;

/// Which choices are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// What is faster than to save all.
    #[default]
    Gains,
    /// What saves memory, too.
    All,
}

/// What runs can compute again, and texts in which they do.
pub struct Again {
    /// Per run: its choices, from none to all, each saving more per second than the next adds.
    pub points: Vec<Vec<Point>>,
    /// Per run and choice: the text in which it is taken, 0 being the one without any.
    text_of: Vec<Vec<usize>>,
    /// Per instruction of the text's entry: its run.
    run_of: Vec<usize>,
    texts: Vec<Text>,
    /// The number of microbatches that the choices were picked for.
    n_first: usize,
    /// Per number of microbatches that was asked for: seconds of one, per text and run.
    by_text: BTreeMap<usize, Vec<Vec<f64>>>,
}

/// A text in which every run computes something again.
struct Text {
    module: Module,
    facts: Facts,
    /// Per computation and instruction: the run.
    run_of: Vec<Vec<usize>>,
}

impl Again {
    /// Choices that have not been tried; of many, some.
    pub fn new(points: &[Vec<Point>], run_of: Vec<usize>, asked: Asked) -> Again {
        let points: Vec<Vec<Point>> = points.iter().map(|points| thinned(points, asked)).collect();
        let text_of = points.iter().map(|points| (0..points.len()).collect()).collect();
        Again { points, text_of, run_of, texts: Vec::new(), n_first: 1, by_text: BTreeMap::new() }
    }

    /// The same without its texts: they take megabytes.
    pub fn without_texts(&self) -> Again {
        let Again { points, text_of, run_of, n_first, by_text, .. } = self;
        let (points, text_of, run_of) = (points.clone(), text_of.clone(), run_of.clone());
        Again { points, text_of, run_of, texts: Vec::new(), n_first: *n_first, by_text: by_text.clone() }
    }

    /// The number of microbatches to begin anew with, where seconds for so many are not known and the texts
    /// are gone.
    pub fn forgotten(&self, n_microbatches: usize) -> Option<usize> {
        let is_here = !self.texts.is_empty() || self.n_depths() <= 1;
        let is_known = is_here || self.by_text.contains_key(&n_microbatches);
        (!is_known).then_some(self.n_first)
    }

    /// The most choices that a run has.
    pub fn n_depths(&self) -> usize {
        self.points.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Tries the next choice of every run: the text as it is then.
    pub fn tried(&mut self, plain: &Module, marks: &Marks) {
        let mut module = plain.clone();
        let run = |reader: InstrId| self.run_of[reader.index()];
        let run_of = rewrite(&mut module, marks).into_iter().map(run).collect();
        let facts = derive(&module).expect("the header's notes are the planner's own");
        self.texts.push(Text { run_of: with_callees(&module, run_of), module, facts });
    }

    /// Per run and choice: seconds of one microbatch, forward and backward.
    pub fn secs(
        &mut self,
        (module, facts): (&Module, &Facts),
        cluster: &Cluster,
        n_microbatches: usize,
    ) -> Vec<Vec<f64>> {
        if !self.by_text.contains_key(&n_microbatches) {
            let n_runs = self.points.len();
            let plain = secs_of((module, facts), cluster, &with_callees(module, self.run_of.clone()), n_runs);
            let tried = self.texts.iter_mut().map(|text| {
                text.facts.header.n_microbatches = n_microbatches;
                secs_of((&text.module, &text.facts), cluster, &text.run_of, n_runs)
            });
            self.by_text.insert(n_microbatches, std::iter::once(plain).chain(tried).collect());
        }
        let by_text = &self.by_text[&n_microbatches];
        let of_run =
            |(run, texts): (usize, &Vec<usize>)| texts.iter().map(|&text| by_text[text][run]).collect();
        self.text_of.iter().enumerate().map(of_run).collect()
    }

    /// Drops choices that others, a part of the runs each, beat.
    pub fn keep_hulls(&mut self, text: (&Module, &Facts), cluster: &Cluster, n_microbatches: usize) {
        self.n_first = n_microbatches;
        let secs = self.secs(text, cluster, n_microbatches);
        for (run, secs) in secs.iter().enumerate() {
            let at = |choice: usize| (self.points[run][choice].saved_bytes, secs[choice]);
            let kept = lower_hull(secs.len(), at);
            self.points[run] = kept.iter().map(|&choice| self.points[run][choice].clone()).collect();
            self.text_of[run] = kept;
        }
    }
}

/// So many choices of a run are tried at most: each takes a text.
const MAX_TRIED: usize = 4;
/// So many are its first: none, what seems fastest, and the next, which may be.
const FIRST: usize = 3;

/// None, the fastest where that is another, the next, and, of all, evenly many on to the last.
fn thinned(points: &[Point], asked: Asked) -> Vec<Point> {
    let most = if asked == Asked::All { MAX_TRIED } else { FIRST };
    let n = points.len().min(most);
    let n_later = n.saturating_sub(FIRST).max(1);
    let place =
        |at: usize| if at < FIRST { at } else { at + (points.len() - n) * (at + 1 - FIRST) / n_later };
    (0..n).map(|at| points[place(at)].clone()).collect()
}

/// Of points in the order of their first figure: those on the lower hull, the first and the last among them.
fn lower_hull(n: usize, at: impl Fn(usize) -> (f64, f64)) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::new();
    for next in 0..n {
        while let [.., before, last] = hull[..] {
            let ((x0, y0), (x1, y1), (x2, y2)) = (at(before), at(last), at(next));
            if (y1 - y0) * (x2 - x0) < (y2 - y0) * (x1 - x0) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

/// Seconds of one microbatch of each run.
fn secs_of(
    (module, facts): (&Module, &Facts),
    cluster: &Cluster,
    run_of: &[Vec<usize>],
    n_runs: usize,
) -> Vec<f64> {
    let mut prices = vec![StagePrice::default(); n_runs];
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            prices[run_of[comp.index()][id.index()]].instr(module, facts, cluster, (comp, id, instr));
        }
    }
    prices.iter().map(|price| price.forward_secs + price.backward_secs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_above_the_line_between_two_others_is_dropped() {
        let points = [(0.0, 5.0), (1.0, 6.0), (2.0, 3.0), (3.0, 3.5), (4.0, 9.0)];
        assert_eq!(lower_hull(points.len(), |at| points[at]), [0, 2, 3, 4]);
        assert_eq!(lower_hull(1, |_| (0.0, 1.0)), [0]);
    }

    #[test]
    fn of_many_choices_none_the_first_two_and_the_last_are_tried() {
        let point = |secs: f64| Point { secs, ..Point::default() };
        let tried = |n: usize, asked: Asked| {
            let points: Vec<Point> = (0..n).map(|at| point(at as f64)).collect();
            thinned(&points, asked).iter().map(|point| point.secs as usize).collect::<Vec<_>>()
        };
        assert_eq!([tried(2, Asked::All), tried(3, Asked::All)], [vec![0, 1], vec![0, 1, 2]]);
        assert_eq!([tried(4, Asked::All), tried(8, Asked::All)], [vec![0, 1, 2, 3], vec![0, 1, 2, 7]]);
        assert_eq!([tried(2, Asked::Gains), tried(8, Asked::Gains)], [vec![0, 1], vec![0, 1, 2]]);
    }
}
