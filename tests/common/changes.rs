//! Plans in which one opcode, operand or constant is another one: well-typed, and laid out as before.

use super::other_inputs::OtherInputs;
use super::{Random, plan, program, root};
use phzc_cost::Cluster;
use phzc_ir::eval::is_elementwise;
use phzc_ir::flops::totals;
use phzc_ir::opcode::Arity;
use phzc_ir::{CompId, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Value, View, parse, verify};
use phzc_passes::inline::flatten;
use phzc_passes::verify::shrink::shrink_plan;
use phzc_passes::verify::{LEAST, Settings, Verdict, verify as verify_plan};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// How often a place is drawn, at most, until something can be changed there.
const MAX_DRAWS: usize = 1000;
/// Programs with more operations are run with smaller sizes.
const MAX_FLOPS: f64 = 5e7;
/// Directions of comparisons.
const DIRECTIONS: [&str; 6] = ["EQ", "NE", "LT", "LE", "GT", "GE"];

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Another opcode of the same operands and result, or another direction of a comparison.
    Opcode,
    /// Another operand of the same type and layout, or two operands exchanged.
    Operand,
    /// Another number in a constant.
    Constant,
}

/// A changed program.
pub struct Change {
    pub kind: Kind,
    /// `add.3 = add -> maximum`
    pub what: String,
    pub module: Module,
}

/// Changes one instruction at random, in a way that the verifier has nothing against.
pub fn changed(module: &Module, kind: Kind, random: &mut Random) -> Option<Change> {
    let sizes: Vec<usize> = module.comps.iter().map(|comp| comp.instrs.len()).collect();
    for _ in 0..MAX_DRAWS {
        let mut at = random.below(sizes.iter().sum());
        let mut comp = 0;
        while at >= sizes[comp] {
            at -= sizes[comp];
            comp += 1;
        }
        let (comp, id) = (CompId::new(comp), InstrId::new(at));
        let old = module.comp(comp).instr(id);
        if old.note("phzc.move").is_some() {
            continue;
        }
        let found = match kind {
            Kind::Opcode => other_opcode(module, comp, id, random),
            Kind::Operand => other_operand(module, comp, id, random),
            Kind::Constant => other_constant(old, random),
        };
        let Some((new, what)) = found else { continue };
        let what = format!("{} = {} {what}", old.name, old.op.as_str());
        let mut module = module.clone();
        module.comps[comp.index()].instrs[id.index()] = new;
        if verify(&module).is_empty() {
            return Some(Change { kind, what, module });
        }
    }
    None
}

fn other_opcode(module: &Module, comp: CompId, id: InstrId, random: &mut Random) -> Option<(Instr, String)> {
    let mut instr = module.comp(comp).instr(id).clone();
    if instr.op == Opcode::Compare {
        let old = instr.word(Key::Direction)?.to_owned();
        let new = *DIRECTIONS.iter().filter(|new| **new != old).nth(random.below(DIRECTIONS.len() - 1))?;
        instr.set_attr(Key::Direction, Value::Word(new.into()));
        return Some((instr, format!("{old} -> {new}")));
    }
    if !is_elementwise(instr.op) {
        return None;
    }
    let old = instr.clone();
    let is_alike = |&&op: &&Opcode| {
        let instr = Instr { op, ..old.clone() };
        let view = View { instr: &instr, ..View::new(module, comp, id) };
        let is_typed = || matches!((op.def().infer)(&view), Ok(Some(shape)) if shape.same_type(&old.shape));
        let fits = matches!(op.def().arity, Arity::Exactly(n) if n == old.operands.len());
        op != old.op && op != Opcode::Compare && is_elementwise(op) && fits && is_typed()
    };
    let alike: Vec<Opcode> = Opcode::ALL.iter().filter(is_alike).copied().collect();
    instr.op = *alike.get(random.below(alike.len()))?;
    let what = format!("-> {}", instr.op.as_str());
    Some((instr, what))
}

fn other_operand(module: &Module, comp: CompId, id: InstrId, random: &mut Random) -> Option<(Instr, String)> {
    let body = module.comp(comp);
    let mut instr = body.instr(id).clone();
    if instr.op == Opcode::Tuple || instr.operands.is_empty() {
        return None;
    }
    let at = random.below(instr.operands.len());
    let old = instr.operands[at];
    let place = |id: InstrId| {
        let instr = body.instr(id);
        (instr.attr(Key::Sharding), ["phzc.stage", "phzc.phase", "phzc.partial"].map(|note| instr.note(note)))
    };
    let is_alike = |new: &InstrId| {
        let shape = &body.instr(*new).shape;
        *new != old
            && matches!(shape, Shape::Array(_))
            && shape.same_type(&body.instr(old).shape)
            && place(*new) == place(old)
    };
    let alike: Vec<InstrId> = (0..id.index()).map(InstrId::new).filter(is_alike).collect();
    let new = *alike.get(random.below(alike.len()))?;
    // Where the new one is an operand too, the two change places.
    if let Some(other) = instr.operands.iter().position(|&other| other == new) {
        instr.operands[other] = old;
    }
    instr.operands[at] = new;
    let what = format!("operand {at}: {} -> {}", body.instr(old).name, body.instr(new).name);
    Some((instr, what))
}

fn other_constant(old: &Instr, random: &mut Random) -> Option<(Instr, String)> {
    let Payload::Literal(text) = &old.payload else { return None };
    let is_scalar = old.shape.as_array().is_some_and(|shape| shape.rank() == 0);
    let new = match (&**text, is_scalar) {
        (_, false) => return None,
        ("true", _) => "false".to_owned(),
        ("false", _) => "true".to_owned(),
        (number, _) if number.parse::<i64>().is_ok() && !old.shape.as_array()?.dtype.is_inexact() => {
            let number: i64 = number.parse().ok()?;
            (number + [1, -1, 3][random.below(3)]).to_string()
        }
        (number, _) => {
            let number: f64 = number.parse().ok()?;
            let new = [3.0 * number, -number, number + 1.0, 1.01 * number, 0.0][random.below(5)];
            if new == number || !number.is_finite() {
                return None;
            }
            format!("{new:?}")
        }
    };
    let what = format!("{text} -> {new}");
    Some((Instr { payload: Payload::Literal(new.into()), ..old.clone() }, what))
}

/// All kinds of changes.
pub const KINDS: [Kind; 3] = [Kind::Opcode, Kind::Operand, Kind::Constant];

/// A program and a plan of it.
pub struct Base {
    pub name: String,
    original: Module,
    planned: Module,
    others: OnceLock<OtherInputs>,
}

/// What became of a changed plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// `verify` says that it differs.
    Differs,
    /// `verify` cannot run it.
    Refused,
    /// `verify` says that it is equal, and so it is on all inputs that were tried.
    Equal,
    /// `verify` says that it is equal, but on other inputs it is not.
    Missed(String),
}

/// A changed plan.
pub struct Case {
    pub base: String,
    pub kind: Kind,
    pub what: String,
    pub fate: Fate,
}

/// The plans of programs that are there.
pub fn bases(programs: &[&str], pipelines: &[&str]) -> Vec<Base> {
    let cluster = include_str!("../clusters/slow-8.toml");
    let cluster = Cluster::from_toml(cluster).expect("a legal cluster");
    let mut bases = Vec::new();
    for path in programs.iter().map(|path| root().join(path)).filter(|path| path.exists()) {
        let original = parse(&program(&path)).expect("a legal program");
        for pipeline in pipelines {
            let Ok(planned) = plan(&original, pipeline, &cluster) else { continue };
            let name = format!("{} {pipeline}", path.file_name().unwrap_or_default().display());
            let [original, planned] = small(original.clone(), planned);
            bases.push(Base { name, original, planned, others: OnceLock::new() });
        }
    }
    bases
}

/// Both with smaller sizes, as `verify` runs large programs, where they have more operations than a change is
/// worth.
fn small(mut original: Module, mut planned: Module) -> [Module; 2] {
    if totals(&original).with_trips.flops <= MAX_FLOPS {
        return [original, planned];
    }
    flatten(&mut original).expect("examples stay small");
    flatten(&mut planned).expect("examples stay small");
    shrink_plan(&original, &planned, LEAST).expect("a plan of phzc's")
}

/// So many changes, of each plan and kind in turn.
pub fn cases(bases: &[Base], n_cases: usize) -> Vec<Case> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= n_cases {
                return;
            }
            let made = case(&bases[number / KINDS.len() % bases.len()], number);
            found.lock().expect("no case panics").extend(made.map(|made| (number, made)));
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().expect("no case panics").into_values().collect()
}

fn case(base: &Base, number: usize) -> Option<Case> {
    let kind = KINDS[number % KINDS.len()];
    let Change { what, module, .. } = changed(&base.planned, kind, &mut Random(number as u64))?;
    let fate = match verify_plan(&base.original, &module, &Settings::default()) {
        Err(_) => Fate::Refused,
        Ok(verified) if verified.verdict() == Verdict::Differs => Fate::Differs,
        Ok(_) => {
            let others = base.others.get_or_init(|| OtherInputs::of(&base.original, &[2, 4]));
            others.difference(&module).map_or(Fate::Equal, Fate::Missed)
        }
    };
    Some(Case { base: base.name.clone(), kind, what, fate })
}
