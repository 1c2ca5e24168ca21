//! Runs every `golden/**/*.ir` as its first line says and compares what a user sees with the snapshot beside
//! it.
//!
//! `// RUN: phzc %s --passes dce`, where `%s` is the file and `%t` an empty directory whose files are shown
//! too. `INSTA_UPDATE=always cargo test --test all golden::` accepts what there is;
//! `INSTA_GLOB_FILTER='*two_readers*'` runs one.

use crate::common::{Outcome, files, phzc, root, scratch};
use std::fs;
use std::path::Path;

#[test]
fn golden() {
    insta::glob!("golden/**/*.ir", |path| {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(path.parent().expect("a file has a directory"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.remove_snapshot_suffix();
        settings.remove_input_file();
        let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        settings.bind(|| insta::assert_snapshot!(stem, run(path)));
    });
}

/// Standard output, then standard error, the exit code and the files of `%t`.
fn run(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a golden file is text");
    let first = text.lines().next().unwrap_or("");
    let command =
        first.strip_prefix("// RUN: phzc ").unwrap_or_else(|| panic!("{}: no RUN line", path.display()));
    let path = path.canonicalize().expect("the file is there");
    let shown = path.strip_prefix(root()).expect("golden files are in the checkout");
    let name = shown.to_string_lossy().replace('/', "_");
    let dir = command.contains("%t").then(|| scratch(&name));
    let dir_text = dir.as_ref().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let fill = |word: String| word.replace("%s", &shown.to_string_lossy()).replace("%t", &dir_text);
    let outcome = phzc(&words(command).into_iter().map(fill).collect::<Vec<_>>(), b"");
    let mut report = report(&outcome);
    for file in dir.iter().flat_map(|dir| files(dir)) {
        let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
        report += &format!("--- {name} ---\n{}", fs::read_to_string(&file).expect("dumps are text"));
    }
    report
}

fn report(outcome: &Outcome) -> String {
    let Outcome { stdout, stderr, code } = outcome;
    format!("{stdout}--- stderr ---\n{stderr}--- exit code ---\n{code}\n")
}

/// Splits a command at spaces outside of single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, piece) in command.trim().split('\'').enumerate() {
        let is_quoted = index % 2 == 1;
        for (part_index, part) in piece.split(' ').enumerate() {
            match words.last_mut() {
                Some(word) if is_quoted => {
                    *word += &format!("{}{part}", if part_index > 0 { " " } else { "" })
                }
                Some(word) if part_index == 0 => *word += part,
                _ => words.push(part.to_owned()),
            }
        }
    }
    words.retain(|word| !word.is_empty() || command.contains("''"));
    words
}
