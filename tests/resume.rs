//! A dump resumed gives the bytes of the whole run; so do a second run and another number of threads.

use crate::common::{examples, phzc, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The user's own line; few candidates, for every program is planned four times.
const PIPELINE: &str = "dce,fuse,shard,place{max-plans=4}";

fn plan(args: &[&str]) -> String {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "phzc {}:\n{}", args.join(" "), outcome.stderr);
    outcome.stdout
}

#[test]
fn every_dump_resumes_to_the_bytes_of_the_whole_run() {
    let (mut n_programs, mut n_dumps) = (0, 0);
    for path in examples() {
        let dir = scratch(&format!("resume_{n_programs}"));
        let (model, dumps) = (path.to_string_lossy(), dir.to_string_lossy());
        let whole = plan(&[&model, "--passes", PIPELINE, "--dump-dir", &dumps]);
        for dump in
            crate::common::files(&dir).iter().filter(|file| file.extension().is_some_and(|it| it == "ir"))
        {
            assert!(resume(dump) == whole, "{}: resumed, it gives another program", dump.display());
            n_dumps += 1;
        }
        n_programs += 1;
    }
    assert!(n_dumps > n_programs, "no pass changed anything");
    eprintln!("{n_programs} programs, {n_dumps} dumps resumed with `{PIPELINE}`");
}

/// Whoever plans a planned program again, on the same mesh and cluster, gets it back; staged or not.
#[test]
fn a_finished_plan_planned_again_keeps_its_layouts() {
    let path = crate::common::root().join("examples/mlp.ir");
    let dir = scratch("planned_again");
    let after = dir.join("after.ir").to_string_lossy().into_owned();
    for passes in ["fuse,shard{mesh=8},place", "fuse,shard{mesh=2x4},place{stages=2}"] {
        let first = plan(&[&path.to_string_lossy(), "--passes", passes]);
        fs::write(&after, &first).expect("writable");
        let again = plan(&[&after, "--passes", passes]);
        let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_owned());
        assert!(body(&first) == body(&again), "{passes}: the second run differs");
    }
}

/// Runs the command of the dump's first line.
fn resume(dump: &Path) -> String {
    let text = fs::read_to_string(dump).expect("a dump is text");
    let command = text.lines().next().and_then(|line| line.strip_prefix("// phzc ")).expect("a command");
    let words: Vec<&str> = command.split(' ').map(|word| word.trim_matches('\'')).collect();
    let name = dump.to_string_lossy();
    assert!(name.ends_with(words[0]), "{command}");
    plan(&[&[&*name], &words[1..]].concat())
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let path = root_example();
    let run = |threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
        let command = command.arg(&path).args(["--passes", "dce,fuse,shard,place", "--quiet"]);
        let output = command.env("RAYON_NUM_THREADS", threads).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert!(run("1") == run("2"));
}

fn root_example() -> std::path::PathBuf {
    crate::common::root().join("examples/gpt.ir")
}
