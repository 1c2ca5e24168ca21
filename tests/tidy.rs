//! Rules about the repository that no other tool checks.

#[path = "tidy/functions.rs"]
mod functions;

use crate::common::{files, root};
use phzc_passes::registry::PASSES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a file may have, its tests included.
const MAX_LINES: usize = 400;
/// Files that are one table, or were generated.
const TABLES: &[&str] = &["passes/native/bindgen/src/highs_1_15.rs"];
/// The crates in `passes`, those that others use first.
const CRATES_OF_PASSES: [&str; 10] = [
    "passes/analysis",
    "passes/plan",
    "passes/pass",
    "passes/opt",
    "passes/solver",
    "passes/planner",
    "passes/spmd",
    "passes/audit",
    "passes/testing",
    "passes",
];
/// Where sources are.
const SOURCES: &[&str] = &["ir", "cost", "passes", "driver", "tests", "benches"];

fn sources() -> Vec<(String, String)> {
    let all = SOURCES.iter().flat_map(|dir| files(&root().join(dir)));
    let rust = all.filter(|path| path.extension().is_some_and(|found| found == "rs"));
    rust.filter(|path| !is_foreign(path)).map(|path| (name(&path), read(&path))).collect()
}

fn is_foreign(path: &Path) -> bool {
    let is_made = |part: &str| part == "target" || part.starts_with(".venv");
    path.components().any(|part| part.as_os_str().to_str().is_some_and(is_made))
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("files of the checkout").to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with every offender, not only the first.
fn none(offenders: Vec<String>) {
    assert!(offenders.is_empty(), "\n{}", offenders.join("\n"));
}

#[test]
fn every_source_opens_with_a_sentence_about_itself() {
    let silent = sources().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    none(silent.map(|(name, _)| format!("{name}: the first line is no `//!`")).collect());
}

#[test]
fn no_source_is_longer_than_a_reader_can_hold() {
    let long = sources().into_iter().filter(|(name, _)| !TABLES.contains(&name.as_str()));
    let long = long.map(|(name, text)| (name, text.lines().count())).filter(|(_, lines)| *lines > MAX_LINES);
    none(long.map(|(name, lines)| format!("{name}: {lines} lines, at most {MAX_LINES}")).collect());
}

#[test]
fn no_text_has_trailing_space_or_tabs_or_a_machine_s_paths() {
    let texts =
        [".ci", "docs", "examples", "tools"].iter().chain(SOURCES).flat_map(|dir| files(&root().join(dir)));
    let kinds = ["rs", "toml", "md", "ir", "py", "sh"];
    let texts =
        texts.filter(|path| path.extension().is_some_and(|found| kinds.iter().any(|kind| found == *kind)));
    let mut offenders = Vec::new();
    for path in texts.filter(|path| !is_foreign(path) && !path.ends_with("highs_1_15.rs")) {
        for (index, line) in read(&path).lines().enumerate() {
            let place = || format!("{}:{}", name(&path), index + 1);
            if line.ends_with([' ', '\t', '\r']) {
                offenders.push(format!("{}: trailing space", place()));
            }
            let homes =
                [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/U", "sers/")];
            offenders.extend(
                homes.iter().filter(|home| line.contains(*home)).map(|home| format!("{}: `{home}`", place())),
            );
        }
    }
    none(offenders);
}

#[test]
fn every_pass_has_a_file_and_golden_tests_of_its_name() {
    let mut offenders = Vec::new();
    for pass in PASSES {
        let file = pass.name.replace('-', "_");
        let names = [format!("src/{file}.rs"), format!("src/{file}/mod.rs")];
        let homes = names.iter().flat_map(|name| CRATES_OF_PASSES.map(|home| format!("{home}/{name}")));
        if !homes.into_iter().any(|home| root().join(home).is_file()) {
            offenders.push(format!("pass `{}`: no file {}", pass.name, names[0]));
        }
        let golden = files(&root().join("tests/golden").join(&file));
        if !golden.iter().any(|path| path.extension().is_some_and(|found| found == "ir")) {
            offenders.push(format!("pass `{}`: nothing in tests/golden/{file}", pass.name));
        }
    }
    none(offenders);
}

#[test]
fn every_golden_file_has_a_snapshot_and_every_snapshot_a_file() {
    let all = files(&root().join("tests/golden"));
    let lonely =
        |path: &&PathBuf| !path.with_extension("snap").is_file() || !path.with_extension("ir").is_file();
    let ours =
        all.iter().filter(|path| path.extension().is_some_and(|found| found == "ir" || found == "snap"));
    none(ours.filter(lonely).map(|path| format!("{}: its other half is missing", name(path))).collect());
}

#[test]
fn every_golden_file_says_what_it_shows() {
    let mut golden = files(&root().join("tests/golden"));
    golden.retain(|path| path.extension().is_some_and(|found| found == "ir"));
    let silent =
        golden.iter().filter(|path| !read(path).lines().nth(1).is_some_and(|line| line.starts_with("// ")));
    none(silent.map(|path| format!("{}: the second line is no comment", name(path))).collect());
}

#[test]
fn every_source_is_part_of_a_crate() {
    let sources = sources();
    let is_root = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_top = name.matches('/').count() == 1;
        matches!(file, "lib.rs" | "main.rs" | "build.rs") || (is_top && name.starts_with(['t', 'b']))
    };
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut work: Vec<String> =
        sources.iter().map(|(name, _)| name.clone()).filter(|name| is_root(name)).collect();
    while let Some(name) = work.pop() {
        if let Some((_, text)) =
            sources.iter().find(|(known, _)| *known == name).filter(|_| reached.insert(name.clone()))
        {
            work.extend(children(&name, text));
        }
    }
    let is_dead = |name: &str| !reached.contains(name) && !TABLES.contains(&name);
    let dead = sources.iter().filter(|(name, _)| is_dead(name));
    none(dead.map(|(name, _)| format!("{name}: no `mod` names it")).collect());
}

/// The files that the `mod x;` lines of a file may mean.
fn children(name: &str, text: &str) -> Vec<String> {
    let (dir, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.trim_end_matches(".rs");
    let is_top = matches!(stem, "lib" | "main" | "mod") || dir == "tests" || dir == "benches";
    let dir = if is_top { dir.to_owned() } else { format!("{dir}/{stem}") };
    let mods = text.lines().filter_map(|line| {
        let line = line
            .trim()
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    let files = mods.flat_map(|module| [format!("{dir}/{module}.rs"), format!("{dir}/{module}/mod.rs")]);
    let paths = text.lines().filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    files.chain(paths.map(|path| format!("{dir}/{path}"))).collect()
}

#[test]
fn only_the_driver_touches_the_world() {
    let forbidden =
        ["std::fs", "std::env", "println!", "eprintln!", "std::process", "std::net", "Instant::now"];
    let mut offenders = Vec::new();
    let is_core = |name: &str| {
        let mut homes = ["ir", "cost"].iter().chain(&CRATES_OF_PASSES);
        homes.any(|home| name.starts_with(&format!("{home}/src/")))
    };
    for (name, text) in sources().into_iter().filter(|(name, _)| is_core(name)) {
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        let words = forbidden.iter().filter(|word| !is_test(&name) && code.contains(**word));
        offenders.extend(words.map(|word| format!("{name}: `{word}`")));
    }
    none(offenders);
}

#[test]
fn every_bench_is_declared() {
    let manifest = read(&root().join("Cargo.toml"));
    let benches = files(&root().join("benches")).into_iter().filter(|path| {
        path.extension().is_some_and(|found| found == "rs") && read(path).contains("criterion_main!")
    });
    let forgotten = benches.filter(|path| {
        let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        !manifest.contains(&format!("[[bench]]\nname = \"{stem}\"\nharness = false"))
    });
    none(forgotten.map(|path| format!("{}: no [[bench]] in Cargo.toml", name(&path))).collect());
}

#[test]
fn every_test_is_run_by_cargo_test_or_named_in_ci() {
    let (manifest, ci) = (read(&root().join("Cargo.toml")), read(&root().join(".ci/run")));
    let declared = manifest.split("[[test]]").skip(1).filter_map(|rest| rest.split("\n[").next());
    let left_out = declared.filter(|block| block.lines().any(|line| line == "test = false"));
    let names = left_out.filter_map(|block| block.split_once("name = \"")?.1.split('"').next());
    let is_run = |name: &str| {
        let words =
            |line: &str| line.split(' ').zip(line.split(' ').skip(1)).any(|it| it == ("--test", name));
        ci.lines().any(|line| line.starts_with("step cargo test") && words(line))
    };
    let mut offenders: Vec<String> = names
        .filter(|name| !is_run(name))
        .map(|name| format!("test `{name}`: neither `cargo test` nor .ci/run runs it"))
        .collect();
    let all = read(&root().join("tests/all.rs"));
    let files = std::fs::read_dir(root().join("tests")).expect("a directory").flatten();
    let stems = files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned));
    let is_in_all = |stem: &String| stem == "all" || all.contains(&format!("\nmod {stem};\n"));
    let forgotten = stems.filter(|stem| !is_in_all(stem));
    offenders.extend(forgotten.map(|stem| format!("tests/{stem}.rs: no `mod` in tests/all.rs")));
    none(offenders);
}

/// The text of a file without its tests and comments.
fn production(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_test(name: &str) -> bool {
    ["/tests/", "tests.rs", "testing.rs", "passes/testing/"].iter().any(|part| name.contains(part))
        || name.starts_with("benches/")
}

#[test]
fn the_notes_of_a_plan_are_named_in_one_place() {
    let foreign = sources().into_iter().filter(|(name, text)| {
        let is_home = name == "ir/src/notes.rs" || is_test(name) || name.starts_with("tests/");
        !is_home && production(text).contains("\"phzc.")
    });
    none(foreign.map(|(name, _)| format!("{name}: a note's name stands in ir/src/notes.rs alone")).collect());
}

/// The modules of a crate at the top, and which others each names.
fn modules_of(home: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in sources() {
        let rest = name.strip_prefix(home).and_then(|rest| rest.strip_prefix("/src/"));
        let Some(rest) = rest.filter(|rest| !is_test(rest) && *rest != "lib.rs") else {
            continue;
        };
        let own = rest.split('/').next().unwrap_or("").trim_end_matches(".rs").to_owned();
        let others = crate_paths(&production(&text)).into_iter().filter(|other| *other != own);
        found.entry(own.clone()).or_default().extend(others);
    }
    found
}

/// The first names after `crate::` and in `use crate::{…}`.
fn crate_paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        let names: Vec<&str> = list.map_or_else(|| vec![rest], |list| list.split(',').collect());
        let first = |name: &&str| {
            let end = name.trim().find(|c: char| !c.is_ascii_lowercase() && c != '_');
            name.trim()[..end.unwrap_or(name.trim().len())].to_owned()
        };
        found.extend(names.iter().map(first).filter(|name| !name.is_empty()));
    }
    found
}

#[test]
fn no_module_leads_to_itself_over_others() {
    let in_cycles = CRATES_OF_PASSES.iter().flat_map(|home| in_cycles(home));
    assert_eq!(in_cycles.collect::<Vec<_>>(), [""; 0]);
}

/// The modules of a crate that lead to themselves over others.
fn in_cycles(home: &str) -> Vec<String> {
    let modules = modules_of(home);
    let leads = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut work: Vec<&String> = modules[from].iter().collect();
        while let Some(at) = work.pop() {
            if seen.insert(at) {
                work.extend(modules.get(at).into_iter().flatten());
            }
        }
        seen.contains(from)
    };
    modules.keys().filter(|name| leads(name)).map(|name| format!("{home}: {name}")).collect()
}

#[test]
fn crates_of_passes_use_only_those_before_them() {
    let mut offenders = Vec::new();
    for (at, home) in CRATES_OF_PASSES.iter().enumerate().filter(|(_, home)| !home.ends_with("testing")) {
        let manifest = read(&root().join(home).join("Cargo.toml"));
        let own =
            manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
        let later = CRATES_OF_PASSES[at..].iter().map(|name| name.rsplit('/').next().unwrap_or(name));
        let used = later.filter(|name| own.contains(&format!("phzc-{name}.")));
        offenders.extend(used.map(|name| format!("{home} uses {name}")));
        // The planner and its judges know nothing of each other.
        let (planner, audit) = (home.ends_with("planner"), home.ends_with("audit"));
        let rival = if planner { "phzc-audit." } else { "phzc-planner." };
        offenders.extend(((planner || audit) && own.contains(rival)).then(|| format!("{home} uses {rival}")));
    }
    none(offenders);
}

/// Columns of a line; what rustfmt cannot break, strings and macros in tests, may have more.
const MAX_COLUMNS: usize = 110;

#[test]
fn no_line_of_prose_or_code_is_wider_than_a_page() {
    let mut offenders = Vec::new();
    for (name, text) in sources().into_iter().filter(|(name, _)| !name.starts_with("passes/native/")) {
        let is_free = is_test(&name) || name.starts_with("tests/");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("").lines().count();
        let mut is_shown = false;
        for (at, line) in text.lines().enumerate() {
            let is_prose = line.trim_start().starts_with("//");
            // Programs and tables that a comment shows keep their lines.
            is_shown ^= is_prose && line.contains("```");
            let is_table = is_shown || line.trim_start_matches(['/', '!', ' ']).starts_with('|');
            let is_code = !is_free && at < code && !line.contains('"') && !line.ends_with('\\');
            let is_wide = line.chars().count() > MAX_COLUMNS && !is_table;
            offenders.extend((is_wide && (is_prose || is_code)).then(|| format!("{name}:{}", at + 1)));
        }
    }
    none(offenders);
}

#[test]
fn every_source_that_a_page_names_is_there() {
    let sources: Vec<String> = sources().into_iter().map(|(name, _)| name).collect();
    let pages = files(&root().join("docs"))
        .into_iter()
        .chain([root().join("README.md"), root().join("CONTRIBUTING.md")]);
    let mut offenders = Vec::new();
    for page in pages.filter(|path| path.extension().is_some_and(|found| found == "md")) {
        let text = read(&page);
        let named =
            text.split('`').filter(|word| word.ends_with(".rs") && !word.contains(['<', ' ', '*', '{']));
        let is_there =
            |word: &str| sources.iter().any(|name| name == word || name.ends_with(&format!("/{word}")));
        offenders
            .extend(named.filter(|word| !is_there(word)).map(|word| format!("{}: no `{word}`", name(&page))));
    }
    none(offenders);
}
