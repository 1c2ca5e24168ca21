//! Layouts in, communication out: one case per test.

mod aliases;
mod attention;
mod headers;
mod moving;
mod natures;
mod order;
mod partitioned;
mod regions;
mod steps;
mod work;

use super::*;
use crate::pricing::axes_of;
use insta::assert_snapshot;
use phzc_ir::layout::AXIS_NAMES;
use phzc_ir::parse;

const XY: &str = "frontend_attributes={phzc.mesh=\"x=2,y=4\"}";

/// Collectives and problems, one per line; `!` marks those that the plan does not mention.
fn facts(header: &str, text: &str) -> String {
    let module = parse(&format!("HloModule m, {header}\n{text}")).expect("legal");
    let facts = derive(&module).expect("a legal header");
    let mut lines = Vec::new();
    for comp in planned_comps(&module) {
        for (id, instr) in module.comp(comp).iter() {
            for step in &facts.comps[comp.index()][id.index()].steps {
                let axes: String = axes_of(step.axes).map(|axis| AXIS_NAMES[axis]).collect();
                let (mark, times) = (if step.is_implicit { "!" } else { "" }, facts.executions[comp.index()]);
                lines.push(format!(
                    "{mark}{}: {} over {axes}, {} bytes, {times} times",
                    instr.name, step.kind, step.bytes
                ));
            }
        }
    }
    lines.extend(facts.problems.iter().map(|problem| problem.message.clone()));
    lines.join("\n")
}

/// What is wrong about a plan, and about when its parts run; `ok` if nothing is.
fn untimely(header: &str, text: &str) -> String {
    let module = parse(&format!("HloModule m, {header}\n{text}")).expect("legal");
    let mut facts = match derive(&module) {
        Ok(facts) => facts,
        Err(error) => return format!("error: {error}"),
    };
    facts.problems.extend(super::order::problems(&module, &facts));
    let problems: Vec<&Problem> = facts.problems.iter().collect();
    listed(&module, &problems, phzc_ir::Diagnostic::error)
        .map_or("ok".to_owned(), |error| format!("error: {error}"))
}

/// A product of `f32[16,32]` and `f32[32,64]` with these layouts on the mesh `x=2,y=4`.
fn dot(a: &str, b: &str, out: &str) -> String {
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={a}
        b = f32[32,64] parameter(1), sharding={b}
        ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={out}
        }}"
    );
    facts(XY, &text)
}

const ROWS_X: &str = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
const ROWS_Y: &str = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
const COLS_X: &str = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}";
const COLS_Y: &str = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
const ROWS_XY: &str = "{devices=[8,1]<=[8]}";
const COLS_XY: &str = "{devices=[1,8]<=[8]}";
const X_Y: &str = "{devices=[2,4]<=[8]}";
const WHOLE: &str = "{replicated}";

#[test]
fn splits_of_passing_loops_are_free_and_whole_operands_are_sliced() {
    assert_eq!(dot(ROWS_X, COLS_Y, X_Y), "");
    assert_eq!(dot(WHOLE, COLS_Y, X_Y), "");
    assert_eq!(dot(WHOLE, WHOLE, WHOLE), "");
}

#[test]
fn a_split_sum_is_reduced_over_all_its_axes_at_once() {
    assert_eq!(dot(COLS_X, ROWS_X, WHOLE), "d: all-reduce over x, 4096 bytes, 1 times");
    assert_eq!(dot(COLS_XY, ROWS_XY, WHOLE), "d: all-reduce over xy, 4096 bytes, 1 times");
    assert_eq!(dot(X_Y, ROWS_Y, ROWS_X), "d: all-reduce over y, 2048 bytes, 1 times");
}

#[test]
fn an_operand_that_is_whole_along_a_sum_is_sliced() {
    assert_eq!(dot(COLS_X, WHOLE, WHOLE), "d: all-reduce over x, 4096 bytes, 1 times");
}

#[test]
fn a_sum_whose_result_is_split_is_scattered() {
    assert_eq!(dot(COLS_Y, ROWS_Y, ROWS_Y), "d: reduce-scatter over y, 4096 bytes, 1 times");
    assert_eq!(
        dot(COLS_XY, ROWS_XY, ROWS_X),
        "d: reduce-scatter over x, 4096 bytes, 1 times\nd: all-reduce over y, 2048 bytes, 1 times"
    );
}

#[test]
fn axes_that_scatter_along_one_dimension_scatter_at_once() {
    assert_eq!(dot(COLS_XY, ROWS_XY, ROWS_XY), "d: reduce-scatter over xy, 4096 bytes, 1 times");
    assert_eq!(
        dot(COLS_XY, ROWS_XY, X_Y),
        "d: reduce-scatter over x, 4096 bytes, 1 times\nd: reduce-scatter over y, 2048 bytes, 1 times"
    );
}

#[test]
fn an_operand_split_on_another_loop_is_gathered_or_moved_unsaid() {
    assert_snapshot!(dot(ROWS_X, WHOLE, WHOLE), @r"
    !d: all-gather over x, 2048 bytes, 1 times
    `d` needs operand 0 gathered along `x`
    ");
    assert_snapshot!(dot(ROWS_X, COLS_X, ROWS_X), @r"
    !d: all-gather over x, 8192 bytes, 1 times
    `d` needs operand 1 gathered along `x`
    ");
    let text = format!(
        "ENTRY e {{ a = f32[16,16] parameter(0), sharding={ROWS_X} ROOT n = f32[16,16] negate(a), sharding={COLS_X} }}"
    );
    assert_snapshot!(facts(XY, &text), @r"
    !n: all-to-all over x, 512 bytes, 1 times
    `n` needs operand 0 moved along `x`
    ");
}

#[test]
fn a_tile_must_lie_within_the_one_that_it_is_sliced_from() {
    let negate = |from: &str, to: &str| {
        facts(
            XY,
            &format!(
                "ENTRY e {{ a = f32[16,16] parameter(0), sharding={from} ROOT n = f32[16,16] negate(a), sharding={to} }}"
            ),
        )
    };
    assert_eq!(negate(ROWS_X, ROWS_XY), "");
    assert_snapshot!(negate(ROWS_Y, ROWS_XY), @r"
    !n: collective-permute over y, 256 bytes, 1 times
    `n` needs the tiles of operand 0 in another order: `y` is not the minor axis
    ");
    // Scattering over `x` leaves tiles in the order y, x.
    assert_snapshot!(dot(COLS_X, ROWS_X, ROWS_XY), @r"
    d: reduce-scatter over x, 1024 bytes, 1 times
    !d: collective-permute over y, 512 bytes, 1 times
    `d` needs the tiles of its result in another order: `y` is not the minor axis
    ");
}

#[test]
fn dimensions_that_have_to_be_whole_or_exchange_elements_cannot_be_split() {
    let op = |op: &str, from: &str, to: &str| {
        facts(
            XY,
            &format!(
                "ENTRY e {{ a = f32[16,16] parameter(0), sharding={from} ROOT r = {op}, sharding={to} }}"
            ),
        )
    };
    assert_snapshot!(op("f32[16,16] reverse(a), dimensions={0}", ROWS_X, ROWS_X), @r"
    !r: all-gather over x, 1024 bytes, 1 times
    `r` cannot work on operand 0 split on `x`: neighbours would have to exchange elements
    `r` cannot make its result split on `x`: neighbours would have to exchange elements
    ");
    assert_snapshot!(op("f32[32,16] concatenate(a, a), dimensions={0}", WHOLE, ROWS_X), @"`r` cannot make its result split on `x`: the dimension has to be whole");
    assert_eq!(op("f32[32,16] concatenate(a, a), dimensions={0}", COLS_X, COLS_X), "");
}

#[test]
fn a_merged_dimension_is_split_from_its_major_factor_on() {
    let reshape = |from: &str, to: &str, mesh: &str| {
        let header = format!("frontend_attributes={{phzc.mesh=\"{mesh}\"}}");
        facts(
            &header,
            &format!(
                "ENTRY e {{ a = f32[4,6] parameter(0), sharding={from} ROOT r = f32[24] reshape(a), sharding={to} }}"
            ),
        )
    };
    assert_eq!(reshape("{devices=[4,1]<=[4]}", "{devices=[4]<=[4]}", "x=4"), "");
    assert_eq!(reshape("{devices=[4,2]<=[8]}", "{devices=[8]<=[8]}", "x=4,y=2"), "");
    assert_snapshot!(reshape("{replicated}", "{devices=[8]<=[8]}", "x=8"), @"`r` cannot make its result split on `x`: the tiles do not follow the dimensions that are merged there");
    assert_snapshot!(reshape("{devices=[1,2]<=[2]}", "{replicated}", "x=2"), @r"
    !r: all-gather over x, 96 bytes, 1 times
    `r` needs operand 0 gathered along `x`
    ");
}

#[test]
fn a_reduction_of_a_split_dimension_is_an_all_reduce_and_a_look_up_in_split_rows_too() {
    let text = format!(
        "s {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }}
        ENTRY e {{
        a = f32[16,32] parameter(0), sharding={X_Y}
        z = f32[] constant(0), sharding={WHOLE}
        ROOT r = f32[16] reduce(a, z), dimensions={{1}}, to_apply=s, sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
        }}"
    );
    assert_eq!(facts(XY, &text), "r: all-reduce over y, 32 bytes, 1 times");
    let text = format!(
        "ENTRY e {{
        a = f32[16,32] parameter(0), sharding={ROWS_X}
        i = s32[8,1] parameter(1), sharding={WHOLE}
        ROOT g = f32[8,32] gather(a, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,32}}, sharding={WHOLE}
        }}"
    );
    assert_eq!(facts(XY, &text), "g: all-reduce over x, 1024 bytes, 1 times");
}

/// The steps of one explicit change of layout of `f32[16,16]`.
fn moved(mesh: &str, from: &str, to: &str) -> String {
    let header = format!("frontend_attributes={{phzc.mesh=\"{mesh}\"}}");
    let text = "ENTRY e { a = f32[16,16] parameter(0), sharding=FROM ROOT m = f32[16,16] custom-call(a), custom_call_target=\"Sharding\", sharding=TO }";
    facts(&header, &text.replace("FROM", from).replace("TO", to)).replace(", 1 times", "").replace("m: ", "")
}

#[test]
fn explicit_changes_of_layout_are_named_by_what_they_do() {
    let xy = |from, to| moved("x=2,y=4", from, to);
    assert_eq!(xy(X_Y, X_Y), "");
    assert_eq!(xy(WHOLE, X_Y), "");
    assert_eq!(xy(ROWS_X, WHOLE), "all-gather over x, 1024 bytes");
    assert_eq!(xy(ROWS_XY, WHOLE), "all-gather over xy, 1024 bytes");
    assert_eq!(xy(ROWS_XY, ROWS_X), "all-gather over y, 512 bytes");
    assert_eq!(xy(ROWS_X, COLS_X), "all-to-all over x, 512 bytes");
    assert_eq!(xy(X_Y, COLS_Y), "all-gather over x, 256 bytes");
    assert_eq!(xy(X_Y, WHOLE), "all-gather over x, 256 bytes\nall-gather over y, 1024 bytes");
}

#[test]
fn axes_of_equal_size_change_places_by_a_permute() {
    let square = |from, to| moved("x=2,y=2", from, to);
    let (rows_x, rows_y) = (
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    );
    assert_eq!(square(rows_x, rows_y), "collective-permute over xy, 512 bytes");
    assert_eq!(
        square("{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        "collective-permute over xy, 256 bytes"
    );
}

#[test]
fn only_the_minor_axis_of_a_dimension_can_be_gathered_or_added_alone() {
    let xy = |from, to| moved("x=2,y=4", from, to);
    assert_eq!(xy(ROWS_XY, ROWS_Y), "collective-permute over xy, 128 bytes\nall-gather over x, 256 bytes");
    assert_eq!(xy(ROWS_Y, ROWS_XY), "collective-permute over xy, 128 bytes");
    assert_eq!(xy(ROWS_X, ROWS_XY), "");
}

#[test]
fn combined_changes_slice_first_and_gather_last() {
    let three = |from, to| moved("x=2,y=2,z=2", from, to);
    let (rows_x, cols_z) = (
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
    );
    assert_eq!(three(rows_x, cols_z), "all-gather over x, 512 bytes");
    let from = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}";
    let to = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
    assert_snapshot!(three(from, to), @r"
    all-to-all over y, 128 bytes
    collective-permute over yz, 128 bytes
    all-gather over x, 256 bytes
    ");
}

#[test]
fn layouts_that_are_missing_uneven_or_of_no_mesh_are_named() {
    let text = "ENTRY e {
        a = f32[3,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
        b = f32[3,16] negate(a)
        ROOT c = f32[3,16] negate(b), sharding={devices=[1,8]7,6,5,4,3,2,1,0}
        }";
    assert_snapshot!(facts(XY, text), @r"
    !b: all-gather over x, 256 bytes, 1 times
    `a` is split unevenly: {devices=[2,1,4]<=[8] last_tile_dim_replicate} of [3, 16]
    `b` has no layout
    `b` needs operand 0 gathered along `x`
    `c` has the layout {devices=[1,8]7,6,5,4,3,2,1,0}, which is not one of the mesh `x=2,y=4`
    ");
}

#[test]
fn sums_over_axes_that_cannot_be_are_named() {
    let note = |axes: &str| format!("frontend_attributes={{phzc.partial=\"{axes}\"}}");
    let text = format!(
        "ENTRY e {{
        a = f32[16,16] parameter(0), sharding={ROWS_X}
        b = f32[16,16] negate(a), sharding={ROWS_X}, {}
        c = f32[16,16] negate(a), sharding={ROWS_X}, {}
        d = f32[16,16] negate(a), sharding={ROWS_X}, {}
        ROOT e = f32[16,16] negate(a), sharding={ROWS_X}, {}
        }}",
        note("x"),
        note("z"),
        note("v"),
        note("y,")
    );
    assert_snapshot!(facts(XY, &text), @r"
    `b` is partial over axes that split it or are none
    `c` is partial over axes that split it or are none
    `d` is partial over `v`, which is no list of axes per leaf
    `e` is partial over `y,`, which is no list of axes per leaf
    ");
}

#[test]
fn a_value_from_a_stage_on_another_mesh_lands_as_its_reader_wants_it() {
    let header = "frontend_attributes={phzc.stages=\"0:x=4;1:x=2,y=2\"}";
    let text = "ENTRY e {
        a = f32[16,16] parameter(0), sharding={devices=[4,1]<=[4]}, frontend_attributes={phzc.stage=\"0\"}
        b = f32[16,16] negate(a), sharding={devices=[2,2]<=[4]}, frontend_attributes={phzc.stage=\"1\"}
        ROOT t = (f32[16,16], f32[16,16]) tuple(a, b), sharding={{devices=[4,1]<=[4]}, {devices=[2,2]<=[4]}}
        }";
    assert_eq!(facts(header, text), "");
}

#[test]
fn tiles_change_places_only_along_axes_that_are_no_more_major_than_what_leaves() {
    let text = "ENTRY e {
        a = f32[16,16] parameter(0), sharding={devices=[8,1]<=[8]}
        ROOT b = f32[16,16] custom-call(a), custom_call_target=\"Sharding\", sharding={devices=[4,2]<=[2,2,2]T(0,2,1)}
        }";
    assert_snapshot!(facts("frontend_attributes={phzc.mesh=\"x=2,y=2,z=2\"}", text), @r"
    b: collective-permute over yz, 128 bytes, 1 times
    b: all-to-all over y, 128 bytes, 1 times
    ");
}

#[test]
fn one_device_splits_its_share_of_the_work() {
    let module = parse(&format!(
        "HloModule m, {XY}
        ENTRY e {{ a = f32[16,32] parameter(0), sharding={X_Y} b = f32[32,64] parameter(1), sharding={ROWS_Y}
        ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={ROWS_X} }}"
    ))
    .expect("legal");
    let facts = derive(&module).expect("a legal header");
    let dot = &facts.comps[0][2];
    assert_eq!((dot.axes, dot.work.flops), (0b11, 2.0 * 16.0 * 32.0 * 64.0 / 8.0));
    // An eighth of a, a quarter of b, the partial rows of the result.
    assert_eq!(dot.work.bytes, 4.0 * (16.0 * 32.0 / 8.0 + 32.0 * 64.0 / 4.0 + 8.0 * 64.0));
}
