//! Every real program beside the checkout is read and printed.

use crate::common::{corpus, program, root};
use phzc_ir::{Module, parse, print, verify};
use std::fs;
use std::path::Path;

fn read(path: &Path) -> Module {
    let module = parse(&program(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let errors = verify(&module);
    assert!(errors.is_empty(), "{}: {}", path.display(), errors[0]);
    module
}

#[test]
fn every_program_reads_verifies_and_prints_as_itself() {
    let programs = corpus();
    for path in &programs {
        let printed = print(&read(path));
        let again = parse(&printed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(print(&again) == printed, "{}: the second print differs from the first", path.display());
    }
    eprintln!("{} programs round-trip", programs.len());
}

#[test]
fn the_grammar_is_xla_s() {
    let path = root().join("../shared/oracle/hlo_grammar_cases.json");
    let Ok(text) = fs::read_to_string(path) else {
        eprintln!("SKIPPED: no ../shared/oracle/hlo_grammar_cases.json, 0 cases compared");
        return;
    };
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list of cases");
    let text_of = |case: &serde_json::Value| case["text"].as_str().expect("a text").to_owned();
    let differs =
        |case: &&serde_json::Value| Some(parse(&text_of(case)).is_ok()) != case["xla_accepts"].as_bool();
    let differing: Vec<String> = cases.iter().filter(differs).map(|case| case["case"].to_string()).collect();
    assert!(differing.is_empty(), "XLA decides otherwise: {}", differing.join(", "));
    eprintln!("{} grammar cases get XLA's verdict", cases.len());
}
