//! README.md and docs/: a page of 150 lines, links that lead somewhere, commands that print what is shown.

use crate::common::{files, root, scratch};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Lines that README.md may have.
const MAX_LINES: usize = 150;
/// A shown line that stands for any number of printed ones; within a line, for any characters.
const GAP: char = '…';

#[test]
fn the_readme_is_one_page() {
    let lines = read("README.md").lines().count();
    assert!(lines <= MAX_LINES, "README.md: {lines} lines, at most {MAX_LINES}");
}

#[test]
fn every_relative_link_leads_to_a_file() {
    let broken: Vec<String> = pages().iter().flat_map(|page| broken_links(page)).collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn the_readme_links_every_page() {
    let readme = read("README.md");
    let lonely: Vec<String> = pages()
        .into_iter()
        .filter(|page| page != "README.md" && !readme.contains(&format!("({page})")))
        .collect();
    assert!(lonely.is_empty(), "README.md has no link to {}", lonely.join(", "));
}

#[test]
fn the_readme_shows_what_is_printed() {
    replay("README.md");
}

#[test]
fn the_tour_shows_what_is_printed() {
    replay("docs/tour.md");
}

#[test]
fn the_page_about_understanding_shows_what_is_printed() {
    replay("docs/understand.md");
}

#[test]
fn the_page_about_training_shows_what_is_printed() {
    replay("docs/training.md");
}

#[test]
fn the_page_about_hardware_shows_what_is_printed() {
    replay("docs/hardware.md");
}

#[test]
fn the_page_about_measured_costs_shows_what_is_printed() {
    replay("docs/profile.md");
}

#[test]
fn the_page_about_formats_shows_what_is_printed() {
    replay("docs/formats.md");
}

#[test]
fn the_page_about_sweeps_shows_what_is_printed() {
    replay("docs/sweep.md");
}

#[test]
fn gaps_and_times_of_passes_are_not_compared() {
    let printed = ["a 1", "b", "c", "passes: fuse 12 ms, shard 2.50 s"];
    assert!(are_alike(&["a 1", "   …", "passes: fuse 170 us, shard 3 ms"], &printed));
    assert!(are_alike(&["a …", "b", "c", "…"], &printed));
    assert!(!are_alike(&["a 2", "   …"], &printed));
    assert!(!are_alike(&["a 1", "   …", "c"], &printed));
    assert!(!are_alike(&["   …", "passes: fuse 12 ms, place 2.50 s"], &printed));
}

/// A command that a page shows, and the lines below it.
struct Example {
    command: String,
    shown: Vec<String>,
}

/// Runs all commands of a page in order, in one directory.
fn replay(page: &str) {
    let dir = desk(page);
    for example in examples(page) {
        match new_file(&example, &dir) {
            Some(path) => {
                fs::write(path, example.shown.join("\n") + "\n").expect("the directory is writable")
            }
            None => check(page, &example, &dir),
        }
    }
}

/// A directory to run a page's commands in, with the files of the checkout that they name.
fn desk(page: &str) -> PathBuf {
    let dir = scratch(&format!("docs_{}", page.replace('/', "_")));
    for name in ["examples", "tests"] {
        symlink(root().join(name), dir.join(name)).expect("the directory is writable");
    }
    dir
}

/// The commands of a page: the lines of its code blocks that start with `$ `.
fn examples(page: &str) -> Vec<Example> {
    let text = read(page);
    let mut all: Vec<Example> = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let mut shell: Vec<Example> = Vec::new();
        for line in block.lines().skip(1) {
            match (line.strip_prefix("$ "), shell.last_mut()) {
                (Some(command), _) => shell.push(Example { command: command.to_owned(), shown: Vec::new() }),
                (None, Some(last)) => last.shown.push(line.to_owned()),
                (None, None) => {}
            }
        }
        all.extend(shell);
    }
    all
}

/// The file that `$ cat FILE` introduces: one that no command before it has written.
fn new_file(example: &Example, dir: &Path) -> Option<PathBuf> {
    let path = dir.join(example.command.strip_prefix("cat ")?);
    (!path.exists()).then_some(path)
}

/// Runs a command and compares its exit code and what it prints.
fn check(page: &str, example: &Example, dir: &Path) {
    let Example { command, shown } = example;
    let output = run(command, dir);
    let printed = String::from_utf8(output.stdout).expect("commands print UTF-8");
    let fails = shown.iter().any(|line| line.starts_with("error"));
    assert_eq!(
        output.status.success(),
        !fails,
        "{page}: `{command}` exits with {}\n{printed}",
        output.status
    );
    let is_alike = are_alike(&trimmed(shown), &trimmed(&printed.lines().collect::<Vec<_>>()));
    assert!(is_alike, "{page} shows\n$ {command}\n{}\n\nand it prints\n{printed}", shown.join("\n"));
}

/// Runs a command line with `phzc` on the path; standard error goes where standard output goes.
fn run(command: &str, dir: &Path) -> Output {
    let phzc = Path::new(env!("CARGO_BIN_EXE_phzc")).parent().expect("a binary is in a directory");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths([phzc.to_owned()].into_iter().chain(std::env::split_paths(&paths)));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(dir);
    shell.env("PATH", paths.expect("paths have no `:`")).output().expect("there is a shell")
}

/// Lines without spaces at their ends and empty lines at the end.
fn trimmed(lines: &[impl AsRef<str>]) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.iter().map(|line| line.as_ref().trim_end()).collect();
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    lines
}

fn are_alike(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim().chars().eq([GAP]) => {
            (0..=printed.len()).any(|n_skipped| are_alike(rest, &printed[n_skipped..]))
        }
        Some((first, rest)) => printed.split_first().is_some_and(|(line, left)| {
            is_line_alike(&timeless(first), &timeless(line)) && are_alike(rest, left)
        }),
    }
}

fn is_line_alike(shown: &str, printed: &str) -> bool {
    let Some((start, others)) = shown.split_once(GAP) else { return shown == printed };
    let (middle, end) = others.rsplit_once(GAP).unwrap_or(("", others));
    let mut left = printed.strip_prefix(start);
    for part in middle.split(GAP) {
        left = left.and_then(|left| left.split_once(part)).map(|(_, after)| after);
    }
    left.is_some_and(|left| left.ends_with(end))
}

/// The line that says how long passes took, without how long that was.
fn timeless(line: &str) -> String {
    if !line.starts_with("passes:") {
        return line.to_owned();
    }
    let is_time = |word: &str| word.parse::<f64>().is_ok() || ["s", "ms", "us", "ns"].contains(&word);
    let words = line.split([' ', ',']).filter(|word| !word.is_empty() && !is_time(word));
    words.collect::<Vec<_>>().join(" ")
}

/// README.md and the pages of docs/.
fn pages() -> Vec<String> {
    let docs = files(&root().join("docs")).into_iter();
    let docs = docs.filter(|path| path.extension().is_some_and(|found| found == "md"));
    let name =
        |path: PathBuf| path.strip_prefix(root()).expect("files of the checkout").display().to_string();
    ["README.md".to_owned()].into_iter().chain(docs.map(name)).collect()
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The links of a page, outside its code blocks, to files that are not there.
fn broken_links(page: &str) -> Vec<String> {
    let text = read(page);
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let dir = root().join(page).parent().expect("a page is in a directory").to_owned();
    let is_broken = |link: &&str| {
        let file = link.split('#').next().unwrap_or_default();
        !link.contains("://") && !file.is_empty() && !dir.join(file).exists()
    };
    links.filter(is_broken).map(|link| format!("{page}: `{link}` is not there")).collect()
}
