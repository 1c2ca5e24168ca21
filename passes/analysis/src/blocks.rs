//! Blocks: sets of nodes whose loops are tied, so that one decision lays out all their tensors.
//!
//! A block is either a *contraction block* (a dot, its two backward dots and its siblings that read
//! the same operand: they share all their loops) or a *glue block* (what lies between contractions:
//! norms, activations, softmax, residual sums with their backward parts; a weight with its views; the
//! update of a weight with its moments). Between blocks, and nowhere else, a tensor may change its layout.

mod forms;

use crate::classes::{ClassId, ClassMap, Classes, class_map};
use crate::graph::{Graph, Node, NodeId, NodeKind, TensorId, is_shaped};
use crate::linear::Sums;
use crate::phase::{Phase, phases};
use crate::siblings::{self, Sibling};
use forms::{is_view, is_whole, levels, makes_alike};
use indexmap::IndexMap;
use petgraph::unionfind::UnionFind;
use phzc_ir::ops::linear::Summands;
use phzc_ir::{FusionKind, Module};
use smallvec::SmallVec;

/// A block's position in [`Blocks::members`].
pub type BlockId = u32;

/// The blocks of a graph.
#[derive(Debug)]
pub struct Blocks {
    /// The loops, tied.
    pub classes: Classes,
    /// Per node: the classes of its rule's factors.
    pub node_classes: Vec<Vec<ClassId>>,
    /// Per node: its block; `None` for nodes that make only scalars or free values.
    pub block_of: Vec<Option<BlockId>>,
    /// Per block: its nodes, in program order.
    pub members: Vec<Vec<NodeId>>,
    /// Per node: forward, backward or update.
    pub phases: Vec<Phase>,
    /// Per node: the operands that may be sums still to be done.
    pub summands: Vec<Summands>,
    /// Per block: whether all of it is linear in such operands, so that its results may be such sums too.
    pub is_linear: Vec<bool>,
    /// Per tensor: its classes as its maker lays it out.
    def_maps: Vec<ClassMap>,
    /// Per node and operand: its classes as the node reads it.
    use_maps: Vec<Vec<ClassMap>>,
}

impl Blocks {
    /// Groups the nodes of a graph. `pinned` tensors have a layout already and stand alone.
    pub fn build(module: &Module, graph: &Graph, pinned: &[bool]) -> Blocks {
        let mut classes = Classes::default();
        let node_classes = graph
            .nodes
            .iter()
            .map(|node| classes.fresh_node(node.rule.factors.iter().map(|factor| factor.size)))
            .collect();
        let phases = phases(module, graph);
        let levels = levels(graph);
        let sums = Sums::find(module, graph);
        let union = UnionFind::new(graph.nodes.len());
        let mut grower = Grower { graph, pinned, classes, node_classes, union, phases, levels, sums };
        grower.tie_contractions(module);
        (0..graph.nodes.len() as NodeId).for_each(|node| grower.grow(node));
        grower.tie_readings();
        grower.tie_outputs();
        grower.finish()
    }

    /// The loops of some nodes of a block, ascending.
    pub fn loops(&self, members: &[NodeId]) -> Vec<ClassId> {
        let mut loops = SmallVec::new();
        let classes = members.iter().flat_map(|&id| &self.node_classes[id as usize]);
        classes.for_each(|&class| self.classes.leaves(class, &mut loops));
        loops.sort_unstable();
        loops.dedup();
        loops.into_vec()
    }

    /// The classes of a tensor as its maker lays it out.
    pub fn def_map(&self, tensor: TensorId) -> &ClassMap {
        &self.def_maps[tensor as usize]
    }

    /// The classes of a node's operand as the node reads it.
    pub fn use_map(&self, node: NodeId, slot: usize) -> &ClassMap {
        &self.use_maps[node as usize][slot]
    }
}

fn def_map(graph: &Graph, node_classes: &[Vec<ClassId>], tensor: TensorId, def: NodeId) -> ClassMap {
    let node = &graph.nodes[def as usize];
    let leaf = node.results.iter().position(|&result| result == tensor).unwrap_or(0);
    node.rule.results.get(leaf).map(|map| class_map(map, &node_classes[def as usize])).unwrap_or_default()
}

fn use_map(graph: &Graph, node_classes: &[Vec<ClassId>], node: NodeId, slot: usize) -> ClassMap {
    let rule = &graph.nodes[node as usize].rule;
    rule.operands.get(slot).map(|map| class_map(map, &node_classes[node as usize])).unwrap_or_default()
}

struct Grower<'a> {
    graph: &'a Graph,
    pinned: &'a [bool],
    classes: Classes,
    node_classes: Vec<Vec<ClassId>>,
    union: UnionFind<NodeId>,
    phases: Vec<Phase>,
    levels: Vec<Option<u32>>,
    sums: Sums,
}

impl Grower<'_> {
    /// Contractions that read one tensor, through views or not, share that tensor's loops: a dot and its
    /// backward dots, and siblings such as query, key and value. Look-ups in a table do not with its
    /// products: they run over a batch of their own, which an axis could not split together with that of the
    /// products.
    fn tie_contractions(&mut self, module: &Module) {
        let mut readers: IndexMap<(TensorId, bool), (NodeId, ClassMap)> = IndexMap::new();
        for id in 0..self.graph.nodes.len() as NodeId {
            let node = &self.graph.nodes[id as usize];
            if !node.is_contraction || node.results.iter().any(|&result| self.pinned[result as usize]) {
                continue;
            }
            let op = self.graph.opcode(module, id);
            let is_product = op.is_some_and(|op| op.def().fusion == FusionKind::Matrix);
            for slot in 0..node.operands.len() {
                if !is_shaped(self.graph, node.operands[slot]) {
                    continue;
                }
                let (root, map) = self.root_operand(id, slot);
                let root = (root, is_product);
                match readers.get(&root) {
                    Some((first, first_map)) => {
                        if self.classes.unify(first_map, &map) {
                            let made = [*first, id].map(|node| self.made(node));
                            let a = Sibling { read: first_map, made: &made[0] };
                            let b = Sibling { read: &map, made: &made[1] };
                            siblings::tie(&mut self.classes, &a, &b);
                            self.union.union(*first, id);
                        }
                    }
                    None => {
                        readers.insert(root, (id, map));
                    }
                }
            }
        }
    }

    /// The classes of a contraction's result.
    fn made(&self, node: NodeId) -> ClassMap {
        def_map(self.graph, &self.node_classes, self.graph.nodes[node as usize].results[0], node)
    }

    /// The tensor behind the views of an operand, and its classes as the node reads it.
    fn root_operand(&mut self, node: NodeId, slot: usize) -> (TensorId, ClassMap) {
        let mut tensor = self.graph.nodes[node as usize].operands[slot];
        let mut map = use_map(self.graph, &self.node_classes, node, slot);
        loop {
            let def = self.graph.tensors[tensor as usize].def;
            let view = &self.graph.nodes[def as usize];
            if view.kind != NodeKind::Op || !is_view(self.graph, view) || self.pinned[tensor as usize] {
                return (tensor, map);
            }
            let copy = self.classes.fresh_node(view.rule.factors.iter().map(|factor| factor.size));
            if !self.classes.unify(&class_map(&view.rule.results[0], &copy), &map) {
                return (tensor, map);
            }
            (tensor, map) = (view.operands[0], class_map(&view.rule.operands[0], &copy));
        }
    }

    /// Lets a glue node join the blocks that make its operands.
    fn grow(&mut self, id: NodeId) {
        let node = &self.graph.nodes[id as usize];
        let is_pinned = node.results.iter().any(|&result| self.pinned[result as usize]);
        if node.is_contraction
            || is_pinned
            || is_whole(node)
            || self.is_gradient_times_weight(id)
            || !node.results.iter().any(|&result| is_shaped(self.graph, result))
        {
            return;
        }
        let mut slots: Vec<usize> =
            (0..node.operands.len()).filter(|&slot| is_shaped(self.graph, node.operands[slot])).collect();
        let rank = |slot: usize| {
            let tensor = &self.graph.tensors[node.operands[slot] as usize];
            (
                self.phases[tensor.def as usize] != Phase::Forward,
                std::cmp::Reverse(tensor.bytes as u64),
                tensor.def,
            )
        };
        slots.sort_by_key(|&slot| rank(slot));
        let mut home = None;
        for slot in slots {
            let tensor = node.operands[slot];
            if !self.may_join(id, tensor, home) {
                continue;
            }
            let def = self.graph.tensors[tensor as usize].def;
            let made = def_map(self.graph, &self.node_classes, tensor, def);
            let read = use_map(self.graph, &self.node_classes, id, slot);
            if self.classes.unify(&made, &read) {
                self.union.union(def, id);
                home = Some(self.union.find(def));
            }
        }
    }

    /// Whether `node` and the maker of its operand `tensor` may share a block.
    fn may_join(&self, node: NodeId, tensor: TensorId, home: Option<NodeId>) -> bool {
        let (graph, made) = (self.graph, &self.graph.tensors[tensor as usize]);
        let def = &graph.nodes[made.def as usize];
        if def.is_contraction || is_whole(def) || self.pinned[tensor as usize] {
            return false;
        }
        if self.sums.joins[node as usize] || self.sums.joins[made.def as usize] {
            // What joins sums has nothing else in its block: so all of it may wait to be reduced.
            return self.sums.joins[node as usize] && self.sums.joins[made.def as usize];
        }
        let reader = &graph.nodes[node as usize];
        if home == Some(self.union.find(made.def)) {
            return true;
        }
        if self.is_weight(tensor) {
            // Its views stay with it, its uses do not: nor does a loop, before which it may be gathered once,
            // nor its update, which ZeRO has in other parts. What only updates read, such as a moment, lies
            // as they do.
            let is_moment = self.is_only_updated(tensor) && makes_alike(graph, reader, tensor);
            return is_moment || is_view(graph, reader);
        }
        let level = self.levels[tensor as usize];
        if self.phases[node as usize] == Phase::Forward {
            let own = reader.results.first().and_then(|&result| self.levels[result as usize]);
            return level.is_none() || own.is_none() || level == own;
        }
        if self.phases[node as usize] == Phase::Update {
            // One kernel updates a weight and its moments; the gradient may be made in other parts.
            return self.phases[made.def as usize] == Phase::Update;
        }
        home.is_none()
    }

    /// Whether a tensor is stored: a parameter or a view of one.
    fn is_weight(&self, tensor: TensorId) -> bool {
        let def = self.graph.tensors[tensor as usize].def;
        self.levels[tensor as usize].is_none() && self.is_stored(def)
    }

    /// Whether a backward node works on a weight and on a gradient of its form, as where a batch norm's scale
    /// is the factor. Sums over the batch stand before it, large values after it: it starts a block, as the
    /// little between these is cheap to move.
    fn is_gradient_times_weight(&self, id: NodeId) -> bool {
        let node = &self.graph.nodes[id as usize];
        let is_alike = |&it: &TensorId| self.is_weight(it) && makes_alike(self.graph, node, it);
        self.phases[id as usize] == Phase::Backward && node.operands.iter().any(is_alike)
    }

    /// Whether nothing but updates reads a tensor.
    fn is_only_updated(&self, tensor: TensorId) -> bool {
        let mut readers = self.graph.tensors[tensor as usize].uses.iter();
        readers.all(|&(reader, _)| self.phases[reader as usize] == Phase::Update)
    }

    /// Whether a node is a parameter or a view of one.
    fn is_stored(&self, mut node: NodeId) -> bool {
        loop {
            let it = &self.graph.nodes[node as usize];
            if it.kind == NodeKind::Source {
                return true;
            }
            let is_step = it.kind == NodeKind::Carry || is_view(self.graph, it);
            let Some(&operand) = it.operands.first() else { return false };
            if !is_step {
                return false;
            }
            node = self.graph.tensors[operand as usize].def;
        }
    }

    /// Glue nodes of one block that read a tensor of another share its loops: the maximum over scores and the
    /// scores that it is subtracted from, so that one mesh axis can split a softmax along its sum.
    fn tie_readings(&mut self) {
        for tensor in &self.graph.tensors {
            let home = self.union.find(tensor.def);
            let mut firsts: IndexMap<NodeId, ClassMap> = IndexMap::new();
            for &(reader, slot) in &tensor.uses {
                let block = self.union.find(reader);
                if block == home || self.graph.nodes[reader as usize].is_contraction {
                    continue;
                }
                let map = use_map(self.graph, &self.node_classes, reader, slot as usize);
                let first = firsts.entry(block).or_insert_with(|| map.clone()).clone();
                self.classes.unify(&first, &map);
            }
        }
    }

    /// What replaces a value that only updates read, in its buffer, has its layout.
    fn tie_outputs(&mut self) {
        for &(output, param) in &self.graph.aliases {
            let (out_def, param_def) =
                (self.graph.tensors[output as usize].def, self.graph.tensors[param as usize].def);
            let is_open = is_shaped(self.graph, output)
                && !self.pinned[output as usize]
                && !self.pinned[param as usize]
                && self.is_only_updated(param);
            let joins = self.sums.joins[out_def as usize];
            if out_def == param_def || !is_open || joins || self.graph.nodes[out_def as usize].is_contraction
            {
                continue;
            }
            let made = def_map(self.graph, &self.node_classes, output, out_def);
            let stored = def_map(self.graph, &self.node_classes, param, param_def);
            if self.classes.unify(&made, &stored) {
                self.union.union(out_def, param_def);
            }
        }
    }

    fn finish(mut self) -> Blocks {
        let mut ids: IndexMap<NodeId, Vec<NodeId>> = IndexMap::new();
        let mut block_of = vec![None; self.graph.nodes.len()];
        for node in 0..self.graph.nodes.len() as NodeId {
            if self.graph.nodes[node as usize].results.iter().any(|&result| is_shaped(self.graph, result))
                || self.graph.nodes[node as usize]
                    .operands
                    .iter()
                    .any(|&operand| is_shaped(self.graph, operand))
            {
                let entry = ids.entry(self.union.find(node));
                block_of[node as usize] = Some(entry.index() as BlockId);
                entry.or_default().push(node);
            }
        }
        let members: Vec<Vec<NodeId>> = ids.into_values().collect();
        let is_linear = members.iter().map(|members| self.is_linear(members)).collect();
        self.classes.shorten_all();
        let (def_maps, use_maps) = self.maps();
        Blocks {
            classes: self.classes,
            node_classes: self.node_classes,
            block_of,
            members,
            phases: self.phases,
            summands: self.sums.summands,
            is_linear,
            def_maps,
            use_maps,
        }
    }

    /// Whether all results of a block may stay sums: each member is linear in what the others make, nothing
    /// is given.
    fn is_linear(&self, members: &[NodeId]) -> bool {
        let graph = self.graph;
        members.iter().all(|&id| {
            let (node, summands) = (&graph.nodes[id as usize], self.sums.summands[id as usize]);
            let is_kept = |&it: &TensorId| {
                self.pinned[it as usize] || graph.outputs.contains(&it) || !is_shaped(graph, it)
            };
            let is_own = |&it: &TensorId| members.binary_search(&graph.tensors[it as usize].def).is_ok();
            let mut others = node.operands.iter().enumerate().filter(|(slot, _)| summands >> slot & 1 == 0);
            summands != 0 && !node.results.iter().any(is_kept) && !others.any(|(_, it)| is_own(it))
        })
    }

    /// Per tensor, and per node and operand: its classes, now that they are final.
    fn maps(&self) -> (Vec<ClassMap>, Vec<Vec<ClassMap>>) {
        let (graph, classes) = (self.graph, &self.node_classes);
        let made = |id: TensorId| def_map(graph, classes, id, graph.tensors[id as usize].def);
        let made = (0..graph.tensors.len() as TensorId).map(|id| self.classes.resolve(&made(id)));
        let read = |(id, node): (NodeId, &Node)| {
            let slots = 0..node.operands.len();
            slots.map(|slot| self.classes.resolve(&use_map(graph, classes, id, slot))).collect()
        };
        (made.collect(), (0..).zip(&graph.nodes).map(read).collect())
    }
}

#[cfg(test)]
mod tests;
