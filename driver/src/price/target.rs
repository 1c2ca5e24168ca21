//! `phzc price --target megatron`: the fastest plan that Megatron-LM's arguments can say.
//!
//! Every pair of tensor and pipeline degrees is priced with one sample per microbatch. Pairs within a quarter
//! of the best go on: larger microbatches, then more stages per device. Where a plan does not fit, it
//! recomputes more. Sequence parallelism and the distributed optimizer are always allowed.

use super::arguments::Arguments;
use super::planned::{Priced, Refused, planned, sizes};
use phzc_cost::Cluster;
use phzc_io::Io;
use phzc_io::units::secs;
use phzc_ir::{Diagnostic, Module};
use phzc_passes::check::memory::replay;
use phzc_passes::derive::derive;
use phzc_passes::manager::{self, Hooks};
use phzc_passes::report::plan_of;
use phzc_passes::{Context, Done};
use std::fmt::Write;

/// How much slower than the best a pair of degrees may be to be looked at more closely.
const NEAR: f64 = 1.25;

/// What is recomputed where memory is short, the least first.
const RECOMPUTE: [&str; 3] = ["", " --recompute-granularity selective", " --recompute-granularity full"];

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
    found: Vec<Found>,
    n_priced: usize,
    /// Why the last one could not be had.
    refused: Option<Refused>,
}

impl Search<'_> {
    /// Prices sets of arguments until none is left that is worth it.
    pub fn new<'a>(module: &'a Module, cluster: &'a Cluster, io: &mut Io) -> Search<'a> {
        let batch = sizes(module).batch;
        let mut search = Search { module, cluster, batch, found: Vec::new(), n_priced: 0, refused: None };
        let n_devices = cluster.n_devices();
        for tensor in divisors(n_devices).filter(|n| *n <= cluster.per_node()) {
            for pipeline in divisors(n_devices / tensor) {
                search.price(Degrees { tensor, pipeline, micro_batch: 1, n_chunks: 1 }, io);
            }
        }
        search.widen(io, |it| Degrees { micro_batch: 2 * it.micro_batch, ..it });
        search.widen(io, |it| Degrees { n_chunks: it.n_chunks + usize::from(it.pipeline > 1), ..it });
        search
    }

    /// The fastest plan that fits.
    ///
    /// # Errors
    /// Why there is none.
    pub fn fastest(self) -> Result<(Found, usize), Refused> {
        let n_priced = self.n_priced;
        let best = self.found.into_iter().min_by(|a, b| a.time_secs.total_cmp(&b.time_secs));
        let nothing = || {
            let error = Diagnostic::error("no plan that Megatron-LM's arguments can say fits the devices");
            Refused::Program(vec![error.help("name a larger cluster: `--cluster`")])
        };
        best.map(|best| (best, n_priced)).ok_or_else(|| self.refused.unwrap_or_else(nothing))
    }

    /// Prices what `next` makes of all that is near the best, and of what comes of that, while it is faster.
    fn widen(&mut self, io: &mut Io, next: impl Fn(Degrees) -> Degrees) {
        let best_secs = self.found.iter().map(|it| it.time_secs).fold(f64::INFINITY, f64::min);
        let near = self.found.iter().filter(|it| it.time_secs <= NEAR * best_secs);
        for (mut degrees, mut time_secs) in near.map(|it| (it.degrees, it.time_secs)).collect::<Vec<_>>() {
            while next(degrees) != degrees {
                degrees = next(degrees);
                match self.price(degrees, io) {
                    Some(secs) if secs < time_secs => time_secs = secs,
                    _ => break,
                }
            }
        }
    }

    /// The time of the fastest plan in some degrees that fits.
    fn price(&mut self, degrees: Degrees, io: &mut Io) -> Option<f64> {
        let copies = self.cluster.n_devices() / (degrees.tensor * degrees.pipeline);
        if !self.batch.is_multiple_of(copies * degrees.micro_batch) {
            return None;
        }
        for recompute in RECOMPUTE {
            let arguments = degrees.arguments(self.batch, copies) + recompute;
            self.n_priced += 1;
            (io.progress)(&format!("{} sets of arguments, {}", self.n_priced, self.best_so_far()));
            let asked = Arguments::parse(&arguments).expect("they are Megatron's");
            match planned(self.module.clone(), &asked, self.cluster, io) {
                Ok(priced) => {
                    if let Some(time_secs) = time_of(&priced.module, self.cluster) {
                        self.found.push(Found { arguments, priced, time_secs, degrees });
                        return Some(time_secs);
                    }
                }
                Err(refused) => {
                    self.refused = Some(refused);
                    return None;
                }
            }
        }
        None
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

/// Lines about the search: the arguments, and what they cost beside the fastest plan of all.
pub fn text(found: &Found, n_priced: usize, module: &Module, cluster: &Cluster, io: &mut Io) -> String {
    let mut text = format!("arguments: {}\n", found.arguments);
    let beside = match free_secs(module.clone(), cluster, io) {
        Some(free_secs) => format!(
            "{:+.1} % beside the fastest plan without these restrictions, {}",
            100.0 * (found.time_secs / free_secs - 1.0),
            secs(free_secs)
        ),
        None => "no plan without these restrictions fits".to_owned(),
    };
    let _ = writeln!(text, "target: {n_priced} sets of arguments priced; the best takes {beside}");
    text
}

/// The seconds of the fastest plan that the planner finds where no stack restricts it.
fn free_secs(mut module: Module, cluster: &Cluster, io: &mut Io) -> Option<f64> {
    let pipeline = phzc_passes::pipeline("fuse{attention=flash},shard,place").ok()?;
    let mut cx = Context { progress: io.progress, ..Context::new(cluster) };
    let mut hooks = Hooks { observer: &mut |_: Done| Ok(()), clock: io.clock };
    manager::run(&mut module, &pipeline, &mut cx, &mut hooks).ok()?;
    let facts = derive(&module).ok()?;
    Some(plan_of(&module, &facts, cluster).time_secs)
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
