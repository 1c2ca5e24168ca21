//! `phzc verify --pieces`: plans proven instruction by instruction, and faults planted in them.

use crate::common::plant::{Plant, constant, dimension, layout, opcode, operand, planted, slice};
use crate::common::{phzc, program, root, scratch};
use phzc_ir::{InstrId, Module, parse};
use phzc_passes::verify::{Settings, Verdict, verify};
use std::fs;
use std::path::Path;

/// A plan of a program for eight devices.
fn plan(model: &Path, passes: &str, test: &str) -> Module {
    let path = scratch(test).join("plan.ir").to_string_lossy().into_owned();
    let cluster = "tests/clusters/slow-8.toml";
    let outcome =
        phzc(&[&model.to_string_lossy(), "--cluster", cluster, "--passes", passes, "-o", &path], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    parse(&fs::read_to_string(path).expect("it was written")).expect("a legal plan")
}

/// Faults and the examples to plant them in, each in one instruction.
const FAULTS: &[(&str, &str, Plant)] = &[
    ("another opcode", "gpt", opcode),
    ("another constant", "gpt", constant),
    ("another operand", "gpt", operand),
    ("a slice that starts elsewhere", "llama", slice),
    ("another dimension", "gpt", dimension),
    ("another layout", "gpt", layout),
];

/// The verdict, or none if the plan is refused.
fn verdict(original: &Module, plan: &Module, by_pieces: bool) -> Option<Verdict> {
    let settings = Settings { by_pieces, ..Settings::default() };
    verify(original, plan, &settings).ok().map(|verified| verified.verdict())
}

/// What is equal in pieces is equal as a whole, whatever was planted.
#[test]
fn planted_faults_are_found_in_pieces_as_they_are_in_whole_programs() {
    for (kind, example, fault) in FAULTS {
        let model = root().join(format!("examples/{example}.ir"));
        let original = parse(&program(&model)).expect("a legal program");
        let planned = plan(&model, "fuse,shard,place{stages=1,microbatches=1}", "planted");
        let ids: Vec<InstrId> = planned.entry().iter().map(|(id, _)| id).collect();
        let candidates: Vec<Module> = ids.iter().filter_map(|&id| planted(&planned, *fault, id)).collect();
        let step = (candidates.len() / 8).max(1);
        let (mut n_found, mut n_harmless) = (0, 0);
        for faulty in candidates.iter().step_by(step) {
            match verdict(&original, faulty, true) {
                Some(Verdict::Equal) => {
                    assert_eq!(verdict(&original, faulty, false), Some(Verdict::Equal), "{kind}");
                    n_harmless += 1;
                }
                _ => n_found += 1,
            }
        }
        eprintln!("{kind}: {n_found} found, {n_harmless} change nothing, of {}", candidates.len());
        assert!(n_found > 0, "{kind}");
    }
}

#[test]
fn a_plan_is_proven_in_pieces_and_what_differs_is_named() {
    let model = root().join("examples/mlp.ir");
    let planned = phzc_ir::print(&plan(&model, "fuse,shard,place{stages=2,microbatches=4}", "pieces_cli"));
    let path = scratch("pieces_cli").join("plan.ir");
    let run = |text: &str| {
        fs::write(&path, text).expect("writable");
        phzc(&["verify", "examples/mlp.ir", &path.to_string_lossy(), "--pieces"], b"")
    };
    let outcome = run(&planned);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("100.0 % of the operations proven"), "{}", outcome.stdout);
    let line = planned.lines().find(|line| line.contains(" subtract(")).expect("an update");
    let name = line.trim().split(' ').next().expect("a name");
    let outcome = run(&planned.replace(line, &line.replace(" subtract(", " add(")));
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains(&format!("\n{name} ")), "{}", outcome.stdout);
}

#[test]
fn what_is_not_proven_has_an_exit_code_of_its_own() {
    let text = "HloModule m\nENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x)
        ROOT y = f32[2] custom-call(a), custom_call_target=\"magic\" }";
    let path = scratch("not_proven").join("model.ir").to_string_lossy().into_owned();
    fs::write(&path, text).expect("writable");
    let outcome = phzc(&["verify", &path, &path, "--pieces"], b"");
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("not proven, because of `y`: "), "{}", outcome.stderr);
}
