//! The units of the chain that a pipeline cuts: spans of a text's positions, where equal layers stand for
//! many each its own.

use super::chain::Crossing;
use crate::layer_repeats::representative_layers::{Layer, Short};
use indexmap::IndexMap;
use phzc_ir::{InstrId, Module};
use rustc_hash::FxBuildHasher;
use std::ops::Range;

/// A program without equal layers is cut at no more places than this.
pub const MAX_UNITS: usize = 48;
/// What is computed again is divided where at most this many times as much crosses as at the places that are
/// this near.
const LOW: f64 = 1.25;
const NEAR: usize = 3;
/// Places in a layer are beside one another if less than a tenth of its time is between them.
const BESIDE: f64 = 0.8;
/// At so many places a layer is cut at most.
pub const CUTS_PER_LAYER: usize = 2;

/// The units of a text, and those of the whole chain.
#[derive(Clone)]
pub struct Units {
    /// Per unit of the text: its first position.
    pub starts: Vec<usize>,
    /// Per unit of the whole chain: the text's.
    pub of: Vec<usize>,
    /// Runs of the text's units between which little crosses: what one of them computes again it makes of
    /// what they hand on.
    pub runs: Vec<Range<usize>>,
    /// Layers that stand for more, in order.
    inner: Vec<Inner>,
}

/// A layer that stands for those in between of its row.
#[derive(Clone)]
struct Inner {
    row: usize,
    /// Its units in the text.
    layer: Range<usize>,
    n_between: usize,
}

/// Where the layers of a row are cut that are left: first, inner, inner, last.
struct Row {
    number: usize,
    /// Positions, each with whether that divides what is computed again.
    cuts: [Vec<(usize, bool)>; 4],
    n_between: usize,
}

impl Row {
    /// The cuts of a row, given the place in the text of every instruction of the short program; `None` where
    /// its layers do not follow one another.
    fn of(
        number: usize,
        (secs, crossings): (&[f64], &[Crossing]),
        short: &Short,
        place: &[usize],
    ) -> Option<Row> {
        // What is computed forward lies where it stands.
        let twins: IndexMap<usize, (InstrId, InstrId), FxBuildHasher> = short
            .twins(number)
            .filter(|(own, twin)| secs[place[own.index()]] > 0.0 && secs[place[twin.index()]] > 0.0)
            .map(|(own, twin)| (place[own.index()], (own, twin)))
            .collect();
        let (&first, &last) = twins.keys().min().zip(twins.keys().max())?;
        let beside = |id: InstrId, side: usize| Some(place[short.neighbours[id.index()][side]?.index()]);
        // A layer may end after the next one begins: it is cut before that.
        let next = beside(twins[&first].0, 1).filter(|next| (first..=last).contains(next));
        let layer = first..next.unwrap_or(last + 1);
        let layer: Vec<usize> = layer.filter(|at| twins.contains_key(at)).collect();
        let all = starts_of_layer(secs, crossings, layer);
        let row = |of: &dyn Fn(InstrId, InstrId) -> Option<usize>| -> Vec<(usize, bool)> {
            let cuts = all.iter().map(|(start, divides)| (twins[start], *divides));
            cuts.filter_map(|((own, twin), divides)| Some((of(own, twin)?, divides))).collect()
        };
        let cuts = [
            row(&|_, twin| beside(twin, 0)),
            row(&|_, twin| Some(place[twin.index()])),
            row(&|own, _| Some(place[own.index()])),
            row(&|own, _| beside(own, 1)),
        ];
        let starts: Vec<usize> = cuts.iter().flatten().map(|it| it.0).collect();
        let is_row = !all.is_empty() && is_ascending(&starts);
        is_row.then(|| Row { number, cuts, n_between: short.n_layers[number] - 4 })
    }

    /// Where it is cut first and last.
    fn ends(&self) -> [usize; 2] {
        let starts = || self.cuts.iter().flatten().map(|it| it.0);
        [starts().min(), starts().max()].map(|end| end.expect("a row has cuts"))
    }
}

impl Units {
    /// The units of a text that stands for itself: in each of some spans of equal time, from where least
    /// crosses.
    pub fn whole(secs: &[f64], crossings: &[Crossing]) -> Units {
        let all: Vec<usize> = (0..secs.len()).collect();
        let starts = starts(secs, crossings, &all, MAX_UNITS);
        let mut starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
        starts.dedup();
        Units { of: (0..starts.len()).collect(), runs: runs(&starts, crossings), starts, inner: Vec::new() }
    }

    /// The units of a plan of a short program: every layer of a row is cut at the same places.
    pub fn short(secs: &[f64], crossings: &[Crossing], short: &Short, text: &Module) -> Units {
        let by_name: IndexMap<&str, usize, FxBuildHasher> =
            text.entry().iter().map(|(id, instr)| (&*instr.name, id.index())).collect();
        let place: Vec<usize> =
            short.module.entry().instrs.iter().map(|instr| by_name[&*instr.name]).collect();
        let row = |number: usize| Row::of(number, (secs, crossings), short, &place);
        let Some(mut rows) = (0..short.n_layers.len()).map(row).collect::<Option<Vec<Row>>>() else {
            return Units::one();
        };
        rows.sort_by_key(|row| row.ends());
        // What is in no layer is cut into units that take as long.
        let unit_secs = |row: &Row| secs[row.cuts[1][0].0..row.cuts[2][0].0].iter().sum::<f64>();
        let least_secs = rows.iter().map(unit_secs).fold(f64::INFINITY, f64::min) / CUTS_PER_LAYER as f64;
        let after = rows.iter().map(|row| row.ends()[1] + 1);
        let until = rows.iter().map(|row| row.ends()[0]).chain([secs.len()]);
        let gaps = std::iter::once(0).chain(after).zip(until);
        let gaps = gaps.map(|(start, end)| match start < end {
            true => starts_of(secs, crossings, start..end, least_secs),
            false => Vec::new(),
        });
        Units::of_rows(&rows, &gaps.collect::<Vec<_>>())
    }

    /// Units from where the layers that are left are cut, and what is before, between and after rows.
    fn of_rows(rows: &[Row], gaps: &[Vec<usize>]) -> Units {
        let mut all = vec![(0, true)];
        let (mut inner, mut of, mut next) = (Vec::new(), Vec::new(), 0);
        for (at, gap) in gaps.iter().enumerate() {
            all.extend(gap.iter().map(|&start| (start, true)));
            let Some(row) = rows.get(at) else { break };
            let first = all.len() + row.cuts[0].len();
            let layer = first..first + row.cuts[1].len();
            of.extend(next..layer.end);
            (0..row.n_between).for_each(|_| of.extend(layer.clone()));
            next = layer.end;
            inner.push(Inner { row: row.number, layer, n_between: row.n_between });
            all.extend(row.cuts.iter().flatten());
        }
        of.extend(next..all.len());
        let starts: Vec<usize> = all.iter().map(|it| it.0).collect();
        if !is_ascending(&starts) {
            return Units::one();
        }
        let divided = (1..all.len()).filter(|&unit| all[unit].1);
        let runs = ranges(std::iter::once(0).chain(divided).chain([all.len()]));
        Units { starts, of, runs, inner }
    }

    /// The same units in a text where they begin at other places.
    pub fn at(&self, starts: Vec<usize>) -> Units {
        Units { starts, ..self.clone() }
    }

    /// All of a text as one unit.
    fn one() -> Units {
        Units { starts: vec![0], of: vec![0], runs: std::iter::once(0..1).collect(), inner: Vec::new() }
    }

    /// The runs of the whole chain, and which of the text's each is like.
    pub fn whole_runs(&self) -> Vec<(Range<usize>, usize)> {
        let kind = |of: usize| self.runs.iter().position(|run| run.start == of);
        let starts: Vec<(usize, usize)> =
            self.of.iter().enumerate().filter_map(|(unit, &of)| Some((unit, kind(of)?))).collect();
        let all = ranges(starts.iter().map(|it| it.0).chain([self.of.len()]));
        all.into_iter().zip(starts).map(|(run, (_, kind))| (run, kind)).collect()
    }

    /// The unit of the whole chain in which an instruction of the whole program is whose stand-in is in unit
    /// `unit` of the text.
    pub fn unit(&self, unit: usize, layer: Option<Layer>) -> usize {
        let before = |it: &Inner| match layer.filter(|layer| layer.row == it.row) {
            Some(layer) => layer.at.saturating_sub(1).min(it.n_between),
            None if unit < it.layer.end => 0,
            None => it.n_between,
        };
        unit + self.inner.iter().map(|it| before(it) * it.layer.len()).sum::<usize>()
    }
}

fn is_ascending(all: &[usize]) -> bool {
    all.windows(2).all(|pair| pair[0] < pair[1])
}

/// Divides units where no more crosses than close by.
fn runs(starts: &[usize], crossings: &[Crossing]) -> Vec<Range<usize>> {
    let up = |unit: usize| crossings[starts[unit]].up;
    let is_low = |&unit: &usize| {
        let beside = unit.saturating_sub(NEAR).max(1)..(unit + NEAR + 1).min(starts.len());
        beside.into_iter().all(|other| up(unit) <= LOW * up(other))
    };
    ranges(std::iter::once(0).chain((1..starts.len()).filter(is_low)).chain([starts.len()]))
}

/// What lies between cuts.
fn ranges(cuts: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let cuts: Vec<usize> = cuts.collect();
    cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Where a layer is cut, in order: at its waist, and of the places where about as little crosses the one
/// nearest to half a layer from there. If that is beside it, where least crosses in the other half, which
/// divides no run.
fn starts_of_layer(secs: &[f64], crossings: &[Crossing], mut layer: Vec<usize>) -> Vec<(usize, bool)> {
    let Some(waist) = waist(secs, crossings, &layer) else { return Vec::new() };
    layer.rotate_left(waist);
    let second = half_on(secs, crossings, &layer).map(|at| (at, true)).or_else(|| {
        let other = starts(secs, crossings, &layer, CUTS_PER_LAYER).last();
        other.filter(|&at| at != layer[0]).map(|at| (at, false))
    });
    let mut found: Vec<(usize, bool)> = std::iter::once((layer[0], true)).chain(second).collect();
    found.sort_unstable();
    found
}

/// Where in a layer least crosses; of several such places the one behind what takes longest.
fn waist(secs: &[f64], crossings: &[Crossing], layer: &[usize]) -> Option<usize> {
    let rank = |index: usize| {
        let before = layer[(index + layer.len() - 1) % layer.len()];
        (crossings[layer[index]].both(), -secs[before])
    };
    let ranked = (0..layer.len()).map(|index| (rank(index), index));
    ranked.min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, index)| index)
}

/// The place nearest to half a layer from its first where about as little crosses, unless it is beside that.
fn half_on(secs: &[f64], crossings: &[Crossing], layer: &[usize]) -> Option<usize> {
    let half = 0.5 * layer.iter().map(|&at| secs[at]).sum::<f64>();
    let (mut best, mut done): (Option<(f64, usize)>, f64) = (None, 0.0);
    for &at in layer {
        let off = (done - half).abs();
        let is_low = crossings[at].both() <= LOW * crossings[layer[0]].both();
        if is_low && off < BESIDE * half && best.is_none_or(|(best, _)| off < best) {
            best = Some((off, at));
        }
        done += secs[at];
    }
    best.map(|(_, at)| at)
}

/// The starts of units of some positions that take so long each.
fn starts_of(secs: &[f64], crossings: &[Crossing], positions: Range<usize>, unit_secs: f64) -> Vec<usize> {
    let n = secs[positions.clone()].iter().sum::<f64>() / unit_secs;
    let all: Vec<usize> = positions.collect();
    starts(secs, crossings, &all, (n as usize).min(MAX_UNITS)).collect()
}

/// In each of `n` spans of equal time of some positions: where least crosses.
fn starts(
    secs: &[f64],
    crossings: &[Crossing],
    positions: &[usize],
    n: usize,
) -> impl Iterator<Item = usize> {
    let total: f64 = positions.iter().map(|&at| secs[at]).sum();
    let positions = if n > 0 { positions } else { &[] };
    let mut best: Vec<Option<usize>> = vec![None; n];
    let (mut done, is_inside) = (0.0, positions.first().is_some_and(|&first| first > 0));
    for &at in positions {
        let span = ((done / total * n as f64) as usize).min(n.saturating_sub(1));
        let is_better = best[span].is_none_or(|other| crossings[at].both() < crossings[other].both());
        if (is_inside || done > 0.0) && done < total && is_better {
            best[span] = Some(at);
        }
        done += secs[at];
    }
    best.into_iter().flatten()
}

#[cfg(test)]
mod tests;
