//! Units of small chains, worked out by hand.

use super::*;

fn crossings(up: &[f64]) -> Vec<Crossing> {
    up.iter().map(|&up| Crossing { up, down: 0.5 * up }).collect()
}

fn starts_in(secs: &[f64], up: &[f64], positions: Range<usize>, n: usize) -> Vec<usize> {
    starts(secs, &crossings(up), &positions.collect::<Vec<_>>(), n).collect()
}

#[test]
fn each_span_of_equal_time_starts_where_least_crosses() {
    let up = [0.0, 3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 2.0];
    assert_eq!(starts_in(&[1.0; 8], &up, 0..8, 2), [2, 7]);
    // The first position of a part of a chain may be one, that of a chain is none.
    assert_eq!(starts_in(&[1.0; 8], &up, 4..8, 2), [5, 7]);
    // The first takes half of the time: its span ends with it.
    assert_eq!(starts_in(&[4.0, 1.0, 1.0, 1.0, 1.0], &up, 0..5, 2), [2]);
    // What takes no time at the end is in no span of its own.
    assert_eq!(starts_in(&[1.0, 1.0, 0.0, 0.0], &[9.0, 9.0, 1.0, 1.0], 0..4, 1), [1]);
    assert!(starts_in(&[1.0; 4], &up, 0..4, 0).is_empty());
}

#[test]
fn both_ways_count_where_least_is_to_cross() {
    let all = [[9.0, 9.0], [1.0, 5.0], [3.0, 1.0], [2.0, 3.0]].map(|[up, down]| Crossing { up, down });
    assert_eq!(starts(&[1.0; 4], &all, &[0, 1, 2, 3], 1).collect::<Vec<_>>(), [2]);
    assert_eq!(starts(&[1.0; 4], &all, &[0, 1, 3], 1).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_layer_is_cut_where_least_crosses_and_half_a_layer_on_where_as_little_does() {
    let cuts = |up: &[f64]| starts_of_layer(&[1.0; 12], &crossings(up), (1..11).collect());
    // Attention between one residual sum and the next takes a third of the layer, the rest the other part.
    assert_eq!(cuts(&[0.0, 2.0, 3.0, 3.0, 1.0, 2.0, 4.0, 4.0, 4.0, 1.0, 2.0, 2.0]), [(4, true), (9, true)]);
    // Everywhere the same: in the middle.
    assert_eq!(cuts(&[2.0; 12]), [(1, true), (6, true)]);
    // Nowhere else as little, or only beside: in the other half, where runs are not divided.
    assert_eq!(cuts(&[0.0, 2.0, 3.0, 3.0, 1.0, 2.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0]), [(4, true), (9, false)]);
    assert_eq!(cuts(&[0.0, 2.0, 3.0, 1.2, 1.0, 2.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0]), [(3, false), (4, true)]);
}

#[test]
fn as_many_units_as_their_time_holds() {
    let up = [0.0, 3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 2.0];
    let of = |unit_secs| starts_of(&[1.0; 8], &crossings(&up), 4..8, unit_secs);
    assert_eq!((of(2.0), of(4.0), of(5.0)), (vec![5, 7], vec![7], vec![]));
}

#[test]
fn a_text_that_stands_for_itself_has_each_unit_once() {
    let (secs, up) = (vec![1.0; 4], crossings(&[0.0, 1.0, 1.0, 1.0]));
    let units = Units::whole(&secs, &up);
    assert_eq!((&units.starts[..], &units.of[..]), (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..]));
    assert_eq!(units.whole_runs(), (0..4).map(|unit| (unit..unit + 1, unit)).collect::<Vec<_>>());
    assert_eq!(of_layer(&units, 3, 0, 2), 3);
    assert_eq!(units.at(vec![0, 5, 6, 7]).starts, [0, 5, 6, 7]);
}

#[test]
fn runs_are_divided_where_no_more_crosses_than_close_by() {
    let runs = |up: &[f64]| runs(&(0..up.len()).collect::<Vec<_>>(), &crossings(up));
    assert_eq!(runs(&[0.0, 4.0, 4.0, 1.0, 4.0, 4.0]), [0..3, 3..6]);
    // Up to a quarter more is as little, more is not; four units on is not close by.
    assert_eq!(runs(&[0.0, 4.0, 1.25, 1.0, 4.0, 4.0]), [0..2, 2..3, 3..6]);
    assert_eq!(runs(&[0.0, 4.0, 1.3, 1.0, 4.0, 4.0]), [0..3, 3..6]);
    assert_eq!(runs(&[0.0, 1.0, 9.0, 9.0, 9.0, 2.0, 9.0]), [0..1, 1..5, 5..7]);
}

/// A row of seven layers, four of which are left, two units each.
fn row(number: usize, first: usize, divides: bool) -> Row {
    let cuts = [0, 2, 4, 6].map(|at| vec![(first + at, true), (first + at + 1, divides)]);
    Row { number, cuts, n_between: 3 }
}

/// A unit before the layers and one after; whether the second cut of each layer divides what is computed
/// again.
fn layered(divides: bool) -> Units {
    Units::of_rows(&[row(0, 1, divides)], &[vec![], vec![9]])
}

/// The unit of an instruction of a layer.
fn of_layer(units: &Units, unit: usize, row: usize, at: usize) -> usize {
    units.unit(unit, Some(Layer { row, at }))
}

#[test]
fn what_is_computed_again_is_divided_where_little_crosses_only() {
    let units = layered(false);
    assert_eq!(units.runs, [0..1, 1..3, 3..5, 5..7, 7..9, 9..10]);
    assert_eq!(units.whole_runs()[..4], [(0..1, 0), (1..3, 1), (3..5, 2), (5..7, 2)]);
    assert_eq!(units.whole_runs()[5..], [(9..11, 2), (11..13, 3), (13..15, 4), (15..16, 5)]);
}

#[test]
fn the_second_layer_stands_for_those_in_between() {
    let units = layered(true);
    assert_eq!(units.starts, (0..10).collect::<Vec<_>>());
    assert_eq!(units.of, [0, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(units.runs.len(), 10);
    assert_eq!(units.whole_runs()[5], (5..6, 3));
    // Unit 3 is the second layer's first: seven layers have it at 3, 5, 7, 9; what follows is six units on.
    let of_layer = |unit, at| of_layer(&units, unit, 0, at);
    assert_eq!([of_layer(1, 0), of_layer(3, 1), of_layer(3, 2), of_layer(3, 4)], [1, 3, 5, 9]);
    assert_eq!([of_layer(5, 5), of_layer(7, 6)], [11, 13]);
    assert_eq!([units.unit(0, None), units.unit(4, None), units.unit(9, None)], [0, 4, 15]);
}

#[test]
fn each_row_has_layers_that_stand_for_its_own() {
    // Row 1 comes first; a unit is before both, one between them, one after.
    let units = Units::of_rows(&[row(1, 1, true), row(0, 10, true)], &[vec![], vec![9], vec![18]]);
    assert_eq!(units.starts, (0..19).collect::<Vec<_>>());
    let (first, second) = ([3, 4].repeat(4), [12, 13].repeat(4));
    let of = [vec![0, 1, 2], first, vec![5, 6, 7, 8, 9, 10, 11], second, vec![14, 15, 16, 17, 18]].concat();
    assert_eq!(units.of, of);
    assert_eq!([units.unit(9, None), units.unit(18, None)], [15, 30]);
    // The third layer of either row.
    assert_eq!([of_layer(&units, 3, 1, 2), of_layer(&units, 12, 0, 2)], [5, 20]);
    // What follows the first row is six units on, the last layers of both twelve.
    assert_eq!([of_layer(&units, 10, 0, 0), of_layer(&units, 16, 0, 6)], [16, 28]);
}

#[test]
fn rows_out_of_order_are_no_units() {
    let cuts = [[1, 2], [3, 4], [4, 6], [7, 8]].map(|row| row.map(|start| (start, true)).to_vec());
    let units = Units::of_rows(&[Row { number: 0, cuts, n_between: 3 }], &[vec![], vec![9]]);
    assert_eq!((&units.starts[..], &units.of[..]), (&[0][..], &[0][..]));
    assert_eq!(units.whole_runs(), [(0..1, 0)]);
}
