//! Ctrl-C: a process gets SIGINT while it reads, and while it searches.
#![cfg(unix)]

use crate::common::{phzc, scratch};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A search has its first plan in about this time after the layouts for all devices are written; on a slower
/// machine later.
const FIRST_PLAN: Duration = Duration::from_millis(500);

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary is built")
}

fn interrupted(child: Child) -> Output {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("`kill` is there").success());
    child.wait_with_output().expect("it ends")
}

#[test]
fn without_a_plan_the_process_ends_and_writes_nothing() {
    let dir = scratch("interrupt_without_a_plan");
    let output = dir.join("plan.ir").to_string_lossy().into_owned();
    let mut child = start(&["-", "-o", &output]);
    // A pipe holds less: it reads, and waits for the rest.
    child.stdin.as_mut().expect("piped").write_all(&vec![b'/'; 1 << 20]).expect("it reads");
    let stdin = child.stdin.take();
    let ended = interrupted(child);
    drop(stdin);
    assert_eq!((ended.status.code(), ended.stdout.len(), ended.stderr.len()), (Some(130), 0, 0));
    assert_eq!(crate::common::files(&dir).len(), 0);
}

/// A plan, what was said of it and the exit code, of a search that was interrupted so long after it began;
/// the code is 130 where it had no plan.
fn search(model: &Path, dir: &Path, wait: Duration) -> (String, Option<i32>) {
    let (dumps, plan) = (dir.join("dumps"), dir.join("plan.ir"));
    let _ = std::fs::remove_dir_all(&dumps);
    let paths = [model, &plan, &dumps].map(|path| path.to_string_lossy().into_owned());
    let [model, plan, dumps_name] = &paths;
    let mut child = start(&[model, "--cluster", "a100-8x8", "-o", plan, "--dump-dir", dumps_name]);
    while !dumps.join("02_shard.ir").exists() && child.try_wait().expect("a child").is_none() {
        sleep(Duration::from_millis(20));
    }
    sleep(wait);
    let ended = interrupted(child);
    (String::from_utf8_lossy(&ended.stderr).into_owned(), ended.status.code())
}

#[test]
fn with_a_plan_it_is_written_and_said_so() {
    let dir = scratch("interrupt_with_a_plan");
    let (model, plan) = (dir.join("model.ir"), dir.join("plan.ir"));
    let outcome = phzc(&["gen", "gpt", "--size", "1.3b", "-o", &model.to_string_lossy()], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let waits = (0..6).map(|doubled| FIRST_PLAN * (1 << doubled));
    let mut runs = waits.map(|wait| search(&model, &dir, wait));
    let (said, code) = runs.find(|(_, code)| *code != Some(130)).expect("a plan within half a minute");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("warning: interrupted: the best plan of "), "{said}");
    assert!(said.contains(", stop interrupted\n"), "{said}");
    let checked = phzc(&[&plan.to_string_lossy(), "--passes", "check", "-q"], b"");
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}
