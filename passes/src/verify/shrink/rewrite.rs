//! Writing the new sizes: shapes, the sizes of slices taken whole, constants of one element.

use super::ends::moved;
use super::sizes::Settled;
use super::ties::{Leaves, Ties};
use phzc_ir::attr::SliceDim;
use phzc_ir::ops::literal::splat;
use phzc_ir::{CompId, Dims, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Value};

/// A header attribute that spells out shapes of parameters and results.
const ENTRY_LAYOUT: &str = "entry_computation_layout";

impl Settled {
    /// A program in its new sizes.
    pub fn apply(&self, ties: &Ties, program: usize) -> Module {
        let old = ties.programs[program];
        let mut module = old.clone();
        for (comp, id) in ties.instrs(program) {
            let leaves = ties.leaves(program, comp, id);
            let operands: Vec<&Leaves> = old.comp(comp).instr(id).operands[..]
                .iter()
                .map(|&operand| ties.leaves(program, comp, operand))
                .collect();
            let dims_of = |leaf: &crate::classes::ClassMap| -> Dims {
                leaf.iter().map(|dim| self.of(ties, dim)).collect()
            };
            let whole = operands.first().and_then(|leaves| leaves.first()).map(dims_of);
            let instr = &mut module.comps[comp.index()].instrs[id.index()];
            resize(&mut instr.shape, &mut leaves.iter().map(dims_of));
            literal(instr);
            if let Some(new) = whole {
                windows(instr, operand_dims(old, comp, id), &new);
            }
        }
        if module.comps != old.comps {
            module.attrs.retain(|attr| &*attr.key != ENTRY_LAYOUT);
        }
        module
    }
}

fn operand_dims(module: &Module, comp: CompId, id: InstrId) -> &[i64] {
    let comp = module.comp(comp);
    let operand = comp.instr(comp.instr(id).operands[0]);
    operand.shape.as_array().map_or(&[], |array| &array.dims)
}

/// Gives the leaves of a shape new sizes, in order.
fn resize(shape: &mut Shape, sizes: &mut impl Iterator<Item = Dims>) {
    match shape {
        Shape::Tuple(parts) => parts.iter_mut().for_each(|part| resize(part, sizes)),
        Shape::Buffer(inner) => resize(inner, sizes),
        Shape::Array(array) => array.dims = sizes.next().unwrap_or_else(|| array.dims.clone()),
        Shape::Token | Shape::Opaque => {
            sizes.next();
        }
    }
}

/// Slices and windows that take a dimension whole, or up to its end, still do.
fn windows(instr: &mut Instr, old: &[i64], new: &[i64]) {
    let key = match instr.op {
        Opcode::Slice => Key::Slice,
        Opcode::DynamicSlice => Key::DynamicSliceSizes,
        Opcode::Gather => Key::SliceSizes,
        _ => return,
    };
    let Some(attr) = instr.attrs.iter_mut().find(|attr| attr.key == key) else { return };
    for (dim, (&old, &new)) in old.iter().zip(new).enumerate() {
        match &mut attr.value {
            Value::Slices(slices) => {
                let SliceDim { start, limit, .. } = &mut slices[dim];
                (*start, *limit) = (moved(*start, old, new), moved(*limit, old, new));
            }
            Value::Ints(sizes) if sizes[dim] == old => sizes[dim] = new,
            _ => {}
        }
    }
}

/// Writes a constant of one repeated element anew.
fn literal(instr: &mut Instr) {
    let (Some(element), Some(array)) = (splat(instr), instr.shape.as_array()) else { return };
    let nested = array.dims.iter().rev().fold(element.to_owned(), |inner, &size| {
        format!("{{{}}}", vec![inner.as_str(); size.max(0) as usize].join(", "))
    });
    instr.payload = Payload::Literal(nested.into());
}
