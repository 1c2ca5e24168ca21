//! Facts about the instructions of one computation after another: each op's loops, work and collectives.

use super::local::GroupAxes;
use super::loops::{Loops, OpStep, loops};
use super::moves::moves;
use super::read::{Reader, local_bytes};
use super::shifts::{is_shift, shifts};
use super::{Facts, InstrFacts, Leaf, Problem, Step, fused, scatter, sums};
use crate::partial::names;
use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::{
    ArrayShape, CompId, FusionKind, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Product, Rule, Shape,
    View, Work, notes,
};
use smallvec::SmallVec;

/// Adds facts to those of the computations before.
pub struct Deriver<'a> {
    pub module: &'a Module,
    pub facts: Facts,
    /// Who meets in the collectives of a device's program.
    pub groups: GroupAxes<'a>,
}

impl Deriver<'_> {
    /// Adds the facts of a computation.
    pub fn comp(&mut self, comp: CompId) {
        let n_instrs = self.module.comp(comp).instrs.len();
        self.facts.comps[comp.index()].reserve(n_instrs);
        let mut reader = Reader::default();
        for id in (0..n_instrs).map(InstrId::new) {
            let (mut facts, problems) = reader.read(self.module, &self.facts, comp, id);
            self.report(comp, id, problems);
            self.op(comp, id, &mut facts);
            self.facts.comps[comp.index()].push(facts);
        }
        let (header, in_tasks) = (&self.facts.header, self.facts.header.in_tasks);
        if !header.is_local && !is_gspmd(self.module) {
            scatter::join(self.module.comp(comp), &mut self.facts.comps[comp.index()], &header.meshes);
        }
        fused::fuse(self.module, comp, in_tasks, &mut self.facts.comps[comp.index()]);
    }

    fn report(&mut self, comp: CompId, instr: InstrId, found: Vec<(bool, String)>) {
        let problem = |(is_fatal, message)| Problem { comp, instr, is_fatal, message };
        self.facts.problems.extend(found.into_iter().map(problem));
    }

    /// Fills in what one device does and which collectives it takes part in.
    fn op(&mut self, comp: CompId, id: InstrId, facts: &mut InstrFacts) {
        let view = View::new(self.module, comp, id);
        match view.instr.op {
            Opcode::Tuple
            | Opcode::GetTupleElement
            | Opcode::OptBarrier
            | Opcode::While
            | Opcode::Conditional
            | Opcode::Parameter
            | Opcode::AfterAll
            | Opcode::AddDependency => {}
            Opcode::Call | Opcode::Fusion => {
                let message = format!(
                    "`{}` is a `{}`, which has no layouts inside",
                    view.instr.name,
                    view.instr.op.as_str()
                );
                self.report(comp, id, vec![(false, message)]);
            }
            Opcode::CustomCall if is_move(view.instr) => self.explicit_move(comp, id, &view, facts),
            _ => {
                self.rule(comp, id, &view, facts);
                if self.facts.header.is_local {
                    let mesh = &self.facts.header.meshes[facts.stage];
                    facts.steps.extend(self.groups.collective(&view, mesh));
                }
            }
        }
    }

    fn explicit_move(&mut self, comp: CompId, id: InstrId, view: &View, facts: &mut InstrFacts) {
        let operand = &self.facts.comps[comp.index()][view.instr.operands[0].index()];
        let (Some(array), Some(source)) = (view.instr.shape.as_array(), operand.leaves.first()) else {
            return;
        };
        let target = facts.leaves[0];
        let mesh = &self.facts.header.meshes[facts.stage];
        facts.reads.push(local_bytes(array, target.layout, mesh));
        let is_sent = *mesh != self.facts.header.meshes[source.stage];
        let made = if is_sent { target.partial | source.partial } else { target.partial & !source.partial };
        if made != 0 {
            let message = format!("`{}` cannot make a value partial over `{}`", view.instr.name, names(made));
            self.facts.problems.push(Problem { comp, instr: id, is_fatal: true, message });
        }
        if is_sent {
            return; // a send to another mesh lands in any layout
        }
        facts.steps.extend(movement(*source, target, array, mesh));
    }

    fn rule(&mut self, comp: CompId, id: InstrId, view: &View, facts: &mut InstrFacts) {
        let rule = phzc_ir::ops::split_rule(view);
        let mesh = self.facts.header.meshes[facts.stage].clone();
        let operands = self.operand_leaves(comp, view);
        let arriving: SmallVec<[Option<Layout>; 4]> =
            operands.iter().map(|(leaf, _)| self.arrives(*leaf, facts.stage)).collect();
        let results: SmallVec<[Layout; 2]> = facts.leaves.iter().map(|leaf| leaf.layout).collect();
        let partial: SmallVec<[AxisMask; 4]> = operands.iter().map(|(leaf, _)| leaf.partial).collect();
        let left = sums::left(&partial, &facts.leaves);
        let loops = loops(&rule, &arriving, (&results, left), &mesh);
        (facts.axes, facts.split) = (loops.axes(), loops.split);
        let n_parts: f64 = crate::pricing::axes_of(facts.axes).map(|axis| mesh.sizes[axis] as f64).product();
        facts.work = Work { bytes: 0.0, ..phzc_ir::flops::executed(view) * (1.0 / n_parts) };
        facts.product = product(view.instr.op, &rule, &loops, &mesh);
        let read = |(shape, map): (&Shape, _)| shape.bytes() / loops.n_tiles(map, &mesh);
        facts.reads = operands.iter().map(|(_, shape)| *shape).zip(&rule.operands).map(read).collect();
        let shapes = view.instr.shape.leaves();
        let message = |step: &OpStep| match step.operand {
            Some(operand) if step.halo.is_some() => {
                let (shape, n_tiles) = (operands[operand].1, loops.n_tiles(&rule.operands[operand], &mesh));
                priced(step, shape, shape.bytes() / n_tiles, &mesh)
            }
            Some(operand) => message(step, operands[operand].1, arriving[operand].unwrap_or_default(), &mesh),
            None => message(step, shapes[step.result], results[step.result], &mesh),
        };
        if let Some(moved) = self.shifts(view, arriving.first(), &operands, (&results, &mesh)) {
            facts.steps.extend(moved);
            return;
        }
        facts.steps.extend(loops.steps.iter().filter_map(message));
        let result = facts.leaves.first().map_or(0, |leaf| leaf.partial);
        let sums = sums::problems(view, &partial, result, &loops);
        let problems =
            loops.problems.iter().chain(&sums).map(|text| (false, format!("`{}` {text}", view.instr.name)));
        self.report(comp, id, problems.collect());
    }

    /// What a slice or a pad moves between tiles as GSPMD partitions it.
    fn shifts(
        &self,
        view: &View,
        held: Option<&Option<Layout>>,
        operands: &[(Leaf, &Shape)],
        (results, mesh): (&[Layout], &Mesh),
    ) -> Option<Vec<Step>> {
        if !is_shift(view.instr) || !is_gspmd(self.module) {
            return None;
        }
        let layouts = ((*held?)?, *results.first()?);
        shifts(view.instr, operands.first()?.1.as_array()?, layouts, mesh)
    }

    /// The leaves of all operands with their shapes.
    fn operand_leaves<'m>(&self, comp: CompId, view: &View<'m>) -> Vec<(Leaf, &'m Shape)> {
        let facts = &self.facts.comps[comp.index()];
        let leaves = |index: usize| {
            let of = &facts[view.instr.operands[index].index()];
            of.leaves.iter().copied().zip(view.operand(index).shape.leaves())
        };
        (0..view.n_operands()).flat_map(leaves).collect()
    }

    /// The layout in which a value arrives at a stage; none where it is sent from another mesh, for then it
    /// lands as its reader wants it.
    fn arrives(&self, leaf: Leaf, stage: usize) -> Option<Layout> {
        let meshes = &self.facts.header.meshes;
        (leaf.stage == stage || meshes[leaf.stage] == meshes[stage]).then_some(leaf.layout)
    }
}

/// One device's part of the loops of a product.
fn product(op: Opcode, rule: &Rule, loops: &Loops, mesh: &Mesh) -> Option<Product> {
    let whole = (op.def().fusion == FusionKind::Matrix).then(|| Product::of(rule)).flatten()?;
    let split = |product: Product, axis: usize| match loops.split[axis] {
        Some(id) => product.split(rule.part(id), mesh.sizes[axis] as f64),
        None => product,
    };
    Some((0..mesh.n_axes()).fold(whole, split))
}

/// The collectives of a change of layout: first the sums that it does, then the movements.
fn movement(source: Leaf, target: Leaf, array: &ArrayShape, mesh: &Mesh) -> Vec<Step> {
    let local = |layout: Layout| local_bytes(array, layout, mesh);
    let (scattered, reduced, mut layout) =
        sums::reductions(source.layout, target.layout, source.partial & !target.partial);
    let sums = [
        (Collective::ReduceScatter, scattered, local(source.layout)),
        (Collective::AllReduce, reduced, local(layout)),
    ];
    let step = |(kind, axes, bytes)| Step { kind, axes, dtype: array.dtype, bytes, is_implicit: false };
    let mut found: Vec<Step> = sums.into_iter().filter(|(_, axes, _)| *axes != 0).map(step).collect();
    for it in moves(layout, target.layout, &array.dims, mesh) {
        let bytes = local(layout).max(local(it.layout));
        found.extend(it.kind.map(|kind| step((kind, it.axes, bytes))));
        layout = it.layout;
    }
    found
}

/// The collective that a step of an op is on a tensor of this shape and layout; none on tokens.
fn message(step: &OpStep, shape: &Shape, layout: Layout, mesh: &Mesh) -> Option<Step> {
    priced(step, shape, local_bytes(shape.as_array()?, layout, mesh), mesh)
}

/// The same of what is so many bytes on one device.
fn priced(step: &OpStep, shape: &Shape, local_bytes: f64, mesh: &Mesh) -> Option<Step> {
    let (array, bytes) = (shape.as_array()?, local_bytes * step.message_factor(mesh));
    let OpStep { kind, axes, is_implicit, .. } = *step;
    Some(Step { kind, axes, dtype: array.dtype, bytes, is_implicit })
}

/// Whether a custom-call marks a change of layout.
pub fn is_move(instr: &Instr) -> bool {
    let is_call = instr.op == Opcode::CustomCall && instr.word(Key::CustomCallTarget) == Some("Sharding");
    is_call && instr.operands.len() == 1
}

/// Whether a plan has added an instruction to its program: a change of layout, or a copy that is made again
/// in another one.
pub fn is_added(instr: &Instr) -> bool {
    [notes::MOVE, notes::REMADE].iter().any(|key| instr.note(key).is_some())
}

/// Whether the text is to be read as GSPMD partitions it, where sums are done whole, one loop after the
/// other, and no all-reduce becomes a reduce-scatter: the note `phzc.partitioner="gspmd"` on the module
/// (docs/xla-judge.md).
fn is_gspmd(module: &Module) -> bool {
    module.note(notes::PARTITIONER).as_deref() == Some("gspmd")
}
