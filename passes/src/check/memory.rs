//! Memory of one device per stage, by liveness over the text in program order.
//!
//! A value lives from its instruction to its last reader. Values that fusion keeps in registers
//! ([`crate::pricing::is_materialised`]) have no memory, but keep what they are made of alive. Views, tuples and
//! their elements, and what a loop passes on unchanged, are the buffers of their operands. Parameters live
//! throughout; an output that reuses a parameter's buffer costs nothing if the parameter has been read for the
//! last time by then. An elementwise op or an update may write over an operand of the same size that dies
//! there. A loop adds the peak of its body beyond what it carries; a conditional that of its largest branch.
//! With microbatches see [`crate::derive::Nature`]: a value that backward reads is there for every microbatch
//! in flight; where a schedule puts off gradients of weights see [`super::held`]. Bytes are those of XLA's unpadded buffers; fragmentation is in the device's usable fraction.

use super::held::Held;
use super::live::{Live, live};
use crate::derive::{Aliased, Facts, InstrFacts, Nature, aliased, control_flow, derive};
use phzc_cost::{Cluster, Schedule};
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Module, Opcode, Result};

/// What one device of each stage needs, and what it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// One per stage.
    pub stages: Vec<StageMemory>,
    /// What a program can use of a device's memory, in bytes.
    pub limit_bytes: f64,
}

/// What one device of a stage needs.
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
    let (n_stages, lives, aliases) = (facts.header.meshes.len(), lives(module, facts), aliased(module));
    let held = held(module, facts, &lives);
    let stage = |stage| {
        let n_held = in_flight(facts, stage);
        Sweep { module, facts, lives: &lives, aliases: &aliases, held: held.as_ref(), stage, n_held }.entry()
    };
    Memory { stages: (0..n_stages).map(stage).collect(), limit_bytes: cluster.accelerator.usable_bytes() }
}

/// What is there when a stage needs most, largest first: instructions of the entry, and their bytes on one device.
pub fn at_peak(module: &Module, facts: &Facts, stage: usize) -> Vec<(InstrId, f64)> {
    let (lives, aliases, n_held) = (lives(module, facts), aliased(module), in_flight(facts, stage));
    let sweep = Sweep { module, facts, lives: &lives, aliases: &aliases, held: None, stage, n_held };
    let (Some(at), Some(live)) = (sweep.entry().at, &lives[module.entry.index()]) else { return Vec::new() };
    let reused = sweep.reused(live);
    let bytes = |value: usize, id: InstrId| match live.ends[value] >= at.index() && !reused.contains(&value) {
        true => sweep.value_bytes(module.entry, id, value - live.values(id).start, Some(live.ends[value])),
        false => 0.0,
    };
    let ids = (0..=at.index()).map(InstrId::new);
    let all = ids.map(|id| (id, live.values(id).map(|value| bytes(value, id)).sum::<f64>()));
    let mut found: Vec<(InstrId, f64)> = all.filter(|(_, bytes)| *bytes > 0.0).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Per stage, per number of microbatches: the most bytes that a device needs while it holds the activations of that
/// many, from none to as many as the schedule lets it hold; the last is its peak.
pub fn memory_held(module: &Module, facts: &Facts) -> Vec<Vec<f64>> {
    let (lives, aliases) = (lives(module, facts), aliased(module));
    let held = held(module, facts, &lives);
    let holding = |stage: usize, n_held: usize| {
        let held = held.as_ref();
        Sweep { module, facts, lives: &lives, aliases: &aliases, held, stage, n_held }.entry().peak_bytes
    };
    let stage = |stage| (0..=in_flight(facts, stage)).map(|n_held| holding(stage, n_held)).collect();
    (0..facts.header.meshes.len()).map(stage).collect()
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
    stage: usize,
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
        let others_bytes = held.map_or(0.0, |held| held.others_bytes(self.stage, self.n_held));
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
            if now + inside > peak.bytes {
                peak = Peak { bytes: now + inside, at: Some(id) };
            }
            now -= dying[id.index()].iter().sum::<f64>();
            now -= if held.is_some_and(|held| held.last == id.index()) { others_bytes } else { 0.0 };
        }
        peak
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
        if own.leaves[leaf].stage != self.stage || !self.is_allocated(comp, id, leaf) {
            return 0.0;
        }
        own.bytes[leaf] * self.share(own, own.natures.get(leaf).copied(), end.and_then(|end| facts.get(end)))
    }

    /// Loops make the carried values that they change; the others are their operands' buffers.
    fn is_allocated(&self, comp: CompId, id: InstrId, leaf: usize) -> bool {
        let instr = self.module.comp(comp).instr(id);
        match instr.op {
            Opcode::While => !super::live::is_passed_on(self.module, instr, leaf),
            Opcode::Conditional => true,
            _ => self.facts.comps[comp.index()][id.index()].is_allocated,
        }
    }

    /// The part of the batch whose values are there at once; `last` is the last reader.
    fn share(&self, own: &InstrFacts, nature: Option<Nature>, last: Option<&InstrFacts>) -> f64 {
        let n_parts = self.facts.header.n_microbatches as f64;
        let is_saved = last.is_some_and(|last| last.phase > own.phase);
        // The others are counted apart where gradients of weights are put off.
        let n_held = if self.held.is_some() { self.n_held.min(1) } else { self.n_held };
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
        for (index, arrival) in live.arrivals.iter().enumerate().filter(|(_, it)| it.stage == self.stage) {
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
