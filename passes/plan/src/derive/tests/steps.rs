//! What one op with these layouts leaves to do, and which layouts are read as those of a mesh.

use super::split::{Split, splits};
use super::*;
use crate::testing::staged;
use phzc_ir::{FactorKind, Layout, Mesh, Rule, View};

/// What is wrong where a reduction of `f32[16,32]`, which `x` splits along its second dimension, is said to
/// leave sums undone.
fn undone(op: &str, result: Layout, left: AxisMask) -> String {
    let text = format!(
        "own {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {op}(p, q) }}
        ENTRY e {{ a = f32[16,32] parameter(0) z = f32[] constant(0)
        ROOT s = f32[16] reduce(a, z), dimensions={{1}}, to_apply=own }}"
    );
    let module = parse(&text).expect("legal");
    let view = View::new(&module, module.entry, module.entry().root);
    let operands = [Some(Layout::REPLICATED.with(0, Some(1))), Some(Layout::REPLICATED)];
    let found = loops(&(view.instr.op.def().rule)(&view), &operands, (&[result], left), &Mesh::new(&[2, 4]));
    let steps = found.steps.iter().map(|step| format!("{} {:02b}", step.kind, step.axes));
    steps.chain(found.problems).collect::<Vec<_>>().join("; ")
}

#[test]
fn only_a_sum_over_an_axis_that_is_not_scattered_can_be_left_undone() {
    let (whole, rows) = (Layout::REPLICATED, Layout::REPLICATED.with(0, Some(0)));
    let nothing = |axis: &str| format!("is said to be partial over `{axis}`, along which it sums nothing up");
    assert_eq!([undone("add", whole, 0), undone("add", whole, 0b01)], ["all-reduce 01", ""]);
    assert_eq!(undone("add", whole, 0b11), nothing("y"));
    assert_eq!(undone("add", rows, 0b01), format!("reduce-scatter 01; {}", nothing("x")));
    assert_eq!(undone("maximum", whole, 0b01), nothing("x"));
}

#[test]
fn the_third_axis_of_a_merged_dimension_is_on_the_second_factor_where_two_cover_the_first() {
    let text = "ENTRY e { a = f32[4,6] parameter(0), sharding={devices=[4,3]<=[12]}
        ROOT r = f32[24] reshape(a), sharding={devices=[12]<=[12]} }";
    assert_eq!(facts("frontend_attributes={phzc.mesh=\"x=2,y=2,z=3\"}", text), "");
}

#[test]
fn a_movement_that_does_a_sum_stays_what_it_says_whoever_reads_it() {
    let undone = "frontend_attributes={phzc.partial=\"x\"}";
    let moved = "custom_call_target=\"Sharding\"";
    let text = format!(
        "ENTRY e {{ a = f32[16,32] parameter(0), sharding={COLS_X}
        b = f32[32,64] parameter(1), sharding={ROWS_X}
        d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={WHOLE}, {undone}
        m = f32[16,64] custom-call(d), {moved}, sharding={WHOLE}
        ROOT s = f32[16,64] custom-call(m), {moved}, sharding={ROWS_X} }}"
    );
    assert_eq!(facts(XY, &text), "m: all-reduce over x, 4096 bytes, 1 times");
}

#[test]
fn one_tiling_means_something_else_for_another_rank_and_in_another_stage() {
    let text = format!(
        "ENTRY e {{ a = f32[16,16] parameter(0), sharding={X_Y}
        z = f32[] constant(0), sharding={WHOLE}
        ROOT b = f32[16] broadcast(z), dimensions={{}}, sharding={X_Y} }}"
    );
    assert_eq!(
        facts(XY, &text),
        "`b` has the layout {devices=[2,4]<=[8]}, which is not one of the mesh `x=2,y=4`"
    );
    let tiled = "f32[16,16] parameter(0), sharding={devices=[2,2]<=[4]}";
    let module = staged(
        "",
        "0:x=2,y=2;1:x=4",
        "{}",
        &[
            (&format!("a = {tiled}"), "fwd", 0),
            (&format!("ROOT b = {}", tiled.replace("(0)", "(1)")), "fwd", 1),
        ],
    );
    let problems = derive(&module).expect("a legal header").problems;
    let messages: Vec<&str> = problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(messages, ["`b` has the layout {devices=[2,2]<=[4]}, which is not one of the mesh `x=4`"]);
}

#[test]
fn what_has_no_layout_is_in_its_stage_all_the_same() {
    let stages = |stages: &str, plan: &str| {
        let notes = format!("phzc.stages=\"{stages}\",phzc.plan=\"{}\"", plan.replace('"', "\\\""));
        let text = format!(
            "HloModule m, frontend_attributes={{{notes}}}
            ENTRY e {{ a = f32[4] parameter(0)
            ROOT b = f32[4] negate(a), frontend_attributes={{phzc.stage=\"1\"}} }}"
        );
        let facts = derive(&parse(&text).expect("legal")).expect("a legal header");
        (facts.comps[0].iter().map(|own| own.leaves[0].stage).collect::<Vec<_>>(), facts.problems.len())
    };
    assert_eq!(stages("0:;1:", r#"{"schedule":"interleaved:2"}"#), (vec![0, 1], 0));
    assert_eq!(stages("0:x=2;1:x=2", "{}"), (vec![0, 1], 2));
}

#[test]
fn an_axis_that_a_mesh_lacks_splits_nothing() {
    let mut rule = Rule::default();
    let map = rule.fresh(&[8], FactorKind::Pass);
    let layout = Layout::REPLICATED.with(0, Some(0)).with(1, Some(0));
    let found = splits(layout, &map, &rule, &Mesh::new(&[4]));
    assert_eq!(found, [Split::Loop(0), Split::Whole, Split::Whole, Split::Whole]);
}

#[test]
fn a_result_that_lacks_the_loop_that_splits_another_is_whole() {
    let mut rule = Rule::default();
    let (rows, columns) = (rule.fresh(&[8], FactorKind::Pass), rule.fresh(&[8], FactorKind::Pass));
    rule.operands = vec![rows.clone()];
    rule.results = vec![rows.clone(), columns, rows];
    let (whole, split) = (Layout::REPLICATED, Layout::REPLICATED.with(0, Some(0)));
    let found = loops(&rule, &[Some(split)], (&[split, whole, whole], 0), &Mesh::new(&[4]));
    assert_eq!(found.problems, ["makes part 2 of its result split otherwise along `x`"]);
    let steps: Vec<_> = found.steps.iter().map(|step| (step.kind, step.operand, step.result)).collect();
    assert_eq!(steps, [(Collective::AllGather, None, 2)]);
}

#[test]
fn a_value_arrives_from_a_stage_on_a_like_mesh_as_it_lies_there() {
    let problems = |stages: &str, to: &str| {
        let module = staged(
            "",
            stages,
            "{}",
            &[
                ("a = f32[16,16] parameter(0), sharding={devices=[2,1]<=[2]}", "fwd", 0),
                (&format!("ROOT b = f32[16,16] negate(a), sharding={to}"), "fwd", 1),
            ],
        );
        let facts = derive(&module).expect("a legal header");
        facts.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()
    };
    let columns = "{devices=[1,2]<=[2]}";
    assert_eq!(problems("0:x=2;1:x=2", columns), ["`b` needs operand 0 moved along `x`"]);
    assert_eq!(problems("0:x=2;1:x=2", "{devices=[2,1]<=[2]}"), Vec::<String>::new());
    assert_eq!(problems("0:x=2;1:x=4", "{devices=[1,4]<=[4]}"), Vec::<String>::new());
}

#[test]
fn sums_of_two_results_are_not_left_undone() {
    let found = |n_results: usize| {
        let mut rule = Rule::default();
        let rows = rule.fresh(&[8], FactorKind::Pass);
        let summed = rule.fresh(&[8], FactorKind::Reduce(phzc_ir::Reducer::Add));
        rule.operands = vec![[&rows[..], &summed[..]].concat().into_iter().collect()];
        rule.results = vec![rows; n_results];
        let (whole, split) = (Layout::REPLICATED, Layout::REPLICATED.with(0, Some(1)));
        loops(&rule, &[Some(split)], (&vec![whole; n_results], 0b1), &Mesh::new(&[4])).problems
    };
    assert_eq!(found(1), Vec::<String>::new());
    assert_eq!(found(2), ["is said to be partial over `x`, along which it sums nothing up"]);
}

#[test]
fn what_both_summands_bring_is_left_and_of_a_loop_that_both_could_split_the_result_s_is_split() {
    let undone = "frontend_attributes={phzc.partial=\"x\"}";
    let text = format!(
        "ENTRY e {{ a = f32[16,32] parameter(0), sharding={COLS_X}
        b = f32[32,64] parameter(1), sharding={ROWS_X}
        d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={WHOLE}, {undone}
        s = f32[16,64] add(d, d), sharding={WHOLE}, {undone}
        ROOT m = f32[16,64] custom-call(s), custom_call_target=\"Sharding\", sharding={WHOLE} }}"
    );
    assert_eq!(facts(XY, &text), "m: all-reduce over x, 4096 bytes, 1 times");
    assert_snapshot!(dot(ROWS_X, ROWS_X, ROWS_X), @r"
    !d: all-gather over x, 8192 bytes, 1 times
    `d` needs operand 1 gathered along `x`
    ");
}

#[test]
fn a_value_that_goes_to_another_mesh_is_no_sum_still_to_be_done() {
    let undone = "sharding={replicated}, frontend_attributes={phzc.partial=\"x\",";
    let line = |text: &str, stage: usize, partial: bool| match partial {
        true => format!("{text}, {undone}phzc.stage=\"{stage}\"}}\n"),
        false => format!("{text}, frontend_attributes={{phzc.stage=\"{stage}\"}}\n"),
    };
    let wrong = |is_sent_as_sum: bool| {
        let text = [
            line("a = f32[16,32] parameter(0), sharding={devices=[1,2]<=[2]}", 0, false),
            line("z = f32[] constant(0), sharding={replicated}", 0, false),
            line("s = f32[16] reduce(a, z), dimensions={1}, to_apply=add", 0, true),
            line("m = f32[16] custom-call(s), custom_call_target=\"Sharding\"", 1, is_sent_as_sum)
                .replace("\"Sharding\", frontend", "\"Sharding\", sharding={replicated}, frontend"),
            line("ROOT n = f32[16] negate(m), sharding={replicated}", 1, false),
        ]
        .concat();
        let add = "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }";
        facts("frontend_attributes={phzc.stages=\"0:x=2;1:x=4\"}", &format!("{add}\nENTRY e {{\n{text}}}"))
    };
    for is_sent_as_sum in [true, false] {
        let found = wrong(is_sent_as_sum);
        assert!(found.contains("`m` cannot make a value partial over `x`"), "{found}");
    }
}

#[test]
fn an_element_of_a_tuple_is_in_the_stage_of_what_it_is() {
    let module = staged(
        "",
        "0:;1:",
        "{}",
        &[
            ("a = f32[4] parameter(0)", "fwd", 0),
            ("b = f32[4] negate(a)", "fwd", 1),
            ("t = (f32[4], f32[4]) tuple(b, a)", "fwd", 1),
            ("ROOT g = f32[4] get-tuple-element(t), index=1", "fwd", 1),
        ],
    );
    let facts = derive(&module).expect("a legal header");
    let stages = |index: usize| {
        facts.comps[module.entry.index()][index].leaves.iter().map(|leaf| leaf.stage).collect::<Vec<_>>()
    };
    assert_eq!([stages(2), stages(3)], [vec![1, 0], vec![0]]);
}

#[test]
fn an_output_of_another_type_reuses_a_buffer_of_as_many_bytes_on_each_device() {
    let reused = |to: &str| {
        let text = format!(
            "ENTRY e {{ n = s32[16] parameter(0), sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
            m = s32[16] custom-call(n), custom_call_target=\"Sharding\", sharding={to}
            y = f32[16] convert(m), sharding={to}
            ROOT t = (f32[16]) tuple(y), sharding={{{to}}} }}"
        );
        facts(&format!("input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}, {XY}"), &text)
    };
    assert_eq!(reused("{devices=[2,4]<=[8] last_tile_dim_replicate}"), "");
    assert_snapshot!(reused(WHOLE), @r"
    m: all-gather over x, 64 bytes, 1 times
    output 0 reuses the buffer of `n`, which is split as [x], but is whole
    ");
}

#[test]
fn one_device_s_only_tile_is_whole() {
    let text = |tiling: &str| format!("ENTRY e {{ ROOT a = f32[4,4] parameter(0), sharding={tiling} }}");
    let found = |tiling: &str| facts("frontend_attributes={phzc.mesh=\"\"}", &text(tiling));
    assert_eq!([found("{devices=[1,1]0}"), found("{replicated}")], ["", ""]);
    for wrong in ["{devices=[1,1]1}", "{devices=[2,1]<=[2]}"] {
        assert!(found(wrong).contains("which is not one of the mesh"), "{wrong}: {}", found(wrong));
    }
}
