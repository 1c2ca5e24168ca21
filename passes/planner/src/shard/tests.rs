//! `shard` on random programs: what it writes is legal, complete, stable and the best.

use super::*;
use phzc_cost::Cluster;
use phzc_ir::{parse, print};
use phzc_testing::program::{cluster, for_programs, mesh_text, n_devices};

/// Runs `fuse,shard`.
fn shard(module: &mut Module, mesh: &str, cluster: &Cluster) -> Changed {
    run_passes(module, &format!("fuse,shard{{mesh={mesh}}}"), cluster)
}

/// Runs a pipeline; whether the last pass says that it changed the module.
fn run_passes(module: &mut Module, pipeline: &str, cluster: &Cluster) -> Changed {
    let pipeline = crate::testing::pipeline(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(cluster);
    let ran = pipeline.steps.iter().map(|step| step.run(module, &mut cx));
    ran.last().expect("there are passes").expect("every program has a plan")
}

#[test]
fn a_plan_stays_as_it_is() {
    for_programs(50, 10, |text, mesh, _| {
        let (mesh, cluster) = (mesh_text(mesh), cluster(n_devices(mesh), 1e9, 5e9));
        let mut module = parse(text).expect("a legal program");
        assert_eq!(shard(&mut module, &mesh, &cluster), Changed::Yes);
        let planned = print(&module);
        let mut again = parse(&planned).expect("a dump is a program");
        assert_eq!(run_passes(&mut again, &format!("shard{{mesh={mesh}}}"), &cluster), Changed::No);
        assert_eq!(print(&again), planned);
    });
}

#[test]
fn what_is_explained_adds_up_to_what_the_choice_costs() {
    for_programs(40, 8, |text, _, random| {
        let mut module = parse(text).expect("a legal program");
        inline::flatten(&mut module).expect("no calls");
        with_input(text, 5e9, |input| {
            let mut model = Model::new(input, &Mesh::new(&[2, 4]));
            let problem = model.problem(&Goal { weights: [1.0; 3], memory_bytes: None });
            let mut off: Option<f64> = None;
            for _ in 0..20 {
                let sizes = model.menus.iter().map(|menu| menu.strategies.len());
                let option: Vec<u32> = sizes.map(|n_options| random.below(n_options) as u32).collect();
                let cost = problem.cost(&option);
                if cost == f64::INFINITY {
                    continue;
                }
                let totals = explain::totals(&module, &mut model, &option);
                let parts = totals.kernel_secs + totals.collective_secs;
                let by_phase: f64 = totals.secs_by_phase.iter().sum();
                assert!((parts - by_phase).abs() <= 1e-9 * cost, "{parts} {by_phase}");
                // Nodes of no block cost the same under every choice.
                let own = cost - parts;
                let first = *off.get_or_insert(own);
                assert!((own - first).abs() <= 1e-9 * cost, "{own} {first}");
            }
        });
    });
}

#[test]
fn equal_blocks_are_priced_as_if_each_were_priced_alone() {
    for text in [include_str!("../../../../examples/gpt.ir"), include_str!("../../../../examples/moe.ir")] {
        with_input(text, 1e11, |input| {
            let goal = Goal { weights: [1.0, 0.5, 2.0], memory_bytes: None };
            let alone = Unique::alone(input.graph, input.blocks);
            let shared = Model::new(input, &Mesh::new(&[2, 4])).problem(&goal);
            let single = Input { unique: &alone, ..input };
            let single = Model::new(single, &Mesh::new(&[2, 4])).problem(&goal);
            assert!(format!("{shared:?}") == format!("{single:?}"));
            let n_unique = (0..).zip(&input.unique.first).filter(|(block, first)| block == *first).count();
            assert!(n_unique + 10 < input.unique.first.len(), "{n_unique} of {}", input.unique.first.len());
        });
    }
}

/// Gives a property the input that models of a program take, on eight devices.
fn with_input(text: &str, link_bytes_per_sec: f64, property: impl FnOnce(Input)) {
    let mut module = parse(text).expect("a legal program");
    inline::flatten(&mut module).expect("no calls");
    let graph = Graph::build(&module);
    let cluster = cluster(8, 1e9, link_bytes_per_sec);
    let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
    let facts = Facts::new(&module, &graph, &blocks, vec![None; graph.tensors.len()]);
    property(facts.input(&graph, &blocks, &cluster));
}
