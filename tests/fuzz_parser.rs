//! Mutates real programs and checks that nothing panics, hangs or reads back as something else.
//!
//! `cargo test --release --test all fuzz_parser:: -- --ignored --nocapture` runs for ten minutes; a
//! finding is written below the target directory and named.

use crate::common::mutate::{case, for_secs};
use crate::common::program;
use phzc_ir::{CompId, Module, View, parse, print, verify};

/// Cases of a plain `cargo test`.
const N_CASES: u64 = 20_000;
/// Larger programs are left out: they make cases slow, not different.
const MAX_SEED_BYTES: usize = 60_000;

fn seeds() -> Vec<String> {
    let files = [crate::common::golden(), crate::common::examples(), crate::common::corpus()].concat();
    let texts = files.iter().map(|path| program(path));
    texts.filter(|text| text.len() <= MAX_SEED_BYTES).collect()
}

#[test]
fn no_mutation_of_a_program_does_harm() {
    let seeds = seeds();
    let n_parsed = (0..N_CASES).filter(|&number| case("parser", &seeds, number, examine)).count();
    eprintln!("{N_CASES} cases from {} programs, {n_parsed} of them parse", seeds.len());
    assert!(n_parsed as u64 > N_CASES / 50, "mutations that never parse test little: {n_parsed}");
}

#[test]
#[ignore = "takes ten minutes"]
fn no_mutation_does_harm_for_ten_minutes() {
    let seeds = seeds();
    let (n_cases, n_parsed) = for_secs(600, |number| case("parser", &seeds, number, examine));
    eprintln!("{n_cases} cases from {} programs, {n_parsed} of them parse, no finding", seeds.len());
}

/// Parses, prints, verifies and reads all rules; whether the text parses.
fn examine(text: &str) -> bool {
    let Ok(module) = parse(text) else { return false };
    let printed = print(&module);
    match parse(&printed) {
        Ok(again) => assert!(print(&again) == printed, "printing is not stable"),
        Err(error) => panic!("what is printed does not parse: {error}\n{printed}"),
    }
    if verify(&module).is_empty() {
        read_rules(&module);
    }
    true
}

/// After verify has passed, nothing panics.
fn read_rules(module: &Module) {
    for (index, comp) in module.comps.iter().enumerate() {
        for (id, instr) in comp.iter() {
            let view = View::new(module, CompId::new(index), id);
            let def = instr.op.def();
            let _ = (phzc_ir::ops::split_rule(&view).to_string(), (def.work)(&view), (def.infer)(&view));
        }
    }
    phzc_ir::flops::totals(module);
}
