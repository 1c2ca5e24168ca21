//! What training software adds to the seconds of kernels and takes off those of collectives, whoever prices
//! these: the host's issue time, and overlap with computation.

use super::job::Job;
use super::layer::{Operator, Work, head, layer};
use super::price::Pricer;
use super::step::secs_after_overlap;
use crate::Cluster;

/// Seconds of the collectives of one layer for one microbatch, over the devices that share its products,
/// sequences and experts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerCollectives {
    /// All of them, forward and backward, one after the other.
    pub all_secs: f64,
    /// What of these the software hides or saves, forward and backward.
    pub hidden_secs: [f64; 2],
}

impl Job {
    /// What the software makes of the collectives inside of a layer: those that run in pieces beside
    /// products, beside gradients of weights, beside attention; tokens that go once to each node.
    pub fn layer_collectives(&self, cluster: &Cluster) -> LayerCollectives {
        Pricer { job: &self.measured_on(cluster), cluster }.collectives(&layer(self))
    }

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

impl Pricer<'_> {
    fn collectives(&self, operators: &[Operator]) -> LayerCollectives {
        let mut made = LayerCollectives::default();
        for operator in operators {
            let Work::Collect(group, works) = operator.work else { continue };
            let repeats = [[1.0, self.repeats(operator, self.job.recompute)], [0.0, 1.0]];
            for (work, times) in works.into_iter().zip(repeats) {
                let Some((kind, bytes)) = work else { continue };
                let secs = self.cluster.collective_over_secs(kind, bytes, &[self.group(group)]);
                let hidden_secs = secs - self.exposed_secs(group, kind, bytes);
                made.all_secs += secs * times.iter().sum::<f64>();
                made.hidden_secs.iter_mut().zip(times).for_each(|(sum, n)| *sum += n * hidden_secs);
            }
        }
        made.hidden_secs[1] += self.beside_gradients_secs(operators);
        made
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

    #[test]
    fn collectives_in_pieces_hide_beside_products_and_no_more_than_all() {
        let collectives = |overlaps_tensor: bool| {
            let job = Job {
                model: Model::gpt(2, 4096.0, 32.0, 2048.0, 1024.0),
                layout: Layout { tensor: 4, has_sequence: true, ..Layout::single() },
                recompute: Recompute::Layers(1.0),
                stack: Stack { overlaps_tensor, ..Stack::plain("bf16") },
            };
            job.layer_collectives(&Cluster::named("a100-8").expect("a known cluster"))
        };
        let (open, hidden) = (collectives(false), collectives(true));
        assert_eq!(open.hidden_secs, [0.0; 2]);
        assert!(hidden.all_secs == open.all_secs && hidden.hidden_secs[0] > 0.0);
        assert!(hidden.hidden_secs.iter().sum::<f64>() < hidden.all_secs);
        assert!(hidden.hidden_secs[1] > hidden.hidden_secs[0], "backward runs the forward part again");
    }
}
