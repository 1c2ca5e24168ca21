//! JAX: a Python module with the meshes, a `PartitionSpec` per argument and result by its key path, and those
//! of the products inside by where these come from.

use super::Export;
use super::run::Run;
use indexmap::IndexMap;
use phzc_ir::{FusionKind, InstrId, Mesh, Opcode, loops};
use phzc_passes::derive::{Leaf, Phase};

/// What stands before the layouts.
const IMPORTS: &str = "
import math
import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

";

/// What stands behind them.
const FUNCTIONS: &str = include_str!("jax.py");

/// The file, with what layouts cannot say.
pub fn write(run: &Run) -> Export {
    let mut lost = Vec::new();
    let (n_stages, n_microbatches) = (run.plan.stages.len(), run.plan.n_microbatches);
    if n_stages > 1 {
        lost.push(format!("the schedule of {n_stages} stages: `phzc.plan(…).pipeline()` runs it"));
    }
    if n_microbatches > 1 {
        lost.push(format!("{n_microbatches} microbatches: `phzc.plan(…).jit()` runs them"));
    }
    if run.recompute_share > 0.0 {
        lost.push("what is recomputed: `jax.checkpoint` is called by the model".to_owned());
    }
    let (inputs, outputs) = (inputs(run), outputs(run));
    let text = [
        super::comment(run, "JAX meshes and layouts", &lost),
        IMPORTS.to_owned(),
        meshes(run),
        table("INPUTS", "stage and layout of each argument, by key path", &inputs),
        table("OUTPUTS", "the same of each result, in order", &outputs),
        table("PRODUCTS", "the same of products of the forward part, by source line or name", &products(run)),
        FUNCTIONS.to_owned(),
    ];
    Export { text: text.concat(), lost }
}

/// Per stage: its mesh's axes, and the first device.
fn meshes(run: &Run) -> String {
    let stage = |(at, mesh): (usize, &Mesh)| {
        let axis = |axis: usize| format!("({:?}, {})", mesh.axis_name(axis), mesh.sizes[axis]);
        let axes: Vec<String> = (0..mesh.n_axes()).map(axis).collect();
        let [first, _] = run.plan.stages[at].devices;
        format!("    ({first}, [{}]),\n", axes.join(", "))
    };
    let stages: String = run.facts.header.meshes.iter().enumerate().map(stage).collect();
    let what =
        "# Per stage: the first device, and the axes of its mesh with their sizes, the outermost first.";
    format!("{what}\nMESHES = [\n{stages}]\n\n")
}

/// A dictionary of the module.
fn table(name: &str, what: &str, entries: &IndexMap<String, String>) -> String {
    let lines: String = entries.iter().map(|(key, value)| format!("    {key:?}: {value},\n")).collect();
    format!("# {}.\n{name} = {{\n{lines}}}\n\n", capital(what))
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// The arguments that the program has.
fn inputs(run: &Run) -> IndexMap<String, String> {
    let entry = run.module.entry();
    let named = |id: InstrId| (key(run, id), place(run, id));
    entry.params().into_iter().map(named).collect()
}

/// Its results, by their numbers.
fn outputs(run: &Run) -> IndexMap<String, String> {
    let entry = run.module.entry();
    let root = entry.instr(entry.root);
    let makers = if root.op == Opcode::Tuple { root.operands.to_vec() } else { vec![entry.root] };
    makers.into_iter().enumerate().map(|(at, id)| (at.to_string(), place(run, id))).collect()
}

/// Products of the forward part that say where they come from; the first of those that say the same.
fn products(run: &Run) -> IndexMap<String, String> {
    let (entry, facts) = (run.module.entry(), &run.facts.comps[run.module.entry.index()]);
    let mut found = IndexMap::new();
    for (id, instr) in entry.iter() {
        let is_product = instr.op.def().fusion == FusionKind::Matrix;
        let source = loops::source_line(instr).or_else(|| loops::op_name(instr));
        if let Some(source) = source.filter(|_| is_product && facts[id.index()].phase == Phase::Forward) {
            found.entry(source).or_insert_with(|| place(run, id));
        }
    }
    found
}

/// What JAX calls an argument: its key path, where the program has it.
fn key(run: &Run, id: InstrId) -> String {
    let instr = run.module.entry().instr(id);
    loops::op_name(instr).unwrap_or_else(|| instr.name.to_string())
}

/// `(0, P("x", None))`: the stage, and the axes that split each dimension.
fn place(run: &Run, id: InstrId) -> String {
    let own = &run.facts.comps[run.module.entry.index()][id.index()];
    let rank = run.module.entry().instr(id).shape.as_array().map_or(0, |array| array.dims.len());
    let leaf = own.leaves.first().copied().unwrap_or_default();
    let mesh = &run.facts.header.meshes[leaf.stage];
    let dims: Vec<String> = (0..rank).map(|dim| axes_of(mesh, leaf, dim)).collect();
    format!("({}, P({}))", leaf.stage, dims.join(", "))
}

fn axes_of(mesh: &Mesh, leaf: Leaf, dim: usize) -> String {
    let splits = |axis: &usize| leaf.layout.dim_of(*axis) == Some(dim);
    let names: Vec<String> =
        (0..mesh.n_axes()).filter(splits).map(|axis| format!("{:?}", mesh.axis_name(axis))).collect();
    match &names[..] {
        [] => "None".to_owned(),
        [one] => one.clone(),
        _ => format!("({})", names.join(", ")),
    }
}
