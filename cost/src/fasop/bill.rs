//! What a step is billed for beside its seconds: bytes between zones, waiting for nodes that are not there,
//! and energy.

use super::{Cost, Placement};

/// Bytes of an activation, a gradient, a parameter.
const BYTES: f64 = 2.0;
const JOULES_PER_KWH: f64 = 3.6e6;
const SECS_PER_HOUR: f64 = 3600.0;

impl Placement<'_> {
    /// Dollars of all nodes per second.
    pub fn usd_per_sec(&self) -> f64 {
        self.order.iter().map(|kind| self.fleet.kinds[*kind].usd_per_hour).sum::<f64>() / SECS_PER_HOUR
    }

    /// Adds to a cost of which the seconds are known: dollars, energy, and the seconds that are expected
    /// where nodes are not always there.
    ///
    /// A step runs while all nodes are there, each by itself in its `availability` of the time; those that
    /// are there are paid while the others are waited for.
    pub(super) fn billed(&self, cost: Cost, cut: &[usize]) -> Cost {
        let kinds = || self.order.iter().map(|kind| &self.fleet.kinds[*kind]);
        let expected_secs = cost.step_secs / kinds().map(|kind| kind.availability).product::<f64>();
        let rented = kinds().map(|kind| kind.usd_per_hour * kind.availability).sum::<f64>();
        let egress_usd = self.egress_usd(cut);
        let watts = self.fleet.per_node as f64 * kinds().map(|kind| kind.watts).sum::<f64>();
        let usd = match kinds().all(|kind| kind.availability == 1.0) {
            true => cost.step_secs * self.usd_per_sec(),
            false => expected_secs * rented / SECS_PER_HOUR,
        };
        Cost {
            expected_secs,
            usd: usd + egress_usd,
            egress_usd,
            kwh: watts * cost.step_secs / JOULES_PER_KWH,
            ..cost
        }
    }

    /// Dollars of the bytes of a step that go from one zone to another: activations and their gradients,
    /// sums of gradients around the copies, and that of the shared embedding.
    fn egress_usd(&self, cut: &[usize]) -> f64 {
        if self.fleet.zones.is_free() {
            return 0.0;
        }
        let degrees = self.degrees;
        let stages = 0..degrees.stages;
        let sent = stages.clone().skip(1).map(|stage| self.sent_usd(stage)).sum::<f64>();
        let summed = stages.map(|stage| self.summed_usd(cut, stage)).sum::<f64>();
        sent + summed + self.embedding_usd()
    }

    /// Zone of a rank's node.
    fn zone(&self, tensor: usize, data: usize, stage: usize) -> usize {
        self.fleet.kinds[self.order[self.node(tensor, data, stage)]].zone
    }

    /// Of what a stage takes from the one before it and hands back. Every copy moves its activations once,
    /// shared out among its tensor-parallel devices.
    fn sent_usd(&self, stage: usize) -> f64 {
        let degrees = self.degrees;
        let share = self.model.seq * self.model.hidden * BYTES / degrees.tensor as f64;
        let bytes = self.model.batch as f64 / degrees.data as f64 * share;
        let both = |[data, tensor]: [usize; 2]| {
            let (a, b) = (self.zone(tensor, data, stage - 1), self.zone(tensor, data, stage));
            self.fleet.zones.usd(a, b, bytes) + self.fleet.zones.usd(b, a, bytes)
        };
        self.ranks().map(both).sum()
    }

    /// Of a stage's ring of copies: each hands `2 (n - 1) / n` of the gradients to the next.
    fn summed_usd(&self, cut: &[usize], stage: usize) -> f64 {
        let n = self.degrees.data;
        let bytes = 2.0 * (n as f64 - 1.0) / n as f64 * self.sum_params(cut, stage) * BYTES;
        let next = |[data, tensor]: [usize; 2]| {
            let (a, b) = (self.zone(tensor, data, stage), self.zone(tensor, (data + 1) % n, stage));
            self.fleet.zones.usd(a, b, bytes)
        };
        self.ranks().map(next).sum()
    }

    fn embedding_usd(&self) -> f64 {
        let degrees = self.degrees;
        if degrees.stages == 1 || !self.model.shares_embedding {
            return 0.0;
        }
        let bytes = self.model.hidden * self.model.vocab * BYTES / degrees.tensor as f64;
        let both = |[data, tensor]: [usize; 2]| {
            let (a, b) = (self.zone(tensor, data, 0), self.zone(tensor, data, degrees.stages - 1));
            self.fleet.zones.usd(a, b, bytes) + self.fleet.zones.usd(b, a, bytes)
        };
        self.ranks().map(both).sum()
    }

    /// Copies and tensor-parallel ranks of a stage.
    fn ranks(&self) -> impl Iterator<Item = [usize; 2]> {
        let tensor = self.degrees.tensor;
        (0..self.degrees.data).flat_map(move |data| (0..tensor).map(move |tensor| [data, tensor]))
    }
}
