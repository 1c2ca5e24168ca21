//! Layouts of stages beside others that have layouts of their own, on other meshes.

use super::super::Problem;
use super::super::candidate::Bound;
use super::{Sketch, Stages};

impl Problem<'_> {
    /// Layouts for a stage on so many devices, beside stages on others: no promise of their own.
    pub fn laid_out(&self, n_devices: usize) -> Option<Sketch<'_>> {
        self.laid_out_for(n_devices, self.fewest_and_most().0, false)
    }

    /// The same for so many microbatches, which can be split as the batch is; with weights kept in parts if
    /// they are to be `lean`.
    pub fn laid_out_for(&self, n_devices: usize, n_microbatches: usize, is_lean: bool) -> Option<Sketch<'_>> {
        let n_stages = self.cluster.n_devices().div_ceil(n_devices);
        let stages = Stages::on(self, n_devices, n_stages, f64::INFINITY);
        let stages = Stages { is_lean, is_beside: true, ..stages };
        let solved = stages.solve(n_microbatches, &stages.floors(n_microbatches), None)?;
        let bound = Bound { lower_bound_secs: 0.0, stop: String::new() };
        Some(Sketch {
            stages,
            solved,
            n_microbatches,
            limit_bytes: None,
            bound,
            n_chunks: 1,
            n_cut_for: n_microbatches,
            allowed: None,
            gains: None,
            secs: f64::INFINITY,
        })
    }
}

impl Sketch<'_> {
    /// The same layouts, or others that may stand beside stages on other meshes where these may not.
    pub fn beside(self) -> Option<Self> {
        if self.stages.is_beside || !self.stages.problem.subject.may_differ_beside() {
            return Some(self);
        }
        let stages = Stages { is_beside: true, to_beat: f64::INFINITY, ..self.stages.clone() };
        let floors = stages.floors(self.n_microbatches);
        let solved = stages.solve(self.n_microbatches, &floors, self.limit_bytes)?;
        Some(Sketch { stages, solved, gains: None, ..self })
    }
}
