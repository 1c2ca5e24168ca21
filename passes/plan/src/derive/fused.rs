//! What stays in registers: kernels, memory traffic and allocations of one computation, by `pricing`'s rule.

use super::InstrFacts;
use super::ops::is_move;
use super::origin::operand_origins;
use crate::pricing::{
    Input, Kernel, Part, Reader, Share, elements, is_materialised, kernel, n_elements, shared, shares,
    stored_for_less, sums_rows,
};
use indexmap::IndexMap;
use phzc_ir::notes::Phase;
use phzc_ir::{CompId, Computation, FusionKind, Instr, InstrId, Module, Opcode, Shape, Touch};
use smallvec::SmallVec;

/// Fills in kernel, memory traffic and whether the value has memory of its own.
pub fn fuse(module: &Module, comp: CompId, facts: &mut [InstrFacts]) {
    let computation = module.comp(comp);
    let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); facts.len()];
    let mut ops: Vec<Opcode> = Vec::with_capacity(facts.len());
    for (id, instr) in computation.iter() {
        ops.push(acts_as(instr, &ops, &facts[id.index()]));
        for &operand in &instr.operands {
            let is_same_region = same_region(facts, operand, id);
            readers[operand.index()].push(Reader { op: ops[id.index()], is_same_region });
        }
    }
    readers[computation.root.index()].push(Reader { op: Opcode::Tuple, is_same_region: false });
    let is_wanted = |id: usize| is_materialised(ops[id], readers[id].iter().copied());
    let mut wanted: Vec<bool> = (0..facts.len()).map(is_wanted).collect();
    place_all(computation, &ops, &wanted, facts);
    let costly = stored_for_less(&parts(computation, &ops, facts));
    wanted.iter_mut().zip(&costly).for_each(|(wanted, costly)| *wanted |= costly);
    place_all(computation, &ops, &wanted, facts);
    let shares = shares(&parts(computation, &ops, facts));
    for (id, instr) in computation.iter() {
        let operands: Vec<f64> = operand_bytes(instr, facts, id, &shares[id.index()]);
        let own = &mut facts[id.index()];
        if own.kernel != Kernel::Nothing {
            own.kernel = shared(own.kernel, &shares[id.index()]);
            own.work.bytes = instr.op.def().touch.bytes(&operands, result_bytes(own), wanted[id.index()]);
        }
    }
}

fn place_all(comp: &Computation, ops: &[Opcode], wanted: &[bool], facts: &mut [InstrFacts]) {
    for (id, instr) in comp.iter() {
        let first = instr.operands.first();
        let reads_memory = first.is_some_and(|first| facts[first.index()].in_memory);
        place(instr, ops[id.index()], wanted[id.index()], reads_memory, &mut facts[id.index()]);
    }
}

/// The computation as what decides about kernels sees it.
fn parts(comp: &Computation, ops: &[Opcode], facts: &[InstrFacts]) -> Vec<Part> {
    let mut regions: IndexMap<(usize, Phase), u32> = IndexMap::new();
    let (mut names, mut parts) = (Names::default(), Vec::with_capacity(facts.len()));
    for (id, instr) in comp.iter() {
        let (own, fusion) = (&facts[id.index()], ops[id.index()].def().fusion);
        let is_sent = !own.steps.is_empty();
        let does_nothing = own.kernel == Kernel::Nothing && (fusion == FusionKind::Control || own.in_memory);
        let is_name = does_nothing && !is_sent;
        let operands =
            operand_origins(comp, instr).map(|(maker, leaf)| names.of[maker.index()][leaf]).collect();
        let is_view = is_name && fusion != FusionKind::Control;
        names.push(comp, id, is_view, !is_name);
        let next = regions.len() as u32;
        let region = *regions.entry((own.stage, own.phase)).or_insert(next);
        parts.push(Part {
            fusion,
            region,
            elements: elements(comp, instr),
            bytes: instr.shape.bytes(),
            sums_rows: sums_rows(comp, instr),
            reads_part: instr.op.def().touch == Touch::Part,
            is_stored: own.in_memory,
            is_name,
            operands,
        });
    }
    parts
}

/// The values that instructions stand for.
#[derive(Default)]
struct Names {
    /// Per instruction and leaf.
    of: Vec<SmallVec<[Input; 1]>>,
    n_values: u32,
}

impl Names {
    /// Adds an instruction's own values, or those that it is a view of.
    fn push(&mut self, comp: &Computation, id: InstrId, is_view: bool, is_made: bool) {
        let instr = comp.instr(id);
        let maker = is_made.then_some(id.index() as u32);
        let of_view =
            || operand_origins(comp, instr).next().map(|(maker, leaf)| self.of[maker.index()][leaf]);
        let viewed = is_view.then(of_view).flatten();
        let own = |(value, shape): (u32, &Shape)| Input {
            maker,
            value,
            elements: n_elements(shape),
            bytes: shape.bytes(),
        };
        let leaves = instr.shape.leaves();
        let found = (self.n_values..)
            .zip(leaves)
            .map(|it| viewed.unwrap_or_else(|| own(it)))
            .collect::<SmallVec<[Input; 1]>>();
        self.n_values += found.len() as u32;
        self.of.push(found);
    }
}

/// The opcode by which an instruction fuses: a slice of what is made where it is read is made there too, and
/// is a view of anything else.
fn acts_as(instr: &Instr, before: &[Opcode], own: &InstrFacts) -> Opcode {
    let is_slice = is_move(instr) && own.steps.is_empty();
    let source = instr.operands.first().map(|operand| before[operand.index()]).filter(|_| is_slice);
    match source {
        Some(op) if op.def().fusion == FusionKind::Free => op,
        Some(_) => Opcode::Bitcast,
        None => instr.op,
    }
}

fn same_region(facts: &[InstrFacts], made: InstrId, read: InstrId) -> bool {
    let (a, b) = (&facts[made.index()], &facts[read.index()]);
    (a.stage, a.phase) == (b.stage, b.phase)
}

fn place(instr: &Instr, op: Opcode, wanted: bool, reads_memory: bool, own: &mut InstrFacts) {
    let kind = op.def().fusion;
    let is_constant = instr.op == Opcode::Constant;
    let is_scalar = instr.shape.as_array().is_some_and(|array| array.rank() == 0);
    let is_alias =
        kind == FusionKind::Control || (kind == FusionKind::View && reads_memory && !is_move(instr));
    let is_copy = is_move(instr) && reads_memory;
    own.in_memory = (wanted || is_alias || is_copy) && !(is_constant && is_scalar);
    own.is_allocated = own.in_memory && (!is_alias || is_constant || instr.op == Opcode::Parameter);
    let talks = crate::collectives::kind(instr.op).is_some() || instr.op == Opcode::AsyncStart;
    let is_collective = talks && !own.steps.is_empty();
    own.kernel =
        if is_move(instr) || is_collective { Kernel::Nothing } else { kernel(op, wanted, reads_memory) };
}

/// Bytes that one device reads of each operand on an instruction's account; none of those that are not in
/// memory.
fn operand_bytes(instr: &Instr, facts: &[InstrFacts], id: InstrId, share: &Share) -> Vec<f64> {
    let mut reads = facts[id.index()].reads.iter().zip(&share.reads).map(|(bytes, n)| bytes * f64::from(*n));
    let mut bytes = Vec::with_capacity(instr.operands.len());
    for operand in &instr.operands {
        let maker = &facts[operand.index()];
        let read: f64 = reads.by_ref().take(maker.leaves.len()).sum();
        bytes.push(if maker.in_memory { read } else { 0.0 });
    }
    bytes
}

/// Bytes of the result on one device as the op makes it, before a reduction scatters it.
fn result_bytes(own: &InstrFacts) -> f64 {
    let scattered = own.steps.iter().filter(|step| step.kind == phzc_cost::Collective::ReduceScatter);
    scattered.map(|step| step.bytes).fold(own.bytes.iter().sum(), f64::max)
}
