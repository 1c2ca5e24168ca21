//! Every change of layout of a matrix on a cube of devices: each movement is what it is called, and the last
//! ends where it should.

use super::*;
use phzc_cost::Collective;
use phzc_ir::Mesh;

/// Three axes, each on either dimension or on none.
fn layouts() -> Vec<Layout> {
    let dim = |code: usize, axis: u32| [None, Some(0), Some(1)][code / 3usize.pow(axis) % 3];
    let layout = |code| (0..3).fold(Layout::REPLICATED, |at, axis| at.with(axis, dim(code, axis as u32)));
    (0..27).map(layout).collect()
}

/// What is wrong about a movement from a layout, of which tiles were put in another order just before or not.
fn wrong(from: Layout, is_reordered: bool, step: &Move, mesh: &Mesh) -> Option<&'static str> {
    let axes: Vec<usize> = axes_of(step.axes).collect();
    let (was, is) = (|axis: &usize| from.dim_of(*axis), |axis: &usize| step.layout.dim_of(*axis));
    let others_stay = (0..3).filter(|axis| !axes.contains(axis)).all(|axis| was(&axis) == is(&axis));
    // Axes that leave a dimension are its minor ones, or have been made so.
    let is_minor = |at: Layout, axis: usize, dim| {
        is_reordered || at.axes_of(dim).all(|other| other <= axis || axes.contains(&other))
    };
    let right = match step.kind {
        None => axes.iter().all(|axis| was(axis).is_none() && is(axis).is_some()),
        Some(Collective::AllGather) => axes.iter().all(|axis| {
            let dim = was(axis).expect("it was split");
            is(axis).is_none() && is_minor(from, *axis, dim)
        }),
        Some(Collective::AllToAll) => axes.iter().all(|axis| {
            let (before, after) = (was(axis).expect("it was split"), is(axis).expect("it is split"));
            before != after && is_minor(from, *axis, before)
        }),
        Some(Collective::Permute) => (0..2).all(|dim| from.tiles(dim, mesh) == step.layout.tiles(dim, mesh)),
        Some(_) => false,
    };
    (!right).then_some("is not what it is called").or((!others_stay).then_some("moves other axes"))
}

#[test]
fn movements_are_what_they_are_called_and_end_where_they_should() {
    let mesh = Mesh::new(&[2, 2, 2]);
    for dims in [[8, 8], [2, 8], [4, 2]] {
        let fits: Vec<Layout> = layouts().into_iter().filter(|it| it.divides(&dims, &mesh)).collect();
        for (from, to) in fits.iter().flat_map(|from| fits.iter().map(move |to| (*from, *to))) {
            let found = moves(from, to, &dims, &mesh);
            let (mut at, mut is_reordered) = (from, false);
            for step in &found {
                assert_eq!(
                    wrong(at, is_reordered, step, &mesh),
                    None,
                    "{step:?} of {found:?} from {from:?} to {to:?}"
                );
                assert!(step.layout.divides(&dims, &mesh), "{found:?}");
                (at, is_reordered) = (step.layout, step.kind == Some(Collective::Permute));
            }
            assert_eq!(at, to, "from {from:?}: {found:?}");
            assert!(found.len() <= 7 && (from != to || found.is_empty()), "{found:?}");
        }
    }
}

#[test]
fn what_only_splits_further_sends_nothing() {
    let mesh = Mesh::new(&[2, 2, 2]);
    let is_finer = |from: Layout, to: Layout| {
        let keeps = (0..3).all(|axis| from.dim_of(axis).is_none() || from.dim_of(axis) == to.dim_of(axis));
        let last = |dim| from.axes_of(dim).max();
        let new = |axis: &usize| from.dim_of(*axis).is_none();
        let is_next =
            |axis: usize| to.dim_of(axis).is_none_or(|dim| last(dim).is_none_or(|last| axis > last));
        keeps && (0..3).filter(new).all(is_next)
    };
    for (from, to) in layouts().into_iter().flat_map(|from| layouts().into_iter().map(move |to| (from, to))) {
        let is_silent = moves(from, to, &[8, 8], &mesh).iter().all(|step| step.kind.is_none());
        assert_eq!(is_silent, is_finer(from, to), "{from:?} {to:?}");
    }
}

#[test]
fn axes_of_one_size_take_each_other_s_places_and_those_of_another_do_not() {
    let kinds = |mesh: &Mesh| -> Vec<Option<Collective>> {
        let (from, to) = (Layout::REPLICATED.with(0, Some(0)), Layout::REPLICATED.with(1, Some(0)));
        moves(from, to, &[8, 8], mesh).iter().map(|step| step.kind).collect()
    };
    assert_eq!(kinds(&Mesh::new(&[2, 2])), [Some(Collective::Permute)]);
    assert_eq!(kinds(&Mesh::new(&[2, 4])), [None, Some(Collective::Permute), Some(Collective::AllGather)]);
}

#[test]
fn sums_are_scattered_where_their_axis_is_the_next_minor_one() {
    let at = |dims: [Option<usize>; 3]| (0..3).fold(Layout::REPLICATED, |it, axis| it.with(axis, dims[axis]));
    let (whole, zero) = (at([None; 3]), Some(0));
    assert_eq!(reductions(whole, whole, 0b011), (0, 0b011, whole));
    assert_eq!(reductions(whole, at([zero, None, None]), 0b011), (0b01, 0b10, at([zero, None, None])));
    assert_eq!(reductions(whole, at([zero, zero, None]), 0b011), (0b11, 0, at([zero, zero, None])));
    // The first axis is on the dimension but not yet: its tiles would lie within those of the second.
    assert_eq!(reductions(whole, at([zero, zero, None]), 0b010), (0, 0b010, whole));
    assert_eq!(
        reductions(at([None, zero, None]), at([zero, zero, None]), 0b001),
        (0, 0b001, at([None, zero, None]))
    );
    assert_eq!(
        reductions(at([zero, None, None]), at([zero, zero, None]), 0b010),
        (0b10, 0, at([zero, zero, None]))
    );
}

#[test]
fn all_results_of_an_op_are_split_as_its_loops_are() {
    let reduce = |first: &str, second: &str| {
        facts(
            XY,
            &format!(
                "pick {{ p = f32[] parameter(0) q = f32[] parameter(1) r = f32[] parameter(2) s = f32[] parameter(3) ROOT t = (f32[], f32[]) tuple(p, q) }}
                ENTRY e {{
                a = f32[16,8,4] parameter(0), sharding={{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}}
                z = f32[] constant(0), sharding={WHOLE}
                ROOT r = (f32[16,8], f32[16,8]) reduce(a, a, z, z), dimensions={{2}}, to_apply=pick, sharding={{{first}, {second}}}
                }}"
            ),
        )
    };
    assert_eq!(reduce(ROWS_X, ROWS_X), "");
    let problem = "`r` makes part 1 of its result split otherwise along `x`";
    assert_eq!(reduce(ROWS_X, WHOLE), format!("!r: all-gather over x, 512 bytes, 1 times\n{problem}"));
    assert_eq!(reduce(ROWS_X, COLS_X), format!("!r: all-to-all over x, 256 bytes, 1 times\n{problem}"));
}
