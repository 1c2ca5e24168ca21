//! Constants: what follows from constants alone is one, computed by the reference evaluator.

use super::draft::Draft;
use super::rules::{Made, constant};
use phzc_ir::dtype::Class;
use phzc_ir::eval::{self, literal};
use phzc_ir::{CompId, Computation, DType, Instr, InstrId, Module, Opcode, Payload};

/// Elements of a folded constant, and of those it is made from: what indices and shapes need.
const MAX_ELEMENTS: f64 = 64.0;

/// Ops that move elements.
pub(super) const MOVEMENTS: &[Opcode] = &[
    Opcode::Broadcast,
    Opcode::Concatenate,
    Opcode::DynamicSlice,
    Opcode::Pad,
    Opcode::Reshape,
    Opcode::Reverse,
    Opcode::Slice,
    Opcode::Transpose,
];

/// An elementwise op on constants whose result IEEE 754 or integer arithmetic fixes to the last bit.
pub(super) fn arithmetic(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let operands = instr.operands.iter().filter_map(|&id| cx.array(id));
    let mut dtypes = operands.chain(instr.shape.as_array()).map(|array| array.dtype);
    if dtypes.all(|dtype| is_fixed(instr.op, dtype)) { fold(cx, instr) } else { None }
}

/// A movement of constants; copies of one element stay copies.
pub(super) fn movement(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let is_copies = instr.op == Opcode::Broadcast && instr.shape.as_array()?.n_elements() > 1.0;
    if is_copies { None } else { fold(cx, instr) }
}

fn is_fixed(op: Opcode, dtype: DType) -> bool {
    use Opcode::{
        Abs, Add, Ceil, Clamp, Compare, Convert, Divide, Floor, IsFinite, Maximum, Minimum, Multiply, Negate,
        RoundNearestAfz, RoundNearestEven, Select, Sign, Sqrt, Subtract,
    };
    let is_rounded = matches!(op, Add | Subtract | Multiply | Divide | Sqrt | Convert)
        || matches!(op, Abs | Ceil | Floor | Negate | RoundNearestAfz | RoundNearestEven | Sign)
        || matches!(op, Clamp | Compare | IsFinite | Maximum | Minimum | Select);
    match dtype.class() {
        Class::Bool | Class::Signed | Class::Unsigned => true,
        Class::Float => is_rounded && matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64),
        Class::Complex => false,
    }
}

fn fold(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let is_small = |instr: &Instr| {
        instr.shape.as_array().is_some_and(|array| (1.0..=MAX_ELEMENTS).contains(&array.n_elements()))
    };
    let is_known =
        |&id: &InstrId| cx.element(id).is_some() || cx.made_by(id, Opcode::Constant).is_some_and(is_read);
    if !is_small(instr) || !instr.operands.iter().all(|id| is_known(id) && is_small(cx.instr(*id))) {
        return None;
    }
    let module = alone(cx, instr);
    let value = eval::run(&module, &[], &eval::Options::default()).ok()?;
    constant(instr, &literal(value.as_array()?))
}

/// Whether the elements are there, not left out of the text.
fn is_read(instr: &Instr) -> bool {
    matches!(&instr.payload, Payload::Literal(text) if !text.contains("..."))
}

/// A program of the instruction and the constants it reads.
fn alone(cx: &Draft, instr: &Instr) -> Module {
    let mut instrs: Vec<Instr> = Vec::new();
    let mut operands = instr.operands.clone();
    for operand in &mut operands {
        let mut own = cx.instr(*operand).clone();
        if let Some(&scalar) = own.operands.first() {
            own.operands[0] = InstrId::new(instrs.len());
            instrs.push(cx.instr(scalar).clone());
        }
        *operand = InstrId::new(instrs.len());
        instrs.push(own);
    }
    instrs.push(Instr { operands, ..instr.clone() });
    let root = InstrId::new(instrs.len() - 1);
    let comp = Computation { name: "fold".into(), instrs, root, thread: None };
    Module { name: "fold".into(), attrs: Vec::new(), tables: "".into(), comps: vec![comp], entry: CompId(0) }
}
