//! `phzc price --target megatron`: the fastest plan that Megatron-LM's arguments can say.
//!
//! Every pair of tensor and pipeline degrees is priced with one sample per microbatch. Pairs within a
//! quarter of the best go on: with all sizes of a microbatch, then with all numbers of stages per device.
//! Where a plan does not fit, it recomputes more. Sequence parallelism and the distributed optimizer are
//! always allowed.

use super::arguments::Arguments;
use super::planned::{Priced, Refused, fused, planned, run, sizes};
use indexmap::{IndexMap, IndexSet};
use phzc_cost::Cluster;
use phzc_io::Io;
use phzc_io::units::secs;
use phzc_ir::{Diagnostic, Module};
use phzc_passes::check::memory::replay;
use phzc_passes::derive::derive;
use phzc_passes::report::{columns_rows, layer_products, plan_of};
use std::fmt::Write;

/// How much slower than the best a pair of degrees may be to be looked at more closely.
const NEAR: f64 = 1.25;

/// How many reasons are named where nothing is found.
const N_REASONS: usize = 4;

/// What is recomputed where memory is short, the least first.
const RECOMPUTE: [&str; 3] = [
    "",
    " --recompute-granularity selective",
    " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
];

/// Degrees that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Degrees {
    tensor: usize,
    pipeline: usize,
    micro_batch: usize,
    /// Stages of a device.
    n_chunks: usize,
}

/// A plan that fits, and the arguments that say it.
pub struct Found {
    pub arguments: String,
    pub priced: Priced,
    time_secs: f64,
    degrees: Degrees,
}

/// What was found, and how many sets of arguments were priced.
pub struct Search<'a> {
    module: &'a Module,
    cluster: &'a Cluster,
    batch: usize,
    n_layers: usize,
    found: Vec<Found>,
    n_priced: usize,
    /// Why others could not be had.
    refused: IndexSet<String>,
}

impl Search<'_> {
    /// Prices sets of arguments until none is left that is worth it.
    ///
    /// # Errors
    /// A program that cannot be planned at all.
    pub fn new<'a>(module: &'a Module, cluster: &'a Cluster, io: &mut Io) -> Result<Search<'a>, Refused> {
        let (fused, facts) = fused(module, cluster, io)?;
        let batch = sizes(&fused, &facts, cluster).batch;
        let n_layers = layer_products(&fused, &facts).map_or(0, |layers| layers.len());
        let (found, refused) = (Vec::new(), IndexSet::new());
        let mut search = Search { module, cluster, batch, n_layers, found, n_priced: 0, refused };
        let n_devices = cluster.n_devices();
        // A degree that splits no product is none.
        let splits =
            |tensor: usize| tensor == 1 || !columns_rows(&fused, &facts, tensor as i64).weights.is_empty();
        for tensor in divisors(n_devices).filter(|n| *n <= cluster.per_node() && splits(*n)) {
            for pipeline in divisors(n_devices / tensor) {
                search.price(Degrees { tensor, pipeline, micro_batch: 1, n_chunks: 1 }, io);
            }
        }
        for degrees in search.near() {
            for micro_batch in divisors(batch).skip(1) {
                search.price(Degrees { micro_batch, ..degrees }, io);
            }
        }
        for degrees in search.near() {
            let most = search.n_layers / degrees.pipeline;
            for n_chunks in divisors(most).skip(1).filter(|_| degrees.pipeline > 1) {
                search.price(Degrees { n_chunks, ..degrees }, io);
            }
        }
        Ok(search)
    }

    /// The fastest plan that fits, and the number of sets that were priced.
    ///
    /// # Errors
    /// Why there is none.
    pub fn fastest(self) -> Result<(Found, usize), Refused> {
        let n_priced = self.n_priced;
        let best = self.found.into_iter().min_by(|a, b| a.time_secs.total_cmp(&b.time_secs));
        best.map(|best| (best, n_priced)).ok_or_else(|| {
            let message =
                format!("none of {n_priced} sets of Megatron-LM's arguments makes a plan that fits");
            let error =
                Diagnostic::error(message).help("other numbers of devices, samples or layers have others");
            let noted = |error: Diagnostic, reason: &String| error.note(None, reason.clone());
            Refused::Program(vec![self.refused.iter().take(N_REASONS).fold(error, noted)])
        })
    }

    /// Of each pair of tensor and pipeline degrees near the best its own best.
    fn near(&self) -> Vec<Degrees> {
        let mut pairs: IndexMap<[usize; 2], &Found> = IndexMap::new();
        for it in &self.found {
            let own = pairs.entry([it.degrees.tensor, it.degrees.pipeline]).or_insert(it);
            if it.time_secs < own.time_secs {
                *own = it;
            }
        }
        let best_secs = self.found.iter().map(|it| it.time_secs).fold(f64::INFINITY, f64::min);
        let near = pairs.into_values().filter(|it| it.time_secs <= NEAR * best_secs);
        near.map(|it| it.degrees).collect()
    }

    /// Prices the fastest plan in some degrees that fits.
    fn price(&mut self, degrees: Degrees, io: &mut Io) {
        let Degrees { tensor, pipeline, micro_batch, n_chunks } = degrees;
        let copies = self.cluster.n_devices() / (tensor * pipeline);
        // Interleaved stages take microbatches in groups of as many as there are stages.
        let group = copies * micro_batch * if n_chunks > 1 { pipeline } else { 1 };
        if !self.batch.is_multiple_of(group) {
            let batch = self.batch;
            self.refused.insert(format!("a batch of {batch} does not divide into parts of {group} samples"));
            return;
        }
        if pipeline > 1 && self.n_layers == 0 {
            return;
        }
        for recompute in RECOMPUTE {
            let arguments = degrees.arguments(self.batch, copies) + recompute;
            self.n_priced += 1;
            (io.progress)(&format!("{} sets of arguments, {}", self.n_priced, self.best_so_far()));
            let asked = Arguments::parse(&arguments).expect("they are Megatron's");
            match planned(self.module.clone(), &asked, self.cluster, io) {
                Ok(priced) => {
                    if let Some(time_secs) = time_of(&priced.module, self.cluster) {
                        return self.found.push(Found { arguments, priced, time_secs, degrees });
                    }
                }
                Err(Refused::Program(errors)) => {
                    self.refused.extend(errors.first().map(|error| error.message.to_string()));
                }
                Err(Refused::Arguments(error)) => {
                    self.refused.insert(error.message.to_string());
                    return;
                }
            }
        }
    }

    fn best_so_far(&self) -> String {
        let best = self.found.iter().map(|it| it.time_secs).reduce(f64::min);
        best.map_or("none fits yet".to_owned(), |best| format!("{} so far", secs(best)))
    }
}

impl Degrees {
    fn arguments(self, batch: usize, copies: usize) -> String {
        let Degrees { tensor, pipeline, micro_batch, n_chunks } = self;
        let mut text = format!(
            "--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} \
             --micro-batch-size {micro_batch} --global-batch-size {batch}"
        );
        let flags = [(tensor > 1, " --sequence-parallel"), (copies > 1, " --use-distributed-optimizer")];
        flags.iter().filter(|(is_on, _)| *is_on).for_each(|(_, flag)| text += flag);
        if n_chunks > 1 {
            let _ = write!(text, " --num-virtual-stages-per-pipeline-rank {n_chunks}");
        }
        text
    }
}

/// Seconds of a step, if what its tasks hold fits.
fn time_of(module: &Module, cluster: &Cluster) -> Option<f64> {
    let facts = derive(module).ok()?;
    let peaks = replay(module, &facts, cluster).into_iter().map(|peak| peak.peak_bytes);
    let fits = peaks.fold(0.0, f64::max) <= cluster.accelerator.usable_bytes();
    fits.then(|| plan_of(module, &facts, cluster).time_secs)
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |it| n.is_multiple_of(*it))
}

/// Lines about the search: the arguments, and what they cost beside the plan that nothing restricts.
pub fn text(found: &Found, n_priced: usize, module: &Module, cluster: &Cluster, io: &mut Io) -> String {
    // As one kernel, and as the program has it.
    let free = ["flash", "as-written"].map(|how| free_secs(module.clone(), how, cluster, io));
    let free = free.into_iter().reduce(|a, b| match (&a, &b) {
        (Ok(first), Ok(second)) if first <= second => a,
        (Ok(_), Err(_)) => a,
        _ => b,
    });
    let beside = match free.expect("there are two") {
        Ok(free_secs) if free_secs <= found.time_secs => format!(
            "{:.1} % slower than the plan without these restrictions, {}",
            100.0 * (found.time_secs / free_secs - 1.0),
            secs(free_secs)
        ),
        Ok(_) => "no slower than the plan that the search without these restrictions finds".to_owned(),
        Err(error) => format!("there is no plan without these restrictions ({})", error.message),
    };
    let arguments = &found.arguments;
    format!("arguments: {arguments}\ntarget: the best of {n_priced} sets of arguments, {beside}\n")
}

/// The seconds of the plan that the planner finds where no stack restricts it, attention priced in some way.
fn free_secs(mut module: Module, attention: &str, cluster: &Cluster, io: &mut Io) -> phzc_ir::Result<f64> {
    let passes = format!("unroll,fuse{{attention={attention}}},shard,place");
    run(&mut module, &passes, cluster, io).map_err(|refused| match refused {
        Refused::Arguments(error) => error,
        Refused::Program(mut errors) => errors.swap_remove(0),
    })?;
    let facts = derive(&module)?;
    Ok(plan_of(&module, &facts, cluster).time_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_become_arguments_with_the_flags_that_they_allow() {
        let degrees = Degrees { tensor: 2, pipeline: 4, micro_batch: 3, n_chunks: 1 };
        assert_eq!(
            degrees.arguments(48, 2),
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 3 \
             --global-batch-size 48 --sequence-parallel --use-distributed-optimizer"
        );
        let alone = Degrees { tensor: 1, n_chunks: 2, ..degrees };
        assert!(alone.arguments(48, 1).ends_with("48 --num-virtual-stages-per-pipeline-rank 2"));
        assert_eq!(divisors(12).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 12]);
    }
}
