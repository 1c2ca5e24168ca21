//! Exports to training stacks: what is written, what is named, and that Megatron's arguments price back to
//! the same time.

use crate::common::{phzc, root, scratch};
use std::fs;
use std::path::Path;

/// A plan's figure.
fn time_secs(path: &Path) -> f64 {
    let text = fs::read_to_string(path).expect("it is written");
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    plan["time_secs"].as_f64().expect("a number")
}

/// Runs the program and expects it to succeed; what it says.
fn run(args: &[&str]) -> String {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}\n{}", outcome.stderr);
    outcome.stderr
}

fn generate(dir: &Path, family: &[&str]) -> String {
    let path = dir.join("model.ir").to_string_lossy().into_owned();
    run(&[&["gen"], family, &["-o", &path]].concat());
    path
}

const OPT: [&str; 17] = [
    "opt",
    "--size",
    "tiny",
    "--layers",
    "4",
    "--heads",
    "8",
    "--seq",
    "256",
    "--vocab",
    "1024",
    "--hidden",
    "512",
    "--ffn",
    "2048",
    "--global-batch",
    "32",
];
const LLAMA: [&str; 19] = [
    "llama",
    "--size",
    "tiny",
    "--layers",
    "4",
    "--vocab",
    "1024",
    "--heads",
    "8",
    "--kv-heads",
    "8",
    "--seq",
    "256",
    "--hidden",
    "512",
    "--ffn",
    "1408",
    "--global-batch",
    "32",
];

/// Prices arguments, exports that plan and prices what was exported; both times, the script, and what the
/// export says.
fn there_and_back(name: &str, family: &[&str], cluster: &str, arguments: &str) -> (f64, f64, String, String) {
    let dir = scratch(name);
    let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let model = generate(&dir, family);
    let price = |arguments: &str, json: &str| {
        run(&[
            "price",
            &model,
            "--cluster",
            cluster,
            "--megatron",
            arguments,
            "--plan",
            &file(json),
            "-o",
            &file("plan.ir"),
        ]);
        time_secs(&dir.join(json))
    };
    let first = price(arguments, "first.json");
    let (plan, script) = (file("plan.ir"), file("run.sh"));
    let said = run(&[&plan, "--cluster", cluster, "--passes", "", "--emit", "megatron", "-o", &script]);
    let again = price(&format!("@{script}"), "again.json");
    (first, again, fs::read_to_string(&script).expect("it is written"), said)
}

fn warnings(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("warning")).collect()
}

/// Prices arguments and what is exported of that: both times, and that nothing is lost between them.
fn comes_back(name: &str, family: &[&str], cluster: &str, arguments: &str) {
    let (first, again, script, said) = there_and_back(name, family, cluster, arguments);
    assert_eq!(warnings(&said), [""; 0], "{name} {arguments}\n{script}");
    assert!((first - again).abs() <= 1e-3 * first, "{name} {arguments}: {first} and {again}\n{script}");
    for argument in arguments.split(" --").filter(|argument| !argument.starts_with("lr")) {
        assert!(script.contains(argument.trim_start_matches("--")), "`{argument}`\n{script}");
    }
}

#[test]
fn what_megatron_can_say_prices_back_to_the_same_time() {
    let arguments = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 4 \
                     --attention-backend unfused --lr 3e-4";
    comes_back("exports_unfused", &OPT, "a100-8", arguments);
    let clusters = ["a100-8x2", "h100-8x2", "v100-8x2"];
    for (family, (name, options)) in [("exports_opt", &OPT[..]), ("exports_llama", &LLAMA)].iter().enumerate()
    {
        for (at, (tensor, pipeline)) in [1, 2, 4, 8].into_iter().flat_map(|it| [(it, 1), (it, 2)]).enumerate()
        {
            let sequence = if tensor > 1 && at % 4 < 2 { " --sequence-parallel" } else { "" };
            let arguments = format!(
                "--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} \
                 --micro-batch-size 2{sequence} --attention-backend flash"
            );
            comes_back(name, options, clusters[(at + family) % clusters.len()], &arguments);
        }
    }
    // One product makes query, key and value: data and stages are all that is asked for.
    for pipeline in [1, 2] {
        let arguments = format!("--pipeline-model-parallel-size {pipeline} --micro-batch-size 2");
        comes_back("exports_gpt", &[&["gpt"], &OPT[1..]].concat(), "h100-8x2", &arguments);
    }
}

#[test]
fn layers_are_split_by_columns_and_rows_whatever_the_planner_would_choose() {
    let dir = scratch("exports_columns_rows");
    for (family, name, n_whole) in [(&OPT[..], "opt", 0), (&LLAMA, "llama", 0), (&OPT, "gpt", 8)] {
        let model = generate(&dir, &[&[name], &family[1..]].concat());
        let arguments = "--tensor-model-parallel-size 4 --sequence-parallel --use-distributed-optimizer";
        let plan = dir.join("plan.json");
        let json = plan.to_string_lossy();
        let said = run(&["price", &model, "--cluster", "a100-8", "--megatron", arguments, "--plan", &json]);
        assert_eq!(said.contains(&format!("{n_whole} products of")), n_whole > 0, "{name}: {said}");
        let text = fs::read_to_string(&plan).expect("it is written");
        let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let own = &figures["stages"][0]["parallelism"];
        assert_eq!((&own["data"], &own["tensor"]), (&2.into(), &4.into()), "{name}: {own}");
        if n_whole == 0 {
            assert!(!said.contains("weights are gathered"), "{name}: {said}");
            assert_eq!((&own["sequence"], &own["flops_share"]), (&4.into(), &1.0.into()), "{name}: {own}");
        }
    }
}

#[test]
fn what_a_stack_cannot_say_is_named_in_the_file_and_on_stderr() {
    let dir = scratch("exports_named");
    let model = generate(&dir, &OPT);
    let plan = dir.join("plan.ir").to_string_lossy().into_owned();
    let passes = "fuse,shard,place{stages=2,microbatches=4,schedule=zero-bubble}";
    run(&[&model, "--cluster", "a100-8", "--passes", passes, "-o", &plan]);
    for (stack, named) in [
        ("megatron", "the schedule zero-bubble; Megatron runs 1F1B"),
        ("torchtitan", "(ZB-H1); 1F1B is written"),
        ("deepspeed", "the schedule zero-bubble; PipelineEngine runs 1F1B"),
        ("maxtext", "the schedule zero-bubble; MaxText runs all microbatches forward"),
        ("fsdp", "the order of 4 microbatches (zero-bubble)"),
    ] {
        let outcome = phzc(&[&plan, "--passes", "", "--emit", stack], b"");
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let is_said = warnings(&outcome.stderr).iter().any(|line| line.contains(named));
        assert!(is_said && outcome.stdout.contains(named), "{stack}\n{}\n{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn stages_on_different_numbers_of_devices_are_launched_on_as_many_as_are_written() {
    let dir = scratch("exports_unequal");
    let (plan, script) = (dir.join("plan.ir"), dir.join("run.sh"));
    let [plan, script] = [plan, script].map(|path| path.to_string_lossy().into_owned());
    let model = generate(&dir, &OPT);
    let passes = "fuse,shard,place{stages=3,groups=2+4}";
    run(&[&model, "--cluster", "a100-8", "--passes", passes, "-o", &plan]);
    let said = run(&[&plan, "--passes", "", "--emit", "megatron", "-o", &script]);
    assert!(
        said.contains("stages have different numbers of devices; all are written with 2, 6 in all"),
        "{said}"
    );
    let text = fs::read_to_string(&script).expect("it is written");
    assert!(text.contains("--nproc-per-node 6 "), "{text}");
}

#[test]
fn json_and_toml_of_a_plan_have_its_degrees() {
    let dir = scratch("exports_degrees");
    let model = generate(&dir, &OPT);
    let plan = dir.join("plan.ir").to_string_lossy().into_owned();
    let arguments = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 4 \
                     --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3";
    run(&["price", &model, "--cluster", "a100-8x2", "--megatron", arguments, "-o", &plan]);
    let emitted = |stack: &str| phzc(&[&plan, "--passes", "", "--emit", stack, "-q"], b"").stdout;
    let deepspeed: serde_json::Value = serde_json::from_str(&emitted("deepspeed")).expect("JSON");
    // 16 devices are 4 copies: 32 = 4 samples on each of them, twice.
    assert_eq!(
        (&deepspeed["train_batch_size"], &deepspeed["gradient_accumulation_steps"]),
        (&32.into(), &2.into())
    );
    assert_eq!(deepspeed["tensor_parallel"]["autotp_size"], 2);
    let fsdp: serde_json::Value = serde_json::from_str(&emitted("fsdp")).expect("JSON");
    let placed = |name: &str| &fsdp["parameters"][name];
    let columns = placed("params.layers.3.mlp.up.kernel");
    let first = placed("params.layers.0.mlp.up.kernel");
    assert_eq!((&columns["stage"], &first["stage"]), (&1.into(), &0.into()), "{fsdp}");
    assert_eq!(columns["placements"][1], "Shard(1)", "{columns}");
    assert!(
        placed("batch.input_ids").is_null()
            && fsdp["optimizer_states"].as_object().is_some_and(|it| !it.is_empty())
    );
    let titan = emitted("torchtitan");
    assert!(titan.contains("[\"tok_embeddings\", \"layers.0\"],\n  [\"layers.1\", \"layers.2\", \"layers.3\", \"norm\", \"output\"]"), "{titan}");
    let maxtext = emitted("maxtext");
    assert!(maxtext.contains("ici_tensor_parallelism: 2\ndcn_tensor_parallelism: 1\n"), "{maxtext}");
    assert!(maxtext.contains("ici_pipeline_parallelism: 1\ndcn_pipeline_parallelism: 2\n"), "{maxtext}");
    let megatron = emitted("megatron");
    assert!(
        megatron.contains("#SBATCH --nodes=2\n")
            && megatron.contains("--decoder-first-pipeline-num-layers 1\n")
    );
}

#[test]
fn plans_with_few_layers_or_samples_are_written_as_stacks_run_them_and_read_back() {
    let cases = [
        ("stages", "2", "16", "a100-4", "fuse,shard,place{stages=4}", "--pipeline-model-parallel-layout"),
        ("layers", "2", "16", "a100-8", "fuse,shard,place{stages=8}", "--pipeline-model-parallel-size 2"),
        ("samples", "4", "4", "a100-8", "fuse,shard{mesh={x=8}},place{stages=1}", "model-parallel-size 2"),
    ];
    for (name, layers, batch, cluster, passes, written) in cases {
        let dir = scratch(&format!("exports_few_{name}"));
        let family = ["opt", "--size", "tiny", "--layers", layers, "--global-batch", batch];
        let model = generate(&dir, &family);
        let [plan, script] = ["plan.ir", "run.sh"].map(|it| dir.join(it).to_string_lossy().into_owned());
        run(&[&model, "--cluster", cluster, "--passes", passes, "-q", "-o", &plan]);
        let said = run(&[&plan, "--passes", "", "--emit", "megatron", "-o", &script]);
        let text = fs::read_to_string(&script).expect("it is written");
        assert!(text.contains(written) && !warnings(&said).is_empty(), "{name}: {text}\n{said}");
        run(&["price", &model, "--cluster", cluster, "--megatron", &format!("@{script}")]);
        let maxtext = phzc(&[&plan, "--passes", "", "--emit", "maxtext", "-q"], b"").stdout;
        assert!(!maxtext.contains("num_layers_per_pipeline_stage: 0"), "{name}: {maxtext}");
    }
}

#[test]
fn a_stage_may_have_the_embedding_alone() {
    let dir = scratch("exports_embedding");
    let model = generate(&dir, &["opt", "--size", "tiny", "--layers", "2", "--global-batch", "16"]);
    let arguments = "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout E|t|t|L";
    let plan = dir.join("plan.json").to_string_lossy().into_owned();
    run(&["price", &model, "--cluster", "a100-4", "--megatron", arguments, "--plan", &plan]);
    let text = fs::read_to_string(&plan).expect("it is written");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let forward_secs = &figures["stages"][0]["forward_secs"];
    assert!(forward_secs.as_f64().is_some_and(|secs| secs > 0.0), "{forward_secs}");
}

#[test]
fn wrong_arguments_are_shown_in_their_place() {
    let dir = scratch("exports_wrong");
    let model = generate(&dir, &OPT);
    let said = |arguments: &str| {
        let outcome = phzc(&["price", &model, "--cluster", "a100-8", "--megatron", arguments], b"");
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        outcome.stderr
    };
    let wrong = said("--bf16 --tensor-model-parallel-size 3");
    assert!(wrong.contains(" --> --megatron:1:8\n"), "{wrong}");
    assert!(wrong.contains("lower `--tensor-model-parallel-size`, or name a larger cluster"), "{wrong}");
    let wrong = said("--pipeline-model-paralel-size 2");
    assert!(wrong.contains("did you mean `--pipeline-model-parallel-size`?"), "{wrong}");
    let wrong = said("--pipeline-model-parallel-size 8 --micro-batch-size 4");
    assert!(wrong.contains("4 layers do not divide into 8 equal stages"), "{wrong}");
    let wrong = said("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 5");
    assert!(wrong.contains("a first stage holds 5 layers, but the program has 4"), "{wrong}");
    assert!(wrong.contains("lower `--decoder-first-pipeline-num-layers`"), "{wrong}");
    let wrong = said("--num-experts 8");
    assert!(wrong.contains("`--num-experts 8`, but the program has no experts"), "{wrong}");
    let wrong = said("--expert-model-parallel-size 2");
    assert!(wrong.contains("but the program has no experts"), "{wrong}");
}

#[test]
fn what_megatron_passes_over_is_warned_of() {
    let dir = scratch("exports_passed_over");
    let model = generate(&dir, &["opt", "--size", "tiny", "--global-batch", "16"]);
    let full = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 99";
    for (arguments, warning) in [
        ("--sequence-parallel", "`--sequence-parallel` is off, as in Megatron"),
        (full, "`--recompute-num-layers 99`, but no stage has more than 2"),
        ("--micro-batch-size 2 --micro-batch-size 4", "is given as `2` and as `4`: the last counts"),
    ] {
        let said = run(&["price", &model, "--cluster", "a100-4", "--megatron", arguments]);
        assert!(warnings(&said).iter().any(|line| line.contains(warning)), "{said}");
    }
}

#[test]
fn a_forward_program_has_its_batch_at_once() {
    let dir = scratch("exports_forward");
    let model = generate(&dir, &["opt", "--size", "tiny", "--global-batch", "16", "--forward"]);
    let priced =
        |arguments: &str| phzc(&["price", &model, "--cluster", "a100-4", "--megatron", arguments], b"");
    for arguments in ["", "--global-batch-size 16", "--micro-batch-size 4"] {
        let outcome = priced(arguments);
        assert!(outcome.stdout.contains("data 4, tensor 1"), "{}", outcome.stderr);
    }
    let parts = priced("--micro-batch-size 2").stderr;
    assert!(parts.contains("2 microbatches of a program that no update makes a training step"), "{parts}");
}

#[test]
fn full_recomputation_is_every_stage_s_own() {
    let dir = scratch("exports_full");
    let model = generate(&dir, &OPT);
    let arguments = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 2 \
                     --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
    let plan = dir.join("plan.json");
    run(&[
        "price",
        &model,
        "--cluster",
        "a100-8",
        "--megatron",
        arguments,
        "--plan",
        &plan.to_string_lossy(),
    ]);
    let text = fs::read_to_string(&plan).expect("it is written");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let stages = figures["stages"].as_array().expect("stages").iter();
    let again: Vec<f64> = stages.map(|stage| stage["recompute_secs"].as_f64().expect("a number")).collect();
    // A layer each, all alike; the first stage makes the embedding again too, the last one no head.
    let (least, most) =
        again[1..].iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &it| (a.min(it), b.max(it)));
    assert!(again.len() == 4 && least > 0.0 && most < 1.05 * least, "{again:?}");
    assert!(again[0] >= least && again[0] < 1.2 * least, "{again:?}");
}

#[test]
fn layouts_for_jax_are_those_of_arguments_by_their_own_names() {
    let dir = scratch("exports_jax");
    let path = dir.join("layouts.py").to_string_lossy().into_owned();
    let model = root().join("tests/frontends/mlp.debug_info.mlir").to_string_lossy().into_owned();
    let passes = "fuse,shard{mesh={x=2,y=4},pin={^params__w1__$=[-,y]}},place{stages=1}";
    run(&[&model, "--cluster", "a100-8", "--passes", passes, "--emit", "jax", "-q", "-o", &path]);
    let text = fs::read_to_string(&path).expect("it is written");
    for line in
        ["MESHES = [\n    (0, [(\"x\", 2), (\"y\", 4)]),\n]", "    \"params__w1__\": (0, P(None, \"y\")),"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
