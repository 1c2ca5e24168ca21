//! What stays in registers: kernels, memory traffic and allocations of one computation, by `pricing`'s rule.

use super::InstrFacts;
use crate::pricing::{FusionKind, Kernel, Reader, fusion, is_materialised, kernel, traffic_bytes};
use phzc_ir::{CompId, Instr, InstrId, Module, Opcode};

/// Fills in kernel, memory traffic and whether the value has memory of its own.
pub fn fuse(module: &Module, comp: CompId, facts: &mut [InstrFacts]) {
    let computation = module.comp(comp);
    let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); facts.len()];
    for (id, instr) in computation.iter() {
        for &operand in &instr.operands {
            let is_same_region = same_region(computation.instr(operand), facts, operand, instr, id);
            readers[operand.index()].push(Reader { op: instr.op, is_same_region });
        }
    }
    readers[computation.root.index()].push(Reader { op: Opcode::Tuple, is_same_region: false });
    for (id, instr) in computation.iter() {
        let wanted = is_materialised(instr.op, readers[id.index()].iter().copied());
        let first = instr.operands.first();
        let reads_memory = first.is_some_and(|first| facts[first.index()].in_memory);
        place(instr, wanted, reads_memory, &mut facts[id.index()]);
        let operands: Vec<f64> = operand_bytes(instr, facts, id);
        let own = &mut facts[id.index()];
        if own.kernel != Kernel::Nothing {
            own.work.bytes = traffic_bytes(instr.op, &operands, result_bytes(own), wanted);
        }
    }
}

fn same_region(maker: &Instr, facts: &[InstrFacts], made: InstrId, reader: &Instr, read: InstrId) -> bool {
    let (a, b) = (&facts[made.index()], &facts[read.index()]);
    (a.stage, a.phase) == (b.stage, b.phase) && maker.note("phzc.block") == reader.note("phzc.block")
}

fn place(instr: &Instr, wanted: bool, reads_memory: bool, own: &mut InstrFacts) {
    let kind = fusion(instr.op);
    let is_constant = instr.op == Opcode::Constant;
    let is_scalar = instr.shape.as_array().is_some_and(|array| array.rank() == 0);
    let is_alias = kind == FusionKind::Control || (kind == FusionKind::View && reads_memory);
    own.in_memory = (wanted || is_alias) && !(is_constant && is_scalar);
    own.is_allocated = own.in_memory && (!is_alias || is_constant || instr.op == Opcode::Parameter);
    let is_move =
        instr.op == Opcode::CustomCall && instr.word(phzc_ir::Key::CustomCallTarget) == Some("Sharding");
    own.kernel = if is_move { Kernel::Nothing } else { kernel(instr.op, wanted, reads_memory) };
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
