//! Which instructions are equal: the same op on the same operands with the same attributes.

use indexmap::IndexMap;
use phzc_ir::effects::{calls_any, has_side_effect};
use phzc_ir::{Attr, Instr, InstrId, Key, Opcode, Payload, Value};
use rustc_hash::{FxBuildHasher, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The instructions so far, by hash.
pub(crate) struct Known<'a> {
    /// Per computation whether it has an effect.
    acts: &'a [bool],
    by_hash: IndexMap<u64, SmallVec<[InstrId; 1]>, FxBuildHasher>,
}

impl<'a> Known<'a> {
    /// Nothing yet.
    pub fn new(acts: &'a [bool]) -> Known<'a> {
        Known { acts, by_hash: IndexMap::default() }
    }

    /// Equal for equal instructions; none for those that are never merged.
    pub fn hash(&self, instr: &Instr) -> Option<u64> {
        if !is_mergeable(instr) || has_side_effect(instr) || calls_any(instr, self.acts) {
            return None;
        }
        let mut hasher = FxHasher::default();
        instr.op.hash(&mut hasher);
        operands(instr).hash(&mut hasher);
        if let Payload::Literal(text) = &instr.payload {
            text.hash(&mut hasher);
        }
        if let Some(array) = instr.shape.as_array() {
            (array.dtype, &array.dims).hash(&mut hasher);
        }
        for attr in says(instr) {
            match &attr.value {
                Value::Int(int) => int.hash(&mut hasher),
                Value::Ints(ints) => ints.hash(&mut hasher),
                _ => {}
            }
        }
        Some(hasher.finish())
    }

    /// An instruction among `instrs` that this one equals.
    pub fn find(&self, hash: u64, instr: &Instr, instrs: &[Instr]) -> Option<InstrId> {
        self.by_hash.get(&hash)?.iter().copied().find(|id| is_equal(&instrs[id.index()], instr))
    }

    /// Remembers an instruction.
    pub fn insert(&mut self, hash: u64, id: InstrId) {
        self.by_hash.entry(hash).or_default().push(id);
    }
}

/// Barriers keep recomputation apart from what it recomputes; of a custom call and of elements that were left
/// out of the text nothing is known.
fn is_mergeable(instr: &Instr) -> bool {
    use Opcode::{AddDependency, AfterAll, CustomCall, Domain, OptBarrier, Parameter};
    let is_elided = matches!(&instr.payload, Payload::Literal(text) if text.contains("..."));
    let is_ordered = instr.attr(Key::ControlPredecessors).is_some();
    let is_marker =
        matches!(instr.op, AddDependency | AfterAll | CustomCall | Domain | OptBarrier | Parameter);
    !is_elided && !is_ordered && !is_marker
}

fn is_equal(a: &Instr, b: &Instr) -> bool {
    a.op == b.op
        && a.shape == b.shape
        && a.payload == b.payload
        && operands(a) == operands(b)
        && says(a).eq(says(b))
}

/// Operands, sorted where their order does not matter.
fn operands(instr: &Instr) -> SmallVec<[InstrId; 3]> {
    use Opcode::{Add, And, Maximum, Minimum, Multiply, Or, Xor};
    let mut operands = instr.operands.clone();
    if matches!(instr.op, Add | And | Maximum | Minimum | Multiply | Or | Xor) {
        operands.sort_unstable();
    }
    operands
}

/// Attributes, without those that only say where the instruction comes from.
fn says(instr: &Instr) -> impl Iterator<Item = &Attr> {
    instr.attrs.iter().filter(|attr| !is_origin(&attr.key))
}

/// Attributes that say where an instruction comes from.
pub(super) fn is_origin(key: &Key) -> bool {
    matches!(key, Key::Metadata | Key::Origin)
}

/// Attributes that pin an instruction: a layout, notes.
pub(super) fn is_note(key: &Key) -> bool {
    matches!(key, Key::Sharding | Key::FrontendAttributes | Key::ControlPredecessors)
}
