//! Shardings that programs bring: what restricts nothing changes no plan, the rest is obeyed, dropped on
//! request, or refused with a remedy.
//!
//! `tests/annotations/` is written by `tools/typed_keys.py` and `tools/flax_step.py`: steps with dropout by
//! typed random keys, which JAX constrains to a mesh without devices.

use crate::common::{Outcome, phzc, program, root, scratch};
use std::fs;
use std::path::PathBuf;

const SLOW: [&str; 2] = ["--cluster", "tests/clusters/slow-8.toml"];

/// The programs with typed keys.
fn typed() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("tests/annotations")).expect("the programs are there");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 14, "three forms, two dialects, two partitioners; and Flax, two dialects");
    paths
}

/// The text without its constraints: their readers read what they hand on.
fn unconstrained(text: &str) -> String {
    let is_constraint = |line: &str| {
        line.contains("harding")
            && line.contains(" = ")
            && !["HloModule", "sdy.mesh"].iter().any(|it| line.contains(it))
    };
    let mut text = text.to_owned();
    while let Some(at) = text.lines().position(is_constraint) {
        text = without(&text, at);
    }
    text
}

/// The text without one line, a call that hands its operand on.
fn without(text: &str, at: usize) -> String {
    let dropped = text.lines().nth(at).expect("a line");
    let (name, call) = dropped.trim().split_once(" = ").expect("a definition");
    let operand = match call.split_once("custom-call(") {
        Some((_, rest)) => rest.split(')').next().expect("an operand"),
        None => call.split('%').nth(1).and_then(|rest| rest.split([' ', ')']).next()).expect("an operand"),
    };
    let operand = if call.contains('%') { format!("%{operand}") } else { operand.to_owned() };
    // Names are a function's own: `main` is the first of StableHLO's and the last of HLO's.
    let (mut is_inside, mut rest) = (false, String::new());
    for line in text.lines() {
        is_inside = (is_inside || line == dropped) && !["  }", "}"].contains(&line);
        if line != dropped {
            rest += &(if is_inside { replaced(line, name, &operand) } else { line.to_owned() } + "\n");
        }
    }
    rest
}

/// A line with a whole word in place of another.
fn replaced(line: &str, old: &str, new: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%' | b'#');
    let (mut out, mut at) = (String::new(), 0);
    while let Some(found) = line[at..].find(old) {
        let (start, end) = (at + found, at + found + old.len());
        let before = start.checked_sub(1).map(|at| line.as_bytes()[at]);
        let is_whole =
            !before.is_some_and(is_word) && !line.as_bytes().get(end).copied().is_some_and(is_word);
        out += &line[at..start];
        out += if is_whole { new } else { old };
        at = end;
    }
    out + &line[at..]
}

/// The text without the numbers in names, which count a reader's instructions, and without widths of columns.
fn unnumbered(text: &str) -> Vec<String> {
    let is_name = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let word = |word: &str| -> String {
        let parts = word.split('.').filter(|part| !part.starts_with(|c: char| c.is_ascii_digit()));
        if is_name(word) { parts.collect::<Vec<_>>().join(".") } else { word.to_owned() }
    };
    let line = |line: &str| {
        line.split([' ', ',', '(', ')']).filter(|it| !it.is_empty()).map(word).collect::<Vec<_>>()
    };
    text.lines().map(|it| line(it).join(" ")).collect()
}

fn planned(arguments: &[&str], text: &str) -> Outcome {
    phzc(&[&["-"], &SLOW[..], arguments].concat(), text.as_bytes())
}

#[test]
fn constraints_of_typed_keys_change_no_plan() {
    for path in typed() {
        let text = program(&path);
        let bare = unconstrained(&text);
        assert!(bare.lines().count() < text.lines().count(), "{}: no constraint", path.display());
        let [with, without] = [text, bare].map(|text| planned(&[], &text));
        assert_eq!((with.code, without.code), (0, 0), "{}: {}", path.display(), with.stderr);
        assert!(unnumbered(&with.stdout) == unnumbered(&without.stdout), "{}", path.display());
        assert_eq!(unnumbered(&with.stderr), unnumbered(&without.stderr), "{}", path.display());
        assert!(!with.stdout.contains("phzc.given"), "{}", path.display());
    }
}

#[test]
fn the_plan_of_a_typed_program_is_proved() {
    let dir = scratch("annotations_typed");
    for name in ["plain.shardy.hlo", "nnx.shardy.hlo.gz"] {
        let path = root().join("tests/annotations").join(name);
        let plan = dir.join("plan.ir");
        let [model, plan] = [&path, &plan].map(|path| path.to_str().expect("UTF-8"));
        let made = phzc(&[&[model, "-o", plan], &SLOW[..]].concat(), b"");
        assert_eq!(made.code, 0, "{}", made.stderr);
        for pieces in [&["verify", model, plan][..], &["verify", model, plan, "--pieces"]] {
            let proved = phzc(pieces, b"");
            assert_eq!(proved.code, 0, "{}{}", proved.stdout, proved.stderr);
        }
    }
}

const GIVEN: &str = "HloModule m
ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,64] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] custom-call(h), custom_call_target=\"Sharding\", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  ROOT y = f32[64,64] tanh(c)
}";

#[test]
fn the_summary_says_what_restricted_the_search_and_what_that_costs() {
    let said = |arguments: &[&str]| planned(arguments, GIVEN).stderr;
    let free = said(&["--ignore-shardings"]);
    let free_secs = free.split(" per step").next().expect("a time");
    let line =
        format!("2 layouts restricted the search (w, c); without them (--ignore-shardings) {free_secs},");
    assert!(said(&[]).contains(&line), "{line}\n{}", said(&[]));
    assert!(said(&["--ignore-shardings=^c$"]).contains("given: 1 layout restricted the search (w)"));
    assert!(!free.contains("given:"));
}

#[test]
fn ignored_shardings_are_as_if_they_were_not_there() {
    let bare = GIVEN.replace(", sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "");
    let bare: Vec<&str> = bare.lines().filter(|line| !line.contains("custom-call")).collect();
    let bare = bare.join("\n").replace("tanh(c)", "tanh(h)");
    let lines =
        |outcome: Outcome| -> Vec<String> { outcome.stdout.lines().skip(1).map(str::to_owned).collect() };
    assert_eq!(lines(planned(&["--ignore-shardings"], GIVEN)), lines(planned(&[], &bare)));
    let wrong = planned(&["--ignore-shardings=("], GIVEN);
    assert!(wrong.code == 2 && wrong.stderr.contains("no regular expression"), "{}", wrong.stderr);
}

#[test]
fn an_annotated_program_is_priced_on_the_devices_of_its_shardings() {
    let said = planned(&["--passes", "estimate"], GIVEN).stderr;
    assert!(said.contains("on 8 devices"), "{said}");
    assert!(said.contains("all-") || said.contains("reduce-scatter"), "{said}");
    assert!(said.contains("the rest is propagated"), "{said}");
}
