//! In which stage values are named, and which ones each stage makes for itself.

use super::super::position::free;
use phzc_ir::{Computation, Instr, InstrId, Module, Opcode};
use phzc_plan::derive::{control_flow, is_naming};

/// Tuples go with who reads them: a loop's inputs are where the loop is, and a barrier where all that reads
/// its parts is, if that is in one stage.
pub(super) fn with_tuples(plain: &Module, mut of: Vec<usize>) -> Vec<usize> {
    let comp = plain.entry();
    let readers = readers(comp);
    for (id, instr) in comp.iter().rev() {
        let is_barrier = instr.op == Opcode::OptBarrier;
        let parts = if is_barrier { &readers[id.index()][..] } else { &[] };
        let stages: Vec<usize> =
            parts.iter().flat_map(|part| &readers[part.index()]).map(|reader| of[reader.index()]).collect();
        if let Some(&stage) = stages.first().filter(|first| stages.iter().all(|stage| stage == *first)) {
            parts.iter().chain([&id]).for_each(|named| of[named.index()] = stage);
        }
        let is_tuple = |operand: &&InstrId| comp.instr(**operand).op == Opcode::Tuple;
        for &operand in instr.operands.iter().filter(is_tuple).filter(|_| is_barrier || !is_naming(instr)) {
            of[operand.index()] = of[id.index()];
        }
    }
    of
}

/// Per instruction: who reads it.
fn readers(comp: &Computation) -> Vec<Vec<InstrId>> {
    let mut found = vec![Vec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter() {
        instr.operands.iter().for_each(|operand| found[operand.index()].push(id));
    }
    found
}

/// Whether each instruction makes an array of constants alone.
pub(super) fn free_arrays(plain: &Module) -> Vec<bool> {
    let is_array = |instr: &Instr| instr.shape.as_array().is_some() && control_flow(instr).is_empty();
    let all = free(plain).into_iter().zip(&plain.entry().instrs);
    all.map(|(is_free, instr)| is_free && is_array(instr)).collect()
}
