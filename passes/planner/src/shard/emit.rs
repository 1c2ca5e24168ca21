//! Writes a choice into the module: a layout on every instruction, an explicit reshard where two
//! blocks disagree.

use super::decision::Decision;
use super::reshard_cost::Step;
use super::sharding_request::Want;
use super::tuple_needs::{TupleNeeds, tuple_needs};
use indexmap::{IndexMap, IndexSet};
use phzc_analysis::graph::{NodeId, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_cost::Collective;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    Attr, CompId, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Sharding, Tiling, Value,
    notes,
};
use phzc_plan::derive;
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

/// The entry and everything that it runs as control flow.
pub fn planned_comps(module: &Module) -> Vec<CompId> {
    let mut found = IndexSet::from([module.entry]);
    let mut at = 0;
    while let Some(&comp) = found.get_index(at) {
        found.extend(module.comp(comp).instrs.iter().flat_map(control_comps));
        at += 1;
    }
    found.into_iter().collect()
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
        let rank = shape.as_array().map_or(0, |array| array.rank());
        self.decision.layouts[tensor as usize].to_tiling(rank, &self.decision.model.mesh)
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
        let steps = self.decision.steps(tensor, target);
        let mut at = value;
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
        while self.out[made.index()].note(notes::MOVE).is_some() {
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
        let rank = source.shape.as_array().map_or(0, |array| array.rank());
        let tiling = step.layout().to_tiling(rank, &self.decision.model.mesh);
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

    /// What is needed of leaves that are written otherwise.
    fn others(&self, leaves: &[TensorId], needs: &[Option<Want>]) -> Vec<Option<Want>> {
        let graph = self.decision.model.input.graph;
        let other = |(&tensor, need): (&TensorId, &Option<Want>)| {
            let (need, written) = ((*need)?, self.decision.written(tensor));
            // Zeros are summands as they are.
            let is_free = graph.tensors[tensor as usize].is_free;
            let need = if is_free { Want { partial: 0, ..need } } else { need };
            (need != written).then_some(need)
        };
        leaves.iter().zip(needs).map(other).collect()
    }

    /// A tuple (old id `old`, new id `new`) with its leaves in the layouts `needs`.
    fn tuple(&mut self, old: InstrId, new: InstrId, needs: &[Option<Want>]) -> InstrId {
        let leaves = self.leaves(old);
        let needs = self.others(&leaves, needs);
        if needs.iter().all(Option::is_none) {
            return new;
        }
        if !matches!(self.out[new.index()].shape, Shape::Tuple(_)) {
            return self.reshard(leaves[0], new, needs[0].unwrap_or_default());
        }
        let source = self.out[new.index()].clone();
        let (operands, wanted) = self.parts(new, &source, &leaves, &needs);
        let rank = |part: &Shape| part.as_array().map_or(0, |array| array.rank());
        let mesh = &self.decision.model.mesh;
        let parts = wanted.iter().zip(source.shape.parts());
        let tilings = parts.map(|(want, part)| want.layout.to_tiling(rank(part), mesh)).collect();
        let mut tuple = Instr {
            name: self.fresh(&format!("{}.in", source.name)),
            op: Opcode::Tuple,
            operands,
            attrs: Vec::new(),
            payload: Payload::None,
            ..source
        };
        tuple.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(&mut tuple, &wanted.iter().map(|want| want.partial).collect::<Vec<_>>());
        let made = self.push(tuple);
        if self.out[new.index()].op == Opcode::Tuple {
            self.replaced.push((new, made));
        }
        made
    }

    /// The parts of the tuple `new`, brought to where they are needed, and how they lie there.
    fn parts(
        &mut self,
        new: InstrId,
        source: &Instr,
        leaves: &[TensorId],
        needs: &[Option<Want>],
    ) -> (SmallVec<[InstrId; 3]>, Vec<Want>) {
        let (mut operands, mut wanted) = (SmallVec::new(), Vec::new());
        for (index, (part, &tensor)) in source.shape.parts().iter().zip(leaves).enumerate() {
            let value = match source.op {
                Opcode::Tuple => source.operands[index],
                _ => self.element(new, index, part, tensor),
            };
            let need = needs[index].unwrap_or(self.decision.written(tensor));
            operands.push(self.reshard(tensor, value, need));
            wanted.push(need);
        }
        (operands, wanted)
    }

    fn element(&mut self, tuple: InstrId, index: usize, part: &Shape, tensor: TensorId) -> InstrId {
        let source = &self.out[tuple.index()];
        let (base, span) = (format!("{}.{index}", source.name), source.span);
        let tiling = self.tiling(tensor, part);
        let attrs = vec![
            Attr { key: Key::Index, value: Value::Int(index as i64) },
            Attr { key: Key::Sharding, value: Value::Sharding(Box::new(Sharding::Single(tiling))) },
        ];
        let mut instr = Instr {
            name: self.fresh(&base),
            op: Opcode::GetTupleElement,
            operands: SmallVec::from_slice(&[tuple]),
            shape: part.clone(),
            payload: Payload::None,
            attrs,
            span,
        };
        partial::set(&mut instr, &[self.decision.partial[tensor as usize]]);
        self.push(instr)
    }

    /// A loop body, a branch or the entry hands its root over in given layouts.
    fn root(&mut self) {
        let Some(needs) = self.needs.get(&(self.comp, None)).cloned() else { return };
        let old = self.old().root;
        self.reader = None;
        let new = self.tuple(old, self.map[old.index()], &needs);
        self.map[old.index()] = new;
    }
}
