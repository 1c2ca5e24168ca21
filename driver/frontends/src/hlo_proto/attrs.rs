//! Attributes, in the order in which XLA's printer writes them.

mod numbers;

use super::message::{FrontendAttributes, Instruction, OpMetadata};
use super::module::Context;
use super::{groups, sharding};
use phzc_ir::{Attr, CompId, Diagnostic, Instr, Key, Opcode, Result, Value};

/// The attributes of an instruction.
pub(super) fn attrs(proto: &Instruction, instr: &Instr, cx: &Context) -> Result<Vec<Attr>> {
    let mut out = Vec::new();
    own(proto, instr, cx, &mut out)?;
    called(proto, instr, cx, &mut out)?;
    if let Some(own) = &proto.sharding {
        out.push(attr(Key::Sharding, Value::Sharding(Box::new(sharding::sharding(own)?))));
    }
    out.extend(proto.frontend_attributes.as_ref().and_then(notes));
    if !proto.control_predecessor_ids.is_empty() {
        return Err(Diagnostic::error("control predecessors are not read from protobufs"));
    }
    flag(&mut out, Key::IsComposite, proto.is_composite);
    out.extend(proto.metadata.as_ref().and_then(metadata));
    if !proto.backend_config.is_empty() {
        let text = String::from_utf8_lossy(&proto.backend_config).into_owned();
        let text = if text.starts_with('{') { text } else { format!("\"{}\"", escaped(&text)) };
        out.push(attr(Key::BackendConfig, Value::Raw(text.into())));
    }
    Ok(out)
}

/// What the opcode itself needs.
fn own(proto: &Instruction, instr: &Instr, cx: &Context, out: &mut Vec<Attr>) -> Result<()> {
    use Opcode as O;
    match instr.op {
        O::Broadcast | O::Concatenate | O::Map | O::Reduce | O::Reverse | O::Transpose => dims(proto, out),
        O::GetDimensionSize | O::SetDimensionSize => dims(proto, out),
        O::Sort => {
            dims(proto, out);
            flag(out, Key::IsStable, proto.is_stable);
        }
        O::Iota => out.extend(proto.dimensions.first().map(|&dim| int(Key::IotaDimension, dim))),
        O::GetTupleElement => out.push(int(Key::Index, proto.tuple_index)),
        O::Compare => compare(proto, instr, cx, out),
        O::Slice => out.push(attr(Key::Slice, numbers::slices(proto))),
        O::DynamicSlice => out.push(ints(Key::DynamicSliceSizes, &proto.dynamic_slice_sizes)),
        O::Pad => out.push(attr(Key::Padding, numbers::padding(proto))),
        O::Dot => {
            numbers::dot(proto.dot_dimension_numbers.as_ref(), out);
            precision(proto, out);
        }
        O::RaggedDot => {
            numbers::ragged_dot(proto.ragged_dot_dimension_numbers.as_ref(), out);
            precision(proto, out);
        }
        O::Convolution => convolution(proto, out)?,
        O::CustomCall => custom_call(proto, out)?,
        O::ReduceWindow | O::SelectAndScatter => out.extend(numbers::window(proto.window.as_ref())),
        O::Gather => numbers::gather(proto, out),
        O::Scatter => numbers::scatter(proto, out),
        O::ReducePrecision => {
            out.push(int(Key::ExponentBits, proto.exponent_bits.into()));
            out.push(int(Key::MantissaBits, proto.mantissa_bits.into()));
        }
        O::Topk => {
            out.push(int(Key::K, proto.k));
            out.push(attr(Key::Largest, Value::Bool(proto.largest)));
        }
        O::Fusion => out.push(word(Key::Kind, &proto.fusion_kind)),
        O::Parameter => parameter(proto, out),
        O::Infeed => out.extend(config(Key::InfeedConfig, &proto.infeed_config)),
        O::Outfeed => {
            let shape = proto.outfeed_shape.as_ref().map(super::shape::shape).transpose()?;
            let text = shape.map(|shape| phzc_ir::text::shape_text(&shape));
            out.extend(text.map(|text| attr(Key::OutfeedShape, raw(text))));
            out.extend(config(Key::OutfeedConfig, &proto.outfeed_config));
        }
        op if is_mathematical(op) => mathematical(proto, op, out),
        _ => collective(proto, instr.op, out)?,
    }
    Ok(())
}

fn is_mathematical(op: Opcode) -> bool {
    use Opcode as O;
    matches!(
        op,
        O::BatchNormTraining
            | O::BatchNormInference
            | O::BatchNormGrad
            | O::Fft
            | O::Rng
            | O::RngBitGenerator
            | O::RngGetAndUpdateState
            | O::Cholesky
            | O::TriangularSolve
    )
}

/// Normalisations, transforms, decompositions, random numbers.
fn mathematical(proto: &Instruction, op: Opcode, out: &mut Vec<Attr>) {
    use Opcode as O;
    match op {
        O::BatchNormTraining | O::BatchNormInference | O::BatchNormGrad => {
            let epsilon = phzc_ir::text::number::number(phzc_ir::DType::F32, f64::from(proto.epsilon));
            out.push(word(Key::Epsilon, &epsilon));
            out.push(int(Key::FeatureIndex, proto.feature_index));
        }
        O::Fft => {
            out.push(word(Key::FftType, nth(&["FFT", "IFFT", "RFFT", "IRFFT"], proto.fft_type)));
            out.push(ints(Key::FftLength, &proto.fft_length));
        }
        O::Rng => {
            let known = ["rng_invalid", "rng_uniform", "rng_normal"];
            out.push(word(Key::Distribution, nth(&known, proto.distribution)));
        }
        O::RngBitGenerator => {
            let known = ["rng_default", "rng_three_fry", "rng_philox"];
            out.push(word(Key::Algorithm, nth(&known, proto.rng_algorithm)));
        }
        O::RngGetAndUpdateState => out.push(attr(Key::Other("delta".into()), raw(proto.delta.to_string()))),
        O::Cholesky => flag(out, Key::Lower, proto.cholesky_options.as_ref().is_some_and(|own| own.lower)),
        O::TriangularSolve => numbers::triangular_solve(proto, out),
        _ => {}
    }
}

/// Channels, devices, dimensions of the ops that communicate.
fn collective(proto: &Instruction, op: Opcode, out: &mut Vec<Attr>) -> Result<()> {
    use Opcode as O;
    let groups = |out: &mut Vec<Attr>| -> Result<()> {
        out.push(attr(Key::ReplicaGroups, raw(groups::groups(proto)?)));
        flag(out, Key::ConstrainLayout, proto.constrain_layout);
        Ok(())
    };
    if proto.channel_id > 0 {
        out.push(int(Key::ChannelId, proto.channel_id));
    }
    match op {
        O::AllGather | O::AllGatherStart => {
            groups(out)?;
            dims(proto, out);
            flag(out, Key::UseGlobalDeviceIds, proto.use_global_device_ids);
        }
        O::AllReduce | O::AllReduceStart | O::ReduceScatter => {
            groups(out)?;
            flag(out, Key::UseGlobalDeviceIds, proto.use_global_device_ids);
            if op == O::ReduceScatter {
                dims(proto, out);
            }
        }
        O::AllToAll | O::CollectiveBroadcast | O::RaggedAllToAll => {
            groups(out)?;
            if !proto.dimensions.is_empty() {
                dims(proto, out);
            }
        }
        O::CollectivePermute | O::CollectivePermuteStart => {
            out.push(attr(Key::SourceTargetPairs, raw(groups::pairs(&proto.source_target_pairs))));
        }
        O::Send | O::SendDone | O::Recv | O::RecvDone => {
            flag(out, Key::IsHostTransfer, proto.is_host_transfer)
        }
        _ => {}
    }
    Ok(())
}

/// The computations that are run.
fn called(proto: &Instruction, instr: &Instr, cx: &Context, out: &mut Vec<Attr>) -> Result<()> {
    use Opcode as O;
    let find = |id: &i64| {
        let comp = cx.comps.get(id).copied();
        comp.ok_or_else(|| Diagnostic::error(format!("computation {id} is not defined before its use")))
    };
    let comps: Vec<CompId> = proto.called_computation_ids.iter().map(find).collect::<Result<_>>()?;
    let keys: &[Key] = match (instr.op, comps.len()) {
        (_, 0) => return Ok(()),
        // The protobuf has the body first.
        (O::While, 2) => {
            out.push(attr(Key::Condition, Value::Comp(comps[1])));
            out.push(attr(Key::Body, Value::Comp(comps[0])));
            return Ok(());
        }
        (O::SelectAndScatter, 2) => &[Key::Select, Key::Scatter],
        (O::Conditional, 2) if is_predicate(instr, cx) => &[Key::TrueComputation, Key::FalseComputation],
        (O::Conditional, _) => {
            out.push(attr(Key::BranchComputations, Value::Comps(comps)));
            return Ok(());
        }
        (O::CustomCall, _) => {
            out.push(attr(Key::CalledComputations, Value::Comps(comps)));
            return Ok(());
        }
        (O::Fusion, 1) => &[Key::Calls],
        (_, 1) => &[Key::ToApply],
        (op, n) => return Err(Diagnostic::error(format!("`{}` calls {n} computations", op.as_str()))),
    };
    out.extend(keys.iter().zip(comps).map(|(key, comp)| attr(key.clone(), Value::Comp(comp))));
    Ok(())
}

fn is_predicate(instr: &Instr, cx: &Context) -> bool {
    let selector = instr.operands.first().and_then(|id| cx.instrs.get(id.index()));
    selector.and_then(|selector| selector.shape.as_array()).is_some_and(|a| a.dtype == phzc_ir::DType::Pred)
}

/// The type is written where it does not follow from the elements.
fn compare(proto: &Instruction, instr: &Instr, cx: &Context, out: &mut Vec<Attr>) {
    use phzc_ir::dtype::Class;
    out.push(word(Key::Direction, &proto.comparison_direction));
    let lhs =
        instr.operands.first().and_then(|id| cx.instrs.get(id.index())).and_then(|lhs| lhs.shape.as_array());
    let usual = match lhs.map(|array| array.dtype.class()) {
        Some(Class::Signed) => "SIGNED",
        Some(Class::Unsigned | Class::Bool) => "UNSIGNED",
        _ => "FLOAT",
    };
    if !proto.comparison_type.is_empty() && proto.comparison_type != usual {
        out.push(word(Key::Type, &proto.comparison_type));
    }
}

fn convolution(proto: &Instruction, out: &mut Vec<Attr>) -> Result<()> {
    out.extend(numbers::window(proto.window.as_ref()));
    if let Some(labels) = &proto.convolution_dimension_numbers {
        out.push(attr(Key::DimLabels, numbers::labels(labels)?));
    }
    for (key, count) in
        [(Key::FeatureGroupCount, proto.feature_group_count), (Key::BatchGroupCount, proto.batch_group_count)]
    {
        if count > 1 {
            out.push(int(key, count));
        }
    }
    precision(proto, out);
    Ok(())
}

fn custom_call(proto: &Instruction, out: &mut Vec<Attr>) -> Result<()> {
    convolution(proto, out)?;
    if matches!(proto.padding_type, 1 | 2) {
        out.push(word(Key::PaddingType, nth(&["", "PADDING_VALID", "PADDING_SAME"], proto.padding_type)));
    }
    out.push(attr(Key::CustomCallTarget, Value::Str(escaped(&proto.custom_call_target).into())));
    if proto.constrain_layout {
        let shapes = proto.operand_shapes_with_layout.iter().map(super::shape::shape);
        let texts: Vec<String> =
            shapes.map(|s| s.map(|s| phzc_ir::text::shape_text(&s))).collect::<Result<_>>()?;
        out.push(attr(Key::OperandLayoutConstraints, raw(format!("{{{}}}", texts.join(", ")))));
    }
    flag(out, Key::CustomCallHasSideEffect, proto.custom_call_has_side_effect);
    if !proto.output_operand_aliasing.is_empty() {
        let pairs = proto.output_operand_aliasing.iter().map(|pair| {
            let (output, operand) =
                (groups::joined(&pair.output_shape_index), groups::joined(&pair.operand_shape_index));
            format!("{{{output}}}: ({}, {{{operand}}})", pair.operand_index)
        });
        let text = format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "));
        out.push(attr(Key::OutputToOperandAliasing, raw(text)));
    }
    if matches!(proto.custom_call_schedule, 1 | 2) {
        let known = ["", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"];
        out.push(word(Key::Schedule, nth(&known, proto.custom_call_schedule)));
    }
    let versions = [
        "",
        "",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ];
    if proto.custom_call_api_version > 1 {
        out.push(word(Key::ApiVersion, nth(&versions, proto.custom_call_api_version)));
    }
    Ok(())
}

/// Written where an operand's is not the default.
fn precision(proto: &Instruction, out: &mut Vec<Attr>) {
    let Some(config) = &proto.precision_config else { return };
    if config.operand_precision.iter().any(|&precision| precision != 0) {
        let known = ["default", "high", "highest"];
        let words: Vec<&str> = config.operand_precision.iter().map(|&number| nth(&known, number)).collect();
        out.push(attr(Key::OperandPrecision, raw(format!("{{{}}}", words.join(",")))));
    }
    if config.algorithm != 0 {
        out.push(word(Key::Algorithm, nth(numbers::ALGORITHMS, config.algorithm)));
    }
}

fn parameter(proto: &Instruction, out: &mut Vec<Attr>) {
    let flags = proto.parameter_replication.as_ref().map(|own| &own.replicated_at_leaf_buffers);
    if let Some(flags) = flags.filter(|flags| !flags.is_empty()) {
        let words: Vec<String> = flags.iter().map(bool::to_string).collect();
        out.push(attr(Key::ParameterReplication, raw(format!("{{{}}}", words.join(",")))));
    }
}

fn config(key: Key, bytes: &[u8]) -> Option<Attr> {
    let text = escaped(&String::from_utf8_lossy(bytes));
    (!bytes.is_empty()).then(|| attr(key, Value::Str(text.into())))
}

fn notes(proto: &FrontendAttributes) -> Option<Attr> {
    let pairs =
        proto.map.iter().map(|(key, value)| (key.as_str().into(), note_value(value).into())).collect();
    (!proto.map.is_empty()).then(|| attr(Key::FrontendAttributes, Value::Notes(pairs)))
}

/// A dictionary as it is, anything else in quotes.
pub(super) fn note_value(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        value.to_owned()
    } else {
        format!("\"{}\"", escaped(value))
    }
}

fn metadata(proto: &OpMetadata) -> Option<Attr> {
    let texts =
        [("op_type", &proto.op_type), ("op_name", &proto.op_name), ("source_file", &proto.source_file)];
    let numbers = [
        ("source_line", proto.source_line),
        ("source_end_line", proto.source_end_line),
        ("source_column", proto.source_column),
        ("source_end_column", proto.source_end_column),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(key, text)| format!("{key}=\"{}\"", escaped(text)));
    let numbers = numbers.into_iter().filter(|(_, number)| *number != 0);
    let all: Vec<String> = texts.chain(numbers.map(|(key, number)| format!("{key}={number}"))).collect();
    (!all.is_empty()).then(|| attr(Key::Metadata, raw(format!("{{{}}}", all.join(" ")))))
}

/// With the escapes of a text between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t")
}

fn dims(proto: &Instruction, out: &mut Vec<Attr>) {
    out.push(ints(Key::Dimensions, &proto.dimensions));
}

/// The word of a number; the first for numbers that are none.
fn nth<'a>(words: &[&'a str], number: i32) -> &'a str {
    usize::try_from(number).ok().and_then(|number| words.get(number)).unwrap_or(&words[0])
}

fn attr(key: Key, value: Value) -> Attr {
    Attr { key, value }
}

fn ints(key: Key, list: &[i64]) -> Attr {
    attr(key, Value::Ints(list.iter().copied().collect()))
}

fn int(key: Key, value: i64) -> Attr {
    attr(key, Value::Int(value))
}

fn word(key: Key, word: &str) -> Attr {
    attr(key, Value::Word(word.into()))
}

fn raw(text: String) -> Value {
    Value::Raw(text.into())
}

fn flag(out: &mut Vec<Attr>, key: Key, is_set: bool) {
    if is_set {
        out.push(attr(key, Value::Bool(true)));
    }
}
