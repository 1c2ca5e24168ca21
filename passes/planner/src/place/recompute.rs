//! What the backward part can compute again instead of reading what the forward part has saved.
//!
//! Per run of the chain's units: the lower hull of seconds against bytes. Its points are minimum cuts, so
//! that between "nothing again" and "everything again" lie choices such as attention's weights but not its
//! products. What runs hand on is always saved.

mod attention;
mod cut;
mod readers;
pub mod rematerialize;

use crate::recomputation::Marks;
pub use attention::attention_core;
use cut::{Seconds, Value};
use indexmap::IndexMap;
use phzc_cost::Cluster;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{InstrId, Module, Opcode, Shape};
use phzc_plan::derive::{Facts, Nature, Phase, control_flow, is_naming, operand_origins, origins};
use phzc_plan::pricing::Kernel;
use phzc_plan::report::price::StagePrice;
use readers::Readers;
use rustc_hash::FxBuildHasher;

/// One choice of what a run computes again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Instructions of the entry that run again.
    pub again: Vec<InstrId>,
    /// Seconds of one microbatch that this takes more than to save all; below 0 where it takes less.
    pub secs: f64,
    /// Bytes of the whole batch, on one device, that need not be saved.
    pub saved_bytes: f64,
    /// Bytes of the whole batch, on one device, that are there again while the run's backward part is under
    /// way.
    pub again_bytes: f64,
}

/// Per run: its choices, from none to all, each saving more per second than the next adds.
pub fn points(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    run_of: &[usize],
    n_runs: usize,
) -> Vec<Vec<Point>> {
    let program = Program::new(module, facts, run_of);
    let mut runs: Vec<Vec<InstrId>> = vec![Vec::new(); n_runs];
    for id in (0..run_of.len()).map(InstrId::new).filter(|id| program.is_candidate[id.index()]) {
        runs[run_of[id.index()]].push(id);
    }
    let readers = Readers::of(module, facts);
    runs.iter().map(|own| cut::hull(&program.values(cluster, &readers, own))).collect()
}

/// What is to be done where each run computes again all that it does not hand on.
pub fn everything(module: &Module, facts: &Facts, run_of: &[usize]) -> Marks {
    let own = &facts.comps[module.entry.index()];
    Marks {
        is_again: Program::new(module, facts, run_of).is_candidate,
        is_data: own.iter().map(|own| own.natures.contains(&Nature::Part)).collect(),
        is_free: (0..own.len()).map(|id| is_free(module, facts, InstrId::new(id))).collect(),
    }
}

/// Who reads the values of the entry.
struct Program<'a> {
    module: &'a Module,
    facts: &'a Facts,
    /// Whether an instruction can run again, and its value not be saved.
    is_candidate: Vec<bool>,
    /// Whether the backward part reads it.
    is_wanted: Vec<bool>,
}

impl<'a> Program<'a> {
    fn new(module: &'a Module, facts: &'a Facts, run_of: &[usize]) -> Program<'a> {
        let (comp, own) = (module.entry(), &facts.comps[module.entry.index()]);
        let turn = turn(module, facts);
        let mut is_wanted = vec![false; comp.instrs.len()];
        let mut is_candidate: Vec<bool> =
            comp.iter().map(|(id, instr)| can_run_again(facts, module, id, instr)).collect();
        for (id, instr) in comp.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
            let phase = own[id.index()].phase;
            // What has no memory of its own is made where its readers are.
            let is_through = is_wanted[id.index()] && !own[id.index()].is_allocated;
            for (maker, _) in operand_origins(comp, instr) {
                is_wanted[maker.index()] |= phase == Phase::Backward || is_through;
                let [from, to] = [run_of[maker.index()], run_of[id.index()]];
                let is_handed_on = match phase {
                    Phase::Forward => from != to,
                    // A later stage's backward part never waits for an earlier one's.
                    Phase::Backward => from < to || id.index() < turn,
                    Phase::Update => true,
                };
                is_candidate[maker.index()] &= !is_handed_on;
            }
            // What is read as part of a tuple stays where it is.
            let tuples = instr.operands.iter().filter(|operand| is_tuple(&comp.instr(**operand).shape));
            for &operand in tuples {
                origins(comp, operand).into_iter().for_each(|(maker, _)| is_candidate[maker.index()] = false);
            }
        }
        origins(comp, comp.root).into_iter().for_each(|(maker, _)| is_candidate[maker.index()] = false);
        // Backward begins with what the last product makes: nothing is gained between.
        is_candidate[turn] &= own[turn].product.is_none();
        Program { module, facts, is_candidate, is_wanted }
    }

    /// The values of a run, and those that are handed to it which nobody would save otherwise.
    fn values(&self, cluster: &Cluster, readers: &Readers, own: &[InstrId]) -> Vec<Value> {
        let entry = self.module.entry();
        let mut at: IndexMap<InstrId, usize, FxBuildHasher> =
            own.iter().enumerate().map(|(index, &id)| (id, index)).collect();
        let mut values: Vec<Value> = own.iter().map(|&id| self.value(cluster, readers, id)).collect();
        for (index, &id) in own.iter().enumerate() {
            for (maker, _) in operand_origins(entry, entry.instr(id)) {
                let is_saved = self.is_wanted[maker.index()] && !self.is_candidate[maker.index()];
                if is_saved || self.part_bytes(maker) == 0.0 || entry.instr(maker).op == Opcode::Parameter {
                    values[index].secs.again += self.read_secs(cluster, maker);
                    continue;
                }
                let place = *at.entry(maker).or_insert_with(|| {
                    values.push(self.given(cluster, maker));
                    values.len() - 1
                });
                values[index].operands.push(place);
            }
        }
        values
    }

    /// What another run hands on.
    fn given(&self, cluster: &Cluster, id: InstrId) -> Value {
        let secs = Seconds { read: self.read_secs(cluster, id), ..Seconds::default() };
        let bytes = Some(self.part_bytes(id));
        Value { id, can_run_again: false, secs, bytes, is_wanted: false, operands: Vec::new() }
    }

    fn value(&self, cluster: &Cluster, readers: &Readers, id: InstrId) -> Value {
        let is_wanted = self.is_wanted[id.index()] && self.is_candidate[id.index()];
        let is_allocated = self.facts.comps[self.module.entry.index()][id.index()].is_allocated;
        let bytes = (is_allocated || !is_wanted).then(|| self.part_bytes(id));
        let secs = self.secs(cluster, readers, id);
        Value { id, can_run_again: true, secs, bytes, is_wanted, operands: Vec::new() }
    }

    /// What a value takes that is saved, or computed again: of a kernel that fuses, traffic and launches.
    fn secs(&self, cluster: &Cluster, readers: &Readers, id: InstrId) -> Seconds {
        let (entry, read) = (self.module.entry, self.read_secs(cluster, id));
        let own = &self.facts.comps[entry.index()][id.index()];
        let mut price = StagePrice::default();
        price.instr(self.module, self.facts, cluster, (entry, id, self.module.entry().instr(id)));
        if matches!(own.kernel, Kernel::Nothing | Kernel::Matrix | Kernel::Attention(_)) {
            return Seconds { save: 0.0, again: price.forward_secs, read };
        }
        let n_parts = self.facts.header.n_microbatches as f64;
        let compute = cluster.accelerator.vector_secs(&own.work) / n_parts;
        let written = read + cluster.accelerator.launch_secs;
        let readers = readers.of_value(self.module, self.facts, id);
        let forward = if readers.forward_keeps { 0.0 } else { written + readers.n_forward as f64 * read };
        let late = readers.n_late as f64 * read;
        let again = compute + if readers.late_keeps { written + late } else { 0.0 };
        Seconds { save: forward + late, again, read }
    }

    /// Seconds to read a value, or to write it, for one microbatch.
    fn read_secs(&self, cluster: &Cluster, id: InstrId) -> f64 {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        let bytes = if own.in_memory { own.bytes.iter().sum::<f64>() } else { self.part_bytes(id) };
        cluster.accelerator.memory_secs(bytes) / self.facts.header.n_microbatches as f64
    }

    /// Bytes of the parts that there are of a value, for the whole batch.
    fn part_bytes(&self, id: InstrId) -> f64 {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        let parts = own.bytes.iter().zip(&own.natures).filter(|(_, nature)| **nature == Nature::Part);
        parts.map(|(bytes, _)| bytes).sum()
    }
}

/// The last product of the forward part: what stands before it is read there, whatever phase its reader is
/// said to be of.
fn turn(module: &Module, facts: &Facts) -> usize {
    let own = &facts.comps[module.entry.index()];
    own.iter().rposition(|own| own.phase == Phase::Forward && own.product.is_some()).unwrap_or(0)
}

/// Whether a forward value has no memory of its own, and can be made again where it is read.
pub fn is_free(module: &Module, facts: &Facts, id: InstrId) -> bool {
    let own = &facts.comps[module.entry.index()][id.index()];
    !own.is_allocated && can_run_again(facts, module, id, module.entry().instr(id))
}

/// Whether an instruction is of the forward part, works on data and does nothing but make one array.
fn can_run_again(facts: &Facts, module: &Module, id: InstrId, instr: &phzc_ir::Instr) -> bool {
    let own = &facts.comps[module.entry.index()][id.index()];
    own.phase == Phase::Forward
        && own.natures.contains(&Nature::Part)
        && !is_naming(instr)
        && !is_tuple(&instr.shape)
        && instr.op != Opcode::Parameter
        && control_flow(instr).is_empty()
        && !has_side_effect(instr)
}

fn is_tuple(shape: &Shape) -> bool {
    matches!(shape, Shape::Tuple(_))
}
