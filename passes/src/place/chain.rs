//! The chain that a pipeline cuts: blocks in forward order, gathered into layers.

use super::cut::Chain;
use crate::blocks::{BlockId, is_shaped};
use crate::graph::{Graph, NodeKind, TensorId};
use crate::phase::Phase;
use crate::shard::Solved;
use crate::shard::model::{Input, Model};
use phzc_cost::Cluster;
use phzc_ir::Module;
use phzc_ir::dtype::Class;
use phzc_ir::ops::control::control_comps;

/// More layers than this are not cut between: neighbours are joined.
const MAX_LAYERS: usize = 48;

/// The chain with everything that its figures derive from.
pub struct Layers {
    /// Per block: its layer.
    layer_of: Vec<usize>,
    /// Per layer: seconds of forward and backward that scale with the batch, and those that do not.
    scaled_secs: Vec<f64>,
    launch_secs: Vec<f64>,
    update_secs: Vec<f64>,
    fixed_bytes: Vec<f64>,
    flight_bytes: Vec<f64>,
    /// Per layer: bytes that enter it from earlier layers, both ways.
    enter_bytes: Vec<f64>,
    send: Cluster,
}

impl Layers {
    /// The chain for a number of microbatches.
    pub fn chain(&self, n_microbatches: usize) -> Chain {
        let share = 1.0 / n_microbatches as f64;
        let secs =
            self.scaled_secs.iter().zip(&self.launch_secs).map(|(scaled, launch)| scaled * share + launch);
        Chain {
            secs: secs.collect(),
            update_secs: self.update_secs.clone(),
            fixed_bytes: self.fixed_bytes.clone(),
            flight_bytes: self.flight_bytes.iter().map(|bytes| bytes * share).collect(),
            send_secs: self
                .enter_bytes
                .iter()
                .map(|bytes| {
                    if *bytes > 0.0 {
                        self.send.send_secs(bytes * share, self.send.n_nodes() > 1)
                    } else {
                        0.0
                    }
                })
                .collect(),
        }
    }

    /// Per block: the stage that its layer is in.
    pub fn stages(&self, starts: &[usize]) -> Vec<usize> {
        self.layer_of
            .iter()
            .map(|layer| starts.iter().rposition(|start| start <= layer).unwrap_or(0))
            .collect()
    }
}

/// Gathers a choice's figures per layer.
pub fn layers(module: &Module, input: Input, solved: &Solved, cluster: &Cluster) -> Layers {
    let mut model = Model::new(input, &solved.mesh);
    let order = forward_order(input);
    let n_blocks = input.blocks.members.len();
    let launch = cluster.accelerator.launch_secs;
    let (mut step, mut update, mut launches) =
        (vec![0.0; n_blocks], vec![0.0; n_blocks], vec![0.0; n_blocks]);
    for block in 0..n_blocks as BlockId {
        let [forward, backward, once] =
            model.block_secs(block, solved.choice.option[block as usize] as usize);
        step[block as usize] = forward + backward;
        update[block as usize] = once;
        launches[block as usize] = launch * n_kernels(&model, block);
    }
    for index in 0..model.uses.len() {
        let (secs, phase) = model.use_secs(index, &solved.choice.option);
        let block = model.uses[index].block as usize;
        if phase == Phase::Update { update[block] += secs } else { step[block] += secs }
    }
    let layer_of = join(&order, &step, &loops(module, input));
    let n_layers = layer_of.iter().max().map_or(1, |last| last + 1);
    let sum = |values: &[f64]| {
        let mut sums = vec![0.0; n_layers];
        values.iter().zip(&layer_of).for_each(|(value, &layer)| sums[layer] += value);
        sums
    };
    let (fixed, flight) = bytes(&model, solved);
    let scaled: Vec<f64> =
        step.iter().zip(&launches).map(|(step, launch)| (step - launch).max(0.0)).collect();
    let launches: Vec<f64> = launches.iter().zip(&step).map(|(launch, step)| launch.min(*step)).collect();
    Layers {
        scaled_secs: sum(&scaled),
        launch_secs: sum(&launches),
        update_secs: sum(&update),
        fixed_bytes: sum(&fixed),
        flight_bytes: sum(&flight),
        enter_bytes: entering(&model, solved, &layer_of, n_layers),
        send: cluster.clone(),
        layer_of,
    }
}

/// Kernels of a block's forward and backward nodes, all executions.
fn n_kernels(model: &Model, block: BlockId) -> f64 {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let counts = |&&id: &&u32| {
        let node = &graph.nodes[id as usize];
        let writes = node.results.iter().any(|&result| model.input.is_stored[result as usize]);
        node.kind == NodeKind::Op && writes && blocks.phases[id as usize] != Phase::Update
    };
    blocks.members[block as usize].iter().filter(counts).map(|&id| graph.nodes[id as usize].trips).sum()
}

/// Blocks by their first forward node; weights go where they are first read.
fn forward_order(input: Input) -> Vec<BlockId> {
    let graph = input.graph;
    let first = |block: usize| {
        let members = &input.blocks.members[block];
        let own = members.iter().copied().filter(|&id| {
            graph.nodes[id as usize].kind != NodeKind::Source
                && input.blocks.phases[id as usize] == Phase::Forward
        });
        let readers = members
            .iter()
            .flat_map(|&id| &graph.nodes[id as usize].results)
            .flat_map(|&result| &graph.tensors[result as usize].uses);
        let readers = readers
            .map(|&(reader, _)| reader)
            .filter(|&reader| input.blocks.block_of[reader as usize] != Some(block as BlockId));
        own.min().or(readers.min()).unwrap_or(members[0])
    };
    let mut order: Vec<BlockId> = (0..input.blocks.members.len() as BlockId).collect();
    order.sort_by_key(|&block| (first(block as usize), block));
    order
}

/// Per loop of the entry: the blocks with nodes inside. A loop is never cut.
fn loops(module: &Module, input: Input) -> Vec<Vec<BlockId>> {
    let mut found = Vec::new();
    for instr in &module.entry().instrs {
        let mut inside = control_comps(instr);
        if inside.is_empty() {
            continue;
        }
        let mut at = 0;
        while let Some(&comp) = inside.get(at) {
            inside.extend(module.comp(comp).instrs.iter().flat_map(control_comps));
            at += 1;
        }
        let nodes = input
            .graph
            .nodes
            .iter()
            .zip(&input.blocks.block_of)
            .filter(|(node, _)| inside.contains(&node.comp));
        let mut blocks: Vec<BlockId> = nodes.filter_map(|(_, block)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        found.push(blocks);
    }
    found.retain(|blocks| !blocks.is_empty());
    found
}

/// Joins neighbouring blocks into at most [`MAX_LAYERS`] layers of about equal time.
fn join(order: &[BlockId], secs: &[f64], loops: &[Vec<BlockId>]) -> Vec<usize> {
    let total: f64 = secs.iter().sum();
    let mut rank_of = vec![0; order.len()];
    let mut done = 0.0;
    for &block in order {
        let middle = done + 0.5 * secs[block as usize];
        rank_of[block as usize] =
            if total > 0.0 { ((middle / total * MAX_LAYERS as f64) as usize).min(MAX_LAYERS - 1) } else { 0 };
        done += secs[block as usize];
    }
    for blocks in loops {
        let ranks = blocks.iter().map(|&block| rank_of[block as usize]);
        let (low, high) = (ranks.clone().min().unwrap_or(0), ranks.max().unwrap_or(0));
        rank_of.iter_mut().filter(|rank| (low..=high).contains(*rank)).for_each(|rank| *rank = low);
    }
    let mut distinct = rank_of.clone();
    distinct.sort_unstable();
    distinct.dedup();
    rank_of.iter().map(|rank| distinct.binary_search(rank).unwrap_or(0)).collect()
}

/// Per block: bytes that stay, and bytes per step that scale with the batch.
fn bytes(model: &Model, solved: &Solved) -> (Vec<f64>, Vec<f64>) {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let (mut fixed, mut flight) = (vec![0.0; blocks.members.len()], vec![0.0; blocks.members.len()]);
    for (id, tensor) in graph.tensors.iter().enumerate().filter(|(id, _)| model.input.is_live[*id]) {
        let Some(block) = blocks.block_of[tensor.def as usize] else { continue };
        let strategy = &model.menus[block as usize].strategies[solved.choice.option[block as usize] as usize];
        let local = tensor.bytes / model.settled(id as TensorId, strategy).layout.n_tiles(&model.mesh) as f64;
        let is_fixed = tensor.param.is_some() || blocks.phases[tensor.def as usize] == Phase::Update;
        if is_fixed { fixed[block as usize] += local } else { flight[block as usize] += local }
    }
    (fixed, flight)
}

/// Per layer: local bytes of tensors that cross the boundary before it.
fn entering(model: &Model, solved: &Solved, layer_of: &[usize], n_layers: usize) -> Vec<f64> {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let mut crossing = vec![0.0; n_layers + 1];
    for (id, tensor) in graph.tensors.iter().enumerate().filter(|(id, _)| is_shaped(graph, *id as TensorId)) {
        let Some(block) = blocks.block_of[tensor.def as usize] else { continue };
        let layers = tensor
            .uses
            .iter()
            .filter_map(|&(reader, _)| blocks.block_of[reader as usize])
            .map(|reader| layer_of[reader as usize]);
        let own = layer_of[block as usize];
        let (low, high) = layers.fold((own, own), |(low, high), layer| (low.min(layer), high.max(layer)));
        let strategy = &model.menus[block as usize].strategies[solved.choice.option[block as usize] as usize];
        let local = tensor.bytes / model.settled(id as TensorId, strategy).layout.n_tiles(&model.mesh) as f64;
        crossing[low + 1..=high].iter_mut().for_each(|bytes| *bytes += local);
    }
    crossing.truncate(n_layers);
    crossing
}

/// The batch: the greatest common divisor of the leading sizes of inputs that are no state.
pub fn batch_size(graph: &Graph) -> usize {
    let is_state = |tensor: u32| graph.aliases.iter().any(|&(_, param)| param == tensor);
    if graph.aliases.is_empty() {
        return 1;
    }
    let inputs = graph
        .tensors
        .iter()
        .enumerate()
        .filter(|(id, tensor)| tensor.param.is_some() && !is_state(*id as u32));
    let sizes = inputs
        .filter(|(_, tensor)| !tensor.is_scalar() && tensor.dtype.class() != Class::Complex)
        .map(|(_, tensor)| tensor.dims[0]);
    sizes.fold(0, gcd).max(1) as usize
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
