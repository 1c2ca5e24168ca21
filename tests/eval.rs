//! The evaluator on whole programs: the corpus' opcodes, its several spellings of one program, mutated
//! programs.

use crate::common::mutate::case;
use crate::common::{corpus, examples, golden, program};
use phzc_ir::eval::{self, Options};
use phzc_ir::{Module, parse, verify};

/// Cases of mutated programs.
const N_CASES: u64 = 4_000;

fn read(text: &str) -> Module {
    let module = parse(text).expect("the corpus parses");
    assert!(verify(&module).is_empty());
    module
}

#[test]
fn nearly_all_instructions_of_the_corpus_are_evaluated() {
    let files = [corpus(), examples()].concat();
    let (mut total, mut known) = (0usize, 0usize);
    let mut missing = std::collections::BTreeMap::new();
    for path in &files {
        let module = read(&program(path));
        for instr in module.comps.iter().flat_map(|comp| &comp.instrs) {
            total += 1;
            match eval::is_evaluated(instr.op) {
                true => known += 1,
                false => *missing.entry(instr.op.as_str()).or_insert(0) += 1,
            }
        }
    }
    let share = 100.0 * known as f64 / total as f64;
    eprintln!("{known} of {total} instructions ({share:.2} %) in {} programs; not: {missing:?}", files.len());
    assert!(share >= 95.0, "{missing:?}");
}

/// Programs that JAX wrote of one function, by the printer's options, and for several devices.
const SAME: &[(&str, &[&str])] = &[
    (
        "mlp_tiny.hlo",
        &["mlp_tiny.canonical.hlo", "mlp_tiny.short_parsable.hlo", "mlp_tiny.percent_opshapes.hlo"],
    ),
    (
        "llama_tiny.hlo",
        &["llama_tiny.jit2x4_gspmd.hlo", "llama_tiny.jit2x4_shardy.hlo", "llama_tiny.debug_info.hlo"],
    ),
];

#[test]
fn one_function_has_one_digest_however_it_is_written() {
    let files = corpus();
    let digest = |name: &str| {
        let path = files.iter().find(|path| path.ends_with(name))?;
        let module = read(&program(path));
        let inputs = eval::inputs(&module, 1).expect("fixed shapes");
        Some(eval::run(&module, &inputs, &Options::default()).expect("it is evaluated").digest())
    };
    for (name, others) in SAME {
        let wanted = digest(name);
        others.iter().for_each(|other| assert_eq!(digest(other), wanted, "{name} {other}"));
    }
}

#[test]
fn examples_have_finite_results() {
    for path in examples().iter().filter(|path| !path.ends_with("gpt2_small.ir")) {
        let module = read(&program(path));
        let inputs = eval::inputs(&module, 1).expect("fixed shapes");
        let result = eval::run(&module, &inputs, &Options::default());
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (index, leaf) in result.leaves().iter().enumerate() {
            assert!(leaf.to_f64_vec().iter().all(|x| x.is_finite()), "{} output {index}", path.display());
        }
    }
}

#[test]
fn no_mutated_program_does_harm() {
    let files = [golden(), examples()].concat();
    let texts = files.iter().map(|path| program(path)).filter(|text| text.len() <= 20_000);
    let seeds: Vec<String> = texts.collect();
    let n_ran = (0..N_CASES).filter(|&number| case("eval", &seeds, number, examine)).count();
    eprintln!("{N_CASES} cases from {} programs, {n_ran} of them ran", seeds.len());
    assert!(n_ran as u64 > N_CASES / 100, "mutations that never run test little: {n_ran}");
}

/// Whether a program that verifies runs to its end, on one device or two; nothing panics.
fn examine(text: &str) -> bool {
    let Ok(module) = parse(text) else { return false };
    if !verify(&module).is_empty() {
        return false;
    }
    let options = Options { fill_elided: Some(1), max_array_bytes: 3e5, max_trips: 20, ..Options::default() };
    let Ok(inputs) = eval::inputs_within(&module, 1, &options) else { return false };
    let two = eval::eval(&module, &[inputs.clone(), inputs.clone()], &options);
    eval::run(&module, &inputs, &options).is_ok() && two.is_ok()
}
