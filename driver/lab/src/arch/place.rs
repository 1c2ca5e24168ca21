//! Placing a model on accelerators: Phaze's exact placement over the times of layers.

use super::bound::least_secs;
use phzc_arch::estimate::LayerSecs;
use phzc_arch::model::{Microbatch, ModelGraph};
use phzc_arch::search::{Place, Run};
use phzc_cost::phaze::{Chain, Copies, Edge, Instance, Layer, Plan};
use phzc_solver::chain::phaze::best;

/// Sums in another order may differ by less, relatively.
const ROUNDING: f64 = 1e-9;

/// What a model is placed on, but for the accelerator.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    /// Accelerators.
    pub n_devices: usize,
    /// Of every link.
    pub link_bytes_per_sec: f64,
    /// Samples of a step.
    pub batch: u64,
    /// What a device holds of the parameters.
    pub copies: Copies,
}

impl Fleet {
    /// Samples that a step trains on: whole microbatches, a fraction is left off.
    pub fn trained(&self, microbatch: &Microbatch) -> f64 {
        (self.batch / microbatch.samples * microbatch.samples) as f64
    }
}

/// Places models on a fleet; nothing fits where only estimates are asked for.
pub(super) struct Placer<'a> {
    /// What they are placed on.
    pub fleet: &'a Fleet,
    /// The models.
    pub models: &'a [ModelGraph],
    /// Whether to place at all.
    pub is_placed: bool,
}

impl Place for Placer<'_> {
    fn samples_per_sec(&self, run: &Run, times: &[LayerSecs]) -> Option<f64> {
        let placed = self.is_placed.then(|| plan(self.fleet, self.models, run, times)).flatten();
        placed
            .map(|(_, secs)| self.fleet.trained(&self.models[run.model].microbatches[run.microbatch]) / secs)
    }

    /// See [`least_secs`].
    fn most_samples_per_sec(&self, run: &Run, times: &[LayerSecs]) -> f64 {
        let microbatch = &self.models[run.model].microbatches[run.microbatch];
        self.fleet.trained(microbatch) * (1.0 + ROUNDING) / least_secs(self.fleet, microbatch, run, times)
    }
}

/// The best plan of a run, and its seconds per step; `None` where none fits.
pub(super) fn plan(
    fleet: &Fleet,
    models: &[ModelGraph],
    run: &Run,
    times: &[LayerSecs],
) -> Option<(Plan, f64)> {
    let microbatch = &models[run.model].microbatches[run.microbatch];
    let n_microbatches = (fleet.batch / microbatch.samples) as usize;
    (n_microbatches > 0).then(|| best(&instance(fleet, microbatch, run, times))).flatten()
}

/// The placement problem of a run.
pub(super) fn instance(fleet: &Fleet, microbatch: &Microbatch, run: &Run, times: &[LayerSecs]) -> Instance {
    Instance {
        memory_bytes: run.hbm_bytes as f64,
        n_devices: fleet.n_devices,
        bytes_per_sec: fleet.link_bytes_per_sec,
        n_microbatches: (fleet.batch / microbatch.samples) as usize,
        recompute: run.recompute,
        parameter_copies: fleet.copies,
        chains: vec![chain(microbatch, times)],
        expert: None,
    }
}

fn chain(microbatch: &Microbatch, times: &[LayerSecs]) -> Chain {
    let layer = |(at, kind): (usize, &usize)| Layer {
        id: at as i64,
        parameter_bytes: microbatch.kinds[*kind].parameter_bytes,
        activation_bytes: microbatch.kinds[*kind].activation_bytes,
        forward_secs: times[*kind].forward,
        backward_secs: times[*kind].backward,
        update_secs: times[*kind].update,
        is_tensor_parallel: false,
    };
    let n = microbatch.chain.len();
    let (mut inputs, mut outputs) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for edge in &microbatch.edges {
        inputs[edge.to].push(Edge { layer: edge.from, bytes: edge.bytes });
        outputs[edge.from].push(Edge { layer: edge.to, bytes: edge.bytes });
    }
    let layers = microbatch.chain.iter().enumerate().map(layer).collect();
    Chain { width: 1, layers, inputs, outputs }
}
