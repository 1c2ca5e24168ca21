//! What stays in registers: kernels, memory traffic and allocations of one computation, by `pricing`'s rule.

use super::InstrFacts;
use super::ops::is_move;
use crate::pricing::{Kernel, Reader, is_materialised, kernel};
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Module, Opcode, notes};

/// Fills in kernel, memory traffic and whether the value has memory of its own.
pub fn fuse(module: &Module, comp: CompId, facts: &mut [InstrFacts]) {
    let computation = module.comp(comp);
    let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); facts.len()];
    let mut ops: Vec<Opcode> = Vec::with_capacity(facts.len());
    for (id, instr) in computation.iter() {
        ops.push(acts_as(instr, &ops, &facts[id.index()]));
        for &operand in &instr.operands {
            let is_same_region = same_region(computation.instr(operand), facts, operand, instr, id);
            readers[operand.index()].push(Reader { op: ops[id.index()], is_same_region });
        }
    }
    readers[computation.root.index()].push(Reader { op: Opcode::Tuple, is_same_region: false });
    for (id, instr) in computation.iter() {
        let op = ops[id.index()];
        let wanted = is_materialised(op, readers[id.index()].iter().copied());
        let first = instr.operands.first();
        let reads_memory = first.is_some_and(|first| facts[first.index()].in_memory);
        place(instr, op, wanted, reads_memory, &mut facts[id.index()]);
        let operands: Vec<f64> = operand_bytes(instr, facts, id);
        let own = &mut facts[id.index()];
        if own.kernel != Kernel::Nothing {
            own.work.bytes = instr.op.def().touch.bytes(&operands, result_bytes(own), wanted);
        }
    }
}

/// The opcode by which an instruction fuses: a slice of what is made where it is read is made there too.
fn acts_as(instr: &Instr, before: &[Opcode], own: &InstrFacts) -> Opcode {
    let is_slice = is_move(instr) && own.steps.is_empty();
    let source = instr.operands.first().map(|operand| before[operand.index()]);
    source.filter(|op| is_slice && op.def().fusion == FusionKind::Free).unwrap_or(instr.op)
}

fn same_region(maker: &Instr, facts: &[InstrFacts], made: InstrId, reader: &Instr, read: InstrId) -> bool {
    let (a, b) = (&facts[made.index()], &facts[read.index()]);
    (a.stage, a.phase) == (b.stage, b.phase) && maker.note(notes::BLOCK) == reader.note(notes::BLOCK)
}

fn place(instr: &Instr, op: Opcode, wanted: bool, reads_memory: bool, own: &mut InstrFacts) {
    let kind = op.def().fusion;
    let is_constant = instr.op == Opcode::Constant;
    let is_scalar = instr.shape.as_array().is_some_and(|array| array.rank() == 0);
    let is_alias = kind == FusionKind::Control || (kind == FusionKind::View && reads_memory);
    own.in_memory = (wanted || is_alias) && !(is_constant && is_scalar);
    own.is_allocated = own.in_memory && (!is_alias || is_constant || instr.op == Opcode::Parameter);
    let talks = crate::collectives::kind(instr.op).is_some() || instr.op == Opcode::AsyncStart;
    let is_collective = talks && !own.steps.is_empty();
    own.kernel =
        if is_move(instr) || is_collective { Kernel::Nothing } else { kernel(op, wanted, reads_memory) };
}

/// Bytes that one device reads of each operand; none of those that are not in memory.
fn operand_bytes(instr: &Instr, facts: &[InstrFacts], id: InstrId) -> Vec<f64> {
    let mut reads = facts[id.index()].reads.iter();
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
