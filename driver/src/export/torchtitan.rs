//! torchtitan: a job's TOML, as its versions 0.1 and 0.2 read (`torchtitan/config/job_config.py`). Newer ones
//! take the same names on the command line.

use super::run::Run;
use super::{Export, comment};
use phzc_cost::Schedule;
use std::fmt::Write;

/// The file, with what torchtitan cannot say.
pub fn write(run: &Run) -> Export {
    let mut lost = run.lost.clone();
    let tables = [
        ("training", training(run)),
        ("parallelism", parallelism(run, &mut lost)),
        ("activation_checkpoint", vec![("mode", text(recomputation(run)))]),
    ];
    let mut out = comment(run, "torchtitan's job", &lost);
    for (name, keys) in tables {
        let _ = writeln!(out, "\n[{name}]");
        keys.iter().for_each(|(key, value)| out += &format!("{key} = {value}\n"));
    }
    Export { text: out, lost, elsewhere: Vec::new() }
}

type Keys = Vec<(&'static str, String)>;

fn text(value: &str) -> String {
    format!("\"{value}\"")
}

fn recomputation(run: &Run) -> &'static str {
    if run.is_recomputed { "full" } else { "none" }
}

/// Without a pipeline microbatches are steps of gradient accumulation; in one they are parts of the local
/// batch.
fn training(run: &Run) -> Keys {
    let local = if run.pipeline > 1 { run.micro_batch * run.n_microbatches } else { run.micro_batch };
    let mut keys =
        vec![("local_batch_size", local.to_string()), ("global_batch_size", run.batch.to_string())];
    keys.extend(run.seq.map(|seq| ("seq_len", seq.to_string())));
    keys
}

fn parallelism(run: &Run, lost: &mut Vec<String>) -> Keys {
    let degrees = &run.degrees;
    let (replicate, shard) = if degrees.zero == 0 { (degrees.data, 1) } else { (1, degrees.data) };
    let mut keys = vec![
        ("data_parallel_replicate_degree", replicate.to_string()),
        ("data_parallel_shard_degree", shard.to_string()),
        ("tensor_parallel_degree", degrees.tensor.to_string()),
        ("context_parallel_degree", degrees.context.to_string()),
        ("pipeline_parallel_degree", run.pipeline.to_string()),
    ];
    if shard > 1 {
        // FSDP gathers parameters for the forward part, and keeps them for the backward part or not.
        let keeps = if degrees.zero == 3 { "always" } else { "never" };
        keys.push(("fsdp_reshard_after_forward", text(keeps)));
    }
    if degrees.expert > 1 {
        keys.push(("expert_parallel_degree", degrees.expert.to_string()));
    }
    if (1..3).contains(&degrees.zero) {
        lost.push(format!(
            "parameters are whole on each device (ZeRO-{}); FSDP splits them too, and keeps them gathered",
            degrees.zero
        ));
    }
    if degrees.tensor > 1 && degrees.sequence != degrees.tensor {
        lost.push(format!(
            "the sequence is in {} parts beside tensor parallelism; torchtitan has it in {}",
            degrees.sequence, degrees.tensor
        ));
    }
    if run.pipeline > 1 {
        keys.extend(pipeline(run, lost));
    }
    keys
}

fn pipeline(run: &Run, lost: &mut Vec<String>) -> Keys {
    let schedule = match run.schedule {
        Schedule::GPipe => "GPipe",
        Schedule::Interleaved(_) => "Interleaved1F1B",
        Schedule::OneFOneB => "1F1B",
        Schedule::ZeroBubble => {
            lost.push(
                "the schedule zero-bubble with one stage per device group (ZB-H1); 1F1B is written".into(),
            );
            "1F1B"
        }
    };
    let mut keys = vec![
        ("pipeline_parallel_schedule", text(schedule)),
        ("pipeline_parallel_microbatch_size", run.micro_batch.to_string()),
    ];
    keys.extend(run.layers.as_deref().map(|layers| ("module_fqns_per_model_part", parts(layers))));
    keys
}

/// The modules of each stage, by the names of torchtitan's models.
fn parts(layers: &[usize]) -> String {
    let (mut first, mut parts) = (0, Vec::new());
    for (stage, n) in layers.iter().enumerate() {
        let mut names: Vec<String> = Vec::new();
        names.extend((stage == 0).then(|| text("tok_embeddings")));
        names.extend((first..first + n).map(|layer| text(&format!("layers.{layer}"))));
        if stage + 1 == layers.len() {
            names.extend(["norm", "output"].map(text));
        }
        parts.push(format!("  [{}],\n", names.join(", ")));
        first += n;
    }
    format!("[\n{}]", parts.concat())
}
