//! Sizes that stay, because something but shapes depends on them, and sizes that are one through what a
//! program runs.

use super::*;

/// The dimensions of these instructions of the entry after shrinking to 4, 8 tiles asked of the first
/// parameter.
fn tiled(comps: &str, body: &str, names: &[&str]) -> Vec<Vec<i64>> {
    let text = check_cut(&format!("HloModule m\n{comps}\nENTRY e {{\n{body}\n}}\n"), 8);
    let dims = |name: &&str| {
        let line = text.lines().map(|line| line.trim_start_matches("ROOT "));
        let line = line.filter_map(|line| line.strip_prefix(&format!("{name} = f32["))).next();
        let (dims, _) = line.expect("it is there").split_once(']').expect("a shape");
        dims.split(',').map(|size| size.parse().expect("a size")).collect()
    };
    names.iter().map(dims).collect()
}

#[test]
fn an_element_of_a_tuple_has_the_sizes_that_the_tuple_got() {
    let body = "x = f32[64] parameter(0)
        y = f32[64] parameter(1)
        t = (f32[64], f32[64]) tuple(y, x)
        a = f32[64] get-tuple-element(t), index=0
        b = f32[64] get-tuple-element(t), index=1
        ROOT r = (f32[64], f32[64]) tuple(a, b)";
    assert_eq!(tiled("", body, &["x", "y", "a", "b"]), [[8], [4], [4], [8]]);
}

#[test]
fn branches_have_the_sizes_of_what_they_are_given_and_return() {
    let comps = "f { p = f32[64] parameter(0) ROOT n = f32[64] negate(p) }
        g { p = f32[64] parameter(0) ROOT n = f32[64] tanh(p) }";
    let body = "x = f32[64] parameter(0)
        c = pred[] parameter(1)
        y = f32[64] parameter(2)
        z = f32[64] parameter(3)
        r = f32[64] conditional(c, x, y), true_computation=f, false_computation=g
        ROOT t = (f32[64], f32[64]) tuple(r, z)";
    assert_eq!(tiled(comps, body, &["x", "y", "r", "z"]), [[8], [8], [8], [4]]);
}

#[test]
fn calls_and_fusions_have_the_sizes_of_what_they_are_given_and_return() {
    let comps =
        "f { p = f32[64] parameter(0) q = f32[64] parameter(1) a = f32[64] negate(p) b = f32[64] negate(q)
        ROOT r = (f32[64], f32[64]) tuple(b, a) }";
    for op in ["call(x, y), to_apply=f", "fusion(x, y), kind=kLoop, calls=f"] {
        let body = format!(
            "x = f32[64] parameter(0)
            y = f32[64] parameter(1)
            c = (f32[64], f32[64]) {op}
            a = f32[64] get-tuple-element(c), index=0
            b = f32[64] get-tuple-element(c), index=1
            ROOT r = (f32[64], f32[64]) tuple(a, b)"
        );
        assert_eq!(tiled(comps, &body, &["x", "y", "a", "b"]), [[8], [4], [4], [8]], "{op}");
    }
}

#[test]
fn what_a_plan_objects_to_keeps_its_size_and_the_rest_shrinks() {
    // Nobody says that the layout cuts rows in eight: the plan's rules do.
    let text = "HloModule m, num_partitions=8, frontend_attributes={phzc.mesh=\"x=8\",phzc.plan=\"{}\"}
        ENTRY e { x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
        y = f32[64,64] negate(x), sharding={devices=[1,8]<=[8]}
        z = f32[32,32] parameter(1), sharding={replicated}
        ROOT r = f32[64,64] tanh(y), sharding={devices=[1,8]<=[8]} }";
    let module = parse(text).expect("a legal plan");
    // `y` needs a movement before and after: that is no reason to keep it.
    let known = problems(&module).expect("it is a plan");
    assert_eq!(known.len(), 1);
    let shrunk = shrink(&[&module], |_| Cut::default(), 4).remove(0);
    let dims = |name: &str| {
        let instr = shrunk.entry().instrs.iter().find(|instr| *instr.name == *name).expect("it is there");
        instr.shape.as_array().expect("an array").dims.to_vec()
    };
    assert_eq!([dims("x"), dims("y"), dims("z")], [[64, 64], [64, 64], [4, 4]]);
    assert_eq!(problems(&shrunk), Some(known));
    assert_eq!(problems(&parse("ENTRY e { ROOT x = f32[8] parameter(0) }").expect("legal")), None);
}

#[test]
fn a_batch_is_cut_by_microbatches_and_tiles_in_the_plan_alone() {
    let program = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
        ENTRY e { x = f32[64,64] parameter(0) w = f32[64] parameter(1) y = f32[64,64] negate(x)
        n = f32[64] negate(w) ROOT t = (f32[64], f32[64,64]) tuple(n, y) }";
    // Other names in another order: what ties the two are inputs and outputs.
    let plan = |n: usize| {
        format!(
            "HloModule m, input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}, num_partitions=2,
            frontend_attributes={{phzc.mesh=\"x=2\",phzc.plan=\"{{\\\"n_microbatches\\\":{n}}}\"}}
            ENTRY e {{ v = f32[64] parameter(1), sharding={{replicated}}
            q = f32[64,64] parameter(0), sharding={{devices=[2,1]<=[2]}} m = f32[64] negate(v), sharding={{replicated}}
            z = f32[64,64] negate(q), sharding={{devices=[2,1]<=[2]}}
            ROOT s = (f32[64], f32[64,64]) tuple(m, z), sharding={{{{replicated}}, {{devices=[2,1]<=[2]}}}} }}"
        )
    };
    let sizes = |n: usize| {
        let [program, plan] = [program, &plan(n)].map(|text| parse(text).expect("legal"));
        let both = shrink_plan(&program, &plan, 4).expect("the notes are phzc's");
        let shape = |module: &Module| module.entry().root().shape.clone();
        assert_eq!(shape(&both[0]), shape(&both[1]));
        phzc_ir::text::shape_text(&shape(&both[0]))
    };
    assert_eq!(
        [sizes(1), sizes(4), sizes(8)],
        ["(f32[4], f32[4,4])", "(f32[4], f32[8,4])", "(f32[4], f32[16,4])"]
    );
}

#[test]
fn only_instructions_of_one_op_and_type_are_namesakes() {
    let one = parse(
        "ENTRY e { x = f32[64] parameter(0) k = f32[] constant(2) b = f32[64] broadcast(k), dimensions={} ROOT y = f32[64] negate(b) }",
    );
    let other = parse(
        "ENTRY e { x = f32[64] parameter(0) k = f32[] constant(2) b = f32[32] broadcast(k), dimensions={} c = f32[64] broadcast(k), dimensions={} ROOT y = f32[64] negate(c) }",
    );
    let both = shrink(&[&one.expect("legal"), &other.expect("legal")], |_| Cut::default(), 4);
    let dims = |module: &Module| {
        let arrays = module.entry().instrs.iter().filter_map(|instr| instr.shape.as_array());
        arrays.map(|array| array.dims.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(dims(&both[0]), [vec![4], vec![], vec![4], vec![4]]);
    assert_eq!(dims(&both[1]), [vec![4], vec![], vec![4], vec![4], vec![4]]);
}

#[test]
fn dynamic_and_empty_tensors_keep_their_sizes() {
    check("ROOT x = f32[0,64] parameter(0)", "ROOT x = f32[0,64] parameter(0)");
    check("ROOT x = f32[<=64,64] parameter(0)", "ROOT x = f32[<=64,64] parameter(0)");
}

#[test]
fn windows_that_lie_side_by_side_keep_their_sizes_and_points_do_not() {
    check(
        "x = f32[8,64,7,64] parameter(0)
         k = f32[16,7,64,8] parameter(1)
         ROOT y = f32[8,4,1,8] convolution(x, k), window={size=16x7 stride=16x1}, dim_labels=b01f_01io->b01f",
        "x = f32[4,64,7,4] parameter(0)
         k = f32[16,7,4,4] parameter(1)
         ROOT y = f32[4,4,1,4] convolution(x, k), window={size=16x7 stride=16x1}, dim_labels=b01f_01io->b01f",
    );
    check(
        "x = f32[8,56,56,64] parameter(0)
         k = f32[1,1,64,8] parameter(1)
         ROOT y = f32[8,56,56,8] convolution(x, k), window={size=1x1}, dim_labels=b01f_01io->b01f",
        "x = f32[4,4,4,4] parameter(0)
         k = f32[1,1,4,4] parameter(1)
         ROOT y = f32[4,4,4,4] convolution(x, k), window={size=1x1}, dim_labels=b01f_01io->b01f",
    );
}

#[test]
fn groups_of_several_features_and_samples_are_counted_anew() {
    check(
        "x = f32[8,7,7,96] parameter(0)
         k = f32[7,7,8,96] parameter(1)
         ROOT y = f32[8,7,7,96] convolution(x, k), window={size=7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f, feature_group_count=12",
        "x = f32[4,7,7,16] parameter(0)
         k = f32[7,7,4,16] parameter(1)
         ROOT y = f32[4,7,7,16] convolution(x, k), window={size=7x7 pad=3_3x3_3}, dim_labels=b01f_01io->b01f, feature_group_count=4",
    );
    check(
        "x = f32[96,8,8,8] parameter(0)
         g = f32[8,8,8,12] parameter(1)
         ROOT w = f32[8,3,3,12] convolution(x, g), window={size=8x8 pad=1_1x1_1}, dim_labels=b01f_i01o->b01f, batch_group_count=12",
        "x = f32[16,8,8,4] parameter(0)
         g = f32[4,8,8,4] parameter(1)
         ROOT w = f32[4,3,3,4] convolution(x, g), window={size=8x8 pad=1_1x1_1}, dim_labels=b01f_i01o->b01f, batch_group_count=4",
    );
}

#[test]
fn ops_that_take_whole_dimensions_of_any_size_shrink() {
    check(
        "x = f32[64,32] parameter(0)
         ROOT y = f32[64,32] reverse(x), dimensions={0}",
        "x = f32[4,4] parameter(0)
         ROOT y = f32[4,4] reverse(x), dimensions={0}",
    );
    check_with(
        "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }",
        "x = f32[64,32] parameter(0)
         ROOT y = f32[64,32] sort(x), dimensions={0}, to_apply=less",
        "x = f32[4,4] parameter(0)
         ROOT y = f32[4,4] sort(x), dimensions={0}, to_apply=less",
    );
    check(
        "x = f32[8,64] parameter(0)
         ROOT y = f32[8,64] cholesky(x)"
            .replace("[8,64]", "[8,64,64]")
            .as_str(),
        "x = f32[4,64,64] parameter(0)
         ROOT y = f32[4,64,64] cholesky(x)",
    );
}

#[test]
fn a_table_of_4096_elements_is_a_list_and_one_that_is_left_out_is_none() {
    let numbers = (0..4096).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("ROOT t = s32[4096] constant({{{numbers}}})");
    check(&text, &text);
    check("ROOT t = s32[8,64] constant({...})", "ROOT t = s32[4,4] constant({...})");
}

#[test]
fn blocks_in_two_dimensions_are_of_two_sizes() {
    check(
        "x = f32[64,48] parameter(0)
         ROOT y = f32[32,16] slice(x), slice={[32:64], [0:16]}",
        "x = f32[8,12] parameter(0)
         ROOT y = f32[4,4] slice(x), slice={[4:8], [0:4]}",
    );
}

#[test]
fn a_dimension_of_blocks_that_also_moves_stays() {
    check(
        "x = f32[64,8] parameter(0)
         y = f32[32,8] slice(x), slice={[0:32], [0:8]}
         z = f32[63,8] slice(x), slice={[1:64], [0:8]}
         ROOT t = (f32[32,8], f32[63,8]) tuple(y, z)",
        "x = f32[64,4] parameter(0)
         y = f32[32,4] slice(x), slice={[0:32], [0:4]}
         z = f32[63,4] slice(x), slice={[1:64], [0:4]}
         ROOT t = (f32[32,4], f32[63,4]) tuple(y, z)",
    );
}

#[test]
fn what_moves_with_tiles_stays_divisible() {
    let body = "x = f32[64] parameter(0)
        y = f32[63] slice(x), slice={[1:64]}
        ROOT z = f32[63] negate(y)";
    assert_eq!(tiled("", body, &["x", "y"]), [[8], [7]]);
}
