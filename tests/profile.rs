//! Measured costs: what `profile` writes, how `--profile` plans with it, what `tune` does, and bad files.

use crate::common::{Outcome, files, phzc, root, scratch};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PASSES: &str = "fuse,shard,place{stages=1}";
const CLUSTER: &str = "tests/clusters/cpu-8.toml";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

fn at(path: &str) -> String {
    text(&root().join(path)).to_owned()
}

/// Runs a command on the MLP; it ends well.
fn run(command: &[&str], more: &[&str]) -> Outcome {
    let (model, cluster) = (at("examples/mlp.ir"), at(CLUSTER));
    let all = [command, &[&model, "--cluster", &cluster, "--passes", PASSES], more].concat();
    let outcome = phzc(&all, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome
}

/// Writes the profile of the MLP's plan.
fn profile(dir: &Path) -> Outcome {
    run(&["profile"], &["-o", text(dir)])
}

fn measure(dir: &Path, factor: &str) {
    let status = Command::new(at("tests/profile/fake.sh")).arg(factor).arg(dir).status();
    assert!(status.is_ok_and(|status| status.success()));
}

/// The files of a directory with their texts.
fn contents(dir: &Path) -> BTreeMap<PathBuf, String> {
    let name = |path: &PathBuf| path.strip_prefix(dir).expect("below it").to_path_buf();
    files(dir).iter().map(|path| (name(path), fs::read_to_string(path).expect("text"))).collect()
}

fn compare(name: &str, printed: &str, dir: &Path) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("profile");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let printed = printed.replace(text(dir), "DIR").replace(&at(""), "");
    settings.bind(|| insta::assert_snapshot!(name, printed));
}

#[test]
fn a_profile_is_the_same_each_time_and_its_programs_are_legal() {
    let dir = scratch("profile_written");
    let [one, two] = ["one", "two"].map(|name| dir.join(name));
    compare("written", &profile(&one).stderr, &dir);
    profile(&two);
    assert_eq!(contents(&one), contents(&two));
    let programs = files(&one).into_iter().filter(|path| path.extension().is_some_and(|it| it == "hlo"));
    let mut n_programs = 0;
    for path in programs {
        let outcome = phzc(&[text(&path), "--passes", "", "-q", "-o", text(&dir.join("out.ir"))], b"");
        assert_eq!(outcome.code, 0, "{}: {}", path.display(), outcome.stderr);
        n_programs += 1;
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&contents(&one)[Path::new("manifest.json")]).expect("JSON");
    let entries = manifest["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), n_programs);
    // Added to itself a profile gains nothing.
    profile(&one);
    assert_eq!(contents(&one), contents(&two));
}

#[test]
fn only_what_weighs_most_is_written_if_that_is_asked_for() {
    let dir = scratch("profile_top");
    run(&["profile"], &["-o", text(&dir), "--top", "2"]);
    let all = scratch("profile_all");
    profile(&all);
    let (two, all) = (contents(&dir), contents(&all));
    assert_eq!(two.len(), 3, "two programs and the manifest");
    assert!(two.keys().all(|path| all.contains_key(path)));
}

#[test]
fn measured_times_come_first_and_every_cost_says_where_it_is_from() {
    let dir = scratch("profile_used");
    let (folder, after) = (dir.join("profile"), dir.join("after.ir"));
    profile(&folder);
    measure(&folder, "2");
    let said = run(&[], &["--profile", text(&folder), "-o", text(&after)]).stderr;
    let line = said.lines().find(|line| line.starts_with("profile: ")).expect("it is said");
    compare("used", line, &dir);
    let plan = fs::read_to_string(&after).expect("written");
    let sources = ["from=measured", "from=segment"];
    assert!(sources.iter().all(|source| plan.contains(source)), "{plan}");
    // All takes twice as long, and so does the plan that was made without.
    let (before, json) = (dir.join("before.ir"), dir.join("plan.json"));
    run(&[], &["-o", text(&before)]);
    let cluster = at(CLUSTER);
    let secs = |more: &[&str]| {
        let common = [text(&before), "--passes", "", "--cluster", &cluster, "-q", "--plan", text(&json)];
        phzc(&[&common[..], &["-o", text(&after)], more].concat(), b"");
        let plan: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
        plan["time_secs"].as_f64().expect("a number")
    };
    let ratio = secs(&["--profile", text(&folder)]) / secs(&[]);
    assert!((1.999..2.001).contains(&ratio), "{ratio}");
    // A profile that is measured is planned with when it is added to.
    assert!(profile(&folder).stderr.contains("costs measured ("));
}

#[test]
fn a_plan_is_read_back_with_its_profile() {
    let dir = scratch("profile_read");
    let (folder, after) = (dir.join("profile"), dir.join("after.ir"));
    profile(&folder);
    measure(&folder, "3");
    let planned = run(&[], &["--profile", text(&folder), "-o", text(&after)]).stderr;
    let cluster = at(CLUSTER);
    let common = ["--passes", "", "--cluster", &cluster, "--profile", text(&folder)];
    let read = phzc(&[&[text(&after)], &common[..], &["-o", text(&dir.join("again.ir"))]].concat(), b"");
    assert_eq!(planned.lines().next(), read.stderr.lines().next());
}

#[test]
fn tuning_ends_with_the_fastest_plan_that_was_measured() {
    let dir = scratch("profile_tuned");
    let command = format!("{} 30", at("tests/profile/fake.sh"));
    let tuned = run(&["tune"], &["-o", text(&dir), "--measure", &command]);
    compare("tuned", &tuned.stderr, &dir);
    let kept = fs::read_to_string(dir.join("plan.ir")).expect("written");
    assert!(kept.contains("phzc.plan"));
    // What was measured is not measured again.
    let again = run(&["tune"], &["-o", text(&dir), "--measure", &command]);
    assert!(again.stderr.contains("\nround 2: "), "{}", again.stderr);
    assert!(!again.stderr.lines().nth(1).is_some_and(|line| line.contains("to measure")), "{}", again.stderr);
}

#[test]
fn what_measures_must_measure() {
    let dir = scratch("profile_unmeasured");
    let (model, cluster) = (at("examples/mlp.ir"), at(CLUSTER));
    let common = ["tune", &model, "--cluster", &cluster, "--passes", PASSES, "-o", text(&dir), "--measure"];
    let said = |command: &str| {
        let outcome = phzc(&[&common[..], &[command]].concat(), b"");
        assert_eq!(outcome.code, 1);
        outcome.stderr.lines().skip_while(|line| !line.starts_with("error")).collect::<Vec<_>>().join("\n")
    };
    compare("unmeasured", &["true", "false", "no-such-program"].map(said).join("\n\n"), &dir);
}

#[test]
fn bad_profiles_are_refused_with_file_place_and_remedy() {
    let dir = scratch("profile_bad");
    let (folder, model, cluster) = (dir.join("profile"), at("examples/mlp.ir"), at(CLUSTER));
    let said = |cluster: &str| {
        let outcome = phzc(
            &[&model, "--cluster", cluster, "--profile", text(&folder), "-o", text(&dir.join("x"))],
            b"",
        );
        assert_eq!(outcome.code, 1);
        outcome.stderr
    };
    let mut all = vec![said(&cluster)];
    profile(&folder);
    all.push(said(&cluster));
    let measured = folder.join("measured.json");
    for text in [
        "{\"schema\": 1, \"entries\": {\n  \"product a\": {\"median_secs\": 1}",
        "{\"schema\": 1, \"entries\": {\n  \"product a\": {\"median_secs\": -1}}}",
        "{\"schema\": 2, \"entries\": {}}",
    ] {
        fs::write(&measured, text).expect("the directory is writable");
        all.push(said(&cluster));
    }
    fs::remove_file(&measured).expect("it is there");
    all.push(said("a100-8"));
    compare("bad", &all.join("\n"), &dir);
}
