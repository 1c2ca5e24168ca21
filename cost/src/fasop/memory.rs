//! The memory of each stage, and that of the devices it lies on.

use super::{Placement, Role, Variant};

const GIB: f64 = (1u64 << 30) as f64;
/// How much more than the formula is asked for.
const MARGIN: f64 = 1.10;
/// Bytes per parameter: weights, gradients and the optimizer's state.
const STATE_BYTES: f64 = 18.0;

/// What a stage needs and its devices have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageMemory {
    /// Needed, in GiB.
    pub gib: f64,
    /// There, in GiB.
    pub there_gib: f64,
}

impl StageMemory {
    /// Whether it fits.
    pub fn fits(&self) -> bool {
        MARGIN * self.gib <= self.there_gib
    }
}

impl Placement<'_> {
    /// Per stage, what it needs and what there is.
    pub fn memory(&self, cut: &[usize]) -> Vec<StageMemory> {
        let mut first = 0;
        let stages = cut.iter().enumerate().map(|(stage, n)| {
            let roles = &self.model.roles[first..first + n];
            first += n;
            StageMemory { gib: self.stage_bytes(roles, stage) / GIB, there_gib: self.there_gib(stage) }
        });
        stages.collect()
    }

    fn stage_bytes(&self, roles: &[Role], stage: usize) -> f64 {
        let bytes = self.role_bytes(stage);
        roles.iter().map(|role| bytes[*role as usize]).sum()
    }

    /// Bytes of an embedding, a layer and a head in a stage.
    pub fn role_bytes(&self, stage: usize) -> [f64; 3] {
        let model = self.model;
        let (h, s, v, a) = (model.hidden, model.seq, model.vocab, model.heads);
        let (tensor, b) = (self.degrees.tensor as f64, self.degrees.micro_batch as f64);
        let stages = self.degrees.stages;
        let n_held = match self.variant {
            Variant::Faithful => stages.min(self.n_microbatches()),
            Variant::Strict => (stages - stage).min(self.n_microbatches()),
        };
        let q = n_held as f64;
        let table = STATE_BYTES * h * v / tensor;
        let kept = s * b * q * h * (10.0 + 24.0 / tensor + 5.0 * a * s / (h * tensor));
        [
            table + s * b * h * stages as f64 * q / tensor,
            STATE_BYTES * 12.0 * h * h / tensor + kept,
            table + (4.0 * s * b * h + 4.0 * s * b * v) / tensor,
        ]
    }

    /// Bytes that a stage may take by the formula.
    pub fn limit_bytes(&self, stage: usize) -> f64 {
        self.there_gib(stage) * GIB / MARGIN
    }

    /// GiB of the devices that a stage is checked against: FASOP looks at one node; strictly, the least of
    /// all that it touches.
    fn there_gib(&self, stage: usize) -> f64 {
        let (n_nodes, stages) = (self.order.len(), self.degrees.stages);
        let gib = |node: usize| self.fleet.kinds[self.order[node]].memory_gib;
        if self.variant == Variant::Strict {
            let per_stage = self.degrees.tensor * self.degrees.data;
            let (first, last) = (stage * per_stage, (stage + 1) * per_stage - 1);
            let touched = first / self.fleet.per_node..=last / self.fleet.per_node;
            return touched.map(gib).fold(f64::INFINITY, f64::min);
        }
        if stages >= n_nodes {
            return gib((stage / (stages / n_nodes)).min(n_nodes - 1));
        }
        // Counted from the end where it is negative.
        let node = (stage as i64 + 1) * (n_nodes / stages) as i64 - 2;
        gib(node.rem_euclid(n_nodes as i64) as usize)
    }
}
