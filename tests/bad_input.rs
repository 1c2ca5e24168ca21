//! Malformed and hostile input: one clear message, exit code 1 (2 for a wrong command line), never a panic,
//! a hang or a partial output file. Each case is a process of its own, so an overflown stack is seen too.

#[path = "bad_input/binary.rs"]
mod binary;
#[path = "bad_input/cases.rs"]
mod cases;
#[path = "bad_input/frontends.rs"]
mod frontends;
#[path = "bad_input/generation.rs"]
mod generation;
#[path = "bad_input/meant.rs"]
mod meant;
#[path = "bad_input/verification.rs"]
mod verification;

use crate::common::{files, scratch};
use cases::{Case, Input};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What takes longer hangs.
const MAX_SECS: u64 = 60;

#[test]
fn bad_input_gives_one_message() {
    let all =
        [cases::bad(), meant::bad(), generation::bad(), verification::bad(), binary::bad(), frontends::bad()];
    let (cases, mut findings) = (all.into_iter().flatten().collect::<Vec<_>>(), Vec::new());
    for case in &cases {
        findings.extend(examine(case).err().map(|finding| format!("{}: {finding}", case.name)));
    }
    eprintln!("{} bad inputs", cases.len());
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    assert!(cases.len() >= 40);
}

#[test]
fn extreme_but_legal_programs_pass() {
    let (cases, mut findings) = (cases::extreme(), Vec::new());
    for case in &cases {
        let (code, stderr) = run(case);
        if code != Some(0) {
            findings.push(format!("{}: exit code {code:?}: {}", case.name, clip(&stderr)));
        }
    }
    eprintln!("{} extreme inputs", cases.len());
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

fn examine(case: &Case) -> Result<(), String> {
    let (code, stderr) = run(case);
    let n_messages = stderr.lines().filter(|line| line.starts_with("error")).count();
    let left = files(&dir(case)).into_iter().filter(|path| !path.ends_with("input"));
    let left: Vec<_> = left.filter(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0)).collect();
    if code != Some(case.code) {
        Err(format!("exit code {code:?}, expected {}: {}", case.code, clip(&stderr)))
    } else if n_messages != 1 || stderr.contains("panicked") {
        Err(format!("{n_messages} messages: {}", clip(&stderr)))
    } else if !stderr.contains(case.says) {
        Err(format!("the message does not say `{}`: {}", case.says, clip(&stderr)))
    } else if stderr.len() > 4000 {
        Err(format!("the message has {} bytes", stderr.len()))
    } else if !left.is_empty() {
        Err(format!("files are left: {left:?}"))
    } else {
        Ok(())
    }
}

fn dir(case: &Case) -> std::path::PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad_input").join(case.name.replace(' ', "_"))
}

/// Runs the case in a directory of its own; the exit code (`None`: killed) and what was said.
fn run(case: &Case) -> (Option<i32>, String) {
    let dir = scratch(&format!("bad_input/{}", case.name.replace(' ', "_")));
    let input = dir.join("input");
    match &case.input {
        Input::None => {}
        Input::Bytes(bytes) => fs::write(&input, bytes).expect("the target directory is writable"),
        Input::Directory => fs::create_dir(&input).expect("the target directory is writable"),
        Input::Zeros(n_bytes) => {
            let file = fs::File::create(&input).expect("the target directory is writable");
            file.set_len(*n_bytes).expect("a file may have holes");
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
    command
        .current_dir(&dir)
        .args(&case.args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary is built");
    // Read while it runs: a full pipe would stop it.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || text(stdout));
    let said = std::thread::spawn(move || text(stderr));
    let code = wait(&mut child);
    let (out, said) = (out.join().expect("reads"), said.join().expect("reads"));
    if case.code != 0 && !out.is_empty() {
        (code, format!("a result was written:\n{}\n{said}", clip(&out)))
    } else {
        (code, said)
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    pipe.expect("it is piped").read_to_end(&mut bytes).expect("a pipe is readable");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        match child.try_wait().expect("the child is ours") {
            Some(status) => return status.code(),
            None if start.elapsed() > Duration::from_secs(MAX_SECS) => {
                child.kill().expect("the child is ours")
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn clip(text: &str) -> String {
    text.chars().take(600).collect()
}
