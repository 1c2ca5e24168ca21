//! Small programs with the layouts and collectives that XLA's partitioner gives them.

use super::*;
use phzc_plan::derive::derive;

/// The shardings of a completed program, by name, and its collectives: kind and bytes on one device.
fn completed(text: &str) -> (Vec<String>, Vec<String>) {
    let module = complete(&phzc_ir::parse(text).expect("legal"), 8).expect("readable");
    assert!(phzc_ir::verify(&module).is_empty());
    let instrs = module.entry().instrs.iter();
    let shardings = instrs.map(|it| format!("{} {}", it.name, it.sharding().expect("written")));
    let facts = derive(&module).expect("legal");
    let steps = facts.comps[module.entry.index()].iter().flat_map(|it| &it.steps);
    (shardings.collect(), steps.map(|step| format!("{} {}", step.kind.as_str(), step.bytes)).collect())
}

const ROWS: &str = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
const COLUMNS: &str = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
const MODEL_ROWS: &str = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";

#[test]
fn megatron_s_two_weights_split_what_is_between_them() {
    let (shardings, steps) = completed(&format!(
        "e {{
          x = f32[64,32] parameter(0), sharding={ROWS}
          v = f32[32,64] parameter(1), sharding={COLUMNS}
          w = f32[64,32] parameter(2), sharding={MODEL_ROWS}
          h = f32[64,64] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          t = f32[64,64] tanh(h)
          y = f32[64,32] dot(t, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          ROOT r = f32[64,32] negate(y), sharding={ROWS}
        }}"
    ));
    let both = "{devices=[2,4]<=[8]}";
    assert_eq!(shardings[3..6], [format!("h {both}"), format!("t {both}"), format!("y {ROWS}")]);
    assert_eq!(steps, ["all-reduce 4096"]);
}

#[test]
fn results_that_nobody_shards_are_gathered_the_last_dimension_first() {
    let (shardings, steps) = completed(
        "e {
          a = f32[64,32] parameter(0), sharding={devices=[2,4]<=[8]}
          b = f32[64,32] tanh(a)
          ROOT r = (f32[64,32]) tuple(b)
        }",
    );
    assert_eq!(shardings.last().map(String::as_str), Some("r {{replicated}}"));
    assert_eq!(steps, ["all-gather 4096", "all-gather 8192"]);
}

#[test]
fn a_loop_carries_what_its_first_value_has() {
    let (shardings, steps) = completed(
        "b { p = (s32[], f32[64]) parameter(0)
           i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) n = s32[] add(i, one)
           x = f32[64] get-tuple-element(p), index=1 y = f32[64] tanh(x)
           ROOT t = (s32[], f32[64]) tuple(n, y) }
        c { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
           three = s32[] constant(3) ROOT l = pred[] compare(i, three), direction=LT }
        ENTRY e {
          a = f32[64] parameter(0), sharding={devices=[8]<=[8]}
          zero = s32[] constant(0)
          first = (s32[], f32[64]) tuple(zero, a)
          w = (s32[], f32[64]) while(first), condition=c, body=b
          x = f32[64] get-tuple-element(w), index=1
          ROOT r = f32[64] negate(x), sharding={devices=[8]<=[8]}
        }",
    );
    assert_eq!(shardings[4], "x {devices=[8]<=[8]}");
    assert_eq!(steps, [""; 0]);
}

#[test]
fn what_is_given_stays() {
    let (shardings, steps) = completed(
        "s { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
        ENTRY e {
          a = f32[64,8] parameter(0), sharding={devices=[8,1]<=[8]}
          b = f32[64,8] parameter(1), sharding={replicated}
          c = f32[64,8] add(a, b)
          z = f32[] constant(0)
          ROOT d = f32[8] reduce(c, z), dimensions={0}, to_apply=s
        }",
    );
    assert_eq!(shardings[1], "b {replicated}");
    assert!(shardings.contains(&"c {devices=[8,1]<=[8]}".to_owned()), "{shardings:?}");
    assert_eq!(steps, ["all-reduce 32"]);
}

#[test]
fn two_key_heads_are_split_by_half_of_an_axis_of_four() {
    let (shardings, steps) = completed(&format!(
        "e {{
          k = f32[64,32] parameter(0), sharding={COLUMNS}
          h = f32[64,2,16] reshape(k)
          g = f32[64,2,2,16] broadcast(h), dimensions={{0,1,3}}
          q = f32[64,4,16] reshape(g)
          ROOT r = f32[64,4,16] negate(q), sharding={{devices=[1,4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}}
        }}"
    ));
    assert_eq!(shardings[1], "h {devices=[1,2,2,2]<=[2,2,2]T(1,2,0) last_tile_dim_replicate}");
    assert_eq!(steps, ["all-gather 4096"]);
}

#[test]
fn a_product_gathers_what_its_result_is_not_split_along_once_per_group() {
    let dot = |name: &str, weight: &str| {
        format!(
            "{name} = f32[64,64] dot(x, {weight}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, \
             sharding={{devices=[2,4]<=[8]}}\n"
        )
    };
    let (_, steps) = completed(&format!(
        "e {{
          x = f32[64,32] parameter(0), sharding={{devices=[2,4]<=[8]}}
          v = f32[32,64] parameter(1), sharding={COLUMNS}
          w = f32[32,64] parameter(2), sharding={COLUMNS}
          {}{}
          s = f32[64,64] add(a, b)
          g = f32[32,64] dot(x, s), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, sharding={COLUMNS}
          ROOT r = (f32[64,64], f32[32,64]) tuple(s, g), sharding={{{{devices=[2,4]<=[8]}}, {COLUMNS}}}
        }}",
        dot("a", "v"),
        dot("b", "w")
    ));
    // `a` and `b` share one; `g` is cut by the axis itself and gathers for itself.
    assert_eq!(steps, ["all-gather 4096", "all-gather 4096", "all-reduce 2048"]);
}

#[test]
fn an_idle_axis_takes_over_the_loop_that_another_leaves() {
    let (_, steps) = completed(&format!(
        "e {{
          x = f32[64,128] parameter(0), sharding={ROWS}
          w = f32[128,128] parameter(1), sharding={ROWS}
          y = f32[64,128] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          ROOT r = f32[64,128] negate(y), sharding={ROWS}
        }}"
    ));
    // Not the whole weight is gathered: a quarter of it changes places, and the smaller result is summed up.
    assert_eq!(steps, ["collective-permute 16384", "all-reduce 16384"]);
}

#[test]
fn constants_are_shared_by_gspmd_and_each_reader_s_own_in_shardy() {
    let program = |header: &str| {
        format!(
            "HloModule m{header}
            e {{
              x = f32[64,32] parameter(0), sharding={{devices=[8,1]<=[8]}}
              y = f32[64,32] parameter(1), sharding={{replicated}}
              one = f32[] constant(1)
              ones = f32[64,32] broadcast(one), dimensions={{}}
              a = f32[64,32] add(x, ones)
              b = f32[64,32] add(y, ones)
              ROOT r = (f32[64,32], f32[64,32]) tuple(a, b), \
                sharding={{{{devices=[8,1]<=[8]}}, {{replicated}}}}
            }}"
        )
    };
    assert_eq!(completed(&program("")).1, ["all-gather 8192"]);
    let shardy = ", frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"a\"=8]>}}";
    assert_eq!(completed(&program(shardy)).1, [""; 0]);
}
