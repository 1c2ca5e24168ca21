//! Memory of one device per stage, with all stages that it holds, by liveness over the text in program order.
//!
//! A value lives from its instruction to its last reader. Values that fusion keeps in registers
//! ([`crate::pricing::is_materialised`]) have no memory, but keep what they are made of alive. Views, tuples
//! and their elements, and what a loop passes on unchanged, are the buffers of their operands. Parameters
//! live throughout; an output that reuses a parameter's buffer costs nothing if the parameter has been read
//! for the last time by then. An elementwise op or an update may write over an operand of the same size that
//! dies there. A loop adds the peak of its body beyond what it carries; a conditional that of its largest
//! branch. With microbatches see [`crate::derive::Nature`]: a value that backward reads is there for every
//! microbatch in flight; where a schedule puts off gradients of weights see `held.rs`, where devices hold
//! several stages `shared.rs`. Bytes are those of XLA's unpadded buffers; fragmentation is in the device's
//! usable fraction.

mod describe;
mod held;
mod live;
mod shared;
#[cfg(test)]
mod tests;

pub use describe::{amount, largest_at_peak};
pub use shared::GroupMemory;

use crate::derive::{Aliased, Facts, InstrFacts, Nature, aliased, control_flow, derive};
use held::Held;
use live::{Live, live};
use phzc_cost::{Cluster, Schedule};
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Module, Opcode, Result};
use rayon::prelude::*;
use shared::Shared;

/// What one device of each stage needs, and what it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// One per stage.
    pub stages: Vec<StageMemory>,
    /// What a program can use of a device's memory, in bytes.
    pub limit_bytes: f64,
}

/// What one device of a stage needs: the same of all stages that it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageMemory {
    /// The most bytes in use at once, parameters included.
    pub peak_bytes: f64,
    /// Bytes of parameters.
    pub parameter_bytes: f64,
    /// The entry's instruction at which the peak is.
    pub at: Option<InstrId>,
}

/// Memory of a planned module on a cluster.
///
/// # Errors
/// When the header's notes cannot be read.
pub fn memory(module: &Module, cluster: &Cluster) -> Result<Memory> {
    Ok(memory_of(module, &derive(module)?, cluster))
}

/// The same, of facts that are known already.
pub fn memory_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Memory {
    let (lives, aliases) = (lives(module, facts), aliased(module));
    let (held, shared) = (held(module, facts, &lives), shared(module, facts, &lives));
    let (held, shared) = (held.as_ref(), shared.as_ref());
    let group = |group| {
        let n_held = in_flight(facts, group);
        Sweep { module, facts, lives: &lives, aliases: &aliases, held, shared, group, n_held }.entry()
    };
    let groups: Vec<StageMemory> = (0..facts.header.n_groups()).into_par_iter().map(group).collect();
    let stages = (0..facts.header.meshes.len()).map(|stage| groups[facts.header.group(stage)].clone());
    Memory { stages: stages.collect(), limit_bytes: cluster.accelerator.usable_bytes() }
}

/// What is there when a stage needs most, largest first: instructions of the entry, and their bytes on one
/// device.
pub fn at_peak(module: &Module, facts: &Facts, stage: usize) -> Vec<(InstrId, f64)> {
    let (lives, aliases, n_held) = (lives(module, facts), aliased(module), in_flight(facts, stage));
    let (shared, group) = (shared(module, facts, &lives), facts.header.group(stage));
    let shared = shared.as_ref();
    let sweep = Sweep { module, facts, lives: &lives, aliases: &aliases, held: None, shared, group, n_held };
    let (Some(at), Some(live)) = (sweep.entry().at, &lives[module.entry.index()]) else { return Vec::new() };
    let (reused, entry) = (sweep.reused(live), module.entry());
    let end = |value: usize, id: InstrId| match entry.instr(id).op {
        Opcode::Parameter => entry.instrs.len(),
        _ => live.ends[value],
    };
    let bytes = |value: usize, id: InstrId| match end(value, id) >= at.index() && !reused.contains(&value) {
        true => sweep.value_bytes(module.entry, id, value - live.values(id).start, Some(end(value, id))),
        false => 0.0,
    };
    let ids = (0..=at.index()).map(InstrId::new);
    let all = ids.map(|id| (id, live.values(id).map(|value| bytes(value, id)).sum::<f64>()));
    let mut found: Vec<(InstrId, f64)> = all.filter(|(_, bytes)| *bytes > 0.0).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Per stage, per number of microbatches: the most bytes that a device needs while it holds the activations
/// of that many, from none to as many as the schedule lets it hold; the last is its peak. Each stage has
/// devices of its own.
pub fn memory_held(module: &Module, facts: &Facts) -> Vec<Vec<f64>> {
    let (lives, aliases) = (lives(module, facts), aliased(module));
    let held = held(module, facts, &lives);
    let holding = |stage: usize, n_held: usize| {
        let (held, shared, group) = (held.as_ref(), None, stage);
        Sweep { module, facts, lives: &lives, aliases: &aliases, held, shared, group, n_held }
            .entry()
            .peak_bytes
    };
    let stage = |stage| (0..=in_flight(facts, stage)).map(|n_held| holding(stage, n_held)).collect();
    (0..facts.header.meshes.len()).map(stage).collect()
}

/// What a device of each group needs as it holds more or less, where groups hold several stages each.
pub fn memory_shared(module: &Module, facts: &Facts) -> Option<Vec<GroupMemory>> {
    let (lives, aliases) = (lives(module, facts), aliased(module));
    let (shared, interleaving) = (shared(module, facts, &lives)?, facts.header.interleaving()?);
    let idle = shared.idle();
    let peak = |group: usize, shared: &Shared, n_held: usize| {
        let (held, shared) = (None, Some(shared));
        Sweep { module, facts, lives: &lives, aliases: &aliases, held, shared, group, n_held }
            .entry()
            .peak_bytes
    };
    let memory = |group| {
        let kept_bytes: Vec<f64> =
            facts.header.stages_of(group).map(|stage| shared.kept_bytes[stage]).collect();
        let base_bytes = peak(group, &shared, 1) - interleaving.most_held(group, &kept_bytes);
        GroupMemory { idle_bytes: peak(group, &idle, 0), base_bytes, kept_bytes }
    };
    Some((0..facts.header.n_groups()).map(memory).collect())
}

/// The last readers of all values, per planned computation.
fn lives(module: &Module, facts: &Facts) -> Vec<Option<Live>> {
    let of = |index: usize| live(module, CompId::new(index), &facts.comps[index]);
    (0..module.comps.len()).map(|index| (!facts.comps[index].is_empty()).then(|| of(index))).collect()
}

/// What is held longer than by the text's order; nothing is where backward runs in one piece.
fn held<'a>(module: &'a Module, facts: &'a Facts, lives: &'a [Option<Live>]) -> Option<Held<'a>> {
    let live =
        lives[module.entry.index()].as_ref().filter(|_| facts.header.schedule == Schedule::ZeroBubble)?;
    Held::new(module, facts, live)
}

/// What groups of devices hold of several stages each; nothing if they hold one.
fn shared(module: &Module, facts: &Facts, lives: &[Option<Live>]) -> Option<Shared> {
    Shared::new(module, facts, lives[module.entry.index()].as_ref()?)
}

/// The most microbatches of which a stage holds anything at once.
fn in_flight(facts: &Facts, stage: usize) -> usize {
    let header = &facts.header;
    header.schedule.n_in_flight(stage, header.meshes.len(), header.n_microbatches)
}

struct Sweep<'a> {
    module: &'a Module,
    facts: &'a Facts,
    lives: &'a [Option<Live>],
    aliases: &'a [Aliased],
    /// What is held longer than by the text's order, if the schedule has that.
    held: Option<&'a Held<'a>>,
    /// What the group holds of other microbatches, if it has several stages.
    shared: Option<&'a Shared>,
    /// The device group: the stage, if each has one of its own.
    group: usize,
    /// Microbatches in flight.
    n_held: usize,
}

/// The peak of one computation, and where.
#[derive(Clone, Copy, Default)]
struct Peak {
    bytes: f64,
    at: Option<InstrId>,
}

impl Sweep<'_> {
    fn entry(&self) -> StageMemory {
        let entry = self.module.entry;
        let peak = self.comp(entry, true);
        let params = self.module.comp(entry).params();
        let parameter_bytes = params.iter().map(|&id| self.own_bytes(entry, id, None)).sum();
        StageMemory { peak_bytes: peak.bytes, parameter_bytes, at: peak.at }
    }

    fn comp(&self, comp: CompId, is_entry: bool) -> Peak {
        let Some(live) = &self.lives[comp.index()] else { return Peak::default() };
        let computation = self.module.comp(comp);
        let mut is_reused = vec![false; live.ends.len()];
        let reused = if is_entry { self.reused(live) } else { Vec::new() };
        reused.into_iter().for_each(|value| is_reused[value] = true);
        let mut dying: Vec<Vec<f64>> = vec![Vec::new(); computation.instrs.len() + 1];
        let held = self.held.filter(|_| is_entry);
        let others_bytes = held.map_or(0.0, |held| held.others_bytes(self.group, self.n_held));
        let mut now = self.arrivals(comp, live, &mut dying) + others_bytes;
        let mut peak = Peak { bytes: now, at: None };
        for (id, instr) in computation.iter() {
            let is_lasting = is_entry && instr.op == Opcode::Parameter;
            let mut made: Vec<(f64, usize)> = Vec::new();
            for value in live.values(id).filter(|&value| !is_reused[value]) {
                let end = if is_lasting { computation.instrs.len() } else { self.end(live, value, is_entry) };
                let is_counted = held.is_some_and(|held| held.is_counted(id, value));
                let leaf = value - live.values(id).start;
                let bytes = if is_counted { 0.0 } else { self.value_bytes(comp, id, leaf, Some(end)) };
                made.push((bytes, end));
            }
            let shared = if may_share(instr) { shared_bytes(&made, &mut dying[id.index()]) } else { 0.0 };
            now += made.iter().map(|(bytes, _)| bytes).sum::<f64>() - shared;
            made.iter().filter(|made| made.0 > 0.0).for_each(|&(bytes, end)| dying[end].push(bytes));
            let inside =
                control_flow(instr).into_iter().map(|callee| self.inside(callee)).fold(0.0, f64::max);
            let all = now + inside + if is_entry { self.others_bytes(id) } else { 0.0 };
            if all > peak.bytes {
                peak = Peak { bytes: all, at: Some(id) };
            }
            now -= dying[id.index()].iter().sum::<f64>();
            now -= if held.is_some_and(|held| held.last == id.index()) { others_bytes } else { 0.0 };
        }
        peak
    }

    /// Bytes of microbatches that are not under way while an instruction of the entry runs on this group.
    fn others_bytes(&self, id: InstrId) -> f64 {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        self.shared.filter(|_| self.is_here(own.stage)).map_or(0.0, |shared| shared.others_bytes(own))
    }

    fn is_here(&self, stage: usize) -> bool {
        self.facts.header.group(stage) == self.group
    }

    /// The last instruction that needs a value; what is put off runs at the end of backward.
    fn end(&self, live: &Live, value: usize, is_entry: bool) -> usize {
        let held = self.held.filter(|held| is_entry && held.values[value]);
        held.map_or(live.ends[value], |held| live.ends[value].max(held.last))
    }

    /// What a loop body or a branch needs beyond what it is passed.
    fn inside(&self, comp: CompId) -> f64 {
        let passed: f64 =
            self.module.comp(comp).params().iter().map(|&id| self.own_bytes(comp, id, None)).sum();
        (self.comp(comp, false).bytes - passed).max(0.0)
    }

    fn own_bytes(&self, comp: CompId, id: InstrId, end: Option<usize>) -> f64 {
        let n_leaves = self.facts.comps[comp.index()][id.index()].leaves.len();
        (0..n_leaves).map(|leaf| self.value_bytes(comp, id, leaf, end)).sum()
    }

    /// Bytes that a leaf has on a device of this stage, for all microbatches that are there at once.
    fn value_bytes(&self, comp: CompId, id: InstrId, leaf: usize, end: Option<usize>) -> f64 {
        let facts = &self.facts.comps[comp.index()];
        let own = &facts[id.index()];
        if !self.is_here(own.leaves[leaf].stage) || !self.is_allocated(comp, id, leaf) {
            return 0.0;
        }
        own.bytes[leaf] * self.share(own, own.natures.get(leaf).copied(), end.and_then(|end| facts.get(end)))
    }

    /// Loops make the carried values that they change; the others are their operands' buffers.
    fn is_allocated(&self, comp: CompId, id: InstrId, leaf: usize) -> bool {
        let instr = self.module.comp(comp).instr(id);
        match instr.op {
            Opcode::While => !live::is_passed_on(self.module, instr, leaf),
            Opcode::Conditional => true,
            _ => self.facts.comps[comp.index()][id.index()].is_allocated,
        }
    }

    /// The part of the batch whose values are there at once; `last` is the last reader.
    fn share(&self, own: &InstrFacts, nature: Option<Nature>, last: Option<&InstrFacts>) -> f64 {
        let n_parts = self.facts.header.n_microbatches as f64;
        let is_saved = last.is_some_and(|last| last.phase > own.phase);
        // The others are counted apart where gradients of weights are put off, or devices hold several
        // stages.
        let is_apart = self.held.is_some() || self.shared.is_some();
        let n_held = if is_apart { self.n_held.min(1) } else { self.n_held };
        match nature {
            Some(Nature::Part) if is_saved => n_held as f64 / n_parts,
            Some(Nature::Part) => 1.0 / n_parts,
            _ => 1.0,
        }
    }

    /// Values of other stages that this one reads: each is received once and lives to its last reader here.
    fn arrivals(&self, comp: CompId, live: &Live, dying: &mut [Vec<f64>]) -> f64 {
        let mut total = 0.0;
        let held = self.held.filter(|_| comp == self.module.entry);
        for (index, arrival) in live.arrivals.iter().enumerate().filter(|(_, it)| self.is_here(it.stage)) {
            let maker = &self.facts.comps[comp.index()][arrival.maker.index()];
            let last = self.facts.comps[comp.index()].get(arrival.last);
            let is_counted = held.is_some_and(|held| held.is_arrival_counted(index));
            let share = self.share(maker, maker.natures.get(arrival.leaf).copied(), last);
            let bytes = if is_counted { 0.0 } else { arrival.bytes * share };
            total += bytes;
            let waits = held.filter(|held| held.arrivals[index]);
            dying[waits.map_or(arrival.last, |held| arrival.last.max(held.last))].push(bytes);
        }
        total
    }

    /// Outputs that are written over the parameter that they replace.
    fn reused(&self, live: &Live) -> Vec<usize> {
        let entry = self.module.entry();
        let fits = |alias: &Aliased| {
            let output = live.buffer(live.values(entry.root).start + alias.output);
            let param = live.values(alias.param).start + alias.leaf;
            (live.maker(output).index() >= live.ends[param] && live.maker(output) != alias.param)
                .then_some(output)
        };
        self.aliases.iter().filter_map(fits).collect()
    }
}

/// Ops that can write over an operand.
fn may_share(instr: &Instr) -> bool {
    instr.op == Opcode::While || matches!(instr.op.def().fusion, FusionKind::Loop | FusionKind::Root)
}

/// Bytes of results that take the place of a dying value of the same size, which then dies no more.
fn shared_bytes(made: &[(f64, usize)], dying: &mut Vec<f64>) -> f64 {
    let mut shared = 0.0;
    for &(bytes, _) in made.iter().filter(|(bytes, _)| *bytes > 0.0) {
        if let Some(at) = dying.iter().position(|&other| other == bytes) {
            shared += dying.swap_remove(at);
        }
    }
    shared
}
