//! The golden files of `fuse`, `shard` and `place`, by this crate's passes alone: the program that comes out,
//! the files beside it and the errors are in the snapshot. How these are shown is the driver's: `tests/golden.rs`.

use crate::testing::pipeline;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, parse, print};
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

/// What of a golden file's program comes out otherwise than its snapshot says.
fn differences(program: &str, snapshot: &str) -> Vec<String> {
    match planned(program) {
        Ok((module, artifacts, _)) => {
            let known = lines(snapshot);
            let is_shown = !program.lines().next().is_some_and(|run| run.contains("-o /dev/null"));
            let mut made: Vec<String> = artifacts
                .iter()
                .filter(|_| snapshot.contains("_input.ir ---"))
                .flat_map(|it| lines(it))
                .collect();
            made.extend(lines(&print(&module)).into_iter().filter(|_| is_shown));
            made.retain(|line| !known.contains(line));
            made
        }
        Err(errors) => {
            let messages = errors.into_iter().map(|error| error.message);
            messages.filter(|message| !snapshot.contains(&**message)).collect()
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
            "dimension 1 of `s`, 64: []",
            "dimension 2 of `s`, 128: [(\"x\", \"`s` needs it whole\")]",
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
