//! The measured runs of a table as jobs, for whoever predicts them in another way.

use super::{Run, runs_of};
use phzc_cost::Cluster;
use phzc_cost::training::Job;
use phzc_io::{Failure, Io};
use std::path::Path;

/// A measured run, with what the list of operators says of it.
#[derive(Clone, Debug)]
pub struct MeasuredJob {
    /// Its `row_id`.
    pub name: String,
    /// What, how.
    pub job: Job,
    /// On what.
    pub cluster: Cluster,
    /// Seconds of one step that were measured.
    pub measured_secs: f64,
    /// Bytes on the fullest device, where they were measured as tensors.
    pub measured_bytes: Option<f64>,
    /// Seconds of one step by the list of operators.
    pub listed_secs: f64,
}

/// The runs of a file whose time was measured and that can be predicted.
///
/// # Errors
/// When the file is no table of runs.
pub fn jobs(path: &Path, io: &mut Io) -> Result<Vec<MeasuredJob>, Failure> {
    let of = |run: Run| {
        let listed_secs = run.job.predict(&run.cluster).step_secs;
        let measured_bytes = run.measured_bytes.filter(|_| run.reports == super::software::Reports::Tensors);
        let Run { name, job, cluster, measured_secs, .. } = run;
        Some(MeasuredJob { name, job, cluster, measured_secs: measured_secs?, measured_bytes, listed_secs })
    };
    Ok(runs_of(path, io)?.into_iter().filter_map(of).collect())
}
