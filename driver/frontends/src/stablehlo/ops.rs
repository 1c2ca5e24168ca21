//! The table of operations: each name with the function that writes its HLO, one file per family.

mod call;
mod chlo;
mod collective;
mod contract;
mod control;
mod elementwise;
mod indexing;
mod linalg;
mod manual;
mod movement;
mod reduce;
mod source;

use super::ast::Op;
use super::lower::{Lowerer, Made};
use indexmap::IndexMap;
use phzc_ir::text::cursor::clip;
use phzc_ir::{InstrId, Opcode, Result, nearest};
use rustc_hash::FxBuildHasher;
use std::sync::OnceLock;

/// Writes an operation's instructions, given those of its operands.
type Lower = for<'a> fn(&mut Lowerer<'a, '_>, &Op<'a>, &[InstrId]) -> Result<Made>;

/// What becomes of an operation.
#[derive(Clone, Copy)]
enum Rule {
    /// The opcode of the same meaning; operands and the result's type say all.
    Same(Opcode),
    /// What a function writes.
    By(Lower),
    /// Nothing: HLO's programs have no counterpart, for this reason.
    Refused(&'static str),
}

use Opcode as O;
use Rule::{By, Refused, Same};

/// Operations that end a block.
pub(super) const RETURNS: &[&str] =
    &["return", "func.return", "stablehlo.return", "sdy.return", "mhlo.return"];

const DYNAMIC: &str =
    "shapes that are known at run time only are not read; lower the program for inputs of fixed sizes";
const QUANTIZED: &str = "quantized types have no counterpart in HLO";

/// Operations of StableHLO, without their dialect.
const STABLEHLO: &[(&str, Rule)] = &[
    ("abs", Same(O::Abs)),
    ("add", Same(O::Add)),
    ("after_all", Same(O::AfterAll)),
    ("all_gather", By(collective::all_gather)),
    ("all_reduce", By(collective::all_reduce)),
    ("all_to_all", By(collective::all_to_all)),
    ("and", Same(O::And)),
    ("atan2", Same(O::Atan2)),
    ("batch_norm_grad", By(linalg::batch_norm_grad)),
    ("batch_norm_inference", By(linalg::batch_norm_inference)),
    ("batch_norm_training", By(linalg::batch_norm_training)),
    ("bitcast_convert", Same(O::BitcastConvert)),
    ("broadcast", By(movement::broadcast)),
    ("broadcast_in_dim", By(movement::broadcast_in_dim)),
    ("case", By(control::case)),
    ("cbrt", Same(O::Cbrt)),
    ("ceil", Same(O::Ceil)),
    ("cholesky", By(linalg::cholesky)),
    ("clamp", Same(O::Clamp)),
    ("collective_broadcast", By(collective::collective_broadcast)),
    ("collective_permute", By(collective::collective_permute)),
    ("compare", By(elementwise::compare)),
    ("complex", Same(O::Complex)),
    ("composite", By(call::composite)),
    ("concatenate", By(movement::concatenate)),
    ("constant", By(source::constant)),
    ("convert", Same(O::Convert)),
    ("convolution", By(contract::convolution)),
    ("cosine", Same(O::Cosine)),
    ("count_leading_zeros", Same(O::CountLeadingZeros)),
    ("create_token", Same(O::AfterAll)),
    ("custom_call", By(call::custom_call)),
    ("divide", Same(O::Divide)),
    ("dot", By(contract::dot)),
    ("dot_general", By(contract::dot_general)),
    ("dynamic_broadcast_in_dim", Refused(DYNAMIC)),
    ("dynamic_conv", Refused(DYNAMIC)),
    ("dynamic_gather", Refused(DYNAMIC)),
    ("dynamic_iota", Refused(DYNAMIC)),
    ("dynamic_pad", Refused(DYNAMIC)),
    ("dynamic_reshape", Refused(DYNAMIC)),
    ("dynamic_slice", By(indexing::dynamic_slice)),
    ("dynamic_update_slice", Same(O::DynamicUpdateSlice)),
    ("exponential", Same(O::Exponential)),
    ("exponential_minus_one", Same(O::ExponentialMinusOne)),
    ("fft", By(linalg::fft)),
    ("floor", Same(O::Floor)),
    ("gather", By(indexing::gather)),
    ("get_dimension_size", Refused(DYNAMIC)),
    ("get_tuple_element", By(control::get_tuple_element)),
    ("if", By(control::if_op)),
    ("imag", Same(O::Imag)),
    ("iota", By(source::iota)),
    ("is_finite", Same(O::IsFinite)),
    ("log", Same(O::Log)),
    ("log_plus_one", Same(O::LogPlusOne)),
    ("logistic", Same(O::Logistic)),
    ("map", By(elementwise::map)),
    ("maximum", Same(O::Maximum)),
    ("minimum", Same(O::Minimum)),
    ("multiply", Same(O::Multiply)),
    ("negate", Same(O::Negate)),
    ("not", Same(O::Not)),
    ("optimization_barrier", By(control::optimization_barrier)),
    ("or", Same(O::Or)),
    ("pad", By(movement::pad)),
    ("partition_id", Same(O::PartitionId)),
    ("popcnt", Same(O::Popcnt)),
    ("power", Same(O::Power)),
    ("real", Same(O::Real)),
    ("real_dynamic_slice", Refused(DYNAMIC)),
    ("reduce", By(reduce::reduce)),
    ("reduce_precision", By(elementwise::reduce_precision)),
    ("reduce_scatter", By(collective::reduce_scatter)),
    ("reduce_window", By(reduce::reduce_window)),
    ("remainder", Same(O::Remainder)),
    ("replica_id", Same(O::ReplicaId)),
    ("reshape", By(movement::reshape)),
    ("reverse", By(movement::reverse)),
    ("rng", By(source::rng)),
    ("rng_bit_generator", By(source::rng_bit_generator)),
    ("round_nearest_afz", Same(O::RoundNearestAfz)),
    ("round_nearest_even", Same(O::RoundNearestEven)),
    ("rsqrt", Same(O::Rsqrt)),
    ("scatter", By(indexing::scatter)),
    ("select", Same(O::Select)),
    ("select_and_scatter", By(reduce::select_and_scatter)),
    ("set_dimension_size", Refused(DYNAMIC)),
    ("shift_left", Same(O::ShiftLeft)),
    ("shift_right_arithmetic", Same(O::ShiftRightArithmetic)),
    ("shift_right_logical", Same(O::ShiftRightLogical)),
    ("sign", Same(O::Sign)),
    ("sine", Same(O::Sine)),
    ("slice", By(movement::slice)),
    ("sort", By(linalg::sort)),
    ("sqrt", Same(O::Sqrt)),
    ("subtract", Same(O::Subtract)),
    ("tan", Same(O::Tan)),
    ("tanh", Same(O::Tanh)),
    ("transpose", By(movement::transpose)),
    ("triangular_solve", By(linalg::triangular_solve)),
    ("tuple", Same(O::Tuple)),
    ("uniform_dequantize", Refused(QUANTIZED)),
    ("uniform_quantize", Refused(QUANTIZED)),
    ("while", By(control::while_op)),
    ("xor", Same(O::Xor)),
];

/// Operations of CHLO, without their dialect.
const CHLO: &[(&str, Rule)] = &[
    ("acos", Same(O::Acos)),
    ("acosh", Same(O::Acosh)),
    ("asin", Same(O::Asin)),
    ("asinh", Same(O::Asinh)),
    ("atan", By(chlo::atan)),
    ("atanh", Same(O::Atanh)),
    ("bessel_i1e", By(chlo::written_out)),
    ("conj", By(chlo::conj)),
    ("cosh", By(chlo::written_out)),
    ("digamma", By(chlo::written_out)),
    ("erf", Same(O::Erf)),
    ("erf_inv", By(chlo::written_out)),
    ("erfc", By(chlo::written_out)),
    ("is_inf", By(chlo::is_inf)),
    ("is_neg_inf", By(chlo::is_neg_inf)),
    ("is_pos_inf", By(chlo::is_pos_inf)),
    ("lgamma", By(chlo::written_out)),
    ("next_after", By(chlo::written_out)),
    ("sinh", By(chlo::written_out)),
    ("square", By(chlo::square)),
    ("tan", Same(O::Tan)),
    ("top_k", By(chlo::top_k)),
];

/// Operations of other dialects, whole names.
const OTHERS: &[(&str, Rule)] = &[
    ("call", By(call::call)),
    ("func.call", By(call::call)),
    ("mhlo.acos", Same(O::Acos)),
    ("mhlo.asin", Same(O::Asin)),
    ("mhlo.cosh", Same(O::Cosh)),
    ("mhlo.copy", Same(O::Copy)),
    ("mhlo.erf", Same(O::Erf)),
    ("mhlo.sinh", Same(O::Sinh)),
    ("mhlo.topk", By(chlo::top_k)),
    ("sdy.manual_computation", By(manual::manual_computation)),
    ("sdy.sharding_constraint", By(call::sharding_constraint)),
];

type Table = IndexMap<&'static str, Rule, FxBuildHasher>;

fn rule(name: &str) -> Option<Rule> {
    static TABLES: OnceLock<[Table; 3]> = OnceLock::new();
    let tables = TABLES.get_or_init(|| [STABLEHLO, CHLO, OTHERS].map(|list| list.iter().copied().collect()));
    if let Some(op) = name.strip_prefix("stablehlo.") {
        return tables[0].get(op).copied();
    }
    match name.strip_prefix("chlo.") {
        Some(op) => tables[1].get(op).copied(),
        None => tables[2].get(name).copied(),
    }
}

/// Writes an operation's instructions.
pub(super) fn lower<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    match rule(op.name) {
        Some(Same(opcode)) => cx.emit(op, opcode, operands, Vec::new()),
        Some(By(lower)) => lower(cx, op, operands),
        Some(Refused(why)) => Err(op.error(format!("`{}` is not read", op.name)).help(why)),
        None => Err(unknown(op)),
    }
}

fn unknown(op: &Op) -> phzc_ir::Diagnostic {
    let error = op.error(format!("unknown operation `{}`", clip(op.name)));
    let (dialect, name) = op.name.split_once('.').unwrap_or(("", op.name));
    let list = if dialect == "chlo" { CHLO } else { STABLEHLO };
    match nearest(name, list.iter().map(|(name, _)| *name)) {
        Some(near) if matches!(dialect, "stablehlo" | "chlo") => {
            error.help(format!("did you mean `{dialect}.{near}`?"))
        }
        _ => error.help("operations of StableHLO, CHLO and `func` are read"),
    }
}
