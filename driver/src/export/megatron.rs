//! Megatron-LM: a shell script with one argument per line, that `torchrun` runs on one node and `sbatch` on
//! several.
//!
//! Options and their rules: `megatron/training/arguments.py`, and the pipeline's layout
//! `megatron/core/transformer/pipeline_parallel_layer_layout.py`, of Megatron-LM.

use super::run::Run;
use super::{Export, comment};
use phzc_cost::Schedule;
use phzc_ir::counted;
use std::fmt::Write;

/// The script, with what Megatron cannot say.
pub fn write(run: &Run) -> Export {
    let mut lost = run.lost.clone();
    let args = arguments(run, &mut lost);
    let script = comment(run, "Megatron-LM arguments", &lost);
    let batch = batch_script(run);
    let args: String = args.iter().map(|arg| format!("  {arg}\n")).collect();
    let text = format!(
        "#!/bin/bash\n{batch}{script}\
         # The model, the data and the optimizer are yours: append their arguments to this script's.\n\
         set -euo pipefail\n\nMEGATRON_ARGS=(\n{args})\n\n{}",
        launch(run)
    );
    Export { text, lost, elsewhere: Vec::new() }
}

/// What `sbatch` reads, where there are several nodes.
fn batch_script(run: &Run) -> String {
    match run.n_nodes() {
        1 => String::new(),
        n => format!(
            "#SBATCH --nodes={n}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n",
            run.per_node
        ),
    }
}

fn launch(run: &Run) -> String {
    let (n_nodes, per_node) = (run.n_nodes(), run.per_node);
    let program = "  \"${MEGATRON_PATH:-.}/pretrain_gpt.py\" \"${MEGATRON_ARGS[@]}\" \"$@\"\n";
    match n_nodes {
        1 => format!("torchrun --standalone --nproc-per-node {per_node} \\\n{program}"),
        _ => format!(
            "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n\
             srun torchrun --nnodes {n_nodes} --nproc-per-node {per_node} \\\n  \
             --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d --rdzv-endpoint \"$head:29500\" \\\n{program}"
        ),
    }
}

fn arguments(run: &Run, lost: &mut Vec<String>) -> Vec<String> {
    let degrees = &run.degrees;
    let mut args = vec![
        format!("--tensor-model-parallel-size {}", degrees.tensor),
        format!("--pipeline-model-parallel-size {}", run.pipeline),
        format!("--context-parallel-size {}", degrees.context),
    ];
    if degrees.expert > 1 {
        args.push(format!("--expert-model-parallel-size {}", degrees.expert));
    }
    if degrees.sequence > 1 && degrees.sequence == degrees.tensor {
        args.push("--sequence-parallel".to_owned());
    } else if degrees.sequence > 1 {
        lost.push(format!(
            "the sequence is in {} parts beside tensor parallelism of {}; --sequence-parallel is not written",
            degrees.sequence, degrees.tensor
        ));
    }
    args.push(format!("--micro-batch-size {}", run.micro_batch));
    args.push(format!("--global-batch-size {}", run.batch));
    args.extend(run.seq.map(|seq| format!("--seq-length {seq}")));
    args.extend(pipeline(run, lost));
    args.extend(sharding(run, lost));
    if run.is_recomputed {
        let words =
            ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"];
        args.extend(words.map(str::to_owned));
    }
    args.push(format!("--attention-backend {}", if run.is_flash { "flash" } else { "unfused" }));
    args
}

/// Layers, what each stage has of them, and virtual stages.
fn pipeline(run: &Run, lost: &mut Vec<String>) -> Vec<String> {
    if !matches!(run.schedule, Schedule::OneFOneB | Schedule::Interleaved(_)) && run.pipeline > 1 {
        lost.push(format!("the schedule {}; Megatron runs 1F1B", run.schedule));
    }
    let Some(layers) = &run.layers else {
        let of_groups = if run.n_chunks > 1 {
            vec![format!("--num-virtual-stages-per-pipeline-rank {}", run.n_chunks)]
        } else {
            Vec::new()
        };
        return of_groups;
    };
    let mut args = vec![format!("--num-layers {}", layers.iter().sum::<usize>())];
    match (run.is_even(), run.n_chunks) {
        (true, 1) => {}
        (true, _) => args.push(format!("--num-layers-per-virtual-pipeline-stage {}", layers[0])),
        (false, 1) if is_even_inside(layers) => {
            args.push(format!("--decoder-first-pipeline-num-layers {}", layers[0]));
            args.push(format!("--decoder-last-pipeline-num-layers {}", layers[layers.len() - 1]));
        }
        (false, _) => args.push(format!("--pipeline-model-parallel-layout \"{}\"", layout(layers))),
    }
    args
}

/// Whether stages between the first and the last have equally many layers, at least one each.
fn is_even_inside(layers: &[usize]) -> bool {
    let inner = &layers[1..layers.len() - 1];
    layers.iter().all(|n| *n > 0) && inner.iter().all(|n| *n == inner[0])
}

/// `Ett|tt|tL`: embedding, layers, loss, stage by stage; equal neighbors are not gathered.
fn layout(layers: &[usize]) -> String {
    let mut text = String::from("E");
    for (stage, n) in layers.iter().enumerate() {
        let _ = write!(text, "{}{}", if stage > 0 { "|" } else { "" }, "t".repeat(*n));
    }
    text + "L"
}

/// ZeRO's stages: Megatron's optimizer splits states, Megatron-FSDP gradients and parameters too.
fn sharding(run: &Run, lost: &mut Vec<String>) -> Vec<String> {
    let fsdp = |strategy: &str| {
        let words = [
            "--use-distributed-optimizer",
            "--use-megatron-fsdp",
            "--no-gradient-accumulation-fusion",
            "--ckpt-format fsdp_dtensor",
        ];
        let mut args: Vec<String> = words.map(str::to_owned).to_vec();
        args.push(format!("--data-parallel-sharding-strategy {strategy}"));
        args
    };
    match run.degrees.zero {
        0 => Vec::new(),
        2 if run.pipeline == 1 => fsdp("optim_grads"),
        3 if run.pipeline == 1 => fsdp("optim_grads_params"),
        zero => {
            if zero > 1 {
                let what = if zero == 2 { "gradients" } else { "gradients and parameters" };
                let stages = counted(run.pipeline, "stage");
                lost.push(format!(
                    "{what} are split over data (ZeRO-{zero}) in a pipeline of {stages}; \
                     --use-distributed-optimizer splits the optimizer's states"
                ));
            }
            vec!["--use-distributed-optimizer".to_owned()]
        }
    }
}
