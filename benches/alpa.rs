//! The same strategy graphs as Alpa's integer program states them (reference/cfp-alpa.md 2.3: rows b, e, f,
//! g), solved by HiGHS, against phzc's choice: objectives and times.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{corpus, examples, program as text};
use phzc_cost::Cluster;
use phzc_ir::{Mesh, text::parse};
use phzc_passes::blocks::Blocks;
use phzc_passes::choose::{Column, Highs, Limits, Problem, Program, Row, Solver, choose};
use phzc_passes::graph::Graph;
use phzc_passes::inline;
use phzc_passes::shard::Facts;
use phzc_passes::shard::model::{Goal, Model};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Programs whose integer program HiGHS finishes in minutes at most.
const PROGRAMS: &[(&str, &[i64])] = &[
    ("mlp.ir", &[2, 4]),
    ("gpt_scan.ir", &[8]),
    ("gpt_scan.ir", &[2, 4]),
    ("gpt.ir", &[8]),
    ("llama.ir", &[8]),
    ("moe.ir", &[8]),
    ("llama_tiny.hlo", &[8]),
    ("moe_gshard_tiny.hlo", &[8]),
    ("gpt2_small_scan.hlo", &[8]),
    ("gpt2_small.hlo.gz", &[8]),
    ("gpt_1p3b.hlo.gz", &[8]),
];
/// Branch-and-bound nodes for HiGHS.
const MAX_NODES: u64 = 200;

fn main() {
    println!("program              mesh    Alpa's program s  seconds   phzc s       seconds   ratio");
    let found: Vec<PathBuf> = examples().into_iter().chain(corpus()).collect();
    let (mut n_worse, mut ratios) = (0, Vec::new());
    for (name, sizes) in PROGRAMS {
        let Some(path) = found.iter().find(|path| path.ends_with(name)) else {
            println!("{name}: SKIPPED, not there");
            continue;
        };
        let problem = pairwise(path, &Mesh::new(sizes));
        let (alpa, alpa_secs) = timed(|| by_alpa(&problem));
        let (own, own_secs) = timed(|| choose(&problem, &Limits::default()).expect("no memory limit").cost);
        n_worse += usize::from(own > alpa * (1.0 + 1e-9));
        ratios.push(alpa_secs / own_secs);
        let mesh = sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
        println!(
            "{name:20} {mesh:6} {alpa:15.9} {alpa_secs:9.3} {own:15.9} {own_secs:9.4} {:7.0}",
            alpa_secs / own_secs
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "phzc is worse in {n_worse} of {}; median time ratio {:.0}",
        ratios.len(),
        ratios[ratios.len() / 2]
    );
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let found = run();
    (found, start.elapsed().as_secs_f64())
}

/// The strategy graph as Alpa has it: every reading pays for itself, so there are nodes and edges only.
fn pairwise(path: &Path, mesh: &Mesh) -> Problem {
    let mut module = parse(&text(path)).expect("a program");
    inline::flatten(&mut module).expect("calls are inlined");
    let cluster = Cluster::named("a100-8").expect("it is built in");
    let graph = Graph::build(&module);
    let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
    let facts = Facts::new(&module, &graph, &blocks, vec![None; graph.tensors.len()]);
    let goal = Goal { weights: [1.0; 3], memory_bytes: None };
    Model::new(facts.input(&graph, &blocks, &cluster), mesh).problem(&goal).without_stars()
}

/// The cost of the best choice that HiGHS finds in Alpa's rows; infinite if it finds none.
fn by_alpa(problem: &Problem) -> f64 {
    let (program, scale) = alpa(problem);
    let solver = Highs { max_nodes: Some(MAX_NODES) };
    solver.solve(&program).map_or(f64::INFINITY, |solution| solution.cost / scale)
}

/// Columns in milliseconds: `s` per option, `e` per pair of options, all whole numbers.
fn alpa(problem: &Problem) -> (Program, f64) {
    let scale = 1e3;
    let mut program = Program::default();
    let add = |program: &mut Program, cost: f64| {
        program.columns.push(Column { cost: cost * scale, lower: 0.0, upper: 1.0, integer: true });
        program.columns.len() as u32 - 1
    };
    let mut options: Vec<Vec<Option<u32>>> = Vec::new();
    for node in &problem.nodes {
        let columns: Vec<Option<u32>> =
            node.cost.iter().map(|&cost| cost.is_finite().then(|| add(&mut program, cost))).collect();
        program.rows.push(Row::equal(1.0, columns.iter().flatten().map(|&column| (column, 1.0)).collect()));
        options.push(columns);
    }
    for edge in problem.edges.iter().filter(|edge| edge.a != edge.b) {
        let (table, of_a, of_b) = (&edge.cost, &options[edge.a as usize], &options[edge.b as usize]);
        let (mut all, mut rows) = (Vec::new(), vec![Vec::new(); of_a.len() + of_b.len()]);
        for (at, &cost) in table.values.iter().enumerate().filter(|(_, cost)| cost.is_finite()) {
            let (a, b) = (at / table.cols, at % table.cols);
            if of_a[a].is_some() && of_b[b].is_some() {
                let column = add(&mut program, cost);
                all.push((column, 1.0));
                rows[a].push((column, 1.0));
                rows[of_a.len() + b].push((column, 1.0));
            }
        }
        program.rows.push(Row::equal(1.0, all));
        for (mut row, option) in rows.into_iter().zip(of_a.iter().chain(of_b)) {
            row.extend(option.map(|option| (option, -1.0)));
            program.rows.push(Row { lower: f64::NEG_INFINITY, upper: 0.0, terms: row });
        }
    }
    (program, scale)
}
