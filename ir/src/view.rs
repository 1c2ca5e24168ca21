//! An instruction in its surroundings: what shape inference, factor rules and FLOP counts read.

use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::shape::{ArrayShape, Shape};

/// An instruction with the computations before it and the instructions before it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Computations that the instruction may name.
    pub comps: &'a [Computation],
    /// Instructions of its own computation, at least all its operands.
    pub instrs: &'a [Instr],
    /// The instruction itself.
    pub instr: &'a Instr,
}

impl<'a> View<'a> {
    /// The view of an instruction of a module.
    pub fn new(module: &'a Module, comp: CompId, id: InstrId) -> View<'a> {
        let instrs = &module.comp(comp).instrs;
        View { comps: &module.comps, instrs, instr: &instrs[id.index()] }
    }

    /// Number of operands.
    pub fn n_operands(&self) -> usize {
        self.instr.operands.len()
    }

    /// The `index`-th operand's instruction. The caller has checked that it is there.
    pub fn operand(&self, index: usize) -> &'a Instr {
        &self.instrs[self.instr.operands[index].index()]
    }

    /// The `index`-th operand's shape, if there is one.
    pub fn operand_shape(&self, index: usize) -> Option<&'a Shape> {
        let id = self.instr.operands.get(index)?;
        Some(&self.instrs[id.index()].shape)
    }

    /// The `index`-th operand's array shape; an error says what was found instead.
    pub fn array(&self, index: usize) -> Result<&'a ArrayShape, String> {
        match self.operand_shape(index) {
            None => Err(format!("`{}` needs an operand {index}", self.instr.op.as_str())),
            Some(shape) => shape
                .as_array()
                .ok_or_else(|| format!("operand {index} of `{}` must be an array", self.instr.op.as_str())),
        }
    }

    /// The computation with this id.
    pub fn comp(&self, id: CompId) -> &'a Computation {
        &self.comps[id.index()]
    }
}
