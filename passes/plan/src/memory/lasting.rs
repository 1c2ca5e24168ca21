//! What a stage's microbatches share and keep from one task to another: accumulators, and what each would
//! make alike. Where microbatches follow one another it is there from the first one's task to the last one's,
//! or to the update; in the text's order alone it would begin where it is made.

use super::live::Live;
use crate::derive::{Facts, Nature, Phase, deferred_by_schedule, is_naming};
use phzc_ir::{Instr, InstrId, Module, Opcode};

/// Such values.
pub struct Lasting {
    /// Per value of the entry: the phase in which it is made, if it is one.
    since: Vec<Option<Phase>>,
    /// Whether they are there from the start: another microbatch may have made them, or the text have part of
    /// the update before them.
    is_early: bool,
    /// Per arrival.
    pub arrivals: Vec<bool>,
    /// The last forward or backward instruction.
    pub last: usize,
}

/// Whether a step is cut into tasks. Otherwise every stage runs its part of the text once, in order.
pub fn is_cut(facts: &Facts) -> bool {
    facts.header.n_microbatches > 1 || facts.header.schedule.defers_weight_gradients()
}

impl Lasting {
    /// Those of a plan; nothing where the step is not cut into tasks.
    pub fn new(module: &Module, facts: &Facts, live: &Live) -> Option<Lasting> {
        let all = &facts.comps[module.entry.index()];
        let last = all.iter().rposition(|own| own.phase != Phase::Update).filter(|_| is_cut(facts))?;
        let put_off = deferred_by_schedule(module, facts);
        let read_by = |is_reader: &dyn Fn(usize) -> bool| {
            let reads = |(id, instr): (InstrId, &Instr)| !is_naming(instr) && is_reader(id.index());
            let is_reader: Vec<bool> = module.entry().iter().map(reads).collect();
            live.read_by(module, module.entry, all, &is_reader)
        };
        let in_backward = read_by(&|at| all[at].phase == Phase::Backward);
        let in_update = read_by(&|at| all[at].phase == Phase::Update);
        let in_put_off = read_by(&|at| put_off[at]);
        let mut since = vec![None; live.ends.len()];
        for (id, _) in module.entry().iter().filter(|(_, instr)| instr.op != Opcode::Parameter) {
            let own = &all[id.index()];
            for (leaf, value) in live.values(id).enumerate() {
                // Another stage may do the update.
                let is_late = in_update[value] || live.phases[value] == Phase::Update;
                let is_kept = match own.phase {
                    Phase::Forward => in_backward[value] || is_late,
                    Phase::Backward => is_late || in_put_off[value] && !put_off[id.index()],
                    Phase::Update => false,
                };
                let is_one = own.natures.get(leaf) != Some(&Nature::Part) || facts.header.n_microbatches == 1;
                since[value] = (is_kept && is_one).then_some(own.phase);
            }
        }
        let arrivals = live.arrivals.iter().map(|it| {
            let is_part = all[it.maker.index()].natures.get(it.leaf) == Some(&Nature::Part);
            !is_part && all[it.first].phase != it.phase
        });
        let arrivals = arrivals.collect();
        let is_early =
            facts.header.n_microbatches > 1 || all[..last].iter().any(|own| own.phase == Phase::Update);
        Some(Lasting { since, is_early, arrivals, last })
    }

    /// The phase in which a value is made that is there from the start.
    pub fn since(&self, value: usize) -> Option<Phase> {
        self.since[value].filter(|_| self.is_early)
    }

    /// When a value is freed that would be by the text's order after its last reader.
    pub fn end(&self, value: usize, end: usize) -> usize {
        if self.since[value].is_some() { end.max(self.last) } else { end }
    }
}
