//! `phzc price --target STACK`: the fastest plan that a stack's configuration can say.
//!
//! Every pair of tensor and pipeline degrees is priced with one sample per microbatch, in each of the
//! stack's stages of ZeRO. Pairs within a quarter of the best go on: with all sizes of a microbatch, then
//! with all numbers of stages per device. Where a plan does not fit, it recomputes more. What the stack's
//! export cannot say is no plan of it.

mod stacks;

pub use stacks::Target;

use super::arguments::Arguments;
use super::planned::{Priced, Refused, fused, planned, run, sizes};
use crate::export;
use indexmap::{IndexMap, IndexSet};
use phzc_cost::Cluster;
use phzc_io::Io;
use phzc_io::units::secs;
use phzc_ir::{Diagnostic, Module};
use phzc_passes::check::memory::replay;
use phzc_passes::derive::derive;
use phzc_passes::report::{Plan, columns_rows, layer_products, plan_of};
use stacks::Restrictions;
use std::fmt::Write;

/// How much slower than the best a pair of degrees may be to be looked at more closely.
const NEAR: f64 = 1.25;

/// How many reasons are named where nothing is found.
const N_REASONS: usize = 4;

/// Degrees that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Degrees {
    tensor: usize,
    pipeline: usize,
    micro_batch: usize,
    /// Stages of a device.
    n_chunks: usize,
    /// ZeRO's stage that is asked for.
    zero: u8,
}

/// A plan that fits, and the configuration that says it.
pub struct Found {
    pub words: String,
    pub priced: Priced,
    time_secs: f64,
    degrees: Degrees,
}

/// What was found, and how many sets of arguments were priced.
pub struct Search<'a> {
    stack: &'static Restrictions,
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
    pub fn new<'a>(
        target: Target,
        module: &'a Module,
        cluster: &'a Cluster,
        io: &mut Io,
    ) -> Result<Search<'a>, Refused> {
        let (fused, facts) = fused(module, cluster, io)?;
        let batch = sizes(&fused, &facts, cluster).batch;
        let n_layers = layer_products(&fused, &facts).map_or(0, |layers| layers.len());
        let (found, refused) = (Vec::new(), IndexSet::new());
        let stack = target.restrictions();
        let mut search = Search { stack, module, cluster, batch, n_layers, found, n_priced: 0, refused };
        // A degree that splits no product is none.
        let splits =
            |tensor: usize| tensor == 1 || !columns_rows(&fused, &facts, tensor as i64).weights.is_empty();
        let tensors = divisors(cluster.n_devices()).filter(|n| *n <= cluster.per_node() && splits(*n));
        search.pairs(&tensors.collect::<Vec<_>>(), io);
        search.closer(io);
        Ok(search)
    }

    /// Every pair of degrees, with one sample per microbatch.
    fn pairs(&mut self, tensors: &[usize], io: &mut Io) {
        for &tensor in tensors {
            for pipeline in divisors(self.cluster.n_devices() / tensor) {
                let n_copies = self.cluster.n_devices() / (tensor * pipeline);
                let zero = &self.stack.zero[..if n_copies > 1 { self.stack.zero.len() } else { 1 }];
                for &zero in zero {
                    self.price(Degrees { tensor, pipeline, micro_batch: 1, n_chunks: 1, zero }, io);
                }
            }
        }
    }

    /// The best pairs with other microbatches and numbers of stages per device.
    fn closer(&mut self, io: &mut Io) {
        for degrees in self.near() {
            for micro_batch in divisors(self.batch).skip(1) {
                self.price(Degrees { micro_batch, ..degrees }, io);
            }
        }
        let has_chunks = self.stack.has_chunks;
        for degrees in self.near().into_iter().filter(|it| has_chunks && it.pipeline > 1) {
            for n_chunks in divisors(self.n_layers / degrees.pipeline).skip(1) {
                self.price(Degrees { n_chunks, ..degrees }, io);
            }
        }
    }

    /// The fastest plan that fits, and the number of sets that were priced.
    ///
    /// # Errors
    /// Why there is none.
    pub fn fastest(self) -> Result<(Found, usize), Refused> {
        let (n_priced, Restrictions { name, noun, .. }) = (self.n_priced, self.stack);
        let best = self.found.into_iter().min_by(|a, b| a.time_secs.total_cmp(&b.time_secs));
        best.map(|best| (best, n_priced)).ok_or_else(|| {
            let message = format!("none of {n_priced} sets of {name}'s {noun} makes a plan that fits");
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
        let Degrees { tensor, pipeline, micro_batch, n_chunks, .. } = degrees;
        let copies = self.cluster.n_devices() / (tensor * pipeline);
        // Interleaved stages take microbatches in groups of as many as there are stages.
        let group = copies * micro_batch * if n_chunks > 1 { pipeline } else { 1 };
        if !self.batch.is_multiple_of(group) {
            let batch = self.batch;
            self.refused.insert(format!("a batch of {batch} does not divide into parts of {group} samples"));
            return;
        }
        let has_layers = pipeline == 1 || self.n_layers > 0;
        if !has_layers || !self.stack.allows(degrees, self.batch / (copies * micro_batch)) {
            return;
        }
        for recompute in self.stack.recompute {
            let arguments = degrees.arguments(self.batch, copies, self.stack.has_sequence) + recompute;
            self.n_priced += 1;
            let noun = self.stack.noun;
            (io.progress)(&format!("{} sets of {noun}, {}", self.n_priced, self.best_so_far()));
            let mut asked = Arguments::parse(&arguments).expect("they are Megatron's");
            self.stack.ask(&mut asked, degrees);
            match planned(self.module.clone(), &asked, self.cluster, io) {
                Ok(priced) => match self.said(&priced.module) {
                    Ok(None) => {}
                    Ok(Some(plan)) => {
                        let words = self.stack.words(arguments, &plan, degrees);
                        return self.found.push(Found { words, priced, time_secs: plan.time_secs, degrees });
                    }
                    Err(reason) => {
                        self.refused.insert(reason);
                    }
                },
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

    /// A plan's figures, if what its tasks hold fits.
    ///
    /// # Errors
    /// What the stack cannot say of it.
    fn said(&self, module: &Module) -> Result<Option<Plan>, String> {
        let facts = derive(module).map_err(|error| error.message)?;
        let peaks = replay(module, &facts, self.cluster).into_iter().map(|peak| peak.peak_bytes);
        if peaks.fold(0.0, f64::max) > self.cluster.accelerator.usable_bytes() {
            return Ok(None);
        }
        let plan = plan_of(module, &facts, self.cluster);
        let Some(writer) = self.stack.writer() else { return Ok(Some(plan)) };
        self.stack.check_zero(&plan)?;
        let lost = export::lost(writer, (module, &facts), &plan, self.cluster);
        match lost.map_err(|error| error.message)?.into_iter().next() {
            None => Ok(Some(plan)),
            Some(lost) => Err(format!("{} cannot say this: {lost}", self.stack.name)),
        }
    }

    fn best_so_far(&self) -> String {
        let best = self.found.iter().map(|it| it.time_secs).reduce(f64::min);
        best.map_or("none fits yet".to_owned(), |best| format!("{} so far", secs(best)))
    }
}

impl Degrees {
    fn arguments(self, batch: usize, copies: usize, has_sequence: bool) -> String {
        let Degrees { tensor, pipeline, micro_batch, n_chunks, zero } = self;
        let mut text = format!(
            "--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {pipeline} \
             --micro-batch-size {micro_batch} --global-batch-size {batch}"
        );
        let flags = [
            (tensor > 1 && has_sequence, " --sequence-parallel"),
            (copies > 1 && zero > 0, " --use-distributed-optimizer"),
        ];
        flags.iter().filter(|(is_on, _)| *is_on).for_each(|(_, flag)| text += flag);
        if n_chunks > 1 {
            let _ = write!(text, " --num-virtual-stages-per-pipeline-rank {n_chunks}");
        }
        text
    }
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |it| n.is_multiple_of(*it))
}

/// Lines about the search: the configuration, and what it costs beside the plan that nothing restricts.
pub fn text(
    target: Target,
    (found, n_priced): (&Found, usize),
    module: &Module,
    cluster: &Cluster,
    io: &mut Io,
) -> String {
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
    let (words, noun) = (&found.words, target.restrictions().noun);
    format!("{noun}: {words}\ntarget: the best of {n_priced} sets of {noun}, {beside}\n")
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
        let degrees = Degrees { tensor: 2, pipeline: 4, micro_batch: 3, n_chunks: 1, zero: 1 };
        assert_eq!(
            degrees.arguments(48, 2, true),
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 3 \
             --global-batch-size 48 --sequence-parallel --use-distributed-optimizer"
        );
        let alone = Degrees { tensor: 1, n_chunks: 2, ..degrees };
        assert!(alone.arguments(48, 1, true).ends_with("48 --num-virtual-stages-per-pipeline-rank 2"));
        assert_eq!(divisors(12).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 12]);
    }
}
