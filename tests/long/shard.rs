//! `shard` on random programs: what it writes is legal, complete and the best.

use phzc_cost::Cluster;
use phzc_ir::{Mesh, Module, parse, print, verify};
use phzc_passes::blocks::Blocks;
use phzc_passes::choose::Problem;
use phzc_passes::derive::{derive, header};
use phzc_passes::graph::Graph;
use phzc_passes::shard::model::{Goal, Model};
use phzc_passes::shard::{Facts, solve_on};
use phzc_passes::{Changed, Context, inline, report};
use phzc_testing::program::{cluster, for_programs, mesh_text, n_devices};

/// Runs `fuse,shard`.
fn shard(module: &mut Module, mesh: &str, cluster: &Cluster) -> Changed {
    run_passes(module, &format!("fuse,shard{{mesh={mesh}}}"), cluster)
}

/// Runs a pipeline; whether the last pass says that it changed the module.
fn run_passes(module: &mut Module, pipeline: &str, cluster: &Cluster) -> Changed {
    let pipeline = phzc_passes::pipeline(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(cluster);
    let ran = pipeline.steps.iter().map(|step| step.run(module, &mut cx));
    ran.last().expect("there are passes").expect("every program has a plan")
}

#[test]
fn what_it_writes_is_legal_and_mentions_all_communication() {
    for_programs(1500, 10, |text, mesh, random| {
        let (hbm_bytes, link) = (random.pick(&[1e9, 1e9, 4096.0]), random.pick(&[1e9, 5e9, 1e11]));
        let cluster = cluster(n_devices(mesh), hbm_bytes, link);
        let mut module = parse(text).expect("a legal program");
        shard(&mut module, &mesh_text(mesh), &cluster);
        let errors = verify(&module);
        assert!(errors.is_empty(), "{errors:?}\n{}", print(&module));
        let problems = derive(&module).expect("a planned module").problems;
        assert!(problems.is_empty(), "{problems:?}\n{}", print(&module));
        // The report prices the text with none of the planner's code.
        let secs = report::plan(&module, &cluster).expect("a planned module").time_secs;
        let figure = |key| header(&module).expect("a planned module").figure(key);
        let (planned, bound) =
            (figure("planned_secs").unwrap_or(0.0), figure("lower_bound_secs").unwrap_or(0.0));
        assert!(bound <= planned * (1.0 + 1e-9), "{bound} is no bound of {planned}");
        assert!(secs <= 1.001 * planned, "{planned} is planned, {secs} found");
    });
}

#[test]
fn the_choice_is_the_best_of_all() {
    let n_compared = std::cell::Cell::new(0);
    for_programs(250, 5, |text, mesh, random| {
        let mut module = parse(text).expect("a legal program");
        inline::flatten(&mut module).expect("no calls");
        let (graph, mesh) = (Graph::build(&module), Mesh::new(mesh));
        let cluster = cluster(mesh.n_devices() as usize, 1e9, random.pick(&[1e9, 5e9, 1e11]));
        let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        let facts = Facts::new(&module, &graph, &blocks, vec![None; graph.tensors.len()]);
        let input = facts.input(&graph, &blocks, &cluster);
        let mut goal = Goal { weights: [1.0; 3], memory_bytes: None };
        let Some(free) = solve_on(input, &mesh, &goal) else { panic!("every program has a plan") };
        if random.below(2) == 0 {
            goal.memory_bytes = Some(0.75 * free.choice.memory);
        }
        let problem = Model::new(input, &mesh).problem(&goal);
        if let Some(best) = brute_force(&problem) {
            let found = solve_on(input, &mesh, &goal).expect("it was found before");
            assert_eq!(found.fits, best.is_finite());
            if found.fits {
                let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
                let is_open = found.choice.gap() > 1e-9;
                assert!(close(found.choice.cost, best) || is_open, "{} for {best}", found.choice.cost);
                assert!(found.choice.lower_bound <= best * (1.0 + 1e-9));
                n_compared.set(n_compared.get() + 1);
            }
        }
    });
    assert!(n_compared.get() > 100, "only {} problems are small enough", n_compared.get());
}

#[test]
fn what_is_forbidden_is_in_no_plan() {
    for_programs(300, 8, |text, mesh, random| {
        let kind = random.pick(&["all-gather", "all-reduce", "all-to-all", "collective-permute"]);
        let (hbm_bytes, link) = (random.pick(&[1e9, 4096.0]), random.pick(&[5e9, 1e11]));
        let cluster = cluster(n_devices(mesh), hbm_bytes, link);
        let mut module = parse(text).expect("a legal program");
        run_passes(&mut module, &format!("fuse,shard{{mesh={},forbid={kind}}}", mesh_text(mesh)), &cluster);
        let facts = derive(&module).expect("a planned module");
        let mut steps = facts.comps.iter().flatten().flat_map(|own| &own.steps);
        assert!(steps.all(|step| step.kind.as_str() != kind), "{kind}\n{}", print(&module));
    });
}

/// The least cost within the memory limit, if there are few enough choices to try all; infinite if there is
/// none.
fn brute_force(problem: &Problem) -> Option<f64> {
    let sizes: Vec<usize> = problem.nodes.iter().map(|node| node.cost.len()).collect();
    let n_choices = sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
    if n_choices > 100_000 {
        return None;
    }
    let limit = problem.memory_limit.unwrap_or(f64::INFINITY);
    let mut best = f64::INFINITY;
    for mut code in 0..n_choices {
        let option: Vec<u32> = sizes
            .iter()
            .map(|size| {
                let option = code % size;
                code /= size;
                option as u32
            })
            .collect();
        if problem.memory(&option) <= limit {
            best = best.min(problem.cost(&option));
        }
    }
    Some(best)
}
