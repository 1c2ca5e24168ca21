//! The chain that a pipeline cuts: the instructions of a sharded program in forward order, gathered into
//! layers.
//!
//! All figures are those of the text: what a layer takes is what [`phzc_plan::report`] says its instructions
//! take.

mod bytes;
mod crossings;

pub use crossings::{Crossing, crossings};

use super::cut::{Chain, Cut, Level};
use super::position::positions;
use super::recompute::rematerialize::{Again, Asked};
use super::recompute::{Point, is_free, points};
use super::units::Units;
use crate::layer_repeats::representative_layers::{Layer, Short};
use crate::recomputation::Marks;
use indexmap::IndexMap;
use phzc_cost::{Cluster, Schedule};
use phzc_ir::{InstrId, Module};
use phzc_plan::derive::{Facts, Nature, planned_comps, put_off_of, with_callees};
use phzc_plan::memory::memory_of;
use phzc_plan::report::price::StagePrice;
use rustc_hash::FxBuildHasher;

/// A sharded program as a chain.
pub struct Layers<'a> {
    module: &'a Module,
    cluster: &'a Cluster,
    facts: Facts,
    /// Per computation: the layer of each instruction; loops and branches are in that of their caller.
    layer_of: Vec<Vec<usize>>,
    /// The same of whether another layer waits for it: then backward cannot put it off.
    is_put_off: Vec<Vec<bool>>,
    units: Units,
    crossings: Vec<Crossing>,
    /// Per run of the text's units: the corners of what it can compute again, once that has been asked for.
    points: Option<Vec<Vec<Point>>>,
    /// The same, tried out: gains, and all.
    again: [Option<Again>; 2],
}

/// What the layers of a text gain by computing things again: dear to find out, small to keep.
pub struct Gains {
    points: Option<Vec<Vec<Point>>>,
    again: Option<Again>,
}

impl<'a> Layers<'a> {
    /// Gathers the instructions of a plan into layers; `short` is what it is a plan of, if that stands for a
    /// longer program.
    pub fn new(module: &'a Module, facts: Facts, cluster: &'a Cluster, short: Option<&Short>) -> Layers<'a> {
        let at = positions(module, &facts);
        let (secs, n_positions) = (secs_at(module, &facts, cluster, &at), module.entry().instrs.len());
        let crossing = crossings(module, &facts, &at, n_positions);
        let units = match short {
            Some(short) => Units::short(&secs, &crossing, short, module),
            None => Units::whole(&secs, &crossing),
        };
        let starts = &units.starts;
        let entry = at.iter().map(|at| starts.partition_point(|start| start <= at) - 1).collect();
        Layers::of_units(module, facts, cluster, units, entry)
    }

    /// The same, cut where another plan of the program is. What both have, and `plain` has, lies in the same
    /// layers. `None` where the plan has its instructions in another order.
    pub fn like(
        module: &'a Module,
        facts: Facts,
        cluster: &'a Cluster,
        other: &Layers,
        plain: &Module,
    ) -> Option<Layers<'a>> {
        let of_plain: IndexMap<&str, (), FxBuildHasher> =
            plain.entry().instrs.iter().map(|instr| (&*instr.name, ())).collect();
        let theirs: IndexMap<&str, usize, FxBuildHasher> =
            other.module.entry().iter().map(|(id, instr)| (&*instr.name, id.index())).collect();
        let own: IndexMap<&str, usize, FxBuildHasher> =
            module.entry().iter().map(|(id, instr)| (&*instr.name, id.index())).collect();
        let instrs = &other.module.entry().instrs;
        let start = |&at: &usize| match at {
            0 => Some(0),
            _ => {
                let first = instrs[at..].iter().find(|instr| of_plain.contains_key(&*instr.name))?;
                own.get(&*first.name).copied()
            }
        };
        let starts: Vec<usize> = other.units.starts.iter().map(start).collect::<Option<_>>()?;
        if !starts.is_sorted() {
            return None;
        }
        let at = positions(module, &facts);
        let layer = |(id, instr): (InstrId, &phzc_ir::Instr)| match of_plain.contains_key(&*instr.name) {
            true => other.layers()[theirs[&*instr.name]],
            false => starts.partition_point(|start| *start <= at[id.index()]) - 1,
        };
        let entry: Vec<usize> = module.entry().iter().map(layer).collect();
        let units = other.units.at(starts);
        Some(Layers::of_units(module, facts, cluster, units, entry))
    }

    fn of_units(
        module: &'a Module,
        facts: Facts,
        cluster: &'a Cluster,
        units: Units,
        entry: Vec<usize>,
    ) -> Layers<'a> {
        let crossings = crossings(module, &facts, &entry, units.starts.len());
        let is_put_off = with_callees(module, put_off_of(module, &facts, |id| entry[id.index()]));
        let layer_of = with_callees(module, entry);
        Layers {
            module,
            cluster,
            facts,
            layer_of,
            is_put_off,
            units,
            crossings,
            points: None,
            again: [None, None],
        }
    }

    /// What has been found out about gains, for another chain of the same text.
    pub fn gains(&self) -> Gains {
        Gains { points: self.points.clone(), again: self.again[0].as_ref().map(Again::without_texts) }
    }

    /// The same chain, told what another one of the same text has found out.
    #[must_use]
    pub fn knowing(mut self, gains: Option<&Gains>) -> Layers<'a> {
        if let Some(gains) = gains {
            self.points.clone_from(&gains.points);
            self.again[0] = gains.again.as_ref().map(Again::without_texts);
        }
        self
    }

    /// What the text says.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How many layers there are; no more stages than that are possible.
    pub fn n_layers(&self) -> usize {
        self.units.of.len()
    }

    /// The chain for a number of microbatches.
    pub fn chain(&mut self, n_microbatches: usize) -> Chain {
        self.facts.header.n_microbatches = n_microbatches;
        let n_units = self.units.starts.len();
        let prices =
            prices(self.module, &self.facts, self.cluster, (&self.layer_of, &self.is_put_off), n_units);
        let share = 1.0 / n_microbatches as f64;
        let is_far = self.cluster.n_nodes() > 1;
        let send = |crossing: &Crossing, is_far: bool| {
            2.0 * self.cluster.send_secs(crossing.up.max(crossing.down) * share, is_far)
        };
        let (fixed_bytes, flight_bytes) = self.bytes();
        let (late_bytes, gradient_bytes) = self.late_bytes();
        let all = |figure: &dyn Fn(usize) -> f64| self.units.of.iter().map(|&unit| figure(unit)).collect();
        Chain {
            secs: all(&|unit| prices[unit].forward_secs + prices[unit].backward_secs),
            forward_secs: all(&|unit| prices[unit].forward_secs),
            weight_secs: all(&|unit| prices[unit].weight_secs),
            schedule: Schedule::default(),
            update_secs: all(&|unit| prices[unit].update_secs),
            fixed_bytes: all(&|unit| fixed_bytes[unit]),
            flight_bytes: all(&|unit| flight_bytes[unit] * share),
            late_bytes: all(&|unit| late_bytes[unit] * share),
            gradient_bytes: all(&|unit| gradient_bytes[unit] * share),
            send_secs: all(&|unit| send(&self.crossings[unit], is_far)),
            near_secs: all(&|unit| send(&self.crossings[unit], false)),
            devices: [self.cluster.n_devices(), self.cluster.per_node()],
            kind: self.units.of.clone(),
            levels: Vec::new(),
            runs: self.units.whole_runs(),
            is_all_again: false,
            asked: Asked::default(),
        }
    }

    /// Bytes that the text needs at its peak beyond what stays for the step and what one microbatch saves,
    /// all being one stage: what is there for a moment only, which does not depend on how many equal layers
    /// there are.
    pub fn passing_bytes(&mut self, n_microbatches: usize) -> f64 {
        let share = 1.0 / n_microbatches as f64;
        self.facts.header.n_microbatches = n_microbatches;
        let peak_bytes = memory_of(self.module, &self.facts, self.cluster).stages[0].peak_bytes;
        let (fixed, flight) = self.bytes();
        peak_bytes - fixed.iter().sum::<f64>() - share * flight.iter().sum::<f64>()
    }

    /// What the layers of a chain of so many microbatches can compute again, in the order of seconds per
    /// byte. Where only gains are asked for, others may be missing.
    pub fn levels(&mut self, n_microbatches: usize, asked: Asked) -> Vec<Level> {
        let mut again = match self.again[asked as usize].take() {
            Some(known) => match known.forgotten(n_microbatches) {
                None => known,
                Some(first) => self.again(first, asked),
            },
            None => self.again(n_microbatches, asked),
        };
        self.facts.header.n_microbatches = n_microbatches;
        let secs = again.secs((self.module, &self.facts), self.cluster, n_microbatches);
        let share = 1.0 / n_microbatches as f64;
        let mut levels: Vec<(f64, Level)> = Vec::new();
        for (kind, points) in again.points.iter().enumerate() {
            let mut price = f64::NEG_INFINITY;
            for (pair, secs) in points.windows(2).zip(secs[kind].windows(2)) {
                let secs = secs[1] - secs[0];
                let bytes = (pair[1].saved_bytes - pair[0].saved_bytes) * share;
                // With other numbers of microbatches the points may be no hull; a kind's levels stay in their
                // order.
                price = price.max(secs / bytes);
                levels.push((price, Level { kind, secs, bytes, again_bytes: pair[1].again_bytes * share }));
            }
        }
        self.again[asked as usize] = Some(again);
        levels.sort_by(|a, b| a.0.total_cmp(&b.0));
        levels.into_iter().map(|(_, level)| level).collect()
    }

    /// What each run can compute again, tried out on the text.
    fn again(&mut self, n_microbatches: usize, asked: Asked) -> Again {
        self.facts.header.n_microbatches = n_microbatches;
        let (module, runs) = (self.module, &self.units.runs);
        let run = |unit: &usize| runs.partition_point(|run| run.end <= *unit);
        let run_of: Vec<usize> = self.layers().iter().map(run).collect();
        let points = self
            .points
            .take()
            .unwrap_or_else(|| points(module, &self.facts, self.cluster, &run_of, runs.len()));
        let mut again = Again::new(&points, run_of, asked);
        for depth in 1..again.n_depths() {
            let depths: Vec<usize> = again.points.iter().map(|points| depth.min(points.len() - 1)).collect();
            let depth_of: Vec<usize> = (0..self.units.starts.len()).map(|unit| depths[run(&unit)]).collect();
            let own = self.layers().iter().enumerate().map(|(id, &layer)| (InstrId::new(id), layer));
            let marks = self.marks_at(&again.points, &depth_of, own);
            again.tried(module, &marks);
        }
        again.keep_hulls((module, &self.facts), self.cluster, n_microbatches);
        self.points = Some(points);
        again
    }

    /// What is computed again when each layer does so up to the level of a cut, of instructions like those of
    /// the text in some layers.
    pub fn marks(&self, cut: &Cut, source: impl Iterator<Item = (InstrId, usize)>) -> Marks {
        self.marks_at(self.tried(cut.asked), &cut.again, source)
    }

    fn marks_at(
        &self,
        points: &[Vec<Point>],
        again: &[usize],
        source: impl Iterator<Item = (InstrId, usize)>,
    ) -> Marks {
        let mut marks = Marks::default();
        source.for_each(|(id, layer)| self.mark_at(points, id, again[layer], &mut marks));
        marks
    }

    /// Adds what is to be done of an instruction like one of the text's, when its layer computes things again
    /// up to some level.
    pub fn mark(&self, id: InstrId, (asked, level): (Asked, usize), marks: &mut Marks) {
        self.mark_at(self.tried(asked), id, level, marks);
    }

    /// What runs can compute again, level by level; nothing unless that has been asked for.
    fn tried(&self, asked: Asked) -> &[Vec<Point>] {
        self.again[asked as usize].as_ref().map_or(&[], |again| &again.points)
    }

    fn mark_at(&self, points: &[Vec<Point>], id: InstrId, level: usize, marks: &mut Marks) {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        let run = self.units.runs.partition_point(|run| run.end <= self.layers()[id.index()]);
        let point = points.get(run).and_then(|points| points.get(level));
        marks.is_again.push(point.is_some_and(|point| point.again.binary_search(&id).is_ok()));
        marks.is_data.push(own.natures.contains(&Nature::Part));
        marks.is_free.push(is_free(self.module, &self.facts, id));
    }

    /// Per instruction of the entry: its layer.
    pub fn layers(&self) -> &[usize] {
        &self.layer_of[self.module.entry.index()]
    }

    /// Per instruction of the whole entry: its layer.
    pub fn whole_layers(&self, short: &Short) -> Vec<usize> {
        let by_name: IndexMap<&str, usize, FxBuildHasher> =
            self.module.entry().iter().map(|(id, instr)| (&*instr.name, id.index())).collect();
        let entry = self.layers();
        let unit_of: Vec<usize> =
            short.module.entry().instrs.iter().map(|instr| entry[by_name[&*instr.name]]).collect();
        let unit = |(stands, layer): (&[InstrId; 2], &Option<Layer>)| {
            // The last inner layer is there itself.
            let is_last = layer.is_some_and(|it| it.at + 2 >= short.n_layers[it.row]);
            self.units.unit(unit_of[stands[usize::from(is_last)].index()], *layer)
        };
        short.stands.iter().zip(&short.layer_of).map(unit).collect()
    }

    /// Per computation and instruction: the stage that its layer is in.
    pub fn stages(&self, starts: &[usize]) -> Vec<Vec<usize>> {
        let stage = |layer: &usize| starts.partition_point(|start| start <= layer) - 1;
        self.layer_of.iter().map(|layers| layers.iter().map(stage).collect()).collect()
    }
}

/// The price of every layer.
fn prices(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    (layer_of, is_put_off): (&[Vec<usize>], &[Vec<bool>]),
    n_layers: usize,
) -> Vec<StagePrice> {
    let mut prices = vec![StagePrice::default(); n_layers];
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let layer = layer_of[comp.index()][id.index()];
            let is_put_off = is_put_off[comp.index()][id.index()];
            prices[layer].instr_put_off(module, facts, cluster, (comp, id, instr), is_put_off);
        }
    }
    prices
}

/// Seconds of forward and backward at each position.
fn secs_at(module: &Module, facts: &Facts, cluster: &Cluster, at: &[usize]) -> Vec<f64> {
    let positions = with_callees(module, at.to_vec());
    let is_put_off: Vec<Vec<bool>> = positions.iter().map(|at| vec![false; at.len()]).collect();
    let n_positions = module.entry().instrs.len();
    let prices = prices(module, facts, cluster, (&positions, &is_put_off), n_positions);
    prices.iter().map(|price| price.forward_secs + price.backward_secs).collect()
}

#[cfg(test)]
mod tests;
