//! Whole programs for one device: their header, every reduction, and what is refused.

use super::{ROWS_X, WHOLE, XY, joined, lowered};
use crate::spmd::program;
use crate::testing::{check, staged};
use insta::assert_snapshot;
use phzc_plan::derive::derive;

#[test]
fn every_reduction_of_a_split_dimension_is_one_of_all_devices() {
    for (shape, op, start) in [
        ("f32", "add", "0"),
        ("s32", "multiply", "1"),
        ("f32", "maximum", "-inf"),
        ("s32", "minimum", "2147483647"),
        ("s32", "and", "-1"),
        ("s32", "or", "0"),
        ("s32", "xor", "0"),
    ] {
        let text = format!(
            "own {{ p = {shape}[] parameter(0) q = {shape}[] parameter(1) ROOT r = {shape}[] {op}(p, q) }}
            ENTRY e {{
            a = {shape}[16,4] parameter(0), sharding={ROWS_X}
            z = {shape}[] constant({start}), sharding={WHOLE}
            ROOT r = {shape}[4] reduce(a, z), dimensions={{0}}, to_apply=own, sharding={WHOLE}
            }}"
        );
        joined(&text);
        let reducer = format!("to_apply=spmd.{op}.{shape}");
        assert!(lowered(&text).contains(&reducer), "{}", lowered(&text));
    }
}

#[test]
fn a_computation_of_the_program_keeps_its_name() {
    let text = format!(
        "HloModule m, {XY}
        spmd.add.f32 {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
        ENTRY e {{
        a = f32[16] parameter(0), sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
        z = f32[] constant(0), sharding={WHOLE}
        ROOT r = f32[] reduce(a, z), dimensions={{0}}, to_apply=spmd.add.f32, sharding={WHOLE}
        }}"
    );
    let found = check("spmd", &text);
    assert!(found.contains("to_apply=spmd.add.f32.1,") && found.contains("spmd.add.f32.1 {"), "{found}");
}

#[test]
fn the_header_has_local_shapes_and_says_how_whole_values_lie() {
    let text = format!(
        "HloModule m, entry_computation_layout={{(f32[16,4]{{1,0}}, f32[])->(f32[16,4]{{1,0}}, f32[])}}, \
         allow_spmd_sharding_propagation_to_output={{true}}, num_partitions=8, {XY}
        ENTRY e {{
        a = f32[16,4]{{1,0}} parameter(0), sharding={ROWS_X}
        b = f32[] parameter(1), sharding={WHOLE}
        n = f32[16,4]{{1,0}} negate(a), sharding={ROWS_X}
        ROOT t = (f32[16,4]{{1,0}}, f32[]) tuple(n, b), sharding={{{ROWS_X}, {WHOLE}}}
        }}"
    );
    assert_snapshot!(check("spmd", &text), @r#"
    HloModule m, entry_computation_layout={(f32[8,4]{1,0}, f32[])->(f32[8,4]{1,0}, f32[])}, num_partitions=8, frontend_attributes={phzc.mesh="x=2,y=4",phzc.spmd="x=2,y=4"}

    ENTRY e {
      a = f32[8,4]{1,0} parameter(0), frontend_attributes={phzc.global="{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}
      b = f32[] parameter(1), frontend_attributes={phzc.global="{replicated}"}
      n = f32[8,4]{1,0} negate(a)
      ROOT t = (f32[8,4]{1,0}, f32[]) tuple(n, b), frontend_attributes={phzc.global="{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {replicated}"}
    }
    "#);
}

#[test]
fn what_means_something_else_on_one_device_is_refused() {
    let refused = |instr: &str| {
        lowered(&format!(
            "ENTRY e {{ a = f32[16] parameter(0), sharding={WHOLE} ROOT r = {instr}, sharding={WHOLE} }}"
        ))
    };
    let groups = "replica_groups={{0,1,2,3,4,5,6,7}}";
    for (instr, why) in [
        (format!("f32[128] all-gather(a), {groups}, dimensions={{0}}"), "communicates already"),
        (format!("f32[16] all-to-all(a), {groups}, dimensions={{0}}"), "communicates already"),
        ("f32[16] collective-permute(a), source_target_pairs={{0,1}}".to_owned(), "communicates already"),
        ("u32[] partition-id()".to_owned(), "asks for the device, of which the whole program has none"),
        ("u32[] replica-id()".to_owned(), "asks for the device, of which the whole program has none"),
    ] {
        let found = refused(&instr);
        assert!(found.contains(&format!("`r` {why}")), "{instr}: {found}");
    }
    let host = lowered(&format!(
        "ENTRY e {{ a = f32[16] parameter(0), sharding={WHOLE} k = token[] after-all(), sharding={WHOLE}
        ROOT r = token[] outfeed(a, k), outfeed_shape=f32[16], sharding={WHOLE} }}"
    ));
    assert!(host.contains("`r` exchanges data with the host, once for the whole program"), "{host}");
}

#[test]
fn what_is_refused_is_shown_where_it_stands() {
    let text = format!(
        "HloModule m, {XY}\nENTRY e {{ a = f32[16] parameter(0), sharding={WHOLE}
        ROOT r = u32[] partition-id(), sharding={WHOLE} }}"
    );
    let refused = |module: &phzc_ir::Module| {
        let facts = derive(module).expect("a legal header");
        program(module, &facts).expect_err("it asks for the device")
    };
    let mut module = phzc_ir::parse(&text).expect("legal");
    assert_eq!(refused(&module).span, Some(module.entry().root().span));
    let entry = module.entry.index();
    module.comps[entry].instrs.iter_mut().for_each(|instr| instr.span = phzc_ir::Span::default());
    assert_eq!(refused(&module).span, None);
}

#[test]
fn a_plan_of_several_stages_is_refused() {
    let module = staged("", "0:;1:", "{}", &[("ROOT a = f32[4] parameter(0)", "fwd", 0)]);
    let facts = derive(&module).expect("a legal header");
    let error = program(&module, &facts).expect_err("it has two");
    assert_eq!(error.message, "the plan has 2 stages, `spmd` lowers one");
}
