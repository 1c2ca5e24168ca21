//! The sweep over the text: what is there at each instruction.

use super::held::Held;
use super::lasting::{Lasting, is_cut};
use super::live::{Live, is_passed_on};
use super::role::Role;
use super::shared::Shared;
use super::{StageMemory, in_flight};
use crate::derive::{Aliased, Facts, InstrFacts, Nature, Phase, control_flow};
use phzc_cost::Schedule;
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Module, Opcode};

/// A sweep of one device group.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    pub module: &'a Module,
    pub facts: &'a Facts,
    /// Per planned computation.
    pub lives: &'a [Option<Live>],
    pub aliases: &'a [Aliased],
    /// Per computation.
    pub roles: &'a [Role],
    /// What other microbatches hold, if there are several and the group has one stage.
    pub held: Option<&'a Held<'a>>,
    /// The same, if it has several stages.
    pub shared: Option<&'a Shared>,
    /// What all microbatches share.
    pub lasting: Option<&'a Lasting>,
    /// The device group: the stage, if each has one of its own.
    pub group: usize,
    /// Microbatches in flight.
    pub n_held: usize,
}

/// The peak of one computation, and where.
#[derive(Clone, Copy, Default)]
struct Peak {
    bytes: f64,
    at: Option<InstrId>,
}

/// A sweep under way.
struct State {
    now: f64,
    /// Per instruction: bytes of what it needs as the last one, and may write over.
    dying: Vec<Vec<f64>>,
    /// The same of what it may not write over.
    in_use: Vec<f64>,
    /// Values without memory of their own.
    is_reused: Vec<bool>,
    /// Accumulators of backward: bytes that are there in no forward part, if those all run first.
    late_bytes: f64,
}

/// A value: its bytes, the last instruction that needs it, and whether that may not write over it.
type Made = (f64, usize, bool);

impl State {
    /// Has a value freed after an instruction.
    fn free(&mut self, bytes: f64, end: usize, is_in_use: bool) {
        match is_in_use {
            true => self.in_use[end] += bytes,
            false if bytes > 0.0 => self.dying[end].push(bytes),
            false => {}
        }
    }
}

impl Sweep<'_> {
    /// The group's peak.
    pub fn entry(&self) -> StageMemory {
        let entry = self.module.entry;
        let peak = self.comp(entry);
        let params = self.module.comp(entry).params();
        let parameter_bytes = params.iter().map(|&id| self.own_bytes(entry, id, None)).sum();
        StageMemory { peak_bytes: peak.bytes, parameter_bytes, at: peak.at }
    }

    fn comp(&self, comp: CompId) -> Peak {
        let mut peak = Peak::default();
        self.walk(comp, &mut |id, bytes, _| {
            if bytes > peak.bytes {
                peak = Peak { bytes, at: Some(id) };
            }
        });
        peak
    }

    /// Visits every instruction of a computation with the bytes in use while it runs, and how many of them
    /// are inside the loop or the branches that it is.
    pub fn walk(&self, comp: CompId, visit: &mut dyn FnMut(InstrId, f64, f64)) {
        let Some(live) = &self.lives[comp.index()] else { return };
        let is_entry = comp == self.module.entry;
        let held = self.held.filter(|_| is_entry);
        let others_bytes = held.map_or(0.0, |held| held.others_bytes(self.group, self.n_held));
        let mut state = self.start(comp, live);
        state.now += others_bytes;
        for (id, instr) in self.module.comp(comp).iter() {
            let made = self.made(comp, live, id, &state);
            let dying = &mut state.dying[id.index()];
            let shared = if may_share(instr) { shared_bytes(&made, dying) } else { 0.0 };
            state.now += made.iter().map(|(bytes, ..)| bytes).sum::<f64>() - shared;
            made.iter().for_each(|&(bytes, end, is_in_use)| state.free(bytes, end, is_in_use));
            let inside = if self.runs(comp, id) { self.inside(instr) } else { 0.0 };
            let others = if is_entry { self.others_bytes(id) - self.not_yet_bytes(id, &state) } else { 0.0 };
            visit(id, state.now + inside + others, inside);
            state.now -= state.dying[id.index()].iter().sum::<f64>() + state.in_use[id.index()];
            state.now -= if held.is_some_and(|held| held.last == id.index()) { others_bytes } else { 0.0 };
        }
    }

    /// What is there before the first instruction: parameters, arrivals, and what lasts.
    fn start(&self, comp: CompId, live: &Live) -> State {
        let (is_entry, n) = (comp == self.module.entry, self.module.comp(comp).instrs.len());
        let dying = vec![Vec::new(); n + 1];
        let is_reused = vec![false; live.ends.len()];
        let in_use = vec![0.0; n + 1];
        let mut state = State { now: 0.0, dying, in_use, is_reused, late_bytes: 0.0 };
        let reused = if is_entry { self.reused(live) } else { Vec::new() };
        reused.into_iter().for_each(|value| state.is_reused[value] = true);
        if self.roles[comp.index()] == Role::Branch {
            let root = self.module.comp(comp).root;
            live.values(root).for_each(|value| state.is_reused[live.buffer(value)] = true);
        }
        state.now = if is_entry { self.arrivals(comp, live, &mut state) } else { 0.0 };
        for (id, instr) in self.module.comp(comp).iter() {
            let is_param = instr.op == Opcode::Parameter;
            for (leaf, value) in live.values(id).enumerate() {
                let since = self.lasting.filter(|_| is_entry).and_then(|lasting| lasting.since(value));
                if !is_param && (since.is_none() || state.is_reused[value]) {
                    continue;
                }
                let end = if is_param { self.end_of_param(comp, live, value) } else { self.end(live, value) };
                let bytes = self.value_bytes(comp, id, leaf, Some(end));
                state.now += bytes;
                state.late_bytes += if since == Some(Phase::Backward) { bytes } else { 0.0 };
                state.free(bytes, end, live.passed_on[value] == Some(end));
            }
        }
        state
    }

    /// What an instruction makes that was not there from the start: bytes, and the last instruction that
    /// needs them.
    fn made(&self, comp: CompId, live: &Live, id: InstrId, state: &State) -> Vec<Made> {
        let is_entry = comp == self.module.entry;
        if self.module.comp(comp).instr(id).op == Opcode::Parameter {
            return Vec::new();
        }
        let held = self.held.filter(|_| is_entry);
        let mut found = Vec::new();
        for (leaf, value) in live.values(id).enumerate() {
            let is_lasting = is_entry && self.lasting.is_some_and(|it| it.since(value).is_some());
            let is_counted = is_lasting || held.is_some_and(|held| held.is_counted(id, value));
            if !is_counted && !state.is_reused[value] {
                let end = if is_entry { self.end(live, value) } else { live.ends[value] };
                let is_in_use = live.passed_on[value] == Some(end);
                found.push((self.value_bytes(comp, id, leaf, Some(end)), end, is_in_use));
            }
        }
        found
    }

    /// Accumulators that are not there yet in a forward part, where all forward parts run before the first
    /// backward part. Where idle moments decide the order, that is sure of one microbatch alone.
    fn not_yet_bytes(&self, id: InstrId, state: &State) -> f64 {
        let header = &self.facts.header;
        let is_first = match header.schedule {
            Schedule::GPipe => true,
            Schedule::OneFOneB => header.n_own_microbatches() <= in_flight(self.facts, self.group),
            Schedule::ZeroBubble | Schedule::Interleaved(_) => header.n_own_microbatches() == 1,
        };
        let is_forward = self.facts.comps[self.module.entry.index()][id.index()].phase == Phase::Forward;
        if is_forward && is_first { state.late_bytes } else { 0.0 }
    }

    /// Parameters of the entry are there throughout, those of branches are their callers'.
    fn end_of_param(&self, comp: CompId, live: &Live, value: usize) -> usize {
        let is_freed = self.roles[comp.index()] == Role::Body;
        if is_freed { live.ends[value] } else { self.module.comp(comp).instrs.len() }
    }

    /// Bytes of microbatches that are not under way while an instruction of the entry runs on this group.
    fn others_bytes(&self, id: InstrId) -> f64 {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        self.shared.filter(|_| self.is_here(own.stage)).map_or(0.0, |shared| shared.others_bytes(own))
    }

    fn is_here(&self, stage: usize) -> bool {
        self.facts.header.group(stage) == self.group
    }

    /// The last instruction that needs a value of the entry; what is put off runs at the end of backward.
    pub fn end(&self, live: &Live, value: usize) -> usize {
        let end = self.lasting.map_or(live.ends[value], |lasting| lasting.end(value, live.ends[value]));
        let held = self.held.filter(|held| held.values[value]);
        held.map_or(end, |held| end.max(held.last))
    }

    /// Whether the group runs an instruction: all that a loop or a branch runs is of the stage that runs it.
    pub fn runs(&self, comp: CompId, id: InstrId) -> bool {
        comp != self.module.entry || self.is_here(self.facts.comps[comp.index()][id.index()].stage)
    }

    /// What a loop's body or a branch needs beyond what it is passed.
    fn inside(&self, instr: &Instr) -> f64 {
        let beyond = |comp: CompId| (self.comp(comp).bytes - self.passed_bytes(comp)).max(0.0);
        control_flow(instr).into_iter().map(beyond).fold(0.0, f64::max)
    }

    /// Bytes that a loop's body or a branch is passed.
    pub fn passed_bytes(&self, comp: CompId) -> f64 {
        self.module.comp(comp).params().iter().map(|&id| self.own_bytes(comp, id, None)).sum()
    }

    fn own_bytes(&self, comp: CompId, id: InstrId, end: Option<usize>) -> f64 {
        let n_leaves = self.facts.comps[comp.index()][id.index()].leaves.len();
        (0..n_leaves).map(|leaf| self.value_bytes(comp, id, leaf, end)).sum()
    }

    /// Bytes that a leaf has on a device of this stage, for all microbatches that are there at once.
    pub fn value_bytes(&self, comp: CompId, id: InstrId, leaf: usize, end: Option<usize>) -> f64 {
        let facts = &self.facts.comps[comp.index()];
        let own = &facts[id.index()];
        let is_here = comp != self.module.entry || self.is_here(own.leaves[leaf].stage);
        if !is_here || !self.is_allocated(comp, id, leaf) {
            return 0.0;
        }
        let live = self.lives[comp.index()].as_ref();
        let late = live.map_or(Phase::Forward, |live| live.phases[live.values(id).start + leaf]);
        let last = end.and_then(|end| facts.get(end)).map(|last| last.phase.max(late));
        own.bytes[leaf] * self.share(own, own.natures.get(leaf).copied(), last)
    }

    /// Loops make the carried values that they change; the others are their operands' buffers.
    fn is_allocated(&self, comp: CompId, id: InstrId, leaf: usize) -> bool {
        let instr = self.module.comp(comp).instr(id);
        match instr.op {
            Opcode::While => !is_passed_on(self.module, instr, leaf),
            Opcode::Conditional => true,
            _ => self.facts.comps[comp.index()][id.index()].is_allocated,
        }
    }

    /// The part of the batch whose values are there at once; `last` is the last phase that needs them.
    fn share(&self, own: &InstrFacts, nature: Option<Nature>, last: Option<Phase>) -> f64 {
        let n_parts = self.facts.header.n_microbatches as f64;
        let is_saved = last.is_some_and(|last| last > own.phase);
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
    fn arrivals(&self, comp: CompId, live: &Live, state: &mut State) -> f64 {
        let mut total = 0.0;
        let held = self.held.filter(|_| comp == self.module.entry);
        for (index, arrival) in live.arrivals.iter().enumerate().filter(|(_, it)| self.is_here(it.stage)) {
            let maker = &self.facts.comps[comp.index()][arrival.maker.index()];
            let last = self.facts.comps[comp.index()].get(arrival.last).map(|_| arrival.phase);
            let is_counted = held.is_some_and(|held| held.is_arrival_counted(index));
            let share = self.share(maker, maker.natures.get(arrival.leaf).copied(), last);
            let bytes = if is_counted { 0.0 } else { arrival.bytes * share };
            total += bytes;
            let waits = held.filter(|held| held.arrivals[index]).map(|held| held.last);
            let lasting = self.lasting.filter(|it| comp == self.module.entry && it.arrivals[index]);
            let waits = waits.max(lasting.map(|lasting| lasting.last));
            let end = waits.map_or(arrival.last, |last| arrival.last.max(last));
            let reader = self.module.comp(comp).instrs.get(end);
            // It may be what the loop passes on.
            state.free(bytes, end, reader.is_some_and(|reader| reader.op == Opcode::While));
        }
        total
    }

    /// Outputs that are written over the parameter that they replace.
    pub fn reused(&self, live: &Live) -> Vec<usize> {
        let entry = self.module.entry();
        let fits = |alias: &Aliased| {
            let output = live.buffer(live.values(entry.root).start + alias.output);
            let (maker, param) = (live.maker(output), live.values(alias.param).start + alias.leaf);
            let is_unread = live.ends[param] == alias.param.index();
            // Tasks come again with the next microbatch, or in another order than the text's.
            let is_last = self.facts.comps[self.module.entry.index()][maker.index()].phase == Phase::Update;
            let is_dead = live.ends[param] <= maker.index() && (is_last || !is_cut(self.facts));
            ((is_dead || is_unread) && maker != alias.param).then_some(output)
        };
        self.aliases.iter().filter_map(fits).collect()
    }
}

/// Ops that can write over an operand.
fn may_share(instr: &Instr) -> bool {
    instr.op == Opcode::While || matches!(instr.op.def().fusion, FusionKind::Loop | FusionKind::Root)
}

/// Bytes of results that take the place of a dying value of the same size, which then dies no more.
fn shared_bytes(made: &[Made], dying: &mut Vec<f64>) -> f64 {
    let mut shared = 0.0;
    for &(bytes, ..) in made.iter().filter(|(bytes, ..)| *bytes > 0.0) {
        if let Some(at) = dying.iter().position(|&other| other == bytes) {
            shared += dying.swap_remove(at);
        }
    }
    shared
}
