//! `shrink` on small programs, and on random ones and their plans.

mod ends;
mod kept;

use super::*;
use crate::testing::Random;
use phzc_cost::Cluster;
use phzc_ir::{parse, print};
use phzc_pass::pass::Context;
use phzc_testing::program;

/// The entry after shrinking to 4, `tiles` asked of dimension 0 of the first parameter.
fn check_cut(text: &str, tiles: i64) -> String {
    let module = parse(text).expect("a legal program");
    assert!(verify(&module).is_empty(), "{:?}", verify(&module));
    let first = module.entry().params().first().copied();
    let cut = |place: Place| {
        let is_first = place.comp == module.entry && Some(place.instr) == first && place.dim == 0;
        Cut { tiles: if is_first { tiles } else { 1 }, parts: 1 }
    };
    let shrunk = shrink(&[&module], cut, 4).remove(0);
    assert!(verify(&shrunk).is_empty());
    let text = print(&shrunk);
    let (_, entry) = text.split_once("ENTRY").expect("there is an entry");
    let lines = entry.lines().filter(|line| line.starts_with("  "));
    lines.map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

fn check(body: &str, expected: &str) {
    check_with("", body, expected);
}

fn check_with(comps: &str, body: &str, expected: &str) {
    let found = check_cut(&format!("HloModule m\n{comps}\nENTRY e {{\n{body}\n}}\n"), 1);
    let trimmed: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, trimmed.join("\n"));
}

#[test]
fn a_dot_shrinks_in_every_loop() {
    check(
        "x = f32[2,64,32] parameter(0)
         y = f32[2,32,128] parameter(1)
         ROOT z = f32[2,64,128] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
        "x = f32[2,4,4] parameter(0)
         y = f32[2,4,4] parameter(1)
         ROOT z = f32[2,4,4] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    );
}

#[test]
fn groups_of_a_convolution_shrink_with_their_dimension() {
    check(
        "x = f32[32,56,56,96] parameter(0)
         k = f32[7,7,1,96] parameter(1)
         ROOT y = f32[32,56,56,96] convolution(x, k), window={size=7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f, feature_group_count=96",
        "x = f32[4,56,56,4] parameter(0)
         k = f32[7,7,1,4] parameter(1)
         ROOT y = f32[4,56,56,4] convolution(x, k), window={size=7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f, feature_group_count=4",
    );
    check(
        "x = f32[32,8,8,96] parameter(0)
         g = f32[32,8,8,96] parameter(1)
         ROOT w = f32[3,3,1,96] convolution(x, g), window={size=8x8 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, batch_group_count=96",
        "x = f32[4,8,8,4] parameter(0)
         g = f32[4,8,8,4] parameter(1)
         ROOT w = f32[3,3,1,4] convolution(x, g), window={size=8x8 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf, batch_group_count=4",
    );
}

#[test]
fn a_dimension_is_the_product_of_what_reshapes_split_it_into() {
    check(
        "x = f32[8,64,768] parameter(0)
         h = f32[8,64,12,64] reshape(x)
         ROOT y = f32[512,768] reshape(h)",
        "x = f32[4,4,16] parameter(0)
         h = f32[4,4,4,4] reshape(x)
         ROOT y = f32[16,16] reshape(h)",
    );
}

#[test]
fn sizes_whose_boundaries_do_not_meet_stay() {
    check(
        "x = f32[8,9,64] parameter(0)
         ROOT y = f32[9,8,64] reshape(x)",
        "x = f32[8,9,4] parameter(0)
         ROOT y = f32[9,8,4] reshape(x)",
    );
}

#[test]
fn constants_of_one_element_and_broadcasts_shrink() {
    check(
        "x = f32[8] constant({2, 2, 2, 2, 2, 2, 2, 2})
         i = s32[64,8] iota(), iota_dimension=0
         f = f32[64,8] convert(i)
         b = f32[64,8] broadcast(x), dimensions={1}
         ROOT y = f32[64,8] add(f, b)",
        "x = f32[4] constant({2, 2, 2, 2})
         i = s32[4,4] iota(), iota_dimension=0
         f = f32[4,4] convert(i)
         b = f32[4,4] broadcast(x), dimensions={1}
         ROOT y = f32[4,4] add(f, b)",
    );
}

#[test]
fn literals_and_slices_fix_what_they_cut() {
    check(
        "x = f32[8,64] parameter(0)
         c = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
         b = f32[8,64] broadcast(c), dimensions={0}
         s = f32[8,64] add(x, b)
         w = f32[16,64] parameter(1)
         ROOT t = f32[8,64] slice(w), slice={[3:11], [0:64]}",
        "x = f32[8,4] parameter(0)
         c = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
         b = f32[8,4] broadcast(c), dimensions={0}
         s = f32[8,4] add(x, b)
         w = f32[16,4] parameter(1)
         ROOT t = f32[8,4] slice(w), slice={[3:11], [0:4]}",
    );
}

#[test]
fn a_roll_by_one_gets_shorter_as_a_whole() {
    check(
        "x = s32[4,64] parameter(0)
         rest = s32[4,63] slice(x), slice={[0:4], [1:64]}
         first = s32[4,1] slice(x), slice={[0:4], [0:1]}
         last = s32[4,1] slice(x), slice={[0:4], [63:64]}
         one = s32[] constant(1)
         p = s32[4,64] pad(rest, one), padding=0_0x0_1
         y = s32[4,64] concatenate(rest, first), dimensions={1}
         ROOT z = s32[4,65] concatenate(last, y), dimensions={1}",
        "x = s32[4,5] parameter(0)
         rest = s32[4,4] slice(x), slice={[0:4], [1:5]}
         first = s32[4,1] slice(x), slice={[0:4], [0:1]}
         last = s32[4,1] slice(x), slice={[0:4], [4:5]}
         one = s32[] constant(1)
         p = s32[4,5] pad(rest, one), padding=0_0x0_1
         y = s32[4,5] concatenate(rest, first), dimensions={1}
         ROOT z = s32[4,6] concatenate(last, y), dimensions={1}",
    );
}

#[test]
fn blocks_side_by_side_stay_as_many() {
    check(
        "x = f32[4,96] parameter(0)
         q = f32[4,32] slice(x), slice={[0:4], [0:32]}
         v = f32[4,32] slice(x), slice={[0:4], [64:96]}
         y = f32[4,64] concatenate(v, q), dimensions={1}
         zero = f32[] constant(0)
         ROOT g = f32[4,96] pad(q, zero), padding=0_0x32_32",
        "x = f32[4,12] parameter(0)
         q = f32[4,4] slice(x), slice={[0:4], [0:4]}
         v = f32[4,4] slice(x), slice={[0:4], [8:12]}
         y = f32[4,8] concatenate(v, q), dimensions={1}
         zero = f32[] constant(0)
         ROOT g = f32[4,12] pad(q, zero), padding=0_0x4_4",
    );
}

#[test]
fn a_running_sum_keeps_its_window_as_long_as_its_dimension() {
    check_with(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
        "x = f32[4,64] parameter(0)
         zero = f32[] constant(0)
         ROOT y = f32[4,64] reduce-window(x, zero), window={size=1x64 pad=0_0x63_0}, to_apply=add",
        "x = f32[4,4] parameter(0)
         zero = f32[] constant(0)
         ROOT y = f32[4,4] reduce-window(x, zero), window={size=1x4 pad=0_0x3_0}, to_apply=add",
    );
}

#[test]
fn a_long_table_is_cropped() {
    let row = |first: i64| (first..first + 70).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let rows: Vec<String> = (0..64).map(|first| format!("{{{}}}", row(first * 100))).collect();
    check(
        &format!("ROOT t = s32[64,70] constant({{{}}})", rows.join(", ")),
        "ROOT t = s32[4,4] constant({{0, 1, 2, 3}, {100, 101, 102, 103}, {200, 201, 202, 203}, {300, 301, 302, 303}})",
    );
}

#[test]
fn a_look_up_shrinks_the_table_and_its_rows() {
    check(
        "t = f32[50257,768] parameter(0)
         i = s32[4,128,1] parameter(1)
         ROOT y = f32[4,128,768] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,768}",
        "t = f32[4,4] parameter(0)
         i = s32[4,4,1] parameter(1)
         ROOT y = f32[4,4,4] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,4}",
    );
}

#[test]
fn an_update_of_a_part_fixes_the_whole() {
    check(
        "x = f32[32,64] parameter(0)
         u = f32[1,64] parameter(1)
         i = s32[] parameter(2)
         ROOT y = f32[32,64] dynamic-update-slice(x, u, i, i)",
        "x = f32[32,4] parameter(0)
         u = f32[1,4] parameter(1)
         i = s32[] parameter(2)
         ROOT y = f32[32,4] dynamic-update-slice(x, u, i, i)",
    );
}

const LOOP: &str = "cond {
  t = (s32[], f32[12,64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(12)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  t = (s32[], f32[12,64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  w = f32[12,64] get-tuple-element(t), index=1
  x = f32[64] get-tuple-element(t), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  row = f32[1,64] dynamic-slice(w, i, zero), dynamic_slice_sizes={1,64}
  flat = f32[64] reshape(row)
  y = f32[64] multiply(x, flat)
  ROOT r = (s32[], f32[12,64], f32[64]) tuple(next, w, y)
}";

#[test]
fn a_loop_keeps_its_layers_and_shrinks_what_it_carries() {
    check_with(
        LOOP,
        "i = s32[] constant(0)
         w = f32[12,64] parameter(0)
         x = f32[64] parameter(1)
         t = (s32[], f32[12,64], f32[64]) tuple(i, w, x)
         r = (s32[], f32[12,64], f32[64]) while(t), condition=cond, body=body
         ROOT y = f32[64] get-tuple-element(r), index=2",
        "i = s32[] constant(0)
         w = f32[12,4] parameter(0)
         x = f32[4] parameter(1)
         t = (s32[], f32[12,4], f32[4]) tuple(i, w, x)
         r = (s32[], f32[12,4], f32[4]) while(t), condition=cond, body=body
         ROOT y = f32[4] get-tuple-element(r), index=2",
    );
}

#[test]
fn tiles_go_to_the_outermost_loop() {
    let check = |tiles, expected: &str| {
        let text = "ENTRY e {\n  x = f32[512,3] parameter(0)\n  ROOT y = f32[8,64,3] reshape(x)\n}";
        let found = check_cut(text, tiles);
        assert_eq!(found.lines().next().unwrap_or_default(), format!("x = f32[{expected},3] parameter(0)"));
    };
    check(1, "16");
    check(2, "16");
    check(8, "32");
    check(16, "32");
    check(64, "64");
    check(24, "512");
    check(128, "128");
}

#[test]
fn the_layout_of_the_entry_goes_and_aliases_stay_of_one_size() {
    let text = "HloModule m, entry_computation_layout={(f32[64]{0},f32[64]{0})->f32[64]{0}}, input_output_alias={ {}: (1, {}, may-alias) }
ENTRY e { x = f32[64]{0} parameter(0) c = f32[64]{0} parameter(1) ROOT y = f32[64]{0} negate(x) }";
    let module = parse(text).expect("a legal program");
    let cut = |place: Place| Cut { tiles: if place.instr.index() == 1 { 8 } else { 1 }, parts: 3 };
    let uncut = shrink(&[&module], cut, 4).remove(0);
    assert_eq!(uncut.entry(), module.entry(), "64 is not divisible by 24");
    let cut = |place: Place| Cut { tiles: if place.instr.index() == 1 { 8 } else { 1 }, parts: 2 };
    let shrunk = shrink(&[&module], cut, 4).remove(0);
    assert_eq!(shrunk.attr("entry_computation_layout"), None);
    assert_eq!(&*shrunk.entry().root().shape.as_array().expect("an array").dims, [16]);
}

#[test]
fn programs_with_the_same_inputs_shrink_alike() {
    let text = "ENTRY e { x = f32[64] parameter(0) k = f32[] constant(2) b = f32[32] broadcast(k), dimensions={} ROOT y = f32[64] negate(x) }";
    let (one, other) = (parse(text).expect("legal"), parse(text).expect("legal"));
    let cut = |place: Place| Cut { tiles: if place.program == 1 { 16 } else { 1 }, parts: 1 };
    let both = shrink(&[&one, &other], cut, 4);
    assert_eq!(both[0], both[1]);
    assert_eq!(&*both[0].entry().root().shape.as_array().expect("an array").dims, [16]);
}

fn plan(module: &mut Module, pipeline: &str, cluster: &Cluster) {
    let pipeline = crate::testing::pipeline(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(cluster);
    for step in &pipeline.steps {
        step.run(module, &mut cx).expect("every program has a plan");
    }
}

#[test]
fn random_programs_and_their_plans_stay_legal() {
    let (mut n_shrunk, cluster) = (0, program::cluster(8, 1e9, 1e12));
    for seed in 0..40 {
        let mut random = Random(seed);
        let text = program::program(seed, 1 + random.below(12));
        let original = parse(&text).expect("a legal program");
        let mut planned = original.clone();
        plan(&mut planned, &format!("fuse,shard{{mesh={}}}", random.pick(&["8", "2x4", "4x2"])), &cluster);
        let both = shrink_plan(&original, &planned, 4).expect("the notes are phzc's");
        for (module, shrunk) in [&original, &planned].into_iter().zip(&both) {
            assert_eq!(verify(shrunk), [], "{text}");
            assert_eq!(problems(shrunk), problems(module), "{text}");
            n_shrunk += usize::from(shrunk.comps != module.comps);
        }
        let inputs = |module: &Module| -> Vec<Shape> {
            let entry = module.entry();
            entry.params().into_iter().map(|id| entry.instr(id).shape.clone()).collect()
        };
        assert_eq!(inputs(&both[0]), inputs(&both[1]), "{text}");
    }
    assert!(n_shrunk > 40, "only {n_shrunk} programs shrank");
}
