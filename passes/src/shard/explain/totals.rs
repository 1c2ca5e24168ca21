//! What a whole choice takes, part by part.

use super::terms;
use crate::blocks::BlockId;
use crate::shard::model::Model;
use phzc_ir::Module;

/// A choice's figures.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shard) struct Totals {
    /// Bytes of the messages of one device in one step.
    pub moved_bytes: f64,
    /// Seconds of collectives, and of writing and reading what they move.
    pub collective_secs: f64,
    /// Seconds of kernels.
    pub kernel_secs: f64,
    /// Seconds of the forward, backward and update phase.
    pub secs_by_phase: [f64; 3],
}

/// The figures of a choice of one strategy per block.
pub(in crate::shard) fn totals(module: &Module, model: &mut Model, option: &[u32]) -> Totals {
    let mut found = Totals::default();
    for block in 0..option.len() as BlockId {
        for term in terms::of(module, model, block, option).iter().filter(|term| !term.is_written()) {
            let bytes: f64 = term.moves.iter().map(|it| it.bytes).sum();
            found.moved_bytes += term.times * bytes;
            *if term.is_kernels() { &mut found.kernel_secs } else { &mut found.collective_secs } += term.secs;
        }
        let secs = model.block_secs(block, option[block as usize] as usize);
        found.secs_by_phase.iter_mut().zip(secs).for_each(|(total, secs)| *total += secs);
    }
    for index in 0..model.uses.len() {
        let (secs, phase) = model.use_secs(index, option);
        found.secs_by_phase[phase as usize] += secs;
    }
    found
}
