//! What hardware costs: accelerators, clusters, collectives and pipeline schedules, each number with its
//! source.
//!
//! This crate knows no pass, touches no file and reads no environment. A device is one file in `accels/`,
//! a machine one file in `clusters/`, and nothing else; `build.rs` embeds both folders.

pub mod accelerator;
pub mod aceso;
pub mod attention;
pub mod cluster;
pub mod collective;
pub mod fasop;
pub mod gemm;
mod library;
pub mod mapped;
pub mod measured;
pub mod network;
mod overlap;
pub mod phaze;
pub mod profile;
mod read;
pub mod roofline;
pub mod sailor;
pub mod schedule;
mod straggler;
#[cfg(test)]
mod toy;
pub mod training;

pub use accelerator::{Accelerator, Node, Peaks};
pub use attention::Attention;
pub use cluster::{Cluster, DEFAULT_CLUSTER, Offer, SoftwareFactors, chosen_nodes};
pub use collective::{AxisGroup, Collective};
pub use gemm::{Gemm, Role};
pub use library::{known_accelerators, known_clusters};
pub use mapped::Mapped;
pub use measured::{Measured, Source};
pub use network::{Level, Topology};
pub use schedule::{Event, Part, Pipeline, Schedule, Timeline};
pub use straggler::Straggler;
