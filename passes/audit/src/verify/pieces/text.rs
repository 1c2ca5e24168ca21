//! What an instruction does, as text: without names, notes, layouts and whatever else the result does not
//! depend on.

use phzc_ir::effects::has_side_effect;
use phzc_ir::text::{print_instr, shape_text};
use phzc_ir::{Attr, CompId, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Value};
use std::fmt::Write;

/// A leaf of what an instruction makes.
pub type Made = (InstrId, usize);

/// The text of a literal whose elements were left out.
const ELIDED: &str = "{...}";

/// Opcode, type, attributes and called computations. Operands are not part of it.
pub fn signature(module: &Module, instr: &Instr, comp_texts: &[String]) -> String {
    let mut bare = bare(instr);
    bare.attrs.retain(|attr| !matches!(attr.value, Value::Comp(_) | Value::Comps(_)));
    bare.operands.clear();
    let mut text = print_instr(module, module.entry(), &bare);
    instr.called().for_each(|comp| text.push_str(&comp_texts[comp.index()]));
    // Elements that were left out, numbers drawn and effects are no one else's.
    if is_elided(instr) || has_side_effect(instr) {
        text.push_str(&instr.name);
    }
    text
}

/// Whether the elements of a constant were left out of the text.
pub fn is_elided(instr: &Instr) -> bool {
    matches!(&instr.payload, Payload::Literal(text) if &**text == ELIDED)
}

/// An instruction without name, notes, layouts and source.
pub fn bare(instr: &Instr) -> Instr {
    let attrs = instr.attrs.iter().filter(|attr| is_meant(instr, attr)).cloned().collect();
    Instr {
        name: "".into(),
        shape: plain(&instr.shape),
        attrs,
        span: phzc_ir::Span::default(),
        op: instr.op,
        operands: instr.operands.clone(),
        payload: instr.payload.clone(),
    }
}

/// Whether a result depends on an attribute.
fn is_meant(instr: &Instr, attr: &Attr) -> bool {
    use Key::{BackendConfig, ControlPredecessors, FrontendAttributes, Metadata, Origin, Sharding};
    match attr.key {
        ControlPredecessors | FrontendAttributes | Metadata | Origin | Sharding => false,
        BackendConfig => instr.op == Opcode::CustomCall,
        _ => true,
    }
}

/// A shape without physical layouts.
pub fn plain(shape: &Shape) -> Shape {
    match shape {
        Shape::Array(array) => {
            let mut array = array.clone();
            array.layout = None;
            Shape::Array(array)
        }
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(plain).collect()),
        other => other.clone(),
    }
}

/// `f32[2,3]`.
pub fn type_text(shape: &Shape) -> String {
    shape_text(&plain(shape))
}

/// Per computation but the entry: its instructions, by numbers.
pub fn comp_texts(module: &Module) -> Vec<String> {
    let mut texts: Vec<String> = Vec::with_capacity(module.comps.len());
    for (index, comp) in module.comps.iter().enumerate() {
        let mut text = String::new();
        let instrs: &[Instr] = if CompId::new(index) == module.entry { &[] } else { &comp.instrs };
        for instr in instrs {
            let operands: Vec<usize> = instr.operands.iter().map(|operand| operand.index()).collect();
            let _ = write!(text, "{} {operands:?};", signature(module, instr, &texts));
        }
        let _ = write!(text, "{{root {}}}", comp.root.index());
        texts.push(text);
    }
    texts
}
