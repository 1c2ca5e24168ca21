//! `phzc replan`: a plan for what is left of a cluster, and what moves.

use crate::common::{Outcome, phzc, scratch};
use serde_json::Value;
use std::fs;

const MODEL: &str = "examples/gpt.ir";

/// A plan of the example on a cluster, and its file.
fn plan(folder: &str, cluster: &str, passes: &str) -> String {
    plan_of(MODEL, folder, cluster, passes)
}

fn plan_of(model: &str, folder: &str, cluster: &str, passes: &str) -> String {
    let path = scratch(folder).join("plan.ir").to_string_lossy().into_owned();
    let outcome = phzc(&[model, "--cluster", cluster, "--passes", passes, "-q", "-o", &path], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    path
}

fn replan(plan: &str, rest: &[&str]) -> Outcome {
    phzc(&[&["replan", plan], rest].concat(), b"")
}

fn told(plan: &str, rest: &[&str]) -> Value {
    let outcome = replan(plan, &[rest, &["--json"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("an object")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn states_that_are_where_they_are_to_be_do_not_move() {
    let plan = plan("replan_same", "a100-8", "fuse,shard,place{stages=1}");
    let told = told(&plan, &["--bandwidth", "NVLink=0.9x"]);
    let same = &told["candidates"][0];
    assert_eq!(same["name"], "the plan as it is");
    assert_eq!([&same["moved_bytes"], &same["checkpoint_bytes"], &same["moving_secs"]].map(number), [0.0; 3]);
}

#[test]
fn what_a_lost_node_alone_held_comes_from_a_checkpoint_and_the_new_plan_is_one_of_its_cluster() {
    let plan = plan("replan_lost", "a100-8x2", "fuse,shard,place{stages=2}");
    let new = scratch("replan_lost_new").join("new.ir").to_string_lossy().into_owned();
    let told = told(&plan, &["--lost", "3", "-o", &new]);
    let chosen = &told["chosen"];
    // Each node held the states of a stage: those of the first are gone.
    assert!(number(&chosen["checkpoint_bytes"]) > 1e6, "{chosen}");
    assert_eq!(chosen["cluster"], "a100-8x2[1]");
    let verified = phzc(&["verify", MODEL, &new], b"");
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    let priced = phzc(&[&new, "--passes", "estimate", "-o", "/dev/null"], b"");
    assert!(priced.stderr.contains("of a100-8x2[1]"), "{}", priced.stderr);
}

#[test]
fn nodes_that_stay_have_all_states_where_only_nodes_are_added() {
    let plan = plan("replan_more", "a100-8", "fuse,shard,place{stages=1}");
    let stays = told(&plan, &["--to", "a100-8x2", "--moving-budget", "0"]);
    assert_eq!(stays["chosen"]["name"], "the plan as it is");
    let told = told(&plan, &["--to", "a100-8+t4-8"]);
    assert_eq!(number(&told["chosen"]["checkpoint_bytes"]), 0.0);
    assert!(told["chosen"]["cluster"] == "a100-8+t4-8", "{told}");
}

#[test]
fn two_kinds_of_the_same_device_are_not_mistaken_for_each_other() {
    let plan = plan("replan_twins", "a100-8+a100-8", "fuse,shard,place{stages=2}");
    let same = told(&plan, &["--to", "a100-8+a100-8"]);
    assert_eq!(same["candidates"][0]["name"], "the plan as it is");
    assert_eq!(number(&same["candidates"][0]["checkpoint_bytes"]), 0.0, "{same}");
    assert_eq!(number(&told(&plan, &["--to", "a100-8x2"])["chosen"]["checkpoint_bytes"]), 0.0);
}

#[test]
fn plans_near_the_old_one_keep_its_devices_per_stage_or_its_stages() {
    let plan = plan("replan_near", "a100-8x4", "fuse,shard,place{stages=4,groups=equal}");
    let names = |told: &Value| -> Vec<String> {
        let all = told["candidates"].as_array().expect("candidates");
        all.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
    };
    let both = ["in stages as large", "in as many stages", "in one stage"];
    assert_eq!(names(&told(&plan, &["--lost", "3"])), both);
    // One node is one stage of eight devices, or four of two.
    assert_eq!(names(&told(&plan, &["--lost", "3,8,16"])), both[..2]);
    assert_eq!(names(&told(&plan, &["--lost", "3", "--passes", "fuse,shard,place"])), ["planned anew"]);
}

#[test]
fn of_stages_with_different_numbers_of_devices_those_of_most_stay() {
    let passes = "fuse,shard,place{stages=5,groups=4+8}";
    let plan = plan_of("examples/gpt2_small.ir", "replan_unequal", "a100-8x4", passes);
    let new = scratch("replan_unequal_new").join("new.ir").to_string_lossy().into_owned();
    let told = told(&plan, &["--lost", "3", "-o", &new]);
    assert_eq!(told["chosen"]["name"], "in stages as large");
    let sizes = phzc(&[&new, "--passes", "estimate", "-o", "/dev/null"], b"").stderr;
    assert!(sizes.contains("16-23") && !sizes.contains("8-11"), "{sizes}");
}

#[test]
fn all_plans_are_searched_where_none_near_is_faster_than_the_plan_as_it_is() {
    let searched = |folder: &str, passes: &str, to: &str| {
        let told = told(&plan(folder, "a100-8", passes), &["--to", to]);
        let all = told["candidates"].as_array().expect("candidates").clone();
        let secs = |it: &Value| number(&it["step_secs"]);
        let is_near = |it: &&Value| it["name"] != "planned anew" && it["name"] != "the plan as it is";
        assert_eq!(all[0]["name"], "the plan as it is");
        let is_faster = all.iter().filter(is_near).any(|it| secs(it) < secs(&all[0]));
        let is_all = all.iter().any(|it| it["name"] == "planned anew");
        assert_eq!(is_all, !is_faster, "{told}");
        is_all
    };
    // A small step takes longer on more devices; one whose stages are many does not.
    assert!(searched("replan_fast", "fuse,shard,place", "a100-8x3"));
    assert!(!searched("replan_slow", "fuse,shard,place{stages=8,microbatches=8}", "a100-8x2"));
}

#[test]
fn a_plan_over_several_kinds_is_planned_anew_as_its_program_is() {
    let (model, cluster) = ("examples/llama.ir", "tests/clusters/unlike-4+2.toml");
    let plan = plan_of(model, "replan_kinds", cluster, "fuse,shard,place{stages=2,replicas=never}");
    // Stages make for themselves what depends on constants only.
    assert!(fs::read_to_string(&plan).expect("written").contains("phzc.remade"));
    let folder = scratch("replan_kinds_new");
    let [a, b] = ["a.ir", "b.ir"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let to = ["--cluster", cluster, "--to", "a100-8+v100-8"];
    let of_plan = told(&plan, &[&to[..], &["-o", &a]].concat());
    assert_eq!(of_plan["candidates"][1]["name"], "in as many microbatches");
    told(&plan, &[&to[..], &["--program", model, "-o", &b]].concat());
    let text = |path: &str| fs::read_to_string(path).expect("written");
    assert!(text(&a) == text(&b));
}

#[test]
fn the_program_of_a_plan_may_have_loops_that_planning_unrolled() {
    let model = "examples/gpt_scan.ir";
    let plan = plan_of(model, "replan_loops", "a100-8x2", "fuse,shard,place{stages=2}");
    assert!(!fs::read_to_string(&plan).expect("written").contains(" while("));
    told(&plan, &["--lost", "0", "--program", model]);
}

#[test]
fn a_budget_of_moving_rules_plans_out() {
    let plan = plan_of("examples/gpt2_small.ir", "replan_budget", "a100-8x4", "fuse,shard,place{stages=4}");
    let all = told(&plan, &["--lost", "3", "--anew"]);
    assert_eq!(all["chosen"]["name"], "planned anew");
    let names = |told: &Value| told["chosen"]["name"].as_str().expect("a name").to_owned();
    let just_less = |than: &Value| (0.999 * number(&than["moving_secs"])).to_string();
    let within = told(&plan, &["--lost", "3", "--anew", "--moving-budget", &just_less(&all["chosen"])]);
    assert_ne!(names(&within), "planned anew");
    assert!(number(&within["chosen"]["moving_secs"]) < number(&all["chosen"]["moving_secs"]), "{within}");
    // Where that is not near enough, the program is planned in as many stages.
    let passes = ["--lost", "3", "--passes", "fuse,shard,place"];
    let asked = told(&plan, &[&passes[..], &["--moving-budget", &just_less(&all["chosen"])]].concat());
    assert_eq!(names(&asked), "in as many stages");
    let none = replan(&plan, &["--lost", "3", "--moving-budget", "1e-9"]);
    assert!(
        none.code == 1 && none.stderr.contains("the one whose devices send for the shortest time takes"),
        "{}",
        none.stderr
    );
}

#[test]
fn why_there_is_no_other_plan_is_said() {
    let plan = plan("replan_refused", "a100-8", "fuse,shard,place{stages=1}");
    let none = replan(&plan, &["--bandwidth", "NVLink=0.9x", "--passes", "fuse,shard,place{stages=64}"]);
    assert!(none.code == 0 && none.stdout.contains("(planned anew there is none: "), "{}", none.stdout);
}

#[test]
fn a_plan_for_more_nodes_of_a_name_is_written() {
    let plan = plan("replan_nodes", "a100-8", "fuse,shard,place{stages=1}");
    let more = scratch("replan_more_nodes").join("new.ir").to_string_lossy().into_owned();
    let told = told(&plan, &["--nodes", "2", "-o", &more]);
    assert!(told["chosen"]["cluster"] == "a100-8x2" && fs::metadata(&more).is_ok(), "{told}");
}

#[test]
fn a_plan_that_stays_as_it_is_is_one_of_the_new_cluster() {
    let plan = plan("replan_stays", "a100-4x2", "fuse,shard,place{stages=2}");
    let new = scratch("replan_stays_new").join("new.ir").to_string_lossy().into_owned();
    let told = told(&plan, &["--to", "v100-4x2", "-o", &new, "--passes", "fuse,shard,place{stages=64}"]);
    assert_eq!(told["chosen"]["name"], "the plan as it is");
    let priced = phzc(&[&new, "--passes", "estimate", "-o", "/dev/null"], b"");
    assert!(priced.stderr.contains("of v100-4x2"), "{}", priced.stderr);
    assert!(!priced.stderr.contains("planned"), "{}", priced.stderr);
}

#[test]
fn what_cannot_be_lost_is_said() {
    let plan = plan("replan_wrong", "a100-8", "fuse,shard,place{stages=1}");
    let far = replan(&plan, &["--lost", "8"]);
    assert!(far.code == 1 && far.stderr.contains("`--lost 8`: `a100-8` has 8 devices"), "{}", far.stderr);
    let all = replan(&plan, &["--lost", "0"]);
    assert!(all.code == 1 && all.stderr.contains("no node is left"), "{}", all.stderr);
    let nothing = replan(&plan, &[]);
    assert!(nothing.code == 2 && fs::metadata(&plan).is_ok(), "{}", nothing.stderr);
    let unreadable = replan(&plan, &["--hbm", "2x", "-o", "new.ir"]);
    assert!(unreadable.stderr.contains("cannot be read back"), "{}", unreadable.stderr);
    let negative = replan(&plan, &["--hbm", "2x", "--moving-budget=-1"]);
    assert!(
        negative.code == 2 && negative.stderr.contains("expected seconds from 0 up"),
        "{}",
        negative.stderr
    );
    let program = replan(MODEL, &["--nodes", "2"]);
    assert!(program.stderr.contains("has no plan of phzc"), "{}", program.stderr);
}

#[test]
fn nodes_of_a_part_are_those_that_are_offered_alike() {
    let folder = scratch("replan_zones");
    let nodes = |zone: &str| format!("[[nodes]]\ncluster = \"a100-8\"\ncount = 1\nzone = \"{zone}\"\n");
    let file = folder.join("two.toml").to_string_lossy().into_owned();
    fs::write(&file, format!("name = \"two\"\n{}{}", nodes("east"), nodes("west"))).expect("writable");
    let plan = plan("replan_offers", &file, "fuse,shard,place{stages=2}");
    let lost = told(&plan, &["--cluster", &file, "--lost", "0"]);
    let west = told(&plan, &["--cluster", &file, "--to", &format!("{file}[0,1]")]);
    assert_eq!(lost["chosen"]["nodes"], serde_json::json!([8]));
    assert_eq!(west["chosen"]["nodes"], lost["chosen"]["nodes"]);
    assert_eq!(west["chosen"]["checkpoint_bytes"], lost["chosen"]["checkpoint_bytes"]);
}
