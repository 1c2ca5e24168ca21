//! Writes a choice into the module: a layout on every instruction, an explicit reshard where two
//! blocks disagree.

mod remake;
mod tuples;

use super::decision::Decision;
use super::reshard_cost::Step;
use super::sharding_request::Want;
use super::tuple_needs::{TupleNeeds, tuple_needs};
use indexmap::{IndexMap, IndexSet};
use phzc_analysis::graph::{NodeId, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_cost::Collective;
use phzc_ir::{
    Attr, CompId, Computation, Instr, InstrId, Key, Layout, Module, Opcode, Payload, Shape, Sharding, Tiling,
    Value, notes,
};
use phzc_plan::derive::{self, is_added, planned_comps};
use phzc_plan::partial;
use smallvec::SmallVec;

/// Writes the decision into `module`; `nodes` of the graph tell which instruction is which.
pub fn emit(module: &mut Module, decision: &mut Decision) {
    let graph = decision.model.input.graph;
    let mut node_of: IndexMap<(CompId, InstrId), NodeId> = IndexMap::new();
    let mut leaf_nodes: IndexMap<(CompId, InstrId), Vec<NodeId>> = IndexMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        match node.kind {
            NodeKind::Op => drop(node_of.insert((node.comp, node.instr), id as NodeId)),
            NodeKind::Carry | NodeKind::Join => {
                leaf_nodes.entry((node.comp, node.instr)).or_default().push(id as NodeId)
            }
            NodeKind::Source => {}
        }
    }
    let needs = tuple_needs(module, decision, &leaf_nodes);
    for comp in planned_comps(module) {
        let mut writer = Writer::new(module, decision, comp, &node_of, &needs);
        writer.write();
        let (instrs, root) = (writer.out, writer.map[module.comp(comp).root.index()]);
        let replaced = writer.replaced;
        let target = &mut module.comps[comp.index()];
        (target.instrs, target.root) = (instrs, root);
        drop_replaced(target, &replaced);
    }
    module.set_attr("num_partitions", decision.model.mesh.n_devices().to_string());
}

/// Removes tuples that nobody reads since others (the second ids) took their places and now take their names.
fn drop_replaced(comp: &mut Computation, replaced: &[(InstrId, InstrId)]) {
    let mut keep = vec![true; comp.instrs.len()];
    for &(old, new) in replaced {
        let is_read = comp.instrs.iter().any(|instr| instr.operands.contains(&old));
        if keep[old.index()] && !is_read && comp.root != old {
            keep[old.index()] = false;
            comp.instrs[new.index()].name = comp.instr(old).name.clone();
        }
    }
    comp.retain(&keep);
}

struct Writer<'w, 'm, 'a> {
    module: &'w Module,
    decision: &'w mut Decision<'m, 'a>,
    comp: CompId,
    node_of: &'w IndexMap<(CompId, InstrId), NodeId>,
    needs: &'w TupleNeeds,
    /// The new instructions.
    out: Vec<Instr>,
    /// Old ids to new ones.
    map: Vec<InstrId>,
    /// Reshards made so far.
    moved: IndexMap<(TensorId, Want, Option<Phase>), InstrId>,
    /// The old instruction whose operands are being made: a reshard runs when it is first read.
    reader: Option<InstrId>,
    /// Tuples with those that were made of them in other layouts.
    replaced: Vec<(InstrId, InstrId)>,
    names: IndexSet<Box<str>>,
}

impl<'w, 'm, 'a> Writer<'w, 'm, 'a> {
    fn new(
        module: &'w Module,
        decision: &'w mut Decision<'m, 'a>,
        comp: CompId,
        node_of: &'w IndexMap<(CompId, InstrId), NodeId>,
        needs: &'w TupleNeeds,
    ) -> Self {
        let names = module.comp(comp).instrs.iter().map(|instr| instr.name.clone()).collect();
        Writer {
            module,
            decision,
            comp,
            node_of,
            needs,
            out: Vec::new(),
            map: Vec::new(),
            moved: IndexMap::new(),
            reader: None,
            replaced: Vec::new(),
            names,
        }
    }

    fn old(&self) -> &'w Computation {
        self.module.comp(self.comp)
    }

    fn leaves(&self, id: InstrId) -> SmallVec<[TensorId; 1]> {
        self.decision.model.input.graph.values[self.comp.index()][id.index()].clone()
    }

    fn write(&mut self) {
        for (id, instr) in self.old().iter() {
            let mut instr = instr.clone();
            self.reader = Some(id);
            let operands: Vec<InstrId> =
                (0..instr.operands.len()).map(|position| self.operand(id, position)).collect();
            instr.operands = operands.into();
            if let Some(name) =
                self.node_of.get(&(self.comp, id)).and_then(|&node| self.decision.strategy(node))
            {
                instr.set_note(notes::STRATEGY, &name);
            }
            let sums: Vec<u8> =
                self.leaves(id).iter().map(|&it| self.decision.partial[it as usize]).collect();
            // XLA takes no notes on a loop body's tuple; the loop itself has the same.
            let is_carried = instr.op == Opcode::Parameter && matches!(instr.shape, Shape::Tuple(_));
            partial::set(&mut instr, if is_carried { &[] } else { &sums });
            let tilings = self
                .leaves(id)
                .iter()
                .zip(instr.shape.leaves())
                .map(|(&tensor, shape)| self.tiling(tensor, shape))
                .collect();
            self.place(id, instr, tilings);
        }
        self.root();
    }

    fn tiling(&self, tensor: TensorId, shape: &Shape) -> Tiling {
        self.tiling_of(self.decision.layouts[tensor as usize], shape)
    }

    fn tiling_of(&self, layout: Layout, shape: &Shape) -> Tiling {
        let rank = shape.as_array().map_or(0, |array| array.rank());
        layout.to_tiling(rank, &self.decision.model.mesh)
    }

    fn place(&mut self, id: InstrId, mut instr: Instr, tilings: Vec<Tiling>) {
        let is_tuple = matches!(instr.shape, Shape::Tuple(_));
        let sharding = match (is_tuple, tilings.into_iter().collect::<Vec<_>>()) {
            (false, mut one) if !one.is_empty() => Sharding::Single(one.remove(0)),
            (_, all) => Sharding::Tuple(all),
        };
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
        self.out.push(instr);
        debug_assert_eq!(self.map.len(), id.index());
        self.map.push(InstrId::new(self.out.len() - 1));
    }

    /// The new operand for an old one: itself, or a reshard of it.
    fn operand(&mut self, id: InstrId, position: usize) -> InstrId {
        let old = self.old().instr(id).operands[position];
        let new = self.map[old.index()];
        if let Some(needs) = self.needs.get(&(self.comp, Some(id))) {
            return self.tuple(old, new, needs);
        }
        let Some(&node) = self.node_of.get(&(self.comp, id)) else { return new };
        let before: usize =
            self.old().instr(id).operands[..position].iter().map(|&other| self.leaves(other).len()).sum();
        match (self.leaves(old).as_slice(), &self.old().instr(old).shape) {
            (&[tensor], Shape::Array(_)) => {
                let need = self.decision.need(node, before as u32);
                self.reshard(tensor, new, need)
            }
            _ => new,
        }
    }

    /// `value` as it is wanted, made by a chain of single movements when it lies otherwise.
    fn reshard(&mut self, tensor: TensorId, value: InstrId, target: Want) -> InstrId {
        let phase = self.mover();
        if let Some(&made) = self.moved.get(&(tensor, target, phase)) {
            self.share(made);
            return made;
        }
        if let Some(depth) = self.decision.remade(tensor, target) {
            let made = self.remake(tensor, target.layout, depth);
            self.moved.insert((tensor, target, phase), made);
            return made;
        }
        let steps = self.decision.steps(tensor, target);
        self.moved_by(tensor, value, steps)
    }

    /// A value brought along some steps; those that lead to a layout that it has been brought to are made
    /// once.
    fn moved_by(&mut self, tensor: TensorId, value: InstrId, steps: Vec<Step>) -> InstrId {
        let (phase, mut at) = (self.mover(), value);
        for step in steps {
            let made = (tensor, Want { layout: step.layout(), partial: step.partial }, phase);
            at = match self.moved.get(&made) {
                Some(&made) => {
                    self.share(made);
                    made
                }
                None => self.movement(value, at, &step),
            };
            self.moved.insert(made, at);
        }
        at
    }

    /// Movements up to `made` that were made for a later phase than the one that reads them now run in the
    /// earlier one.
    fn share(&mut self, mut made: InstrId) {
        let Some(reader) = self.reader_phase().map(str::to_owned) else { return };
        while is_added(&self.out[made.index()]) {
            let instr = &mut self.out[made.index()];
            if derive::Phase::parse(instr.note(notes::PHASE)) <= derive::Phase::parse(Some(&reader)) {
                return;
            }
            instr.set_note(notes::PHASE, &reader);
            made = instr.operands[0];
        }
    }

    /// The phase of the instruction that is written now, as its note says it.
    fn reader_phase(&self) -> Option<&str> {
        self.reader.and_then(|id| self.old().instr(id).note(notes::PHASE))
    }

    /// The phase that moves values for itself now; `None` where all phases share what is moved.
    fn mover(&self) -> Option<Phase> {
        let input = &self.decision.model.input;
        let node = self.reader.and_then(|id| self.node_of.get(&(self.comp, id)));
        let phase = node.map_or(Phase::Update, |&node| input.blocks.phases[node as usize]);
        input.moves_again.then_some(phase)
    }

    fn movement(&mut self, value: InstrId, from: InstrId, step: &Step) -> InstrId {
        let suffix = match step.kind() {
            None => "sl",
            Some(Collective::AllGather) => "ag",
            Some(Collective::AllToAll) => "a2a",
            Some(Collective::Permute) => "cp",
            Some(Collective::AllReduce) => "ar",
            Some(Collective::ReduceScatter) => "rs",
        };
        let source = self.out[value.index()].clone();
        let tiling = self.tiling_of(step.layout(), &source.shape);
        let attrs = vec![
            Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) },
            Attr { key: Key::Sharding, value: Value::Sharding(Box::new(Sharding::Single(tiling))) },
        ];
        let mut instr = Instr {
            name: self.fresh(&format!("{}.{suffix}", source.name)),
            op: Opcode::CustomCall,
            operands: SmallVec::from_slice(&[from]),
            shape: source.shape.clone(),
            payload: Payload::None,
            attrs,
            span: source.span,
        };
        let reader = self.reader_phase();
        let notes =
            [(notes::BLOCK, source.note(notes::BLOCK)), (notes::PHASE, reader.or(source.note(notes::PHASE)))];
        for (key, text) in notes {
            text.into_iter().for_each(|text| instr.set_note(key, text));
        }
        instr.set_note(notes::MOVE, step.kind().map_or("slice", Collective::as_str));
        partial::set(&mut instr, &[step.partial]);
        self.push(instr)
    }

    fn push(&mut self, instr: Instr) -> InstrId {
        self.out.push(instr);
        InstrId::new(self.out.len() - 1)
    }

    fn fresh(&mut self, base: &str) -> Box<str> {
        let candidates =
            std::iter::once(base.to_string()).chain((1u32..).map(|number| format!("{base}.{number}")));
        let name =
            candidates.into_iter().find(|name| !self.names.contains(name.as_str())).unwrap_or_default();
        self.names.insert(name.clone().into());
        name.into()
    }
}
