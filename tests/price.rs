//! Published Megatron-LM runs: `phzc price` of their arguments beside what was measured and beside
//! `phzc validate --programs`.

use crate::common::{phzc, root, scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How far a price may be off what was measured, and off what `validate --programs` says.
const OFF_MEASURED: f64 = 0.10;
const OFF_VALIDATED: f64 = 0.05;

/// A run: column by column.
type Run = BTreeMap<String, String>;

/// Runs a command that ends well; what it prints.
fn done(arguments: &[&str]) -> String {
    let outcome = phzc(arguments, b"");
    assert_eq!(outcome.code, 0, "{arguments:?}\n{}", outcome.stderr);
    outcome.stdout
}

/// The fields of a line of CSV; quotes hold commas together.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for char in line.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("there is one").push(char),
        }
    }
    fields
}

fn number(run: &Run, column: &str) -> usize {
    run[column].parse().unwrap_or(1)
}

/// Megatron-LM's arguments of a run.
fn arguments(run: &Run) -> String {
    let mut arguments = format!(
        "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --micro-batch-size {} \
         --seq-length {} --global-batch-size {} --num-layers {} --attention-backend unfused --fp16",
        run["tp"], run["pp"], run["mbs"], run["seq"], run["gbs"], run["layers"]
    );
    let n_chunks = number(run, "vpp");
    if n_chunks > 1 {
        let layers = number(run, "layers") / number(run, "pp") / n_chunks;
        arguments += &format!(" --num-layers-per-virtual-pipeline-stage {layers}");
    }
    if run["sp"] == "1" {
        arguments += " --sequence-parallel";
    }
    arguments
        + match &*run["recompute"] {
            "full" => " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
            _ => " --recompute-granularity selective",
        }
}

/// Seconds of a run's step, as its arguments are priced: OPT is Megatron's GPT with three products for query,
/// key and value.
fn priced(run: &Run, dir: &Path) -> f64 {
    let [model, plan] = ["model.ir", "plan.json"].map(|name| dir.join(name).to_string_lossy().into_owned());
    let dims = ["layers", "hidden", "ffn", "heads", "seq", "vocab"].map(|dim| (format!("--{dim}"), dim));
    let mut written = vec!["gen", "opt", "--dtype", "f16", "--weights", "f16", "-o", &model];
    dims.iter().for_each(|(option, dim)| written.extend([option.as_str(), run[*dim].as_str()]));
    done(&[&written[..], &["--global-batch", &run["gbs"]]].concat());
    let cluster = match number(run, "gpus") / 8 {
        1 => "a100-8".to_owned(),
        n_nodes => format!("a100-8x{n_nodes}"),
    };
    done(&["price", &model, "--cluster", &cluster, "--megatron", &arguments(run), "--plan", &plan]);
    time_secs(&plan)
}

/// What `validate --programs` says of one line of a table: how far it is off the measured time.
fn validated(header: &str, line: &str, dir: &Path) -> f64 {
    let path = dir.join("run.csv");
    fs::write(&path, format!("{header}\n{line}\n")).expect("scratch");
    let score: Value =
        serde_json::from_str(&done(&["validate", &path.to_string_lossy(), "--programs", "--json"]))
            .expect("one object");
    score["bias"].as_f64().unwrap_or_else(|| panic!("it is planned: {score}")) / 100.0
}

#[test]
fn published_megatron_runs_are_priced_as_measured_and_as_validated() {
    published_runs(8, 2);
}

#[test]
#[ignore = "takes a minute"]
fn published_megatron_runs_on_several_nodes_are_priced_as_measured_and_as_validated() {
    published_runs(64, 4);
}

/// Prices the runs on so many devices and fewer, of which there are at least `n_known`; those on more take
/// minutes, and the figures of all are in docs/exports.md.
fn published_runs(max_devices: usize, n_known: usize) {
    let path = root().join("../shared/data/published/korthikanti2022_a100.csv");
    let Ok(text) = fs::read_to_string(&path) else {
        return eprintln!("SKIPPED: no ../shared/data/published, no published run is priced");
    };
    let (header, lines) = text.split_once('\n').expect("a header");
    let names = fields(header);
    let dir = scratch("price");
    let mut n_runs = 0;
    for line in lines.lines() {
        let run: Run = names.iter().cloned().zip(fields(line)).collect();
        if number(&run, "gpus") > max_devices {
            continue;
        }
        let measured: f64 = run["iter_time_s"].parse().expect("a time");
        let (off, of_validate) = (priced(&run, &dir) / measured - 1.0, validated(header, line, &dir));
        println!("{}: {:+.1} %, validate {:+.1} %", run["row_id"], 100.0 * off, 100.0 * of_validate);
        assert!(off.abs() <= OFF_MEASURED, "{}: {off:+.3} off the measured time", run["row_id"]);
        let between = (1.0 + off) / (1.0 + of_validate) - 1.0;
        assert!(between.abs() <= OFF_VALIDATED, "{}: {between:+.3} off `validate`", run["row_id"]);
        n_runs += 1;
    }
    assert!(n_runs >= n_known, "{n_runs} runs on {max_devices} devices and fewer");
}

/// A plan's figure.
fn time_secs(plan: &str) -> f64 {
    let text = fs::read_to_string(plan).expect("it is written");
    serde_json::from_str::<Value>(&text).expect("JSON")["time_secs"].as_f64().expect("a number")
}

/// A program of OPT's, and a file for a plan's figures.
fn opt(test: &str, sizes: &[&str]) -> [String; 2] {
    let dir = scratch(test);
    let [model, plan] = ["opt.ir", "plan.json"].map(|name| dir.join(name).to_string_lossy().into_owned());
    done(&[&["gen", "opt", "--size", "tiny", "-o", &model], sizes].concat());
    [model, plan]
}

/// The arguments that are found for a target, and the time of their plan.
fn best(model: &str, plan: &str, cluster: &str) -> (String, f64) {
    let said = done(&["price", model, "--cluster", cluster, "--plan", plan, "--target", "megatron"]);
    let line = said.lines().find_map(|line| line.strip_prefix("arguments: ")).expect("the arguments");
    (line.to_owned(), time_secs(plan))
}

#[test]
fn a_target_s_best_arguments_are_no_slower_than_any_others() {
    let [model, plan] = opt("price_target", &["--layers", "2", "--global-batch", "12"]);
    let (arguments, best_secs) = best(&model, &plan, "a100-4");
    let priced = |arguments: &str| {
        done(&["price", &model, "--cluster", "a100-4", "--plan", &plan, "--megatron", arguments]);
        time_secs(&plan)
    };
    assert_eq!(priced(&arguments), best_secs, "they say the plan that was found");
    for [tensor, pipeline, micro_batch] in [[1, 1, 3], [2, 1, 6], [1, 2, 3], [1, 2, 6], [2, 2, 12]] {
        let others = format!(
            "--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} \
             --micro-batch-size {micro_batch} --sequence-parallel --use-distributed-optimizer"
        );
        assert!(best_secs <= priced(&others), "{others}");
    }
}

#[test]
fn a_target_s_arguments_recompute_where_memory_is_short() {
    let [model, plan] = opt("price_target_memory", &["--layers", "2", "--global-batch", "8", "--seq", "256"]);
    done(&["price", &model, "--cluster", "a100-1", "--plan", &plan, "--megatron", "--micro-batch-size 1"]);
    let text = fs::read_to_string(&plan).expect("it is written");
    let bytes = serde_json::from_str::<Value>(&text).expect("JSON")["stages"][0]["memory_bytes"].as_f64();
    // A little less than nothing recomputed needs.
    let cluster = small(&plan, 1, 0.97 * bytes.expect("a number"));
    let (arguments, _) = best(&model, &plan, &cluster);
    assert!(arguments.contains("--recompute-granularity"), "{arguments}");
}

/// A cluster of A100 with so many bytes each.
fn small(beside: &str, n_devices: usize, hbm_bytes: f64) -> String {
    let text = format!(
        "name = \"small\"\nper_node = {n_devices}\nnodes = 1\n[accelerator]\nname = \"small\"\nbase = \"a100\"\n\
         usable = 1.0\nhbm_bytes = {hbm_bytes}\n[accelerator.sources]\nhbm_bytes = \"this test\"\n\
         usable = \"this test\"\n"
    );
    let path = Path::new(beside).with_file_name("small.toml");
    fs::write(&path, text).expect("scratch");
    path.to_string_lossy().into_owned()
}

/// The degrees that are found for a stack; its export names nothing of the plan but what it leaves to the
/// model's code.
fn said_whole(stack: &str, elsewhere: &[&str], model: &str, plan: &str, cluster: &str) -> String {
    let after = Path::new(plan).with_file_name("after.ir").to_string_lossy().into_owned();
    let said = done(&["price", model, "--target", stack, "--cluster", cluster, "--plan", plan, "-o", &after]);
    let is_priced =
        said.lines().any(|line| line.starts_with("target: the best of ") && line.contains("plan"));
    assert!(is_priced, "{stack}: {said}");
    let written = phzc(&[&after, "--cluster", cluster, "--passes", "", "--emit", stack], b"");
    assert_eq!(written.code, 0, "{}", written.stderr);
    let warnings = written.stderr.lines().filter(|line| line.contains("cannot say this"));
    let others: Vec<&str> = warnings.filter(|line| !elsewhere.iter().any(|it| line.contains(it))).collect();
    assert_eq!(others, [""; 0], "{stack}: {said}");
    said.lines().find_map(|line| line.strip_prefix("degrees: ")).expect("the degrees").to_owned()
}

/// The stacks besides Megatron-LM, and what their exports name whatever the plan.
const STACKS: [(&str, &[&str]); 4] = [
    ("torchtitan", &[]),
    ("deepspeed", &["an argument of the model", "everything is recomputed: the model"]),
    ("fsdp", &["layouts of activations", "the order of", "what is recomputed"]),
    ("maxtext", &["remat_policy minimal"]),
];

#[test]
fn the_best_plan_for_a_stack_is_said_whole_by_its_configuration() {
    let [model, plan] = opt("price_targets", &["--layers", "2", "--global-batch", "8"]);
    for (stack, elsewhere) in STACKS {
        let degrees = said_whole(stack, elsewhere, &model, &plan, "a100-4");
        assert!(degrees.contains("data ") && degrees.contains("per microbatch"), "{degrees}");
        assert!(stack != "fsdp" || degrees.contains("pipeline 1"), "{degrees}");
    }
}

#[test]
#[ignore = "takes a minute"]
fn stacks_share_weights_out_where_memory_is_short() {
    let sizes = ["--layers", "2", "--hidden", "256", "--ffn", "1024", "--heads", "4", "--vocab", "1001"];
    let [model, plan] = opt("price_targets_memory", &[&sizes[..], &["--global-batch", "2"]].concat());
    done(&["price", &model, "--cluster", "a100-2", "--plan", &plan, "--megatron", "--micro-batch-size 1"]);
    let text = fs::read_to_string(&plan).expect("it is written");
    let whole = serde_json::from_str::<Value>(&text).expect("JSON")["stages"][0]["memory_bytes"].as_f64();
    let cluster = small(&plan, 2, 0.6 * whole.expect("a number"));
    for (stack, elsewhere) in STACKS {
        let degrees = said_whole(stack, elsewhere, &model, &plan, &cluster);
        let is_shared = !degrees.contains("ZeRO-0") || degrees.contains("data 1,");
        assert!(is_shared, "{stack}: {degrees}");
    }
}
