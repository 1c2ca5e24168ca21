//! The golden files of `fuse`, `shard` and `place`, by this crate's passes alone: the program that comes out,
//! the files beside it and the errors are in the snapshot. How these are shown is the driver's:
//! `tests/golden.rs`.

use crate::testing::{EXAMPLES, pipeline};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Opcode, parse, print};
use phzc_pass::explanation::{Considered, Explanation, Term, Verdict};
use phzc_pass::manager::{Hooks, run};
use phzc_pass::pass::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// These are about options that the driver reads.
const OF_THE_DRIVER: [&str; 2] = ["two_tops", "explain_without_shard"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The programs of a golden directory and what a user sees of each, in the order of their names.
fn golden(dir: &str) -> Vec<(String, String, String)> {
    let files = fs::read_dir(root().join("tests/golden").join(dir)).expect("a directory");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ir"));
    paths.sort();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let text = |path: &Path| fs::read_to_string(path).expect("text");
    let all = paths.iter().map(|path| (name(path), text(path), text(&path.with_extension("snap"))));
    all.filter(|(name, ..)| !OF_THE_DRIVER.contains(&&**name)).collect()
}

/// The word after an option of the command in a program's first line, without its quotes.
fn option<'a>(program: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = program.lines().next()?.split_once(&format!(" {name} "))?;
    match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next(),
        None => rest.split(' ').next(),
    }
}

fn cluster(program: &str) -> Cluster {
    match option(program, "--cluster") {
        Some(file) if file.ends_with(".toml") => {
            let text = fs::read_to_string(root().join(file)).expect("a cluster");
            Cluster::from_toml(&text).expect("a legal cluster")
        }
        Some(name) => Cluster::named(name).expect("a built-in cluster"),
        None => crate::testing::default_cluster(),
    }
}

/// What the passes of the first line make of a program, the files that they write and what they explain.
fn planned(program: &str) -> Result<(Module, Vec<String>, Vec<Explanation>), Vec<Diagnostic>> {
    let (mut module, cluster) = (parse(program).map_err(|error| vec![error])?, cluster(program));
    let mut cx = Context::new(&cluster);
    cx.explain = option(program, "--explain").map(str::to_owned).into_iter().collect();
    let mut pipeline = pipeline(option(program, "--passes").unwrap_or("fuse,shard,place"))?;
    for step in pipeline.steps.iter_mut().filter(|step| step.pass.name == "shard") {
        let pin = option(program, "--pin").unwrap_or_default();
        step.options.values.insert("pin", pin.to_owned());
    }
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    run(&mut module, &pipeline, &mut cx, &mut hooks)?;
    Ok((module, cx.artifacts.into_values().collect(), cx.explanations))
}

/// The lines of a text without what the report says of each, and without the figures of the plan: how many
/// choices were evaluated depends on the solver that is linked.
fn lines(text: &str) -> Vec<String> {
    let bare = |line: &str| {
        let code = line.split(" // ").next().unwrap_or(line).trim_end();
        let (head, plan) = code.split_once("phzc.plan=").unwrap_or((code, ""));
        head.to_owned() + plan.split_once("}\"").map_or("", |(_, rest)| rest)
    };
    text.lines().filter(|line| !line.starts_with("//")).map(bare).filter(|line| !line.is_empty()).collect()
}

/// The lines of a snapshot that these passes make: the program that is written out, or the dumps.
fn shown(program: &str, snapshot: &str) -> Vec<String> {
    let (out, rest) = snapshot.split_once("--- stderr ---").unwrap_or((snapshot, ""));
    let out = out.split_once("HloModule").map_or(String::new(), |(_, out)| format!("HloModule{out}"));
    let dumps = rest.split_once("--- exit code ---\n0\n").map_or("", |(_, dumps)| dumps);
    let input = lines(&parse(program).map(|module| print(&module)).unwrap_or_default());
    let mut all = lines(&out);
    // What is dumped of the report is the driver's.
    let files = dumps.split("\n--- ").filter(|file| !file.starts_with("plan.json"));
    let files = files.filter_map(|file| file.split_once(" ---\n"));
    all.extend(files.flat_map(|(_, text)| lines(text)).filter(|line| !input.contains(line)));
    all
}

/// What of a golden file's program comes out otherwise than its snapshot says.
fn differences(program: &str, snapshot: &str) -> Vec<String> {
    match planned(program) {
        Ok((module, artifacts, _)) => {
            let known = shown(program, snapshot);
            let has_dumps = snapshot.contains("_input.ir ---");
            let files = artifacts.iter().filter(|_| has_dumps).flat_map(|file| lines(file));
            let is_shown = has_dumps || snapshot.starts_with("---\nsource: tests/golden.rs\n---\nHloModule");
            let module = if is_shown { lines(&print(&module)) } else { Vec::new() };
            let made: Vec<String> = files.chain(module).collect();
            let more = made.iter().filter(|line| !snapshot.contains(&***line) && !known.contains(line));
            more.chain(known.iter().filter(|line| !made.contains(line))).cloned().collect()
        }
        Err(errors) => {
            let messages = errors.into_iter().map(|error| error.message);
            // What runs a pass of another crate too is compared by tests/golden.rs alone.
            let is_foreign = |message: &String| message.starts_with("unknown pass");
            messages.filter(|message| !snapshot.contains(&**message) && !is_foreign(message)).collect()
        }
    }
}

#[test]
fn programs_come_out_as_their_golden_files_say() {
    for dir in ["fuse", "shard", "place"] {
        for (name, program, snapshot) in golden(dir) {
            assert_eq!(differences(&program, &snapshot), Vec::<String>::new(), "{dir}/{name}");
        }
    }
}

/// The explanation of a golden file of `shard`.
fn explanation(name: &str) -> Explanation {
    let all = golden("shard");
    let (_, program, _) = all.iter().find(|(own, ..)| own == name).expect("a golden file");
    planned(program).expect("a plan").2.pop().expect("an explanation")
}

#[test]
fn a_strategy_is_explained_by_its_parts_and_what_became_of_it() {
    let it = explanation("explained");
    assert_eq!((&*it.name, &*it.mesh, it.n_others), ("y", "x=8", 0));
    let secs: Vec<f64> = it.strategies.iter().map(Considered::secs).collect();
    for (row, secs_more) in it.strategies[1..3].iter().zip(&secs[1..]) {
        let Verdict::Dearer(more) = row.verdict else { panic!("{:?}", row.verdict) };
        assert!((more - (secs_more - secs[0])).abs() < 1e-12, "{more}");
    }
    assert_eq!(
        (&it.strategies[0].verdict, &it.strategies[3].verdict),
        (&Verdict::Chosen, &Verdict::Forbidden("lhs"))
    );
    let layouts: Vec<String> =
        it.strategies.iter().map(|row| format!("{} -> {}", row.operands.join(" "), row.result)).collect();
    assert_eq!(
        layouts,
        ["[-,x] [x,-] -> [-,-]", "[-,-] [-,x] -> [-,x]", "[-,-] [-,-] -> [-,-]", "[x,-] [-,-] -> [x,-]"]
    );
    let terms = |row: usize| {
        let term = |term: &Term| {
            let moves =
                term.moves.iter().map(|it| format!(" {} {} {}", it.kind, it.axes.join(","), it.bytes));
            format!("{}{}", term.what, moves.collect::<String>())
        };
        it.strategies[row].terms.iter().map(term).collect::<Vec<_>>()
    };
    assert_eq!(terms(0), ["kernels of the block", "`y` for `z` reduce-scatter x 4096"]);
    assert_eq!(
        terms(1)[1..],
        [
            "`w2` for `y` all-to-all x 65536",
            "`a` for `y` all-gather x 131072",
            "`y` for `z` all-to-all x 512",
        ]
    );
    assert_eq!(
        terms(2)[1..],
        ["`w2` for `y` all-gather x 524288", "`a` for `y` all-gather x 131072", "`y` for `z`",]
    );
}

#[test]
fn loops_that_no_axis_can_split_are_explained() {
    let facts = |name: &str| {
        let all = explanation(name).loops.into_iter();
        all.map(|it| format!("{}, {}: {:?}", it.place, it.size, it.refused)).collect::<Vec<_>>()
    };
    assert_eq!(
        facts("explained_loops"),
        [
            "dimension 0 of `s`, 12: [(\"x\", \"12 does not divide into 8 parts\")]",
            "dimension 1 of `s`, 8: []",
            "dimension 2 of `s`, 16: [(\"x\", \"`s` needs it whole\")]",
        ]
    );
    assert_eq!(
        facts("explained_minor"),
        [
            "dimension 0 of `y`, 3: [(\"x\", \"3 does not divide into 8 parts\")]",
            "dimension 0 of `y`, 8: [(\"x\", \"it is the minor part of a dimension of `y`: its tiles would not be contiguous\")]",
        ]
    );
}

#[test]
fn what_is_said_of_a_strategy_holds_against_the_chosen_one() {
    let (mut module, cluster) = (parse(EXAMPLES[0].1).expect("a program"), crate::testing::slow_8());
    let mut cx = Context::new(&cluster);
    let is_large = |instr: &&phzc_ir::Instr| {
        let n_elements = instr.shape.as_array().map_or(0.0, |array| array.n_elements());
        n_elements > 8.0
            && matches!(instr.op, Opcode::Dot | Opcode::Tanh | Opcode::Maximum | Opcode::Multiply)
    };
    cx.explain = module.entry().instrs.iter().filter(is_large).map(|instr| instr.name.to_string()).collect();
    for step in &pipeline("fuse,shard{mesh=2x4}").expect("a legal pipeline").steps {
        step.run(&mut module, &mut cx).expect("a plan");
    }
    for it in &cx.explanations {
        let rows = &it.strategies;
        let secs = |at: usize| rows[at].secs();
        assert!(rows[0].verdict == Verdict::Chosen, "{}", it.name);
        assert!(rows[1..].is_sorted_by(|a, b| a.secs() <= b.secs()), "{}", it.name);
        for (at, row) in rows.iter().enumerate().skip(1) {
            match row.verdict {
                Verdict::Dominated(other) => {
                    assert!(other != at && rows[other].memory_bytes <= row.memory_bytes, "{} {at}", it.name);
                    assert!(secs(other) <= secs(at) * (1.0 + 1e-9), "{} {at}: {other}", it.name);
                }
                Verdict::Dearer(more) => {
                    assert!(more >= 0.0 && more == secs(at) - secs(0), "{} {at}", it.name)
                }
                Verdict::TooLarge(less, bytes) => {
                    assert!(less > 0.0 && bytes > 0.0 && less == secs(0) - secs(at), "{} {at}", it.name);
                }
                Verdict::Chosen | Verdict::Forbidden(_) => panic!("{} {at}", it.name),
            }
        }
    }
    assert!(cx.explanations.len() > 40, "{}", cx.explanations.len());
}
