//! What a stage holds of microbatches that are not under way: more than the order of the text shows.
//!
//! Where backward runs in one piece, each keeps what its forward part has saved. Where gradients of weights
//! are put off, a microbatch is in one of two states between its tasks: it waits for gradients, with all that
//! its forward part has saved; or its gradients of weights are put off, with what they read: saved values and
//! gradients that are not made with them. No more microbatches than
//! [`Schedule::n_waiting`](phzc_cost::Schedule::n_waiting) are in the first state, none that is under way
//! counted, and no more than [`Schedule::n_in_flight`](phzc_cost::Schedule::n_in_flight) in both. One of them
//! is under way: the sweep over the text has its values, those that are put off for until the last backward
//! instruction, and gradients among them from the start.

use super::lasting::is_cut;
use super::live::{Arrival, Live, is_passed_on};
use crate::derive::{Facts, InstrFacts, Nature, Phase, is_naming, operand_origins, put_off_of_plan};
use phzc_ir::{InstrId, Module, Opcode};
use std::collections::BTreeSet;

/// What is put off, and what that reads.
pub struct Held<'a> {
    module: &'a Module,
    facts: &'a Facts,
    live: &'a Live,
    /// Per value of the entry: whether what is put off reads it, and does not make it.
    pub values: Vec<bool>,
    /// Per arrival: whether what is put off reads it there.
    pub arrivals: Vec<bool>,
    /// The last backward instruction.
    pub last: usize,
    /// What one microbatch has in each stage.
    stages: Vec<Bytes>,
}

/// Bytes of one microbatch, on one device of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    /// What forward has saved.
    saved: f64,
    /// What is put off reads so much of that.
    saved_for_late: f64,
    /// Gradients that what is put off reads.
    gradients: f64,
}

impl<'a> Held<'a> {
    /// What stages hold that have devices of their own; nothing of a step that is not cut into tasks.
    pub fn of_plan(module: &'a Module, facts: &'a Facts, live: &'a Live) -> Option<Held<'a>> {
        let schedule = facts.header.schedule;
        if schedule.n_chunks() > 1 {
            return None;
        }
        let put_off = schedule.defers_weight_gradients().then(|| Held::new(module, facts, live)).flatten();
        put_off.or_else(|| is_cut(facts).then(|| Held::in_one_piece(module, facts, live)))
    }

    /// What the entry's backward part puts off; nothing if it has none.
    pub fn new(module: &'a Module, facts: &'a Facts, live: &'a Live) -> Option<Held<'a>> {
        let own = &facts.comps[module.entry.index()];
        let last = own.iter().rposition(|own| own.phase == Phase::Backward)?;
        let is_put_off = put_off_of_plan(module, facts);
        let mut values = live.read_by(module, module.entry, own, &is_put_off);
        // What is made with what is put off waits for nothing.
        let made_late = module.entry().iter().filter(|(id, _)| is_put_off[id.index()]);
        made_late.for_each(|(id, _)| values[live.values(id)].fill(false));
        let mut read: BTreeSet<(InstrId, usize, usize)> = BTreeSet::new();
        for (id, instr) in module.entry().iter().filter(|(_, instr)| !is_naming(instr)) {
            let is_through = !own[id.index()].is_allocated && live.values(id).any(|value| values[value]);
            if is_put_off[id.index()] || is_through {
                let makers = operand_origins(module.entry(), instr);
                read.extend(makers.map(|(maker, leaf)| (maker, leaf, own[id.index()].stage)));
            }
        }
        let is_read = |arrival: &Arrival| read.contains(&(arrival.maker, arrival.leaf, arrival.stage));
        let arrivals = live.arrivals.iter().map(is_read).collect();
        Some(Held { module, facts, live, values, arrivals, last, stages: Vec::new() }.summed())
    }

    /// The same where nothing is put off.
    pub fn in_one_piece(module: &'a Module, facts: &'a Facts, live: &'a Live) -> Held<'a> {
        let (values, arrivals) = (vec![false; live.ends.len()], vec![false; live.arrivals.len()]);
        let own = &facts.comps[module.entry.index()];
        let last = own.iter().rposition(|own| own.phase != Phase::Update).unwrap_or(0);
        Held { module, facts, live, values, arrivals, last, stages: Vec::new() }.summed()
    }

    /// Bytes that one microbatch keeps in a stage between its forward and its backward part, or for the
    /// update.
    pub fn kept_bytes(&self, stage: usize) -> f64 {
        let bytes = self.stages[stage];
        bytes.saved + bytes.gradients
    }

    fn own(&self) -> &'a [InstrFacts] {
        &self.facts.comps[self.module.entry.index()]
    }

    /// Whether a value is a gradient that [`Held::others_bytes`] has counted.
    pub fn is_counted(&self, id: InstrId, value: usize) -> bool {
        let leaf = value - self.live.values(id).start;
        self.values[value] && self.is_gradient(id, leaf) && self.live.ends[value] <= self.last
    }

    /// The same of an arrival.
    pub fn is_arrival_counted(&self, index: usize) -> bool {
        let arrival = &self.live.arrivals[index];
        self.arrivals[index] && self.is_gradient(arrival.maker, arrival.leaf) && arrival.last <= self.last
    }

    fn is_gradient(&self, maker: InstrId, leaf: usize) -> bool {
        let made = &self.own()[maker.index()];
        made.phase == Phase::Backward && made.natures.get(leaf) == Some(&Nature::Part)
    }

    /// Bytes on a device of a stage with `n_held` microbatches in flight: the most that those which are not
    /// under way have, and the gradients of the one that is.
    pub fn others_bytes(&self, stage: usize, n_held: usize) -> f64 {
        let (header, bytes) = (&self.facts.header, self.stages[stage]);
        let n_others = n_held.saturating_sub(1);
        let n_waiting = header.schedule.n_waiting(stage, header.meshes.len(), header.n_own_microbatches());
        let late_bytes = bytes.saved_for_late + bytes.gradients;
        let n_waiting = if bytes.saved > late_bytes { n_others.min(n_waiting) } else { 0 };
        let own_bytes = if n_held > 0 { bytes.gradients } else { 0.0 };
        own_bytes + n_waiting as f64 * bytes.saved + (n_others - n_waiting) as f64 * late_bytes
    }

    /// Adds up what one microbatch has in each stage.
    fn summed(mut self) -> Held<'a> {
        let own = self.own();
        let mut stages = vec![Bytes::default(); self.facts.header.meshes.len()];
        for (id, instr) in self.module.entry().iter() {
            let (made, values) = (&own[id.index()], self.live.values(id));
            let has_memory = |leaf: usize| match instr.op {
                Opcode::While => !is_passed_on(self.module, instr, leaf),
                Opcode::Conditional => true,
                _ => made.is_allocated,
            };
            for (leaf, value) in values.enumerate().filter(|(leaf, _)| has_memory(*leaf)) {
                let (sum, it) = (&mut stages[made.leaves[leaf].stage], (id, leaf, made.bytes[leaf]));
                self.add(sum, it, self.live.phases[value], self.values[value]);
            }
        }
        for (arrival, &is_late) in self.live.arrivals.iter().zip(&self.arrivals) {
            let it = (arrival.maker, arrival.leaf, arrival.bytes);
            self.add(&mut stages[arrival.stage], it, arrival.phase, is_late);
        }
        self.stages = stages;
        self
    }

    fn add(
        &self,
        sum: &mut Bytes,
        (maker, leaf, bytes): (InstrId, usize, f64),
        last: Phase,
        is_put_off: bool,
    ) {
        let made = &self.own()[maker.index()];
        let is_late = is_put_off || last == Phase::Update;
        if made.natures.get(leaf) != Some(&Nature::Part) {
            return;
        }
        let bytes = bytes / self.facts.header.n_microbatches as f64;
        match made.phase {
            Phase::Forward if last > Phase::Forward || is_put_off => {
                sum.saved += bytes;
                sum.saved_for_late += if is_late { bytes } else { 0.0 };
            }
            Phase::Backward if is_late => sum.gradients += bytes,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
