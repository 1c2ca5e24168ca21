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
        let pricer = Pricer { job: &self.measured_on(cluster), cluster };
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
        if !self.stack.overlaps_data {
            return collective_secs;
        }
        let hidden_secs = secs_after_overlap(collective_secs, overlapping_secs);
        hidden_secs + cluster.software.exposed * (collective_secs - hidden_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Layout, Model, Recompute, Stack};

    #[test]
    fn what_was_measured_of_the_software_scales_issuing_and_opens_overlaps() {
        let job = Job {
            model: Model::gpt(2, 256.0, 4.0, 128.0, 1024.0),
            layout: Layout::single(),
            recompute: Recompute::Nothing,
            stack: Stack { issue_secs: 1e-5, overlaps_data: true, ..Stack::plain("bf16") },
        };
        let plain = Cluster::named("a100-8").expect("a known cluster");
        let mut measured = plain.clone();
        (measured.software.issue, measured.software.exposed) = (2.0, 0.25);
        let [plain_secs, measured_secs] = [&plain, &measured].map(|it| job.issue_secs(it)[0][0]);
        assert!(plain_secs > 0.0 && (measured_secs / plain_secs - 2.0).abs() < 1e-12);
        let exposed = |cluster: &Cluster, beside: f64| job.exposed_secs(cluster, 1.0, beside);
        let (all, hidden) = (exposed(&plain, 0.0), exposed(&plain, 0.5));
        let quarter = hidden + 0.25 * (all - hidden);
        assert!(hidden < all && (exposed(&measured, 0.5) - quarter).abs() < 1e-12);
    }
}
