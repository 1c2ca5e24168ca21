//! What a plan makes of each instruction of the program: where it lies, what it takes, how its value moves.
//!
//! Reshards and copies that the plan adds, and what the backward part does again, are booked on the
//! instruction whose value they move or make again, so that two plans of one program can be compared one by
//! one.

use super::costs::{Bound, Cost, parts};
use super::recompute::again;
use crate::derive::{Facts, Phase, is_move, planned_comps};
use crate::pricing::{AxisMask, axes_of};
use crate::strip::sources;
use phzc_cost::Cluster;
use phzc_ir::{CompId, Computation, InstrId, Layout, Mesh, Module, loops, notes};

/// One instruction of the program under a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Its name; of a loop's body behind that of the computation: `body/dot.3`.
    pub name: String,
    /// HLO's name of the op.
    pub op: &'static str,
    /// File and line, as the program's metadata have them: `model.py:12`.
    pub source: Option<String>,
    /// Its type; of a tuple that of the first leaf.
    pub shape: String,
    /// Mesh axes with their sizes per dimension: `[x=4,-]`.
    pub layout: String,
    /// The pipeline stage.
    pub stage: usize,
    /// The part of the step.
    pub phase: Phase,
    /// Seconds per step that a device takes for kernels, copies and what is spilled included.
    pub kernel_secs: f64,
    /// What bounds the longest of them.
    pub bound: Option<Bound>,
    /// Communication, in the order of the text; equal ones together.
    pub moves: Vec<Movement>,
    /// Copies of it in other layouts that the plan has added.
    pub n_copies: usize,
    /// Whether the backward part does it again.
    pub is_again: bool,
}

/// A collective on an instruction's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Movement {
    /// HLO's name.
    pub kind: String,
    /// Mesh axes with their sizes: `x=4`.
    pub axes: String,
    /// How often in one step.
    pub times: u64,
    /// Message bytes on one device in one step.
    pub bytes: f64,
    /// Seconds in one step.
    pub secs: f64,
}

impl Entry {
    /// Seconds per step of kernels and communication, on a device of its stage.
    pub fn secs(&self) -> f64 {
        self.kernel_secs + self.moves.iter().map(|it| it.secs).sum::<f64>()
    }
}

/// The instructions of a planned program, callees first, in program order; what takes no time included.
pub fn ledger(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Entry> {
    let mut found = Vec::new();
    for comp in planned_comps(module) {
        let mut source = sources(module.comp(comp));
        if comp == module.entry {
            book_again(module, facts, &mut source);
        }
        let mut place = vec![usize::MAX; source.len()];
        for (index, of) in source.iter().enumerate() {
            let id = InstrId::new(index);
            if of.index() == index {
                place[index] = found.len();
                found.push(entry(module, facts, comp, id));
            }
        }
        for (index, of) in source.iter().enumerate() {
            let id = InstrId::new(index);
            let mesh = &facts.header.meshes[facts.comps[comp.index()][index].stage];
            let booked = &mut found[place[of.index()]];
            let is_copy = is_copy(module.comp(comp), id);
            booked.n_copies += usize::from(is_copy);
            booked.is_again |= of.index() != index && !is_copy && !is_move(module.comp(comp).instr(id));
            parts(module, facts, cluster, comp, id).iter().for_each(|cost| booked.book(cost, mesh));
        }
    }
    found
}

/// What the backward part does again is its original's, with the reshards of its value.
fn book_again(module: &Module, facts: &Facts, source: &mut [InstrId]) {
    let mut first: Vec<InstrId> = (0..source.len()).map(InstrId::new).collect();
    again(module, facts).into_iter().for_each(|(id, original)| first[id.index()] = original);
    for of in source.iter_mut() {
        *of = first[of.index()];
    }
    // What an instruction repeats may itself be a copy that the plan has added.
    let own: Vec<InstrId> = source.iter().map(|of| source[of.index()]).collect();
    source.copy_from_slice(&own);
}

/// A copy is what the plan adds and moves nothing.
fn is_copy(comp: &Computation, id: InstrId) -> bool {
    comp.instr(id).note(notes::REMADE).is_some()
}

fn entry(module: &Module, facts: &Facts, comp: CompId, id: InstrId) -> Entry {
    let (instr, own) = (module.comp(comp).instr(id), &facts.comps[comp.index()][id.index()]);
    let array = instr.shape.leaves().first().and_then(|leaf| leaf.as_array().cloned());
    let leaf = own.leaves.first().copied().unwrap_or_default();
    let is_entry = comp == module.entry;
    let name = &instr.name;
    Entry {
        name: if is_entry { name.to_string() } else { format!("{}/{name}", module.comp(comp).name) },
        op: instr.op.as_str(),
        source: loops::source_line(instr),
        shape: array.as_ref().map_or_else(String::new, super::tensors::type_text),
        layout: array.map_or_else(String::new, |array| {
            sized(leaf.layout, array.rank(), &facts.header.meshes[leaf.stage])
        }),
        stage: own.stage,
        phase: own.phase,
        ..Entry::default()
    }
}

/// `[x=4,-]`, `[x=2+y=4,-]`: two plans may call different axes alike.
fn sized(layout: Layout, rank: usize, mesh: &Mesh) -> String {
    let dim = |dim: usize| {
        let axes = layout.axes_of(dim).filter(|&axis| axis < mesh.n_axes());
        let names: Vec<String> = axes.map(|axis| axis_text(mesh, axis)).collect();
        if names.is_empty() { "-".to_owned() } else { names.join("+") }
    };
    format!("[{}]", (0..rank).map(dim).collect::<Vec<_>>().join(","))
}

fn axis_text(mesh: &Mesh, axis: usize) -> String {
    format!("{}={}", mesh.axis_name(axis), mesh.sizes[axis])
}

fn axes_text(mesh: &Mesh, axes: AxisMask) -> String {
    let names = axes_of(axes).filter(|&axis| axis < mesh.n_axes()).map(|axis| axis_text(mesh, axis));
    names.collect::<Vec<_>>().join("+")
}

impl Entry {
    /// Adds what an instruction takes.
    fn book(&mut self, cost: &Cost, mesh: &Mesh) {
        let secs = cost.secs * cost.times as f64;
        let Bound::Collective(kind, axes) = cost.bound else {
            if self.bound.is_none() || secs > self.kernel_secs {
                self.bound = Some(cost.bound);
            }
            self.kernel_secs += secs;
            return;
        };
        let bytes = cost.bytes * cost.times as f64;
        let (kind, axes) = (kind.to_string(), axes_text(mesh, axes));
        match self.moves.iter_mut().find(|it| it.kind == kind && it.axes == axes) {
            Some(same) => {
                same.times += cost.times;
                same.bytes += bytes;
                same.secs += secs;
            }
            None => self.moves.push(Movement { kind, axes, times: cost.times, bytes, secs }),
        }
    }
}
