//! Strategies under Alpa's names, and `strategy_map.txt`: every contraction with what its menu offers.
//!
//! ```text
//! Strategy Map
//! Instruction 47: %h = f32[64,128] dot(f32[64,32] %x, f32[32,128] %w), lhs_contracting_dims={1}, …
//! Strategy SS = SR x RS @ {0,1}
//! Strategy SR = SS x SR @ {0,1} (allreduce @ 1)
//! ```
//!
//! Result, left and right operand, a letter per role: `S` is split, `R` is whole; then the mesh axes of the
//! split loops, rows first (reference/cfp-alpa.md 1.7, 2.2). Strategies that Alpa does not have are named in
//! the same way. A loop's number follows its letter where a role has several loops.

mod full;

use super::model::Model;
use super::strategies::Strategy;
use phzc_analysis::block_list::bare_instr;
use phzc_analysis::graph::NodeId;
use phzc_analysis::roles::{Role, has, roles};
use phzc_ir::{MAX_AXES, Module};
use smallvec::SmallVec;
use std::fmt::Write;

/// A loop of a contraction that a strategy splits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    role: Role,
    /// Its number among the loops of its role, where there are several.
    number: Option<usize>,
    /// The mesh axes that split it, a bit each.
    axes: u8,
    /// Whether each operand has it.
    is_in: [bool; 2],
}

/// A strategy of one contraction; Alpa's enumeration orders first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    form: usize,
    axes: String,
    text: String,
}

/// The text of `strategy_map.txt`; in full, each strategy with its costs.
pub fn describe(module: &Module, model: &mut Model, is_full: bool) -> String {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let mut out = "Strategy Map\n".to_owned();
    for (id, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.is_contraction) {
        let Some(block) = blocks.block_of[id] else { continue };
        let instr = bare_instr(module, node);
        let line = phzc_ir::text::print_instr_long(module, module.comp(node.comp), &instr);
        let _ = writeln!(out, "Instruction {id}: {line}");
        for option in ordered(model, id as NodeId) {
            let strategy = model.menus[block as usize].strategies[option as usize];
            let costs = if is_full { full::costs(model, id as NodeId, &strategy) } else { String::new() };
            let _ = writeln!(out, "Strategy {}{costs}", name(model, id as NodeId, &strategy));
        }
    }
    out
}

/// The strategies of a contraction's block in Alpa's order; of those that it cannot tell apart the first.
pub(super) fn ordered(model: &Model, id: NodeId) -> Vec<u32> {
    let Some(block) = model.input.blocks.block_of[id as usize] else { return Vec::new() };
    let strategies = model.menus[block as usize].strategies.iter();
    let mut names: Vec<(Name, u32)> =
        strategies.zip(0..).map(|(strategy, option)| (named(model, id, strategy), option)).collect();
    names.sort();
    names.dedup_by(|(later, _), (earlier, _)| later == earlier);
    names.into_iter().map(|(_, option)| option).collect()
}

/// Alpa's name of a block's strategy as one of the block's contractions sees it.
pub fn name(model: &Model, id: NodeId, strategy: &Strategy) -> String {
    named(model, id, strategy).text
}

fn named(model: &Model, id: NodeId, strategy: &Strategy) -> Name {
    alpa(&splits(model, id, strategy), model.mesh.n_axes())
}

/// The split loops of a contraction, in the order batch, left, contracted, right.
fn splits(model: &Model, id: NodeId, strategy: &Strategy) -> Vec<Split> {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let (node, loops) = (&graph.nodes[id as usize], roles(&graph.nodes[id as usize]));
    let Some(block) = blocks.block_of[id as usize] else { return Vec::new() };
    let menu = &model.menus[block as usize];
    let mut found = Vec::new();
    for &(factor, role) in &loops {
        let mut classes: SmallVec<[u32; 2]> = SmallVec::new();
        blocks.classes.leaves(blocks.node_classes[id as usize][factor], &mut classes);
        let axes = super::strategies::axes_on(strategy, menu.mask(&classes));
        let mut same_role = loops.iter().filter(|&&(_, other)| other == role);
        let position = same_role.clone().position(|&(other, _)| other == factor);
        let number = position.filter(|_| same_role.nth(1).is_some());
        if axes != 0 {
            found.push(Split { role, number, axes, is_in: [has(node, 0, factor), has(node, 1, factor)] });
        }
    }
    found.sort_by_key(|split| (WRITTEN.iter().position(|&role| role == split.role), split.number));
    found
}

/// The order in which a name lists the axes of split loops.
const WRITTEN: [Role; 4] = [Role::Batch, Role::Left, Role::Contracted, Role::Right];

/// Alpa's name of a split.
fn alpa(splits: &[Split], n_axes: usize) -> Name {
    let roles: SmallVec<[Role; 4]> = splits.iter().map(|split| split.role).collect();
    let form = form(&roles);
    match splits {
        [one] if n_axes > 1 && one.axes.count_ones() as usize == n_axes => flattened(one),
        [one] if one.role == Role::Batch => {
            let axes = digits(one.axes, n_axes);
            let text = format!("Sb_{} = Sb x Sb @ {{{axes}}}", one.number.unwrap_or(0));
            Name { form, axes, text }
        }
        _ if roles.contains(&Role::Batch) => batched(splits, n_axes, form),
        [one] if n_axes == 1 => {
            // Alpa's one-dimensional mesh is 1 x n: the loop that its axis 0 "splits" is named too.
            let other = if one.role == Role::Right { Role::Left } else { Role::Right };
            let idle = Split { role: other, number: None, axes: 0, is_in: [true; 2] };
            let both = if other == Role::Left { [idle, *one] } else { [*one, idle] };
            plain(&both, n_axes, if one.role == Role::Contracted { 2 } else { 0 })
        }
        _ => plain(splits, n_axes, form),
    }
}

/// Position in Alpa's enumeration of the splits of these roles; what Alpa does not have comes later.
fn form(roles: &[Role]) -> usize {
    use Role::{Batch, Contracted, Left, Right};
    match roles {
        [Left, Right] => 0,
        [Left, Contracted] => 1,
        [Contracted, Right] => 2,
        [Contracted] => 3,
        [Batch] => 4,
        [Batch, Batch] => 5,
        [Batch, Left] => 6,
        [Batch, Right] => 7,
        [Batch, Contracted] => 8,
        [] => 11,
        _ => 10,
    }
}

/// `SS = SR x RS @ {0,1}`: two letters per tensor.
fn plain(splits: &[Split], n_axes: usize, form: usize) -> Name {
    let letter = |role: Role, tensor: Option<usize>| -> String {
        let split = present(splits, role, tensor).map(|split| format!("S{}", number(split)));
        let letters: String = split.collect();
        if letters.is_empty() { "R".to_owned() } else { letters }
    };
    let letters = |roles: [Role; 2], tensor| roles.map(|role| letter(role, tensor)).concat();
    let result = letters([Role::Left, Role::Right], None);
    let left = letters([Role::Left, Role::Contracted], Some(0));
    let right = letters([Role::Contracted, Role::Right], Some(1));
    let axes = axis_list(splits, n_axes);
    let at = if axes.is_empty() { String::new() } else { format!(" @ {{{axes}}}") };
    let reduction = reduction(splits, n_axes, ')');
    Name { form, text: format!("{result} = {left} x {right}{at}{reduction}"), axes }
}

fn letter(role: Role) -> char {
    match role {
        Role::Batch => 'b',
        Role::Left => 'i',
        Role::Contracted => 'k',
        Role::Right => 'j',
    }
}

/// `SbSi = SbSi x SbR @ {0,1}`: only the split loops are named.
fn batched(splits: &[Split], n_axes: usize, form: usize) -> Name {
    let is_all_batch = splits.iter().all(|split| split.role == Role::Batch);
    let letters = |roles: [Role; 3], tensor: Option<usize>| {
        let of = |role: Role| -> String {
            present(splits, role, tensor).map(|split| format!("S{}{}", letter(role), number(split))).collect()
        };
        let rest = format!("{}{}", of(roles[1]), of(roles[2]));
        let batch = if is_all_batch { "Sb".to_owned() } else { of(roles[0]) };
        batch + if rest.is_empty() && !is_all_batch { "R" } else { &rest }
    };
    let result = letters([Role::Batch, Role::Left, Role::Right], None);
    let left = letters([Role::Batch, Role::Left, Role::Contracted], Some(0));
    let right = letters([Role::Batch, Role::Contracted, Role::Right], Some(1));
    let axes = axis_list(splits, n_axes);
    // The brace is Alpa's.
    let reduction = reduction(splits, n_axes, '}');
    Name { form, text: format!("{result} = {left} x {right} @ {{{axes}}}{reduction}"), axes }
}

/// One loop split by all axes of the mesh, which Alpa sees as one.
fn flattened(one: &Split) -> Name {
    let number = number(one);
    let text = match one.role {
        Role::Batch => format!("Sb_{} = Sb x Sb @ {{0}} 1d", one.number.unwrap_or(0)),
        Role::Left => format!("Si{number} = Si{number} x R @ 0"),
        Role::Right => format!("Sj{number} = R x Sj{number} @ 0"),
        Role::Contracted => format!("R = Sk{number} x Sk{number} @ 0 (allreduce @ 0)"),
    };
    Name { form: 9, axes: "0".to_owned(), text }
}

/// The split loops of a role that an operand has (`None`: the result, which has all but contracted ones).
fn present(splits: &[Split], role: Role, tensor: Option<usize>) -> impl Iterator<Item = &Split> {
    splits.iter().filter(move |split| split.role == role && tensor.is_none_or(|slot| split.is_in[slot]))
}

fn number(split: &Split) -> String {
    split.number.map(|number| number.to_string()).unwrap_or_default()
}

/// The axes of each split loop, loops apart.
fn axis_list(splits: &[Split], n_axes: usize) -> String {
    splits.iter().map(|split| digits(split.axes, n_axes)).collect::<Vec<_>>().join(",")
}

/// Alpa's mesh dimensions: those of a one-dimensional mesh are an idle 0 and a 1.
fn digits(axes: u8, n_axes: usize) -> String {
    if n_axes == 1 {
        return axes.to_string();
    }
    (0..MAX_AXES).filter(|axis| axes >> axis & 1 == 1).map(|axis| axis.to_string()).collect()
}

fn reduction(splits: &[Split], n_axes: usize, close: char) -> String {
    let axes = splits.iter().filter(|split| split.role == Role::Contracted).map(|split| split.axes);
    match axes.fold(0, |all, axes| all | axes) {
        0 => String::new(),
        axes => format!(" (allreduce @ {}{close}", digits(axes, n_axes)),
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Batch, Contracted, Left, Right};
    use super::*;
    use crate::testing::artifact;
    use insta::assert_snapshot;

    /// The name of a strategy that gives axis `a` of the mesh to the `a`-th of these roles.
    fn check(axes: &[Role]) -> String {
        let mut splits: Vec<Split> = Vec::new();
        for (axis, &role) in axes.iter().enumerate() {
            splits.push(Split { role, number: None, axes: 1 << axis, is_in: [role != Right, role != Left] });
        }
        splits.sort_by_key(|split| WRITTEN.iter().position(|&role| role == split.role));
        alpa(&splits, axes.len()).text
    }

    /// A strategy that gives the whole mesh of two axes to one loop.
    fn check_one(role: Role, number: Option<usize>) -> String {
        alpa(&[Split { role, number, axes: 0b11, is_in: [true; 2] }], 2).text
    }

    #[test]
    fn names_are_those_of_alpa_s_table() {
        assert_eq!(check(&[Left, Right]), "SS = SR x RS @ {0,1}");
        assert_eq!(check(&[Right, Left]), "SS = SR x RS @ {1,0}");
        assert_eq!(check(&[Left, Contracted]), "SR = SS x SR @ {0,1} (allreduce @ 1)");
        assert_eq!(check(&[Contracted, Left]), "SR = SS x SR @ {1,0} (allreduce @ 0)");
        assert_eq!(check(&[Contracted, Right]), "RS = RS x SS @ {0,1} (allreduce @ 0)");
        assert_eq!(check(&[Right, Contracted]), "RS = RS x SS @ {1,0} (allreduce @ 1)");
        assert_eq!(check(&[Batch, Batch]), "Sb = Sb x Sb @ {0,1}");
        assert_eq!(check(&[Batch, Left]), "SbSi = SbSi x SbR @ {0,1}");
        assert_eq!(check(&[Batch, Right]), "SbSj = SbR x SbSj @ {0,1}");
        assert_eq!(check(&[Batch, Contracted]), "SbR = SbSk x SbSk @ {0,1} (allreduce @ 1}");
        let one = Split { role: Contracted, number: None, axes: 0b01, is_in: [true; 2] };
        assert_eq!(alpa(&[one], 2).text, "RR = RS x SR @ {0} (allreduce @ 0)");
        assert_eq!(check_one(Left, None), "Si = Si x R @ 0");
        assert_eq!(check_one(Contracted, None), "R = Sk x Sk @ 0 (allreduce @ 0)");
        assert_eq!(check_one(Batch, Some(1)), "Sb_1 = Sb x Sb @ {0} 1d");
    }

    #[test]
    fn the_file_lists_the_strategies_of_every_contraction_on_the_chosen_mesh() {
        let text = "ENTRY e {
            x = f32[64,32] parameter(0)
            w = f32[32,64] parameter(1)
            ROOT h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
        assert_snapshot!(artifact("shard{mesh=8}", text, "strategy_map.txt"), @r"
        Strategy Map
        Instruction 2: %h = f32[64,64] dot(f32[64,32] %x, f32[32,64] %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        Strategy SS = SR x RS @ {0,1}
        Strategy SS = SR x RS @ {1,0}
        Strategy RS = RS x SS @ {1,0} (allreduce @ 1)
        Strategy RR = RR x RR
        ");
    }

    #[test]
    fn a_mesh_of_one_axis_is_alpa_s_1_x_n() {
        assert_eq!(check(&[Right]), "SS = SR x RS @ {0,1}");
        assert_eq!(check(&[Left]), "SS = SR x RS @ {1,0}");
        assert_eq!(check(&[Contracted]), "RS = RS x SS @ {1,0} (allreduce @ 1)");
        assert_eq!(check(&[Batch]), "Sb_0 = Sb x Sb @ {1}");
    }

    #[test]
    fn strategies_that_alpa_does_not_have_are_named_in_the_same_way() {
        assert_eq!(alpa(&[], 2).text, "RR = RR x RR");
        assert_eq!(check(&[Left, Right, Contracted]), "SS = SS x SS @ {0,2,1} (allreduce @ 2)");
        let first = Split { role: Left, number: Some(0), axes: 0b01, is_in: [true, false] };
        let second = Split { number: Some(1), axes: 0b10, ..first };
        assert_eq!(alpa(&[second], 2).text, "S1R = S1R x RR @ {1}");
        assert_eq!(alpa(&[first, second], 2).text, "S0S1R = S0S1R x RR @ {0,1}");
    }

    #[test]
    fn strategies_are_listed_in_the_order_of_alpa_s_enumeration() {
        let all: [&[Role]; 12] = [
            &[Left, Right],
            &[Left, Contracted],
            &[Contracted, Right],
            &[Contracted],
            &[Batch],
            &[Batch, Batch],
            &[Batch, Left],
            &[Batch, Right],
            &[Batch, Contracted],
            &[],
            &[Left],
            &[Left, Contracted, Right],
        ];
        assert_eq!(all.map(form), [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 10, 10]);
    }
}
