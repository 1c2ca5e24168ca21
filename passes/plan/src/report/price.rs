//! Seconds of each stage: every instruction and every collective, times how often it runs.

use super::{Breakdown, CollectiveUse, overlap};
use crate::derive::{Facts, InstrFacts, Nature, Phase, Step, planned_comps, put_off_of_plan, with_callees};
use crate::pricing::{self, Kernel, Local, axes_of};
use phzc_cost::{Cluster, Collective};
use phzc_ir::{CompId, DType, Instr, InstrId, Mesh, Module, Part, Product};
use std::collections::BTreeMap;

/// What one stage takes.
#[derive(Clone, Debug, Default)]
pub struct StagePrice {
    /// Instructions.
    pub n_instrs: usize,
    /// Forward, of one microbatch.
    pub forward_secs: f64,
    /// Backward, of one microbatch.
    pub backward_secs: f64,
    /// The part of it that no other stage waits for.
    pub weight_secs: f64,
    /// The update, once a step.
    pub update_secs: f64,
    /// Of the forward, backward and update seconds those in which bytes are moved.
    pub moving_secs: [f64; 3],
    /// Seconds per step, without waiting.
    pub breakdown: Breakdown,
    collectives: BTreeMap<(Collective, u8), Total>,
}

/// Collectives of one kind over the same axes.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: f64,
    bytes: f64,
    secs: f64,
    hidden_secs: f64,
}

/// How a part of an instruction runs: `times` per step, each on a `share` of the batch.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    pub times: f64,
    pub share: f64,
    phase: Phase,
    /// The kind of loops of a product that run over the batch.
    batch: Part,
}

/// The price of every stage.
pub fn stages(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<StagePrice> {
    let mut prices = vec![StagePrice::default(); facts.header.meshes.len()];
    let hidden = overlap::hidden(module, facts, cluster);
    let is_put_off = with_callees(module, put_off_of_plan(module, facts));
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let price = &mut prices[facts.comps[comp.index()][id.index()].stage];
            let of = (comp, id, instr);
            match hidden.get(&(comp, id)) {
                Some(&share) => price.partly_hidden(module, facts, cluster, of, share),
                None => {
                    let is_put_off = is_put_off[comp.index()][id.index()];
                    price.instr_put_off(module, facts, cluster, of, is_put_off);
                }
            }
        }
    }
    prices
}

/// No plan of a program, given without layouts, takes less on a cluster, whatever it computes again: all its
/// products in tiles that fit, spread evenly. Per instruction of the entry: how many it stands for.
pub fn products_secs(module: &Module, facts: &Facts, cluster: &Cluster, n_alike: &[f64]) -> f64 {
    let secs = |comp: CompId| {
        let own = |(id, instr): (InstrId, &Instr)| {
            let own = &facts.comps[comp.index()][id.index()];
            let n_alike = if comp == module.entry { n_alike[id.index()] } else { 1.0 };
            let flops = if own.kernel == Kernel::Matrix { own.work.flops } else { own.work.products };
            n_alike * flops / pricing::products_per_sec(cluster, product_dtype(module, comp, instr))
        };
        facts.executions[comp.index()] * module.comp(comp).iter().map(own).sum::<f64>()
    };
    planned_comps(module).into_iter().map(secs).sum::<f64>() / cluster.n_devices() as f64
}

/// Collectives per step that the plan does not mention.
pub fn n_implicit(facts: &Facts) -> u64 {
    let per_comp = |(instrs, times): (&Vec<InstrFacts>, &f64)| {
        let implicit = instrs.iter().flat_map(|own| &own.steps).filter(|step| step.is_implicit);
        implicit.count() as f64 * times
    };
    facts.comps.iter().zip(&facts.executions).map(per_comp).sum::<f64>() as u64
}

pub(super) fn product_dtype(module: &Module, comp: CompId, instr: &Instr) -> &'static str {
    let source = instr.operands.first().map_or(instr, |&id| module.comp(comp).instr(id));
    let dtype = source
        .shape
        .leaves()
        .first()
        .and_then(|leaf| leaf.as_array())
        .map_or(DType::F32, |array| array.dtype);
    pricing::numbers(dtype, pricing::is_exact(instr))
}

impl Runs {
    fn times(self, executions: f64) -> Runs {
        Runs { times: self.times * executions, ..self }
    }
}

/// An op that touches data runs per microbatch on its part; one on sums of microbatches once; others anew
/// each time.
pub(super) fn op_runs(facts: &Facts, comp: CompId, id: InstrId, instr: &Instr) -> Runs {
    let own = &facts.comps[comp.index()][id.index()];
    let runs = runs(facts, nature(facts, comp, id, instr), own.phase);
    Runs { batch: batch_part(facts, comp, id, instr), ..runs }
}

/// One run where a microbatch is a `share` of the batch, and the part of the step that it belongs to.
pub(super) fn op_runs_at(
    facts: &Facts,
    comp: CompId,
    id: InstrId,
    instr: &Instr,
    share: f64,
) -> (Runs, Phase) {
    let (nature, own) = (nature(facts, comp, id, instr), &facts.comps[comp.index()][id.index()]);
    let phase = if nature == Nature::Sum { Phase::Update } else { own.phase };
    let is_part = nature == Nature::Part && phase != Phase::Update;
    let share = if is_part { share } else { 1.0 };
    (Runs { times: 1.0, share, phase, batch: batch_part(facts, comp, id, instr) }, phase)
}

/// How what an op works on relates to microbatches.
fn nature(facts: &Facts, comp: CompId, id: InstrId, instr: &Instr) -> Nature {
    let all = &facts.comps[comp.index()];
    let operands = instr.operands.iter().flat_map(|operand| &all[operand.index()].natures);
    operands.chain(&all[id.index()].natures).copied().max().unwrap_or_default()
}

/// The kind of loops of a product that run over the batch.
fn batch_part(facts: &Facts, comp: CompId, id: InstrId, instr: &Instr) -> Part {
    let all = &facts.comps[comp.index()];
    let is_part = |own: &InstrFacts| own.natures.contains(&Nature::Part);
    let mut sides = instr.operands.iter().map(|operand| is_part(&all[operand.index()]));
    match (sides.next(), sides.next()) {
        _ if !is_part(&all[id.index()]) => Part::Sums,
        (Some(true), Some(true)) => Part::Batch,
        (_, Some(true)) => Part::Columns,
        _ => Part::Rows,
    }
}

/// What one device does each time.
pub(super) fn local(own: &InstrFacts, dtype: &'static str, runs: Runs) -> Local {
    let n_parts = 1.0 / runs.share;
    // Where no loop counts products, the batch is one of the rows' loops.
    let part = |product: &Product| match runs.batch {
        Part::Batch if product.batch < n_parts => Part::Rows,
        part => part,
    };
    let product = own.product.map(|product| product.split(part(&product), n_parts));
    Local { work: own.work * runs.share, product, kernel: own.kernel, dtype }
}

/// A collective moves the result.
pub(super) fn step_runs(facts: &Facts, own: &InstrFacts) -> Runs {
    runs(facts, own.natures.iter().copied().max().unwrap_or_default(), own.phase)
}

fn runs(facts: &Facts, nature: Nature, phase: Phase) -> Runs {
    let header = &facts.header;
    let (n_parts, n_own) = (header.n_microbatches as f64, header.n_own_microbatches() as f64);
    let batch = Part::Rows;
    match nature {
        _ if phase == Phase::Update => Runs { times: 1.0, share: 1.0, phase, batch },
        Nature::Sum if n_parts > 1.0 => Runs { times: 1.0, share: 1.0, phase: Phase::Update, batch },
        Nature::Part => Runs { times: n_own, share: 1.0 / n_parts, phase, batch },
        Nature::State | Nature::Sum => Runs { times: n_own, share: 1.0, phase, batch },
    }
}

/// Forward and backward times are per microbatch.
fn per_run(secs: f64, phase: Phase, facts: &Facts) -> f64 {
    if phase == Phase::Update { secs } else { secs / facts.header.n_own_microbatches() as f64 }
}

impl StagePrice {
    /// Adds an instruction of the stage that can be put off, or not.
    pub fn instr_put_off(
        &mut self,
        module: &Module,
        facts: &Facts,
        cluster: &Cluster,
        instr: (CompId, InstrId, &Instr),
        is_put_off: bool,
    ) {
        let before_secs = self.backward_secs;
        self.instr(module, facts, cluster, instr);
        self.weight_secs += if is_put_off { self.backward_secs - before_secs } else { 0.0 };
    }

    /// Adds an asynchronous instruction, a share of whose time is hidden beside computation.
    fn partly_hidden(
        &mut self,
        module: &Module,
        facts: &Facts,
        cluster: &Cluster,
        instr: (CompId, InstrId, &Instr),
        share: f64,
    ) {
        let mut alone = StagePrice::default();
        alone.instr(module, facts, cluster, instr);
        let shown = 1.0 - share;
        self.n_instrs += alone.n_instrs;
        self.forward_secs += shown * alone.forward_secs;
        self.backward_secs += shown * alone.backward_secs;
        self.update_secs += shown * alone.update_secs;
        for (sum, own) in self.moving_secs.iter_mut().zip(alone.moving_secs) {
            *sum += shown * own;
        }
        self.breakdown.add(&alone.breakdown.times(shown));
        for (key, own) in alone.collectives {
            let total = self.collectives.entry(key).or_default();
            total.count += own.count;
            total.bytes += own.bytes;
            total.secs += own.secs;
            total.hidden_secs += share * own.secs;
        }
    }

    /// Seconds per step, without waiting.
    pub fn busy_secs(&self, facts: &Facts) -> f64 {
        let n_times = facts.header.n_own_microbatches() as f64;
        n_times * (self.forward_secs + self.backward_secs) + self.update_secs
    }

    /// Adds an instruction of the stage: its kernel and its collectives.
    pub fn instr(
        &mut self,
        module: &Module,
        facts: &Facts,
        cluster: &Cluster,
        (comp, id, instr): (CompId, InstrId, &Instr),
    ) {
        let own = &facts.comps[comp.index()][id.index()];
        let cluster = facts.header.around(cluster, own.stage);
        let executions = facts.executions[comp.index()];
        let dtype = product_dtype(module, comp, instr);
        self.n_instrs += 1;
        self.kernel(own, dtype, cluster, op_runs(facts, comp, id, instr).times(executions), facts);
        if let Some(bytes) = own.spilled_bytes {
            self.spill(bytes, cluster, step_runs(facts, own).times(executions), facts);
        }
        for step in &own.steps {
            self.collective(own, step, cluster, step_runs(facts, own).times(executions), facts);
        }
    }

    fn kernel(
        &mut self,
        own: &InstrFacts,
        dtype: &'static str,
        cluster: &Cluster,
        runs: Runs,
        facts: &Facts,
    ) {
        if own.kernel == Kernel::Nothing {
            return;
        }
        let local = local(own, dtype, runs);
        let secs = pricing::op_secs(cluster, &local);
        let is_compute =
            pricing::compute_secs(cluster, &local) >= cluster.accelerator.memory_secs(local.work.bytes);
        let sum =
            if is_compute { &mut self.breakdown.compute_secs } else { &mut self.breakdown.memory_bound_secs };
        *sum += secs * runs.times;
        self.add(secs * runs.times, runs.phase, facts);
    }

    fn spill(&mut self, bytes: [f64; 2], cluster: &Cluster, runs: Runs, facts: &Facts) {
        let secs = runs.times * pricing::spill_secs(cluster, bytes.map(|bytes| bytes * runs.share));
        self.breakdown.memory_bound_secs += secs;
        self.add(secs, runs.phase, facts);
    }

    fn collective(&mut self, own: &InstrFacts, step: &Step, cluster: &Cluster, runs: Runs, facts: &Facts) {
        let bytes = step.bytes * runs.share;
        let mesh = &facts.header.meshes[own.stage];
        let secs = pricing::collective_secs(cluster, mesh, step.kind, step.axes, bytes);
        let total = self.collectives.entry((step.kind, step.axes)).or_default();
        total.count += runs.times;
        // What every microbatch sums up is no part of anything: a scalar is one element in each of them.
        total.bytes += bytes.max(step.dtype.bytes_of(1.0).min(step.bytes)) * runs.times;
        total.secs += secs * runs.times;
        self.breakdown.collective_secs += secs * runs.times;
        self.add(secs * runs.times, runs.phase, facts);
        self.moving_secs[runs.phase as usize] += per_run(secs * runs.times, runs.phase, facts);
    }

    fn add(&mut self, secs: f64, phase: Phase, facts: &Facts) {
        let secs = per_run(secs, phase, facts);
        match phase {
            Phase::Forward => self.forward_secs += secs,
            Phase::Backward => self.backward_secs += secs,
            Phase::Update => self.update_secs += secs,
        }
    }

    /// The collectives, by kind, then by axes.
    pub fn collective_uses(&self, stage: usize, mesh: &Mesh) -> Vec<CollectiveUse> {
        let name = |(&(kind, axes), total): (&(Collective, u8), &Total)| CollectiveUse {
            kind: kind.to_string(),
            axes: axes_of(axes).map(|axis| mesh.axis_name(axis).to_owned()).collect(),
            stage,
            count: total.count as u64,
            bytes: total.bytes,
            time_secs: total.secs,
            hidden_secs: total.hidden_secs,
        };
        self.collectives.iter().map(name).collect()
    }
}
