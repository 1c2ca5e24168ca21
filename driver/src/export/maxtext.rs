//! MaxText: keys of its `base.yml`, degrees within a node (`ici_…`) and between nodes (`dcn_…`).

use super::run::Run;
use super::{Export, comment};
use phzc_cost::Schedule;
use phzc_ir::counted;
use std::fmt::Write;

/// The file, with what `MaxText` cannot say.
pub fn write(run: &Run) -> Export {
    let run = &equal_stages(run);
    let mut lost = run.lost.clone();
    let keys = keys(run, &mut lost);
    let elsewhere: Vec<String> = (!run.is_recomputed)
        .then(|| {
            "no product is recomputed; remat_policy minimal keeps products, and makes the rest again".into()
        })
        .into_iter()
        .collect();
    let all = [&lost[..], &elsewhere].concat();
    let mut text = comment(run, "MaxText's configuration: append it to yours", &all);
    keys.iter().for_each(|(key, value)| {
        let _ = writeln!(text, "{key}: {value}");
    });
    Export { text, lost, elsewhere }
}

/// The run in as many stages as divide the layers.
fn equal_stages<'a>(run: &Run<'a>) -> Run<'a> {
    let mut run = run.clone();
    let n_layers = run.layers.iter().flatten().sum::<usize>();
    let n_stages = run.pipeline * run.n_chunks;
    if run.pipeline > 1 && run.layers.is_some() && !n_layers.is_multiple_of(n_stages) {
        run.fewer_stages(|pipeline| n_layers.is_multiple_of(pipeline));
        run.samples_of_copies();
        run.batch_sizes();
    }
    run
}

type Keys = Vec<(String, String)>;

fn keys(run: &Run, lost: &mut Vec<String>) -> Keys {
    let mut keys = parallelism(run, lost);
    let mut put = |key: &str, value: String| keys.push((key.to_owned(), value));
    // MaxText's batch is per device, tensor-parallel ones included, and may be a fraction.
    let whole = run.n_devices * run.n_microbatches;
    let per_device = if run.pipeline > 1 { run.n_devices } else { whole };
    put("per_device_batch_size", number(run.batch as f64 / per_device as f64));
    if let Some(seq) = run.seq {
        put("max_target_length", seq.to_string());
    }
    put("remat_policy", if run.is_recomputed { "full" } else { "minimal" }.to_owned());
    put("shard_optimizer_over_data", (1..3).contains(&run.degrees.zero).to_string());
    if run.pipeline == 1 {
        put("gradient_accumulation_steps", run.n_microbatches.to_string());
    } else {
        keys.extend(pipeline(run, lost));
    }
    if run.degrees.zero == 2 {
        lost.push("gradients are split over data (ZeRO-2); shard_optimizer_over_data is ZeRO-1".into());
    }
    keys
}

/// A whole number without a point.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { value.to_string() }
}

/// Each axis within a node as far as it goes, innermost first; the rest of it between nodes.
fn parallelism(run: &Run, lost: &mut Vec<String>) -> Keys {
    let degrees = &run.degrees;
    let is_sequence = degrees.tensor > 1 && degrees.sequence == degrees.tensor;
    if degrees.sequence > 1 && !is_sequence {
        lost.push(format!("the sequence is in {} parts beside tensor parallelism", degrees.sequence));
    }
    let (tensor, tensor_sequence) = if is_sequence { (1, degrees.tensor) } else { (degrees.tensor, 1) };
    // Experts share the devices of data.
    let data = degrees.data / degrees.expert.clamp(1, degrees.data);
    let (replicated, sharded) = if degrees.zero == 3 { (1, data) } else { (data, 1) };
    let axes = [
        ("tensor", tensor),
        ("tensor_sequence", tensor_sequence),
        ("context", degrees.context),
        ("expert", degrees.expert),
        ("fsdp", sharded),
        ("data", replicated),
        ("pipeline", run.pipeline as i64),
    ];
    let (mut left, mut keys) = (run.per_node as i64, Vec::new());
    for (name, size) in axes {
        let inside = gcd(size, left);
        left /= inside;
        keys.push((format!("ici_{name}_parallelism"), inside.to_string()));
        keys.push((format!("dcn_{name}_parallelism"), (size / inside).to_string()));
    }
    keys
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `MaxText` repeats a pipeline of equal stages, and differentiates it as a whole.
fn pipeline(run: &Run, lost: &mut Vec<String>) -> Keys {
    if run.schedule != Schedule::GPipe {
        lost.push(format!(
            "the schedule {}; MaxText runs all microbatches forward, then backward",
            run.schedule
        ));
    }
    let mut keys = vec![
        ("num_pipeline_microbatches".to_owned(), microbatches(run, lost).to_string()),
        ("num_pipeline_repeats".to_owned(), run.n_chunks.to_string()),
    ];
    let Some(layers) = &run.layers else { return keys };
    let each = layers.iter().sum::<usize>() / layers.len();
    if !run.is_even() {
        lost.push(format!("stages of {layers:?} layers; MaxText's are equal, {each} each"));
    }
    keys.push(("num_layers_per_pipeline_stage".to_owned(), each.to_string()));
    keys
}

/// A multiple of the stages that divides the batch: the next one up, or the largest.
fn microbatches(run: &Run, lost: &mut Vec<String>) -> usize {
    let (n, samples) = (run.n_microbatches, run.batch / run.degrees.data.max(1) as usize);
    if n.is_multiple_of(run.pipeline) {
        return n;
    }
    let legal = (run.pipeline..=samples).step_by(run.pipeline).filter(|n| samples.is_multiple_of(*n));
    let nearest = legal.reduce(|best, next| if best < n { next } else { best });
    let written = nearest.map_or("none divides the batch".to_owned(), |n| format!("{n} are written"));
    lost.push(format!(
        "{}; MaxText needs a multiple of its {} stages: {written}",
        counted(n, "microbatch"),
        run.pipeline
    ));
    nearest.unwrap_or(n)
}
