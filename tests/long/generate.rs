//! Training steps that `phzc gen` writes: planned, verified, and the same in microbatches.

use crate::common::{phzc, scratch};
use phzc_ir::Module;
use phzc_ir::eval::{Options, Value, inputs, run};
use std::fs;
use std::path::PathBuf;

const FAMILIES: &[&str] =
    &["gpt", "opt", "llama", "bert", "t5", "gshard", "mixtral", "deepseek", "vit", "resnet", "mlp"];

fn generated(test: &str, args: &[&str]) -> PathBuf {
    let path = scratch(test).join("step.ir");
    let outcome = phzc(&[&["gen"], args, &["-o", &*path.to_string_lossy()]].concat(), b"");
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{args:?}");
    path
}

fn module(test: &str, args: &[&str]) -> Module {
    let text = fs::read_to_string(generated(test, args)).expect("it was written");
    phzc_ir::parse(&text).expect("a legal program")
}

fn results(module: &Module) -> Vec<Vec<f64>> {
    let given = inputs(module, 1).expect("fixed shapes");
    let made: Value = run(module, &given, &Options::default()).expect("it runs");
    made.leaves().into_iter().map(|array| array.to_f64_vec()).collect()
}

/// Asserts that a family's step, in one of the forms that `gen` offers, has a plan that computes the same.
fn check(family: &str, form: &[&str]) {
    let test = format!("gen_plan_{family}_{}", form.len());
    let step = generated(&test, &[&[family, "--size", "tiny", "--global-batch", "16"], form].concat());
    let (step, plan) =
        (step.to_string_lossy(), step.with_file_name("plan.ir").to_string_lossy().into_owned());
    let made = phzc(&[&*step, "--cluster", "tests/clusters/slow-8.toml", "-q", "-o", &plan], b"");
    assert_eq!(made.code, 0, "{family} {form:?}: {}", made.stderr);
    let found = phzc(&["verify", &*step, &plan], b"");
    assert_eq!(found.code, 0, "{family} {form:?}: {}{}", found.stdout, found.stderr);
}

#[test]
fn every_family_s_step_has_a_plan_that_computes_the_same() {
    FAMILIES.iter().for_each(|family| check(family, &[]));
}

#[test]
fn loops_over_layers_and_microbatches_have_plans_that_compute_the_same() {
    for family in ["gpt", "llama", "t5", "mixtral", "deepseek"] {
        check(family, &["--scan"]);
        check(family, &["--dropout", "0.1", "--scan"]);
    }
    check("gpt", &["--microbatch", "8"]);
}

#[test]
fn narrow_products_and_adapters_have_plans_that_compute_the_same() {
    check("llama", &["--products", "f8e4m3fn"]);
    check("llama", &["--adapters", "4"]);
    check("deepseek", &["--products", "f8e4m3fn", "--adapters", "4", "--scan"]);
}

#[test]
fn microbatches_make_the_step_of_the_batch() {
    for family in ["mlp", "gpt", "vit"] {
        let step = |form: &[&str]| {
            let args = [&[family, "--dtype", "f32", "--optimizer", "sgd"], form].concat();
            results(&module(&format!("gen_micro_{family}_{}", form.len()), &args))
        };
        let (whole, parts) = (step(&[]), step(&["--microbatch", "2"]));
        assert_eq!(whole.len(), parts.len(), "{family}");
        for (number, (a, b)) in whole.iter().zip(&parts).enumerate() {
            let largest = a.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let off = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(off <= 1e-5 * largest, "{family}, output {number}: {off} of {largest}");
        }
    }
}
