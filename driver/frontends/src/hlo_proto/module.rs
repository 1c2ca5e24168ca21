//! The module: computations, instructions in their order, the header.

use super::message::{Computation, Instruction, Module};
use super::{attrs, groups, literal, shape};
use phzc_ir::{CompId, Diagnostic, HeaderAttr, Instr, InstrId, Opcode, Payload, Result, Span};
use rustc_hash::FxBuildHasher;

/// Ids of the protobuf with the places that they stand for.
pub(super) type Ids<T> = indexmap::IndexMap<i64, T, FxBuildHasher>;

/// What an instruction's attributes may refer to.
pub(super) struct Context<'m> {
    pub comps: &'m Ids<CompId>,
    /// Instructions of the computation so far.
    pub instrs: &'m [Instr],
}

/// The module of a protobuf.
pub(super) fn module(proto: &Module) -> Result<phzc_ir::Module> {
    let (mut comps, mut ids) = (Vec::new(), Ids::default());
    for computation in &proto.computations {
        let order = proto.schedule.as_ref().and_then(|schedule| schedule.sequences.get(&computation.id));
        let comp = comp(computation, order.map(|sequence| sequence.instruction_ids.as_slice()), &ids)?;
        ids.insert(computation.id, CompId::new(comps.len()));
        comps.push(comp);
    }
    let entry = ids.get(&proto.entry_computation_id).copied();
    let entry = entry.ok_or_else(|| Diagnostic::error("the protobuf's entry computation is missing"))?;
    Ok(phzc_ir::Module { name: name(&proto.name)?, attrs: header(proto)?, tables: "".into(), comps, entry })
}

fn comp(proto: &Computation, order: Option<&[i64]>, comps: &Ids<CompId>) -> Result<phzc_ir::Computation> {
    let by_id: Ids<&Instruction> = proto.instructions.iter().map(|instr| (instr.id, instr)).collect();
    let scheduled: Option<Vec<&Instruction>> =
        order.map(|ids| ids.iter().filter_map(|id| by_id.get(id).copied()).collect());
    let all = scheduled.filter(|list| list.len() == proto.instructions.len());
    let all = all.unwrap_or_else(|| proto.instructions.iter().collect());
    let (mut instrs, mut ids) = (Vec::new(), Ids::default());
    for instruction in all {
        let made = instr(instruction, &Context { comps, instrs: &instrs }, &ids).map_err(|error| {
            error.note(None, format!("in `{}` of computation `{}`", instruction.name, proto.name))
        })?;
        ids.insert(instruction.id, InstrId::new(instrs.len()));
        instrs.push(made);
    }
    let root = ids.get(&proto.root_id).copied();
    let root = root.ok_or_else(|| Diagnostic::error(format!("computation `{}` has no root", proto.name)))?;
    let thread = &*proto.execution_thread;
    let thread = (!matches!(thread, "" | "main")).then(|| thread.into());
    Ok(phzc_ir::Computation { name: name(&proto.name)?, instrs, root, thread })
}

fn instr(proto: &Instruction, cx: &Context, ids: &Ids<InstrId>) -> Result<Instr> {
    let Some(op) = Opcode::parse(&proto.opcode) else {
        return Err(Diagnostic::error(format!("unknown opcode `{}`", proto.opcode)));
    };
    if matches!(op, Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone) {
        let error = Diagnostic::error(format!("`{}` is not read from protobufs", proto.opcode));
        return Err(error.help("XLA's text of the module is read"));
    }
    let operand = |id: &i64| {
        ids.get(id)
            .copied()
            .ok_or_else(|| Diagnostic::error(format!("operand {id} is not defined before its use")))
    };
    let shape = proto.shape.as_ref().ok_or_else(|| Diagnostic::error("the shape is missing"))?;
    let shape = shape::shape(shape)?;
    let payload = match op {
        Opcode::Parameter => {
            let number = u32::try_from(proto.parameter_number);
            Payload::Parameter(number.map_err(|_| Diagnostic::error("the parameter's number is negative"))?)
        }
        Opcode::Constant => Payload::Literal(literal::literal(proto.literal.as_ref(), &shape)?.into()),
        _ => Payload::None,
    };
    let operands = proto.operand_ids.iter().map(operand).collect::<Result<_>>()?;
    let mut instr = Instr {
        name: name(&proto.name)?,
        op,
        operands,
        shape,
        payload,
        attrs: Vec::new(),
        span: Span::default(),
    };
    instr.attrs = attrs::attrs(proto, &instr, cx)?;
    Ok(instr)
}

/// A name that HLO's text can hold.
fn name(text: &str) -> Result<Box<str>> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && text.bytes().all(is_legal) {
        return Ok(text.into());
    }
    Err(Diagnostic::error(format!("`{}` is no name", phzc_ir::text::cursor::clip(text))))
}

/// The attributes of the `HloModule` line, in XLA's order.
fn header(proto: &Module) -> Result<Vec<HeaderAttr>> {
    let mut attrs: Vec<(&str, String)> = Vec::new();
    if proto.schedule.as_ref().is_some_and(|schedule| !schedule.sequences.is_empty()) {
        attrs.push(("is_scheduled", "true".to_owned()));
    }
    let index = |list: &[i64]| format!("{{{}}}", groups::joined(list));
    let aliases = proto.input_output_alias.iter().flat_map(|alias| &alias.entries).map(|entry| {
        let kind = if entry.kind == 2 { "must-alias" } else { "may-alias" };
        let (output, param) = (index(&entry.output_shape_index), index(&entry.parameter_shape_index));
        format!("{output}: ({}, {param}, {kind})", entry.parameter_number)
    });
    attrs.extend(listed("input_output_alias", aliases.collect()));
    let donors = proto.buffer_donor.iter().flat_map(|donor| &donor.entries);
    let donors =
        donors.map(|entry| format!("({}, {})", entry.parameter_number, index(&entry.parameter_shape_index)));
    attrs.extend(listed("buffer_donor", donors.collect()));
    if let Some(program) = &proto.host_program_shape {
        attrs.push(("entry_computation_layout", shape::program(program)?));
    }
    if let Some(devices) = &proto.device_assignment {
        let counts =
            [("replica_count", devices.replica_count), ("num_partitions", devices.computation_count)];
        attrs.extend(
            counts.into_iter().filter(|(_, count)| *count > 1).map(|(key, count)| (key, count.to_string())),
        );
    }
    if let Some(notes) = proto.frontend_attributes.as_ref().filter(|notes| !notes.map.is_empty()) {
        let entries: Vec<String> =
            notes.map.iter().map(|(key, value)| format!("{key}={}", attrs::note_value(value))).collect();
        attrs.push(("frontend_attributes", format!("{{{}}}", entries.join(","))));
    }
    Ok(attrs.into_iter().map(|(key, value)| HeaderAttr { key: key.into(), value: value.into() }).collect())
}

fn listed(key: &'static str, entries: Vec<String>) -> Option<(&'static str, String)> {
    (!entries.is_empty()).then(|| (key, format!("{{ {} }}", entries.join(", "))))
}
