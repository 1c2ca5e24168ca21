//! One kind of device: compute peaks, memory, overheads and the node it usually sits in.
//!
//! Every number carries a source: `source` for the file, `[sources]` for single keys that come from
//! elsewhere.

pub(crate) mod base;

use crate::mapped::Mapped;
use crate::network::Level;
use crate::read::{citation, count, fraction, parse, positive, some_count, some_fraction, some_positive};
use phzc_ir::Result;
use serde::{Deserialize, Deserializer, de::Error};
use std::collections::BTreeMap;

/// One kind of device.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// The name, equal to the file's: `a100-80`.
    pub name: String,
    /// Other names: `a100`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The built-in device whose numbers it has where it says none of its own.
    #[serde(default)]
    pub base: Option<String>,
    /// The part, as its maker calls it.
    pub description: String,
    /// Dense peaks of the matrix units (the scalar units where there are none), per dtype.
    pub peak_flops_per_sec: Peaks,
    /// Peak of the scalar and vector units on `f32`; the peak of `f32` where absent.
    #[serde(default, deserialize_with = "some_positive")]
    pub vector_flops_per_sec: Option<f64>,
    /// Fraction of the peak that large matrix products reach.
    #[serde(deserialize_with = "fraction")]
    pub matmul_efficiency: f64,
    /// Cores that each work on one tile of a matrix product at a time; none known: the device is one core.
    #[serde(default, deserialize_with = "some_count")]
    pub n_cores: Option<usize>,
    /// Fraction of the peak that cores reach inside tiles of a product; `matmul_efficiency` where absent.
    #[serde(default, deserialize_with = "some_fraction")]
    pub tile_efficiency: Option<f64>,
    /// The same for 8-bit products.
    #[serde(default, deserialize_with = "some_fraction")]
    pub f8_efficiency: Option<f64>,
    /// Fraction of the peak that fused attention reaches on long sequences.
    #[serde(default, deserialize_with = "some_fraction")]
    pub attention_efficiency: Option<f64>,
    /// The same with a kernel that was not written for this generation of cores.
    #[serde(default, deserialize_with = "some_fraction")]
    pub portable_attention_efficiency: Option<f64>,
    /// Fraction of the vector units' peak, which is of fused multiply-adds, that kernels of models reach.
    #[serde(default = "usual_vector_efficiency", deserialize_with = "fraction")]
    pub vector_efficiency: f64,
    /// Fraction of the clock of a short benchmark that power and heat leave in a training run.
    #[serde(default = "usual_sustained", deserialize_with = "fraction")]
    pub sustained: f64,
    /// The same of training in 8-bit products, where it was measured; programs are planned with `sustained`.
    #[serde(default, deserialize_with = "some_positive")]
    pub f8_sustained: Option<f64>,
    /// The same in 4-bit products.
    #[serde(default, deserialize_with = "some_positive")]
    pub f4_sustained: Option<f64>,
    /// The year in which it came out.
    #[serde(default, deserialize_with = "some_count")]
    pub released: Option<usize>,
    /// Time to start and end one wave of tiles of a matrix product, in seconds.
    #[serde(default = "usual_tile_secs", deserialize_with = "positive")]
    pub tile_secs: f64,
    /// Time to start and end one block of queries of a fused attention, in seconds.
    #[serde(default = "usual_attention_tile_secs", deserialize_with = "positive")]
    pub attention_tile_secs: f64,
    /// Bandwidth of the second-level cache into all cores, in bytes per second, where it bounds products.
    #[serde(default, deserialize_with = "some_positive")]
    pub l2_bytes_per_sec: Option<f64>,
    /// Device memory in bytes.
    #[serde(deserialize_with = "positive")]
    pub hbm_bytes: f64,
    /// Fraction of the memory that a program can use: the rest is context, buffers and fragmentation.
    #[serde(deserialize_with = "fraction")]
    pub usable: f64,
    /// Memory that a process takes outside its allocator: context, kernels, buffers of communicators,
    /// workspaces, in bytes.
    #[serde(default = "usual_outside_bytes", deserialize_with = "positive")]
    pub outside_bytes: f64,
    /// Peak memory bandwidth in bytes per second.
    #[serde(deserialize_with = "positive")]
    pub hbm_bytes_per_sec: f64,
    /// Fraction of the memory bandwidth that streaming kernels reach.
    #[serde(deserialize_with = "fraction")]
    pub hbm_efficiency: f64,
    /// Overhead of one kernel in seconds.
    #[serde(deserialize_with = "positive")]
    pub launch_secs: f64,
    /// Overhead of one collective in seconds, before its first hop.
    #[serde(deserialize_with = "positive")]
    pub collective_launch_secs: f64,
    /// Phaze's template of it, by which its products are mapped instead of priced by tiles.
    #[serde(default)]
    pub template: Option<Mapped>,
    /// Where the numbers come from, unless `sources` says otherwise.
    #[serde(deserialize_with = "citation")]
    pub source: String,
    /// Where single keys come from.
    #[serde(default, deserialize_with = "keyed_citations")]
    pub sources: BTreeMap<String, String>,
    /// The node it usually sits in; a cluster file may give its own network instead.
    #[serde(default)]
    pub node: Option<Node>,
}

/// Dense peaks in operations per second, per dtype; a dtype without a peak runs at that of a wider one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "each field is the dtype of its name")]
pub struct Peaks {
    #[serde(default, deserialize_with = "some_positive")]
    pub f64: Option<f64>,
    #[serde(deserialize_with = "positive")]
    pub f32: f64,
    #[serde(default, deserialize_with = "some_positive")]
    pub tf32: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    pub bf16: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    pub f16: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    pub f8: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    pub f4: Option<f64>,
    #[serde(default, deserialize_with = "some_positive")]
    pub s8: Option<f64>,
}

/// The node that an accelerator usually sits in.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The most devices that are built into one node (one NVLink or ICI domain).
    #[serde(deserialize_with = "count")]
    pub max_devices: usize,
    /// The network from the inside out: within the node, then between nodes.
    pub levels: Vec<Level>,
}

/// How much slower `f64` is than `f32` where no peak is given: NVIDIA's parts without `f64` units have 1 per
/// 32 to 64.
const F32_PER_F64: f64 = 32.0;

/// Part of the clock that a training run keeps where no measurement is known: between A100's and H100's.
fn usual_sustained() -> f64 {
    Accelerator::USUAL_SUSTAINED
}

/// Vector units where no measurement is known: what plain loops reach on H100, and row-wise kernels about
/// where units are half as wide for as many instructions.
fn usual_vector_efficiency() -> f64 {
    1.0 / 6.0
}

/// Context and communicators where no measurement is known: half a GB for a context with its kernels, as much
/// for buffers.
fn usual_outside_bytes() -> f64 {
    1e9
}

/// Start and end of a wave of tiles where no measurement is known: between H100's and A100's.
fn usual_tile_secs() -> f64 {
    1e-6
}

/// Start and end of a block of queries where no measurement is known: about that of A100, H100 and B200.
fn usual_attention_tile_secs() -> f64 {
    1e-5
}

/// The keys that `[sources]` may cite.
const CITED: [&str; 22] = [
    "peak_flops_per_sec",
    "vector_flops_per_sec",
    "matmul_efficiency",
    "n_cores",
    "tile_efficiency",
    "f8_efficiency",
    "attention_efficiency",
    "portable_attention_efficiency",
    "vector_efficiency",
    "sustained",
    "f8_sustained",
    "f4_sustained",
    "tile_secs",
    "attention_tile_secs",
    "l2_bytes_per_sec",
    "hbm_bytes",
    "usable",
    "outside_bytes",
    "hbm_bytes_per_sec",
    "hbm_efficiency",
    "launch_secs",
    "collective_launch_secs",
];

impl Accelerator {
    /// Part of the clock that a training run keeps on a device whose file says nothing of it.
    pub const USUAL_SUSTAINED: f64 = 0.84;

    /// Reads one TOML file.
    pub fn from_toml(text: &str) -> Result<Accelerator> {
        parse(text)
    }

    /// The accelerator of that name or alias.
    pub fn named(name: &str) -> Result<&'static Accelerator> {
        crate::library::accelerator(name)
    }

    /// Memory that a program can use, in bytes.
    pub fn usable_bytes(&self) -> f64 {
        self.hbm_bytes * self.usable
    }

    /// Whether training runs on it were measured and its sustained clock was fitted to them.
    pub fn is_fitted(&self) -> bool {
        self.sources.get("sustained").is_some_and(|source| source.starts_with("fitted"))
    }

    /// Part of the clock of a short benchmark that is left in training with products of that type.
    pub fn clock_of(&self, dtype_key: &str) -> f64 {
        let narrow = match dtype_key {
            key if key.starts_with("f8") => self.f8_sustained,
            key if key.starts_with("f4") => self.f4_sustained,
            _ => None,
        };
        narrow.unwrap_or(self.sustained)
    }

    /// Where the number under `key` comes from.
    pub fn source_of(&self, key: &str) -> &str {
        self.sources.get(key).unwrap_or(&self.source)
    }
}

impl Peaks {
    /// The peak for an HLO dtype (`bf16`, `f8e4m3fn`, `s32`, also `tf32`), falling back to the next wider
    /// dtype.
    pub fn of(&self, dtype_key: &str) -> f64 {
        let half = || self.bf16.or(self.f16);
        let double = self.f64.unwrap_or(self.f32 / F32_PER_F64);
        let found = match dtype_key {
            "f64" | "c128" => Some(double),
            "tf32" => self.tf32,
            "bf16" => self.bf16,
            "f16" => self.f16,
            key if key.starts_with("f8") => self.f8.or_else(half),
            key if key.starts_with("f4") => self.f4.or(self.f8).or_else(half),
            "s8" | "u8" | "s4" | "u4" | "s2" | "u2" => self.s8.or_else(half),
            _ => None,
        };
        found.unwrap_or(self.f32)
    }

    /// Whether the device has units for narrow floats of a dtype; all other numbers count as there.
    pub fn is_native(&self, dtype_key: &str) -> bool {
        match dtype_key {
            "bf16" => self.bf16.is_some(),
            "f16" => self.f16.is_some(),
            key if key.starts_with("f8") => self.f8.is_some(),
            key if key.starts_with("f4") => self.f4.is_some(),
            _ => true,
        }
    }
}

fn keyed_citations<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<BTreeMap<String, String>, D::Error> {
    let sources = BTreeMap::<String, String>::deserialize(from)?;
    match sources.keys().find(|key| !CITED.contains(&key.as_str())) {
        Some(key) => Err(D::Error::custom(format!(
            "unknown key `{key}` to cite, expected one of {}",
            CITED.join(", ")
        ))),
        None => Ok(sources),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy;

    #[test]
    fn a_program_has_the_usable_part_of_the_memory() {
        assert_eq!(toy::device().usable_bytes(), 750.0);
    }

    #[test]
    fn what_a_file_does_not_say_is_as_usual() {
        let text = r#"
            name = "plain"
            description = "a device"
            peak_flops_per_sec = { f32 = 1.0 }
            matmul_efficiency = 1.0
            hbm_bytes = 1.0
            usable = 1.0
            hbm_bytes_per_sec = 1.0
            hbm_efficiency = 1.0
            launch_secs = 1.0
            collective_launch_secs = 1.0
            source = "made up"
        "#;
        let device = Accelerator::from_toml(text).expect("a device");
        assert_eq!([device.sustained, device.outside_bytes], [0.84, 1e9]);
        assert_eq!([device.tile_secs, device.attention_tile_secs], [1e-6, 1e-5]);
        let wrong =
            Accelerator::from_toml(&format!("{text}\n[sources]\nhbm_byte = \"made up\"")).unwrap_err();
        assert!(
            wrong.message.starts_with("unknown key `hbm_byte` to cite, expected one of peak_flops"),
            "{wrong}"
        );
        let cited = Accelerator::from_toml(&format!("{text}\n[sources]\nhbm_bytes = \"a datasheet\""))
            .expect("cited");
        assert_eq!(["hbm_bytes", "usable"].map(|key| cited.source_of(key)), ["a datasheet", "made up"]);
    }

    #[test]
    fn a_clock_that_was_fitted_says_so() {
        let mut device = toy::device();
        assert!(!device.is_fitted());
        device.sources.insert("sustained".to_owned(), "a guess".to_owned());
        assert!(!device.is_fitted());
        device.sources.insert("sustained".to_owned(), "fitted to 9 runs".to_owned());
        assert!(device.is_fitted());
    }

    #[test]
    fn training_in_narrow_products_has_a_clock_of_its_own_where_it_was_measured() {
        let mut device = toy::device();
        let clocks = |device: &Accelerator| ["bf16", "f8e4m3fn", "f4e2m1fn"].map(|it| device.clock_of(it));
        assert_eq!(clocks(&device), [0.5; 3]);
        (device.f8_sustained, device.f4_sustained) = (Some(0.75), Some(0.625));
        assert_eq!(clocks(&device), [0.5, 0.75, 0.625]);
    }

    #[test]
    fn a_type_without_a_peak_runs_at_that_of_a_wider_one() {
        let mut peaks = toy::device().peak_flops_per_sec;
        let of = |peaks: &Peaks, keys: [&str; 4]| keys.map(|key| peaks.of(key));
        assert_eq!(of(&peaks, ["f64", "c128", "tf32", "f32"]), [4.0 / 32.0, 4.0 / 32.0, 8.0, 4.0]);
        assert_eq!(of(&peaks, ["bf16", "f16", "s32", "pred"]), [16.0, 4.0, 4.0, 4.0]);
        assert_eq!(of(&peaks, ["f8e5m2", "f4e2m1fn", "s8", "u4"]), [16.0; 4]);
        (peaks.bf16, peaks.f16, peaks.f64) = (None, Some(12.0), Some(2.0));
        assert_eq!(of(&peaks, ["f8e5m2", "f16", "s8", "f64"]), [12.0, 12.0, 12.0, 2.0]);
        (peaks.f8, peaks.s8) = (Some(32.0), Some(48.0));
        assert_eq!(of(&peaks, ["f8e5m2", "f4e2m1fn", "u2", "s2"]), [32.0, 32.0, 48.0, 48.0]);
        peaks.f4 = Some(64.0);
        assert_eq!(of(&peaks, ["f4e2m1fn", "s4", "u8", "f8e4m3fn"]), [64.0, 48.0, 48.0, 32.0]);
    }
}
