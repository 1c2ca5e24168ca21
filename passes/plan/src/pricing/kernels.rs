//! Which operations run as one kernel, and which of them pays for what the kernel reads.
//!
//! What XLA's priority and multi-output fusion do, and its row-wise kernels for softmax and norms, by three
//! rules over the graph. An operation whose value stays in registers runs in the kernels of its readers.
//! Operations over as many elements join where one reads the other's value or both read a third's. A sum over
//! rows joins its readers, for a row stays with the cores that have read it. An operation's level is one more
//! than that of any operand that it does not join, or as late as readers that it can join allow; only
//! operations of one level make a kernel, so that no kernel waits for its own result.
//!
//! What would be made again in several kernels goes to memory where that moves fewer bytes
//! ([`stored_for_less`]). A kernel reads each of its inputs once: the first operation that reads it pays for
//! all. What stays in registers is made, and what it reads is read, in every kernel that needs it.
//! `tests/measured` holds this against what XLA's kernels of whole programs take.

use indexmap::{IndexMap, IndexSet};
use petgraph::unionfind::UnionFind;
use phzc_ir::{ArrayShape, Computation, FusionKind, Instr, Key, Opcode, Shape};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// An operation, as far as fusion is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// How it fuses; what is in a fused attention as a product does: with nobody.
    pub fusion: FusionKind,
    /// Operations of other regions share no kernel with it.
    pub region: u32,
    /// Elements that it runs over: of a reduction, those of its first operand.
    pub elements: f64,
    /// Bytes of its result.
    pub bytes: f64,
    /// Whether it reduces the minor-most dimensions only, or goes on with such sums, one per row.
    pub sums_rows: bool,
    /// Whether it reads a part of its first operand only.
    pub reads_part: bool,
    /// Whether its value is in memory.
    pub is_stored: bool,
    /// Whether it does nothing: its value is an operand's, or there from the start.
    pub is_name: bool,
    /// What it reads, names seen through.
    pub operands: SmallVec<[Input; 4]>,
}

/// A value that an operation reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// The operation before it that makes the value; none if it is there from the start.
    pub maker: Option<u32>,
    /// The value's number.
    pub value: u32,
    /// Its elements.
    pub elements: f64,
    /// Its bytes.
    pub bytes: f64,
}

/// What an operation has of the kernels that it runs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Per operand: how many kernels read it on this operation's account.
    pub reads: SmallVec<[u8; 4]>,
    /// Whether a kernel begins with it.
    pub launches: bool,
}

/// More kernels, or inputs of one value, than these are not told apart: what so many kernels need is read for
/// these alone, and what is made of so many inputs is in memory where several kernels read it.
const MAX_KERNELS: usize = 16;

type Set = SmallVec<[u32; 2]>;

impl Part {
    fn fuses(&self) -> bool {
        use FusionKind::{Free, Loop, Root, View};
        matches!(self.fusion, Free | Loop | Root | View) && !self.is_name
    }

    /// Whether it may run in the kernel that makes a value that it reads: what is made from little brings
    /// nobody together.
    fn joins(&self, input: &Input, maker: &Part) -> bool {
        let goes_on =
            maker.sums_rows || (maker.fusion != FusionKind::Root && input.elements == self.elements);
        goes_on && self.region == maker.region && self.fuses() && maker.fuses()
    }

    /// The same of an operation that goes on with sums over rows as they are: a norm's square root.
    #[must_use]
    pub fn after(mut self, parts: &[Part]) -> Part {
        let is_sum = |(input, _, maker): (&Input, usize, &Part)| {
            maker.sums_rows && maker.region == self.region && input.elements == self.elements
        };
        self.sums_rows |= self.fuses() && self.fusion != FusionKind::Root && self.made(parts).any(is_sum);
        self
    }

    /// What it reads that operations before it make.
    fn made<'p>(&'p self, parts: &'p [Part]) -> impl Iterator<Item = (&'p Input, usize, &'p Part)> {
        self.operands.iter().filter_map(|input| {
            let maker = input.maker? as usize;
            Some((input, maker, &parts[maker]))
        })
    }
}

/// Elements that an operation runs over.
pub fn elements(comp: &Computation, instr: &Instr) -> f64 {
    let first = instr.operands.first().filter(|_| instr.op == Opcode::Reduce);
    let shape = first.map_or(&instr.shape, |&operand| &comp.instr(operand).shape);
    shape.leaves().first().map_or(0.0, |leaf| n_elements(leaf))
}

/// Elements of one array.
pub fn n_elements(shape: &Shape) -> f64 {
    shape.as_array().map_or(0.0, ArrayShape::n_elements)
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
/// Of `n` kernels with inputs of `s` bytes, `n s` against `s + n bytes`: the first of them writes it. Where
/// both are equal it is computed once.
pub fn stored_for_less(parts: &[Part]) -> Vec<bool> {
    let kernels = kernels(parts);
    let mut found = vec![false; parts.len()];
    let mut sources: Vec<Sources> = Vec::with_capacity(parts.len());
    for (id, part) in parts.iter().enumerate() {
        let own = if part.fuses() { read_by(parts, &sources, &found, id) } else { Sources::new() };
        let (n, read_bytes) = (kernels[id].len() as f64, own.iter().map(|it| it.1).sum::<f64>());
        let is_dearer = n > 1.0 && (n * read_bytes >= read_bytes + n * part.bytes || own.len() > MAX_KERNELS);
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
    for (slot, input) in part.operands.iter().enumerate() {
        let maker = input.maker.map(|maker| maker as usize);
        match maker.filter(|&maker| !parts[maker].is_stored && !is_costly[maker]) {
            Some(maker) => sources[maker].iter().for_each(|&(value, bytes)| add(value, bytes)),
            None if part.reads_part && slot == 0 => add(input.value, input.bytes.min(part.bytes)),
            None => add(input.value, input.bytes),
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
    let mut pays = |slot: usize, input: &Input, kernel: u32| {
        let makes = |maker: u32| parts[maker as usize].fuses() && kernels[maker as usize].contains(&kernel);
        let is_part = part.reads_part && slot == 0;
        !input.maker.is_some_and(makes) && (is_part || read.insert((kernel, input.value)))
    };
    let reads = part
        .operands
        .iter()
        .enumerate()
        .map(|(slot, input)| own.iter().filter(|&&kernel| pays(slot, input, kernel)).count() as u8);
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
        for (_, maker, made_by) in part.made(parts) {
            let of = &mut found[maker];
            if part.fuses() && !made_by.is_stored {
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
    for part in parts {
        let after = |(input, maker, made_by): (&Input, usize, &Part)| {
            let ends = made_by.is_stored && !part.joins(input, made_by);
            levels[maker] + u32::from(ends)
        };
        let level = part.made(parts).map(after).max().unwrap_or(0);
        levels.push(level);
    }
    delay(parts, &mut levels);
    levels
}

/// Has what need not run yet run in the kernel of a later reader that it can join, readers first.
fn delay(parts: &[Part], levels: &mut [u32]) {
    // Per operation: the level of the last reader that may join it, and the last that all readers allow.
    let mut bounds = vec![(0, u32::MAX); parts.len()];
    for (id, part) in parts.iter().enumerate().rev().filter(|(_, part)| !part.is_name) {
        let (joinable, last) = bounds[id];
        levels[id] = levels[id].max(joinable.min(last));
        for (input, maker, made_by) in part.made(parts) {
            let joins = part.joins(input, made_by) || !made_by.is_stored;
            let (joinable, last) = &mut bounds[maker];
            *joinable = (*joinable).max(if joins { levels[id] } else { 0 });
            *last = (*last).min(levels[id] - u32::from(!joins));
        }
    }
}

/// Operations of one level that run over the same elements, one after the other or beside one another.
fn joined(parts: &[Part], levels: &[u32]) -> UnionFind<u32> {
    let mut joined = UnionFind::new(parts.len());
    let mut readers: IndexMap<(u32, u32, u32, u64), u32, FxBuildHasher> = IndexMap::default();
    for (id, part) in parts.iter().enumerate().filter(|(_, part)| part.fuses()) {
        for (input, maker, made_by) in part.made(parts) {
            if levels[maker] == levels[id] && part.joins(input, made_by) {
                joined.union(id as u32, maker as u32);
            }
        }
        for (slot, input) in part.operands.iter().enumerate() {
            let is_stored = input.maker.is_none_or(|maker| parts[maker as usize].is_stored);
            let is_part = part.reads_part && slot == 0;
            if is_stored && part.elements > 1.0 && (is_part || input.elements == part.elements) {
                let reads = (input.value, levels[id], part.region, part.elements.to_bits());
                joined.union(id as u32, *readers.entry(reads).or_insert(id as u32));
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of an operation's operands: a number from 100 on is there from the start.
    fn part(fusion: FusionKind, is_stored: bool, operands: &[u32]) -> Part {
        let input = |&value: &u32| {
            let maker = (value < 100).then_some(value);
            Input { maker, value, elements: 8.0, bytes: 8.0 }
        };
        Part {
            fusion,
            region: 0,
            elements: 8.0,
            bytes: 8.0,
            sums_rows: false,
            reads_part: false,
            is_stored,
            is_name: false,
            operands: operands.iter().map(input).collect(),
        }
    }

    fn stored(operands: &[u32]) -> Part {
        part(FusionKind::Loop, true, operands)
    }

    fn fused(operands: &[u32]) -> Part {
        part(FusionKind::Loop, false, operands)
    }

    /// Per operation: the kernels that read each operand on its account, `!` if one begins.
    fn check(parts: &[Part], wanted: &[&str]) {
        let line = |share: Share| {
            let reads: String = share.reads.iter().map(u8::to_string).collect();
            format!("{reads}{}", if share.launches { "!" } else { "" })
        };
        let found: Vec<String> = shares(parts).into_iter().map(line).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_kernel_reads_its_input_once() {
        check(&[fused(&[100]), stored(&[100, 0])], &["1", "00!"]);
    }

    #[test]
    fn results_over_the_same_elements_are_made_by_one_kernel() {
        check(&[stored(&[100]), stored(&[100]), stored(&[0, 1])], &["1!", "0", "00"]);
    }

    #[test]
    fn a_small_shared_input_joins_nothing() {
        let mut parts = [stored(&[100]), stored(&[100])];
        parts.iter_mut().for_each(|part| part.operands[0].elements = 1.0);
        check(&parts, &["1!", "1!"]);
    }

    #[test]
    fn a_product_between_them_parts_two_kernels() {
        let product = part(FusionKind::Matrix, true, &[100]);
        check(&[product, stored(&[100]), stored(&[100, 0])], &["1!", "1!", "11!"]);
    }

    #[test]
    fn regions_share_no_kernel() {
        let other = Part { region: 1, ..stored(&[100, 0]) };
        check(&[stored(&[100]), other], &["1!", "11!"]);
    }

    #[test]
    fn a_sum_over_rows_joins_its_readers_and_one_over_columns_parts_them() {
        let sum = part(FusionKind::Root, true, &[100]);
        let rows = Part { sums_rows: true, ..sum.clone() };
        check(&[rows, stored(&[100, 0])], &["1!", "00"]);
        check(&[sum, stored(&[100, 0])], &["1!", "11!"]);
    }

    #[test]
    fn what_can_wait_runs_where_it_is_read() {
        // The reader also needs a small value that is made first.
        let small = Part { elements: 1.0, bytes: 1.0, ..stored(&[101]) };
        let mut reader = stored(&[0, 1]);
        reader.operands[1].elements = 1.0;
        check(&[stored(&[100]), small, reader], &["1!", "1!", "01"]);
    }

    #[test]
    fn what_two_kernels_need_is_made_in_both() {
        let other = Part { region: 1, ..stored(&[0]) };
        check(&[fused(&[100]), stored(&[0]), other], &["2", "0!", "0!"]);
    }

    #[test]
    fn a_sum_that_two_kernels_read_goes_to_memory_and_what_is_made_of_one_value_does_not() {
        let reader = |region: u32| Part { region, ..stored(&[0]) };
        let read_by = |n: u32, operands: &[u32]| {
            let parts: Vec<Part> = [fused(operands)].into_iter().chain((0..n).map(reader)).collect();
            stored_for_less(&parts)[0]
        };
        assert_eq!([1, 2, 3].map(|n| read_by(n, &[100, 101])), [false, true, true]);
        assert_eq!([1, 2, 3].map(|n| read_by(n, &[100])), [false; 3]);
    }

    #[test]
    fn equal_parts_of_one_value_are_read_one_by_one_in_one_kernel() {
        let slice = Part { reads_part: true, elements: 4.0, ..stored(&[100]) };
        let other = Part { elements: 2.0, ..slice.clone() };
        check(&[slice.clone(), slice, other], &["1!", "1", "1!"]);
    }
}
