//! Which operations run as one kernel, and which of them pays for what the kernel reads.
//!
//! XLA's priority and multi-output fusion, and its row-wise kernels for softmax and norms, by three rules over
//! the graph. An operation whose value stays in registers runs in the kernels of its readers. Operations over
//! as many elements join where one reads the other's value or both read a third's. A sum over rows joins its
//! readers, for a row stays with the cores that have read it. An operation's level is one more than that of
//! any operand that it does not join, and only operations of one level make a kernel, so that no kernel waits
//! for its own result (but for one that comes back through a loop).
//!
//! What would be made again in several kernels goes to memory where that moves fewer bytes ([`stored_for_less`]).
//! A kernel reads each of its inputs once: the first operation that reads it pays for all. What stays in
//! registers is made, and what it reads is read, in every kernel that needs it. `tests/measured` holds this
//! against what XLA's kernels of whole programs take.

use indexmap::{IndexMap, IndexSet};
use petgraph::unionfind::UnionFind;
use phzc_ir::{ArrayShape, Computation, FusionKind, Instr, Key, Opcode, Shape};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// An operation, as far as fusion is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// How it fuses.
    pub fusion: FusionKind,
    /// Operations of other regions share no kernel with it.
    pub region: u32,
    /// Elements that it runs over: of a reduction, those of its first operand.
    pub elements: f64,
    /// Elements of its result.
    pub made: f64,
    /// Bytes of its result.
    pub bytes: f64,
    /// Whether it reduces the minor-most dimensions only.
    pub sums_rows: bool,
    /// Whether it reads a part of its first operand only.
    pub reads_part: bool,
    /// Whether its value is in memory.
    pub is_stored: bool,
    /// Whether it does nothing: its value is an operand's, or there from the start.
    pub is_name: bool,
    /// What it reads: the operation that makes it, and a number for the value, names seen through. A maker that
    /// is not before it in the list is none of its kernels.
    pub operands: SmallVec<[(u32, u32); 4]>,
}

/// What an operation has of the kernels that it runs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Per operand: how many kernels read it on this operation's account.
    pub reads: SmallVec<[u8; 4]>,
    /// Whether a kernel begins with it.
    pub launches: bool,
}

/// More kernels than these are not told apart: what so many need is read for these alone.
const MAX_KERNELS: usize = 16;

type Set = SmallVec<[u32; 2]>;

impl Part {
    fn fuses(&self) -> bool {
        use FusionKind::{Free, Loop, Root, View};
        matches!(self.fusion, Free | Loop | Root | View) && !self.is_name
    }

    /// Whether it may run in the kernel that makes a value that it reads.
    fn joins(&self, maker: &Part) -> bool {
        let goes_on = maker.sums_rows || (maker.fusion != FusionKind::Root && maker.made == self.elements);
        goes_on && self.region == maker.region && self.fuses() && maker.fuses()
    }
}

/// Elements that an operation runs over, and those of its result.
pub fn spans(comp: &Computation, instr: &Instr) -> (f64, f64) {
    let n_elements = |shape: Option<&Shape>| {
        let leaves = shape.map(Shape::leaves).unwrap_or_default();
        leaves.first().and_then(|leaf| leaf.as_array()).map_or(0.0, ArrayShape::n_elements)
    };
    let made = n_elements(Some(&instr.shape));
    let first = instr.operands.first().map(|&operand| &comp.instr(operand).shape);
    (if instr.op == Opcode::Reduce { n_elements(first) } else { made }, made)
}

/// Whether an operation reduces the minor-most dimensions of its first operand and no others.
pub fn sums_rows(comp: &Computation, instr: &Instr) -> bool {
    let rank = instr
        .operands
        .first()
        .and_then(|&operand| comp.instr(operand).shape.as_array())
        .map(ArrayShape::rank);
    let reduced = instr.ints(Key::Dimensions);
    let is_minor = |rank: usize| reduced.iter().all(|&dim| dim as usize + reduced.len() >= rank);
    instr.op == Opcode::Reduce && !reduced.is_empty() && rank.is_some_and(is_minor)
}

/// The shares of operations in program order.
pub fn shares(parts: &[Part]) -> Vec<Share> {
    let kernels = kernels(parts);
    let (mut begun, mut read) = (IndexSet::default(), IndexSet::default());
    (0..parts.len()).map(|id| share(parts, &kernels, id, &mut begun, &mut read)).collect()
}

/// Whether each value is in memory because making it in all kernels that read it would move more bytes than
/// writing and reading it: XLA's priority fusion asks the same of every producer.
///
/// Of `n` kernels with inputs of `s` bytes, `n s` against `s + (n + 1) bytes`.
pub fn stored_for_less(parts: &[Part]) -> Vec<bool> {
    let kernels = kernels(parts);
    let mut found = vec![false; parts.len()];
    let mut sources: Vec<Sources> = Vec::with_capacity(parts.len());
    for (id, part) in parts.iter().enumerate() {
        let own = if part.fuses() { read_by(parts, &sources, &found, id) } else { Sources::new() };
        let (n, read_bytes) = (kernels[id].len() as f64, own.iter().map(|it| it.1).sum::<f64>());
        let is_dearer = n * read_bytes > read_bytes + (n + 1.0) * part.bytes || own.len() > MAX_KERNELS;
        found[id] = part.fusion == FusionKind::Loop && part.fuses() && !part.is_stored && is_dearer;
        sources.push(own);
    }
    found
}

/// Values in memory, with the bytes that are read of them.
type Sources = SmallVec<[(u32, f64); 4]>;

/// What a kernel with an operation in it reads for that operation.
fn read_by(parts: &[Part], sources: &[Sources], is_costly: &[bool], id: usize) -> Sources {
    let (part, mut own) = (&parts[id], Sources::new());
    let mut add = |value: u32, bytes: f64| {
        if own.iter().all(|it| it.0 != value) && own.len() <= MAX_KERNELS {
            own.push((value, bytes));
        }
    };
    for (slot, &(maker, value)) in part.operands.iter().enumerate().filter(|it| (it.1.0 as usize) < id) {
        let made_by = &parts[maker as usize];
        let is_in_memory = made_by.is_stored || is_costly[maker as usize];
        match is_in_memory {
            true if part.reads_part && slot == 0 => add(value, made_by.bytes.min(part.bytes)),
            true => add(value, made_by.bytes),
            false => sources[maker as usize].iter().for_each(|&(value, bytes)| add(value, bytes)),
        }
    }
    own
}

/// One operation's share; `begun` are the kernels that are launched, `read` the values that they have.
fn share(
    parts: &[Part],
    kernels: &[Set],
    id: usize,
    begun: &mut IndexSet<u32, FxBuildHasher>,
    read: &mut IndexSet<(u32, u32), FxBuildHasher>,
) -> Share {
    let (part, own) = (&parts[id], &kernels[id]);
    if !part.fuses() {
        return Share { reads: SmallVec::from_elem(1, part.operands.len()), launches: !part.is_name };
    }
    let mut pays = |slot: usize, maker: u32, value: u32, kernel: u32| {
        let is_here = parts[maker as usize].fuses() && kernels[maker as usize].contains(&kernel);
        let is_part = part.reads_part && slot == 0;
        !is_here && (is_part || read.insert((kernel, value)))
    };
    let reads = part.operands.iter().enumerate().map(|(slot, &(maker, value))| {
        own.iter().filter(|&&kernel| pays(slot, maker, value, kernel)).count() as u8
    });
    Share { reads: reads.collect(), launches: part.is_stored && begun.insert(own[0]) }
}

/// The kernels that every operation runs in, by the number of one of their operations.
fn kernels(parts: &[Part]) -> Vec<Set> {
    let mut joined = joined(parts, &levels(parts));
    let mut found: Vec<Set> = vec![Set::new(); parts.len()];
    for (id, part) in parts.iter().enumerate().rev() {
        if part.is_stored || found[id].is_empty() {
            found[id] = SmallVec::from_elem(joined.find_mut(id as u32), 1);
        }
        let own = found[id].clone();
        for &(maker, _) in part.operands.iter().filter(|&&(maker, _)| (maker as usize) < id) {
            let of = &mut found[maker as usize];
            if part.fuses() && !parts[maker as usize].is_stored {
                let new = own.iter().filter(|kernel| !of.contains(kernel)).copied().collect::<Set>();
                of.extend(new.into_iter().take(MAX_KERNELS.saturating_sub(of.len())));
            }
        }
    }
    found
}

/// Per operation: how many kernels have to run before its own, one after the other.
fn levels(parts: &[Part]) -> Vec<u32> {
    let mut levels: Vec<u32> = Vec::with_capacity(parts.len());
    for (id, part) in parts.iter().enumerate() {
        let after = |&(maker, _): &(u32, u32)| {
            let made_by = &parts[maker as usize];
            let is_before = (maker as usize) < id && !made_by.is_name;
            let ends = made_by.is_stored && !part.joins(made_by);
            if is_before { levels[maker as usize] + u32::from(ends) } else { 0 }
        };
        let level = part.operands.iter().map(after).max().unwrap_or(0);
        levels.push(if part.is_name { 0 } else { level });
    }
    levels
}

/// Operations of one level that run over the same elements, one after the other or beside one another.
fn joined(parts: &[Part], levels: &[u32]) -> UnionFind<u32> {
    let mut joined = UnionFind::new(parts.len());
    let mut readers: IndexMap<(u32, u32, u32), u32, FxBuildHasher> = IndexMap::default();
    for (id, part) in parts.iter().enumerate().filter(|(_, part)| part.fuses()) {
        for &(maker, value) in part.operands.iter().filter(|&&(maker, _)| (maker as usize) < id) {
            let made_by = &parts[maker as usize];
            if levels[maker as usize] == levels[id] && part.joins(made_by) {
                joined.union(id as u32, maker);
            }
            if made_by.is_stored && made_by.made == part.elements && part.elements > 1.0 {
                let first = *readers.entry((value, levels[id], part.region)).or_insert(id as u32);
                joined.union(id as u32, first);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(fusion: FusionKind, elements: f64, is_stored: bool, operands: &[u32]) -> Part {
        let operands = operands.iter().map(|&id| (id, id)).collect();
        let made = if fusion == FusionKind::Root { 1.0 } else { elements };
        let is_name = fusion == FusionKind::Control;
        Part {
            fusion,
            region: 0,
            elements,
            made,
            bytes: made,
            sums_rows: false,
            reads_part: false,
            is_stored,
            is_name,
            operands,
        }
    }

    fn source() -> Part {
        part(FusionKind::Control, 8.0, true, &[])
    }

    fn stored(operands: &[u32]) -> Part {
        part(FusionKind::Loop, 8.0, true, operands)
    }

    fn fused(operands: &[u32]) -> Part {
        part(FusionKind::Loop, 8.0, false, operands)
    }

    /// Per operation that is no source: the kernels that read each operand on its account, `!` if one begins.
    fn check(parts: &[Part], wanted: &[&str]) {
        let line = |(part, share): (&Part, Share)| {
            let reads: String = share.reads.iter().map(u8::to_string).collect();
            (!part.is_name).then(|| format!("{reads}{}", if share.launches { "!" } else { "" }))
        };
        let found: Vec<String> = parts.iter().zip(shares(parts)).filter_map(line).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_kernel_reads_its_input_once() {
        check(&[source(), fused(&[0]), stored(&[0, 1])], &["1", "01!"]);
    }

    #[test]
    fn results_over_the_same_elements_are_made_by_one_kernel() {
        check(&[source(), stored(&[0]), stored(&[0]), stored(&[1, 2])], &["1!", "0", "00"]);
    }

    #[test]
    fn a_small_shared_input_joins_nothing() {
        let small = Part { elements: 1.0, made: 1.0, ..source() };
        check(&[small, stored(&[0]), stored(&[0])], &["1!", "1!"]);
    }

    #[test]
    fn a_product_between_them_parts_two_kernels() {
        let product = part(FusionKind::Matrix, 8.0, true, &[0]);
        check(&[source(), product, stored(&[0]), stored(&[0, 1])], &["1!", "1!", "11!"]);
    }

    #[test]
    fn regions_share_no_kernel() {
        let other = Part { region: 1, ..stored(&[0, 1]) };
        check(&[source(), stored(&[0]), other], &["1!", "11!"]);
    }

    #[test]
    fn a_sum_over_rows_joins_its_readers_and_one_over_columns_parts_them() {
        let sum = part(FusionKind::Root, 8.0, true, &[0]);
        let rows = Part { sums_rows: true, ..sum.clone() };
        check(&[source(), rows, stored(&[0, 1])], &["1!", "00"]);
        check(&[source(), sum, stored(&[0, 1])], &["1!", "11!"]);
    }

    #[test]
    fn what_two_kernels_need_is_made_in_both() {
        let other = Part { region: 1, ..stored(&[1]) };
        check(&[source(), fused(&[0]), stored(&[1]), other], &["2", "1!", "1!"]);
    }

    #[test]
    fn a_sum_that_many_kernels_read_goes_to_memory() {
        let reader = |region: u32| Part { region, ..stored(&[2]) };
        let read_by = |n: u32| {
            let mut parts = vec![source(), source(), fused(&[0, 1])];
            parts.extend((0..n).map(reader));
            stored_for_less(&parts)[2]
        };
        assert_eq!([1, 2, 3, 4].map(read_by), [false, false, false, true]);
    }

    #[test]
    fn parts_of_one_value_are_read_one_by_one() {
        let slice = Part { reads_part: true, elements: 4.0, made: 4.0, ..stored(&[0]) };
        check(&[source(), slice.clone(), slice], &["1!", "1!"]);
    }
}
