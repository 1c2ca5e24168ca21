//! The rules of `simplify`, one line each: a name, where it looks, what it does.

use super::draft::Draft;
use super::equal::{is_note, is_origin};
use super::{arithmetic, broadcasts, converts, fold, logic, order, parts, products, reshapes, tuples};
use phzc_ir::build::dimensions;
use phzc_ir::eval::is_elementwise;
use phzc_ir::{Attr, Instr, InstrId, Key, Opcode, Payload};
use std::sync::OnceLock;

/// A rewriting of one instruction.
pub(crate) struct Rule {
    /// What tests and `simplify.txt` call it.
    pub name: &'static str,
    at: At,
    apply: fn(&mut Draft, &Instr) -> Option<Made>,
}

/// The instructions that a rule looks at.
enum At {
    Ops(&'static [Opcode]),
    Elementwise,
}

/// What a rule makes of an instruction.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart as soon as it is made")]
pub(super) enum Made {
    /// Another value is the same.
    Value(InstrId),
    /// This instruction does it.
    Instr(Instr),
}

const fn rule(name: &'static str, at: At, apply: fn(&mut Draft, &Instr) -> Option<Made>) -> Rule {
    Rule { name, at, apply }
}

use At::{Elementwise, Ops};
use Opcode::*;

/// Every rule. Of those for one opcode the first that fits is taken, and the result looked at again.
#[rustfmt::skip]
pub(crate) static RULES: &[Rule] = &[
    // Arithmetic that does nothing, or undoes itself.
    rule("add-zero",                Ops(&[Add]),                  arithmetic::add_zero),
    rule("subtract-zero",           Ops(&[Subtract]),             arithmetic::subtract_zero),
    rule("multiply-one",            Ops(&[Multiply]),             arithmetic::multiply_one),
    rule("divide-one",              Ops(&[Divide]),               arithmetic::divide_one),
    rule("power-one",               Ops(&[Power]),                arithmetic::divide_one),
    rule("integer-times-zero",      Ops(&[Multiply]),             arithmetic::integer_times_zero),
    rule("integer-minus-itself",    Ops(&[Subtract]),             arithmetic::integer_minus_itself),
    rule("integer-sums",            Ops(&[Add]),                  arithmetic::integer_sums),
    rule("add-negative",            Ops(&[Add]),                  arithmetic::add_negative),
    rule("subtract-negative",       Ops(&[Subtract]),             arithmetic::subtract_negative),
    rule("product-of-negatives",    Ops(&[Multiply, Divide]),     arithmetic::product_of_negatives),
    rule("times-minus-one",         Ops(&[Multiply, Divide]),     arithmetic::times_minus_one),
    rule("twice-the-inverse",       Ops(&[Negate, Not]),          arithmetic::twice_the_inverse),
    rule("twice-the-same",          Ops(&[Abs, Floor, Ceil, Sign]), arithmetic::twice_the_same),
    rule("abs-of-negative",         Ops(&[Abs]),                  arithmetic::abs_of_negative),
    rule("with-itself",             Ops(&[Maximum, Minimum, And, Or]), arithmetic::with_itself),
    rule("extreme-bound",           Ops(&[Maximum, Minimum]),     arithmetic::extreme_bound),
    rule("clamp-of-clamp",          Ops(&[Clamp]),                arithmetic::clamp_of_clamp),
    rule("part-of-complex",         Ops(&[Real, Imag]),           arithmetic::part_of_complex),
    // Truth values.
    rule("bits-neutral",            Ops(&[And, Or, Xor]),         logic::bits_neutral),
    rule("bits-absorbing",          Ops(&[And, Or]),              logic::bits_absorbing),
    rule("not-of-compare",          Ops(&[Not]),                  logic::not_of_compare),
    rule("compare-with-itself",     Ops(&[Compare]),              logic::compare_with_itself),
    rule("compare-with-truth",      Ops(&[Compare]),              logic::compare_with_truth),
    rule("select-by-constant",      Ops(&[Select]),               logic::select_by_constant),
    rule("select-of-same",          Ops(&[Select]),               logic::select_of_same),
    rule("select-by-not",           Ops(&[Select]),               logic::select_by_not),
    rule("select-of-select",        Ops(&[Select]),               logic::select_of_select),
    rule("select-of-truth",         Ops(&[Select]),               logic::select_of_truth),
    // Element types.
    rule("convert-nothing",         Ops(&[Convert, BitcastConvert, Bitcast, Copy]), converts::nothing),
    rule("convert-of-convert",      Ops(&[Convert]),              converts::of_convert),
    // Copies of elements.
    rule("constant-of-equals",      Ops(&[Constant]),             broadcasts::constant_of_equals),
    rule("iota-of-one",             Ops(&[Iota]),                 broadcasts::iota_of_one),
    rule("broadcast-nothing",       Ops(&[Broadcast]),            broadcasts::nothing),
    rule("broadcast-of-broadcast",  Ops(&[Broadcast]),            broadcasts::of_broadcast),
    rule("broadcast-of-reshape",    Ops(&[Broadcast]),            broadcasts::of_reshape),
    rule("broadcast-of-iota",       Ops(&[Broadcast]),            broadcasts::of_iota),
    rule("elementwise-of-broadcasts", Elementwise,                broadcasts::under_elementwise),
    // What constants make.
    rule("fold-arithmetic",         Elementwise,                  fold::arithmetic),
    rule("fold-movement",           Ops(fold::MOVEMENTS),         fold::movement),
    // The same elements in other sizes or another order.
    rule("broadcast-as-reshape",    Ops(&[Broadcast]),            broadcasts::as_reshape),
    rule("reshape-nothing",         Ops(&[Reshape]),              reshapes::nothing),
    rule("reshape-of-reshape",      Ops(&[Reshape]),              reshapes::of_reshape),
    rule("reshape-of-broadcast",    Ops(&[Reshape]),              reshapes::of_broadcast),
    rule("reshape-of-iota",         Ops(&[Reshape]),              reshapes::of_iota),
    rule("transpose-nothing",       Ops(&[Transpose]),            order::transpose_nothing),
    rule("transpose-of-transpose",  Ops(&[Transpose]),            order::transpose_of_transpose),
    rule("transpose-of-broadcast",  Ops(&[Transpose]),            order::transpose_of_broadcast),
    rule("transpose-of-iota",       Ops(&[Transpose]),            order::transpose_of_iota),
    rule("transpose-of-dot",        Ops(&[Transpose]),            products::transpose_of_dot),
    rule("transpose-of-convolution", Ops(&[Transpose]),           products::transpose_of_convolution),
    rule("transpose-as-reshape",    Ops(&[Transpose]),            order::transpose_as_reshape),
    rule("reverse-nothing",         Ops(&[Reverse]),              order::reverse_nothing),
    rule("reverse-of-reverse",      Ops(&[Reverse]),              order::reverse_of_reverse),
    rule("dot-of-transpose",        Ops(&[Dot]),                  products::dot_of_transpose),
    rule("convolution-of-transpose", Ops(&[Convolution]),         products::convolution_of_transpose),
    // Parts and wholes.
    rule("slice-nothing",           Ops(&[Slice]),                parts::slice_nothing),
    rule("slice-of-slice",          Ops(&[Slice]),                parts::slice_of_slice),
    rule("slice-of-broadcast",      Ops(&[Slice]),                parts::slice_of_broadcast),
    rule("slice-of-concatenate",    Ops(&[Slice]),                parts::slice_of_concatenate),
    rule("slice-of-pad",            Ops(&[Slice]),                parts::slice_of_pad),
    rule("dynamic-slice-whole",     Ops(&[DynamicSlice]),         parts::dynamic_slice_whole),
    rule("dynamic-slice-constant",  Ops(&[DynamicSlice]),         parts::dynamic_slice_constant),
    rule("update-whole",            Ops(&[DynamicUpdateSlice]),   parts::update_whole),
    rule("concatenate-one",         Ops(&[Concatenate]),          parts::concatenate_one),
    rule("concatenate-empty",       Ops(&[Concatenate]),          parts::concatenate_empty),
    rule("concatenate-of-slices",   Ops(&[Concatenate]),          parts::concatenate_of_slices),
    rule("pad-nothing",             Ops(&[Pad]),                  parts::pad_nothing),
    rule("pad-of-pad",              Ops(&[Pad]),                  parts::pad_of_pad),
    // Tuples.
    rule("element-of-tuple",        Ops(&[GetTupleElement]),      tuples::element_of_tuple),
    rule("tuple-of-elements",       Ops(&[Tuple]),                tuples::tuple_of_elements),
];

/// How often each rule was of use, and how many equal instructions were merged.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Per rule of [`RULES`].
    pub fired: Vec<u64>,
    /// Instructions that were like an earlier one.
    pub n_merged: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { fired: vec![0; RULES.len()], n_merged: 0 }
    }
}

impl Counts {
    /// The rule was of use.
    pub fn fire(&mut self, rule: usize) {
        self.fired[rule] += 1;
    }

    /// All that was done.
    pub fn total(&self) -> u64 {
        self.fired.iter().sum::<u64>() + self.n_merged
    }
}

/// What the first rule that fits makes of the instruction.
pub(super) fn apply(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let rules = &by_opcode()[instr.op as usize];
    if rules.is_empty() || !cx.is_rewritable(instr) {
        return None;
    }
    for &rule in rules {
        if let Some(made) = (RULES[rule].apply)(cx, instr).filter(|made| cx.is_legal(made, instr)) {
            cx.count(rule);
            return Some(made);
        }
    }
    None
}

/// Per opcode the rules that look at it.
fn by_opcode() -> &'static [Vec<usize>] {
    static INDEX: OnceLock<Vec<Vec<usize>>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let of = |&op: &Opcode| (0..RULES.len()).filter(|&rule| looks_at(&RULES[rule].at, op)).collect();
        Opcode::ALL.iter().map(of).collect()
    })
}

fn looks_at(at: &At, op: Opcode) -> bool {
    match at {
        Ops(ops) => ops.contains(&op),
        Elementwise => is_elementwise(op),
    }
}

/// The instruction's value, made by another op: name, shape, layout and notes are the old ones.
pub(super) fn instead(instr: &Instr, op: Opcode, operands: &[InstrId], attrs: Vec<Attr>) -> Option<Made> {
    let kept = instr.attrs.iter().filter(|attr| is_note(&attr.key) || is_origin(&attr.key));
    let attrs = attrs.into_iter().chain(kept.cloned()).collect();
    let (name, shape, operands) = (instr.name.clone(), instr.shape.clone(), operands.into());
    Some(Made::Instr(Instr { name, op, operands, shape, payload: Payload::None, attrs, span: instr.span }))
}

/// The same op with the same attributes on other operands.
pub(super) fn on(instr: &Instr, operands: &[InstrId]) -> Option<Made> {
    Some(Made::Instr(Instr { operands: operands.into(), ..instr.clone() }))
}

/// The instruction's value as a constant.
pub(super) fn constant(instr: &Instr, text: &str) -> Option<Made> {
    let Made::Instr(made) = instead(instr, Opcode::Constant, &[], Vec::new())? else { return None };
    Some(Made::Instr(Instr { payload: Payload::Literal(text.into()), ..made }))
}

/// The instruction's value as copies of one element.
pub(super) fn filled(cx: &mut Draft, instr: &Instr, text: &str) -> Option<Made> {
    let array = instr.shape.as_array()?;
    if array.rank() == 0 {
        return constant(instr, text);
    }
    let scalar = cx.scalar(array.dtype, text);
    broadcast(instr, scalar, &[])
}

/// The instruction's value as a broadcast.
pub(super) fn broadcast(instr: &Instr, x: InstrId, at: &[usize]) -> Option<Made> {
    instead(instr, Opcode::Broadcast, &[x], vec![dimensions(Key::Dimensions, at)])
}

/// Integers of an attribute, as dimensions.
pub(super) fn dims(instr: &Instr, key: Key) -> Vec<usize> {
    instr.ints(key).iter().map(|&dim| dim as usize).collect()
}
