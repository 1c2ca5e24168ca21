//! Segments: what a device runs between two collectives, as programs that can be measured alone.
//!
//! ```text
//! a = dot(x, w)             segment 0: a = dot(x, w)
//! b = all-reduce(a)
//! c = tanh(b), d = add(c)   segment 1: c = tanh(b), d = add(c), of a parameter `b`
//! ```
//!
//! An instruction is in the segment after as many collectives as lie before it on some way from the
//! parameters: order in the text does not matter. A value in memory that another segment reads is a result of
//! the one and a parameter of the other; what stays in registers is made in every segment that needs it, as
//! its kernels do. Loops with collectives inside are cut inside. Names, notes and source lines are left out,
//! so that equal layers have equal segments.

mod write;

pub use write::anonymous;

use phzc_cost::Cluster;
use phzc_cost::measured::Item;
use phzc_ir::{CompId, InstrId, Module, Opcode};
use phzc_plan::derive::{Facts, planned_comps};
use phzc_plan::pricing::Kernel;
use phzc_plan::report::{Asked, asked_by};
use std::collections::{BTreeMap, BTreeSet};

/// One segment, with all that are equal to it.
#[derive(Clone, Debug)]
pub struct Segment {
    /// What it computes.
    pub program: Module,
    /// Its kernels, each with how often it runs, by key.
    pub kernels: BTreeMap<String, (Item, f64)>,
    /// How often it runs in a step.
    pub times: f64,
}

/// Who reads a value that belongs to no segment: a collective, the root.
const OUTSIDE: usize = usize::MAX;

/// The segments of a program that `spmd` has written, by their text; those that take no time are left out.
pub fn segments(device: &Module, facts: &Facts, cluster: &Cluster) -> BTreeMap<String, Segment> {
    let talks = talks(device, facts);
    let mut found: BTreeMap<String, Segment> = BTreeMap::new();
    for comp in planned_comps(device) {
        if comp == device.entry || talks[comp.index()] {
            let cut = Cut::new(device, facts, comp, &talks);
            for section in 0..cut.n_sections() {
                let kernels = cut.kernels(section, cluster);
                if kernels.values().any(|(item, _)| item.formula_secs > 0.0) {
                    let program = write::program(&cut, section);
                    let times = facts.executions[comp.index()];
                    let text = phzc_ir::print(&program);
                    found.entry(text).or_insert(Segment { program, kernels, times: 0.0 }).times += times;
                }
            }
        }
    }
    found
}

/// Whether each computation has collectives in it, or in what it calls.
fn talks(device: &Module, facts: &Facts) -> Vec<bool> {
    let mut talks = vec![false; device.comps.len()];
    for comp in planned_comps(device).into_iter().collect::<BTreeSet<CompId>>() {
        let is_one = |id: InstrId| !facts.comps[comp.index()][id.index()].steps.is_empty();
        let any = device
            .comp(comp)
            .iter()
            .any(|(id, instr)| is_one(id) || instr.called().any(|it| talks[it.index()]));
        talks[comp.index()] = any;
    }
    talks
}

/// A computation that is cut.
struct Cut<'m> {
    device: &'m Module,
    facts: &'m Facts,
    comp: CompId,
    /// Per instruction: whether it is a collective, or a loop with some inside.
    is_between: Vec<bool>,
    /// Per instruction: its segment.
    section: Vec<usize>,
    /// Per instruction: the segments in which it is read, or [`OUTSIDE`].
    readers: Vec<BTreeSet<usize>>,
}

impl<'m> Cut<'m> {
    fn new(device: &'m Module, facts: &'m Facts, comp: CompId, talks: &[bool]) -> Cut<'m> {
        let own = device.comp(comp);
        let is_between: Vec<bool> = own
            .iter()
            .map(|(id, instr)| {
                let has_steps = !facts.comps[comp.index()][id.index()].steps.is_empty();
                has_steps || instr.called().any(|it| talks[it.index()])
            })
            .collect();
        let mut section: Vec<usize> = Vec::with_capacity(own.instrs.len());
        for (_, instr) in own.iter() {
            let after = |id: &InstrId| section[id.index()] + usize::from(is_between[id.index()]);
            section.push(instr.operands.iter().map(after).max().unwrap_or(0));
        }
        let mut cut = Cut { device, facts, comp, is_between, section, readers: Vec::new() };
        cut.readers = cut.readers();
        cut
    }

    fn n_sections(&self) -> usize {
        self.section.iter().max().map_or(0, |last| last + 1)
    }

    /// Who reads what: through what stays in registers, and through names.
    fn readers(&self) -> Vec<BTreeSet<usize>> {
        let own = self.device.comp(self.comp);
        let mut readers = vec![BTreeSet::new(); own.instrs.len()];
        readers[own.root.index()].insert(OUTSIDE);
        for (id, instr) in own.iter().rev() {
            let at = id.index();
            let by = match () {
                () if self.is_between[at] => BTreeSet::from([OUTSIDE]),
                () if self.is_stored(id) && !readers[at].is_empty() => BTreeSet::from([self.section[at]]),
                () => readers[at].clone(),
            };
            instr.operands.iter().for_each(|operand| readers[operand.index()].extend(&by));
        }
        readers
    }

    /// Whether a value is in memory, from where other segments read it.
    fn is_stored(&self, id: InstrId) -> bool {
        let (instr, own) = (self.device.comp(self.comp).instr(id), self.facts(id));
        let is_part_of_results = instr.op == Opcode::GetTupleElement;
        let is_run =
            matches!(own.kernel, Kernel::Vector | Kernel::Joined | Kernel::Matrix | Kernel::Attention(_));
        let is_control = matches!(instr.op, Opcode::While | Opcode::Conditional | Opcode::Call);
        is_run || is_part_of_results || is_control
    }

    fn facts(&self, id: InstrId) -> &phzc_plan::derive::InstrFacts {
        &self.facts.comps[self.comp.index()][id.index()]
    }

    /// The arrays that a segment leaves for others.
    fn results(&self, section: usize) -> Vec<InstrId> {
        let is_result = |id: &InstrId| {
            let at = id.index();
            let is_own = self.section[at] == section && !self.is_between[at] && !self.is_given(*id);
            let is_array = self.device.comp(self.comp).instr(*id).shape.as_array().is_some();
            is_own && is_array && self.is_stored(*id) && self.readers[at].iter().any(|it| *it != section)
        };
        (0..self.section.len()).map(InstrId::new).filter(is_result).collect()
    }

    /// Whether a value is there before any segment: a parameter, or part of one or of a collective's result.
    fn is_given(&self, id: InstrId) -> bool {
        let own = self.device.comp(self.comp);
        let instr = own.instr(id);
        let of_given = || {
            instr
                .operands
                .iter()
                .any(|it| self.is_between[it.index()] || own.instr(*it).op == Opcode::Parameter)
        };
        instr.op == Opcode::Parameter || instr.op == Opcode::GetTupleElement && of_given()
    }

    /// Whether a segment gets a value from elsewhere.
    fn is_parameter(&self, id: InstrId, section: usize) -> bool {
        let at = id.index();
        self.is_between[at] || self.is_given(id) || self.section[at] != section && self.is_stored(id)
    }

    /// The kernels of a segment: those whose values it stores, and what they keep in registers where it is
    /// first needed.
    fn kernels(&self, section: usize, cluster: &Cluster) -> BTreeMap<String, (Item, f64)> {
        let mut found: BTreeMap<String, (Item, f64)> = BTreeMap::new();
        for id in (0..self.section.len()).map(InstrId::new).filter(|id| self.runs_in(*id) == Some(section)) {
            for (one, times) in self.asked(self.comp, id, cluster) {
                let key = one.item.key.clone();
                found.entry(key).or_insert((one.item, 0.0)).1 += one.times * times;
            }
        }
        found
    }

    /// The segment that an instruction's kernel counts for.
    fn runs_in(&self, id: InstrId) -> Option<usize> {
        let at = id.index();
        let first = self.readers[at].iter().next()?;
        match () {
            () if self.is_between[at] || self.is_given(id) => None,
            () if self.is_stored(id) || *first == OUTSIDE => Some(self.section[at]),
            () => Some(*first),
        }
    }

    /// What an instruction asks for, with what it calls: how often per execution of it.
    fn asked(&self, comp: CompId, id: InstrId, cluster: &Cluster) -> Vec<(Asked, f64)> {
        let own = asked_by(self.device, self.facts, cluster, comp, id).into_iter().map(|one| (one, 1.0));
        let planned = planned_comps(self.device);
        let called = self.device.comp(comp).instr(id).called().filter(|it| planned.contains(it));
        let inner = called.flat_map(|callee| {
            let times = self.facts.executions[callee.index()] / self.facts.executions[comp.index()];
            let ids = (0..self.device.comp(callee).instrs.len()).map(InstrId::new);
            let all = ids.flat_map(move |id| self.asked(callee, id, cluster));
            all.map(move |(one, n)| (one, n * times)).collect::<Vec<_>>()
        });
        own.chain(inner).collect()
    }
}

#[cfg(test)]
mod tests;
