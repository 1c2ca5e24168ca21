//! The buffers of a computation: who makes each, who reads it last in every kind of task.

use super::finder::Finder;
use phzc_cost::schedule::Part;
use phzc_ir::{CompId, Module};
use phzc_plan::derive::{Facts, Nature};

/// The kinds of tasks, in the order in which one microbatch runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A stage's forward part for one microbatch.
    Forward,
    /// Its backward part.
    Backward,
    /// The gradients of weights that a zero-bubble schedule puts off.
    WeightGradient,
    /// Once per step, after all microbatches; also a step that is not cut into tasks.
    Update,
}

impl Kind {
    /// How many there are.
    pub const N: usize = 4;
    /// All of them.
    pub const ALL: [Kind; Kind::N] = [Kind::Forward, Kind::Backward, Kind::WeightGradient, Kind::Update];

    /// The kind of a task of the schedule.
    pub fn of(part: Part) -> Kind {
        match part {
            Part::Forward => Kind::Forward,
            Part::Backward => Kind::Backward,
            Part::WeightGradient => Kind::WeightGradient,
        }
    }
}

/// One buffer on the devices of a stage.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    /// The stage.
    pub stage: usize,
    /// Bytes on one device, times the number of microbatches that a step has: whole numbers.
    pub bytes: f64,
    /// The instruction that makes it; none of what is given or received.
    pub maker: Option<usize>,
    /// How it relates to microbatches.
    pub nature: Nature,
    /// Whether it is a parameter of the computation.
    pub is_param: bool,
    /// Whether it is there throughout the step: a parameter that is no microbatch's data.
    pub is_permanent: bool,
    /// Whether it is a result of the computation.
    pub is_output: bool,
    /// The last loop that passes it on as it is, which cannot write over it.
    pub passed_on: Option<usize>,
    /// Per kind of task: the last instruction that makes or reads it.
    pub last: [Option<usize>; Kind::N],
}

impl Buffer {
    /// The first kind of task that needs it.
    pub fn first_kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| self.last[kind as usize].is_some())
    }

    /// The last kind of task that needs it, and the last instruction there.
    pub fn end(&self) -> Option<(Kind, usize)> {
        Kind::ALL.into_iter().rev().find_map(|kind| Some((kind, self.last[kind as usize]?)))
    }

    /// Notes a reader.
    pub fn is_read_by(&mut self, kind: Kind, at: usize) {
        let last = &mut self.last[kind as usize];
        *last = Some(last.map_or(at, |before| before.max(at)));
    }
}

/// All buffers of a computation.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The buffers.
    pub all: Vec<Buffer>,
    /// Per instruction: the kind of task that runs it.
    pub kinds: Vec<Kind>,
    /// Whether all microbatches share each buffer.
    pub is_shared: Vec<bool>,
    /// Per stage and kind of task that first needs it: bytes that microbatches share, by the last kind.
    pub shared: Vec<[Vec<(Kind, f64)>; Kind::N]>,
}

impl Buffers {
    /// Those of the entry.
    pub fn of_entry(module: &Module, facts: &Facts, kinds: &[Kind]) -> Buffers {
        let all = Finder::new(module, facts, module.entry, kinds).entry();
        let mut found = Buffers { all, kinds: kinds.to_vec(), ..Buffers::default() };
        found.is_shared = found.all.iter().map(|it| is_shared(it, facts, kinds)).collect();
        found.shared = found.shared_bytes(facts.header.meshes.len());
        found
    }

    /// Those of a loop's or a branch's computation, all of one task.
    pub fn of_callee(module: &Module, facts: &Facts, comp: CompId) -> Buffers {
        let kinds = vec![Kind::Update; module.comp(comp).instrs.len()];
        let all = Finder::new(module, facts, comp, &kinds).callee();
        let is_shared = vec![false; all.len()];
        Buffers { all, kinds, is_shared, shared: Vec::new() }
    }

    fn shared_bytes(&self, n_stages: usize) -> Vec<[Vec<(Kind, f64)>; Kind::N]> {
        let mut sums = vec![[[0.0; Kind::N]; Kind::N]; n_stages];
        for (it, _) in self.all.iter().zip(&self.is_shared).filter(|(_, is_shared)| **is_shared) {
            let (Some(first), Some((last, _))) = (it.first_kind(), it.end()) else { continue };
            // An output is handed over after the update, and so is a sum that another stage reads.
            let last = if it.is_output || first == last { Kind::Update } else { last };
            sums[it.stage][first as usize][last as usize] += it.bytes;
        }
        let listed = |sums: [f64; Kind::N]| {
            Kind::ALL.into_iter().zip(sums).filter(|(_, bytes)| *bytes > 0.0).collect()
        };
        sums.into_iter().map(|of_stage| of_stage.map(listed)).collect()
    }
}

/// Whether several microbatches use one buffer: an accumulator, or what each would make alike and keeps from
/// one task to another.
fn is_shared(it: &Buffer, facts: &Facts, kinds: &[Kind]) -> bool {
    let (Some(first), Some((last, _))) = (it.first_kind(), it.end()) else { return false };
    let is_accumulator = it.nature == Nature::Sum && it.maker.is_some_and(|id| kinds[id] < Kind::Update);
    facts.header.n_microbatches > 1
        && first < Kind::Update
        && it.nature != Nature::Part
        && !it.is_permanent
        && (first < last || it.is_output || is_accumulator)
}
