//! Writing the new sizes: shapes, the sizes of slices taken whole, constants.

use super::ends::{moved, rewindow, scaled};
use super::sizes::Settled;
use super::ties::{Leaves, Ties};
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::ops::literal::elements;
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
            let dims_of = |leaf: &phzc_analysis::classes::ClassMap| -> Dims {
                leaf.iter().map(|dim| self.of(ties, dim)).collect()
            };
            let new: Vec<Dims> = operands.iter().filter_map(|leaves| leaves.first()).map(dims_of).collect();
            let instr = &mut module.comps[comp.index()].instrs[id.index()];
            resize(&mut instr.shape, &mut leaves.iter().map(dims_of));
            if let (Opcode::Constant, Some(array)) = (instr.op, old.comp(comp).instr(id).shape.as_array()) {
                crop(instr, &array.dims);
            }
            if let Some(whole) = new.first() {
                windows(instr, operand_dims(old, comp, id), whole);
            }
            if let (Opcode::Convolution, [input, kernel]) = (instr.op, &new[..]) {
                groups(instr, input, kernel);
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

/// Slices, pads and windows take of the new sizes what they took of the old ones.
fn windows(instr: &mut Instr, old: &[i64], new: &[i64]) {
    let key = match instr.op {
        Opcode::Slice => Key::Slice,
        Opcode::DynamicSlice => Key::DynamicSliceSizes,
        Opcode::Gather => Key::SliceSizes,
        Opcode::Pad => Key::Padding,
        Opcode::ReduceWindow => Key::Window,
        _ => return,
    };
    let Some(attr) = instr.attrs.iter_mut().find(|attr| attr.key == key) else { return };
    for (dim, (&old, &new)) in old.iter().zip(new).enumerate() {
        match &mut attr.value {
            Value::Slices(slices) => {
                let SliceDim { start, limit, .. } = &mut slices[dim];
                (*start, *limit) = (moved(*start, old, new), moved(*limit, old, new));
            }
            Value::Padding(padding) => {
                let PadDim { low, high, .. } = &mut padding[dim];
                (*low, *high) = (scaled(*low, old, new), scaled(*high, old, new));
            }
            Value::Window(window) => rewindow(&mut window.dims[dim], old, new),
            Value::Ints(sizes) if sizes[dim] == old => sizes[dim] = new,
            _ => {}
        }
    }
}

/// As many groups of a convolution as its new sizes have.
fn groups(instr: &mut Instr, input: &[i64], kernel: &[i64]) {
    let Some(Value::DimLabels(labels)) = instr.attr(Key::DimLabels) else { return };
    let Some(made) = instr.shape.as_array().map(|array| array.dims[labels.out.major]) else { return };
    let by_feature = input[labels.lhs.minor] / kernel[labels.rhs.minor].max(1);
    let by_batch = input[labels.lhs.major] / made.max(1);
    for (key, count) in [(Key::FeatureGroupCount, by_feature), (Key::BatchGroupCount, by_batch)] {
        if instr.attr(key.clone()).is_some() {
            instr.set_attr(key, Value::Int(count));
        }
    }
}

/// Crops the literal of a constant that had `old` sizes: the first elements of every dimension.
fn crop(instr: &mut Instr, old: &[i64]) {
    let Some(new) = instr.shape.as_array().map(|array| array.dims.clone()) else { return };
    let found: Vec<&str> = elements(instr).collect();
    if *new == *old || found.len() as i64 != old.iter().product::<i64>() {
        return;
    }
    let mut text = String::new();
    write_cropped(&found, old, &new, &mut text);
    instr.payload = Payload::Literal(text.into());
}

fn write_cropped(elements: &[&str], old: &[i64], new: &[i64], out: &mut String) {
    let (Some((&size, old)), Some((&n_kept, new))) = (old.split_first(), new.split_first()) else {
        return out.push_str(elements.first().copied().unwrap_or_default());
    };
    let parts = elements.chunks((elements.len() / size.max(1) as usize).max(1));
    out.push('{');
    for (index, part) in parts.take(n_kept.max(0) as usize).enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        write_cropped(part, old, new, out);
    }
    out.push('}');
}
