//! What a whole choice takes, part by part.

use super::terms;
use crate::shard::model::Model;
use crate::shard::pricer::NodePricer;
use crate::shard::reshard_attribution::Paid;
use phzc_analysis::blocks::BlockId;
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
    let (mut found, paid) = (Totals::default(), model.paid(option));
    for block in 0..option.len() as BlockId {
        for term in terms::of(module, model, block, option, &paid).iter().filter(|term| !term.is_written()) {
            let bytes: f64 = term.moves.iter().map(|it| it.bytes).sum();
            found.moved_bytes += term.times * bytes;
            *if term.is_kernels() { &mut found.kernel_secs } else { &mut found.collective_secs } += term.secs;
        }
    }
    add_phases(model, option, &paid, &mut found.secs_by_phase);
    found
}

fn add_phases(model: &Model, option: &[u32], paid: &Paid, secs_by_phase: &mut [f64; 3]) {
    for (block, members) in model.input.blocks.members.iter().enumerate() {
        let strategy = model.menus[block].strategies[option[block] as usize];
        for &node in members.iter().chain(&model.anchored[block]) {
            let results = &model.input.graph.nodes[node as usize].results;
            let home: f64 = results.iter().map(|&result| paid.home[result as usize]).sum();
            let phase = model.input.blocks.phases[node as usize];
            secs_by_phase[phase as usize] += NodePricer::new(model, node).secs(model, &strategy) + home;
        }
    }
    for (it, (secs, _)) in model.uses.iter().zip(&paid.uses) {
        secs_by_phase[model.phase(it) as usize] += secs;
    }
}
