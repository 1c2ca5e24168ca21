//! What a node costs under each strategy: gathered once, then asked for every strategy.

use super::free::{self, Anchor};
use super::halos::Exchanges;
use super::model::Model;
use super::strategies::{Menu, Strategy, View, axes_on, layout, node_loops, span};
use phzc_analysis::blocks::Blocks;
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{Graph, NodeId, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_ir::{DType, FactorId, FusionKind, Opcode, Part, Product, Work};
use phzc_plan::pricing::{Kernel, Local, kernel, numbers, op_secs, shared};
use smallvec::SmallVec;

/// A node's compute time as a function of the strategy.
pub struct NodePricer {
    op: Option<Opcode>,
    kernel: Kernel,
    dtype: &'static str,
    trips: f64,
    work: Work,
    /// Microbatches that it runs for one by one.
    n_parts: f64,
    loops: u8,
    /// The product of one microbatch, with the loops of each part of it.
    product: Option<(Product, [(Part, u8); 3])>,
    /// Bytes of each operand in memory (0 for others), and how the loops lie in it.
    read: SmallVec<[(f64, View); 4]>,
    /// Bytes of what is written in place, and how the loops lie in it.
    updates: SmallVec<[(f64, View); 1]>,
    /// The same of each result, with whether it goes to memory.
    made: SmallVec<[(f64, View, bool); 1]>,
    exchanges: Exchanges,
}

impl NodePricer {
    /// The pricer of a node.
    pub fn new(model: &Model, id: NodeId) -> NodePricer {
        let (graph, input) = (model.input.graph, &model.input);
        let node = &graph.nodes[id as usize];
        let does = input.ops[id as usize];
        let op = does.op.filter(|_| node.kind == NodeKind::Op);
        let share = &input.shares[id as usize];
        let is_stored = |id: TensorId| input.is_stored[id as usize];
        let (views, is_late) = (Views::new(model, id), input.blocks.phases[id as usize] != Phase::Forward);
        let read = node.operands.iter().enumerate().map(|(slot, &operand)| {
            let whole = if is_stored(operand) { graph.tensors[operand as usize].bytes } else { 0.0 };
            // Backward reads a value, or what its copy is made of, once for all of its readers.
            let bytes = match input.remade[operand as usize].filter(|_| is_late) {
                Some((reader, _)) if reader != id => 0.0,
                Some((_, bytes)) => bytes,
                None => whole * f64::from(share.reads[slot]),
            };
            (bytes, views.read(slot))
        });
        let updated = op.map_or(0..0, |op| op.def().touch.updates(node.operands.len()));
        let updates =
            updated.map(|slot| (graph.tensors[node.operands[slot] as usize].bytes, views.read(slot)));
        let made = node
            .results
            .iter()
            .map(|&result| (graph.tensors[result as usize].bytes, views.made(result), is_stored(result)));
        let first = node.operands.first().or(node.results.first());
        let dtype = first.map_or(DType::F32, |&id| graph.tensors[id as usize].dtype);
        let reads_memory = node.operands.first().is_some_and(|&operand| is_stored(operand));
        let writes = node.results.iter().any(|&result| is_stored(result));
        let over_batch = batch_factor(model, id);
        NodePricer {
            op,
            kernel: op.map_or(Kernel::Nothing, |op| {
                shared(kernel(op, does.attention, writes, reads_memory), share)
            }),
            dtype: numbers(dtype, does.is_exact),
            trips: node.trips * node.weight * if over_batch.is_some() { 1.0 } else { input.n_made(id) },
            work: node.work,
            n_parts: over_batch.map_or(1.0, |_| input.n_microbatches as f64),
            loops: views.loops(),
            product: op
                .filter(|op| op.def().fusion == FusionKind::Matrix)
                .and_then(|_| product(model, id, views.menu)),
            read: read.collect(),
            updates: updates.collect(),
            made: made.collect(),
            exchanges: Exchanges::new(model, id, |slot| views.read(slot)),
        }
    }

    /// Seconds of all executions under a strategy, with what windows fetch of other tiles; movements and
    /// reductions are left out.
    pub fn secs(&self, model: &Model, strategy: &Strategy) -> f64 {
        let exchange_secs = self.exchanges.secs(model, strategy, self.n_parts);
        self.n_parts * self.trips * exchange_secs + self.kernel_secs(model, strategy)
    }

    fn kernel_secs(&self, model: &Model, strategy: &Strategy) -> f64 {
        let Some(op) = self.op.filter(|_| self.kernel != Kernel::Nothing) else { return 0.0 };
        let tiles = |view: &View| {
            if view.is_empty() { 1.0 } else { layout(strategy, view).n_tiles(&model.mesh) as f64 }
        };
        let operands: SmallVec<[f64; 4]> =
            self.read.iter().map(|(bytes, view)| bytes / tiles(view)).collect();
        let result = self.made.iter().map(|(bytes, view, _)| bytes / tiles(view)).sum();
        let writes = self.made.iter().any(|&(_, _, writes)| writes);
        let parallel = span(axes_on(strategy, self.loops), &model.mesh);
        let updates = self.updates.iter().map(|(bytes, view)| bytes / tiles(view)).sum();
        let bytes = op.def().touch.bytes(&operands, updates, result, writes);
        let work = Work { bytes, ..self.work * (1.0 / parallel) };
        let work = work * (1.0 / self.n_parts);
        let product = self.product.map(|(whole, loops)| {
            let devices = |mask| span(axes_on(strategy, mask), &model.mesh);
            loops.into_iter().fold(whole, |product, (part, mask)| product.split(part, devices(mask)))
        });
        let local = Local { work, product, kernel: self.kernel, dtype: self.dtype };
        self.n_parts * self.trips * op_secs(model.input.cluster, &local)
    }
}

/// How the loops of a menu lie in what a node reads and makes: its own block's, or that of the block that
/// lays out what it makes of constants.
struct Views<'m> {
    graph: &'m Graph,
    blocks: &'m Blocks,
    id: NodeId,
    menu: Option<&'m Menu>,
    anchor: Option<&'m Anchor>,
}

impl<'m> Views<'m> {
    fn new(model: &'m Model, id: NodeId) -> Views<'m> {
        let (graph, blocks) = (model.input.graph, model.input.blocks);
        let menu = blocks.block_of[id as usize].map(|block| &model.menus[block as usize]);
        Views { graph, blocks, id, menu, anchor: model.anchors[id as usize].as_ref() }
    }

    fn read(&self, slot: usize) -> View {
        match self.anchor {
            Some(anchor) => free::through(&self.graph.nodes[self.id as usize], slot, &anchor.view),
            None => self.of(self.blocks.use_map(self.id, slot)),
        }
    }

    fn made(&self, result: TensorId) -> View {
        self.anchor.map_or_else(|| self.of(self.blocks.def_map(result)), |anchor| anchor.view.clone())
    }

    fn of(&self, map: &ClassMap) -> View {
        self.menu.map(|menu| menu.view(map)).unwrap_or_default()
    }

    /// The menu's loops (a bit each) that the node has.
    fn loops(&self) -> u8 {
        match self.anchor {
            Some(anchor) => (0..).zip(&anchor.view).map(|(at, dim)| u8::from(*dim > 0) << at).sum(),
            None => {
                let loops = || node_loops(self.graph, self.blocks, self.id, |_| true);
                self.menu.map_or(0, |menu| menu.mask(&loops()))
            }
        }
    }
}

/// A node's loop over the batch, if it runs for one microbatch after the other: what comes after all of them
/// runs once.
fn batch_factor(model: &Model, id: NodeId) -> Option<FactorId> {
    let (blocks, input) = (model.input.blocks, &model.input);
    if input.n_microbatches == 1 || blocks.phases[id as usize] == Phase::Update {
        return None;
    }
    let is_over_batch = |class: ClassId| {
        let mut leaves = SmallVec::new();
        blocks.classes.leaves(class, &mut leaves);
        leaves.iter().any(|leaf| input.batch.contains(leaf))
    };
    (0..).zip(&blocks.node_classes[id as usize]).find(|(_, class)| is_over_batch(**class)).map(|it| it.0)
}

/// A node's product on one device and one microbatch, and the loops of its menu that run over each part of
/// it.
fn product(model: &Model, id: NodeId, menu: Option<&Menu>) -> Option<(Product, [(Part, u8); 3])> {
    let (blocks, rule) = (model.input.blocks, &model.input.graph.nodes[id as usize].rule);
    let mask = |part: Part| {
        let mut classes = SmallVec::new();
        let factors = (0..).zip(&blocks.node_classes[id as usize]);
        factors
            .filter(|(factor, _)| rule.part(*factor) == part)
            .for_each(|(_, &class)| blocks.classes.leaves(class, &mut classes));
        (part, menu.map_or(0, |menu| menu.mask(&classes)))
    };
    let n_parts = model.input.n_microbatches as f64;
    let whole = Product::of(rule)?;
    let one = batch_factor(model, id).map_or(whole, |batch| whole.split(rule.part(batch), n_parts));
    Some((one, [Part::Batch, Part::Rows, Part::Columns].map(mask)))
}
