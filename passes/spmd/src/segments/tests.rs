//! Segments of small planned programs.

use super::segments;
use crate::spmd::program;
use insta::assert_snapshot;
use phzc_cost::Cluster;
use phzc_ir::{parse, print};
use phzc_plan::derive::derive;

const MESH: &str = "HloModule m, num_partitions=8, frontend_attributes={phzc.mesh=\"x=2,y=4\"}\n";
const ROWS: &str = "{devices=[8,1]<=[8]}";

/// The programs of a planned program's segments, each with how often it runs and its kernels.
fn cut(text: &str) -> String {
    let module = parse(&format!("{MESH}{text}")).expect("legal");
    let facts = derive(&module).expect("a legal header");
    let device = program(&module, &facts).expect("one stage");
    let facts = derive(&device).expect("a legal header");
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let found = segments(&device, &facts, &cluster);
    let shown = found.iter().map(|(text, segment)| {
        assert_eq!(phzc_ir::verify(&segment.program), [], "{text}");
        assert_eq!(print(&parse(text).expect("legal")), *text);
        let kernels = segment.kernels.iter().map(|(key, (_, n))| format!("// {n} of {key}\n"));
        format!("// {} times\n{}{text}", segment.times, kernels.collect::<String>())
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_program_is_cut_at_its_collectives_and_what_is_in_registers_is_made_on_both_sides() {
    let text = format!(
        "ENTRY e {{
        x = f32[16,32] parameter(0), sharding={ROWS}
        w = f32[32,32] parameter(1), sharding={{replicated}}
        s = f32[16,32] tanh(x), sharding={ROWS}
        d = f32[16,32] dot(s, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={ROWS}
        g = f32[16,32] custom-call(d), custom_call_target=\"Sharding\", sharding={{replicated}}, frontend_attributes={{phzc.move=\"all-gather\"}}
        ROOT r = f32[16,32] negate(g), sharding={{replicated}}
        }}"
    );
    assert_snapshot!(cut(&text));
}

#[test]
fn equal_layers_have_one_segment_that_runs_for_all_of_them() {
    let layer = |n: usize, of: &str| {
        format!(
            "d{n} = f32[16,16] dot({of}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={ROWS}
             g{n} = f32[16,16] custom-call(d{n}), custom_call_target=\"Sharding\", sharding={{replicated}}, frontend_attributes={{phzc.move=\"all-gather\"}}
             s{n} = f32[16,16] custom-call(g{n}), custom_call_target=\"Sharding\", sharding={ROWS}, frontend_attributes={{phzc.move=\"slice\"}}\n"
        )
    };
    let text = format!(
        "ENTRY e {{
        x = f32[16,16] parameter(0), sharding={ROWS}
        w = f32[16,16] parameter(1), sharding={{replicated}}
        {}{}ROOT r = f32[16,16] negate(s3), sharding={ROWS}
        }}",
        layer(1, "x"),
        layer(2, "s1") + &layer(3, "s2")
    );
    let shown = cut(&text);
    assert!(shown.contains("// 2 times"), "{shown}");
    assert_eq!(shown.matches("ENTRY").count(), 3, "{shown}");
}

#[test]
fn a_program_without_collectives_is_one_segment() {
    let text = format!(
        "ENTRY e {{
        x = f32[16,32] parameter(0), sharding={ROWS}
        s = f32[16,32] tanh(x), sharding={ROWS}
        ROOT r = f32[16,32] negate(s), sharding={ROWS}
        }}"
    );
    let shown = cut(&text);
    assert!(shown.starts_with("// 1 times") && shown.matches("ENTRY").count() == 1, "{shown}");
}
