//! `phzc profile-plan` on measured tables: Aceso's own plans priced as Aceso does, plans that beat them, and
//! bad input.

use crate::common::{Outcome, phzc, root, scratch};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Aceso's tables and plans beside the checkout; says loudly when they are not there.
fn data() -> Option<PathBuf> {
    let dir = root().join("../shared/data/aceso");
    if !dir.is_dir() {
        eprintln!("SKIPPED: no tables at ../shared/data/aceso, none is read");
    }
    dir.is_dir().then_some(dir)
}

fn profile_plan(db: &Path, model: &str, options: &[&str]) -> Outcome {
    let (model, size) = model.split_once(' ').expect("model and size");
    let db = db.to_string_lossy().into_owned();
    phzc(&[&["profile-plan", "--db", &db, "--model", model, "--size", size], options].concat(), b"")
}

/// The numbers of a summary's first line: milliseconds, MiB, the limit, the bound.
fn numbers(summary: &str) -> Vec<f64> {
    let first = summary.lines().next().unwrap_or_default();
    first.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn acesos_plans_cost_what_aceso_says() {
    let Some(dir) = data() else { return };
    let index = fs::read_to_string(dir.join("plans/index.json")).expect("an index");
    let index: Value = serde_json::from_str(&index).expect("JSON");
    let (mut n_priced, mut worst) = (0, 0.0_f64);
    for (name, wanted) in index.as_object().expect("an object") {
        let path = dir.join(format!("plans/{name}.json"));
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let plan: Value = serde_json::from_str(&text).expect("JSON");
        let model =
            format!("{} {}", plan["model_name"].as_str().unwrap(), plan["model_size"].as_str().unwrap());
        let db = dir.join(if name.contains("small-") { "miniset" } else { "eurosys" });
        let layers = plan["num_layers"].as_u64().map(|layers| layers.to_string());
        let price = path.to_string_lossy();
        let mut options = vec!["--price", &price];
        options.extend(layers.iter().flat_map(|layers| ["--layers", layers]));
        let batch = plan["global_batch_size"].to_string();
        options.extend(["--global-batch", &batch]);
        let outcome = profile_plan(&db, &model, &options);
        assert_eq!(outcome.code, 0, "{name}: {}", outcome.stderr);
        let found = numbers(&outcome.stdout);
        for (found, key) in found.iter().zip(["iteration_ms", "memory_mb"]) {
            let wanted = wanted[key].as_f64().expect("a number");
            let off = (found / wanted - 1.0).abs();
            assert!(off < 3e-5, "{name}: {key} {found}, Aceso says {wanted}");
            worst = worst.max(off);
        }
        n_priced += 1;
    }
    println!("{n_priced} plans of Aceso's, the worst {:.4} % off", 100.0 * worst);
    assert!(n_priced > 25, "{n_priced} plans");
}

#[test]
fn a_plan_beats_acesos_and_is_priced_alike_when_it_is_read_back() {
    let Some(dir) = data() else { return };
    let path = scratch("profile_plan_json").join("plan.json");
    let name = path.to_string_lossy();
    let options = ["--gpus", "4", "--emit", "aceso", "-o", &name];
    let made = profile_plan(&dir.join("eurosys"), "gpt 1_3B", &options);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let read = profile_plan(&dir.join("eurosys"), "gpt 1_3B", &["--price", &name]);
    let (made, read) = (numbers(&made.stderr), numbers(&read.stdout));
    assert_eq!(made[..2], read[..2]);
    // The plan that Aceso's search finds takes 101185 ms.
    assert!(made[0] < 101_184.9 && made[3] <= made[0] && made[1] <= 28_000.0, "{made:?}");
}

const HEADER: &str = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved";

/// A folder with one table of these operators, and links within a node.
fn folder(test: &str, rows: &[&str]) -> PathBuf {
    let dir = scratch(test);
    fs::write(dir.join("m_1_mbs1_tp1_algo0.csv"), format!("{HEADER}\n{}\n", rows.join("\n")))
        .expect("writable");
    fs::write(dir.join("p2p_intra_node.csv"), "1,2\n10,20\n").expect("writable");
    dir
}

#[track_caller]
fn wrong(dir: &Path, model: &str, options: &[&str], messages: &[&str]) {
    let outcome = profile_plan(dir, model, options);
    assert_ne!(outcome.code, 0, "{options:?}");
    for message in messages {
        assert!(outcome.stderr.contains(message), "{options:?}: no `{message}` in {}", outcome.stderr);
    }
}

#[test]
fn a_wrong_table_is_refused_with_its_place() {
    let one = ["--gpus", "1", "--global-batch", "8"];
    let negative = folder("profile_plan_negative", &["a,1,1,0,0,0,0,0,0", "b,-1,1,0,0,0,0,0,0"]);
    wrong(&negative, "m 1", &one, &["m_1_mbs1_tp1_algo0.csv:3:3"]);
    let blank = folder("profile_plan_blank", &["a,1,,0,0,0,0,0,0"]);
    wrong(&blank, "m 1", &one, &["m_1_mbs1_tp1_algo0.csv:2:5", "no cell may be blank"]);
    wrong(
        &folder("profile_plan_empty", &[]),
        "m 1",
        &one,
        &["m_1_mbs1_tp1_algo0.csv:1:1", "a row per operator"],
    );
    let other = folder("profile_plan_other", &["a,1,1,0,0,0,0,0,0"]);
    fs::write(other.join("m_1_mbs2_tp1_algo0.csv"), format!("{HEADER}\nb,1,1,0,0,0,0,0,0\n"))
        .expect("writable");
    wrong(&other, "m 1", &one, &["m_1_mbs2_tp1_algo0.csv:1:1", "operator 1 is not that"]);
    fs::remove_file(negative.join("p2p_intra_node.csv")).expect("there");
    fs::write(negative.join("m_1_mbs1_tp1_algo0.csv"), format!("{HEADER}\na,1,1,0,0,0,0,0,0\n"))
        .expect("writable");
    wrong(&negative, "m 1", &one, &["no table `p2p_intra_node.csv`"]);
}

#[test]
fn a_file_whose_name_is_no_tables_is_not_read_and_named() {
    let dir = folder("profile_plan_names", &["a,1000,2000,0,0,1,1,0,0"]);
    let wrong = [
        "m_1_mbs2_tp1_alg0.csv",
        "m_1_mb2_tp1_algo0.csv",
        "p2p_inter_nodes.csv",
        "prim_m_1_gather_2gpus.csv",
    ];
    let meant = ["m_1_mbs2_tp1_algo0.txt", "M_1_mbs2_tp1_algo0.csv"];
    let others = [
        "m_2_mbs2_tp1_algo0.csv",
        "prim_m_2_all_gather_2gpus.csv",
        "prim_m_1_reduce_scatter_2gpus.csv",
        "plan.json",
    ];
    for name in wrong.iter().chain(&meant).chain(&others) {
        fs::write(dir.join(name), "no table").expect("writable");
    }
    let outcome = profile_plan(&dir, "m 1", &["--gpus", "1", "--global-batch", "8"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for name in wrong.iter().chain(&meant) {
        assert!(outcome.stderr.contains(&format!("{name}` is not read: ")), "{name}: {}", outcome.stderr);
    }
    for name in &others {
        assert!(!outcome.stderr.contains(name), "{name}: {}", outcome.stderr);
    }
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    let layers =
        ["enc-1st-layernorm,1,1,0,0,0,0,0,0", "b,1,1,0,0,0,0,0,0", "final-layernorm,1,1,0,0,0,0,0,0"];
    let dir = folder("profile_plan_missing", &layers);
    fs::write(dir.join("plan.json"), "{\"micro_batch_size\": 1,\n \"num_gpus\": [1,}").expect("writable");
    let plan = dir.join("plan.json").to_string_lossy().into_owned();
    let (one, two) = (["--gpus", "1"], ["--layers", "2", "--global-batch", "8"]);
    let all = |more: &[&'static str]| [&one[..], &two[..], more].concat();
    wrong(&dir, "m 2", &one, &["name model and size as the tables do"]);
    wrong(&dir, "m 1", &one, &["give --layers"]);
    wrong(&dir, "m 1", &["--gpus", "1", "--layers", "2"], &["give --global-batch"]);
    wrong(&dir, "m 1", &["--gpus", "1", "--layers", "2", "--global-batch", "0"], &["have to be above 0"]);
    wrong(&dir, "m 1", &all(&["--max-stages", "0"]), &["have to be above 0"]);
    wrong(&dir, "m 1", &all(&["--microbatches", "3"]), &["do not divide", "measured were [1]"]);
    wrong(&dir, "m 1", &all(&["--memory-limit-mb", "0.5", "--microbatches", "4"]), &["no plan on 1 devices"]);
    wrong(&dir, "m 1", &all(&["-o", "plan.json"]), &["--emit"]);
    wrong(&dir, "m 1", &[&two[..], &["--price", &plan]].concat(), &["plan.json:2:17"]);
    let flat = folder("profile_plan_flat", &["a,1,1,0,0,0,0,0,0"]);
    wrong(&flat, "m 1", &all(&[]), &["no operator begins a layer"]);
    let endless = folder("profile_plan_endless", &layers[..2]);
    wrong(&endless, "m 1", &all(&[]), &["no operator ends the layers"]);
}

#[test]
fn a_model_of_one_operator_is_one_stage() {
    let dir = folder("profile_plan_one", &["a,1000,2000,0,0,1,1,0,0"]);
    let outcome = profile_plan(&dir, "m 1", &["--gpus", "1", "--global-batch", "8"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(numbers(&outcome.stdout)[0], 24.0);
}

/// A folder of six operators, for one and two samples of a replica; the first and the last share a parameter
/// of 8 MiB.
fn six(test: &str) -> PathBuf {
    let dir = scratch(test);
    for batch in [1, 2] {
        let row = |op: &str| {
            let ms = if op == "out" { 4000 } else { 1000 + 100 * op.len() };
            format!("{op},{},{},2,2,8,{},1,1", ms * batch, 2 * ms * batch, 20 * batch)
        };
        let rows = ["in", "a", "bb", "ccc", "dddd", "out"].map(row).join("\n");
        let table = format!("{HEADER}\n{rows}\n");
        fs::write(dir.join(format!("m_1_mbs{batch}_tp1_algo0.csv")), table).expect("writable");
    }
    fs::write(dir.join("p2p_intra_node.csv"), "1,2\n10,20\n").expect("writable");
    dir
}

/// A plan of [`six`] on devices, `options` apart by spaces.
fn of_six(dir: &Path, options: &str) -> Outcome {
    let options: Vec<&str> = ["--global-batch", "16"].into_iter().chain(options.split_whitespace()).collect();
    profile_plan(dir, "m 1", &options)
}

#[track_caller]
fn good(outcome: Outcome) -> String {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn the_top_plans_are_in_order_and_say_what_distinguishes_them() {
    let text = good(of_six(&six("profile_plan_top"), "--gpus 3 --top 3"));
    let plans: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(plans.len(), 3, "{text}");
    assert!(plans[0].starts_with("plan 1 of 3\nstep ") && plans[1].starts_with("plan 2 of 3: "), "{text}");
    let ms = |plan: &&str| numbers(plan.lines().nth(1).unwrap_or_default())[0];
    let ms: Vec<f64> = plans.iter().map(ms).collect();
    assert!(ms.is_sorted(), "{ms:?}");
    let said = plans[2].lines().next().unwrap_or_default();
    assert!(["stages ", "devices ", "microbatch "].iter().any(|what| said.contains(what)), "{said}");
}

#[test]
fn a_limit_ends_the_search_with_a_bound_that_still_holds() {
    let dir = six("profile_plan_limit");
    let (all, some) = (good(of_six(&dir, "--gpus 3")), good(of_six(&dir, "--gpus 3 --max-plans 1")));
    assert!(some.contains("stop=limit") && !all.contains("stop="), "{some}{all}");
    let (all, some) = (numbers(&all), numbers(&some));
    assert!(some[3] <= all[0] && all[0] <= some[0], "{some:?} {all:?}");
}

#[test]
fn a_gap_ends_the_search_when_it_is_reached() {
    let dir = six("profile_plan_gap");
    let (best, some) = (good(of_six(&dir, "--gpus 3 --gap 0")), good(of_six(&dir, "--gpus 3 --gap 20")));
    let (best, some) = (numbers(&best), numbers(&some));
    assert!(best[3] >= best[0] * (1.0 - 1e-3), "{best:?}");
    assert!(best[0] <= some[0] && some[0] * 0.8 <= some[3] && some[3] <= best[0], "{some:?} {best:?}");
    let outcome = of_six(&dir, "--gpus 3 --gap 120");
    assert!(outcome.stderr.contains("percent from 0 to 100"), "{}", outcome.stderr);
}

#[test]
fn the_own_cost_counts_the_optimizer() {
    let dir = folder("profile_plan_own", &["a,1000,2000,0,0,1,1,0,0"]);
    let options = ["--gpus", "1", "--global-batch", "8", "--cost", "own"];
    let ms = numbers(&good(profile_plan(&dir, "m 1", &options)))[0];
    // 8 copies are read, 7 written, at 85 % of 900 GB/s.
    let update_ms = 15.0 * f64::from(1 << 20) / (0.85 * 9e11) * 1e3;
    assert!((ms - 24.0 - update_ms).abs() < 1e-3, "{ms}");
    let slower = numbers(&good(profile_plan(&dir, "m 1", &[&options[..], &["--device", "t4"]].concat())))[0];
    assert!(slower > ms, "{slower} {ms}");
}

#[test]
fn overlap_hides_what_replicas_sum() {
    let dir = six("profile_plan_overlap");
    let ms = |more: &str| numbers(&good(of_six(&dir, &format!("--gpus 2 --cost own --data 2 {more}"))))[0];
    let (exposed, hidden) = (ms("--zero 0"), ms("--zero 0 --overlap gradients"));
    assert!(hidden < exposed, "{hidden} {exposed}");
}

#[test]
fn options_force_and_forbid() {
    let dir = six("profile_plan_forced");
    let own = |more: &str| good(of_six(&dir, &format!("--gpus 4 --cost own {more}")));
    assert!(own("--stages 2").contains(", 2 stages,"));
    assert!(own("--stages 4..4 --microbatch 2").contains("microbatch 2, 4 stages,"));
    assert!(own("--group 2 --data 2 --zero 3").contains(", 2 stages, "));
    assert!(own("--group 4 --zero 3").contains("ZeRO 3"));
    for schedule in ["gpipe", "1f1b", "zero-bubble", "interleaved:2"] {
        let text = own(&format!("--schedule {schedule} --stages 2"));
        assert!(text.contains(&format!(", {schedule}, ZeRO")), "{text}");
    }
}

#[test]
fn nothing_is_recomputed_where_that_is_forbidden() {
    let dir = six("profile_plan_kept");
    let n_recomputed = |text: &str| -> usize {
        let last = text.lines().skip(3).map(|line| line.split_whitespace().nth(4).map(str::parse));
        last.map(|n| n.expect("a column").unwrap_or(0)).sum()
    };
    // The first stage holds two microbatches: 452 MiB with all that is kept.
    let tight = "--gpus 2 --stages 2 --memory-limit-mb 440 --microbatch 1";
    let any = good(of_six(&dir, tight));
    assert!(n_recomputed(&any) > 0, "{any}");
    assert_eq!(n_recomputed(&good(of_six(&dir, &format!("{tight} --recompute none")))), 0);
}

#[test]
fn impossible_options_are_refused_with_their_cause() {
    let dir = six("profile_plan_impossible");
    #[track_caller]
    fn refused(dir: &Path, options: &str, messages: &[&str]) {
        let outcome = of_six(dir, options);
        assert_ne!(outcome.code, 0, "{options}: {}", outcome.stdout);
        for message in messages {
            assert!(outcome.stderr.contains(message), "{options}: no `{message}` in {}", outcome.stderr);
        }
    }
    refused(&dir, "--gpus 2 --stages 3", &["3 stages, but 2 devices", "a device and an operator"]);
    refused(&dir, "--gpus 2 --stages 3..2", &["A up to B"]);
    refused(&dir, "--gpus 2 --group 3", &["no stage can have 3 of 2 devices"]);
    refused(&dir, "--gpus 16 --group 9", &["up to 8 devices of one node, or whole nodes"]);
    refused(&dir, "--gpus 2 --tensor 2", &["`--tensor 2` was not measured", "{1}"]);
    refused(&dir, "--gpus 2 --zero 1", &["Aceso's cost knows no `--zero`", "--cost own"]);
    refused(&dir, "--gpus 2 --cost own --zero 4", &["--zero"]);
    refused(&dir, "--gpus 2 --cost own --schedule 2f2b", &["expected a schedule", "`2f2b`"]);
    refused(&dir, "--gpus 2 --cost own --tied in", &["one operator alone"]);
    refused(&dir, "--gpus 2 --cost own --tied in,over", &["is called `over`"]);
    refused(&dir, "--gpus 2 --cost own --device none", &["none"]);
    refused(&dir, "--gpus 2 --top 0", &["--top"]);
}

#[test]
fn a_shared_parameter_costs_a_pipeline_its_sum() {
    let dir = six("profile_plan_tied");
    let ms = |more: &str| numbers(&good(of_six(&dir, &format!("--gpus 2 --cost own {more}"))))[0];
    assert!(ms("--stages 2 --tied in,out") > ms("--stages 2"));
    assert_eq!(ms("--stages 1 --tied in,out"), ms("--stages 1"));
}

#[test]
fn a_plan_of_the_own_cost_is_read_back_and_refused_by_acesos() {
    let dir = six("profile_plan_own_json");
    let path = dir.join("plan.json").to_string_lossy().into_owned();
    let made = of_six(
        &dir,
        &format!("--gpus 4 --cost own --schedule interleaved:2 --stages 2 --emit aceso -o {path}"),
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let read = good(of_six(&dir, &format!("--cost own --price {path}")));
    assert_eq!(numbers(&made.stderr)[..2], numbers(&read)[..2]);
    let refused = of_six(&dir, &format!("--price {path}"));
    assert!(refused.code != 0 && refused.stderr.contains("Aceso's cost does not know"), "{}", refused.stderr);
}

#[test]
fn the_full_space_holds_acesos_plan() {
    let Some(dir) = data() else { return };
    let path = scratch("profile_plan_full").join("plan.json").to_string_lossy().into_owned();
    let eurosys = dir.join("eurosys");
    profile_plan(&eurosys, "gpt 1_3B", &["--gpus", "4", "--emit", "aceso", "-o", &path]);
    let priced = numbers(&good(profile_plan(&eurosys, "gpt 1_3B", &["--cost", "own", "--price", &path])));
    let full = numbers(&good(profile_plan(&eurosys, "gpt 1_3B", &["--gpus", "4", "--cost", "own"])));
    assert!(full[0] <= priced[0] && full[3] <= full[0], "{full:?} {priced:?}");
}

#[test]
fn mixed_splits_are_refused_where_their_layout_rule_is_not_known() {
    let dir = folder("profile_plan_mixed", &["a,1000,2000,0,0,1,1,0,0"]);
    let options = ["--gpus", "1", "--global-batch", "8", "--mixed", "true"];
    wrong(&dir, "m 1", &options, &["changes of layout", "leave --mixed out"]);
}
