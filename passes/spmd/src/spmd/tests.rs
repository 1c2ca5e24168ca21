//! `spmd` on small programs: what it writes, and what it refuses.

pub(crate) mod cases;
pub(crate) mod compare;
pub(crate) mod layouts;
mod lookups;
mod property;
mod sums;
mod whole;

use super::parts;
use crate::testing::{Random, check};
use compare::difference;
use insta::assert_snapshot;
use phzc_ir::parse;
use phzc_plan::derive::derive;

const XY: &str = "frontend_attributes={phzc.mesh=\"x=2,y=4\"}";
const X_Y: &str = "{devices=[2,4]<=[8]}";
const ROWS_X: &str = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
const ROWS_XY: &str = "{devices=[8,1]<=[8]}";
const ROWS_Y: &str = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
const COLS_Y: &str = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
const WHOLE: &str = "{replicated}";

/// The body of the entry that one device runs, or the errors.
fn lowered(text: &str) -> String {
    let whole = check("spmd", &format!("HloModule m, num_partitions=8, {XY}\n{text}"));
    let Some((_, entry)) = whole.split_once("ENTRY") else { return whole };
    let lines = entry.lines().filter(|line| line.starts_with("  "));
    // The notes that say how parameters and root lie are the same everywhere.
    lines
        .map(|line| line.split(", frontend_attributes").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Runs a planned program whole and in parts: no result differs, and every collective is priced.
fn joined(text: &str) {
    let module = parse(&format!("HloModule m, num_partitions=8, {XY}\n{text}")).expect("legal");
    let facts = derive(&module).expect("a legal header");
    assert_eq!(facts.problems, [], "{text}");
    let local = parts(&module, &facts, phzc_ir::ops::split_rule).expect("legal");
    assert_eq!(difference(&module, (&module, &facts), &local, &mut Random(7)), None, "{text}");
}

#[test]
fn a_split_loop_that_sums_is_an_all_reduce() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={X_Y}
        b = f32[32,64] parameter(1), sharding={ROWS_Y}
        ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={ROWS_X}
        }}"
    );
    assert_snapshot!(lowered(&text), @r#"
    a = f32[8,8] parameter(0)
    b = f32[8,64] parameter(1)
    d.dot = f32[8,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT d = f32[8,64] all-reduce(d.dot), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=spmd.add.f32
    "#);
}

#[test]
fn layout_changes_are_a_collective_each_or_a_slice() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={X_Y}
        g = f32[16,32] custom-call(a), custom_call_target=\"Sharding\", sharding={ROWS_X}
        s = f32[16,32] custom-call(g), custom_call_target=\"Sharding\", sharding={ROWS_XY}
        ROOT t = f32[16,32] custom-call(s), custom_call_target=\"Sharding\", sharding={X_Y}
        }}"
    );
    assert_snapshot!(lowered(&text), @r#"
    a = f32[8,8] parameter(0)
    g = f32[8,32] all-gather(a), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, dimensions={1}
    partition.partition-id = u32[] partition-id()
    partition.convert = s32[] convert(partition.partition-id)
    partition.constant = s32[] constant(4)
    partition.remainder = s32[] remainder(partition.convert, partition.constant)
    partition.constant1 = s32[] constant(2)
    partition.multiply = s32[] multiply(partition.remainder, partition.constant1)
    partition.constant2 = s32[] constant(0)
    s = f32[2,32] dynamic-slice(g, partition.multiply, partition.constant2), dynamic_slice_sizes={2,32}
    t.reshape = f32[2,4,8] reshape(s)
    t.all-to-all = f32[2,4,8] all-to-all(t.reshape), channel_id=2, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={1}
    t.transpose = f32[4,2,8] transpose(t.all-to-all), dimensions={1,0,2}
    ROOT t = f32[8,8] reshape(t.transpose)
    "#);
}

#[test]
fn sums_that_are_scattered_along_two_dimensions_are_priced_as_they_are_done() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={{devices=[1,8]<=[8]}}
        b = f32[32,64] parameter(1), sharding={ROWS_XY}
        ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={X_Y}
        }}"
    );
    joined(&text);
}

#[test]
fn a_scatter_takes_its_tiles_from_between_those_that_are_cut_later() {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={COLS_Y}
        b = f32[32,64] parameter(1), sharding={ROWS_Y}
        d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={WHOLE}
        s = f32[16,64] custom-call(d), custom_call_target=\"Sharding\", sharding={ROWS_X}
        ROOT t = f32[16,64] custom-call(s), custom_call_target=\"Sharding\", sharding={ROWS_XY}
        }}"
    );
    assert_snapshot!(lowered(&text), @r#"
    a = f32[16,8] parameter(0)
    b = f32[8,64] parameter(1)
    d.dot = f32[16,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    d.reshape = f32[2,4,2,64] reshape(d.dot)
    d.transpose = f32[4,2,2,64] transpose(d.reshape), dimensions={1,0,2,3}
    d.reshape1 = f32[4,4,64] reshape(d.transpose)
    d.reduce-scatter = f32[1,4,64] reduce-scatter(d.reshape1), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, dimensions={0}, to_apply=spmd.add.f32
    d = f32[4,64] reshape(d.reduce-scatter)
    partition.partition-id = u32[] partition-id()
    partition.convert = s32[] convert(partition.partition-id)
    partition.constant = s32[] constant(4)
    partition.divide = s32[] divide(partition.convert, partition.constant)
    partition.constant1 = s32[] constant(2)
    partition.multiply = s32[] multiply(partition.divide, partition.constant1)
    partition.constant2 = s32[] constant(0)
    ROOT s = f32[2,64] dynamic-slice(d, partition.multiply, partition.constant2), dynamic_slice_sizes={2,64}
    "#);
}

#[test]
fn look_ups_in_split_rows_are_masked_and_added_up() {
    let text = format!(
        "ENTRY e {{
        t = f32[16,32] parameter(0), sharding={ROWS_X}
        i = s32[8] parameter(1), sharding={WHOLE}
        ROOT g = f32[8,32] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,32}}, sharding={WHOLE}
        }}"
    );
    assert_snapshot!(lowered(&text), @r#"
    t = f32[8,32] parameter(0)
    i = s32[8] parameter(1)
    partition.constant = s32[] constant(0)
    partition.constant1 = s32[] constant(15)
    g.clamp = s32[8] clamp(partition.constant, i, partition.constant1)
    partition.partition-id = u32[] partition-id()
    partition.convert = s32[] convert(partition.partition-id)
    partition.constant2 = s32[] constant(4)
    partition.divide = s32[] divide(partition.convert, partition.constant2)
    partition.constant3 = s32[] constant(8)
    partition.multiply = s32[] multiply(partition.divide, partition.constant3)
    g.broadcast = s32[8] broadcast(partition.multiply), dimensions={}
    g.subtract = s32[8] subtract(g.clamp, g.broadcast)
    g.broadcast1 = s32[8] broadcast(partition.constant), dimensions={}
    g.broadcast2 = s32[8] broadcast(partition.constant3), dimensions={}
    g.compare = pred[8] compare(g.subtract, g.broadcast1), direction=GE
    g.compare1 = pred[8] compare(g.subtract, g.broadcast2), direction=LT
    g.and = pred[8] and(g.compare, g.compare1)
    g.gather = f32[8,32] gather(t, g.subtract), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}
    g.broadcast3 = pred[8,32] broadcast(g.and), dimensions={0}
    partition.constant4 = f32[] constant(0)
    g.broadcast4 = f32[8,32] broadcast(partition.constant4), dimensions={}
    g.select = f32[8,32] select(g.broadcast3, g.gather, g.broadcast4)
    ROOT g = f32[8,32] all-reduce(g.select), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=spmd.add.f32
    "#);
}

#[test]
fn an_iota_starts_where_the_device_s_part_does() {
    let text = format!("ENTRY e {{ ROOT i = bf16[16,32] iota(), iota_dimension=0, sharding={ROWS_XY} }}");
    assert_snapshot!(lowered(&text), @r#"
    i.iota = s32[2,32] iota(), iota_dimension=0
    partition.partition-id = u32[] partition-id()
    partition.convert = s32[] convert(partition.partition-id)
    partition.constant = s32[] constant(2)
    partition.multiply = s32[] multiply(partition.convert, partition.constant)
    i.broadcast = s32[2,32] broadcast(partition.multiply), dimensions={}
    i.add = s32[2,32] add(i.iota, i.broadcast)
    ROOT i = bf16[2,32] convert(i.add)
    "#);
}

#[test]
fn what_cannot_be_done_in_parts_is_refused() {
    let text = format!(
        "ENTRY e {{
        a = f32[] parameter(0), sharding={WHOLE}
        ROOT r = f32[16] rng(a, a), distribution=rng_uniform, sharding={WHOLE}
        }}"
    );
    assert_snapshot!(lowered(&text), @"error: `r` draws from a device's own state: devices would disagree; in pass `spmd`");
    let text =
        format!("ENTRY e {{ a = f32[3,16] parameter(0), sharding={ROWS_X} ROOT b = f32[3,16] negate(a) }}");
    assert_snapshot!(lowered(&text), @"error: `a` is split unevenly: {devices=[2,1,4]<=[8] last_tile_dim_replicate} of [3, 16]; `b` has no layout; `b` needs operand 0 gathered along `x`; in pass `spmd`; `shard` gives every instruction a layout that can be lowered");
}

#[test]
fn a_dimension_too_small_for_both_its_axes_at_once_is_gathered_first() {
    let text = format!(
        "ENTRY e {{
        a = f32[4,16] parameter(0), sharding={ROWS_X}
        ROOT b = f32[4,16] custom-call(a), custom_call_target=\"Sharding\", sharding={ROWS_Y}
        }}"
    );
    let text = lowered(&text);
    assert!(text.contains("all-gather(a)") && text.contains("ROOT b = f32[1,16]"), "{text}");
}
