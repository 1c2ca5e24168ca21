//! DeepSpeed: its configuration, JSON (`deepspeed/runtime/config.py`). JSON has no comments: what is not said
//! stands under `phzc`, a key that `DeepSpeed` passes over.

use super::Export;
use super::run::Run;
use phzc_cost::Schedule;
use phzc_ir::counted;
use serde_json::{Map, Value, json};

/// The file, with what `DeepSpeed` cannot say.
pub fn write(run: &Run) -> Export {
    let (mut lost, mut elsewhere) = (run.lost.clone(), Vec::new());
    let zero = zero(run, &mut lost);
    let mut keys = Map::new();
    keys.insert("train_batch_size".into(), run.batch.into());
    keys.insert("train_micro_batch_size_per_gpu".into(), run.micro_batch.into());
    keys.insert("gradient_accumulation_steps".into(), run.n_microbatches.into());
    keys.insert("zero_optimization".into(), json!({ "stage": zero }));
    model_parallel(run, &mut keys, &mut lost);
    if run.pipeline > 1 {
        keys.insert("pipeline".into(), pipeline(run, &mut lost, &mut elsewhere));
    } else if run.is_recomputed {
        elsewhere.push("everything is recomputed: the model calls deepspeed.checkpointing.checkpoint".into());
    }
    let all = [&lost[..], &elsewhere].concat();
    let note = json!({ "program": run.program, "plan": run.headline(), "cannot_say": all });
    keys.insert("phzc".into(), note);
    let text = serde_json::to_string_pretty(&Value::Object(keys)).expect("its keys are strings");
    Export { text: text + "\n", lost, elsewhere }
}

/// ZeRO's stage. The pipeline's engine takes no stage above 1.
fn zero(run: &Run, lost: &mut Vec<String>) -> u8 {
    let zero = run.degrees.zero;
    if run.pipeline == 1 || zero <= 1 {
        return zero;
    }
    lost.push(format!(
        "ZeRO-{zero} in a pipeline of {}: PipelineEngine takes ZeRO-1 at most, which is written",
        counted(run.pipeline, "stage")
    ));
    1
}

/// Tensor parallelism by AutoTP, sequences by Ulysses.
fn model_parallel(run: &Run, keys: &mut Map<String, Value>, lost: &mut Vec<String>) {
    let degrees = &run.degrees;
    if degrees.tensor > 1 {
        keys.insert("tensor_parallel".into(), json!({ "autotp_size": degrees.tensor }));
        if degrees.zero == 3 || run.pipeline > 1 {
            let other = if degrees.zero == 3 { "ZeRO-3" } else { "a pipeline" };
            lost.push(format!(
                "AutoTP beside {other}: DeepSpeed trains by AutoTP with ZeRO-2 at most, alone"
            ));
        }
        if degrees.sequence > 1 {
            lost.push(format!("the sequence is in {} parts beside tensor parallelism", degrees.sequence));
        }
    }
    if degrees.context > 1 {
        keys.insert("data_parallel_size".into(), degrees.data.into());
        keys.insert("sequence_parallel_size".into(), degrees.context.into());
        lost.push(format!(
            "context {} gathers keys and values; DeepSpeed-Ulysses exchanges heads for places",
            degrees.context
        ));
    }
    if degrees.expert > 1 {
        lost.push(format!("expert {}: an argument of the model's layers, MoE(ep_size={0})", degrees.expert));
    }
}

/// The engine's part; how many stages, and which layers each has, is an argument of the model.
fn pipeline(run: &Run, lost: &mut Vec<String>, elsewhere: &mut Vec<String>) -> Value {
    if !matches!(run.schedule, Schedule::OneFOneB) {
        lost.push(format!("the schedule {}; PipelineEngine runs 1F1B", run.schedule));
    }
    let stages = run.layers.as_ref().map_or(String::new(), |layers| {
        let each: Vec<String> = layers.iter().map(usize::to_string).collect();
        format!(", with {} layers", each.join(", "))
    });
    elsewhere.push(format!(
        "{} stages{stages}: an argument of the model, PipelineModule(num_stages=…)",
        run.pipeline
    ));
    if !run.is_even() {
        lost.push("stages of unequal layers: PipelineModule balances parameters or layers itself".into());
    }
    json!({
        "stages": run.pipeline,
        "partition": "uniform",
        "activation_checkpoint_interval": i32::from(run.is_recomputed),
    })
}
