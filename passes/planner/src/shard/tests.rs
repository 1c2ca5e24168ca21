//! `shard` on random programs: what it writes is legal, complete, stable and the best.

use super::*;
use phzc_cost::Cluster;
use phzc_ir::{Layout, parse, print};
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

/// Two products, of which the second reads a bias that is widened and spread.
const WIDE: &str = "ENTRY e {
    x = f32[64,32] parameter(0)
    w = f32[32,64] parameter(1)
    b = f32[64] parameter(2)
    h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    wide = f32[64,64] broadcast(b), dimensions={1}
    ROOT y = f32[64,64] add(h, wide)
}";

#[test]
fn a_value_that_leaves_registers_is_written_in_one_layout_and_read_in_another() {
    with_input(WIDE, 5e9, |input| {
        let (model, device) = (Model::new(input, &Mesh::new(&[8])), &input.cluster.accelerator);
        let [whole, rows] = [Layout::default(), Layout::default().with(0, Some(0))];
        // `h` has 64 by 64 elements of four bytes; a device has an eighth of its rows.
        let h = input.graph.tensors.iter().position(|it| it.dims[..] == [64, 64] && it.param.is_none());
        let bytes = 64.0 * 64.0 * 4.0;
        let wanted = device.launch_secs + device.memory_secs(bytes) + device.memory_secs(bytes / 8.0);
        let found = model.spill_secs(h.expect("a product") as u32, whole, rows);
        assert!((found - wanted).abs() < 1e-15, "{found} {wanted}");
    });
}

#[test]
fn what_fits_is_better_than_what_does_not_and_of_both_what_takes_less() {
    with_input(WIDE, 5e9, |input| {
        let goal = Goal { weights: [1.0; 3], memory_bytes: None };
        let solved = solve_on(input, &Mesh::new(&[8]), &goal).expect("a plan");
        let with = |fits: bool, cost: f64, memory: f64| Solved {
            fits,
            choice: phzc_solver::choose::Choice { cost, memory, ..solved.choice.clone() },
            ..solved.clone()
        };
        let is_better = |a: [f64; 2], a_fits, b: [f64; 2], b_fits| {
            with(a_fits, a[0], a[1]).is_better(&with(b_fits, b[0], b[1]))
        };
        assert!(is_better([9.0, 9.0], true, [1.0, 1.0], false));
        assert!(!is_better([1.0, 1.0], false, [9.0, 9.0], true));
        // Of what fits the cost counts, of what does not the memory.
        for (fits, less, more) in [(true, [1.0, 9.0], [2.0, 1.0]), (false, [9.0, 1.0], [1.0, 2.0])] {
            assert!(is_better(less, fits, more, fits) && !is_better(more, fits, less, fits));
            assert!(!is_better(less, fits, less, fits));
        }
        let bounded = Solved { free_bound: 0.0, ..with(true, 4.0, 1.0) };
        assert_eq!((bounded.bound(), bounded.gap()), (0.0, 1.0));
    });
}

#[test]
fn given_shardings_are_read_on_meshes_of_three_axes_too() {
    let sizes = |n: i64| given::finer_meshes(n).iter().map(|mesh| mesh.sizes.to_vec()).collect::<Vec<_>>();
    assert_eq!(sizes(8), [[2, 2, 2]]);
    assert_eq!(sizes(12), [[2, 2, 3], [2, 3, 2], [3, 2, 2]]);
    assert!(sizes(7).is_empty() && sizes(4).is_empty());
}

#[test]
fn a_mesh_that_is_none_is_refused() {
    let cluster = cluster(8, 1e9, 5e9);
    let error = |mesh: &str| {
        let mut module = parse(WIDE).expect("a legal program");
        let pipeline = crate::testing::pipeline(&format!("shard{{mesh={mesh}}}"));
        match pipeline {
            Err(errors) => errors[0].to_string(),
            Ok(it) => it.steps[0].run(&mut module, &mut Context::new(&cluster)).expect_err("no mesh").message,
        }
    };
    for mesh in ["0x8", "x", "2x2x2x1x1", "2xa"] {
        assert!(error(mesh).contains("mesh"), "{}", error(mesh));
    }
    assert!(error("2x2").contains('8'), "{}", error("2x2"));
    for mesh in ["8", "2x4", "2x2x2", "1x2x2x2"] {
        let mut module = parse(WIDE).expect("a legal program");
        assert_eq!(
            run_passes(&mut module, &format!("shard{{mesh={mesh}}}"), &cluster),
            Changed::Yes,
            "{mesh}"
        );
    }
}
