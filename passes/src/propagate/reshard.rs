//! Changes of layout, spelled out in the program as GSPMD's partitioner does them.

use super::flow::Flow;
use super::partition::{Partition, Way};
use phzc_analysis::graph::{NodeKind, TensorId};
use phzc_ir::edit::Names;
use phzc_ir::{
    Attr, CompId, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Shape, Sharding, Value,
};
use phzc_plan::derive::planned_comps;
use std::collections::BTreeMap;

/// The layouts that lie between two, the last included: what is dropped is gathered dimension by dimension,
/// the last one first; what is new is sliced afterwards.
fn path(from: Layout, to: Layout, mesh: &Mesh) -> Vec<Layout> {
    let axes = 0..mesh.n_axes();
    let goes = |axis: &usize| from.dim_of(*axis).is_some() && to.dim_of(*axis).is_none();
    let comes = |axis: &usize| from.dim_of(*axis).is_none() && to.dim_of(*axis).is_some();
    let (n_going, n_coming) = (axes.clone().filter(goes).count(), axes.clone().filter(comes).count());
    let is_swap = n_coming > 0
        && axes
            .clone()
            .filter_map(|axis| from.dim_of(axis))
            .all(|dim| to.tiles(dim, mesh) % from.tiles(dim, mesh) == 0);
    if from == to || n_going == 0 || is_swap {
        return vec![to];
    }
    let mut found = Vec::new();
    let mut at = from;
    let dims: Vec<usize> = axes.clone().filter(goes).filter_map(|axis| from.dim_of(axis)).collect();
    for dim in (0..=dims.iter().copied().max().unwrap_or(0)).rev() {
        if dims.contains(&dim) {
            let leaving = axes.clone().filter(|axis| goes(axis) && from.dim_of(*axis) == Some(dim));
            at = leaving.fold(at, |layout, axis| layout.with(axis, None));
            found.push(at);
        }
    }
    if at != to || n_coming > 0 {
        found.push(to);
    }
    found
}

/// Writes every value's layout, and every change of it where it is read otherwise than it is made.
pub(super) fn write(
    module: &mut Module,
    flow: &Flow,
    layouts: &[Layout],
    outputs: &[(TensorId, Layout)],
    partitions: &[Partition],
) {
    let nodes = flow.graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Op);
    let node_of: BTreeMap<(CompId, InstrId), usize> =
        nodes.map(|(index, node)| ((node.comp, node.instr), index)).collect();
    let wanted = handed_on(module, flow, layouts, outputs);
    for comp in planned_comps(module) {
        let writer = Writer {
            flow,
            layouts,
            partitions,
            comp,
            old: module.comp(comp).instrs.clone(),
            values: (0..module.comp(comp).instrs.len()).map(InstrId::new).collect(),
            new: Vec::new(),
            made: BTreeMap::new(),
            names: Names::of(module.comp(comp)),
        };
        writer.write(module, &node_of, &wanted);
    }
}

/// The layouts of the parts of tuples that loops, branches and the program's end take over.
type HandedOn = BTreeMap<(CompId, InstrId), Vec<Layout>>;

fn handed_on(module: &Module, flow: &Flow, layouts: &[Layout], outputs: &[(TensorId, Layout)]) -> HandedOn {
    let mut found = HandedOn::new();
    let of = |comp: CompId, id: InstrId| -> Vec<Layout> {
        flow.graph.values[comp.index()][id.index()].iter().map(|&it| layouts[it as usize]).collect()
    };
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let carried = of(comp, id);
            match instr.op {
                Opcode::While => {
                    found.insert((comp, instr.operands[0]), carried.clone());
                    let body = instr.comp(Key::Body);
                    body.into_iter()
                        .for_each(|body| drop(found.insert((body, module.comp(body).root), carried.clone())));
                }
                Opcode::Conditional => instr.called().for_each(|branch| {
                    found.insert((branch, module.comp(branch).root), carried.clone());
                }),
                _ => {}
            }
        }
    }
    found.insert((module.entry, module.entry().root), outputs.iter().map(|&(_, layout)| layout).collect());
    found
}

struct Writer<'a> {
    flow: &'a Flow<'a>,
    layouts: &'a [Layout],
    /// Per node.
    partitions: &'a [Partition],
    comp: CompId,
    old: Vec<Instr>,
    /// Who stands for each old instruction's value.
    values: Vec<InstrId>,
    new: Vec<(InstrId, Instr)>,
    /// Per value and way, the value brought there.
    made: BTreeMap<(InstrId, Way), InstrId>,
    names: Names,
}

impl Writer<'_> {
    fn write(mut self, module: &mut Module, node_of: &BTreeMap<(CompId, InstrId), usize>, wanted: &HandedOn) {
        for id in (0..self.old.len()).map(InstrId::new) {
            let mut own = self.leaves(id);
            let mut operands = self.old[id.index()].operands.to_vec();
            if let Some(&node) = node_of.get(&(self.comp, id)) {
                let partition = &self.partitions[node];
                self.read(&mut operands, &partition.operands, id);
                if own.len() == 1
                    && self.old[id.index()].shape.as_array().is_some()
                    && partition.result != own[0]
                {
                    self.bring(id, partition.result, own[0]);
                    own[0] = partition.result;
                }
            } else if let Some(leaves) = wanted.get(&(self.comp, id))
                && self.old[id.index()].op == Opcode::Tuple
            {
                let ways: Vec<Way> = leaves.iter().map(|&to| Way { to, ..Way::default() }).collect();
                self.read(&mut operands, &ways, id);
                own = leaves.clone();
            } else {
                operands.iter_mut().for_each(|it| *it = self.values[it.index()]);
            }
            self.old[id.index()].operands = operands.into();
            self.place(id, &own);
        }
        let target = &mut module.comps[self.comp.index()];
        let root = self.values[target.root.index()];
        target.instrs = self.old;
        target.root = root;
        target.insert_before(self.new);
    }

    fn leaves(&self, id: InstrId) -> Vec<Layout> {
        let values = &self.flow.graph.values[self.comp.index()][id.index()];
        values.iter().map(|&it| self.layouts[it as usize]).collect()
    }

    /// Makes an instruction read its operands in these layouts, one per leaf.
    fn read(&mut self, operands: &mut [InstrId], wanted: &[Way], reader: InstrId) {
        let mut leaf = 0;
        for operand in operands {
            let leaves = self.leaves(*operand);
            *operand = match (leaves.as_slice(), wanted.get(leaf)) {
                (&[own], Some(&wanted)) if own != wanted.to && self.is_array(*operand) => {
                    self.moved(*operand, wanted, reader)
                }
                _ => self.values[operand.index()],
            };
            leaf += leaves.len();
        }
    }

    fn is_array(&self, id: InstrId) -> bool {
        self.old[id.index()].shape.as_array().is_some()
    }

    /// A value in another layout, made right before its first reader.
    fn moved(&mut self, value: InstrId, way: Way, reader: InstrId) -> InstrId {
        if let Some(&made) = self.made.get(&(value, way)) {
            return made;
        }
        let from = self.leaves(value)[0];
        let made = match self.is_uniform(value) {
            true => self.again(value, way.to, reader),
            false => {
                let stops = way.via.into_iter().flatten().chain([way.to]);
                let start = (self.values[value.index()], from);
                let (made, _) = stops
                    .fold(start, |(value_at, at), to| (self.chain(value, value_at, (at, to), reader), to));
                made
            }
        };
        self.made.insert((value, way), made);
        made
    }

    /// Brings what an instruction makes to the layout in which it is read.
    fn bring(&mut self, id: InstrId, from: Layout, to: Layout) {
        let next = InstrId::new(id.index() + 1);
        self.values[id.index()] = self.chain(id, id, (from, to), next);
    }

    /// Whether a value is one number everywhere, which every device makes as it likes.
    fn is_uniform(&self, value: InstrId) -> bool {
        let instr = &self.old[value.index()];
        let is_number =
            |it: &InstrId| self.old[it.index()].shape.as_array().is_some_and(|array| array.rank() == 0);
        instr.op == Opcode::Broadcast && instr.operands.iter().all(is_number)
    }

    fn chain(
        &mut self,
        value: InstrId,
        mut at: InstrId,
        (from, to): (Layout, Layout),
        place: InstrId,
    ) -> InstrId {
        for layout in path(from, to, self.flow.mesh) {
            let instr = self.movement(value, at, layout);
            at = self.push(place, instr);
        }
        at
    }

    /// Such a value made in another layout.
    fn again(&mut self, value: InstrId, to: Layout, place: InstrId) -> InstrId {
        let mut copy = self.old[value.index()].clone();
        copy.name = self.names.derive(&copy.name, "again");
        copy.set_attr(Key::Sharding, self.sharding(&copy.shape, to));
        self.push(place, copy)
    }

    fn push(&mut self, place: InstrId, instr: Instr) -> InstrId {
        self.new.push((place, instr));
        InstrId::new(self.old.len() + self.new.len() - 1)
    }

    fn sharding(&self, shape: &Shape, layout: Layout) -> Value {
        let rank = shape.as_array().map_or(0, phzc_ir::ArrayShape::rank);
        Value::Sharding(Box::new(Sharding::Single(layout.to_tiling(rank, self.flow.mesh))))
    }

    fn movement(&mut self, value: InstrId, from: InstrId, to: Layout) -> Instr {
        let source = &self.old[value.index()];
        let attrs = vec![
            Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) },
            Attr { key: Key::Sharding, value: self.sharding(&source.shape, to) },
        ];
        Instr {
            name: self.names.derive(&source.name, "moved"),
            op: Opcode::CustomCall,
            operands: std::iter::once(from).collect(),
            shape: source.shape.clone(),
            payload: Payload::None,
            attrs,
            span: source.span,
        }
    }

    fn place(&mut self, id: InstrId, layouts: &[Layout]) {
        let shape = &self.old[id.index()].shape;
        let tiling = |(shape, layout): (&Shape, &Layout)| {
            layout.to_tiling(shape.as_array().map_or(0, phzc_ir::ArrayShape::rank), self.flow.mesh)
        };
        let mut tilings: Vec<_> = shape.leaves().into_iter().zip(layouts).map(tiling).collect();
        let sharding = match shape.as_array() {
            Some(_) if !tilings.is_empty() => Sharding::Single(tilings.swap_remove(0)),
            _ => Sharding::Tuple(tilings),
        };
        self.old[id.index()].set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    }
}
