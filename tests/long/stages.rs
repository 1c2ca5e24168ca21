//! Modules of a plan, run microbatch by microbatch, compute what the program computes.

use super::plans::{EXAMPLES, cluster, passed, planned, slow_8};
use crate::common::Random;
use phzc_ir::eval::{Options, inputs, run};
use phzc_ir::{Module, parse, print, verify};
use phzc_passes::derive::derive;
use phzc_passes::microbatch::{after_all, on_time_axis};
use phzc_passes::stages::{Stages, execute::execute, stages};

fn placed(text: &str, n_stages: usize, n_microbatches: usize) -> Module {
    placed_by("1f1b", text, n_stages, n_microbatches)
}

fn placed_by(schedule: &str, text: &str, n_stages: usize, n_microbatches: usize) -> Module {
    let options = format!("stages={n_stages},microbatches={n_microbatches},schedule={schedule}");
    let pipeline = format!("fuse,shard,place{{{options}}}");
    planned(text, &pipeline, &slow_8())
}

/// The program that a plan is of: where its loops are unrolled, as `unroll` writes it.
fn planned_form(text: &str, plan: &Module) -> String {
    match plan.note(phzc_ir::notes::UNSTACKED) {
        Some(_) => print(&planned(text, "unroll", &slow_8())),
        None => text.to_owned(),
    }
}

/// The largest relative error of any result.
fn error(text: &str, stages: &Stages) -> f64 {
    let original = parse(text).expect("a legal program");
    let given = inputs(&original, 1).expect("its inputs can be made");
    let wanted = run(&original, &given, &Options::default()).expect("it can be run");
    let made = execute(stages, &given, &Options::default()).expect("the modules can be run");
    phzc_testing::largest_error(&wanted, &made)
}

#[test]
fn the_modules_of_the_examples_compute_the_step() {
    for (name, text) in EXAMPLES {
        for (n_stages, n_microbatches) in [(1, 1), (2, 1), (1, 2), (2, 4), (4, 4)] {
            let plan = placed(text, n_stages, n_microbatches);
            let cut = match stages(&plan) {
                Ok(cut) => cut,
                Err(error) => panic!("{name}, {n_stages}x{n_microbatches}: {error:?}"),
            };
            for (_, module) in &cut.modules {
                let again = parse(&print(module)).expect("a module is legal text");
                assert!(verify(&again).is_empty(), "{name}: {:?}", verify(&again));
            }
            let error = error(&planned_form(text, &plan), &cut);
            assert!(error < 1e-4, "{name}, {n_stages} stages, {n_microbatches} microbatches: {error}");
        }
    }
}

#[test]
fn by_every_schedule_the_modules_compute_the_step() {
    for (name, text) in EXAMPLES {
        for (schedule, n_stages, n_microbatches) in
            [("gpipe", 2, 4), ("zero-bubble", 2, 4), ("zero-bubble", 4, 2)]
        {
            let plan = placed_by(schedule, text, n_stages, n_microbatches);
            let cut = stages(&plan).unwrap_or_else(|error| panic!("{name}, {schedule}: {error:?}"));
            assert_eq!(cut.manifest.schedule, schedule);
            let error = error(&planned_form(text, &plan), &cut);
            assert!(error < 1e-4, "{name}, {schedule}, {n_stages} stages: {error}");
        }
    }
}

#[test]
fn the_modules_of_stages_that_share_devices_compute_the_step() {
    for (name, text) in EXAMPLES.iter().filter(|(name, _)| !name.ends_with("scan")) {
        for (schedule, n_groups, n_microbatches) in
            [("interleaved:2", 2, 4), ("interleaved:3", 2, 2), ("interleaved:2", 4, 2)]
        {
            let cut = stages(&placed_by(schedule, text, n_groups, n_microbatches))
                .unwrap_or_else(|error| panic!("{name}, {schedule}: {error:?}"));
            assert_eq!(cut.manifest.schedule, schedule);
            for (stage, own) in cut.manifest.stages.iter().enumerate() {
                assert_eq!(own.devices, cut.manifest.stages[stage % n_groups].devices, "{name}");
            }
            let error = error(text, &cut);
            assert!(error < 1e-4, "{name}, {schedule}, {n_groups} groups: {error}");
        }
    }
}

/// The forward part of a random network of square layers: weights now and then tied, biases, residuals,
/// skips.
fn network(seed: u64) -> String {
    let mut random = Random(seed);
    let (size, n_layers) = ([4, 8][random.below(2)], 3 + random.below(4));
    let mut params = vec![format!("batch.x = f32[8,{size}]"), format!("batch.y = f32[8,{size}]")];
    let mut body = String::new();
    let mut values = vec!["batch.x".to_owned()];
    let mut n_weights = 0;
    for layer in 0..n_layers {
        let weight = if n_weights > 0 && random.below(3) == 0 { random.below(n_weights) } else { n_weights };
        if weight == n_weights {
            params.push(format!("params.w{weight} = f32[{size},{size}]"));
            n_weights += 1;
        }
        let (input, other) = (&values[values.len() - 1], &values[random.below(values.len())]);
        let op = ["add", "multiply", "maximum"][random.below(3)];
        body += &format!(
            "  d{layer} = f32[8,{size}] dot({input}, params.w{weight}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        );
        body += &format!(
            "  t{layer} = f32[8,{size}] tanh(d{layer})\n  h{layer} = f32[8,{size}] {op}(t{layer}, {other})\n"
        );
        values.push(format!("h{layer}"));
    }
    let lines = params.iter().enumerate().map(|(at, param)| format!("  {param} parameter({at})\n"));
    let last = &values[values.len() - 1];
    format!(
        "HloModule net\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}}\n\nENTRY e {{\n{}{body}  e = f32[8,{size}] subtract({last}, batch.y)\n  s = f32[8,{size}] multiply(e, e)\n  zero = f32[] constant(0)\n  ROOT loss = f32[] reduce(s, zero), dimensions={{0,1}}, to_apply=add\n}}\n",
        lines.collect::<String>()
    )
}

#[test]
fn the_modules_of_random_steps_compute_the_step() {
    let mut n_cut = 0;
    for seed in 0..24 {
        let kind = ["sgd", "momentum", "adamw"][seed as usize % 3];
        let step = passed(&network(seed), &format!("grad,optimizer{{kind={kind}}}"), &slow_8());
        let step = step.expect("it has gradients");
        let text = print(&step);
        let (n_stages, n_microbatches) = ([1, 2, 2, 4][seed as usize % 4], [1, 2, 4][seed as usize % 3]);
        let pipeline = format!("fuse,shard,place{{stages={n_stages},microbatches={n_microbatches}}}");
        // Not every random network can be cut so often.
        let Ok(placed) = passed(&text, &pipeline, &slow_8()) else { continue };
        let cut = stages(&placed).unwrap_or_else(|error| panic!("seed {seed}: {error:?}\n{text}"));
        let error = error(&text, &cut);
        assert!(
            error < 1e-4,
            "seed {seed}, {n_stages} stages, {n_microbatches} microbatches: {error}\n{text}"
        );
        n_cut += 1;
    }
    assert!(n_cut >= 18, "only {n_cut} of 24 networks could be placed");
}

#[test]
fn the_examples_can_run_in_microbatches() {
    for (name, text) in EXAMPLES {
        let placed = planned(text, "fuse,shard,place{stages=2,microbatches=4}", &cluster());
        let timed = on_time_axis(&placed).expect("one axis more");
        assert!(verify(&timed).is_empty(), "{name}");
        let facts = derive(&timed).expect("a planned module");
        if let Err(error) = after_all(&timed, &facts) {
            panic!("{name}: {error:?}");
        }
    }
}
