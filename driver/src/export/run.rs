//! What all stacks are written from: one set of degrees, layers per stage, batch sizes; and what of the plan
//! no stack that has one set of degrees can say.

use super::legal::filled;
use crate::sample::sample;
use phzc_cost::{Cluster, Schedule};
use phzc_io::units::{percent, secs};
use phzc_ir::{Diagnostic, Module, Result, counted};
use phzc_passes::batch::accumulation;
use phzc_passes::derive::Facts;
use phzc_passes::graph::Graph;
use phzc_passes::plan_note;
use phzc_passes::report::{self, Parallelism, Plan};
use std::collections::BTreeSet;

/// Shares of time or FLOPs that are no more than rounding.
const NOTHING: f64 = 5e-4;
/// From this share of the forward part on, "everything is recomputed" is nearer than "nothing is".
const MOST: f64 = 0.5;

/// Degrees that every stage has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Degrees {
    pub data: i64,
    pub tensor: i64,
    pub context: i64,
    pub expert: i64,
    /// Parts of the sequence in what tensor parallelism leaves whole.
    pub sequence: i64,
    /// ZeRO's stage.
    pub zero: u8,
}

/// A planned run, as a stack's configuration needs it.
#[derive(Clone)]
pub struct Run<'a> {
    pub module: &'a Module,
    pub facts: &'a Facts,
    pub plan: &'a Plan,
    pub program: String,
    pub schedule: Schedule,
    /// Device groups in a row.
    pub pipeline: usize,
    /// Stages per device group.
    pub n_chunks: usize,
    pub degrees: Degrees,
    /// Per stage: whole layers; `None` where the program has none that are alike.
    pub layers: Option<Vec<usize>>,
    /// Samples of a step.
    pub batch: usize,
    /// Places of a sample, where data have them.
    pub seq: Option<i64>,
    /// Microbatches of a step.
    pub n_microbatches: usize,
    /// Samples of a microbatch on one data-parallel device.
    pub micro_batch: usize,
    /// The most of a stage's forward part that its backward part makes again, kernels of attention aside.
    pub recompute_share: f64,
    /// Whether the backward part computes everything again.
    pub is_recomputed: bool,
    /// Whether attention is one kernel.
    pub is_flash: bool,
    pub n_devices: usize,
    pub per_node: usize,
    /// What one set of degrees does not say.
    pub lost: Vec<String>,
}

impl<'a> Run<'a> {
    /// Reads a plan.
    ///
    /// # Errors
    /// When no stage has a product of the forward part: then there are no degrees.
    pub fn new(module: &'a Module, facts: &'a Facts, cluster: &Cluster, plan: &'a Plan) -> Result<Run<'a>> {
        facts.header.one_replica("each with a number of microbatches of its own, which no stack can say")?;
        let graph = Graph::build(module);
        let (chosen, stage_devices) = typical(plan)?;
        // A loop over parts of the batch, the program's or the plan's, is what stacks do with microbatches.
        let written = plan_note::n_accumulated(module).map(|n| n as _);
        let n_own = written.or_else(|| Some(accumulation(module, &graph)?.n_microbatches)).unwrap_or(1);
        let mut run = Run {
            module,
            facts,
            plan,
            program: module.name.to_string(),
            schedule: facts.header.schedule,
            pipeline: facts.header.n_groups(),
            n_chunks: facts.header.schedule.n_chunks(),
            degrees: degrees(chosen),
            layers: None,
            batch: 1,
            seq: None,
            n_microbatches: plan.n_microbatches * n_own,
            micro_batch: 1,
            recompute_share: 0.0,
            is_recomputed: false,
            is_flash: facts.comps.iter().flatten().any(|own| own.attention.is_some()),
            n_devices: plan.n_devices,
            per_node: cluster.per_node().min(plan.n_devices),
            lost: Vec::new(),
        };
        let sample = sample(&graph, plan.throughput.as_ref());
        (run.batch, run.seq) = (sample.batch, sample.places);
        run.same_degrees(chosen);
        run.all_devices(chosen, stage_devices);
        run.whole_layers();
        run.stages_of_layers();
        run.recomputation();
        run.samples_of_copies();
        run.batch_sizes();
        Ok(run)
    }

    /// `269 ms per step on 8 devices of a100-8 (phzc's estimate)`.
    pub fn headline(&self) -> String {
        let devices = counted(self.plan.n_devices, "device");
        format!(
            "{} per step on {devices} of {} (phzc's estimate)",
            secs(self.plan.time_secs),
            self.plan.cluster
        )
    }

    /// Nodes that the plan uses.
    pub fn n_nodes(&self) -> usize {
        self.n_devices.div_ceil(self.per_node)
    }

    /// Names stages that are parallel in another way than most.
    fn same_degrees(&mut self, chosen: &Parallelism) {
        let mut found: Vec<(usize, String)> = Vec::new();
        for (index, stage) in self.plan.stages.iter().enumerate() {
            let Some(own) = &stage.parallelism else {
                found.push((index, "no products, and so no degrees".to_owned()));
                continue;
            };
            if degrees(own) != degrees(chosen) {
                let (own, all) = (words(&degrees(own)), words(&degrees(chosen)));
                found.push((index, format!("{own}; written as {all}, as all stages are")));
            }
            if own.flops_share < 1.0 - NOTHING {
                let rest = percent(1.0 - own.flops_share);
                found.push((
                    index,
                    format!("{rest} of the products' FLOPs are split otherwise than the rest"),
                ));
            }
            if own.is_tensor_outer {
                let text = "the devices of one data-parallel copy are no neighbors, as they are written";
                found.push((index, text.to_owned()));
            }
        }
        self.lost.extend(gathered(&found));
    }

    /// Data parallelism takes all devices that nothing else does.
    fn all_devices(&mut self, chosen: &Parallelism, stage_devices: usize) {
        if self.plan.stages.iter().any(|stage| devices(stage.devices) != stage_devices) {
            self.n_devices = stage_devices * self.pipeline;
            let is_even = |per_node: &usize| self.n_devices.is_multiple_of(*per_node);
            self.per_node = (1..=self.per_node).rev().find(is_even).expect("one divides all");
            self.lost.push(format!(
                "stages have different numbers of devices; all are written with {stage_devices}, {} in all",
                self.n_devices
            ));
        }
        let kinds: BTreeSet<&str> =
            self.plan.stages.iter().filter_map(|stage| Some(&*stage.device.as_ref()?.name)).collect();
        if kinds.len() > 1 {
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            self.lost.push(format!("stages are on unlike devices ({kinds}), of which nothing is written"));
        }
        let degrees = &mut self.degrees;
        let left = stage_devices as i64 / (degrees.tensor * degrees.context);
        if left > degrees.data {
            let (data, replicas) = (degrees.data, chosen.replicas);
            // Of experts the devices are data-parallel elsewhere.
            if replicas > 1 {
                self.lost.push(format!(
                    "{replicas} devices do the same in the products of data {data}; they are written as data {left}"
                ));
            }
            degrees.data = left;
        }
    }

    /// Layers per stage, those that are cut through given to the stage that has most of them.
    fn whole_layers(&mut self) {
        let of = |stage: &report::Stage| stage.parallelism.as_ref().map_or(Some(0.0), |it| it.layers);
        let Some(layers) = self.plan.stages.iter().map(of).collect::<Option<Vec<f64>>>() else {
            if self.plan.stages.len() > 1 {
                self.lost.push("no layers are alike: what each stage holds is not written".to_owned());
            }
            return;
        };
        let whole = filled(rounded(&layers));
        let is_cut = |(_, (own, whole)): &(usize, (&f64, &usize))| (*own - **whole as f64).abs() > 1e-6;
        let cut = layers.iter().zip(&whole).enumerate().filter(is_cut);
        let found: Vec<(usize, String)> = cut
            .map(|(stage, (own, whole))| (stage, format!("{own} layers; {whole} written, as a whole number")))
            .collect();
        self.lost.extend(gathered(&found));
        self.layers = Some(whole);
    }

    fn recomputation(&mut self) {
        let share = |stage: &report::Stage| stage.parallelism.as_ref().map_or(0.0, |it| it.recompute_share);
        // What a kernel of attention makes again belongs to the kernel.
        let facts = &self.facts.comps[self.module.entry.index()];
        let mut again = report::again(self.module, self.facts).into_iter();
        let is_any = again.any(|(id, _)| facts[id.index()].attention.is_none());
        let most = if is_any { self.plan.stages.iter().map(share).fold(0.0, f64::max) } else { 0.0 };
        self.recompute_share = most;
        let is_all = plan_note::read(self.module).get("recompute").is_some_and(|asked| asked == "all");
        self.is_recomputed = is_all || most >= MOST;
        if most > NOTHING && !is_all {
            let written = if self.is_recomputed { "everything" } else { "nothing" };
            self.lost.push(format!(
                "single values are recomputed, up to {} of a stage's forward part; recomputing {written} is written",
                percent(most)
            ));
        }
    }

    pub(super) fn batch_sizes(&mut self) {
        let (data, n) = (self.degrees.data.max(1) as usize, self.n_microbatches.max(1));
        if self.batch.is_multiple_of(data * n) {
            self.micro_batch = self.batch / (data * n);
            return;
        }
        self.n_microbatches = (1..=n).rev().find(|n| self.batch.is_multiple_of(data * n)).unwrap_or(1);
        self.micro_batch = (self.batch / (data * self.n_microbatches)).max(1);
        self.lost.push(format!(
            "{} of {} do not divide into {n} microbatches on {data} data-parallel devices; {} are written",
            counted(self.batch, "sample"),
            self.program,
            counted(self.n_microbatches, "microbatch")
        ));
    }

    /// Whether all stages have as many layers.
    pub fn is_even(&self) -> bool {
        self.layers.as_ref().is_none_or(|layers| layers.iter().all(|n| *n == layers[0]))
    }
}

/// What is said of stages, those of which the same is said together.
fn gathered(found: &[(usize, String)]) -> Vec<String> {
    let mut texts: Vec<(&str, Vec<String>)> = Vec::new();
    for (stage, text) in found {
        match texts.iter_mut().find(|(own, _)| own == text) {
            Some((_, stages)) => stages.push(stage.to_string()),
            None => texts.push((text, vec![stage.to_string()])),
        }
    }
    let line = |(text, stages): &(&str, Vec<String>)| {
        let noun = if stages.len() == 1 { "stage" } else { "stages" };
        format!("{noun} {}: {text}", stages.join(", "))
    };
    texts.iter().map(line).collect()
}

fn devices([first, last]: [usize; 2]) -> usize {
    last + 1 - first
}

/// The parallelism that most of the time is spent in, and the devices of its stage.
fn typical(plan: &Plan) -> Result<(&Parallelism, usize)> {
    let mut found: Vec<(&Parallelism, f64, usize)> = Vec::new();
    for stage in &plan.stages {
        let Some(own) = &stage.parallelism else { continue };
        let secs = stage.forward_secs + stage.backward_secs;
        match found.iter_mut().find(|(other, ..)| degrees(other) == degrees(own)) {
            Some((_, sum, _)) => *sum += secs,
            None => found.push((own, secs, devices(stage.devices))),
        }
    }
    let most = found.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a });
    most.map(|(own, _, n)| (own, n)).ok_or_else(|| {
        let error = Diagnostic::error("the plan has no products, so it has no degrees of parallelism");
        error.help("`--emit program` writes its layouts")
    })
}

fn degrees(it: &Parallelism) -> Degrees {
    let Parallelism { data, tensor, context, expert, sequence, .. } = *it;
    Degrees { data, tensor, context, expert, sequence, zero: it.zero_stage.unwrap_or(0) }
}

/// `data 4, tensor 2, ZeRO-1`.
fn words(it: &Degrees) -> String {
    let named = [
        ("data", it.data, 0),
        ("tensor", it.tensor, 0),
        ("context", it.context, 1),
        ("expert", it.expert, 1),
        ("sequence", it.sequence, 1),
    ];
    let shown = named.iter().filter(|(_, size, least)| size > least);
    let mut words: Vec<String> = shown.map(|(name, size, _)| format!("{name} {size}")).collect();
    words.push(format!("ZeRO-{}", it.zero));
    words.join(", ")
}

/// Whole numbers with the same sum: each rounded down, what is left given to those that lose most by it.
fn rounded(values: &[f64]) -> Vec<usize> {
    let mut whole: Vec<usize> = values.iter().map(|value| (value + 1e-6) as usize).collect();
    let left = (values.iter().sum::<f64>().round() as usize).saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].fract().total_cmp(&values[a].fract()).then(a.cmp(&b)));
    order.iter().take(left).for_each(|&at| whole[at] += 1);
    whole
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn layers_that_are_cut_through_go_to_the_stage_with_most_of_them() {
        assert_eq!(rounded(&[4.667, 3.333]), [5, 3]);
        assert_eq!(rounded(&[1.0, 1.75, 1.25, 0.0]), [1, 2, 1, 0]);
        assert_eq!(rounded(&[2.5, 2.5, 3.0]), [3, 2, 3]);
    }
}
