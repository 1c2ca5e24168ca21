//! The golden files of `fuse`, `shard` and `place`, by this crate's passes alone: the program that comes out,
//! the files beside it and the errors are in the snapshot. How these are shown is the driver's: `tests/golden.rs`.

use crate::testing::pipeline;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, parse, print};
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

/// What the passes of the first line make of a program, and the files that they write.
fn planned(program: &str) -> Result<(Module, Vec<String>), Vec<Diagnostic>> {
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
    Ok((module, cx.artifacts.into_values().collect()))
}

/// The lines of a text without what the report says of each, and without the notes of what ran.
fn lines(text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.starts_with("//");
    let bare = |line: &str| line.split(" // ").next().unwrap_or(line).trim_end().to_owned();
    text.lines().filter(is_code).map(bare).filter(|line| !line.is_empty()).collect()
}

/// What of a golden file's program comes out otherwise than its snapshot says.
fn differences(program: &str, snapshot: &str) -> Vec<String> {
    match planned(program) {
        Ok((module, artifacts)) => {
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
            let d = differences(&program, &snapshot);
            if !d.is_empty() {
                eprintln!("{dir}/{name}: {d:#?}");
            }
        }
    }
}
