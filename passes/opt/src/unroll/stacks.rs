//! Which values are stacks: arrays that become one value per layer.
//!
//! Values whose first dimension is the same loop of some op are stacks together or not at all (union-find,
//! petgraph's), and so are a parameter and the result that takes its buffer. They are stacks if trips read
//! or write parts of them, and everything else that reads or makes them treats all parts alike.

use super::loops::MAX_TRIPS;
use petgraph::unionfind::UnionFind;
use phzc_ir::alias::aliased;
use phzc_ir::attr::SliceDim;
use phzc_ir::ops::literal::scalar_int;
use phzc_ir::ops::reducer;
use phzc_ir::rule::TensorMap;
use phzc_ir::{Computation, FactorKind, Instr, InstrId, Key, Module, Opcode, Value, View};

/// The part that an instruction reads or writes: it is one of the first dimension, whole in all others.
pub(super) fn part(comp: &Computation, instr: &Instr) -> Option<i64> {
    let dims = |id: &InstrId| Some(comp.instr(*id).shape.as_array()?.dims.as_slice());
    let (array, (at, sizes)) = match (instr.op, instr.attr(Key::Slice)) {
        (Opcode::Slice, Some(Value::Slices(slices))) => (dims(&instr.operands[0])?, sliced(slices)?),
        (Opcode::DynamicUpdateSlice, _) => {
            let starts = instr.operands[2..].iter().map(|id| scalar_int(comp.instr(*id)));
            let (array, update) = (dims(&instr.operands[0])?, dims(&instr.operands[1])?);
            let starts: Vec<i64> = starts.collect::<Option<_>>()?;
            let last = array.first().filter(|&&n_parts| n_parts > 0)? - 1;
            let first = starts.first()?.clamp(&0, &last).to_owned();
            (array, (first, update.to_vec()))
        }
        _ => return None,
    };
    let is_one = sizes.first() == Some(&1) && array.len() == sizes.len() && array[1..] == sizes[1..];
    is_one.then_some(at)
}

/// First element of the first dimension, and the sizes.
fn sliced(slices: &[SliceDim]) -> Option<(i64, Vec<i64>)> {
    let is_dense = slices.iter().all(|dim| dim.stride == 1);
    let sizes = slices.iter().map(|dim| dim.limit - dim.start).collect();
    Some((slices.first().filter(|_| is_dense)?.start, sizes))
}

/// Per instruction of the entry, whether it is a stack. `by_trip` says where trips read or write parts.
pub(super) fn stacks(module: &Module, by_trip: &[bool]) -> Vec<bool> {
    let n = module.entry().instrs.len();
    let mut ties =
        Ties { module, union: UnionFind::new(n), is_whole: vec![false; n], is_part: vec![false; n] };
    for (id, instr) in module.entry().iter() {
        ties.tie(id, instr, by_trip[id.index()]);
    }
    ties.tie_aliases();
    let (mut is_whole, mut has_parts) = (vec![false; n], vec![false; n]);
    for index in 0..n {
        let of = ties.union.find_mut(index);
        is_whole[of] |= ties.is_whole[index];
        has_parts[of] |= ties.is_part[index];
    }
    (0..n).map(|index| ties.union.find_mut(index)).map(|of| has_parts[of] && !is_whole[of]).collect()
}

struct Ties<'m> {
    module: &'m Module,
    union: UnionFind<usize>,
    /// Whether something needs a value, or makes it, as a whole.
    is_whole: Vec<bool>,
    /// Whether trips read or write parts of it.
    is_part: Vec<bool>,
}

impl Ties<'_> {
    fn tie(&mut self, id: InstrId, instr: &Instr, is_by_trip: bool) {
        let entry = self.module.entry();
        self.is_whole[id.index()] |= instr.sharding().is_some();
        match instr.op {
            Opcode::Parameter => {}
            Opcode::Tuple if id == entry.root => {}
            Opcode::Slice if is_by_trip && self.is_layers(instr) => {
                self.is_part[instr.operands[0].index()] = true;
                self.is_whole[id.index()] = true;
            }
            Opcode::DynamicUpdateSlice if is_by_trip && self.is_layers(instr) => {
                self.union.union(id.index(), instr.operands[0].index());
                self.is_part[id.index()] = true;
                self.whole(&instr.operands[1..]);
            }
            Opcode::Broadcast if is_copies(entry, instr) => {}
            Opcode::Reduce if is_total(self.module, id) => {}
            op if is_alike(op) => self.tie_by_rule(id, instr),
            _ => {
                self.is_whole[id.index()] = true;
                self.whole(&instr.operands);
            }
        }
    }

    /// Whether an instruction reads or writes one of a stack's parts, of which there are no more than layers.
    fn is_layers(&self, instr: &Instr) -> bool {
        let entry = self.module.entry();
        let stack = entry.instr(instr.operands[0]).shape.as_array();
        let is_stack = stack.is_some_and(|array| array.dims.first().is_some_and(|&n| n <= MAX_TRIPS as i64));
        is_stack && part(entry, instr).is_some()
    }

    fn whole(&mut self, ids: &[InstrId]) {
        ids.iter().for_each(|id| self.is_whole[id.index()] = true);
    }

    /// Ties the operands whose first dimension is the result's.
    fn tie_by_rule(&mut self, id: InstrId, instr: &Instr) {
        let rule = (instr.op.def().rule)(&View::new(self.module, self.module.entry, id));
        let first = rule.results.first().and_then(first).filter(|&factor| {
            matches!(rule.factors[factor as usize].kind, FactorKind::Pass) && !rule.is_fallback
        });
        let mut is_made_of_parts = false;
        for (operand, map) in instr.operands.iter().zip(&rule.operands) {
            let is_tied = first.is_some() && self::first(map) == first;
            // A loop of the first dimension elsewhere would need more than a part.
            let is_elsewhere = first.is_some_and(|factor| {
                map.iter().skip(usize::from(is_tied)).flatten().any(|&it| it == factor)
            });
            match is_tied && !is_elsewhere {
                true => {
                    is_made_of_parts = true;
                    self.union.union(id.index(), operand.index());
                }
                false => {
                    self.is_whole[operand.index()] = true;
                    self.is_whole[id.index()] |= is_elsewhere;
                }
            }
        }
        self.is_whole[id.index()] |= !is_made_of_parts || instr.shape.as_array().is_none();
    }

    /// A parameter and the result that takes its buffer are stacks together.
    fn tie_aliases(&mut self) {
        let entry = self.module.entry();
        for alias in aliased(self.module) {
            if let Some(output) = entry.root().operands.get(alias.output) {
                self.union.union(alias.param.index(), output.index());
                let is_alike = entry.instr(alias.param).shape.same_type(&entry.instr(*output).shape);
                self.is_whole[output.index()] |= !is_alike;
            }
        }
    }
}

/// The loop of a tensor's first dimension, if it is one and nothing else.
fn first(map: &TensorMap) -> Option<u32> {
    match map.first()?.as_slice() {
        &[factor] => Some(factor),
        _ => None,
    }
}

/// Whether all elements are copies of a scalar.
fn is_copies(entry: &Computation, instr: &Instr) -> bool {
    entry.instr(instr.operands[0]).shape.as_array().is_some_and(|array| array.rank() == 0)
}

/// Whether an array is reduced to one scalar, in an order that does not matter.
pub(super) fn is_total(module: &Module, id: InstrId) -> bool {
    let view = View::new(module, module.entry, id);
    let is_scalar = view.instr.shape.as_array().is_some_and(|array| array.rank() == 0);
    is_scalar && view.n_operands() == 2 && reducer(&view, Key::ToApply, 0).is_some()
}

/// Whether an op treats parts as its factor rule says, with no sizes of the first dimension in its
/// attributes but a slice's.
fn is_alike(op: Opcode) -> bool {
    use Opcode::{
        Bitcast, BitcastConvert, Broadcast, Concatenate, Copy, Dot, Pad, Reduce, Reshape, Slice, Transpose,
    };
    let moves = matches!(op, Bitcast | BitcastConvert | Broadcast | Copy | Pad | Reshape | Slice | Transpose);
    moves || matches!(op, Concatenate | Dot | Reduce) || phzc_ir::eval::is_elementwise(op)
}
