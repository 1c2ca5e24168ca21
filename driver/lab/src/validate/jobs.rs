//! The measured runs of a table as jobs, for whoever predicts them in another way.

use super::job::Reading;
use super::{Run, measured, readings};
use phzc_cost::Cluster;
use phzc_cost::training::{Job, Stack};
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
    /// Bytes on the fullest device, where they were measured.
    pub measured_bytes: Option<f64>,
    /// Bytes that the run has beside a program's: what allocator and device hold beside tensors, copies of
    /// gradients and of logits; less than nothing where its gradients are narrower than the program's.
    pub beside_bytes: f64,
    /// Seconds of one step by the list of operators.
    pub listed_secs: f64,
}

/// The rows of a table.
#[derive(Clone, Debug, Default)]
pub struct MeasuredJobs {
    /// Those whose time was measured and that can be predicted.
    pub jobs: Vec<MeasuredJob>,
    /// Those that are no job: their names, and why.
    pub others: Vec<(String, String)>,
}

/// The rows of a file of runs.
///
/// # Errors
/// When the file is no table of runs.
pub fn jobs(path: &Path, io: &mut Io) -> Result<MeasuredJobs, Failure> {
    let of = |run: Run| {
        let listed = run.job.predict(&run.cluster);
        let beside_bytes = run.reported_bytes(&listed.memory) - as_program(&run.job, &run.cluster);
        let Run { name, job, cluster, measured_secs, measured_bytes, .. } = run;
        let (measured_secs, listed_secs) = (measured_secs?, listed.step_secs);
        Some(MeasuredJob { name, job, cluster, measured_secs, measured_bytes, beside_bytes, listed_secs })
    };
    let mut found = MeasuredJobs::default();
    for (name, reading) in readings(path, io)? {
        match reading {
            Reading::Unexpressed(reason) => found.others.push((name, reason)),
            reading => found.jobs.extend(measured(reading).and_then(of)),
        }
    }
    Ok(found)
}

/// Bytes of a run's tensors, were its weights and gradients those of a program, in 16 bits and added up in
/// 32, and its logits there once with their gradients, in 16 bits.
fn as_program(job: &Job, cluster: &Cluster) -> f64 {
    let has_masters = job.stack.dtype != "f32" && !job.model.is_frozen();
    let stack = Stack {
        weight_bytes: if has_masters { 6.0 } else { job.stack.weight_bytes },
        logit_bytes: job.stack.logit_bytes.min(4.0),
        ..job.stack.clone()
    };
    Job { stack, ..job.clone() }.predict(cluster).memory.sum_bytes()
}
