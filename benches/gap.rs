//! How far `shard`'s choice is from the best one, at most: every program of the corpus and of `examples/`, on
//! meshes of one, two and three axes, with all memory and with little.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{corpus, examples, program as text};
use phzc_cost::Cluster;
use phzc_ir::{Mesh, Module, text::parse};
use phzc_passes::blocks::Blocks;
use phzc_passes::graph::Graph;
use phzc_passes::inline;
use phzc_passes::shard::model::{Goal, Input};
use phzc_passes::shard::{Facts, Solved, solve_on};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MESHES: [&[i64]; 3] = [&[8], &[2, 4], &[2, 2, 2]];
/// The memory to do with, between the least that any choice needs (0) and what the fastest one takes (1).
const PRESSURE: f64 = 0.5;
/// What is wanted.
const MOST: f64 = 0.005;

/// One choice: its name, and what is known of it.
struct Line {
    what: String,
    gap: f64,
}

fn main() {
    let mut lines = Vec::new();
    println!(
        "program                    mesh   memory    planned s    bound s      gap       stop        seconds"
    );
    // The forms of a program are one program.
    let is_form = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "forms");
    for path in examples().into_iter().chain(corpus()).filter(|path| !is_form(path)) {
        let Ok(mut module) = parse(&text(&path)) else { continue };
        let is_planned = module.note("phzc.mesh").is_some();
        if !is_planned && inline::flatten(&mut module).is_ok() {
            MESHES.iter().for_each(|sizes| lines.extend(choices(&path, &module, &Mesh::new(sizes))));
        }
    }
    let worst = lines.iter().max_by(|a, b| a.gap.total_cmp(&b.gap)).expect("examples are there");
    let within = lines.iter().filter(|line| line.gap <= MOST).count();
    println!("{within} of {} choices within {:.1} % of the bound", lines.len(), 100.0 * MOST);
    println!("largest gap: {:.3} % ({})", 100.0 * worst.gap, worst.what);
}

/// The choice with all memory, and the one with little.
fn choices(path: &Path, module: &Module, mesh: &Mesh) -> Vec<Line> {
    let cluster = Cluster::named("a100-8").expect("it is built in");
    let graph = Graph::build(module);
    let blocks = Blocks::build(module, &graph, &vec![false; graph.tensors.len()]);
    let facts = Facts::new(module, &graph, &blocks, vec![None; graph.tensors.len()]);
    let input = facts.input(&graph, &blocks, &cluster);
    let solve = |memory_bytes: Option<f64>| timed(input, mesh, memory_bytes);
    let Some((free, secs)) = solve(None) else { return Vec::new() };
    let least = solve(Some(0.0)).map_or(free.choice.memory, |(least, _)| least.choice.memory);
    let limit = least + PRESSURE * (free.choice.memory - least);
    let mut lines = vec![line(path, &free, "all", secs)];
    if limit < free.choice.memory {
        lines.extend(solve(Some(limit)).map(|(tight, secs)| line(path, &tight, "half", secs)));
    }
    lines
}

fn timed(input: Input, mesh: &Mesh, memory_bytes: Option<f64>) -> Option<(Solved, f64)> {
    let start = Instant::now();
    let solved = solve_on(input, mesh, &Goal { weights: [1.0; 3], memory_bytes })?;
    Some((solved, start.elapsed().as_secs_f64()))
}

fn line(path: &Path, solved: &Solved, memory: &str, secs: f64) -> Line {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (choice, gap) = (&solved.choice, solved.choice.gap());
    println!(
        "{name:26} {:6} {memory:6} {:12.6} {:12.6} {:8.4} %  {:12} {secs:6.2}",
        solved.mesh.sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x"),
        choice.cost,
        choice.lower_bound,
        100.0 * gap,
        choice.stop.as_str(),
    );
    Line { what: format!("{name}, {} memory", memory), gap }
}
