//! `phzc verify` on plans that are right, wrong and mutated.

use crate::common::changes::{Fate, bases, cases};
use crate::common::mutate::case;
use crate::common::{golden, phzc, program, scratch};
use phzc_ir::parse;
use phzc_passes::verify::{Settings, verify};
use std::fs;
use std::path::PathBuf;

/// Cases of mutated plans.
const N_CASES: u64 = 2_000;

/// Plans with one opcode, operand or constant changed; `benches/verify.rs` has 2,000.
const N_CHANGED: usize = 150;
/// Changes that `verify` can run and that make a difference, at least.
const LEAST_DIFFERENT: usize = 75;

/// A plan of `examples/mlp.ir` in a directory of its own.
fn mlp_plan(test: &str, passes: &str) -> PathBuf {
    let path = scratch(test).join("plan.ir");
    let name = path.to_string_lossy();
    let cluster = "tests/clusters/slow-8.toml";
    let outcome = phzc(&["examples/mlp.ir", "--cluster", cluster, "--passes", passes, "-o", &name], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    path
}

#[test]
fn a_plan_computes_what_its_program_does() {
    let pipelines = [
        ("fuse,shard,place{stages=1,microbatches=1}", "1 stage, 1 microbatch, in lock-step"),
        (
            "fuse,shard,place{stages=2,microbatches=4,schedule=1f1b}",
            "2 stages, 4 microbatches, the schedule replayed",
        ),
    ];
    for (passes, says) in pipelines {
        let plan = mlp_plan("verify_right", passes);
        let outcome = phzc(&["verify", "examples/mlp.ir", &plan.to_string_lossy()], b"");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(says), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("14 of 14 outputs equal"), "{}", outcome.stdout);
    }
}

/// Four layers stand for the eight; what those between compute again, their stage computes.
#[test]
fn what_stages_of_equal_layers_compute_again_is_their_own() {
    let folder = scratch("verify_again");
    let [model, plan] = ["model.ir", "plan.ir"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let made = phzc(&["gen", "mlp", "--layers", "8", "--global-batch", "64", "-o", &model], b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    for schedule in ["1f1b", "gpipe", "zero-bubble"] {
        let passes =
            format!("fuse,shard,place{{stages=2,microbatches=4,recompute=all,schedule={schedule}}},check");
        let cluster = "tests/clusters/lean-8.toml";
        let outcome = phzc(&[&model, "--cluster", cluster, "--passes", &passes, "-o", &plan, "-q"], b"");
        assert_eq!(outcome.code, 0, "{schedule}: {}", outcome.stderr);
        let verified = phzc(&["verify", &model, &plan], b"");
        assert!(
            verified.code == 0 && verified.stdout.contains("outputs equal"),
            "{schedule}: {}",
            verified.stdout
        );
    }
}

/// The lines that add a gradient to a moment of Adam.
fn moments(text: &str) -> Vec<&str> {
    let decayed = |line: &&str| line.contains("multiply(state__mu") || line.contains("multiply(state__nu");
    let names = text.lines().filter(decayed).filter_map(|line| line.trim().split(' ').next());
    let sums: Vec<String> = names.map(|name| format!(" add({name},")).collect();
    text.lines().filter(|line| sums.iter().any(|sum| line.contains(sum))).collect()
}

#[test]
fn a_subtraction_for_an_addition_in_an_update_is_found() {
    let path = mlp_plan("verify_wrong", "fuse,shard,place{stages=1,microbatches=1}");
    let text = fs::read_to_string(&path).expect("it was written");
    let lines = moments(&text);
    assert_eq!(lines.len(), 8, "{text}");
    for line in lines {
        let wrong = text.replace(line, &line.replace(" add(", " subtract("));
        fs::write(&path, wrong).expect("writable");
        let outcome = phzc(&["verify", "examples/mlp.ir", &path.to_string_lossy()], b"");
        assert_eq!(outcome.code, 1, "{line}\n{}", outcome.stdout);
        assert!(outcome.stdout.contains("DIFFERS"), "{line}\n{}", outcome.stdout);
        assert!(outcome.stderr.contains("the plan does not compute what the program does"), "{line}");
    }
}

#[test]
fn no_changed_computation_that_makes_a_difference_is_called_equal() {
    let programs = ["examples/mlp.ir", "examples/llama.ir", "examples/moe.ir"];
    let found = cases(&bases(&programs, &["fuse,shard,place{stages=2,microbatches=2}"]), N_CHANGED);
    for case in &found {
        if let Fate::Missed(how) = &case.fate {
            panic!("{}: {}: {how}", case.base, case.what);
        }
    }
    let n_different = found.iter().filter(|case| case.fate == Fate::Differs).count();
    assert!(n_different >= LEAST_DIFFERENT, "{n_different} of {} changes differ", found.len());
}

#[test]
fn no_mutated_plan_does_harm() {
    let read = |stem: &str| program(golden().iter().find(|path| path.ends_with(stem)).expect("it is there"));
    let original = parse(&read("verify/itself.ir")).expect("a legal program");
    let seeds = [read("verify/plan.ir")];
    let examine = |text: &str| {
        let Ok(plan) = parse(text) else { return false };
        phzc_ir::verify(&plan).is_empty() && verify(&original, &plan, &Settings::default()).is_ok()
    };
    let n_ran = (0..N_CASES).filter(|&number| case("verify", &seeds, number, examine)).count();
    eprintln!("{N_CASES} mutated plans, {n_ran} of them ran");
    assert!(n_ran as u64 > N_CASES / 100, "mutations that never run test little: {n_ran}");
}

/// The stages of the quick and the slow devices have meshes of their own, and not the program's order of
/// devices.
#[test]
fn a_pipeline_over_two_kinds_of_devices_computes_what_its_program_does() {
    let path = scratch("verify_kinds").join("plan.ir");
    let plan = path.to_string_lossy();
    let cluster = "tests/clusters/unlike-4+2.toml";
    let planned = phzc(&["examples/gpt.ir", "--cluster", cluster, "-o", &plan], b"");
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let stages: Vec<&str> = planned.stderr.lines().filter(|line| line.contains("x=2")).collect();
    assert!(stages[0].contains("4-5 slow") && stages[1].contains("0-3 quick"), "{}", planned.stderr);
    let verified = phzc(&["verify", "examples/gpt.ir", &plan], b"");
    assert!(verified.code == 0 && verified.stdout.contains("89 of 89 outputs equal"), "{}", verified.stdout);
}

/// On a cluster where a sum over devices costs more than what reads it.
#[test]
fn stages_on_meshes_of_their_own_add_up_gradients_of_what_they_share() {
    let folder = scratch("verify_shared");
    let [cluster, program, plan] =
        ["far.toml", "step.ir", "plan.ir"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let near = fs::read_to_string("tests/clusters/slow-8.toml").expect("a test's cluster");
    let far = near.replace("hbm_bytes_per_sec = 1e9", "hbm_bytes_per_sec = 1e12");
    fs::write(&cluster, far.replace("\nbytes_per_sec = 20e9", "\nbytes_per_sec = 3e8")).expect("writable");
    // An embedding that is the head too; and relative positions, which all layers' attentions add.
    let gpt = ["gpt", "--layers", "2", "--hidden", "32", "--heads", "2", "--seq", "16", "--vocab", "64"];
    for family in [&gpt[..], &["t5"]] {
        let args = [&["gen"], family, &["--global-batch", "16", "-o", &program]].concat();
        assert_eq!(phzc(&args, b"").code, 0, "{family:?}");
        let pipeline = "fuse{attention=flash},shard,place{stages=3,microbatches=4}";
        let outcome = phzc(&[&*program, "--cluster", &cluster, "--passes", pipeline, "-o", &plan], b"");
        assert_eq!(outcome.code, 0, "{family:?}: {}", outcome.stderr);
        let outcome = phzc(&["verify", &program, &plan], b"");
        assert_eq!(outcome.code, 0, "{family:?}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("8 virtual devices, 3 stages, 4 microbatches"), "{}", outcome.stdout);
    }
}

#[test]
fn stages_on_meshes_of_their_own_share_what_one_barrier_holds() {
    let plan = scratch("verify_barrier").join("plan.ir").to_string_lossy().into_owned();
    let (program, cluster) = ("examples/gpt_remat.ir", "tests/clusters/slow-8.toml");
    let pipeline = "fuse,shard,place{stages=6}";
    let outcome = phzc(&[program, "--cluster", cluster, "--passes", pipeline, "-o", &plan], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = phzc(&["verify", program, &plan], b"");
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn a_plan_by_few_layers_of_an_encoder_and_of_a_decoder_computes_what_the_program_does() {
    let folder = scratch("verify_rows");
    let [program, plan] = ["t5.ir", "plan.ir"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let sizes = ["--layers", "10", "--hidden", "32", "--heads", "2", "--head-dim", "16", "--vocab", "64"];
    let batch = ["--seq", "16", "--target-seq", "8", "--global-batch", "16", "-o", &program];
    assert_eq!(phzc(&[&["gen", "t5"], &sizes[..], &batch].concat(), b"").code, 0);
    let pipeline = "fuse{attention=flash},shard,place{stages=4,microbatches=4,schedule=1f1b},check";
    let cluster = "tests/clusters/slow-8.toml";
    let outcome = phzc(&[&*program, "--cluster", cluster, "--passes", pipeline, "-o", &plan], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = phzc(&["verify", &program, &plan], b"");
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("8 virtual devices, 4 stages, 4 microbatches"), "{}", outcome.stdout);
}
