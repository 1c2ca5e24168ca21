//! Placing a model on accelerators: Phaze's exact placement over the times of layers.

use phzc_arch::mapping::vector::Passes;
use phzc_arch::model::{Microbatch, ModelGraph};
use phzc_arch::search::Run;
use phzc_cost::phaze::{Chain, Copies, Edge, Instance, Layer, Plan};
use phzc_solver::chain::phaze::best;

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

/// Samples per second of the best plan of a run.
pub(super) fn samples_per_sec(
    fleet: &Fleet,
    models: &[ModelGraph],
    run: &Run,
    times: &[Passes],
) -> Option<f64> {
    let (_, secs) = plan(fleet, models, run, times)?;
    Some(fleet.batch as f64 / secs)
}

/// The best plan of a run, and its seconds per step; `None` where none fits.
pub(super) fn plan(fleet: &Fleet, models: &[ModelGraph], run: &Run, times: &[Passes]) -> Option<(Plan, f64)> {
    let microbatch = &models[run.model].microbatches[run.microbatch];
    let n_microbatches = (fleet.batch / microbatch.samples) as usize;
    (n_microbatches > 0).then(|| best(&instance(fleet, microbatch, run, times))).flatten()
}

/// The placement problem of a run.
pub(super) fn instance(fleet: &Fleet, microbatch: &Microbatch, run: &Run, times: &[Passes]) -> Instance {
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

fn chain(microbatch: &Microbatch, times: &[Passes]) -> Chain {
    let layer = |(at, kind): (usize, &usize)| Layer {
        id: at as i64,
        parameter_bytes: microbatch.kinds[*kind].parameter_bytes,
        activation_bytes: microbatch.kinds[*kind].activation_bytes,
        forward_secs: times[*kind].forward,
        backward_secs: times[*kind].backward,
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
