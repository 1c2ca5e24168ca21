//! The rule of every opcode: one line each.

use super::scope::{Cx, Rule};
use super::{
    branches, contract, convolution, elementwise, indexing, loops, movement, order, reduce, windows,
};
use phzc_ir::{Instr, Key, Opcode, notes};

/// The note of an instruction that no gradient goes through.
pub const STOP: &str = "stop";

/// How the cotangents of an instruction's operands follow from those of its results; `None` if that is not
/// known.
///
/// Tuples, their elements and barriers need none: [`super::scope::home`] looks through them.
pub(super) fn rule(instr: &Instr) -> Option<Rule> {
    let rule: Rule = match instr.op {
        Opcode::Abs => elementwise::abs,
        Opcode::Acos => elementwise::acos,
        Opcode::Acosh => elementwise::acosh,
        Opcode::Add => elementwise::add,
        Opcode::Asin => elementwise::asin,
        Opcode::Asinh => elementwise::asinh,
        Opcode::Atan2 => elementwise::atan2,
        Opcode::Atanh => elementwise::atanh,
        Opcode::Bitcast | Opcode::Reshape => movement::reshape,
        Opcode::Broadcast => movement::broadcast,
        Opcode::Cbrt => elementwise::cbrt,
        Opcode::Clamp => elementwise::clamp,
        Opcode::Concatenate => movement::concatenate,
        Opcode::Conditional => branches::conditional,
        Opcode::Convert | Opcode::Copy | Opcode::ReducePrecision => elementwise::convert,
        Opcode::Convolution => convolution::convolution,
        Opcode::Cosh => elementwise::cosh,
        Opcode::Cosine => elementwise::cosine,
        Opcode::Divide => elementwise::divide,
        Opcode::Dot => contract::dot,
        Opcode::DynamicSlice => indexing::dynamic_slice,
        Opcode::DynamicUpdateSlice => indexing::dynamic_update_slice,
        Opcode::Erf => elementwise::erf,
        Opcode::Exponential => elementwise::exponential,
        Opcode::ExponentialMinusOne => elementwise::exponential_minus_one,
        Opcode::Gather => indexing::gather,
        Opcode::Log => elementwise::log,
        Opcode::LogPlusOne => elementwise::log_plus_one,
        Opcode::Logistic => elementwise::logistic,
        Opcode::Maximum | Opcode::Minimum => elementwise::extremum,
        Opcode::Multiply => elementwise::multiply,
        Opcode::Negate => elementwise::negate,
        Opcode::Pad => movement::pad,
        Opcode::Power => elementwise::power,
        Opcode::Reduce => reduce::reduce,
        Opcode::ReduceWindow => windows::reduce_window,
        Opcode::Remainder => elementwise::remainder,
        Opcode::Reverse => movement::reverse,
        Opcode::Rsqrt => elementwise::rsqrt,
        Opcode::Scatter => indexing::scatter,
        Opcode::Select => elementwise::select,
        Opcode::Sine => elementwise::sine,
        Opcode::Sinh => elementwise::sinh,
        Opcode::Slice => movement::slice,
        Opcode::Sort => order::sort,
        Opcode::Sqrt => elementwise::sqrt,
        Opcode::Subtract => elementwise::subtract,
        Opcode::Tan => elementwise::tan,
        Opcode::Tanh => elementwise::tanh,
        Opcode::Topk => order::topk,
        Opcode::Transpose => movement::transpose,
        Opcode::While => loops::while_loop,
        Opcode::CustomCall => return custom_call(instr),
        _ => return None,
    };
    Some(rule)
}

/// Custom calls that mean something that is known.
fn custom_call(instr: &Instr) -> Option<Rule> {
    let is_plain = instr.operands.len() == 1 && instr.shape.as_array().is_some();
    match instr.word(Key::CustomCallTarget)? {
        "Sharding" | "annotate_device_placement" if is_plain => Some(elementwise::convert),
        "mhlo.erf" | "chlo.erf" if is_plain => Some(elementwise::erf),
        "mhlo.topk" | "TopK" => Some(order::topk),
        _ => None,
    }
}

/// Whether a value changes by steps only, is made of nothing, or is declared to be constant.
pub(super) fn is_constant(instr: &Instr) -> bool {
    let by_nature = matches!(
        instr.op,
        Opcode::Ceil
            | Opcode::Compare
            | Opcode::Constant
            | Opcode::Floor
            | Opcode::Iota
            | Opcode::IsFinite
            | Opcode::PartitionId
            | Opcode::ReplicaId
            | Opcode::Rng
            | Opcode::RngBitGenerator
            | Opcode::RngGetAndUpdateState
            | Opcode::RoundNearestAfz
            | Opcode::RoundNearestEven
            | Opcode::Sign
    );
    by_nature || instr.note(notes::GRAD) == Some(STOP)
}

/// A number that all elements of a forward value are, if that can be read off.
pub(super) fn splat(cx: &Cx, operand: usize) -> Option<f64> {
    let mut id = cx.instr.operands[operand];
    loop {
        let instr = cx.scope.instr(cx.b, id);
        match instr.op {
            Opcode::Broadcast | Opcode::Reshape | Opcode::Copy => id = instr.operands[0],
            Opcode::Constant => return phzc_ir::ops::literal::splat(instr)?.parse().ok(),
            _ => return None,
        }
    }
}
