//! Dimensions that an op cuts or lengthens in a way that can shrink, and where their bounds then are.

use super::*;
use crate::verify::shrink::ends::{ends, gcd, moved, rewindow, scaled};
use phzc_ir::attr::WindowDim;

/// The ends of the root of an entry, as `operand.dim: kind`.
fn found(body: &str) -> String {
    let comps = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
    let module = parse(&format!("{comps} ENTRY e {{ z = f32[] constant(0) {body} }}")).expect("legal");
    assert_eq!(verify(&module), [], "{body}");
    let found = ends(&View::new(&module, module.entry, module.entry().root));
    let one = |end: &super::super::ends::End| format!("{}.{}: {:?}", end.operand, end.dim, end.kind);
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn slice(size: i64, start: i64, limit: i64, stride: i64) -> String {
    let n = (limit - start + stride - 1) / stride;
    let step = if stride > 1 { format!(":{stride}") } else { String::new() };
    found(&format!(
        "x = f32[{size}] parameter(0) ROOT y = f32[{n}] slice(x), slice={{[{start}:{limit}{step}]}}"
    ))
}

#[test]
fn a_slice_without_an_element_or_two_at_an_end_moves() {
    let bounds = [(1, 64), (2, 64), (0, 62), (2, 62), (3, 64), (0, 61), (0, 64)];
    let kinds = bounds.map(|(start, limit)| slice(64, start, limit, 1));
    let moves = "0.0: Moves";
    assert_eq!(kinds, [moves, moves, moves, moves, "", "", ""]);
    assert_eq!([slice(8, 1, 8, 1), slice(7, 1, 7, 1), slice(64, 1, 64, 2)], [moves, "", ""]);
}

#[test]
fn a_slice_of_an_element_or_two_at_an_end_stays() {
    let bounds = [(0, 2), (0, 1), (1, 2), (62, 64), (63, 64), (0, 3), (61, 64)];
    let kinds = bounds.map(|(start, limit)| slice(64, start, limit, 1));
    let stays = "0.0: Stays";
    assert_eq!(kinds, [stays, stays, stays, stays, stays, "", ""]);
    assert_eq!([slice(8, 0, 1, 1), slice(7, 0, 1, 1), slice(6, 0, 2, 1)], [stays, "", ""]);
}

#[test]
fn a_slice_of_whole_blocks_is_blocks() {
    let kinds = [slice(96, 32, 64, 1), slice(9, 0, 3, 1), slice(96, 0, 48, 1), slice(96, 0, 48, 2)];
    assert_eq!(kinds, ["0.0: Blocks(32)", "0.0: Blocks(3)", "0.0: Blocks(48)", ""]);
}

#[test]
fn a_slice_may_cut_several_dimensions() {
    let text = "x = f32[64,8,48] parameter(0) ROOT y = f32[63,8,16] slice(x), slice={[1:64], [0:8], [32:48]}";
    assert_eq!(found(text), "0.0: Moves, 0.2: Blocks(16)");
}

#[test]
fn a_pad_of_an_element_or_two_moves_and_one_of_blocks_is_blocks() {
    let pad = |size: i64, low: i64, high: i64, interior: i64| {
        let n = size + low + high + (size - 1) * interior;
        found(&format!(
            "x = f32[{size}] parameter(0) ROOT y = f32[{n}] pad(x, z), padding={low}_{high}_{interior}"
        ))
    };
    let moves = "0.0: Moves";
    let small = [pad(64, 1, 0, 0), pad(64, 0, 2, 0), pad(64, -1, 0, 0), pad(64, 2, -2, 0), pad(8, 1, 0, 0)];
    assert_eq!(small, [moves; 5]);
    let blocks = [pad(64, 32, 0, 0), pad(64, 0, 32, 0), pad(9, 3, -3, 0)];
    assert_eq!(blocks, ["0.0: Blocks(32)", "0.0: Blocks(32)", "0.0: Blocks(3)"]);
    let neither = [pad(64, 0, 0, 0), pad(64, 0, 0, 1), pad(64, 1, 0, 1), pad(64, 32, 1, 0), pad(7, 1, 0, 0)];
    assert_eq!(neither, [""; 5]);
}

#[test]
fn a_window_over_all_that_comes_before_or_after_is_running() {
    let window = |size: i64, n: i64, attrs: &str| {
        found(&format!(
            "x = f32[{size}] parameter(0)
             ROOT y = f32[{n}] reduce-window(x, z), window={{{attrs}}}, to_apply=add"
        ))
    };
    let running = "0.0: Running";
    let is = [
        window(64, 64, "size=64 pad=63_0"),
        window(64, 64, "size=64 pad=0_63"),
        window(3, 3, "size=3 pad=2_0"),
    ];
    assert_eq!(is, [running; 3]);
    let is_not = [
        window(64, 64, "size=63 pad=62_0"),
        window(64, 63, "size=64 pad=62_0"),
        window(64, 63, "size=64 pad=0_62"),
        window(64, 127, "size=64 pad=63_63"),
        window(64, 32, "size=64 stride=2 pad=63_0"),
        window(64, 127, "size=64 pad=63_0 lhs_dilate=2").replace("0.0: Running", "dilated"),
        window(2, 2, "size=2 pad=1_0"),
        window(64, 64, "size=1"),
    ];
    assert_eq!(is_not, [""; 8]);
}

#[test]
fn one_long_operand_of_a_concatenation_moves_and_several_are_blocks() {
    let concatenate = |sizes: &[i64]| {
        let param = |(at, size): (usize, &i64)| format!("x{at} = f32[3,{size}] parameter({at}) ");
        let params: String = sizes.iter().enumerate().map(param).collect();
        let names: Vec<String> = (0..sizes.len()).map(|at| format!("x{at}")).collect();
        let n: i64 = sizes.iter().sum();
        found(&format!("{params} ROOT y = f32[3,{n}] concatenate({}), dimensions={{1}}", names.join(", ")))
    };
    assert_eq!(concatenate(&[63, 1]), "0.1: Moves");
    assert_eq!(concatenate(&[2, 63, 1]), "1.1: Moves");
    assert_eq!(concatenate(&[8, 2]), "0.1: Moves");
    assert_eq!(concatenate(&[7, 2]), "");
    assert_eq!(concatenate(&[64, 32]), "0.1: Blocks(32), 1.1: Blocks(32)");
    assert_eq!(concatenate(&[9, 3]), "0.1: Blocks(3), 1.1: Blocks(3)");
    assert_eq!(concatenate(&[64]), "0.1: Blocks(64)");
    assert_eq!([concatenate(&[2, 2]), concatenate(&[64, 63])], [""; 2]);
}

#[test]
fn bounds_keep_their_distance_to_the_nearer_end() {
    assert_eq!([moved(62, 64, 6), moved(64, 64, 6), moved(61, 64, 6), moved(2, 64, 6)], [4, 6, 5, 2]);
    assert_eq!([scaled(32, 64, 8), scaled(-32, 64, 8), scaled(2, 64, 8), scaled(-2, 64, 8)], [4, -4, 2, -2]);
    assert_eq!([scaled(3, 64, 64), scaled(3, 9, 6)], [3, 2]);
    assert_eq!([gcd(96, 36), gcd(36, 96), gcd(-4, 0), gcd(0, 5), gcd(7, 3)], [12, 12, 4, 5, 1]);
}

#[test]
fn a_running_window_is_as_long_as_its_dimension_on_the_same_side() {
    let window = |size, pad_low, pad_high| WindowDim { size, pad_low, pad_high, ..WindowDim::default() };
    let after = |mut it: WindowDim| {
        rewindow(&mut it, 64, 8);
        (it.size, it.pad_low, it.pad_high)
    };
    assert_eq!(after(window(64, 63, 0)), (8, 7, 0));
    assert_eq!(after(window(64, 0, 63)), (8, 0, 7));
    assert_eq!(after(window(3, 2, 0)), (3, 2, 0));
}
