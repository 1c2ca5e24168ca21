//! JAX: a Python module with the meshes, a `PartitionSpec` per argument and result by its key path, and those
//! of the products inside by where these come from.

use super::Export;
use super::run::Run;
use indexmap::IndexMap;
use phzc_ir::{CompId, FusionKind, InstrId, Mesh, Opcode, loops};
use phzc_passes::derive::{Leaf, Phase, planned_comps};
use serde_json::json;
use std::collections::BTreeSet;

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

/// Stages and layouts by what the program calls a value.
type Places = IndexMap<String, String>;

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
    let [inputs, outputs, products] = [
        unique(inputs(run), "inputs", &mut lost),
        outputs(run),
        unique(products(run), "products", &mut lost),
    ];
    let text = [
        super::comment(run, "JAX meshes and layouts", &lost),
        IMPORTS.to_owned(),
        meshes(run),
        table("INPUTS", "Stage and layout of each argument, by key path", &inputs),
        table("OUTPUTS", "The same of each result, in order", &outputs),
        table("PRODUCTS", "The same of products of the forward part, by source line or name", &products),
        FUNCTIONS.to_owned(),
    ];
    Export { text: text.concat(), lost, elsewhere: Vec::new() }
}

/// Those that are called alike only where they lie alike: layers of a stack that a plan takes apart, two
/// products of a line.
fn unique(all: Vec<(String, String)>, what: &str, lost: &mut Vec<String>) -> Places {
    let mut found = Places::new();
    let mut differ = BTreeSet::new();
    for (key, place) in all {
        if found.get(&key).is_some_and(|own| *own != place) {
            differ.insert(key);
        } else {
            found.insert(key, place);
        }
    }
    found.retain(|key, _| !differ.contains(key));
    if let Some(first) = differ.first() {
        let n = differ.len();
        lost.push(format!("layouts of {n} {what} that are called alike and lie otherwise (`{first}`)"));
    }
    found
}

/// Per stage: its mesh's axes, and the first device.
fn meshes(run: &Run) -> String {
    let stage = |(at, mesh): (usize, &Mesh)| {
        let axis = |axis: usize| format!("({}, {})", json!(mesh.axis_name(axis)), mesh.sizes[axis]);
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
fn table(name: &str, what: &str, entries: &Places) -> String {
    let lines: String =
        entries.iter().map(|(key, value)| format!("    {}: {value},\n", json!(key))).collect();
    format!("# {what}.\n{name} = {{\n{lines}}}\n\n")
}

/// The arguments that the program has.
fn inputs(run: &Run) -> Vec<(String, String)> {
    let (entry, comp) = (run.module.entry(), run.module.entry);
    let named = |id: InstrId| {
        let instr = entry.instr(id);
        let own = loops::op_name(instr).unwrap_or_else(|| instr.name.to_string());
        (own, place(run, comp, id, 0))
    };
    entry.params().into_iter().map(named).collect()
}

/// Its results, by their numbers.
fn outputs(run: &Run) -> Places {
    let (entry, comp) = (run.module.entry(), run.module.entry);
    let root = entry.instr(entry.root);
    let makers = if root.op == Opcode::Tuple { root.operands.to_vec() } else { vec![entry.root] };
    let leaves = makers.into_iter().flat_map(|id| {
        let n_leaves = entry.instr(id).shape.n_leaves();
        (0..n_leaves).map(move |leaf| place(run, comp, id, leaf))
    });
    leaves.enumerate().map(|(at, place)| (at.to_string(), place)).collect()
}

/// Products of the forward part that say where they come from, those of loops too.
fn products(run: &Run) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for comp in planned_comps(run.module) {
        for (id, instr) in run.module.comp(comp).iter() {
            let own = &run.facts.comps[comp.index()][id.index()];
            let is_one = instr.op.def().fusion == FusionKind::Matrix && own.phase == Phase::Forward;
            let source = loops::source_line(instr).map(|line| file_name(&line).to_owned());
            let source = source.or_else(|| loops::op_name(instr)).filter(|_| is_one);
            found.extend(source.map(|source| (source, place(run, comp, id, 0))));
        }
    }
    found
}

/// `model.py:42` of `/src/model.py:42`.
fn file_name(line: &str) -> &str {
    line.rsplit('/').next().unwrap_or(line)
}

/// `(0, P("x", None))`: the stage, and the axes that split each dimension of a leaf.
fn place(run: &Run, comp: CompId, id: InstrId, leaf: usize) -> String {
    let shapes = run.module.comp(comp).instr(id).shape.leaves();
    let rank = shapes.get(leaf).and_then(|it| it.as_array()).map_or(0, |array| array.dims.len());
    let own = &run.facts.comps[comp.index()][id.index()];
    let leaf = own.leaves.get(leaf).copied().unwrap_or_default();
    let mesh = &run.facts.header.meshes[leaf.stage];
    let dims: Vec<String> = (0..rank).map(|dim| axes_of(mesh, leaf, dim)).collect();
    format!("({}, P({}))", leaf.stage, dims.join(", "))
}

fn axes_of(mesh: &Mesh, leaf: Leaf, dim: usize) -> String {
    let splits = |axis: &usize| leaf.layout.dim_of(*axis) == Some(dim);
    let axes = (0..mesh.n_axes()).filter(splits);
    let names: Vec<String> = axes.map(|axis| json!(mesh.axis_name(axis)).to_string()).collect();
    match &names[..] {
        [] => "None".to_owned(),
        [one] => one.clone(),
        _ => format!("({})", names.join(", ")),
    }
}
