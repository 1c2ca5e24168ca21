//! `spmd` on small programs: what it writes, and what it refuses.

mod compare;
mod layouts;
mod property;
mod random;

use crate::testing::check;
use insta::assert_snapshot;

const XY: &str = "frontend_attributes={phzc.mesh=\"x=2,y=4\"}";

/// The body of the entry that one device runs.
fn lowered(text: &str) -> String {
    let whole = check("spmd", &format!("HloModule m, num_partitions=8, {XY}\n{text}"));
    match whole.split_once("ENTRY") {
        Some((_, entry)) => {
            entry.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
        }
        None => whole,
    }
}

#[test]
fn a_split_loop_that_sums_is_an_all_reduce() {
    assert_snapshot!(lowered("ENTRY e {
        a = f32[16,32] parameter(0), sharding={devices=[2,4]<=[8]}
        b = f32[32,64] parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
        ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
        }"), @"");
}

#[test]
fn moves() {
    assert_snapshot!(lowered("ENTRY e {
        a = f32[16,32] parameter(0), sharding={devices=[2,4]<=[8]}
        g = f32[16,32] custom-call(a), custom_call_target=\"Sharding\", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
        s = f32[16,32] custom-call(g), custom_call_target=\"Sharding\", sharding={devices=[8,1]<=[8]}
        ROOT t = f32[16,32] custom-call(s), custom_call_target=\"Sharding\", sharding={devices=[2,4]<=[8]}
        }"), @"");
}

#[test]
fn scatters() {
    assert_snapshot!(lowered("ENTRY e {
        a = f32[16,32] parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
        b = f32[32,64] parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
        d = f32[16,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
        s = f32[16,64] custom-call(d), custom_call_target=\"Sharding\", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
        ROOT t = f32[16,64] custom-call(s), custom_call_target=\"Sharding\", sharding={devices=[8,1]<=[8]}
        }"), @"");
}
