//! Faults planted in plans of real and of hard programs, which are too large to be run, are found in their
//! pieces.

use super::common::plant::{Plant, cut, dimension, group, layout, operand, planted, slice, sum};
use super::common::{corpus, hard_programs, phzc, program, scratch, stem};
use phzc_ir::{InstrId, Module, parse};
use phzc_passes::verify::{Settings, Verdict, verify};
use std::fs;
use std::path::{Path, PathBuf};

/// A fault, and the plan that it is planted in.
const FAULTS: [(&str, &str, Plant); 7] = [
    ("group", ON_ONE_MESH, group),
    ("axis", ON_ONE_MESH, layout),
    ("slice", ON_ONE_MESH, slice),
    ("sum", ON_ONE_MESH, sum),
    ("operand", ON_ONE_MESH, operand),
    ("dimension", ON_ONE_MESH, dimension),
    ("cut", IN_STAGES, cut),
];
const ON_ONE_MESH: &str = "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}";
const IN_STAGES: &str = "fuse,shard,place{stages=2,microbatches=1}";

/// Of each kind about that many are planted, spread over the program.
const N_EACH: usize = 1;

fn plan(model: &Path, passes: &str) -> Option<Module> {
    let path = scratch("plant").join("plan.ir").to_string_lossy().into_owned();
    let args = [&*model.to_string_lossy(), "--cluster", "a100-8x1", "--passes", passes, "-q", "-o", &path];
    let made = phzc(&args, b"");
    (made.code == 0).then(|| parse(&fs::read_to_string(path).expect("it was written")).expect("a legal plan"))
}

fn verdict(original: &Module, plan: &Module, by_pieces: bool) -> Option<Verdict> {
    let settings = Settings { by_pieces, fill_elided: true, ..Settings::default() };
    verify(original, plan, &settings).ok().map(|verified| verified.verdict())
}

/// What became of faults of one kind: found, harmless, or missed, each of the last by its instruction.
fn judged(
    original: &Module,
    planned: &Module,
    (fault, is_cut): (Plant, bool),
) -> (usize, usize, Vec<String>) {
    let (mut n_found, mut n_harmless, mut missed) = (0, 0, Vec::new());
    let ids: Vec<InstrId> = planned.entry().iter().map(|(id, _)| id).collect();
    let candidates: Vec<InstrId> = ids.into_iter().filter(|&id| fault(planned, id).is_some()).collect();
    let step = (candidates.len() / N_EACH).max(1);
    for &id in candidates.iter().skip(step / 2).step_by(step) {
        let Some(faulty) = planted(planned, fault, id) else { continue };
        match verdict(original, &faulty, true) {
            // Another stage computes the same, where the order allows it.
            Some(Verdict::Equal) if is_cut => n_harmless += 1,
            Some(Verdict::Equal) if verdict(original, &faulty, false) == Some(Verdict::Equal) => {
                n_harmless += 1;
            }
            Some(Verdict::Equal) => missed.push(planned.entry().instr(id).name.to_string()),
            _ => n_found += 1,
        }
    }
    (n_found, n_harmless, missed)
}

#[test]
#[ignore = "takes two minutes"]
fn faults_of_a_kind_or_two_in_every_third_program_are_found_in_pieces() {
    let n_found = all_found(3, 3);
    assert!(n_found.iter().sum::<usize>() >= 10, "{n_found:?}");
}

#[test]
#[ignore = "takes half an hour"]
fn faults_in_programs_too_large_to_run_are_found_in_pieces() {
    let n_found = all_found(1, 1);
    assert!(!n_found.contains(&0), "{n_found:?}");
}

/// Plants one of so many kinds of faults in one of so many programs, others in the next one. Answers with how
/// many of each kind were found; none is missed.
fn all_found(one_program_of: usize, one_kind_of: usize) -> [usize; FAULTS.len()] {
    let (mut missed, mut n_all) = (Vec::new(), [0; FAULTS.len()]);
    // The corpus' forms are other spellings of two of its programs.
    let is_form = |path: &PathBuf| path.parent().is_some_and(|dir| dir.ends_with("forms"));
    let programs = corpus().into_iter().filter(|path| !is_form(path)).chain(hard_programs());
    for (at, path) in programs.step_by(one_program_of).enumerate() {
        let (name, original) = (stem(&path), parse(&program(&path)).expect("a legal program"));
        let is_proven = |plan: &Module| verdict(&original, plan, true) == Some(Verdict::Equal);
        let kinds = || FAULTS.into_iter().enumerate().skip((at + 1) % one_kind_of).step_by(one_kind_of);
        let plans = [ON_ONE_MESH, IN_STAGES].map(|passes| {
            let is_asked_for = kinds().any(|(_, fault)| fault.1 == passes);
            is_asked_for.then(|| plan(&path, passes)).flatten().filter(is_proven)
        });
        for (number, (kind, passes, fault)) in kinds() {
            let planned = if passes == ON_ONE_MESH { &plans[0] } else { &plans[1] };
            let Some(planned) = planned else { continue };
            let (n_found, n_harmless, own) = judged(&original, planned, (fault, kind == "cut"));
            n_all[number] += n_found;
            eprintln!("{name:28} {kind:10} {n_found} found, {n_harmless} harmless, missed {own:?}");
            missed.extend(own.into_iter().map(|own| format!("{name}: {kind} of `{own}`")));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    n_all
}
