//! What each parameter is for, and the numbers that it gets for that.

use super::*;
use crate::eval::role::{Compared, Places};

fn parsed(body: &str) -> Module {
    crate::parse(&format!("HloModule m\n{body}")).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

/// The roles of the parameters of a program.
fn roles(body: &str) -> Vec<Role> {
    Inputs::of(&parsed(body), &[]).leaves.into_iter().map(|leaf| leaf.role).collect()
}

/// The inputs of a program for tables in that many parts.
fn drawn(body: &str, parts: &[i64], seed: u64) -> Vec<Vec<f64>> {
    let module = parsed(body);
    let values = Inputs::of(&module, parts).draw(seed, &Options::default()).expect("fixed shapes");
    values.iter().flat_map(Value::leaves).map(Array::to_f64_vec).collect()
}

fn places(low: i64, high: i64, size: i64) -> Option<Places> {
    Some(Places { low, high, size })
}

const GATHER: &str = "gather(t, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
                      index_vector_dim=1, slice_sizes={1,4}";

/// A lookup of `n` rows of a table of 16.
fn lookup(n: usize) -> String {
    format!(
        "ENTRY e {{ t = f32[16,4] parameter(0) i = s32[{n}] parameter(1) k = s32[{n},1] reshape(i)
         ROOT y = f32[{n},4] {GATHER} }}"
    )
}

#[test]
fn an_index_reaches_both_ends_of_its_table_and_of_each_part() {
    assert_eq!(roles(&lookup(8))[1].places, places(0, 16, 16));
    for seed in 0..20 {
        let found = &drawn(&lookup(12), &[2, 4, 3], seed)[1];
        for border in [0.0, 15.0, 7.0, 8.0, 3.0, 4.0, 11.0, 12.0] {
            assert!(found.contains(&border), "{border} of {found:?}");
        }
    }
}

#[test]
fn borders_that_do_not_fit_come_with_other_seeds() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let found = &drawn(&lookup(4), &[4], seed)[1];
        assert!(found.contains(&0.0) && found.contains(&15.0), "{found:?}");
        seen.extend(found.iter().map(|&x| x as i64));
    }
    assert!([3, 4, 7, 8, 11, 12].iter().all(|border| seen.contains(border)), "{seen:?}");
}

#[test]
fn an_index_counts_from_the_end_where_a_branch_makes_it_positive() {
    let body = |pick: &str| {
        format!(
            "wrap {{ c = pred[8] parameter(0) a = s32[8] parameter(1) b = s32[8] parameter(2) ROOT s = s32[8] select(c, a, b) }}
             ENTRY e {{ t = f32[16,4] parameter(0) i = s32[8] parameter(1) z = s32[] constant(0) n = s32[] constant(16)
             zs = s32[8] broadcast(z), dimensions={{}} ns = s32[8] broadcast(n), dimensions={{}}
             c = pred[8] compare(i, zs), direction=LT a = s32[8] add(i, ns) w = s32[8] call(c, a, i), to_apply=wrap
             k = s32[8,1] reshape({pick}) ROOT y = f32[8,4] {GATHER} }}"
        )
    };
    assert_eq!(roles(&body("w"))[1].places, places(-16, 16, 16));
    assert!([-16.0, -1.0, 0.0, 15.0].iter().all(|place| drawn(&body("w"), &[], 1)[1].contains(place)));
    assert_eq!(roles(&body("i"))[1].places, places(0, 16, 16));
}

#[test]
fn a_label_is_any_place_of_what_it_is_compared_with() {
    let body = "ENTRY e { l = s32[8] parameter(0) w = s32[8,5] broadcast(l), dimensions={0}
        i = s32[8,5] iota(), iota_dimension=1 ROOT c = pred[8,5] compare(w, i), direction=EQ }";
    assert_eq!(roles(body)[0].places, places(0, 5, 5));
    assert_eq!(roles(&body.replace("EQ", "LT"))[0].places, places(0, 6, 5));
}

#[test]
fn a_position_leaves_room_for_the_slice() {
    let body = "ENTRY e { x = f32[16,4] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)
        ROOT y = f32[6,4] dynamic-slice(x, i, z), dynamic_slice_sizes={6,4} }";
    assert_eq!(roles(body)[1].places, places(0, 11, 16));
}

#[test]
fn a_component_of_an_index_vector_has_its_own_table() {
    let body = "ENTRY e { t = f32[2,16] parameter(0) i = s32[8,1] parameter(1) j = s32[8,1] parameter(2)
        k = s32[8,2] concatenate(i, j), dimensions={1} ROOT y = f32[8] gather(t, k), offset_dims={},
        collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1} }";
    let found = roles(body);
    assert_eq!((found[1].places, found[2].places), (places(0, 2, 2), places(0, 16, 16)));
}

/// As XLA's CPU compiler leaves JAX's look-ups.
#[test]
fn an_index_vector_is_spelled_otherwise_by_a_bitcast() {
    let body = "ENTRY e { t = f32[2,16] parameter(0) i = s32[2,4,1] parameter(1) j = s32[2,4,1] parameter(2)
        k = s32[2,4,2] concatenate(i, j), dimensions={2} b = s32[8,2] bitcast(k) ROOT y = f32[8] gather(t, b), offset_dims={},
        collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1} }";
    let found = roles(body);
    assert_eq!((found[1].places, found[2].places), (places(0, 2, 2), places(0, 16, 16)));
}

#[test]
fn a_bitcast_to_another_type_reads_bits() {
    let body = "ENTRY e { x = f32[8] parameter(0) n = s32[8] parameter(1) c = s32[] constant(1065353216)
        cs = s32[8] broadcast(c), dimensions={} b = s32[8] bitcast(x) p = pred[8] compare(b, cs), direction=LT
        f = f32[8] bitcast(n) ROOT y = f32[8] select(p, x, f) }";
    let found = roles(body);
    assert_eq!((&found[0].compared[..], found[1].is_bits), (&[][..], true));
}

#[test]
fn a_loop_that_looks_up_has_its_table() {
    let state = "(s32[], s32[], f32[4], f32[16,4])";
    let body = format!(
        "body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 z = s32[] constant(0)
         k = s32[] get-tuple-element(p), index=1 t = f32[16,4] get-tuple-element(p), index=3
         r = f32[1,4] dynamic-slice(t, k, z), dynamic_slice_sizes={{1,4}} y = f32[4] reshape(r)
         one = s32[] constant(1) j = s32[] add(i, one) ROOT o = {state} tuple(j, k, y, t) }}
         more {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(2)
         ROOT c = pred[] compare(i, n), direction=LT }}
         ENTRY e {{ k = s32[] parameter(0) y = f32[4] parameter(1) t = f32[16,4] parameter(2) i = s32[] constant(0)
         s = {state} tuple(i, k, y, t) w = {state} while(s), condition=more, body=body
         ROOT r = f32[4] get-tuple-element(w), index=2 }}"
    );
    assert_eq!(roles(&body)[0].places, places(0, 16, 16));
}

#[test]
fn what_is_compared_with_a_number_lies_on_both_sides() {
    for (number, direction, wanted) in [(0, "NE", [0.0, 1.0]), (5, "LT", [4.0, 5.0]), (5, "GT", [5.0, 6.0])] {
        let body = format!(
            "ENTRY e {{ m = s32[6] parameter(0) n = s32[] constant({number}) w = s32[6] broadcast(n), dimensions={{}}
             ROOT c = pred[6] compare(m, w), direction={direction} }}"
        );
        let found = &drawn(&body, &[], 1)[0];
        assert!(wanted.iter().all(|side| found.contains(side)), "{number} {direction}: {found:?}");
    }
    let body =
        "ENTRY e { m = f32[64] parameter(0) n = f32[] constant(7) w = f32[64] broadcast(n), dimensions={}
        ROOT c = pred[64] compare(m, w), direction=LT }";
    let compared = Compared { with: 7.0, is_equality: false, splits_below: true };
    assert_eq!(roles(body)[0].compared, [compared]);
    let found = &drawn(body, &[], 1)[0];
    assert!(found.iter().any(|&x| x < 7.0) && found.iter().any(|&x| x >= 7.0), "{found:?}");
}

#[test]
fn a_counter_that_may_not_overflow_stays_small() {
    let body = "ENTRY e { n = s32[] parameter(0) most = s32[] constant(2147483647)
        ROOT c = pred[] compare(n, most), direction=LT }";
    assert!((0..50).all(|seed| drawn(body, &[], seed)[0][0] <= 3.0));
}

#[test]
fn random_bits_are_all_of_their_type() {
    let body =
        "ENTRY e { b = u32[64] parameter(0) n = u32[] constant(9) w = u32[64] broadcast(n), dimensions={}
        ROOT s = u32[64] shift-right-logical(b, w) }";
    assert!(drawn(body, &[], 1)[0].iter().any(|&x| x > 1e9));
}

/// One step of a moment: `decay` of the old one and a tenth of a gradient of about `size`.
fn moment(size: &str) -> String {
    format!(
        "HloModule m, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
         ENTRY e {{ m = f64[64] parameter(0) g = f64[64] parameter(1) d = f64[] constant(0.9) c = f64[] constant(0.1)
         s = f64[] constant({size}) ds = f64[64] broadcast(d), dimensions={{}} cs = f64[64] broadcast(c), dimensions={{}}
         ss = f64[64] broadcast(s), dimensions={{}} a = f64[64] multiply(m, ds) x = f64[64] multiply(g, ss)
         y = f64[64] sine(x) b = f64[64] multiply(y, cs) n = f64[64] add(a, b) r = f64[64] multiply(g, g)
         ROOT t = (f64[64], f64[64]) tuple(n, r) }}"
    )
}

#[test]
fn a_state_has_the_size_of_what_is_added_to_it() {
    for (size, scale) in [("1", 0.03), ("1e-6", 3e-8)] {
        let module = crate::parse(&moment(size)).expect("legal");
        let values = inputs(&module, 1).expect("fixed shapes");
        let found = root_mean_square(&values[0].leaves()[0].to_f64_vec());
        assert!((scale / 2.0..scale * 2.0).contains(&found), "{size}: {found}");
    }
}

#[test]
fn no_root_is_taken_of_a_negative_number() {
    for op in ["sqrt", "rsqrt", "log"] {
        let body = format!(
            "ENTRY e {{ v = f32[8] parameter(0) x = f32[8] parameter(1) c = f32[] constant(0.9)
             b = f32[8] broadcast(c), dimensions={{}} d = f32[8] multiply(v, b) r = f32[8] {op}(d)
             ROOT y = f32[8] multiply(r, x) }}"
        );
        let found = drawn(&body, &[], 1);
        assert!(found[0].iter().all(|&x| x > 0.0) && found[1].iter().any(|&x| x < 0.0), "{found:?}");
    }
    let square = "ENTRY e { x = f32[8] parameter(0) y = f32[8] multiply(x, x) ROOT r = f32[8] sqrt(y) }";
    assert!(!roles(square)[0].is_positive);
}

/// A mask of floats, of which a program makes whole numbers.
#[test]
fn what_becomes_an_integer_becomes_several() {
    let body =
        "ENTRY e { x = f32[64] parameter(0) c = f32[] constant(1) b = f32[64] broadcast(c), dimensions={}
        d = f32[64] subtract(b, x) ROOT y = s32[64] convert(d) }";
    let found = drawn(body, &[], 1);
    let made: std::collections::BTreeSet<i64> = found[0].iter().map(|x| (1.0 - x) as i64).collect();
    assert!([-1, 0, 1, 2, 3].iter().all(|whole| made.contains(whole)), "{made:?}");
}

#[test]
fn the_rows_of_a_matrix_have_something_in_common() {
    let body = "ENTRY e { x = f32[64,4] parameter(0) ROOT y = f32[64,4] tanh(x) }";
    let found = drawn(body, &[], 1);
    let mean = |column: usize| found[0].iter().skip(column).step_by(4).sum::<f64>() / 64.0;
    assert!((0..4).any(|column| mean(column).abs() > 0.05), "{found:?}");
}

#[test]
fn no_array_is_constant_and_no_two_are_alike() {
    let params: Vec<String> = ["s32[]", "s32[]", "s32[]", "s32[]", "pred[2]", "pred[2]", "s32[2]", "s32[2]"]
        .iter()
        .enumerate()
        .map(|(number, shape)| format!("p{number} = {shape} parameter({number})"))
        .collect();
    let body = format!("ENTRY e {{ {} ROOT t = () tuple() }}", params.join("\n"));
    for seed in 0..50 {
        let found = drawn(&body, &[], seed);
        for (at, array) in found.iter().enumerate() {
            assert!(array.len() == 1 || array.iter().any(|x| *x != array[0]), "{seed}: {array:?}");
            let alike = [0, 0, 0, 0, 4, 4, 6, 6][at];
            let is_new = !found[alike..at].contains(array);
            assert!(is_new, "{seed}: {array:?} twice");
        }
        assert!(found[..4].iter().all(|count| (1.0..12.0).contains(&count[0])), "{found:?}");
    }
}

#[test]
fn a_second_step_takes_what_the_first_returned() {
    let module = crate::parse(&moment("1")).expect("legal");
    let inputs = Inputs::of(&module, &[]);
    let given = inputs.draw(1, &Options::default()).expect("fixed shapes");
    let made = run(&module, &given, &Options::default()).expect("it runs");
    let second = inputs.after(&given, &made, 1, &Options::default()).expect("fixed shapes").inputs(&made);
    assert_eq!(second[0].leaves()[0], made.leaves()[0]);
    assert!(second[1] != given[1] && second[1].leaves()[0] != made.leaves()[1]);
}

#[test]
fn without_aliases_results_go_back_by_type_and_order() {
    let body = "ENTRY e { x = f32[2] parameter(0) y = f32[3] parameter(1) z = f32[2] parameter(2)
        a = f32[3] negate(y) b = f32[2] negate(z) c = f32[2] abs(x) ROOT t = (f32[3], f32[2], f32[2]) tuple(a, b, c) }";
    let module = parsed(body);
    let next: Vec<Option<usize>> = Inputs::of(&module, &[]).leaves.iter().map(|leaf| leaf.next).collect();
    assert_eq!(next, [Some(1), Some(0), Some(2)]);
}

#[test]
fn what_did_not_change_or_is_not_finite_is_drawn_anew() {
    let body = "ENTRY e { x = f32[2] parameter(0) y = f32[3] parameter(1) d = f32[3] subtract(y, y)
        n = f32[3] divide(d, d) ROOT t = (f32[2], f32[3]) tuple(x, n) }";
    let module = parsed(body);
    let inputs = Inputs::of(&module, &[]);
    let given = inputs.draw(1, &Options::default()).expect("fixed shapes");
    let made = run(&module, &given, &Options::default()).expect("it runs");
    let second = inputs.after(&given, &made, 1, &Options::default()).expect("fixed shapes");
    assert_eq!(second.next, [None, None]);
    assert!(second.inputs(&made)[0] != given[0]);
}
