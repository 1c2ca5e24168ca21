//! Dimensions of two arrays that are read together.

use super::*;

fn whole(size: i64) -> Part {
    Part { size, kind: Kind::Whole }
}

fn free(size: i64) -> Part {
    Part { size, kind: Kind::Free }
}

fn axis(axis: usize) -> Part {
    Part { size: 2, kind: Kind::Axis(axis) }
}

fn open(size: i64) -> (Origin, Part) {
    let origin = Origin { comp: CompId::new(0), leaf: 3, dim: 1 };
    (origin, Part { size, kind: Kind::Open(origin) })
}

#[test]
fn equal_dimensions_are_one_and_are_cut_as_finely_as_both_are() {
    assert_eq!(merge(&[axis(0), whole(4)], &[axis(0), whole(4)]), Ok(vec![axis(0), whole(4)]));
    assert_eq!(merge(&[whole(6)], &[whole(2), whole(3)]), Ok(vec![whole(2), whole(3)]));
    assert_eq!(merge(&[whole(6)], &[whole(4), whole(2)]), Err(Clash::Layouts));
}

#[test]
fn what_is_the_same_everywhere_is_split_like_its_neighbour() {
    let split = vec![axis(0), whole(2), axis(1), whole(3)];
    assert_eq!(merge(&[free(6)], &split), Ok(split.clone()));
    assert_eq!(merge(&split, &[free(6)]), Ok(split.clone()));
    assert_eq!(merge(&[], &[axis(1)]), Ok(vec![axis(1)]));
    assert_eq!(merge(&[free(6)], &[whole(6), axis(1)]), Ok(vec![whole(6), axis(1)]));
}

#[test]
fn what_devices_have_alike_is_repeated_along_the_axes_of_tiles() {
    let split = vec![axis(0), whole(4)];
    assert_eq!(merge(&split, &[whole(4)]), Ok(split.clone()));
    assert_eq!(merge(&[whole(4)], &split), Ok(split.clone()));
    assert_eq!(merge(&split, &[axis(1), whole(4)]), Ok(vec![axis(0), axis(1), whole(4)]));
    assert_eq!(merge(&[axis(0), axis(1)], &[axis(1), axis(0)]), Ok(vec![axis(0), axis(1)]));
    assert_eq!(merge(&split, &[whole(8)]), Err(Clash::Layouts));
}

#[test]
fn what_may_be_split_is_asked_for() {
    let split = vec![axis(0), whole(4)];
    let (origin, part) = open(4);
    assert_eq!(merge(&split, &[part]), Err(Clash::Open(origin, split.clone())));
    assert_eq!(merge(&[part], &split), Err(Clash::Open(origin, split)));
    assert_eq!(merge(&[part], &[whole(4)]), Ok(vec![whole(4)]));
}

#[test]
fn axes_go_where_a_reader_has_them() {
    let tile = Tile::new(InstrId::new(0), &[vec![axis(0), whole(4)], vec![axis(1)]]);
    let moved = tile.with_axes_as(&[vec![axis(1), axis(0), whole(4)], vec![]]);
    assert_eq!(moved.all(), [vec![axis(1), axis(0), whole(4)], vec![]]);
    assert_eq!(moved.order, tile.order);
}

#[test]
fn a_part_is_cut_wherever_it_is_seen() {
    let mut tile = Tile::new(InstrId::new(0), &[vec![whole(6)], vec![free(4)]]);
    let rest = tile.halve(0, 2);
    assert_eq!((tile.dim(0), tile.order[0].clone()), (vec![whole(2), whole(3)], vec![0, rest]));
    tile.halve(1, 2);
    assert_eq!((tile.dim(1), tile.order[1].len()), (vec![free(2), free(2)], 0));
}
