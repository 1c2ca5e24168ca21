//! The ways that the rules find to split an op: axis by axis as all at once, and as the menu of its block has
//! them.

use super::*;
use crate::shard::strategies::{Menu, axes_on, kinds, layout};
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::Graph as Program;
use phzc_ir::FactorKind::{self, Pass, Reduce, Replicate};
use phzc_ir::{Reducer, TensorMap, parse};
use std::collections::BTreeSet;

/// The ways of all axes at once, by one saturation.
fn at_once(mesh: &Mesh, sizes: &[i64], kinds: &Kinds) -> Splits {
    derive(mesh, sizes, kinds, &splits(mesh.n_axes(), sizes.len()))
}

/// The ways that the splitter finds axis by axis.
fn axis_by_axis(mesh: &Mesh, sizes: &[i64], kinds: &Kinds) -> Splits {
    let mut splitter = Splitter::default();
    let mut found = Splits::from_iter([(Layout::REPLICATED, (Layout::REPLICATED, 0))]);
    for (axis, &n_devices) in mesh.sizes.iter().enumerate() {
        let mut next = Splits::default();
        for (&split, &(layout, partial)) in &found {
            let local: Vec<i64> =
                sizes.iter().enumerate().map(|(dim, size)| size / split.tiles(dim, mesh)).collect();
            for (way, made) in splitter.ways(n_devices, &local, kinds) {
                let layout = layout.with(axis, made.0.dim_of(0));
                next.insert(split.with(axis, way.dim_of(0)), (layout, partial | made.1 << axis));
            }
        }
        found = next;
    }
    found.sort_unstable_keys();
    found
}

const OPS: [&[FactorKind]; 5] = [
    &[Pass, Pass],
    &[Pass, Reduce(Reducer::Add), Pass],
    &[Reduce(Reducer::Max), Reduce(Reducer::Max), Pass],
    &[Pass, Replicate, Reduce(Reducer::Add), Pass],
    &[Reduce(Reducer::Max), Reduce(Reducer::Add), Pass],
];

#[test]
fn axes_one_after_the_other_split_an_op_as_all_at_once() {
    for (kinds, mesh) in
        OPS.iter().flat_map(|kinds| [&[8][..], &[2, 4], &[2, 2, 2]].map(|mesh| (kinds, mesh)))
    {
        let (kinds, mesh) = (Kinds::from_slice(kinds), Mesh::new(mesh));
        for sizes in [[8; 4], [4, 8, 2, 6], [2, 4, 16, 3]] {
            let sizes = &sizes[..kinds.len()];
            let joint = at_once(&mesh, sizes, &kinds);
            assert!(!joint.is_empty());
            assert_eq!(axis_by_axis(&mesh, sizes, &kinds), joint, "{kinds:?} of {sizes:?} on {mesh}");
        }
    }
}

/// A way to split one op: the layouts of its operands and of its result, and the axes over which that is
/// partial.
type Way = (Vec<Layout>, Layout, u8);

/// What saturation of M1, P1 and P2 finds for the last op of a program, from its factor rule alone.
fn saturated_ways(program: &Program, mesh: &Mesh) -> BTreeSet<Way> {
    let rule = &program.nodes.last().expect("there is an op").rule;
    let sizes: Vec<i64> = rule.factors.iter().map(|factor| factor.size).collect();
    let kinds: Kinds = rule.factors.iter().map(|factor| factor.kind).collect();
    let in_dims = |loops: Layout, map: &TensorMap| {
        let dim_of = |factor: usize| map.iter().position(|dim| dim.first() == Some(&(factor as u32)));
        let with = |found: Layout, axis| found.with(axis, loops.dim_of(axis).and_then(dim_of));
        (0..mesh.n_axes()).fold(Layout::REPLICATED, with)
    };
    let way = |(&split, &(made, partial)): (&Layout, &Made)| {
        let operands = rule.operands.iter().map(|map| in_dims(split, map)).collect();
        (operands, in_dims(made, &rule.results[0]), partial)
    };
    at_once(mesh, &sizes, &kinds).iter().map(way).collect()
}

/// What the menu of the last op's block offers it, reductions by its factor rule.
fn menu_ways(program: &Program, blocks: &Blocks, mesh: &Mesh) -> BTreeSet<Way> {
    let id = program.nodes.len() - 1;
    let (node, block) = (&program.nodes[id], blocks.block_of[id].expect("it has a block"));
    let mut splitter = Splitter::default();
    let menu =
        Menu::build((program, blocks), block, mesh, &|class| blocks.classes.size(class), &mut splitter);
    let reduced = splitter.reduced(&kinds(program, blocks, id as u32, &menu.loops));
    let way = |strategy| {
        let read = |slot| layout(strategy, &menu.view(blocks.use_map(id as u32, slot)));
        let made = layout(strategy, &menu.view(blocks.def_map(node.results[0])));
        ((0..node.operands.len()).map(read).collect(), made, axes_on(strategy, reduced))
    };
    menu.strategies.iter().map(way).collect()
}

/// The number of ways to split the last op of a program, equal by rules and by menu.
fn check(op: &str, mesh: &[i64]) -> usize {
    let text = format!(
        "add {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b) }}
        max {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] maximum(a, b) }}
        ENTRY e {{ x = f32[16,8,4] parameter(0)
        y = f32[16,8,4] parameter(1)
        w = f32[8,12] parameter(2)
        v = f32[4,8,3] parameter(3)
        zero = f32[] constant(0)
        ROOT r = {op} }}"
    );
    let module = parse(&text).expect("a legal program");
    let (program, mesh) = (Program::build(&module), Mesh::new(mesh));
    // Everything has a layout already, so that the op is a block of its own.
    let blocks = Blocks::build(&module, &program, &vec![true; program.tensors.len()]);
    let ways = saturated_ways(&program, &mesh);
    assert_eq!(menu_ways(&program, &blocks, &mesh), ways, "{op} on {mesh}");
    ways.len()
}

#[test]
fn the_menu_offers_what_saturation_finds() {
    let ops = [
        "f32[16,8,4] add(x, y)",
        "f32[16,8,4] exponential(x)",
        "f32[8,4,16] transpose(x), dimensions={1,2,0}",
        "f32[16,4,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[4,16,3] dot(x, v), lhs_batch_dims={2}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[16,4] reduce(x, zero), dimensions={1}, to_apply=add",
        "f32[16,4] reduce(x, zero), dimensions={1}, to_apply=max",
        "f32[4] reduce(x, zero), dimensions={0,1}, to_apply=add",
        "f32[16,8,4] reverse(x), dimensions={1}",
    ];
    let counts = |mesh: &[i64]| ops.map(|op| check(op, mesh));
    assert_eq!(counts(&[4]), [4, 4, 4, 5, 4, 4, 4, 4, 3]);
    assert_eq!(counts(&[2, 4]), [15, 15, 15, 23, 15, 15, 15, 15, 8]);
    assert_eq!(counts(&[2, 2, 2]), [63, 63, 63, 123, 63, 63, 63, 63, 26]);
}
