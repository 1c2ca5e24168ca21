//! A plan whose stages have different meshes, on one mesh that has all of them as axes: what a stage leaves out, it does alike on.
//!
//! ```text
//! 0:x=4;1:x=2     →     x=2,y=2: what `x` splits in stage 0 both split, what `x` splits in stage 1 the first does
//! ```
//!
//! Each stage's devices compute what they would, some of them more than once; what goes from stage to stage becomes a movement.

use crate::check::listed;
use crate::derive::{InstrFacts, Leaf, MESH_NOTE, Problem, STAGES_NOTE, derive, planned_comps};
use crate::partial;
use crate::pricing::{AxisMask, axes_of};
use phzc_ir::{Diagnostic, Instr, Key, Layout, MAX_AXES, Mesh, Module, Result, Shape, Sharding, Value};
use std::ops::Range;

/// Per axis of a mesh: the axes of the one mesh that it is.
type Place = Vec<Range<usize>>;

/// The plan on one mesh. What goes to a stage on another mesh has to be a movement there, as in all plans of phzc.
///
/// # Errors
/// When the header cannot be read, what the plan says is not as it should be, or the meshes have more than four axes together with the microbatches.
pub fn on_one_mesh(planned: &Module) -> Result<Module> {
    let facts = derive(planned)?;
    let problems: Vec<&Problem> = facts.problems.iter().collect();
    if let Some(error) = listed(planned, &problems, Diagnostic::error) {
        return Err(error);
    }
    let meshes = &facts.header.meshes;
    if meshes.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(planned.clone());
    }
    let most_axes = MAX_AXES - usize::from(facts.header.n_microbatches > 1);
    let (mesh, places) = common(meshes, most_axes).ok_or_else(|| {
        Diagnostic::error("the meshes of the stages have more than four axes together, microbatches included")
            .help("plan with `place{groups=equal}`")
    })?;
    let mut found = planned.clone();
    for comp in planned_comps(planned) {
        let own = &facts.comps[comp.index()];
        for (instr, own) in found.comps[comp.index()].instrs.iter_mut().zip(own) {
            lay_out(instr, own, &places, &mesh);
        }
    }
    let stages: Vec<String> = (0..meshes.len()).map(|stage| format!("{stage}:{mesh}")).collect();
    found.set_note(STAGES_NOTE, &stages.join(";"));
    found.set_note(MESH_NOTE, &mesh.to_string());
    found.set_attr("num_partitions", mesh.n_devices().to_string());
    Ok(found)
}

/// Gives an instruction the layouts that it has, on the one mesh.
fn lay_out(instr: &mut Instr, own: &InstrFacts, places: &[Place], mesh: &Mesh) {
    let axes = |axis: usize, stage: usize| places[stage].get(axis).cloned().unwrap_or(0..0);
    let layout = |layout: Layout, stage: usize| {
        let split = (0..places[stage].len()).filter_map(|axis| Some((axis, layout.dim_of(axis)?)));
        let all = split.flat_map(|(axis, dim)| axes(axis, stage).map(move |other| (other, dim)));
        all.fold(Layout::REPLICATED, |layout, (axis, dim)| layout.with(axis, Some(dim)))
    };
    let mask = |partial: AxisMask, stage: usize| {
        axes_of(partial).flat_map(|axis| axes(axis, stage)).fold(0, |mask: AxisMask, axis| mask | 1 << axis)
    };
    let tiling = |(shape, leaf): (&Shape, &Leaf)| {
        let rank = shape.as_array().map_or(0, |array| array.rank());
        layout(leaf.layout, leaf.stage).to_tiling(rank, mesh)
    };
    let mut tilings: Vec<_> = instr.shape.leaves().into_iter().zip(&own.leaves).map(tiling).collect();
    let sharding = match instr.shape {
        Shape::Tuple(_) => Sharding::Tuple(tilings),
        _ => Sharding::Single(tilings.remove(0)),
    };
    let sums: Vec<AxisMask> = own.leaves.iter().map(|leaf| mask(leaf.partial, leaf.stage)).collect();
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    partial::set(instr, &sums);
}

/// The least mesh of the fewest axes that has all axes of each mesh, in order, as products of its own.
fn common(meshes: &[Mesh], most_axes: usize) -> Option<(Mesh, Vec<Place>)> {
    let mut sizes: Vec<i64> = meshes.iter().flat_map(|mesh| mesh.sizes.iter().copied()).collect();
    let mut parts: Vec<i64> =
        sizes.drain(..).flat_map(|size| (2..=size).filter(move |part| size % part == 0)).collect();
    parts.sort_unstable();
    parts.dedup();
    let mut all: Vec<Vec<i64>> = vec![Vec::new()];
    for _ in 0..most_axes {
        all = all.iter().flat_map(|axes| parts.iter().map(|&part| [&axes[..], &[part]].concat())).collect();
        all.sort_by_key(|axes| axes.iter().product::<i64>());
        let placed = |axes: &Vec<i64>| {
            let places = meshes.iter().map(|mesh| place(&mesh.sizes, axes)).collect::<Option<Vec<_>>>()?;
            Some((Mesh::new(axes), places))
        };
        if let Some(found) = all.iter().find_map(placed) {
            return Some(found);
        }
    }
    None
}

/// Where each axis of a mesh lies among these, each in a row of them and one after the other.
fn place(sizes: &[i64], axes: &[i64]) -> Option<Place> {
    let mut first = 0;
    let mut found = Vec::new();
    for &size in sizes {
        let rows = (first..axes.len()).flat_map(|start| (start + 1..=axes.len()).map(move |end| start..end));
        let row = rows.into_iter().find(|row| axes[row.clone()].iter().product::<i64>() == size)?;
        first = row.end;
        found.push(row);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_mesh_has_all_axes_of_each() {
        let mesh = |meshes: &[&[i64]], most_axes: usize| {
            let meshes: Vec<Mesh> = meshes.iter().map(|sizes| Mesh::new(sizes)).collect();
            common(&meshes, most_axes).map(|found| found.0.sizes.to_vec())
        };
        assert_eq!(mesh(&[&[4], &[2]], 3), Some(vec![2, 2]));
        assert_eq!(mesh(&[&[4], &[2, 2], &[]], 3), Some(vec![2, 2]));
        assert_eq!(mesh(&[&[2, 4], &[4, 2]], 3), Some(vec![2, 2, 2]));
        assert_eq!(mesh(&[&[4], &[3]], 3), Some(vec![3, 4]));
        assert_eq!(mesh(&[&[2, 8], &[8, 2], &[4, 4]], 3), None);
        assert_eq!(mesh(&[&[2, 8], &[8, 2], &[4, 4]], 4), Some(vec![2, 2, 2, 2]));
    }
}
