//! Communication between devices.

use super::reduce::reducer;
use crate::stablehlo::ast::{Attr, Dense, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr, flag, ints};
use phzc_ir::{InstrId, Key, Opcode, Result, Shape, Value};

/// `"all_reduce"(%x) <{replica_groups, channel_handle, use_global_device_ids}> ({computation})`.
pub(super) fn all_reduce<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let mut attrs = common(op)?;
    attrs.push(attr(Key::ToApply, Value::Comp(reducer(cx, op.region(0)?, op)?)));
    cx.emit_all(op, Opcode::AllReduce, operands, attrs)
}

/// `"all_gather"(%x) <{all_gather_dim, replica_groups, …}>`.
pub(super) fn all_gather<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let mut attrs = common(op)?;
    attrs.push(ints(Key::Dimensions, [op.need_int(&["all_gather_dim"])?]));
    cx.emit_all(op, Opcode::AllGather, operands, attrs)
}

/// `"reduce_scatter"(%x) <{scatter_dimension, replica_groups, …}> ({computation})`.
pub(super) fn reduce_scatter<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let mut attrs = common(op)?;
    attrs.push(ints(Key::Dimensions, [op.need_int(&["scatter_dimension"])?]));
    attrs.push(attr(Key::ToApply, Value::Comp(reducer(cx, op.region(0)?, op)?)));
    cx.emit_all(op, Opcode::ReduceScatter, operands, attrs)
}

/// `"all_to_all"(%x) <{split_dimension, concat_dimension, split_count, replica_groups}>`; where the two
/// dimensions differ, what comes is moved from the one to the other, as XLA does.
pub(super) fn all_to_all<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let (split, joined) = (op.need_int(&["split_dimension"])?, op.need_int(&["concat_dimension"])?);
    let mut attrs = common(op)?;
    attrs.push(ints(Key::Dimensions, [split]));
    if split == joined {
        return cx.emit_all(op, Opcode::AllToAll, operands, attrs);
    }
    let (array, n) = (cx.array(op, operands, 0)?, op.need_int(&["split_count"])?);
    let (split, joined) = (split as usize, joined as usize);
    let is_fine = n > 0 && split.max(joined) < array.rank() && array.dims[split] % n == 0;
    if operands.len() > 1 || !is_fine {
        return Err(op.error("`all_to_all` splits and joins one value, in equal parts"));
    }
    let shape = Shape::Array(array.clone());
    let received = cx.b.try_shaped(Opcode::AllToAll, operands, shape, attrs)?;
    // The parts as a dimension of their own, which becomes the major part of the other one.
    let mut dims = array.dims.to_vec();
    dims.splice(split..=split, [n, array.dims[split] / n]);
    let parts =
        cx.b.try_shaped(Opcode::Reshape, &[received], Shape::array(array.dtype, &dims), Vec::new())?;
    let mut order: Vec<usize> = (0..dims.len()).filter(|&dim| dim != split).collect();
    order.insert(joined, split);
    let moved: Vec<i64> = order.iter().map(|&dim| dims[dim]).collect();
    let attrs = vec![ints(Key::Dimensions, order.iter().map(|&dim| dim as i64))];
    let moved = cx.b.try_shaped(Opcode::Transpose, &[parts], Shape::array(array.dtype, &moved), attrs)?;
    cx.emit(op, Opcode::Reshape, &[moved], Vec::new())
}

/// `"collective_broadcast"(%x) <{replica_groups}>`.
pub(super) fn collective_broadcast<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let attrs = common(op)?;
    cx.emit(op, Opcode::CollectiveBroadcast, operands, attrs)
}

/// `"collective_permute"(%x) <{source_target_pairs}>`.
pub(super) fn collective_permute<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let mut attrs = Vec::new();
    attrs.extend(channel(op));
    let pairs = rows(op, "source_target_pairs")?;
    attrs.push(attr(Key::SourceTargetPairs, Value::Raw(pairs.into())));
    cx.emit(op, Opcode::CollectivePermute, operands, attrs)
}

fn common(op: &Op) -> Result<Vec<phzc_ir::Attr>> {
    let mut attrs: Vec<phzc_ir::Attr> = channel(op).into_iter().collect();
    attrs.push(attr(Key::ReplicaGroups, Value::Raw(rows(op, "replica_groups")?.into())));
    attrs.extend(flag(op, "use_global_device_ids", Key::UseGlobalDeviceIds));
    Ok(attrs)
}

fn channel(op: &Op) -> Option<phzc_ir::Attr> {
    let handle = op.attr(&["channel_handle"])?.field("handle")?.int().filter(|&handle| handle > 0)?;
    Some(attr(Key::ChannelId, Value::Int(handle)))
}

/// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>` as `{{0,1},{2,3}}`; -1 pads shorter rows.
fn rows(op: &Op, name: &str) -> Result<String> {
    let Some(Attr::Dense(dense @ Dense { shape, .. })) = op.attr(&[name]) else {
        return Err(op.error(format!("`{}` needs `{name}`", op.name)));
    };
    let width = shape.as_array().filter(|array| array.rank() == 2).map(|array| array.dims[1] as usize);
    let (Some(width), Some(all)) = (width, dense.ints()) else {
        return Err(op.error(format!("`{name}` must be a table of integers")));
    };
    let row = |row: &[i64]| {
        let items: Vec<String> = row.iter().filter(|&&id| id >= 0).map(i64::to_string).collect();
        format!("{{{}}}", items.join(","))
    };
    Ok(format!("{{{}}}", all.chunks(width.max(1)).map(row).collect::<Vec<_>>().join(",")))
}
