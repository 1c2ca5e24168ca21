//! From the plan of a short program to that of the whole one: every instruction takes its layout, and what brings its
//! operands to where it wants them, from the one that stands for it.

use super::short::Short;
use crate::derive::{control_flow, is_move};
use crate::partial;
use indexmap::IndexMap;
use phzc_ir::edit::Names;
use phzc_ir::{Computation, Instr, InstrId, Key, Module, Opcode, Sharding, Tiling, TilingKind, Value};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Notes that a plan puts on instructions.
const NOTES: [&str; 2] = ["phzc.strategy", "phzc.partial"];

/// The stages of the whole program.
pub struct Stages {
    /// How many.
    pub n: usize,
    /// The stage of each instruction of the whole entry.
    pub of: Vec<usize>,
}

/// Where an instruction of an expanded program comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The plan's instruction that it is like.
    pub like: InstrId,
    /// The whole program's instruction that it is, or that reads it first.
    pub reader: InstrId,
}

/// The whole program, which has no layouts, as the plan of the short one says; and where each instruction of its entry comes from.
pub fn expand(whole: &Module, short: &Short, plan: &Module, stages: &Stages) -> (Module, Vec<Source>) {
    let mut writer = Writer {
        whole: whole.entry(),
        short,
        stages,
        template: Template::new(&short.module, plan),
        out: Vec::with_capacity(2 * whole.entry().instrs.len()),
        sources: Vec::with_capacity(2 * whole.entry().instrs.len()),
        reader: InstrId::new(0),
        map: Vec::with_capacity(whole.entry().instrs.len()),
        moved: IndexMap::default(),
        kinds: IndexMap::default(),
        names: Names::of(whole.entry()),
    };
    whole.entry().iter().for_each(|(id, instr)| writer.instr(id, instr));
    let root = writer.handed_over();
    let mut found = whole.without_entry();
    let entry = &mut found.comps[whole.entry.index()];
    (entry.root, entry.instrs) = (root, writer.out);
    write_loops(&mut found, whole, plan, stages);
    plan.attr("num_partitions").into_iter().for_each(|text| found.set_attr("num_partitions", text));
    (found, writer.sources)
}

/// Loops and branches are as the plan has them: they are in no layer that others stand for.
fn write_loops(found: &mut Module, whole: &Module, plan: &Module, stages: &Stages) {
    for (id, instr) in whole.entry().iter() {
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
    /// Notes an instruction's stage, if there are several.
    fn note(&self, instr: &mut Instr, stage: usize) {
        if self.n > 1 {
            instr.set_note("phzc.stage", &stage.to_string());
        }
    }
}

/// A plan, and which of its instructions are those of the program.
struct Template<'a> {
    comp: &'a Computation,
    /// Per instruction of the program: where the plan has it.
    at: Vec<InstrId>,
    /// Per instruction of the plan: the program's, if it is one of them.
    plain: Vec<Option<InstrId>>,
}

impl<'a> Template<'a> {
    fn new(plain: &Module, plan: &'a Module) -> Template<'a> {
        let comp = plan.entry();
        let by_name: IndexMap<&str, InstrId, FxBuildHasher> =
            comp.iter().map(|(id, instr)| (&*instr.name, id)).collect();
        let at: Vec<InstrId> = plain.entry().instrs.iter().map(|instr| by_name[&*instr.name]).collect();
        let mut found = vec![None; comp.instrs.len()];
        at.iter().enumerate().for_each(|(own, at)| found[at.index()] = Some(InstrId::new(own)));
        Template { comp, at, plain: found }
    }
}

/// A movement, as far as equal ones are made once: to where, how, and for whom.
type Kind = (String, String, String, String);

struct Writer<'a> {
    whole: &'a Computation,
    short: &'a Short,
    stages: &'a Stages,
    template: Template<'a>,
    /// The new instructions.
    out: Vec<Instr>,
    /// Where they come from.
    sources: Vec<Source>,
    /// The whole program's instruction that is being written.
    reader: InstrId,
    /// Old ids to new ones.
    map: Vec<InstrId>,
    /// What has been moved: from where, how, in which stage.
    moved: IndexMap<(InstrId, usize, usize), InstrId, FxBuildHasher>,
    kinds: IndexMap<Kind, (), FxBuildHasher>,
    names: Names,
}

impl Writer<'_> {
    fn instr(&mut self, id: InstrId, instr: &Instr) {
        let stage = self.stages.of[id.index()];
        let comp = self.template.comp;
        let mut new = instr.clone();
        let mut like = comp.root;
        self.reader = id;
        if id == self.whole.root && instr.op == Opcode::Tuple {
            self.root(&mut new, comp.root(), stage);
        } else {
            like = self.template.at[self.stand(id, id).index()];
            for (at, &operand) in instr.operands.iter().enumerate() {
                let reader = comp.instr(self.template.at[self.stand(id, operand).index()]);
                new.operands[at] = self.value(reader.operands[at], Some(operand), stage);
            }
            take(&mut new, comp.instr(like));
        }
        self.stages.note(&mut new, stage);
        let made = self.push(new, like);
        self.map.push(made);
    }

    /// Who stands for an instruction where it reads an operand.
    fn stand(&self, id: InstrId, operand: InstrId) -> InstrId {
        let (short, stands) = (self.short, self.short.stands[id.index()]);
        let layer = |id: InstrId| short.layer_of[id.index()];
        match (layer(id), layer(operand)) {
            (Some(1), _) => stands[0],
            (Some(own), Some(other)) if other > own && own + 2 < short.n_layers => stands[0],
            _ => stands[1],
        }
    }

    /// The root hands all results over, each as that which stands for it is.
    fn root(&mut self, new: &mut Instr, own: &Instr, stage: usize) {
        let places = self.root_places();
        let n_leaves: Vec<usize> = own.shape.parts().iter().map(phzc_ir::Shape::n_leaves).collect();
        let starts = own.shape.part_starts();
        let all = n_leaves.iter().sum();
        let given = own.sharding().map(|sharding| sharding.leaves(all)).unwrap_or_default();
        let sums = partial::read(own, all).expect("the plan's own note");
        let (mut tilings, mut partials) = (Vec::new(), Vec::new());
        let operands: Vec<InstrId> = new.operands.to_vec();
        for (at, operand) in operands.into_iter().enumerate() {
            let place = places[at];
            new.operands[at] = self.value(own.operands[place], Some(operand), stage);
            let leaves = starts[place]..starts[place] + n_leaves[place];
            let tiling = |leaf: usize| given.get(leaf).map_or_else(replicated, |tiling| (*tiling).clone());
            tilings.extend(leaves.clone().map(tiling));
            partials.extend_from_slice(&sums[leaves]);
        }
        take(new, own);
        new.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(new, &partials);
    }

    /// The entry's root; where it is an array that the plan brings to another layout, the movement.
    fn handed_over(&mut self) -> InstrId {
        let root = self.whole.root;
        match self.whole.root().op {
            Opcode::Tuple => self.map[root.index()],
            _ => self.value(self.template.comp.root, Some(root), self.stages.of[root.index()]),
        }
    }

    /// Per result of the whole program: which of the short one's stands for it.
    fn root_places(&self) -> Vec<usize> {
        let short = self.short;
        let mut place_of: IndexMap<InstrId, usize, FxBuildHasher> = IndexMap::default();
        let plain = short.module.entry().root().operands.iter().enumerate();
        plain.for_each(|(at, &operand)| *place_of.entry(operand).or_insert(at) += 0);
        let mut n_kept = 0;
        let place = |&operand: &InstrId| {
            if short.is_dropped(operand) {
                return place_of[&short.stands[operand.index()][1]];
            }
            n_kept += 1;
            n_kept - 1
        };
        self.whole.root().operands.iter().map(place).collect()
    }

    /// What the plan's instruction `planned` is for a reader: `operand` of the whole program, or that which it stands for,
    /// brought to where it is wanted.
    fn value(&mut self, planned: InstrId, operand: Option<InstrId>, stage: usize) -> InstrId {
        let instr = self.template.comp.instr(planned);
        if let Some(plain) = self.template.plain[planned.index()] {
            return self.map[operand.unwrap_or(self.short.whole_of[plain.index()]).index()];
        }
        if !is_move(instr) {
            return self.tuple(instr, planned, stage);
        }
        let from = self.value(instr.operands[0], operand, stage);
        self.movement(from, planned, stage)
    }

    /// A movement like the plan's `planned`, unless it has been made already.
    fn movement(&mut self, from: InstrId, planned: InstrId, stage: usize) -> InstrId {
        let like = self.template.comp.instr(planned);
        let note = |key: &str| like.note(key).unwrap_or_default().to_owned();
        let target = like.sharding().map(ToString::to_string).unwrap_or_default();
        let kind = (target, note("phzc.partial"), note("phzc.move"), note("phzc.phase"));
        let kind = self.kinds.insert_full(kind, ()).0;
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
        if let Some(block) = source.note("phzc.block").map(str::to_owned) {
            new.set_note("phzc.block", &block);
        }
        self.stages.note(&mut new, stage);
        let made = self.push(new, planned);
        self.moved.insert((from, kind, stage), made);
        made
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
        let made = self.push(new, planned);
        self.moved.insert(key, made);
        made
    }

    fn push(&mut self, instr: Instr, like: InstrId) -> InstrId {
        self.out.push(instr);
        self.sources.push(Source { like, reader: self.reader });
        InstrId::new(self.out.len() - 1)
    }
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
    match like.note("phzc.move") {
        Some("all-gather") => "ag",
        Some("all-to-all") => "a2a",
        Some("collective-permute") => "cp",
        Some("all-reduce") => "ar",
        Some("reduce-scatter") => "rs",
        _ => "sl",
    }
}

fn replicated() -> Tiling {
    Tiling { kind: TilingKind::Replicated, suffix: None }
}
