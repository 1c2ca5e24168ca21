//! What training software adds to the seconds of kernels and takes off those of collectives, whoever prices
//! these: the host's issue time, and overlap with computation.

use super::job::Job;
use super::layer::{head, layer};
use super::price::Pricer;
use super::step::secs_after_overlap;
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
    /// the network's rate, and the seconds of the last microbatch's backward part, or the first one's forward
    /// part, that may overlap with them.
    pub fn exposed_secs(&self, cluster: &Cluster, collective_secs: f64, overlapping_secs: f64) -> f64 {
        let collective_secs = collective_secs / Pricer { job: self, cluster }.data_efficiency();
        if self.stack.overlaps_data {
            secs_after_overlap(collective_secs, overlapping_secs)
        } else {
            collective_secs
        }
    }
}
