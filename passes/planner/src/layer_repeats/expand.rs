//! From the plan of a short program to that of the whole one: every instruction takes its layout, and what
//! brings its operands to where it wants them, from the one that stands for it.

mod root;

use super::representative_layers::{Layer, Short};
use indexmap::IndexMap;
use phzc_ir::edit::Names;
use phzc_ir::notes;
use phzc_ir::{Computation, FusionKind, Instr, InstrId, Key, Mesh, Module, Opcode};
use phzc_plan::derive::{control_flow, is_move, origin};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Notes that a plan puts on instructions.
const NOTES: [&str; 2] = [notes::STRATEGY, notes::PARTIAL];

/// The stages of the whole program.
pub struct Stages {
    /// How many.
    pub n: usize,
    /// The stage of each instruction of the whole entry.
    pub of: Vec<usize>,
    /// Per stage: its plan, among those that are given.
    pub plan_of: Vec<usize>,
    /// Per instruction of the whole entry: whether each stage may make it for itself, where plans differ.
    pub is_free: Vec<bool>,
}

/// Where an instruction of an expanded program comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its plan.
    pub plan: usize,
    /// The plan's instruction that it is like; none of what brings a value from a stage with another plan.
    pub like: Option<InstrId>,
    /// The whole program's instruction that it is, or that reads it first.
    pub reader: InstrId,
}

/// The whole program as the plan of the short one says; where each instruction of its entry comes from.
pub fn expand(whole: &Module, short: &Short, plan: &Module, stages: &Stages) -> (Module, Vec<Source>) {
    merge(whole, short, &[plan], stages).expect("one plan hands nothing over")
}

/// The same where stages have plans of their own, on other meshes. `None` where a stage would need summands,
/// or a tuple, from a stage with another plan.
pub fn merge(
    whole: &Module,
    short: &Short,
    plans: &[&Module],
    stages: &Stages,
) -> Option<(Module, Vec<Source>)> {
    let mut writer = Writer {
        whole: whole.entry(),
        short,
        stages,
        templates: plans.iter().map(|plan| Template::new(&short.module, plan)).collect(),
        out: Vec::with_capacity(2 * whole.entry().instrs.len()),
        sources: Vec::with_capacity(2 * whole.entry().instrs.len()),
        reader: InstrId::new(0),
        map: Vec::with_capacity(whole.entry().instrs.len()),
        moved: IndexMap::default(),
        kinds: IndexMap::default(),
        copies: IndexMap::default(),
        clones: IndexMap::default(),
        names: Names::of(whole.entry()),
        is_legal: true,
    };
    whole.entry().iter().for_each(|(id, instr)| writer.instr(id, instr));
    let root = writer.handed_over();
    let (out, sources, is_legal) = (writer.out, writer.sources, writer.is_legal);
    let mut found = whole.without_entry();
    let entry = &mut found.comps[whole.entry.index()];
    (entry.root, entry.instrs) = (root, out);
    write_loops(&mut found, whole, plans, stages);
    plans[0].attr("num_partitions").into_iter().for_each(|text| found.set_attr("num_partitions", text));
    is_legal.then_some((found, sources))
}

/// Loops and branches are as the plan has them: they are in no layer that others stand for.
fn write_loops(found: &mut Module, whole: &Module, plans: &[&Module], stages: &Stages) {
    for (id, instr) in whole.entry().iter() {
        let plan = plans[stages.plan_of[stages.of[id.index()]]];
        let mut todo: Vec<_> = control_flow(instr).into_iter().collect();
        while let Some(comp) = todo.pop() {
            found.comps[comp.index()] = plan.comp(comp).clone();
            let instrs = &mut found.comps[comp.index()].instrs;
            instrs.iter_mut().for_each(|instr| stages.note(instr, stages.of[id.index()]));
            todo.extend(plan.comp(comp).instrs.iter().flat_map(control_flow));
        }
    }
}

impl Stages {
    /// Stages that have one plan.
    pub fn alike(n: usize, of: Vec<usize>) -> Stages {
        Stages { n, of, plan_of: vec![0; n], is_free: Vec::new() }
    }

    /// Notes an instruction's stage, if there are several.
    fn note(&self, instr: &mut Instr, stage: usize) {
        if self.n > 1 {
            instr.set_note(notes::STAGE, &stage.to_string());
        }
    }
}

/// A plan, and which of its instructions are those of the program.
pub(super) struct Template<'a> {
    pub(super) comp: &'a Computation,
    pub(super) mesh: Mesh,
    /// Per instruction of the program: where the plan has it.
    pub(super) at: Vec<InstrId>,
    /// Per instruction of the plan: the program's, if it is one of them.
    pub(super) plain: Vec<Option<InstrId>>,
}

impl<'a> Template<'a> {
    fn new(plain: &Module, plan: &'a Module) -> Template<'a> {
        let comp = plan.entry();
        let by_name: IndexMap<&str, InstrId, FxBuildHasher> =
            comp.iter().map(|(id, instr)| (&*instr.name, id)).collect();
        let at: Vec<InstrId> = plain.entry().instrs.iter().map(|instr| by_name[&*instr.name]).collect();
        let mut found = vec![None; comp.instrs.len()];
        at.iter().enumerate().for_each(|(own, at)| found[at.index()] = Some(InstrId::new(own)));
        let mesh = plan.note(notes::MESH).and_then(|mesh| Mesh::parse(&mesh).ok()).unwrap_or_default();
        Template { comp, mesh, at, plain: found }
    }
}

/// A movement, as far as equal ones are made once: to where, how, and for whom.
type Kind = (String, String, String, String);

pub(super) struct Writer<'a> {
    pub(super) whole: &'a Computation,
    pub(super) short: &'a Short,
    pub(super) stages: &'a Stages,
    /// One per plan.
    pub(super) templates: Vec<Template<'a>>,
    /// The new instructions.
    pub(super) out: Vec<Instr>,
    /// Where they come from.
    sources: Vec<Source>,
    /// The whole program's instruction that is being written.
    pub(super) reader: InstrId,
    /// Old ids to new ones.
    pub(super) map: Vec<InstrId>,
    /// What has been moved: from where, how, in which stage.
    pub(super) moved: IndexMap<(InstrId, usize, usize), InstrId, FxBuildHasher>,
    kinds: IndexMap<Kind, (), FxBuildHasher>,
    /// What has been made again: of what, how, in which stage.
    copies: IndexMap<(InstrId, usize, usize), InstrId, FxBuildHasher>,
    /// What stages with other plans have made for themselves.
    pub(super) clones: IndexMap<(InstrId, usize), InstrId, FxBuildHasher>,
    pub(super) names: Names,
    /// Whether all could be handed over.
    pub(super) is_legal: bool,
}

impl<'a> Writer<'a> {
    fn instr(&mut self, id: InstrId, instr: &Instr) {
        let stage = self.stages.of[id.index()];
        self.reader = id;
        let (new, like) = match id == self.whole.root && instr.op == Opcode::Tuple {
            true => (self.root(instr.clone(), stage), self.plan(stage).comp.root),
            false => self.like(id, instr, stage),
        };
        let made = self.push(new, stage, Some(like));
        self.map.push(made);
    }

    /// An instruction as the plan of a stage has it, and the plan's.
    pub(super) fn like(&mut self, id: InstrId, instr: &Instr, stage: usize) -> (Instr, InstrId) {
        let mut new = instr.clone();
        for (at, &operand) in instr.operands.iter().enumerate() {
            let reader = self.planned(id, operand, stage);
            new.operands[at] = self.value(reader.operands[at], Some(operand), stage);
        }
        let like = self.plan(stage).at[self.stand(id, id).index()];
        take(&mut new, self.plan(stage).comp.instr(like));
        self.stages.note(&mut new, stage);
        (new, like)
    }

    /// The plan of a stage.
    pub(super) fn plan(&self, stage: usize) -> &Template<'a> {
        &self.templates[self.stages.plan_of[stage]]
    }

    /// What stands, in the plan of a stage, for an instruction where it reads an operand.
    pub(super) fn planned(&self, id: InstrId, operand: InstrId, stage: usize) -> &'a Instr {
        let plan = self.plan(stage);
        plan.comp.instr(plan.at[self.stand(id, operand).index()])
    }

    /// Who stands for an instruction where it reads an operand.
    fn stand(&self, id: InstrId, operand: InstrId) -> InstrId {
        let (short, stands) = (self.short, self.short.stands[id.index()]);
        let layer = |id: InstrId| short.layer_of[id.index()];
        match (layer(id), layer(operand)) {
            (Some(Layer { at: 1, .. }), _) => stands[0],
            (Some(own), Some(other))
                if other.row == own.row && other.at > own.at && own.at + 2 < short.n_layers[own.row] =>
            {
                stands[0]
            }
            _ => stands[1],
        }
    }

    /// What the plan's instruction `planned` is for a reader: `operand` of the whole program, or that which
    /// it stands for, brought to where it is wanted.
    pub(super) fn value(&mut self, planned: InstrId, operand: Option<InstrId>, stage: usize) -> InstrId {
        if let Some(received) = self.received(planned, operand, stage) {
            return received;
        }
        let instr = self.plan(stage).comp.instr(planned);
        if let Some(plain) = self.plan(stage).plain[planned.index()] {
            return self.map[self.counterpart(plain, operand).index()];
        }
        if instr.note(notes::REMADE).is_some() {
            return self.copy(instr, planned, operand, stage);
        }
        if !is_move(instr) {
            return self.tuple(instr, planned, stage);
        }
        let from = self.value(instr.operands[0], operand, stage);
        self.movement(from, planned, stage)
    }

    /// What the short program's instruction `plain` is for a reader of `operand`: this, or what it renames
    /// where the plan brings that to several readers at once.
    fn counterpart(&self, plain: InstrId, operand: Option<InstrId>) -> InstrId {
        let Some(operand) = operand else { return self.short.whole_of[plain.index()] };
        let is_like = |id: InstrId| self.short.stands[id.index()].contains(&plain);
        let maker = || origin(self.whole, operand, 0).0;
        if is_like(operand) || !is_like(maker()) { operand } else { maker() }
    }

    /// A copy like the plan's `planned` of what it stands for, unless it has been made already.
    fn copy(&mut self, like: &Instr, planned: InstrId, operand: Option<InstrId>, stage: usize) -> InstrId {
        let whole = self.whole;
        let original = self.original(like, operand, stage);
        let from = self.value(like.operands[0], Some(whole.instr(original).operands[0]), stage);
        let kind = self.kinds.insert_full(kind(like), ()).0;
        if let Some(&made) = self.copies.get(&(original, kind, stage)) {
            return made;
        }
        let mut new = whole.instr(original).clone();
        take(&mut new, like);
        new.operands[0] = from;
        new.name = self.names.derive(&new.name, "again");
        new.set_note(notes::REMADE, &whole.instr(original).name);
        // As in the plan, of whose layers blocks have other numbers.
        let is_part = new.op.def().fusion == FusionKind::Free;
        let block = whole.instr(self.reader).note(notes::BLOCK).filter(|_| !is_part);
        for (key, text) in [(notes::BLOCK, block), (notes::PHASE, like.note(notes::PHASE))] {
            text.into_iter().for_each(|text| new.set_note(key, text));
        }
        self.stages.note(&mut new, stage);
        let made = self.push(new, stage, Some(planned));
        self.copies.insert((original, kind, stage), made);
        made
    }

    /// The whole program's instruction that a copy of the plan is of for a reader of `operand`.
    fn original(&self, copy: &Instr, operand: Option<InstrId>, stage: usize) -> InstrId {
        let (plan, name) = (self.plan(stage), copy.note(notes::REMADE));
        let named = plan.comp.iter().find(|(_, instr)| Some(&*instr.name) == name);
        let plain = named.and_then(|(id, _)| plan.plain[id.index()]);
        self.counterpart(plain.expect("a copy is of an instruction of the program"), operand)
    }

    /// A movement like the plan's `planned`, unless it has been made already.
    pub(super) fn movement(&mut self, from: InstrId, planned: InstrId, stage: usize) -> InstrId {
        let like = self.plan(stage).comp.instr(planned);
        self.moved(from, like, stage, Some(planned))
    }

    /// A movement like this one, which the plan has at `planned`, if it has it.
    pub(super) fn moved(
        &mut self,
        from: InstrId,
        like: &Instr,
        stage: usize,
        planned: Option<InstrId>,
    ) -> InstrId {
        let kind = self.kinds.insert_full(kind(like), ()).0;
        if let Some(&made) = self.moved.get(&(from, kind, stage)) {
            return made;
        }
        let source = &self.out[from.index()];
        let base = self.out[self.origin(from).index()].name.clone();
        let mut new = Instr {
            name: self.names.derive(&base, suffix(like)),
            operands: SmallVec::from_slice(&[from]),
            shape: source.shape.clone(),
            span: source.span,
            ..like.clone()
        };
        if let Some(block) = source.note(notes::BLOCK).map(str::to_owned) {
            new.set_note(notes::BLOCK, &block);
        }
        // Forward goes to later stages only: what an earlier one reads, it reads in its backward part.
        let home = source.note(notes::STAGE).and_then(|stage| stage.parse::<usize>().ok());
        let phase = self.whole.instr(self.reader).note(notes::PHASE).filter(|_| home > Some(stage));
        phase.into_iter().for_each(|phase| new.set_note(notes::PHASE, phase));
        self.stages.note(&mut new, stage);
        let made = self.push(new, stage, planned);
        self.moved.insert((from, kind, stage), made);
        made
    }

    /// A movement that has been made already.
    pub(super) fn made(&self, from: InstrId, like: &Instr, stage: usize) -> Option<InstrId> {
        self.moved.get(&(from, self.kinds.get_index_of(&kind(like))?, stage)).copied()
    }

    /// What a chain of movements starts from.
    fn origin(&self, mut at: InstrId) -> InstrId {
        while is_move(&self.out[at.index()]) {
            at = self.out[at.index()].operands[0];
        }
        at
    }

    /// A tuple, or an element of one, that the plan has added.
    fn tuple(&mut self, like: &Instr, planned: InstrId, stage: usize) -> InstrId {
        let key = (planned, usize::MAX, stage);
        if let Some(&made) = self.moved.get(&key) {
            return made;
        }
        let operands = like.operands.iter().map(|&operand| self.value(operand, None, stage)).collect();
        let mut new = Instr { operands, ..like.clone() };
        new.name = self.names.free(&like.name);
        self.stages.note(&mut new, stage);
        let made = self.push(new, stage, Some(planned));
        self.moved.insert(key, made);
        made
    }

    pub(super) fn push(&mut self, instr: Instr, stage: usize, like: Option<InstrId>) -> InstrId {
        self.out.push(instr);
        self.sources.push(Source { plan: self.stages.plan_of[stage], like, reader: self.reader });
        InstrId::new(self.out.len() - 1)
    }
}

fn kind(like: &Instr) -> Kind {
    let note = |key: &str| like.note(key).unwrap_or_default().to_owned();
    let target = like.sharding().map(ToString::to_string).unwrap_or_default();
    (target, note(notes::PARTIAL), note(notes::MOVE), note(notes::PHASE))
}

/// What the plan says of an instruction.
fn take(new: &mut Instr, own: &Instr) {
    new.attrs.retain(|attr| attr.key != Key::Sharding);
    if let Some(sharding) = own.attr(Key::Sharding) {
        new.set_attr(Key::Sharding, sharding.clone());
    }
    for key in NOTES {
        match own.note(key).map(str::to_owned) {
            Some(text) => new.set_note(key, &text),
            None => new.remove_note(key),
        }
    }
}

/// Movements are named after what they do to what.
fn suffix(like: &Instr) -> &'static str {
    match like.note(notes::MOVE) {
        Some("all-gather") => "ag",
        Some("all-to-all") => "a2a",
        Some("collective-permute") => "cp",
        Some("all-reduce") => "ar",
        Some("reduce-scatter") => "rs",
        Some("send") => "recv",
        _ => "sl",
    }
}
