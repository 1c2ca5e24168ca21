//! Floats that a piece compares: drawn apart they would never be equal, and neither branch of a tie would be
//! seen.

use super::super::far::with_floats;
use phzc_ir::eval::Value;
use phzc_ir::{Computation, InstrId, Module, Opcode};

/// The inputs with every second element of what is compared the same on both sides; which ones, alternates
/// between draws.
pub fn with_ties(module: &Module, mut given: Vec<Value>, draw: u64) -> Vec<Value> {
    for (a, b) in compared(module.entry()) {
        let (Value::Array(one), Value::Array(other)) = (&given[a], &given[b]) else { continue };
        let pairs = one.to_f64_vec().into_iter().zip(other.to_f64_vec()).enumerate();
        let tied = pairs.map(|(at, (one, other))| if (at as u64 + draw) % 2 == 1 { one } else { other });
        if let Some(tied) = with_floats(other, tied) {
            given[b] = Value::Array(tied);
        }
    }
    given
}

/// The numbers of the parameters of one size that are compared with each other.
fn compared(entry: &Computation) -> Vec<(usize, usize)> {
    let compares = entry.instrs.iter().filter(|instr| instr.op == Opcode::Compare);
    let pair = |operands: &[InstrId]| {
        let [a, b] = [0, 1].map(|at| parameter(entry, operands[at]));
        let (a, b) = (a?, b?);
        let size = |id: InstrId| entry.instr(id).shape.as_array().map(|array| array.n_elements());
        (a != b && size(a) == size(b)).then_some((number(entry, a)?, number(entry, b)?))
    };
    compares.filter_map(|instr| pair(&instr.operands)).collect()
}

/// The parameter whose elements these are, in order.
fn parameter(entry: &Computation, mut id: InstrId) -> Option<InstrId> {
    loop {
        let instr = entry.instr(id);
        match instr.op {
            Opcode::Parameter => return Some(id),
            Opcode::Convert | Opcode::Copy | Opcode::Reshape => id = instr.operands[0],
            _ => return None,
        }
    }
}

fn number(entry: &Computation, id: InstrId) -> Option<usize> {
    entry.params().iter().position(|&param| param == id)
}
