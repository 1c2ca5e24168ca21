//! Small partitioned programs, and what they were before.

mod property;

use crate::testing::check;
use insta::assert_snapshot;

const HEAD: &str = "HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
";
const ALL: &str = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true";
const PAIRS: &str = "channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true";

/// The entry of the whole program, or why it is not recovered.
fn recovered(entry: &str) -> String {
    let text = check("unpartition", &format!("{HEAD}ENTRY e {{ {entry} }}"));
    let Some((_, entry)) = text.split_once("ENTRY") else { return text };
    entry.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn gathered_weights_and_split_rows_are_a_product_of_whole_arrays() {
    let text = format!(
        "x = f32[8,16] parameter(0), sharding={{devices=[4,1]<=[4]}}
        w = f32[4,64] parameter(1), sharding={{devices=[4,1]<=[4]}}
        g = f32[16,64] all-gather(w), dimensions={{0}}, {ALL}
        ROOT d = f32[8,64] dot(x, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    );
    assert_snapshot!(recovered(&text), @"
    x = f32[32,16] parameter(0)
    w = f32[16,64] parameter(1)
    ROOT d = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

#[test]
fn summands_are_added_up_where_they_are_made() {
    let text = format!(
        "x = f32[8,4] parameter(0), sharding={{devices=[1,4]<=[4]}}
        w = f32[4,64] parameter(1), sharding={{devices=[4,1]<=[4]}}
        d = f32[8,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        ROOT r = f32[2,64] reduce-scatter(d), dimensions={{0}}, to_apply=add, {ALL}"
    );
    assert_snapshot!(recovered(&text), @"
    x = f32[8,16] parameter(0)
    w = f32[16,64] parameter(1)
    ROOT d = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

#[test]
fn what_the_text_does_not_say_follows_from_readers() {
    let text = format!(
        "x = f32[8,4] parameter(0)
        w = f32[4,64] parameter(1)
        b = f32[2,64] parameter(2)
        d = f32[8,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        r = f32[8,64] all-reduce(d), to_apply=add, {ALL}
        g = f32[8,64] all-gather(b), dimensions={{0}}, {ALL}
        ROOT s = f32[8,64] add(r, g)"
    );
    assert_snapshot!(recovered(&text), @"
    x = f32[8,16] parameter(0)
    w = f32[16,64] parameter(1)
    b = f32[8,64] parameter(2)
    d = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT s = f32[8,64] add(d, b)
    ");
}

#[test]
fn an_exchange_is_no_change_of_the_whole_array() {
    let text = "x = f32[2,16] parameter(0), sharding={devices=[4,1]<=[4]}
        r = f32[2,4,4] reshape(x)
        a = f32[2,4,4] all-to-all(r), dimensions={1}, channel_id=1, replica_groups={{0,1,2,3}}
        t = f32[4,2,4] transpose(a), dimensions={1,0,2}
        ROOT y = f32[8,4] reshape(t)";
    assert_snapshot!(recovered(text), @"ROOT x = f32[8,16] parameter(0)");
}

#[test]
fn a_slice_of_the_device_s_tile_is_the_array_itself() {
    let text = "x = f32[8,16] parameter(0), sharding={replicated}
        p = u32[] partition-id()
        t = s32[4] constant({0, 2, 4, 6})
        o = s32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}
        s = s32[] reshape(o)
        z = s32[] constant(0)
        d = f32[2,16] dynamic-slice(x, s, z), dynamic_slice_sizes={2,16}
        ROOT n = f32[2,16] negate(d)";
    assert_snapshot!(recovered(text), @"
    x = f32[8,16] parameter(0)
    ROOT n = f32[8,16] negate(x)
    ");
}

#[test]
fn look_ups_in_a_device_s_rows_are_look_ups_in_all() {
    let text = format!(
        "t = f32[4,8] parameter(0), sharding={{devices=[4,1]<=[4]}}
        i = s32[6] parameter(1), sharding={{replicated}}
        p = u32[] partition-id()
        c = s32[] convert(p)
        four = s32[] constant(4)
        m = s32[] multiply(c, four)
        b = s32[6] broadcast(m), dimensions={{}}
        j = s32[6] subtract(i, b)
        zero = s32[] constant(0)
        z = s32[6] broadcast(zero), dimensions={{}}
        f = s32[6] broadcast(four), dimensions={{}}
        ge = pred[6] compare(j, z), direction=GE
        lt = pred[6] compare(j, f), direction=LT
        in = pred[6] and(ge, lt)
        g = f32[6,8] gather(t, j), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}
        mask = pred[6,8] broadcast(in), dimensions={{0}}
        nought = f32[] constant(0)
        n = f32[6,8] broadcast(nought), dimensions={{}}
        s = f32[6,8] select(mask, g, n)
        ROOT r = f32[6,8] all-reduce(s), to_apply=add, {ALL}"
    );
    assert_snapshot!(recovered(&text), @"
    t = f32[16,8] parameter(0)
    i = s32[6] parameter(1)
    ROOT g.gather = f32[6,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
    ");
}

#[test]
fn counting_from_the_device_s_tile_is_counting_through() {
    let text = "x = s32[4] parameter(0), sharding={devices=[4]<=[4]}
        i = s32[4] iota(), iota_dimension=0
        p = u32[] partition-id()
        c = s32[] convert(p)
        four = s32[] constant(4)
        m = s32[] multiply(c, four)
        b = s32[4] broadcast(m), dimensions={}
        j = s32[4] add(i, b)
        ROOT s = s32[4] multiply(x, j)";
    assert_snapshot!(recovered(text), @"
    x = s32[16] parameter(0)
    j = s32[16] iota(), iota_dimension=0
    ROOT s = s32[16] multiply(x, j)
    ");
}

#[test]
fn zeros_that_a_loop_fills_with_tiles_are_split_like_them() {
    let text = "HloModule m, num_partitions=2
        body { p = (s32[], f32[3,4], f32[4]) parameter(0)
          i = s32[] get-tuple-element(p), index=0
          one = s32[] constant(1)
          j = s32[] add(i, one)
          s = f32[3,4] get-tuple-element(p), index=1
          x = f32[4] get-tuple-element(p), index=2
          r = f32[1,4] reshape(x)
          zero = s32[] constant(0)
          u = f32[3,4] dynamic-update-slice(s, r, i, zero)
          ROOT t = (s32[], f32[3,4], f32[4]) tuple(j, u, x) }
        cond { p = (s32[], f32[3,4], f32[4]) parameter(0)
          i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(3)
          ROOT c = pred[] compare(i, n), direction=LT }
        ENTRY e {
          x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
          g = f32[8] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
          zero = f32[] constant(0)
          z = f32[3,4] broadcast(zero), dimensions={}
          i = s32[] constant(0)
          t = (s32[], f32[3,4], f32[4]) tuple(i, z, x)
          w = (s32[], f32[3,4], f32[4]) while(t), condition=cond, body=body
          ROOT s = f32[3,4] get-tuple-element(w), index=1 }";
    assert_snapshot!(check("unpartition", text), @"
    HloModule m

    body {
      p = (s32[], f32[3,8], f32[8]) parameter(0)
      p.get-tuple-element = s32[] get-tuple-element(p), index=0
      p.get-tuple-element1 = f32[3,8] get-tuple-element(p), index=1
      p.get-tuple-element2 = f32[8] get-tuple-element(p), index=2
      one = s32[] constant(1)
      j = s32[] add(p.get-tuple-element, one)
      zero = s32[] constant(0)
      u.reshape = f32[1,8] reshape(p.get-tuple-element2)
      u = f32[3,8] dynamic-update-slice(p.get-tuple-element1, u.reshape, p.get-tuple-element, zero)
      ROOT t = (s32[], f32[3,8], f32[8]) tuple(j, u, p.get-tuple-element2)
    }

    cond {
      p = (s32[], f32[3,8], f32[8]) parameter(0)
      p.get-tuple-element = s32[] get-tuple-element(p), index=0
      n = s32[] constant(3)
      ROOT c = pred[] compare(p.get-tuple-element, n), direction=LT
    }

    ENTRY e {
      x = f32[8] parameter(0)
      zero = f32[] constant(0)
      i = s32[] constant(0)
      w.broadcast = f32[3,8] broadcast(zero), dimensions={}
      w.tuple = (s32[], f32[3,8], f32[8]) tuple(i, w.broadcast, x)
      w.while = (s32[], f32[3,8], f32[8]) while(w.tuple), condition=cond, body=body
      ROOT w.get-tuple-element1 = f32[3,8] get-tuple-element(w.while), index=1
    }
    ");
}

#[test]
fn what_cannot_be_folded_is_named() {
    let shift = "x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
        ROOT y = f32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3}}";
    assert_snapshot!(recovered(shift), @"error: the whole program is not recovered: 1 instruction cannot be folded; `y` sends to some devices only, as a halo or a shift does; in pass `unpartition`; without `--unpartition` it is priced as it stands");
    let twice = format!(
        "x = f32[8] parameter(0), sharding={{replicated}}
        r = f32[8] all-reduce(x), to_apply=add, {PAIRS}
        ROOT y = f32[8] negate(r)"
    );
    assert_snapshot!(recovered(&twice), @"error: the whole program is not recovered: 1 instruction cannot be folded; `r` adds up what each of its devices has already; in pass `unpartition`; without `--unpartition` it is priced as it stands");
    let diagonal = format!(
        "x = f32[8,2] parameter(0), sharding={{devices=[4,1]<=[4]}}
        g = f32[32,2] all-gather(x), dimensions={{0}}, {ALL}
        ROOT y = f32[8,8] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
    );
    assert_snapshot!(recovered(&diagonal), @"error: the whole program is not recovered: 1 instruction cannot be folded; `y` is made of tiles of two dimensions on the same devices: the others are missing; in pass `unpartition`; without `--unpartition` it is priced as it stands");
    let unsummed = format!(
        "x = f32[8,2] parameter(0), sharding={{devices=[1,4]<=[4]}}
        g = f32[8,8] all-gather(x), dimensions={{1}}, {ALL}
        ROOT y = f32[8,8] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
    );
    assert_snapshot!(recovered(&unsummed), @"error: the whole program is not recovered: 1 instruction cannot be folded; `y` result 0 is one device's share of a sum that nothing adds up; in pass `unpartition`; without `--unpartition` it is priced as it stands");
    assert_snapshot!(recovered("x = f32[8] parameter(0), sharding={replicated} ROOT p = u32[] partition-id()"), @"error: the whole program is not recovered: 1 instruction cannot be folded; `p` reads `p`, which differs from device to device; in pass `unpartition`; without `--unpartition` it is priced as it stands");
}

#[test]
fn branches_do_not_read_shares_of_sums() {
    let branches = "f { p = f32[8] parameter(0) ROOT e = f32[8] exponential(p) }
        g { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }";
    let text = format!(
        "{HEAD}{branches} ENTRY e {{
        x = f32[8,2] parameter(0), sharding={{devices=[1,4]<=[4]}}
        zero = f32[] constant(0)
        s = f32[8] reduce(x, zero), dimensions={{1}}, to_apply=add
        i = s32[] parameter(1), sharding={{replicated}}
        c = f32[8] conditional(i, s, s), branch_computations={{f, g}}
        ROOT r = f32[8] all-reduce(c), to_apply=add, {ALL} }}"
    );
    assert_snapshot!(check("unpartition", &text), @"error: the whole program is not recovered: 1 instruction cannot be folded; `c` reads what is one device's share of a sum that nothing adds up; in pass `unpartition`; without `--unpartition` it is priced as it stands");
}
