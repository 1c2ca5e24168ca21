//! The sweep over one task's instructions: the most that it needs, and what it leaves behind.

use super::buffers::{Buffer, Buffers, Kind};
use phzc_ir::{CompId, FusionKind, Instr, InstrId, Key, Module, Opcode};
use phzc_plan::derive::{Facts, control_flow, planned_comps};

/// A task, from when it starts. Bytes are those of all microbatches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Profile {
    /// The most that is there beyond what was.
    pub peak: f64,
    /// The instruction at which it is.
    pub at: Option<InstrId>,
    /// What it leaves behind, less what it frees.
    pub net: f64,
}

/// One profile per stage and kind of task, and the updates of device groups.
#[derive(Debug)]
pub struct Profiles {
    /// Per stage; those of updates are empty.
    pub tasks: Vec<[Profile; Kind::N]>,
    /// Per device group.
    pub updates: Vec<Profile>,
}

impl Profiles {
    /// Those of the entry.
    pub fn new(module: &Module, facts: &Facts, buffers: &Buffers) -> Profiles {
        let inside = inside(module, facts);
        let sweep = Sweep::new(module, module.entry, buffers, &inside);
        let n_stages = facts.header.meshes.len();
        let mut listed: Vec<[Vec<InstrId>; Kind::N]> = vec![Default::default(); n_stages];
        let mut updates = vec![Vec::new(); facts.header.n_groups()];
        for (id, _) in module.entry().iter() {
            let (kind, stage) =
                (buffers.kinds[id.index()], facts.comps[module.entry.index()][id.index()].stage);
            match kind {
                Kind::Update => updates[facts.header.group(stage)].push(id),
                _ => listed[stage][kind as usize].push(id),
            }
        }
        let task = |stage: usize, kind: Kind| match kind {
            Kind::Update => Profile::default(),
            _ => sweep.task(kind, &|it| it == stage, &listed[stage][kind as usize]),
        };
        let update = |(group, ids): (usize, &Vec<InstrId>)| {
            sweep.task(Kind::Update, &|stage| facts.header.group(stage) == group, ids)
        };
        Profiles {
            tasks: (0..n_stages).map(|stage| Kind::ALL.map(|kind| task(stage, kind))).collect(),
            updates: updates.iter().enumerate().map(update).collect(),
        }
    }
}

/// Per computation of a loop or a branch: what it needs beyond what it is passed.
fn inside(module: &Module, facts: &Facts) -> Vec<f64> {
    let mut found = vec![0.0; module.comps.len()];
    let roles = roles(module);
    for comp in planned_comps(module).into_iter().filter(|&comp| comp != module.entry) {
        let mut buffers = Buffers::of_callee(module, facts, comp);
        let all = buffers.all.iter_mut();
        match roles[comp.index()] {
            Role::Body => {}
            // What a branch or a condition is passed is still its caller's.
            Role::Condition => all.filter(|it| it.is_param).for_each(|it| it.is_permanent = true),
            // A branch writes its results where the conditional has them.
            Role::Branch => {
                all.filter(|it| it.is_param || it.is_output).for_each(|it| it.is_permanent = true)
            }
        }
        let ids: Vec<InstrId> = module.comp(comp).iter().map(|(id, _)| id).collect();
        let passed = buffers.all.iter().filter(|it| it.is_param && !it.is_permanent && it.end().is_some());
        let passed: f64 = passed.map(|it| it.bytes).sum();
        let sweep = Sweep::new(module, comp, &buffers, &found);
        found[comp.index()] = (sweep.task(Kind::Update, &|_| true, &ids).peak - passed).max(0.0);
    }
    found
}

/// What a computation is to the instruction that runs it.
#[derive(Clone, Copy)]
enum Role {
    Body,
    Condition,
    Branch,
}

fn roles(module: &Module) -> Vec<Role> {
    let mut found = vec![Role::Branch; module.comps.len()];
    for instr in module.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| it.op == Opcode::While) {
        for (key, role) in [(Key::Condition, Role::Condition), (Key::Body, Role::Body)] {
            instr.comp(key).into_iter().for_each(|comp| found[comp.index()] = role);
        }
    }
    found
}

struct Sweep<'a> {
    module: &'a Module,
    comp: CompId,
    buffers: &'a Buffers,
    /// Per computation: what it needs beyond what it is passed.
    inside: &'a [f64],
    /// Per instruction: buffers that it makes.
    made: Vec<Vec<usize>>,
    /// Per instruction: buffers that it needs as the last one.
    dying: Vec<Vec<usize>>,
    /// Per kind of task: buffers that are there when it starts.
    given: [Vec<usize>; Kind::N],
    /// Per kind of task: the step's data, which is freed when it ends.
    released: [Vec<usize>; Kind::N],
}

impl<'a> Sweep<'a> {
    fn new(module: &'a Module, comp: CompId, buffers: &'a Buffers, inside: &'a [f64]) -> Sweep<'a> {
        let lists = || vec![Vec::new(); module.comp(comp).instrs.len()];
        let (given, released) = (Default::default(), Default::default());
        let mut sweep =
            Sweep { module, comp, buffers, inside, made: lists(), dying: lists(), given, released };
        for (index, it) in buffers.all.iter().enumerate().filter(|(_, it)| !it.is_permanent) {
            sweep.add(index, it);
        }
        sweep
    }

    fn add(&mut self, index: usize, it: &Buffer) {
        let (Some(first), Some((kind, last))) = (it.first_kind(), it.end()) else { return };
        let is_shared = self.buffers.is_shared[index];
        match it.maker {
            _ if is_shared => {}
            Some(maker) if self.buffers.kinds[maker] == first => self.made[maker].push(index),
            // Received, a microbatch's data, or of constants that the task makes for itself.
            _ => self.given[first as usize].push(index),
        }
        match it.is_param && self.comp == self.module.entry {
            _ if it.is_output || is_shared && kind != Kind::Update => {}
            true => self.released[kind as usize].push(index),
            false => self.dying[last].push(index),
        }
    }

    /// A task of the stages that are `here`.
    fn task(&self, kind: Kind, is_here: &dyn Fn(usize) -> bool, ids: &[InstrId]) -> Profile {
        let sum = |list: &[usize]| {
            let own = list.iter().map(|&it| &self.buffers.all[it]).filter(|it| is_here(it.stage));
            own.map(|it| it.bytes).sum::<f64>()
        };
        let mut now = sum(&self.given[kind as usize]);
        let mut found = Profile { peak: now, at: None, net: 0.0 };
        for &id in ids {
            let (peak, net) = self.instr(id);
            if now + peak > found.peak {
                (found.peak, found.at) = (now + peak, Some(id));
            }
            now += net;
        }
        Profile { net: now - sum(&self.released[kind as usize]), ..found }
    }

    /// The most that an instruction needs beyond what was, and what it leaves behind less what it frees.
    fn instr(&self, id: InstrId) -> (f64, f64) {
        let instr = self.module.comp(self.comp).instr(id);
        let bytes = |it: &usize| self.buffers.all[*it].bytes;
        let made: Vec<f64> = self.made[id.index()].iter().map(bytes).collect();
        let is_in_use = |it: &&usize| {
            let own = &self.buffers.all[**it];
            own.maker == Some(id.index()) || own.passed_on == Some(id.index())
        };
        let (in_use, dying): (Vec<&usize>, Vec<&usize>) = self.dying[id.index()].iter().partition(is_in_use);
        let in_use: f64 = in_use.into_iter().map(bytes).sum();
        let mut dying: Vec<f64> = dying.into_iter().map(bytes).collect();
        let in_place = if is_in_place(instr) { overwritten(&made, &mut dying) } else { 0.0 };
        let more = made.iter().sum::<f64>() - in_place;
        let inside = control_flow(instr).iter().map(|it| self.inside[it.index()]).fold(0.0, f64::max);
        (more + inside, more - dying.iter().sum::<f64>() - in_use)
    }
}

/// Whether an op can write over an operand.
fn is_in_place(instr: &Instr) -> bool {
    instr.op == Opcode::While || matches!(instr.op.def().fusion, FusionKind::Loop | FusionKind::Root)
}

/// Bytes of results that take the place of an operand of the same size that dies here, which then dies no
/// more.
fn overwritten(made: &[f64], dying: &mut Vec<f64>) -> f64 {
    let mut sum = 0.0;
    for &bytes in made.iter().filter(|bytes| **bytes > 0.0) {
        if let Some(at) = dying.iter().position(|&other| other == bytes) {
            sum += dying.swap_remove(at);
        }
    }
    sum
}
