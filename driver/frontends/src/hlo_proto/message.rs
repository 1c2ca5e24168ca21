//! The messages of `xla/service/hlo.proto` and `xla/xla_data.proto`: the fields that HLO's text shows.
//!
//! Numbers and types: the descriptors in jaxlib 0.10.2. Fields that are not named here are skipped.

mod data;
mod devices;
mod hlo;

pub(super) use data::*;
pub(super) use devices::*;
pub(super) use hlo::*;
