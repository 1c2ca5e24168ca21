//! From plans of a short program to the plan of the whole one: every instruction takes its layout, and what brings its
//! operands to where it wants them, from the one that stands for it.
//!
//! Stages may follow different plans. What goes from a stage to one with another plan is summed first, if that is still to
//! be done, and lands as its reader wants it (`phzc.move="send"`).

use super::short::Short;
use crate::derive::is_move;
use crate::partial;
use indexmap::IndexMap;
use phzc_ir::edit::Names;
use phzc_ir::{
    Attr, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Sharding, Tiling, TilingKind, Value,
};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// Notes that a plan puts on instructions.
const NOTES: [&str; 2] = ["phzc.strategy", "phzc.partial"];

/// Which plan, and which stage, the instructions of the whole entry have.
pub struct Parts<'a> {
    /// Plans of the short program.
    pub plans: Vec<&'a Module>,
    /// The plan of each stage, a position in `plans`.
    pub plan_of: Vec<usize>,
    /// The stage of each instruction of the whole entry.
    pub stage_of: Vec<usize>,
}

/// The whole program as planned; `None` where a stage wants of another one what cannot be sent: a sum still to be done.
///
/// `whole` has no layouts; `short` is what the plans are of, the whole program itself if there is none.
pub fn expand(whole: &Module, short: Option<&Short>, parts: &Parts) -> Option<Module> {
    let plain = short.map_or(whole, |short| &short.module);
    let templates: Vec<Template> = parts.plans.iter().map(|plan| Template::new(plain, plan)).collect();
    let itself = || (0..whole.entry().instrs.len()).map(InstrId::new).collect();
    let whole_of = short.map_or_else(itself, |short| short.whole_of.clone());
    let mut writer = Writer {
        whole: whole.entry(),
        short,
        parts,
        templates: &templates,
        whole_of,
        out: Vec::with_capacity(2 * whole.entry().instrs.len()),
        map: Vec::with_capacity(whole.entry().instrs.len()),
        moved: IndexMap::default(),
        kinds: IndexMap::default(),
        names: Names::of(whole.entry()),
    };
    whole.entry().iter().try_for_each(|(id, instr)| writer.instr(id, instr))?;
    let root = writer.handed_over()?;
    let mut found = whole.clone();
    let entry = &mut found.comps[whole.entry.index()];
    (entry.root, entry.instrs) = (root, writer.out);
    write_loops(&mut found, whole, parts, short);
    let n_partitions = parts.plans.first().and_then(|plan| plan.attr("num_partitions"));
    n_partitions.into_iter().for_each(|text| found.set_attr("num_partitions", text));
    Some(found)
}

/// Loops and branches are those of the plan of the stage that runs them.
fn write_loops(found: &mut Module, whole: &Module, parts: &Parts, short: Option<&Short>) {
    for (id, instr) in whole.entry().iter() {
        let mut todo: Vec<_> = crate::derive::control_flow(instr).into_iter().collect();
        let plan = parts.plans[parts.plan_of[parts.stage_of[id.index()]]];
        debug_assert!(todo.is_empty() || short.is_none_or(|short| !short.is_dropped(id)));
        while let Some(comp) = todo.pop() {
            found.comps[comp.index()] = plan.comp(comp).clone();
            if parts.plan_of.len() > 1 {
                let stage = parts.stage_of[id.index()].to_string();
                let instrs = &mut found.comps[comp.index()].instrs;
                instrs.iter_mut().for_each(|instr| instr.set_note("phzc.stage", &stage));
            }
            todo.extend(plan.comp(comp).instrs.iter().flat_map(crate::derive::control_flow));
        }
    }
}

fn stands(short: Option<&Short>, id: InstrId) -> [InstrId; 2] {
    short.map_or([id; 2], |short| short.stands[id.index()])
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
    short: Option<&'a Short>,
    parts: &'a Parts<'a>,
    templates: &'a [Template<'a>],
    /// Per instruction of the short program: itself in the whole.
    whole_of: Vec<InstrId>,
    out: Vec<Instr>,
    /// Old ids to new ones.
    map: Vec<InstrId>,
    /// What has been moved: from where, how, in which stage.
    moved: IndexMap<(InstrId, usize, usize), InstrId, FxBuildHasher>,
    kinds: IndexMap<Kind, (), FxBuildHasher>,
    names: Names,
}

/// A reading: who reads in which stage, by which plan.
#[derive(Clone, Copy)]
struct Reading {
    stage: usize,
    plan: usize,
}

impl Writer<'_> {
    fn instr(&mut self, id: InstrId, instr: &Instr) -> Option<()> {
        let stage = self.parts.stage_of[id.index()];
        let reading = Reading { stage, plan: self.parts.plan_of[stage] };
        let template = &self.templates[reading.plan];
        let own = template.comp.instr(template.at[self.stand(id, id).index()]);
        let mut new = instr.clone();
        if id == self.whole.root && instr.op == Opcode::Tuple {
            self.root(&mut new, template.comp.root(), reading)?;
        } else {
            for (at, &operand) in instr.operands.iter().enumerate() {
                let reader = template.comp.instr(template.at[self.stand(id, operand).index()]);
                new.operands[at] = self.value(reader.operands[at], Some(operand), reading)?;
            }
            take(&mut new, own);
        }
        self.stage(&mut new, stage);
        self.out.push(new);
        self.map.push(InstrId::new(self.out.len() - 1));
        Some(())
    }

    fn stage(&self, instr: &mut Instr, stage: usize) {
        if self.parts.plan_of.len() > 1 {
            instr.set_note("phzc.stage", &stage.to_string());
        }
    }

    /// Who stands for an instruction where it reads an operand.
    fn stand(&self, id: InstrId, operand: InstrId) -> InstrId {
        let stands = stands(self.short, id);
        let Some(short) = self.short else { return stands[0] };
        let layer = |id: InstrId| short.layer_of[id.index()];
        match (layer(id), layer(operand)) {
            (Some(1), _) => stands[0],
            (Some(own), Some(other)) if other > own && own + 2 < short.n_layers => stands[0],
            _ => stands[1],
        }
    }

    /// The root hands all results over, each as that which stands for it is.
    fn root(&mut self, new: &mut Instr, own: &Instr, reading: Reading) -> Option<()> {
        let places = self.root_places();
        let n_leaves: Vec<usize> = own.shape.parts().iter().map(phzc_ir::Shape::n_leaves).collect();
        let starts = own.shape.part_starts();
        let all = n_leaves.iter().sum();
        let given = own.sharding().map(|sharding| sharding.leaves(all)).unwrap_or_default();
        let sums = partial::read(own, all).ok()?;
        let (mut tilings, mut partials) = (Vec::new(), Vec::new());
        let operands: Vec<InstrId> = new.operands.to_vec();
        for (at, operand) in operands.into_iter().enumerate() {
            let place = places[at];
            new.operands[at] = self.value(own.operands[place], Some(operand), reading)?;
            let leaves = starts[place]..starts[place] + n_leaves[place];
            let tiling = |leaf: usize| given.get(leaf).map_or_else(replicated, |tiling| (*tiling).clone());
            tilings.extend(leaves.clone().map(tiling));
            partials.extend_from_slice(&sums[leaves]);
        }
        take(new, own);
        new.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(new, &partials);
        Some(())
    }

    /// The entry's root; where it is an array that a plan brings to another layout, the movement.
    fn handed_over(&mut self) -> Option<InstrId> {
        let (root, stage) = (self.whole.root, self.parts.stage_of[self.whole.root.index()]);
        let reading = Reading { stage, plan: self.parts.plan_of[stage] };
        match self.whole.root().op {
            Opcode::Tuple => Some(self.map[root.index()]),
            _ => self.value(self.templates[reading.plan].comp.root, Some(root), reading),
        }
    }

    /// Per result of the whole program: which of the short one's stands for it.
    fn root_places(&self) -> Vec<usize> {
        let Some(short) = self.short else { return (0..self.whole.root().operands.len()).collect() };
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

    /// What a plan's instruction `planned` is for a reader: `operand` of the whole program, or that which it stands for,
    /// brought to where it is wanted.
    fn value(&mut self, planned: InstrId, operand: Option<InstrId>, reading: Reading) -> Option<InstrId> {
        let template = &self.templates[reading.plan];
        let instr = template.comp.instr(planned);
        if let Some(plain) = template.plain[planned.index()] {
            let source = operand.unwrap_or(self.whole_of[plain.index()]);
            return self.arrived(source, planned, reading);
        }
        if !is_move(instr) {
            return self.tuple(instr, planned, reading);
        }
        if let Some(source) = self.foreign(planned, operand, reading) {
            return self.sent(source, instr, reading);
        }
        let from = self.value(instr.operands[0], operand, reading)?;
        Some(self.movement(from, instr, reading.stage))
    }

    /// Where a movement starts, if that is in a stage of another plan.
    fn foreign(&self, planned: InstrId, operand: Option<InstrId>, reading: Reading) -> Option<InstrId> {
        let template = &self.templates[reading.plan];
        let mut at = planned;
        while template.plain[at.index()].is_none() && is_move(template.comp.instr(at)) {
            at = template.comp.instr(at).operands[0];
        }
        let source = operand.unwrap_or(self.whole_of[template.plain[at.index()]?.index()]);
        self.is_foreign(source, reading).then_some(source)
    }

    fn is_foreign(&self, source: InstrId, reading: Reading) -> bool {
        self.parts.plan_of[self.parts.stage_of[source.index()]] != reading.plan
    }

    /// A value that is read as it was made, in this plan or in another.
    fn arrived(&mut self, source: InstrId, planned: InstrId, reading: Reading) -> Option<InstrId> {
        let is_array = self.whole.instr(source).shape.as_array().is_some();
        match self.is_foreign(source, reading) && is_array {
            true => self.sent(source, self.templates[reading.plan].comp.instr(planned), reading),
            false => Some(self.map[source.index()]),
        }
    }

    /// A value from a stage of another plan, as `wanted` lies.
    fn sent(&mut self, source: InstrId, wanted: &Instr, reading: Reading) -> Option<InstrId> {
        if partial::is_noted(wanted) {
            return None;
        }
        let mut at = self.map[source.index()];
        if partial::is_noted(&self.out[at.index()]) {
            let mut sum = marker(&self.out[at.index()].clone(), "all-reduce");
            sum.set_note("phzc.phase", self.out[at.index()].note("phzc.phase").unwrap_or("fwd"));
            at = self.movement(at, &sum, self.parts.stage_of[source.index()]);
        }
        let mut send = marker(wanted, "send");
        send.set_note("phzc.phase", wanted.note("phzc.phase").unwrap_or("fwd"));
        Some(self.movement(at, &send, reading.stage))
    }

    /// A movement like the plan's `like`, unless it has been made already.
    fn movement(&mut self, from: InstrId, like: &Instr, stage: usize) -> InstrId {
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
        self.stage(&mut new, stage);
        let made = self.push(new);
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
    fn tuple(&mut self, like: &Instr, planned: InstrId, reading: Reading) -> Option<InstrId> {
        let key = (InstrId::new(planned.index()), usize::MAX, reading.plan);
        if let Some(&made) = self.moved.get(&key) {
            return Some(made);
        }
        let operands = like.operands.clone();
        let operands = operands.into_iter().map(|operand| self.value(operand, None, reading));
        let mut new = Instr { operands: operands.collect::<Option<_>>()?, ..like.clone() };
        new.name = self.names.free(&like.name);
        self.stage(&mut new, reading.stage);
        let made = self.push(new);
        self.moved.insert(key, made);
        Some(made)
    }

    fn push(&mut self, instr: Instr) -> InstrId {
        self.out.push(instr);
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

/// A change of layout to that of `wanted`.
fn marker(wanted: &Instr, kind: &str) -> Instr {
    let mut attrs = vec![Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) }];
    let sharding = wanted.attr(Key::Sharding).cloned();
    attrs.extend(sharding.map(|value| Attr { key: Key::Sharding, value }));
    let mut instr = Instr {
        name: wanted.name.clone(),
        op: Opcode::CustomCall,
        operands: SmallVec::new(),
        shape: wanted.shape.clone(),
        payload: Payload::None,
        attrs,
        span: wanted.span,
    };
    instr.set_note("phzc.move", kind);
    instr
}

/// Movements are named after what they do to what.
fn suffix(like: &Instr) -> &'static str {
    match like.note("phzc.move") {
        Some("all-gather") => "ag",
        Some("all-to-all") => "a2a",
        Some("collective-permute") => "cp",
        Some("all-reduce") => "ar",
        Some("reduce-scatter") => "rs",
        Some("send") => "send",
        _ => "sl",
    }
}

fn replicated() -> Tiling {
    Tiling { kind: TilingKind::Replicated, suffix: None }
}
