//! What training software on one cluster does otherwise than the model of it says: factors that are measured.

use crate::read::positive;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Factors on what a training program's model says (`training::Stack`), fitted to runs on this cluster by
/// `phzc calibrate`, and its kernels. Plans of programs read how often elementwise chains pass through memory
/// and which kernels there are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SoftwareFactors {
    /// On how often elementwise chains pass through memory.
    #[serde(deserialize_with = "positive")]
    pub memory_passes: f64,
    /// On the seconds in which the host issues one operator.
    #[serde(deserialize_with = "positive")]
    pub issue: f64,
    /// The part of what collectives and computation are said to hide of each other that is not hidden: 0 to
    /// 1.
    #[serde(deserialize_with = "part")]
    pub exposed: f64,
    /// Whether fused attention is a kernel for all generations of cores, slower than the device's own where
    /// its file has a rate for it.
    pub portable_attention: bool,
    /// Whether products whose rows are not aligned to 16 bytes run in slow kernels; XLA pads them.
    pub unpadded_products: bool,
    /// Whether products of several matrices are issued one after the other, as those of experts are where no
    /// kernel has them all.
    pub separate_products: bool,
}

impl Default for SoftwareFactors {
    fn default() -> SoftwareFactors {
        SoftwareFactors {
            memory_passes: 1.0,
            issue: 1.0,
            exposed: 0.0,
            portable_attention: false,
            unpadded_products: false,
            separate_products: false,
        }
    }
}

/// A number from zero to one.
fn part<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    let is_part = (0.0..=1.0).contains(&value);
    is_part
        .then_some(value)
        .ok_or_else(|| D::Error::custom(format!("expected a part from 0 to 1, found `{value}`")))
}
