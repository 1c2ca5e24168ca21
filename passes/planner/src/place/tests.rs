//! `place` on the example programs: what the cut claims is what the text says.

use super::chain::Layers;
use super::forms::{Form, problem, subject};
use super::search_control::SearchControl;
use super::{Changed, Problem, Worth, materialize_plan};
use crate::plan_state::PlanState;
use phzc_cost::Cluster;
use phzc_ir::{Module, parse};
use phzc_pass::pass::Context;
use phzc_plan::derive::derive;
use phzc_plan::report;

pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("gpt", include_str!("../../../../examples/gpt.ir")),
    ("llama", include_str!("../../../../examples/llama.ir")),
    ("mlp", include_str!("../../../../examples/mlp.ir")),
    ("gpt_scan", include_str!("../../../../examples/gpt_scan.ir")),
];

/// Runs a pipeline on an example.
pub(super) fn run(text: &str, pipeline: &str, cluster: &Cluster) -> (Module, Changed) {
    let mut module = parse(text).expect("examples are programs");
    let pipeline = crate::testing::pipeline(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(cluster);
    let ran = pipeline.steps.iter().map(|step| step.run(&mut module, &mut cx));
    let changed = ran.last().expect("there are passes").expect("examples have a plan");
    (module, changed)
}

pub(super) fn cluster() -> Cluster {
    Cluster::named("a100-4").expect("a known cluster")
}

/// Shows the problem that these options of `place` pose.
pub(super) fn with_problem(
    mut module: Module,
    cluster: &Cluster,
    options: &str,
    property: impl FnOnce(&Problem),
) {
    let steps = crate::testing::pipeline(&format!("fuse,shard,place{{{options}}}")).expect("legal").steps;
    let mut cx = Context::new(cluster);
    steps[..2].iter().for_each(|step| _ = step.run(&mut module, &mut cx).expect("layouts"));
    let state = PlanState::of(&module, &mut cx).expect("layouts");
    let control = SearchControl::new(&steps[2].options, &cx);
    let mut form = Form { sharded: &module, state };
    let subject = subject(&mut form, cluster).expect("layouts");
    let problem = problem(&form, &subject, &steps[2].options, (cluster, &control), Worth::ALL);
    property(&problem.expect("options that fit"));
}

#[test]
fn a_cut_takes_as_long_as_the_text_says() {
    let cluster = cluster();
    let submesh = cluster.submesh(2);
    for (name, program) in EXAMPLES {
        let (module, _) = run(program, "fuse,shard", &submesh);
        let mut layers = Layers::new(&module, derive(&module).expect("a planned module"), &cluster, None);
        for n_microbatches in [1, 2, 4] {
            let cut = layers.chain(n_microbatches).cut(2, n_microbatches, f64::INFINITY).expect("two layers");
            let mut placed = module.clone();
            materialize_plan::write(&mut placed, &layers.stages(&cut.starts), 2, n_microbatches);
            let secs = report::plan(&placed, &cluster).expect("a placed module").time_secs;
            // Where the cut goes through a fused kernel, the text has two: these programs have no work to
            // speak of.
            let off = (secs - cut.step_secs) / secs;
            assert!(
                (-0.01..0.1).contains(&off),
                "{name}, {n_microbatches}: cut {}, text {secs}",
                cut.step_secs
            );
        }
    }
}

#[test]
fn what_is_placed_is_not_placed_with_another_recomputation_or_schedule() {
    let (mut placed, _) = run(
        EXAMPLES[0].1,
        "fuse,shard,place{stages=2,microbatches=4,recompute=all,schedule=zero-bubble}",
        &cluster(),
    );
    let mut again = |passes: &str| {
        let step = &crate::testing::pipeline(passes).expect("a legal pipeline").steps[0];
        step.run(&mut placed, &mut Context::new(&cluster()))
    };
    assert_eq!(again("place{recompute=all}").ok(), Some(Changed::No));
    assert_eq!(again("place").ok(), Some(Changed::No));
    let error = again("place{recompute=never}").expect_err("it is computed again");
    assert_eq!(error.message, "the program has been placed already, with recompute=all");
    assert_eq!(again("place{schedule=zero-bubble}").ok(), Some(Changed::No));
    let error = again("place{schedule=gpipe}").expect_err("it runs otherwise");
    assert_eq!(error.message, "the program has been placed already, with schedule=zero-bubble");
}

#[test]
fn what_is_placed_stays_as_it_is() {
    let (placed, _) = run(EXAMPLES[0].1, "fuse,shard,place{stages=2}", &cluster());
    let dump = phzc_ir::print(&placed);
    let (again, changed) = run(&dump, "place", &cluster());
    assert_eq!((changed, phzc_ir::print(&again) == dump), (Changed::No, true));
}

#[test]
fn a_program_without_blocks_and_phases_gets_them_before_it_is_priced() {
    let planned = |passes: &str| phzc_ir::print(&run(EXAMPLES[0].1, passes, &cluster()).0);
    assert_eq!(planned("shard,place{stages=2}"), planned("fuse,shard,place{stages=2}"));
}
