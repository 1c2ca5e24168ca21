//! The contest's instances of intra-operator parallelism beside the checkout: cost, bound and CPU seconds of
//! `phzc choose` next to what is published.
//!
//! `cargo bench --bench iopddl -- --unlimited M` chooses without a limit on memory, for instances with that
//! in their names.

#[path = "../tests/common/mod.rs"]
mod common;

use common::root;
use std::path::Path;
use std::process::Command;

/// What is published about an instance; a number is missing where nobody says it.
struct Published {
    name: String,
    contest_secs: f64,
    best: f64,
    bound: f64,
}

fn main() {
    let folder = root().join("../shared/data/iopddl");
    let Ok(text) = std::fs::read_to_string(folder.join("results.csv")) else {
        return eprintln!("SKIPPED: nothing at ../shared/data/iopddl");
    };
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).filter(|arg| arg != "--bench").partition(|arg| arg == "--unlimited");
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|it| name.contains(it));
    println!(
        "instance         cost  best known / cost        bound  published bound      gap   CPU s (contest)"
    );
    text.lines().skip(1).filter_map(published).filter(|it| is_wanted(&it.name)).for_each(|it| {
        let path = folder.join(format!("{}.json.gz", it.name));
        if path.exists() {
            run(&it, &path, &options);
        }
    });
}

fn published(line: &str) -> Option<Published> {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
    Some(Published {
        name: fields[0].to_owned(),
        contest_secs: number(2)?,
        best: number(3)?,
        bound: number(6)?,
    })
}

fn run(it: &Published, path: &Path, options: &[String]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
    let output = command.args(["choose", "--json"]).args(options).arg(path).output().expect("phzc runs");
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    println!(
        "{:8} {:>12} {:>18.5} {:>12.0} {:>16} {:>7.3}% {:>7.1} ({})",
        it.name,
        number("cost"),
        it.best / number("cost"),
        number("lower_bound"),
        it.bound,
        100.0 * number("gap"),
        number("cpu_secs"),
        it.contest_secs
    );
}
