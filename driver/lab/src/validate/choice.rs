//! What a row leaves open: microbatch, interleaving, recomputation, chosen as a planner would.

use super::csv::Record;
use super::job::{Expressed, Numbers};
use super::software::{Microbatches, Software};
use phzc_cost::Cluster;
use phzc_cost::training::{Job, Layout, Recompute, Sharding};

/// The job with its microbatch, interleaving and recomputation. What the row leaves open is what a planner
/// would choose: the fastest microbatch and interleaving that fit, the least recomputation that fits.
pub(crate) fn completed(
    row: Record,
    numbers: &Numbers,
    software: &Software,
    job: &Job,
    cluster: &Cluster,
) -> Expressed<Job> {
    let made = numbers.mbs.zip(numbers.n_microbatches).map(|(size, n)| size * n * job.layout.data as f64);
    let batch = numbers.gbs.or(made).filter(|n| *n >= 1.0).ok_or("its batch is not stated")? as usize;
    let per_copy = batch as f64 / job.layout.data as f64;
    let is_open = numbers.vpp.is_none()
        && (numbers.mbs.is_none() || software.is_interleaved || row.text("vpp") == ">1");
    let sizes = micro_batches(numbers, per_copy, software, job)?;
    // Interleaved stages take microbatches in groups of as many as there are stages.
    let is_legal = |&((_, n_microbatches), chunks): &((usize, usize), usize)| {
        !is_open || chunks == 1 || n_microbatches.is_multiple_of(job.layout.stages)
    };
    let least = if row.text("vpp") == ">1" { 2 } else { 1 };
    let all =
        sizes.into_iter().flat_map(|size| chunks(is_open, least, job).map(move |chunks| (size, chunks)));
    let made = all.filter(is_legal).map(|((micro_batch, n_microbatches), chunks)| {
        let layout = Layout { micro_batch, chunks, n_microbatches, ..job.layout.clone() };
        let text = row.text("recompute");
        // Figures without a time are those of memory that nobody had.
        let is_idea = row.text("iter_time_s").is_empty() && text == "none";
        let text = if is_idea { "nothing" } else { text };
        with_recompute(text, software, Job { layout, ..job.clone() }, cluster)
    });
    let made: Vec<Job> = made.collect::<Expressed<_>>()?;
    let fitting: Vec<&Job> = made.iter().filter(|job| fits(job, cluster)).collect();
    let secs = |job: &Job| job.predict(cluster).step_secs;
    let best = fitting.into_iter().min_by(|a, b| secs(a).total_cmp(&secs(b)));
    if best.is_none() && may_share(row, job) {
        // It ran: by copies that do not hold parameters whole, if these fit.
        let layout = Layout { sharding: Sharding::Parameters, ..job.layout.clone() };
        let shared = completed(row, numbers, software, &Job { layout, ..job.clone() }, cluster);
        if let Ok(shared) = shared
            && fits(&shared, cluster)
        {
            return Ok(shared);
        }
    }
    // What is stated is predicted whether it fits or not.
    let best = best.or(made.first().filter(|_| numbers.mbs.is_some()));
    best.cloned().ok_or_else(|| "no microbatch size fits in memory".to_owned())
}

/// Whether a run that is said to have run may have shared out its parameters, for nothing is said of copies.
fn may_share(row: Record, job: &Job) -> bool {
    let is_open = row.text("dp_kind").is_empty() && row.text("status") != "oom";
    is_open && job.layout.sharding != Sharding::Parameters && job.layout.data > 1
}

/// Sequences of a microbatch and their number: what is stated, else all powers of two that divide.
fn micro_batches(
    numbers: &Numbers,
    per_copy: f64,
    software: &Software,
    job: &Job,
) -> Expressed<Vec<(usize, usize)>> {
    // A pipeline of one microbatch is none: what is stated is the batch of a copy.
    let is_batch = job.layout.stages > 1 && numbers.mbs == Some(per_copy) && numbers.n_microbatches.is_none();
    if numbers.mbs.is_none() || is_batch {
        let (whole, n_stages) = (per_copy as usize, job.layout.stages);
        if software.microbatches == Microbatches::PerStage && whole.is_multiple_of(n_stages) && whole > 0 {
            return Ok(vec![(whole / n_stages, n_stages)]);
        }
        let sizes =
            (0..10).map(|power| 1 << power).filter(|size| *size <= whole && whole.is_multiple_of(*size));
        return Ok(sizes.map(|size| (size, whole / size)).collect());
    }
    let (stated, size) = (job.layout.n_microbatches, job.layout.micro_batch);
    let derived = (per_copy / size as f64).round() as usize;
    match if stated > 0 { stated } else { derived } {
        0 => Err("its batch is smaller than one microbatch per copy".to_owned()),
        n_microbatches => Ok(vec![(size, n_microbatches)]),
    }
}

/// Parts of the model that a stage may hold.
fn chunks(is_open: bool, least: usize, job: &Job) -> impl Iterator<Item = usize> {
    let (stages, layers, stated) = (job.layout.stages, job.model.layers, job.layout.chunks);
    let is_open = is_open && stages > 1;
    let most = if is_open { (layers / stages).max(1) } else { stated };
    let divides = move |n: usize| layers.is_multiple_of(n * stages);
    // What never divides is cut unevenly, into the fewest parts.
    let uneven = (!(1..=most).any(divides)).then_some(least);
    let is_tried = move |n: usize| divides(n) && n >= least || uneven == Some(n);
    (1..=most.max(least)).filter(move |n| if is_open { is_tried(*n) } else { *n == stated })
}

/// `selective` of `selective(per-op)`.
fn kind(recompute: &str) -> &str {
    recompute.split_once('(').map_or(recompute, |(kind, _)| kind).trim_end()
}

/// Whether attention alone is computed again: programs do that which keep its scores.
pub(super) fn keeps_scores(recompute: &str) -> bool {
    recompute.starts_with("selective(attn")
}

/// Whether this says what is computed again.
pub(super) fn is_recompute(text: &str) -> bool {
    let (kind, part) = (kind(text), part(text));
    match kind {
        "" | "none" => part.is_empty(),
        "full" => part.is_empty() || whole_layers(part).is_some(),
        "selective" => part.is_empty() || PARTS.contains(&part) || light(part).is_some(),
        _ => false,
    }
}

/// Parts that selective recomputation is said to be of, as far as all programs mean the same.
const PARTS: [&str; 4] = ["attn", "attention", "default", "per-op"];

/// `per-op` of `selective(per-op)`.
fn part(recompute: &str) -> &str {
    recompute.split_once('(').map_or("", |(_, part)| part.trim_end().trim_end_matches(')').trim())
}

/// `mlp act-func + norm`: what lies between products.
fn light(part: &str) -> Option<Recompute> {
    let words: Vec<&str> = part.split('+').map(str::trim).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let is_light = words.iter().all(|word| ACTIVATIONS.contains(word) || NORMS.contains(word));
    is_light.then(|| Recompute::Light { norms: has(&NORMS), activation: has(&ACTIVATIONS) })
}

/// What the function inside the feed-forward part, and a norm, are called.
const ACTIVATIONS: [&str; 4] = ["mlp act-func", "act-func", "moe_act", "activation"];
const NORMS: [&str; 2] = ["norm", "layernorm"];

/// `4 layers`: so many of each stage are computed again as a whole (Megatron-LM, `--recompute-num-layers`
/// with the method `block`).
fn whole_layers(part: &str) -> Option<f64> {
    let count = part.strip_suffix("layers").or_else(|| part.strip_suffix("layer"))?;
    count.trim().parse().ok().filter(|n| *n > 0.0)
}

/// The part of the activations that goes to the host, of `activation offload alpha=0.40`; `None`: it is said
/// in words that are not known.
pub(super) fn offloaded(text: &str) -> Option<f64> {
    if ["", "none"].contains(&text) {
        return Some(0.0);
    }
    let (_, alpha) = text.split_once("alpha=")?;
    alpha.trim().parse().ok().filter(|part| (0.0..=1.0).contains(part))
}

/// What is computed again: as stated, and where that is nothing or not stated, the least that fits.
fn with_recompute(text: &str, software: &Software, job: Job, cluster: &Cluster) -> Expressed<Job> {
    let text = if is_recompute(text) || text == "nothing" { text } else { "" };
    let stated = match kind(text) {
        "full" => {
            let per_stage = job.model.layers as f64 / job.layout.stages as f64;
            Recompute::Layers(whole_layers(part(text)).map_or(1.0, |n| (n / per_stage).min(1.0)))
        }
        "selective" if keeps_scores(text) || !job.stack.fuses_attention => Recompute::Attention,
        "selective" => light(part(text)).unwrap_or(software.selective),
        "nothing" => Recompute::Nothing,
        // It ran: what cannot have been is replaced by the least that can.
        "none" if job.memory().sum_bytes() <= cluster.accelerator.hbm_bytes => Recompute::Nothing,
        // Not stated, or in words that say nothing of its extent.
        _ => return Ok(least_recompute(&job, cluster)),
    };
    Ok(Job { recompute: stated, ..job })
}

fn least_recompute(job: &Job, cluster: &Cluster) -> Job {
    let with = |recompute| Job { recompute, ..job.clone() };
    let attention = (!job.stack.fuses_attention).then_some(Recompute::Attention);
    let parts = (1..=N_PARTS).map(|n| Recompute::Layers(f64::from(n) / f64::from(N_PARTS)));
    let tries = [Recompute::Nothing].into_iter().chain(attention).chain(parts).map(with);
    tries.into_iter().find(|job| fits(job, cluster)).unwrap_or_else(|| with(Recompute::Layers(1.0)))
}

/// Steps in which layers are recomputed until the rest fits.
const N_PARTS: u8 = 8;

/// Whether the memory that is predicted is there.
pub(crate) fn fits(job: &Job, cluster: &Cluster) -> bool {
    job.memory().sum_bytes() <= cluster.accelerator.usable_bytes()
}

/// Whether it also runs as software goes: with what an allocator reserves and a process takes beside the
/// tensors.
pub(crate) fn runs(job: &Job, cluster: &Cluster) -> bool {
    let taken_bytes = job.memory().reserved_bytes() + cluster.accelerator.outside_bytes;
    fits(job, cluster) && taken_bytes <= cluster.accelerator.hbm_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_computed_again_or_offloaded_are_read_or_not_known() {
        for text in
            ["", "none", "full", "full(4 layers)", "selective(attn)", "selective(mlp act-func + norm)"]
        {
            assert!(is_recompute(text), "{text}");
        }
        for text in ["selective(atn)", "full(norm)", "none(all)", "some"] {
            assert!(!is_recompute(text), "{text}");
        }
        assert_eq!(light("norm"), Some(Recompute::Light { norms: true, activation: false }));
        assert_eq!(whole_layers("4 layers"), Some(4.0));
        let parts = ["activation offload alpha=0.40", "", "alpha=2", "cpu"].map(offloaded);
        assert_eq!(parts, [Some(0.4), Some(0.0), None, None]);
    }
}
