//! Whether a program that stands for a longer one shows where that can be cut.

use super::chain::Layers;
use crate::derive::{Phase, derive};
use crate::shard::subject::Subject;
use phzc_cost::Cluster;
use phzc_ir::{InstrId, Module};

/// Whether the chain of the short program, if there is one, has several places to cut, and in the whole one nothing of the forward part
/// would then be read before the stage that makes it.
pub fn shows_cuts(subject: &Subject, whole: &Module, cluster: &Cluster) -> bool {
    let Some(short) = &subject.short else { return true };
    let Ok(facts) = derive(&short.module) else { return false };
    let phases: Vec<Phase> = facts.comps[short.module.entry.index()].iter().map(|own| own.phase).collect();
    let layers = Layers::new(&short.module, facts, cluster, Some(short));
    let layer_of = layers.whole_layers(short);
    let computes = |id: InstrId| {
        !whole.entry().instr(id).operands.is_empty()
            && phases[short.stands[id.index()][0].index()] == Phase::Forward
    };
    let is_in_order = |(id, operand): (InstrId, InstrId)| {
        !computes(operand) || layer_of[operand.index()] <= layer_of[id.index()]
    };
    let readers = whole.entry().iter().filter(|(id, _)| *id != whole.entry().root && computes(*id));
    let reads = readers.flat_map(|(id, instr)| instr.operands.iter().map(move |&operand| (id, operand)));
    layers.n_layers() > 1 && reads.into_iter().all(is_in_order)
}
