//! The full form of a strategy's line: `, <compute>, <comm>, <mem>, {[c, c, ], [c, ], }` after its name.

use crate::shard::model::Model;
use crate::shard::pricer::NodePricer;
use crate::shard::strategies::{Strategy, layout};
use crate::units::general;
use phzc_analysis::graph::{NodeId, TensorId};
use phzc_ir::Layout;

/// Seconds of a contraction's kernel and of its collectives, bytes of its result on each device, and per
/// operand the seconds to bring it there from every strategy of the block that makes it.
pub(super) fn costs(model: &mut Model, id: NodeId, strategy: &Strategy) -> String {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let node = &graph.nodes[id as usize];
    let Some(block) = blocks.block_of[id as usize] else { return String::new() };
    let compute = NodePricer::new(model, id).secs(model, strategy);
    let inside = model.inside_secs(id, strategy);
    let local = |&tensor: &TensorId| {
        graph.tensors[tensor as usize].bytes / model.made(tensor, strategy).layout.n_tiles(&model.mesh) as f64
    };
    let memory: f64 = node.results.iter().map(local).sum();
    let mut out = format!(", {}, {}, {}, {{", general(compute), general(inside), general(memory));
    for (slot, &tensor) in node.operands.iter().enumerate() {
        let view = model.menus[block as usize].view(blocks.use_map(id, slot));
        let secs = sources(model, tensor, layout(strategy, &view));
        let secs: String = secs.iter().map(|secs| format!("{}, ", general(secs * node.trips))).collect();
        out += &format!("[{secs}], ");
    }
    out + "}"
}

/// Seconds to bring a tensor to a layout from each strategy of its maker's block.
fn sources(model: &mut Model, tensor: TensorId, target: Layout) -> Vec<f64> {
    let def = model.input.graph.tensors[tensor as usize].def;
    let Some(from) = model.input.blocks.block_of[def as usize] else { return vec![0.0] };
    let strategies = model.menus[from as usize].strategies.clone();
    let mut secs =
        |strategy: &Strategy| model.move_secs(tensor, model.settled(tensor, strategy), target.into());
    strategies.iter().map(&mut secs).collect()
}
