//! The command line as a process: what golden files, which run in process, cannot show.

use crate::common::{files, phzc, root, scratch};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n";

#[test]
fn prints_its_version() {
    let outcome = phzc(&["--version"], b"");
    assert_eq!((outcome.stdout.as_str(), outcome.code), ("phzc 0.1.0\n", 0));
}

#[test]
fn reads_standard_input_and_writes_standard_output() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_phzc"))
        .args(["-", "--passes", ""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    child.stdin.take().expect("piped").write_all(PROGRAM.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("HloModule module_e\n\n{PROGRAM}"));
}

#[test]
fn an_output_file_is_replaced_whole_and_may_be_the_input() {
    let path = scratch("cli_output").join("x.ir");
    fs::write(&path, PROGRAM).expect("writable");
    let name = path.to_string_lossy();
    let outcome = phzc(&[&name, "--passes", "dce", "-o", &name], b"");
    assert_eq!((outcome.stdout.as_str(), outcome.code), ("", 0), "{}", outcome.stderr);
    assert!(fs::read_to_string(&path).expect("readable").contains("phzc.passes=\"dce\""));
    assert_eq!(crate::common::files(path.parent().expect("a directory")), [path.as_path()]);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_phzc"))
        .args(["-", "--passes", ""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    drop(child.stdout.take());
    child.stdin.take().expect("piped").write_all(PROGRAM.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn gzipped_programs_are_unpacked() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(PROGRAM.as_bytes()).expect("a vector takes everything");
    let outcome = phzc(&["-", "--passes", ""], &packed.finish().expect("a vector takes everything"));
    assert_eq!(outcome.stdout, format!("HloModule module_e\n\n{PROGRAM}"));
}

#[test]
fn what_is_built_without_a_terminal_has_no_colours() {
    let output = Command::new(env!("CARGO_BIN_EXE_phzc"))
        .args(["missing.ir", "--passes", ""])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn where_nothing_can_be_written_nothing_is_left() {
    let dir = scratch("nowhere");
    let file = dir.join("file");
    fs::write(&file, "text").expect("scratch");
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let (file, inside, plan, dumps) = (path("file"), path("file/plan.ir"), path("plan.json"), path("dumps"));
    let common = ["examples/mlp.ir", "-q", "--plan", &plan, "--dump-dir", &dumps];
    let is_file = format!("`{file}` is a file\n |\n = help: name another directory, or remove the file");
    for (rest, message) in [
        (&["--emit", "pictures", "-o", &file][..], &*is_file),
        (&["--emit", "stages", "-o", &inside], &is_file),
        (&["-o", &inside], &is_file),
        (&["-o", &path("")], "it is a directory"),
        (&["-o", &path("none/plan.ir")], "there is no such directory"),
        (&["--dump-dir", &file], &is_file),
    ] {
        let kept = if rest[0] == "--dump-dir" { &common[..4] } else { &common };
        let outcome = phzc(&[kept, rest].concat(), b"");
        assert!(outcome.code != 0 && outcome.stderr.contains(message), "{rest:?}: {}", outcome.stderr);
        assert_eq!(files(&dir), [dir.join("file")], "{rest:?}");
    }
    if Path::new("/dev/full").exists() {
        let outcome = phzc(&[&common[..4], &["-o", "/dev/full"]].concat(), b"");
        assert!(outcome.code != 0 && !Path::new(&plan).exists(), "{}", outcome.stderr);
    }
}

#[test]
fn stages_of_an_earlier_run_are_removed_and_other_files_stay() {
    let dir = scratch("cli_stages");
    let program = root().join("examples/mlp.ir").to_string_lossy().into_owned();
    let emit = |n_stages: usize| {
        let passes = format!("fuse,shard,place{{stages={n_stages},microbatches=2}}");
        let args = [&program, "--passes", &passes, "-q", "--emit", "stages", "-o", &dir.to_string_lossy()];
        let outcome = phzc(&args, b"");
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    };
    emit(2);
    for name in ["notes.txt", "stage7.forward.hlo"] {
        fs::write(dir.join(name), "mine").expect("writable");
    }
    let second = dir.join("stage1.forward.hlo");
    assert!(second.exists());
    emit(1);
    assert!(!second.exists() && dir.join("stage0.forward.hlo").exists());
    assert!(dir.join("notes.txt").exists() && dir.join("stage7.forward.hlo").exists());
}

#[test]
fn every_device_that_is_listed_can_be_planned_for_and_shows_where_its_numbers_are_from() {
    let listed = phzc(&["devices", "--json"], b"");
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let objects =
        listed.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let names: Vec<String> = objects.filter_map(|it| Some(it["name"].as_str()?.to_owned())).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in &names {
        let program = b"ENTRY e { x = f32[64,64] parameter(0) ROOT y = f32[64,64] tanh(x) }";
        let planned = phzc(&["-", "--cluster", &format!("{name}-1"), "-q"], program);
        assert_eq!(planned.code, 0, "{name}: {}", planned.stderr);
        let shown = phzc(&["devices", name], b"").stdout;
        let numbers: Vec<&str> = shown.lines().skip(1).collect();
        let has_source = |line: &&&str| line.split_whitespace().count() > 2;
        assert!(numbers.len() > 5 && numbers.iter().all(|line| has_source(&line)), "{shown}");
    }
}

#[test]
fn shells_and_man_know_every_subcommand() {
    let script = phzc(&["completions", "bash"], b"").stdout;
    let dir = scratch("cli_man");
    let outcome = phzc(&["man", "-o", &dir.to_string_lossy()], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for command in ["devices", "price", "what-if"] {
        assert!(script.contains(&format!(" {command} ")), "{command}\n{script}");
        let page = fs::read_to_string(dir.join(format!("phzc-{command}.1"))).expect("a page");
        assert!(page.contains(&format!("phzc {command}").replace('-', "\\-")), "{page}");
    }
    // What a page refers to is there.
    for entry in fs::read_dir(&dir).expect("pages") {
        let page = fs::read_to_string(entry.expect("a page").path()).expect("a page").replace("\\-", "-");
        for (before, _) in page.lines().filter_map(|line| line.split_once("(1)")) {
            let name = before.split_whitespace().last().unwrap_or_default();
            assert!(dir.join(format!("{name}.1")).is_file(), "no page `{name}`");
        }
    }
    let own = phzc(&["man"], b"").stdout;
    assert!(
        own.starts_with(".ie") && own.contains("\\-\\-cluster") && own.contains("phzc\\-devices(1)"),
        "{own}"
    );
    assert_eq!(phzc(&["clusters"], b"").stdout, phzc(&["devices"], b"").stdout);
}
