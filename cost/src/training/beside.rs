//! What training software adds to the seconds of kernels and collectives, whoever prices these: waiting for
//! the host, and what runs beside computation.

use super::job::Job;
use super::layer::{head, layer};
use super::price::Pricer;
use super::step::exposed_secs;
use crate::Cluster;

impl Job {
    /// Seconds that the host takes to issue one layer and the head for one microbatch: forward and backward
    /// each, recomputation in the latter.
    pub fn issue_secs(&self, cluster: &Cluster) -> [[f64; 2]; 2] {
        let pricer = Pricer { job: self, cluster };
        [
            pricer.issue_secs(&layer(self), self.recompute),
            pricer.issue_secs(&head(self), super::Recompute::Nothing),
        ]
    }

    /// Seconds of sums of gradients, or of handing out parameters, that nothing hides: `collective_secs` at
    /// the network's rate, beside so many seconds of the last microbatch's backward part, or the first one's
    /// forward part.
    pub fn exposed_secs(&self, cluster: &Cluster, collective_secs: f64, beside_secs: f64) -> f64 {
        let collective_secs = collective_secs / Pricer { job: self, cluster }.data_efficiency();
        if self.stack.overlaps_data { exposed_secs(collective_secs, beside_secs) } else { collective_secs }
    }
}
