//! Calls: of functions, of composites, of code outside of the program.

use super::chlo;
use crate::stablehlo::ast::{Attr, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr};
use crate::stablehlo::sharding;
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `call @f(%a)`.
pub(super) fn call<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let comp = cx.function(op)?;
    cx.emit_all(op, Opcode::Call, operands, vec![attr(Key::ToApply, Value::Comp(comp))])
}

/// `composite "name" %a {decomposition = @f}`: what it decomposes into.
pub(super) fn composite<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let Some(Attr::Symbol(name)) = op.attr(&["decomposition"]) else {
        return Err(op.error("a composite needs its `decomposition`"));
    };
    let mut callee = Op::new(op.name, op.span);
    callee.symbol = Some(name);
    let comp = cx.function(&callee)?;
    cx.emit_all(op, Opcode::Call, operands, vec![attr(Key::ToApply, Value::Comp(comp))])
}

/// `custom_call @target(%a) {…}`; targets that stand for an operation are that operation.
pub(super) fn custom_call<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let target = op.symbol.or_else(|| op.attr(&["call_target_name"]).and_then(Attr::word));
    let target = target.ok_or_else(|| op.error("`custom_call` needs a target such as `@Sharding`"))?;
    match target {
        "mhlo.erf" => return cx.emit(op, Opcode::Erf, operands, Vec::new()),
        "mhlo.topk" => return chlo::top_k(cx, op, operands),
        _ => {}
    }
    let mut attrs = vec![attr(Key::CustomCallTarget, Value::Str(target.into()))];
    if let Some(Attr::Str(text)) = op.attr(&["mhlo.sharding"]) {
        let sharding = sharding::from_text(text, op.span)?;
        attrs.push(attr(Key::Sharding, Value::Sharding(Box::new(sharding))));
    }
    if matches!(op.attr(&["has_side_effect"]), Some(Attr::Bool(true))) {
        attrs.push(attr(Key::CustomCallHasSideEffect, Value::Bool(true)));
    }
    let version = match op.int(&["api_version"]) {
        Some(2) => Some("API_VERSION_STATUS_RETURNING"),
        Some(3) => Some("API_VERSION_STATUS_RETURNING_UNIFIED"),
        Some(4) => Some("API_VERSION_TYPED_FFI"),
        _ => None,
    };
    attrs.extend(version.map(|version| attr(Key::ApiVersion, Value::Word(version.into()))));
    let configs = ["backend_config", "mhlo.backend_config"].iter().filter_map(|key| op.attr(&[key]));
    attrs.extend(configs.filter_map(config).next());
    if let Some(Attr::Text(rule)) = op.attr(&["sdy.sharding_rule"]) {
        let rule = format!("\"#sdy.op_sharding_rule<{rule}>\"");
        let notes = vec![("xla.sdy.sharding_rule".into(), rule.into())];
        attrs.push(attr(Key::FrontendAttributes, Value::Notes(notes)));
    }
    cx.emit_all(op, Opcode::CustomCall, operands, attrs)
}

/// The configuration of a call: text, or `{name = 1 : i64, …}`.
fn config(given: &Attr) -> Option<phzc_ir::Attr> {
    let text = match given {
        Attr::Str("") => return None,
        Attr::Str(text) => format!("\"{text}\""),
        Attr::Fields(fields) => {
            let fields =
                fields.iter().filter_map(|(name, value)| Some(format!("{name} = {}", plain(value)?)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    };
    Some(attr(Key::BackendConfig, Value::Raw(text.into())))
}

/// A number or a word of a configuration; lists and the like are left out.
fn plain(value: &Attr) -> Option<String> {
    match value {
        Attr::Bool(value) => Some(value.to_string()),
        Attr::Int(value) => Some(format!("{value} : i64")),
        Attr::Str(text) => Some(format!("\"{text}\"")),
        Attr::Word(word) => Some((*word).to_owned()),
        _ => None,
    }
}

/// `sdy.sharding_constraint %x <@mesh, [{"x"}, {}]>`: XLA's call of the same meaning.
pub(super) fn sharding_constraint<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let Some(Attr::Text(text)) = op.attr(&["sharding"]) else {
        return Err(op.error("`sdy.sharding_constraint` needs a sharding such as `<@mesh, [{\"x\"}]>`"));
    };
    let rank = cx.array(op, operands, 0)?.rank();
    let meant = sharding::from_shardy(cx.file, text, rank).map_err(|message| op.error(message))?;
    // Typed random keys are constrained to a mesh without devices: that says nothing.
    let Some(meant) = meant.filter(|it| !it.is_open(rank)) else { return Ok(Made::One(operands[0])) };
    let target = attr(Key::CustomCallTarget, Value::Str("Sharding".into()));
    let sharding = attr(Key::Sharding, Value::Sharding(Box::new(meant.sharding)));
    let mut attrs = vec![target, sharding];
    attrs.extend(unspecified(&meant.open));
    cx.emit(op, Opcode::CustomCall, operands, attrs)
}

/// The dimensions that a partitioner may split further, as GSPMD notes them.
pub(super) fn unspecified(open: &[usize]) -> Option<phzc_ir::Attr> {
    let dims: Vec<String> = open.iter().map(ToString::to_string).collect();
    let config = format!("\"unspecified_dims=[{}]\"", dims.join(","));
    (!open.is_empty()).then(|| attr(Key::BackendConfig, Value::Raw(config.into())))
}
