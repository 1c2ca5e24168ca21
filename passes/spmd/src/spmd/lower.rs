//! One computation after another: every instruction as the part of it that one device does.

use super::attrs::{self, Sizes};
use super::build::Builder;
use super::collectives::Collectives;
use super::operands::{natural, pieces};
use super::reduce::{self, Reduction};
use super::slices::{cut, whole};
use super::{halos, moves, refuse};
use phzc_cost::Collective;
use phzc_ir::{
    CompId, Computation, Dims, FactorKind, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload,
    Reducer, Result, Rule, Shape, View,
};
use phzc_plan::derive::{Facts, InstrFacts, Loops, Readers, is_move, left, loops, reductions, sliced_layout};
use phzc_plan::partial;
use smallvec::SmallVec;

/// The lowering of a computation.
pub struct Lowerer<'a> {
    module: &'a Module,
    comp: CompId,
    facts: &'a Facts,
    collectives: &'a mut Collectives,
    build: Builder<'a>,
    /// Old ids to new ones.
    map: Vec<InstrId>,
    /// How each array lies that lies otherwise than its instruction says: scattered before it is sliced.
    scattered: Vec<Option<Layout>>,
    readers: Readers,
    rule: RuleOf,
}

/// Where factor rules come from; only a test of the tests has others than the opcodes' own.
pub type RuleOf = fn(&View) -> Rule;

/// The loops of an op that is being lowered.
pub(super) struct Op<'a> {
    pub view: View<'a>,
    pub rule: Rule,
    pub loops: Loops,
    /// The layout of each operand leaf.
    arriving: SmallVec<[Layout; 4]>,
    pub mesh: &'a Mesh,
}

impl<'a> Lowerer<'a> {
    /// Nothing is lowered yet.
    pub fn new(
        module: &'a Module,
        facts: &'a Facts,
        comp: CompId,
        collectives: &'a mut Collectives,
        rule: RuleOf,
    ) -> Lowerer<'a> {
        let stage = facts.comps[comp.index()].first().map_or(0, |first| first.stage);
        let build = Builder::new(module.comp(comp), &facts.header.meshes[stage]);
        let readers = Readers::of(module.comp(comp));
        Lowerer {
            module,
            comp,
            facts,
            collectives,
            build,
            map: Vec::new(),
            scattered: Vec::new(),
            readers,
            rule,
        }
    }

    /// The computation as each device runs it.
    ///
    /// # Errors
    /// Names an instruction that cannot be done in parts.
    pub fn lower(mut self) -> Result<Computation> {
        let old = self.module.comp(self.comp);
        for (id, instr) in old.iter() {
            let first = self.build.instrs.len();
            self.build.start(instr);
            let made = self.instr(id, instr)?;
            self.build.finish(made, first);
            self.map.push(made);
            self.scattered.resize(self.map.len(), None);
        }
        // A device's summand is a value like any other.
        self.build.instrs.iter_mut().for_each(|instr| partial::set(instr, &[]));
        let root = self.map[old.root.index()];
        Ok(Computation { instrs: self.build.instrs, root, ..old.clone() })
    }

    pub(super) fn build(&mut self) -> &mut Builder<'a> {
        &mut self.build
    }

    fn own(&self, id: InstrId) -> &'a InstrFacts {
        &self.facts.comps[self.comp.index()][id.index()]
    }

    /// How an array lies.
    fn layout(&self, id: InstrId) -> Layout {
        let said = self.own(id).leaves.first().map(|leaf| leaf.layout).unwrap_or_default();
        self.scattered[id.index()].unwrap_or(said)
    }

    fn instr(&mut self, id: InstrId, instr: &'a Instr) -> Result<InstrId> {
        use Opcode::{
            AddDependency, AfterAll, Conditional, Domain, GetTupleElement, OptBarrier, Parameter, Tuple,
            While,
        };
        let view = View::new(self.module, self.comp, id);
        match instr.op {
            Parameter | Tuple | GetTupleElement | OptBarrier | While | Conditional | AfterAll
            | AddDependency | Domain => Ok(self.control(id, instr)),
            Opcode::CustomCall if is_move(instr) => self.explicit_move(id, instr),
            op => match super::refused(op) {
                Some(why) => Err(refuse(instr, why)),
                None => self.op(id, &view),
            },
        }
    }

    /// An instruction that names values or runs computations: the same of local shapes.
    fn control(&mut self, id: InstrId, instr: &'a Instr) -> InstrId {
        let layouts: Vec<Layout> = self.own(id).leaves.iter().map(|leaf| leaf.layout).collect();
        let mut made = Instr {
            operands: instr.operands.iter().map(|operand| self.map[operand.index()]).collect(),
            shape: local_shape(&instr.shape, &mut layouts.into_iter(), self.build.mesh),
            ..instr.clone()
        };
        made.attrs.retain(|attr| attr.key != Key::Sharding);
        self.build.push(made)
    }

    /// A change of layout, or what is left of it.
    fn explicit_move(&mut self, id: InstrId, instr: &'a Instr) -> Result<InstrId> {
        let source = instr.operands[0];
        let to = self.layout_said(id);
        let (value, from) = self.summed(source, id);
        if self.scattered[source.index()].is_none() {
            let made = moves::lower(&mut self.build, self.collectives, value, from, to);
            return made.ok_or_else(|| {
                refuse(instr, "changes its layout by way of one that does not divide it")
                    .help("write the change in several steps")
            });
        }
        // A slice of what is scattered already: cut what was not.
        let dims = self.build.dims(value);
        let missing = |dim: usize| to.axes_of(dim).filter(|&axis| from.dim_of(axis).is_none()).collect();
        let pieces = dims.iter().enumerate().map(|(dim, &size)| whole(size, missing(dim))).collect();
        let made = cut(&mut self.build, value, &pieces);
        let joined = (0..self.build.mesh.n_axes())
            .fold(from, |layout, axis| layout.with(axis, to.dim_of(axis).or(from.dim_of(axis))));
        self.scattered.push((joined != to).then_some(joined));
        Ok(made)
    }

    /// The operand `source` of the movement `id`, with the sums done that the movement does; and its layout
    /// then.
    fn summed(&mut self, source: InstrId, id: InstrId) -> (InstrId, Layout) {
        let partial = |id: InstrId| self.own(id).leaves.first().map_or(0, |leaf| leaf.partial);
        let (from, to) = (self.layout(source), self.layout_said(id));
        let (scattered, reduced, at) = reductions(from, to, partial(source) & !partial(id));
        let kinds = [(Collective::ReduceScatter, scattered), (Collective::AllReduce, reduced)];
        let sums = kinds.into_iter().filter(|(_, axes)| *axes != 0);
        let sums: Vec<Reduction> =
            sums.map(|(kind, axes)| Reduction { kind, axes, reducer: Reducer::Add }).collect();
        let value = self.map[source.index()];
        reduce::lower(&mut self.build, self.collectives, value, (from, at), &sums)
    }

    fn layout_said(&self, id: InstrId) -> Layout {
        self.own(id).leaves.first().map(|leaf| leaf.layout).unwrap_or_default()
    }

    fn op(&mut self, id: InstrId, view: &View<'a>) -> Result<InstrId> {
        let instr = view.instr;
        if !fits_offsets(view) {
            return Err(refuse(instr, "has a dimension of 2^31 or more elements"));
        }
        let rule = (self.rule)(view);
        let mesh = &self.facts.header.meshes[self.own(id).stage];
        let leaves = |operand: &InstrId| match view.instrs[operand.index()].shape {
            Shape::Tuple(_) => self.own(*operand).leaves.iter().map(|leaf| leaf.layout).collect(),
            _ => vec![self.layout(*operand)],
        };
        let arriving: SmallVec<[Layout; 4]> = instr.operands.iter().flat_map(leaves).collect();
        let results: Vec<Layout> = self.own(id).leaves.iter().map(|leaf| leaf.layout).collect();
        let given: Vec<Option<Layout>> = arriving.iter().copied().map(Some).collect();
        let own = |operand: &InstrId| self.own(*operand).leaves.iter().map(|leaf| leaf.partial);
        let partial: SmallVec<[u8; 4]> = instr.operands.iter().flat_map(own).collect();
        let left = left(&partial, &self.own(id).leaves);
        let loops = loops(&rule, &given, (&results, left), mesh);
        if let Some(problem) = loops.problems.first() {
            return Err(refuse(instr, problem));
        }
        let op = Op { view: *view, rule, loops, arriving, mesh };
        let operands = self.operands(&op)?;
        let operands = halos::exchange(&mut self.build, self.collectives, &op, &operands);
        let made = self.part(&op, &operands)?;
        self.reduced(id, &op, made)
    }

    /// The operands, cut to what the op's part reads.
    fn operands(&mut self, op: &Op) -> Result<Vec<InstrId>> {
        let (mut made, mut leaf) = (Vec::new(), 0);
        for &operand in &op.view.instr.operands {
            let value = self.map[operand.index()];
            let shape = &op.view.instrs[operand.index()].shape;
            let mut cuts = (leaf..leaf + shape.n_leaves())
                .map(|leaf| pieces(&op.rule, &op.rule.operands[leaf], op.arriving[leaf], &op.loops, op.mesh));
            made.push(match shape {
                Shape::Tuple(_) if cuts.any(|cut| cut.iter().flatten().any(|it| !it.axes.is_empty())) => {
                    return Err(refuse(op.view.instr, "reads parts of a tuple"));
                }
                Shape::Tuple(_) => value,
                _ => cuts.next().map_or(value, |pieces| cut(&mut self.build, value, &pieces)),
            });
            leaf += shape.n_leaves();
        }
        Ok(made)
    }

    /// The op on the device's part of every loop; the result is partial where a loop that reduces is split.
    fn part(&mut self, op: &Op, operands: &[InstrId]) -> Result<InstrId> {
        let layouts: Vec<Layout> =
            op.rule.results.iter().map(|map| natural(map, &op.loops, op.mesh)).collect();
        let shape = local_shape(&op.view.instr.shape, &mut layouts.into_iter(), op.mesh);
        match op.view.instr.op {
            Opcode::Iota => Ok(self.iota(op, shape)),
            Opcode::Constant => self.constant(op, shape),
            Opcode::Gather => Ok(self.gather(op, operands, shape)),
            Opcode::Scatter => Ok(self.scatter(op, operands, shape)),
            Opcode::DynamicUpdateSlice => Ok(self.update(op, operands, shape)),
            _ if is_marker(op.view.instr) => Ok(operands[0]),
            _ => Ok(self.plain(op, operands, shape)),
        }
    }

    /// The same op on local operands.
    pub(super) fn plain(&mut self, op: &Op, operands: &[InstrId], shape: Shape) -> InstrId {
        let instr = op.view.instr;
        let dims = |id: &InstrId| op.view.instrs[id.index()].shape.as_array().map(|it| it.dims.clone());
        let sizes = Sizes {
            global: instr.operands.iter().map(|id| dims(id).unwrap_or_default()).collect(),
            local: operands.iter().map(|&id| self.build.dims(id)).collect(),
            result: shape
                .leaves()
                .first()
                .and_then(|leaf| leaf.as_array())
                .map_or_else(Dims::new, |it| it.dims.clone()),
        };
        let mut attrs = attrs::local(instr, &sizes);
        if let Some(read) = sizes.local.first() {
            halos::narrow(op, &mut attrs, (read, &sizes.result));
        }
        let made = self.build.add(instr.op, operands, shape, attrs);
        self.build.instrs[made.index()].payload = instr.payload.clone();
        made
    }

    /// What was made, leaf by leaf with its reductions done.
    fn reduced(&mut self, id: InstrId, op: &Op, made: InstrId) -> Result<InstrId> {
        if self.own(id).steps.iter().all(|step| step.kind == Collective::Permute) {
            return self.settled(id, op, made);
        }
        let shape = &op.view.instr.shape;
        let Shape::Tuple(parts) = shape else {
            let reductions = self.reductions(id, op, 0);
            return Ok(self.reduce(id, op, made, &reductions));
        };
        let mut leaves = Vec::new();
        for index in 0..parts.len() {
            let part = self.build.instrs[made.index()].shape.parts()[index].clone();
            let at = phzc_ir::Attr { key: Key::Index, value: phzc_ir::Value::Int(index as i64) };
            let leaf = self.build.add(Opcode::GetTupleElement, &[made], part, vec![at]);
            let reductions = self.reductions(id, op, index);
            let layout = natural(&op.rule.results[index], &op.loops, op.mesh);
            let to = self.own(id).leaves[index].layout;
            let done = reduce::lower(&mut self.build, self.collectives, leaf, (layout, to), &reductions);
            leaves.push(done.0);
        }
        let shapes = leaves.iter().map(|leaf| self.build.instrs[leaf.index()].shape.clone()).collect();
        Ok(self.build.add(Opcode::Tuple, &leaves, Shape::Tuple(shapes), Vec::new()))
    }

    /// Checks that an op without reductions makes what the text says.
    fn settled(&self, id: InstrId, op: &Op, made: InstrId) -> Result<InstrId> {
        let is_as_said = |(map, leaf): (&phzc_ir::TensorMap, &phzc_plan::derive::Leaf)| {
            natural(map, &op.loops, op.mesh) == leaf.layout
        };
        match op.rule.results.iter().zip(&self.own(id).leaves).all(is_as_said) {
            true => Ok(made),
            false => Err(refuse(op.view.instr, "does not make its result as the text says")),
        }
    }

    /// The reductions of a leaf of the result: those that [`phzc_plan::derive`] found.
    fn reductions(&self, id: InstrId, op: &Op, leaf: usize) -> Vec<Reduction> {
        let own = self.own(id);
        let steps = op.loops.steps.iter().filter(|step| step.operand.is_none());
        let found = steps.zip(&own.steps).filter(|(step, _)| step.result == leaf);
        let reduction = |(step, priced): (&phzc_plan::derive::OpStep, &phzc_plan::derive::Step)| {
            let axis = phzc_plan::pricing::axes_of(step.axes).next()?;
            let factor = op.loops.split[axis]?;
            match op.rule.factors[factor as usize].kind {
                FactorKind::Reduce(reducer) => {
                    Some(Reduction { kind: priced.kind, axes: priced.axes, reducer })
                }
                _ => None,
            }
        };
        let mut all: Vec<Reduction> = found.filter_map(reduction).collect();
        // A scatter that slices say comes last: what it leaves is what they leave.
        let is_said_here = own.leaves[leaf].layout;
        let is_late = |it: &Reduction| {
            it.kind == Collective::ReduceScatter
                && phzc_plan::pricing::axes_of(it.axes).any(|axis| is_said_here.dim_of(axis).is_none())
        };
        all.sort_by_key(is_late);
        all
    }

    fn reduce(&mut self, id: InstrId, op: &Op, made: InstrId, reductions: &[Reduction]) -> InstrId {
        let from = natural(&op.rule.results[0], &op.loops, op.mesh);
        let facts = &self.facts.comps[self.comp.index()];
        let to = sliced_layout(self.module.comp(self.comp), facts, &self.readers, id);
        let (value, at) = reduce::lower(&mut self.build, self.collectives, made, (from, to), reductions);
        self.scattered.push((at != self.layout_said(id)).then_some(at));
        value
    }
}

/// Whether offsets into all of its arrays are 32-bit integers, as they are computed in.
fn fits_offsets(view: &View) -> bool {
    let operands = (0..view.n_operands()).map(|index| &view.operand(index).shape);
    let mut leaves = operands.chain([&view.instr.shape]).flat_map(Shape::leaves);
    let fits = |array: &phzc_ir::ArrayShape| array.dims.iter().all(|&size| i32::try_from(size).is_ok());
    leaves.all(|leaf| leaf.as_array().is_none_or(fits))
}

/// A shape with each leaf's sizes on one device.
pub fn local_shape(shape: &Shape, layouts: &mut impl Iterator<Item = Layout>, mesh: &Mesh) -> Shape {
    match shape {
        Shape::Tuple(parts) => {
            Shape::Tuple(parts.iter().map(|part| local_shape(part, layouts, mesh)).collect())
        }
        Shape::Buffer(inner) => Shape::Buffer(Box::new(local_shape(inner, layouts, mesh))),
        Shape::Array(array) => {
            let (layout, mut array) = (layouts.next().unwrap_or_default(), array.clone());
            array.dims.iter_mut().enumerate().for_each(|(dim, size)| *size /= layout.tiles(dim, mesh));
            Shape::Array(array)
        }
        other => {
            layouts.next();
            other.clone()
        }
    }
}

/// Whether a custom-call marks a layout and does nothing.
fn is_marker(instr: &Instr) -> bool {
    instr.op == Opcode::CustomCall
        && instr.word(Key::CustomCallTarget) == Some("xla.sdy.FuncResultSharding")
        && !matches!(instr.payload, Payload::Wrapped(_))
}
