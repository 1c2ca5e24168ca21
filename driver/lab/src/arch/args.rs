//! The command line of `phzc arch`, checked.

use super::place::Fleet;
use crate::results::Part;
use phzc_arch::mapping::Mode;
use phzc_cost::phaze::Copies;
use phzc_ir::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// The step to end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Until {
    /// Write the chains of layers as JSON, one object per model
    Extract,
    /// Map and schedule them on every accelerator that is given, and fill the cache
    Estimate,
    /// Search
    Solve,
}

/// What prices operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostMode {
    /// Phaze's model, term by term
    Phaze,
    /// Phaze's with its known errors corrected
    Native,
    /// Both, one after the other
    Both,
}

/// Whether activations are recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Recompute {
    /// Whichever is faster
    Both,
    /// In every stage but the last
    Always,
    /// Nowhere
    Never,
}

/// Copies of the parameters that a device holds beside weights and gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Optimizer {
    /// None
    Sgd,
    /// One
    Adam,
}

/// The arguments of `phzc arch`.
#[derive(Debug, clap::Args)]
pub struct ArchArgs {
    /// Models: programs in any format that is read, chains of layers that `--until extract` wrote, or graphs
    /// of Phaze (`.json`)
    #[arg(value_name = "MODEL", required = true)]
    pub models: Vec<PathBuf>,

    /// The last step
    #[arg(long, value_name = "STEP", value_enum, default_value_t = Until::Solve)]
    pub until: Until,

    /// What prices operators
    #[arg(long, value_name = "MODE", value_enum, default_value_t = CostMode::Both)]
    pub mode: CostMode,

    /// Accelerators to compare instead of the whole space: a preset, a TOML file, or
    /// TENSOR,VECTOR,WIDTH,DEPTH,MIB
    #[arg(long, value_name = "ARCH")]
    pub arch: Vec<String>,

    /// The largest area [default: that of the TPU v4 proxy, 278.8]
    #[arg(long, value_name = "MM2", value_parser = positive)]
    pub area_mm2: Option<f64>,

    /// The largest peak power, dynamic
    #[arg(long, value_name = "WATTS", value_parser = positive)]
    pub max_watts: Option<f64>,

    /// Accelerators of the fleet
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub devices: u32,

    /// Samples of a step
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub batch: u64,

    /// Samples of a microbatch, to choose from [default: 1,2,4,8; of a chain of layers all that it has]
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub microbatches: Vec<u64>,

    /// Sizes of the HBM, to choose from
    #[arg(long, value_name = "GIB,…", value_delimiter = ',', default_value = "32,64,80", value_parser = positive)]
    pub hbm_gib: Vec<f64>,

    /// Whether stages keep activations or make them again
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Recompute::Both)]
    pub recompute: Recompute,

    /// What the optimizer keeps
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Optimizer::Sgd)]
    pub optimizer: Optimizer,

    /// Bytes per second of every link between accelerators [default: 2^32, Phaze's]
    #[arg(long, value_name = "BYTES", default_value_t = 4_294_967_296.0, value_parser = positive)]
    pub link_bytes_per_sec: f64,

    /// The models' parts in the common figure, in order [default: 1 each]
    #[arg(long, value_name = "X,…", value_delimiter = ',', value_parser = positive)]
    pub weights: Vec<f64>,

    /// Layers of a model whose graph of Phaze has one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub layers: u32,

    /// Phaze's own estimates of its graph, taken instead of mappings of our own (docs/arch.md)
    #[arg(long, value_name = "FILE.csv")]
    pub estimates: Option<PathBuf>,

    /// File for mappings that were found, read before and written after
    #[arg(long, value_name = "FILE")]
    pub cache: Option<PathBuf>,

    /// Only the best accelerator of each model and of all together, no front: faster
    #[arg(long)]
    pub best: bool,

    /// With `--best`: also the best of all models within each of N areas and N powers, evenly spaced
    #[arg(long, value_name = "N", requires = "best", conflicts_with = "arch", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub limits: Option<u32>,

    /// File for the best accelerator as a cluster that `--cluster` takes
    #[arg(long, value_name = "FILE.toml")]
    pub device: Option<PathBuf>,

    /// File for the result as a page: time against area, and what bounds each operator
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,

    /// Write the result as JSON
    #[arg(long)]
    pub json: bool,

    /// File for one line of JSON per accelerator, written as it goes on; a search that was cut off goes on
    /// behind its lines. With `--until`: file for what that step writes
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Only this part of the accelerators: 2/4 is every fourth from the second on, by area
    #[arg(long, value_name = "I/N", value_parser = Part::parse, requires = "output")]
    pub part: Option<Part>,

    /// Results of parts, to be joined instead of computed
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["output", "part"])]
    pub merge: Vec<PathBuf>,
}

/// Samples of a microbatch, to choose from, where nothing else is said.
const USUAL_SAMPLES: [u64; 4] = [1, 2, 4, 8];

/// A number above zero.
pub(crate) fn positive(text: &str) -> std::result::Result<f64, String> {
    let is_legal = |value: &f64| value.is_finite() && *value > 0.0;
    text.parse().ok().filter(is_legal).ok_or_else(|| "expected a number above 0".to_owned())
}

impl ArchArgs {
    /// # Errors
    /// For parts of what is not searched.
    pub(super) fn check(&self) -> Result<()> {
        let is_joined = self.part.is_some() || !self.merge.is_empty();
        match is_joined && self.until != Until::Solve {
            true => Err(Diagnostic::error("only a search has parts").help("leave out `--until`")),
            false => Ok(()),
        }
    }

    /// Whether the best are searched without the front.
    pub(super) fn is_best_alone(&self) -> bool {
        self.best && self.arch.is_empty() && self.until == Until::Solve
    }

    /// The file for lines of results.
    pub(super) fn results(&self) -> Option<&Path> {
        self.output.as_deref().filter(|_| self.until == Until::Solve)
    }

    /// What models are placed on.
    ///
    /// # Errors
    /// For microbatches larger than a step.
    pub(super) fn fleet(&self) -> Result<Fleet> {
        if let Some(large) = self.samples().iter().find(|samples| **samples > self.batch) {
            let message = format!("a microbatch of {large} samples is more than a step of {}", self.batch);
            return Err(
                Diagnostic::error(message).help("give smaller `--microbatches` or a larger `--batch`")
            );
        }
        Ok(Fleet {
            n_devices: self.devices as usize,
            link_bytes_per_sec: self.link_bytes_per_sec,
            batch: self.batch,
            copies: if self.optimizer == Optimizer::Adam { Copies::Adam } else { Copies::Sgd },
        })
    }

    /// The cost modes that are asked for.
    pub(super) fn modes(&self) -> &'static [Mode] {
        match self.mode {
            CostMode::Phaze => &[Mode::Phaze],
            CostMode::Native => &[Mode::Native],
            CostMode::Both => &[Mode::Phaze, Mode::Native],
        }
    }

    /// Sizes of the HBM in bytes, rising.
    pub(super) fn hbm_bytes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.hbm_gib.iter().map(|gib| (gib * f64::from(1 << 30)) as u64).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Whether to recompute, to choose from.
    pub(super) fn recompute(&self) -> Vec<bool> {
        match self.recompute {
            Recompute::Both => vec![false, true],
            Recompute::Always => vec![true],
            Recompute::Never => vec![false],
        }
    }

    /// Sizes of the microbatch, rising.
    pub(super) fn samples(&self) -> Vec<u64> {
        let mut samples = self.microbatches.clone();
        if samples.is_empty() {
            samples.extend(USUAL_SAMPLES);
        }
        samples.sort_unstable();
        samples.dedup();
        samples
    }
}
