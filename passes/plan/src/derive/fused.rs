//! What stays in registers: kernels, memory traffic and allocations of one computation, by `pricing`'s rule.

use super::InstrFacts;
use super::ops::is_move;
use super::origin::{is_naming, operand_origins};
use crate::pricing::{
    Input, Kernel, Part, Reader, Share, elements, is_materialised, kernel, n_elements, shared, shares,
    stored_for_less, sums_rows,
};
use indexmap::IndexMap;
use phzc_ir::notes::{self, Phase};
use phzc_ir::{CompId, Computation, FusionKind, Instr, InstrId, Module, Opcode, Shape, Touch};
use smallvec::SmallVec;

/// Fills in kernel, memory traffic and whether the value has memory of its own.
///
/// Kernels are those of the program without its changes of layout, as the planner's graph has it: what stays
/// in registers there is copied out where it is moved ([`spilled`]). Memory is asked of the text as it is.
/// Where phases are no tasks of their own, kernels of the backward part make what they read of the forward
/// part again as far as it fuses, as XLA has it; not where attention has a kernel in either.
pub fn fuse(module: &Module, comp: CompId, in_tasks: bool, facts: &mut [InstrFacts]) {
    let computation = module.comp(comp);
    let mut ops: Vec<Opcode> = Vec::with_capacity(facts.len());
    for (id, instr) in computation.iter() {
        ops.push(acts_as(instr, &ops, &facts[id.index()]));
        // A part of what attention has in registers is there too.
        if is_move(instr) && facts[id.index()].steps.is_empty() {
            facts[id.index()].attention = facts[instr.operands[0].index()].attention;
        }
    }
    let phases: Vec<Phase> = facts.iter().map(|own| own.phase).collect();
    if !in_tasks && facts.iter().all(|own| own.attention.is_none()) {
        facts.iter_mut().for_each(|own| own.phase = own.phase.in_one_task());
    }
    place_in_kernels(computation, &ops, facts);
    facts.iter_mut().zip(phases).for_each(|(own, phase)| own.phase = phase);
}

fn place_in_kernels(computation: &Computation, ops: &[Opcode], facts: &mut [InstrFacts]) {
    let costly = run_in_kernels(computation, ops, facts);
    let wanted = either(wanted(computation, ops, facts, |_| false), &costly);
    for (id, instr) in computation.iter() {
        allocate(
            instr,
            ops[id.index()],
            wanted[id.index()],
            reads_memory(instr, facts),
            &mut facts[id.index()],
        );
    }
}

/// Fills in kernels, their traffic and what is copied out of them. Answers with what is in memory because
/// that moves fewer bytes than to make it again.
fn run_in_kernels(comp: &Computation, ops: &[Opcode], facts: &mut [InstrFacts]) -> Vec<bool> {
    let wanted = wanted(comp, ops, facts, is_move);
    place_all(comp, ops, &wanted, facts);
    let costly = stored_for_less(&parts(comp, ops, facts));
    let wanted = either(wanted, &costly);
    place_all(comp, ops, &wanted, facts);
    let (shares, spilled) = (shares(&parts(comp, ops, facts)), spilled(comp, ops, facts));
    for (id, instr) in comp.iter() {
        let (share, is_wanted) = (&shares[id.index()], wanted[id.index()]);
        let operands: Vec<f64> = operand_bytes(instr, facts, id, share);
        let own = &mut facts[id.index()];
        own.spilled_bytes = spilled[id.index()];
        if own.kernel != Kernel::Nothing {
            own.kernel = shared(own.kernel, share);
            let (touch, result) = (instr.op.def().touch, result_bytes(own));
            let updates = own.reads.get(touch.updates(own.reads.len())).unwrap_or_default();
            own.work.bytes = touch.bytes(&operands, updates.iter().sum(), result, is_wanted);
        }
    }
    costly
}

fn either(mut wanted: Vec<bool>, costly: &[bool]) -> Vec<bool> {
    wanted.iter_mut().zip(costly).for_each(|(wanted, costly)| *wanted |= costly);
    wanted
}

/// Per instruction: whether its readers want its value in memory; what reads the value of an instruction that
/// is `seen` through reads that one's operand.
fn wanted(
    comp: &Computation,
    ops: &[Opcode],
    facts: &[InstrFacts],
    seen: impl Fn(&Instr) -> bool,
) -> Vec<bool> {
    let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); ops.len()];
    let mut source: Vec<InstrId> = Vec::with_capacity(ops.len());
    for (id, instr) in comp.iter() {
        if seen(instr) {
            source.push(source[instr.operands[0].index()]);
            continue;
        }
        source.push(id);
        for operand in &instr.operands {
            let maker = source[operand.index()];
            readers[maker.index()].push(reader(facts, maker, (id, ops[id.index()])));
        }
    }
    let root = source[comp.root.index()];
    readers[root.index()].push(Reader::OF_RESULTS);
    let is_wanted = |(id, instr): (InstrId, &Instr)| {
        let (op, is_in_attention) = (ops[id.index()], facts[id.index()].attention.is_some());
        !seen(instr) && is_materialised(op, is_in_attention, readers[id.index()].iter().copied())
    };
    comp.iter().map(is_wanted).collect()
}

/// Per instruction: the bytes that one device writes and reads because a value that would stay in registers
/// is moved, or copied where it is: once for each layout that it is read in.
fn spilled(comp: &Computation, ops: &[Opcode], facts: &[InstrFacts]) -> Vec<Option<[f64; 2]>> {
    let (moved, is_end) = (moved_from(comp, facts), ends_of_moves(comp));
    let bytes = |id: InstrId| facts[id.index()].bytes.iter().sum::<f64>();
    let spilled = |(id, instr): (InstrId, &Instr)| {
        let source = moved[id.index()].filter(|_| is_end[id.index()]).map(|from| (from, id));
        let kept = kept_for_a_copy(comp, instr, ops[id.index()]).map(|operand| (operand, operand));
        let (from, to) = source.or(kept).filter(|(from, _)| !facts[from.index()].in_memory)?;
        Some([bytes(from), bytes(to)])
    };
    comp.iter().map(spilled).collect()
}

/// Per instruction: what collectives bring there, if it is a change of layout or the sum of partial values.
fn moved_from(comp: &Computation, facts: &[InstrFacts]) -> Vec<Option<InstrId>> {
    let mut source: Vec<(InstrId, bool)> = Vec::with_capacity(facts.len());
    for (id, instr) in comp.iter().map(|(id, instr)| (id, is_move(instr).then_some(instr))) {
        let (from, is_sent) = instr.map_or((id, false), |instr| source[instr.operands[0].index()]);
        source.push((from, is_sent || instr.is_some() && !facts[id.index()].steps.is_empty()));
    }
    source.into_iter().map(|(from, is_sent)| is_sent.then_some(from)).collect()
}

/// Per instruction: whether another reads it than one that changes its layout.
fn ends_of_moves(comp: &Computation) -> Vec<bool> {
    let mut is_end = vec![false; comp.instrs.len()];
    is_end[comp.root.index()] = true;
    for operand in comp.instrs.iter().filter(|instr| !is_move(instr)).flat_map(|instr| &instr.operands) {
        is_end[operand.index()] = true;
    }
    is_end
}

/// The value that is read where it is to make a copy that is no part of its reader.
fn kept_for_a_copy(comp: &Computation, instr: &Instr, op: Opcode) -> Option<InstrId> {
    let is_copy = |instr: &Instr| instr.note(notes::REMADE).is_some();
    let is_part = op.def().fusion == FusionKind::Free;
    let operand = *instr.operands.first().filter(|_| is_copy(instr) && !is_part)?;
    let source = comp.instr(operand);
    (!is_copy(source) && !is_move(source)).then_some(operand)
}

fn reads_memory(instr: &Instr, facts: &[InstrFacts]) -> bool {
    instr.operands.first().is_some_and(|first| facts[first.index()].in_memory)
}

fn place_all(comp: &Computation, ops: &[Opcode], wanted: &[bool], facts: &mut [InstrFacts]) {
    for (id, instr) in comp.iter() {
        let (op, wanted, reads_memory) = (ops[id.index()], wanted[id.index()], reads_memory(instr, facts));
        let own = &mut facts[id.index()];
        allocate(instr, op, wanted, reads_memory, own);
        let talks = crate::collectives::kind(instr.op).is_some() || instr.op == Opcode::AsyncStart;
        let is_collective = talks && !own.steps.is_empty();
        own.kernel = match is_move(instr) || is_collective {
            true => Kernel::Nothing,
            false => kernel(op, own.attention, wanted, reads_memory),
        };
    }
}

/// The computation as what decides about kernels sees it.
fn parts(comp: &Computation, ops: &[Opcode], facts: &[InstrFacts]) -> Vec<Part> {
    let mut regions: IndexMap<(usize, Phase), u32> = IndexMap::new();
    let (mut names, mut parts) = (Names::default(), Vec::with_capacity(facts.len()));
    for (id, instr) in comp.iter() {
        let (own, fusion) = (&facts[id.index()], ops[id.index()].def().fusion);
        let does_nothing = own.kernel == Kernel::Nothing && (fusion == FusionKind::Control || own.in_memory);
        let is_move = is_move(instr);
        let is_name = is_move || does_nothing && own.steps.is_empty();
        let value = |(maker, leaf): (InstrId, usize)| names.of[maker.index()][leaf];
        // Readers see through what only names values.
        let operands = if is_naming(instr) {
            SmallVec::new()
        } else {
            operand_origins(comp, instr).map(value).collect()
        };
        let is_view = is_move || is_name && fusion != FusionKind::Control;
        names.push(comp, id, is_view, !is_name);
        let next = regions.len() as u32;
        let region = *regions.entry((own.stage, own.phase)).or_insert(next);
        let part = Part {
            fusion: if own.attention.is_some() { FusionKind::Matrix } else { fusion },
            region,
            elements: elements(comp, instr),
            bytes: instr.shape.bytes(),
            sums_rows: sums_rows(comp, instr),
            reads_part: instr.op.def().touch == Touch::Part,
            is_stored: own.in_memory,
            is_name,
            operands,
        };
        parts.push(part.after(&parts));
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
        let origin = if is_view { operand_origins(comp, instr).next() } else { None };
        let viewed = origin.map(|(maker, leaf)| self.of[maker.index()][leaf]);
        let own = |(value, shape): (u32, &Shape)| Input {
            maker,
            value,
            elements: n_elements(shape),
            bytes: shape.bytes(),
        };
        let values = (self.n_values..).zip(instr.shape.leaves());
        let found: SmallVec<[Input; 1]> = values.map(|it| viewed.unwrap_or_else(|| own(it))).collect();
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

fn reader(facts: &[InstrFacts], made: InstrId, (read, op): (InstrId, Opcode)) -> Reader {
    let (a, b) = (&facts[made.index()], &facts[read.index()]);
    let is_same_region = (a.stage, a.phase) == (b.stage, b.phase);
    Reader::new(op, is_same_region, [a.attention, b.attention])
}

/// Whether a value is in memory, and in memory of its own.
fn allocate(instr: &Instr, op: Opcode, wanted: bool, reads_memory: bool, own: &mut InstrFacts) {
    let kind = op.def().fusion;
    let is_constant = instr.op == Opcode::Constant;
    let is_scalar = instr.shape.as_array().is_some_and(|array| array.rank() == 0);
    let is_alias =
        kind == FusionKind::Control || (kind == FusionKind::View && reads_memory && !is_move(instr));
    let is_copy = is_move(instr) && reads_memory;
    own.in_memory = (wanted || is_alias || is_copy) && !(is_constant && is_scalar);
    own.is_allocated = own.in_memory && (!is_alias || is_constant || instr.op == Opcode::Parameter);
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
