//! A plan whose stages have different meshes, on one mesh that has all of them as axes: what a stage leaves
//! out, it does alike on.
//!
//! ```text
//! 0:x=4;1:x=2     →     x=2,y=2: what `x` splits in stage 0 both split, what `x` splits in stage 1 the first does
//! ```
//!
//! Each stage's devices compute what they would, some of them more than once; what goes from stage to stage
//! becomes a movement.

use phzc_ir::{
    Diagnostic, Instr, Key, Layout, MAX_AXES, Mesh, Module, Result, Shape, Sharding, Value, notes,
};
use phzc_plan::derive::listed;
use phzc_plan::derive::{InstrFacts, Leaf, Problem, derive, planned_comps};
use phzc_plan::partial;
use phzc_plan::pricing::{AxisMask, axes_of};
use std::ops::Range;

/// Per axis of a mesh: the axes of the one mesh that it is.
type Place = Vec<Range<usize>>;

/// The plan on one mesh. What goes to a stage on another mesh has to be a movement there, as in all plans of
/// phzc.
///
/// # Errors
/// When the header cannot be read, what the plan says is not as it should be, or the meshes have more than
/// four axes together with the microbatches.
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
    found.set_note(notes::STAGES, &stages.join(";"));
    found.set_note(notes::MESH, &mesh.to_string());
    found.remove_note(notes::REPLICAS);
    found.set_attr("num_partitions", mesh.n_devices().to_string());
    Ok(found)
}

/// Gives an instruction the layouts that it has, on the one mesh.
fn lay_out(instr: &mut Instr, own: &InstrFacts, places: &[Place], mesh: &Mesh) {
    let tiling = |(shape, leaf): (&Shape, &Leaf)| {
        let rank = shape.as_array().map_or(0, |array| array.rank());
        layout_on(&places[leaf.stage], leaf.layout).to_tiling(rank, mesh)
    };
    let mut tilings: Vec<_> = instr.shape.leaves().into_iter().zip(&own.leaves).map(tiling).collect();
    let sharding = match instr.shape {
        Shape::Tuple(_) => Sharding::Tuple(tilings),
        _ => Sharding::Single(tilings.remove(0)),
    };
    let sums: Vec<AxisMask> =
        own.leaves.iter().map(|leaf| axes_on(&places[leaf.stage], leaf.partial)).collect();
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    partial::set(instr, &sums);
}

/// A layout of a stage's mesh on the one mesh.
fn layout_on(place: &Place, layout: Layout) -> Layout {
    let split = place.iter().enumerate().filter_map(|(axis, parts)| Some((parts, layout.dim_of(axis)?)));
    let all = split.flat_map(|(parts, dim)| parts.clone().map(move |axis| (axis, dim)));
    all.fold(Layout::REPLICATED, |layout, (axis, dim)| layout.with(axis, Some(dim)))
}

/// Axes of a stage's mesh on the one mesh.
fn axes_on(place: &Place, axes: AxisMask) -> AxisMask {
    let parts = axes_of(axes).filter_map(|axis| place.get(axis));
    parts.flat_map(Range::clone).fold(0, |mask: AxisMask, axis| mask | 1 << axis)
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
    use crate::testing::staged;

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

    const FOUR: &str = "sharding={devices=[4,1]<=[4]}";
    const TWO: &str = "sharding={devices=[2,1]<=[2]}";

    #[test]
    fn a_stage_s_axis_is_as_many_axes_of_the_one_mesh_as_it_takes_and_what_is_left_out_holds_the_same() {
        let module = staged(
            "",
            "0:x=4;1:x=2",
            "{}",
            &[
                (&format!("x = f32[8,4] parameter(0), {FOUR}"), "fwd", 0),
                ("zero = f32[] constant(0)", "fwd", 0),
                (
                    "s = f32[4] reduce(x, zero), dimensions={0}, to_apply=add, sharding={replicated}, \
                     frontend_attributes={phzc.partial=\"x\"}",
                    "fwd",
                    0,
                ),
                ("w = f32[4] custom-call(s), custom_call_target=\"Sharding\"", "fwd", 0),
                (&format!("m = f32[8,4] custom-call(x), custom_call_target=\"Sharding\", {TWO}"), "fwd", 1),
                (
                    "ROOT t = (f32[8,4], f32[4]) tuple(m, w), sharding={{devices=[2,1]<=[2]}, {replicated}}",
                    "fwd",
                    1,
                ),
            ],
        );
        let found = on_one_mesh(&module).expect("it has one mesh");
        let notes = [notes::STAGES, notes::MESH].map(|note| found.note(note).expect("it is noted"));
        assert_eq!(notes, ["0:x=2,y=2;1:x=2,y=2", "x=2,y=2"]);
        let shardings: Vec<String> = found
            .entry()
            .instrs
            .iter()
            .map(|instr| instr.sharding().expect("it has one").to_string())
            .collect();
        let half = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}";
        let wanted = ["{devices=[4,1]<=[4]}", "{replicated}", "{replicated}", "{replicated}", half];
        assert_eq!(shardings[..5], wanted);
        assert_eq!(shardings[5], format!("{{{half}, {{replicated}}}}"));
        let sums: Vec<Option<&str>> =
            found.entry().instrs.iter().map(|instr| instr.note("phzc.partial")).collect();
        assert_eq!(sums, [None, None, Some("xy"), None, None, None]);
        assert_eq!(derive(&found).expect("a legal header").problems, []);
    }

    #[test]
    fn a_plan_whose_stages_have_one_mesh_is_on_it() {
        let module =
            staged("", "0:x=2;1:x=2", "{}", &[(&format!("ROOT x = f32[8,4] parameter(0), {TWO}"), "fwd", 0)]);
        assert_eq!(on_one_mesh(&module).expect("it has one mesh"), module);
    }

    #[test]
    fn microbatches_leave_one_axis_less() {
        let found = |n_microbatches: usize| {
            let plan = format!("{{\"n_microbatches\":{n_microbatches}}}");
            let module = staged(
                "",
                "0:x=2,y=8;1:x=8,y=2;2:x=4,y=4",
                &plan,
                &[("ROOT x = f32[16,16] parameter(0)", "fwd", 0)],
            );
            on_one_mesh(&module).map(|module| module.note(notes::MESH)).map_err(|error| error.message)
        };
        assert_eq!(found(1), Ok(Some("x=2,y=2,z=2,w=2".to_owned())));
        let wrong = "the meshes of the stages have more than four axes together, microbatches included";
        assert_eq!(found(2), Err(wrong.to_owned()));
    }

    #[test]
    fn an_axis_is_a_row_of_axes_after_those_of_the_axes_before_it() {
        assert_eq!(place(&[4, 2], &[2, 2, 2]), Some(vec![0..2, 2..3]));
        assert_eq!(place(&[2, 4], &[2, 2, 2]), Some(vec![0..1, 1..3]));
        assert_eq!(place(&[2, 2], &[3, 2, 2]), Some(vec![1..2, 2..3]));
        assert_eq!(place(&[4, 2], &[2, 4]), None);
        assert_eq!(place(&[], &[2]), Some(vec![]));
    }
}
