//! How stages are parallel, in Megatron's words: `data 4, tensor 2, ZeRO-1, 12 layers, recomputes 0.0 %`.

use phzc_io::units::percent;
use phzc_passes::report::{Parallelism, Plan, Stage};

/// One line, or one for each stretch of stages that are alike; nothing where no product runs.
pub(super) fn text(plan: &Plan) -> String {
    let words: Vec<String> = plan.stages.iter().map(stage).collect();
    if plan.stages.iter().all(|stage| stage.parallelism.is_none()) {
        return String::new();
    }
    let replicas = replicas(plan.replicas.len());
    if words.len() == 1 {
        return format!("parallelism: {replicas}{}\n", words[0]);
    }
    let n_groups = plan.stages.iter().flat_map(|stage| &stage.parallelism).map(|it| it.pipeline).max();
    let pipeline = format!("parallelism: {replicas}pipeline {}", n_groups.unwrap_or(1));
    let stretches = stretches(&words);
    match stretches[..] {
        [_] => format!("{pipeline}, each stage {}\n", words[0]),
        _ => stretches.iter().fold(pipeline + "\n", |out, &(first, last)| match first == last {
            true => out + &format!("  stage {first}: {}\n", words[first]),
            false => out + &format!("  stages {first}-{last}: {}\n", words[first]),
        }),
    }
}

/// Replicas of all stages have parts of the batch too.
fn replicas(n_replicas: usize) -> String {
    if n_replicas > 1 { format!("{n_replicas} replicas, each ") } else { String::new() }
}

/// First and last of neighbors that are alike.
fn stretches(words: &[String]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        match found.last_mut() {
            Some((first, last)) if words[*first] == *word => *last = index,
            _ => found.push((index, index)),
        }
    }
    found
}

fn stage(stage: &Stage) -> String {
    stage.parallelism.as_ref().map_or("no products".to_owned(), words)
}

fn words(it: &Parallelism) -> String {
    let mut out = format!("data {}, tensor {}", it.data, it.tensor);
    put(&mut out, &[("context", it.context)]);
    if it.flops_share < 0.9995 {
        out += &format!(" ({} of FLOPs)", percent(it.flops_share));
    }
    put(&mut out, &[("sequence", it.sequence), ("expert", it.expert), ("replicas", it.replicas)]);
    out += &it.zero_stage.map_or(String::new(), |stage| format!(", ZeRO-{stage}"));
    out += &it.layers.map_or(String::new(), |n| format!(", {n} layer{}", if n == 1.0 { "" } else { "s" }));
    out + &format!(", recomputes {}", percent(it.recompute_share))
}

/// Degrees that are no ones.
fn put(out: &mut String, degrees: &[(&str, i64)]) {
    degrees.iter().filter(|(_, n)| *n > 1).for_each(|(name, n)| *out += &format!(", {name} {n}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_left_out_but_data_and_tensor() {
        let ones =
            Parallelism { data: 8, tensor: 1, sequence: 1, context: 1, expert: 1, ..Parallelism::default() };
        let plain = Parallelism { flops_share: 1.0, replicas: 1, ..ones.clone() };
        assert_eq!(words(&plain), "data 8, tensor 1, recomputes 0.0 %");
        let all = Parallelism {
            tensor: 2,
            sequence: 2,
            context: 4,
            expert: 8,
            replicas: 2,
            flops_share: 0.75,
            layers: Some(5.5),
            zero_stage: Some(1),
            recompute_share: 0.25,
            ..ones
        };
        assert_eq!(
            words(&all),
            "data 8, tensor 2, context 4 (75.0 % of FLOPs), sequence 2, expert 8, replicas 2, ZeRO-1, 5.5 layers, recomputes 25.0 %"
        );
        assert_eq!(
            words(&Parallelism { layers: Some(1.0), ..plain }),
            "data 8, tensor 1, 1 layer, recomputes 0.0 %"
        );
    }

    #[test]
    fn replicas_come_before_what_each_of_them_is() {
        assert_eq!([0, 1, 3].map(replicas), ["", "", "3 replicas, each "]);
    }

    #[test]
    fn neighbors_that_are_alike_are_one_stretch() {
        let words = ["a", "b", "b", "a"].map(str::to_owned);
        assert_eq!(stretches(&words), [(0, 0), (1, 2), (3, 3)]);
    }
}
