//! What the parameters of a program are for, as far as inputs have to know it: found by following the data,
//! not by name.

use super::Evaluation;
use super::trace::{Place, Read, Trace, is_other_type, moves};
use crate::attr::Key;
use crate::dtype::Class;
use crate::module::{CompId, Computation, Instr, InstrId};
use crate::opcode::Opcode;
use crate::ops::control::callee;
use crate::ops::literal;
use std::collections::BTreeSet;

/// What a leaf of a parameter is for. The default is any number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// Floats that are added to and handed back: an optimizer's moments, running means.
    pub is_state: bool,
    /// Floats that something takes the root, the logarithm or a power of.
    pub is_positive: bool,
    /// Integers that something looks at the bits of.
    pub is_bits: bool,
    /// Integers that are places in a table.
    pub places: Option<Places>,
    /// Numbers that it is compared with.
    pub compared: Vec<Compared>,
}

/// Integers that are places in a table, or compared with all of its places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Places {
    /// The first place; negative where the program counts negative ones from the end.
    pub low: i64,
    /// One more than the last place.
    pub high: i64,
    /// Rows of the table.
    pub size: i64,
}

/// A number that values are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The number.
    pub with: f64,
    /// For equality.
    pub is_equality: bool,
    /// Whether a value equal to it goes with the larger ones: `<` and `>=`.
    pub splits_below: bool,
}

/// What a conversion to truth values asks.
const NOT_ZERO: Compared = Compared { with: 0.0, is_equality: true, splits_below: false };

/// Between which numbers a value is cut that becomes an integer; what happens to it before, `1 - x`, moves
/// them by little.
fn integers() -> impl Iterator<Item = Compared> {
    let between = |with: f64| Compared { with, is_equality: false, splits_below: true };
    [-2.0, -1.0, 0.0, 1.0, 2.0].into_iter().map(between)
}

/// What a value is compared with or looked up in.
enum Use {
    /// A table of so many rows, of which it may name so many, if it is not negative or may be.
    Table { size: i64, count: i64, is_wrapped: bool },
    /// All numbers below this one, for equality or not.
    Iota { size: i64, is_equality: bool },
}

/// How an integer comes to what looks it up.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Trail {
    /// Through a choice between itself and a sum where it is negative.
    is_wrapped: bool,
    /// As this component of index vectors.
    component: Option<usize>,
}

/// The role of a leaf of a parameter of the entry.
pub fn role(trace: &Trace, id: InstrId, leaf: usize) -> Role {
    let entry = trace.module.entry();
    let start = || Place::of_entry(trace.module, id, leaf);
    let shape = entry.instr(id).shape.leaves().get(leaf).and_then(|leaf| leaf.as_array());
    let Some(shape) = shape else { return Role::default() };
    match shape.dtype.class() {
        Class::Bool => Role::default(),
        Class::Signed | Class::Unsigned => {
            let same = same_values(trace, start());
            Role {
                places: places(&uses(trace, start(), &same.negative)),
                is_bits: same.is_bits,
                compared: same.compared,
                ..Role::default()
            }
        }
        Class::Float | Class::Complex => Role {
            is_state: shape.rank() > 0
                && (is_scaled(trace, trace.module.entry, id) || stays_apart(trace, start())),
            is_positive: leads_to(trace, start(), &[], takes_root),
            compared: {
                let is_cut = leads_to(trace, start(), &[Opcode::Subtract], |read| makes_integer(trace, read));
                let cuts = integers().filter(|_| is_cut);
                same_values(trace, start()).compared.into_iter().chain(cuts).collect()
            },
            ..Role::default()
        },
    }
}

/// What becomes of a value that stays as it is, wherever it is moved.
#[derive(Default)]
struct SameValues {
    compared: Vec<Compared>,
    is_bits: bool,
    /// Where there are truth values that say whether it is negative.
    negative: BTreeSet<(CompId, InstrId)>,
}

fn same_values(trace: &Trace, start: Place) -> SameValues {
    use Opcode::{Bitcast, BitcastConvert, Compare, Convert, RngBitGenerator, Select};
    use Opcode::{ShiftLeft, ShiftRightArithmetic, ShiftRightLogical};
    let (mut found, mut signs) = (SameValues::default(), Vec::new());
    trace.follow(start, (), |read, ()| {
        match read.instr.op {
            Compare => {
                let compared = compared(trace, read)?;
                if read.instr.word(Key::Direction) == Some("LT") && compared.with == 0.0 && read.operand == 0
                {
                    signs.push(read.result());
                }
                if compared.with.is_finite() && !found.compared.contains(&compared) {
                    found.compared.push(compared);
                }
                return None;
            }
            Convert if is_pred(read.instr) => found.compared.push(NOT_ZERO),
            BitcastConvert | RngBitGenerator => found.is_bits = true,
            Bitcast if is_other_type(trace.module.comp(read.comp), read.instr) => found.is_bits = true,
            ShiftLeft | ShiftRightArithmetic | ShiftRightLogical if read.operand == 0 => found.is_bits = true,
            _ => {}
        }
        (keeps_values(trace, read) || (read.instr.op == Select && read.operand > 0)).then_some(())
    });
    for sign in signs {
        let places = trace.follow(sign, (), |read, ()| keeps_values(trace, read).then_some(()));
        found.negative.extend(places.into_iter().map(|(place, ())| (place.comp, place.id)));
    }
    found
}

/// The number that a comparison compares a value with, if it is one for all its elements.
fn compared(trace: &Trace, read: &Read) -> Option<Compared> {
    let (comp, id) = trace.source(read, 1 - read.operand);
    let instr = trace.module.comp(comp).instr(id);
    let with = match (instr.op, literal::splat(instr)?) {
        (Opcode::Constant, "true" | "false") => return None,
        (Opcode::Constant, number) => number.parse().ok()?,
        _ => return None,
    };
    let direction = read.instr.word(Key::Direction)?;
    let splits_below = match read.operand {
        0 => matches!(direction, "LT" | "GE"),
        _ => matches!(direction, "GT" | "LE"),
    };
    Some(Compared { with, is_equality: matches!(direction, "EQ" | "NE"), splits_below })
}

/// What an integer, or what single elements of it are made into, is looked up in.
fn uses(trace: &Trace, start: Place, negative: &BTreeSet<(CompId, InstrId)>) -> Vec<Use> {
    let mut found = Vec::new();
    let trail = Trail { is_wrapped: false, component: None };
    trace.follow(start, trail, |read, trail| {
        let comp = trace.module.comp(read.comp);
        for (size, count) in tables(comp, read, trail.component) {
            found.push(Use::Table { size, count, is_wrapped: trail.is_wrapped });
        }
        if read.instr.op == Opcode::Compare {
            found.extend(iota(trace, read));
            return None;
        }
        let chooses = read.instr.op == Opcode::Select;
        let by_sign = chooses && negative.contains(&(read.comp, read.instr.operands[0]));
        let goes_on = goes_on(trace, read) && !(chooses && read.operand == 0);
        let is_wrapped = trail.is_wrapped || by_sign;
        goes_on.then(|| Trail { is_wrapped, component: component(comp, read, trail.component) })
    });
    found
}

/// Which component of index vectors, the last dimension, a value is after an instruction.
fn component(comp: &Computation, read: &Read, before: Option<usize>) -> Option<usize> {
    let dims = |id: InstrId| comp.instr(id).shape.as_array().map_or(&[][..], |array| &array.dims);
    match read.instr.op {
        Opcode::Concatenate => {
            let dim = *read.instr.ints(Key::Dimensions).first()? as usize;
            let is_last = dim + 1 == dims(read.id).len();
            let are_single = read.instr.operands.iter().all(|&id| dims(id).get(dim) == Some(&1));
            (is_last && are_single).then_some(read.operand)
        }
        Opcode::Bitcast | Opcode::Reshape => {
            before.filter(|_| dims(read.id).last() == dims(read.instr.operands[0]).last())
        }
        _ => before.filter(|_| matches!(read.instr.op.def().evaluation, Evaluation::Elementwise(_))),
    }
}

/// The rows of each table that an operand is looked up in, and how many of them may be named.
fn tables(comp: &Computation, read: &Read, component: Option<usize>) -> Vec<(i64, i64)> {
    let instr = read.instr;
    let dims = |operand: usize| -> Vec<i64> {
        let shape = instr.operands.get(operand).and_then(|&id| comp.instr(id).shape.as_array());
        shape.map_or(Vec::new(), |shape| shape.dims.to_vec())
    };
    let parts: Vec<i64> = match instr.op {
        Opcode::Gather => instr.ints(Key::SliceSizes).to_vec(),
        Opcode::DynamicSlice => instr.ints(Key::DynamicSliceSizes).to_vec(),
        Opcode::DynamicUpdateSlice => dims(1),
        _ => Vec::new(),
    };
    let looked_up: Vec<i64> = match instr.op {
        Opcode::Gather if read.operand == 1 => instr.ints(Key::StartIndexMap).to_vec(),
        Opcode::Scatter if 2 * read.operand + 1 == instr.operands.len() => {
            instr.ints(Key::ScatterDimsToOperandDims).to_vec()
        }
        Opcode::DynamicSlice if read.operand > 0 => vec![read.operand as i64 - 1],
        Opcode::DynamicUpdateSlice if read.operand > 1 => vec![read.operand as i64 - 2],
        _ => return Vec::new(),
    };
    let table = dims(0);
    let own = component.and_then(|at| looked_up.get(at).copied());
    let row = |dim: i64| {
        let size = table.get(dim as usize).copied()?;
        Some((size, size - parts.get(dim as usize).map_or(1, |part| (*part).max(1)) + 1))
    };
    let all = own.map_or(looked_up, |dim| vec![dim]);
    all.into_iter().filter_map(row).collect()
}

/// The positions that a comparison compares a value with.
fn iota(trace: &Trace, read: &Read) -> Option<Use> {
    let (comp, id) = trace.source(read, 1 - read.operand);
    let instr = trace.module.comp(comp).instr(id);
    let dim = instr.int(Key::IotaDimension).filter(|_| instr.op == Opcode::Iota)?;
    let size = *instr.shape.as_array()?.dims.get(dim as usize)?;
    Some(Use::Iota { size, is_equality: matches!(read.instr.word(Key::Direction), Some("EQ" | "NE")) })
}

/// The places that are legal for all uses: JAX makes what lies outside a table NaN, and then all results.
fn places(uses: &[Use]) -> Option<Places> {
    let mut tables = uses.iter().filter_map(|it| match *it {
        Use::Table { size, count, is_wrapped } => Some((size, count, is_wrapped)),
        Use::Iota { .. } => None,
    });
    let is_wrapped = tables.clone().count() > 0 && tables.all(|(_, _, is_wrapped)| is_wrapped);
    let bound = |it: &Use| match *it {
        Use::Table { size, count, .. } => (count, size),
        Use::Iota { size, is_equality: true } => (size, size),
        // A length may be all.
        Use::Iota { size, is_equality: false } => (size.saturating_add(1), size),
    };
    let (high, size) = uses.iter().map(bound).min()?;
    let (high, size) = (high.max(1), size.max(1));
    Some(Places { low: if is_wrapped { -size } else { 0 }, high, size })
}

/// Whether a value comes to such a reader, moved, added to, scaled, or through an op that it may pass.
fn leads_to(trace: &Trace, start: Place, may_pass: &[Opcode], is_wanted: impl Fn(&Read) -> bool) -> bool {
    use Opcode::{Add, Divide, Maximum, Minimum, Multiply};
    let mut found = false;
    trace.follow(start, (), |read, ()| {
        found |= is_wanted(read);
        let body = trace.module.comp(read.comp);
        let mut others = read.instr.operands.iter().enumerate().filter(|(at, _)| *at != read.operand);
        let mut is_scaled = || others.any(|(_, &id)| is_scalar(body, id));
        let goes_on = match read.instr.op {
            Add | Maximum | Minimum => true,
            Multiply => is_scaled(),
            Divide => read.operand == 0 && is_scaled(),
            op => may_pass.contains(&op) || keeps_values(trace, read),
        };
        goes_on.then_some(())
    });
    found
}

fn takes_root(read: &Read) -> bool {
    use Opcode::{Log, Power, Rsqrt, Sqrt};
    match read.instr.op {
        Sqrt | Rsqrt | Log => true,
        Power => read.operand == 0,
        _ => false,
    }
}

/// Whether a conversion cuts off what is behind the point.
fn makes_integer(trace: &Trace, read: &Read) -> bool {
    let class = |id: InstrId| {
        let shape = trace.module.comp(read.comp).instr(id).shape.as_array();
        shape.map(|shape| shape.dtype.class())
    };
    let is_integer = matches!(class(read.id), Some(Class::Signed | Class::Unsigned));
    read.instr.op == Opcode::Convert && is_integer && class(read.instr.operands[0]) == Some(Class::Float)
}

/// Whether a value is read once, to be multiplied by a scalar.
///
/// `m = b1*m + (1-b1)*g` reads the old `m` just so.
fn is_scaled(trace: &Trace, comp: CompId, id: InstrId) -> bool {
    let [(reader, operand)] = *trace.readers(comp, id) else { return false };
    let body = trace.module.comp(comp);
    let instr = body.instr(reader);
    match instr.op {
        Opcode::Multiply => is_scalar(body, instr.operands[1 - operand]),
        Opcode::Copy | Opcode::Reshape | Opcode::Convert | Opcode::Transpose | Opcode::CustomCall => {
            is_scaled(trace, comp, reader)
        }
        Opcode::Call | Opcode::Fusion => callee(instr).is_some_and(|inner| {
            let param = trace.module.comp(inner).params().get(operand).copied();
            param.is_some_and(|param| is_scaled(trace, inner, param))
        }),
        _ => false,
    }
}

/// Whether single elements of a value are made into single elements of the result, and of nothing else.
fn stays_apart(trace: &Trace, start: Place) -> bool {
    let mut is_mixed = false;
    let places = trace.follow(start, (), |read, ()| {
        is_mixed |= !goes_on(trace, read);
        (!is_mixed).then_some(())
    });
    !is_mixed && places.iter().any(|(place, ())| place.is_output(trace.module))
}

/// Whether elements of the result are made of the operand's elements at the same place, or moved.
fn goes_on(trace: &Trace, read: &Read) -> bool {
    matches!(read.instr.op.def().evaluation, Evaluation::Elementwise(_)) || keeps_values(trace, read)
}

/// Whether elements of the operand are moved or spelled otherwise, no more.
fn keeps_values(trace: &Trace, read: &Read) -> bool {
    use Opcode::{Concatenate, CustomCall, DynamicSlice, Pad, Slice};
    match read.instr.op {
        DynamicSlice => read.operand == 0,
        Concatenate | CustomCall | Pad | Slice => true,
        _ => moves(trace.module.comp(read.comp), read.instr) && !is_pred(read.instr),
    }
}

fn is_pred(instr: &Instr) -> bool {
    instr.shape.as_array().is_some_and(|shape| shape.dtype.class() == Class::Bool)
}

/// A scalar, or one that is broadcast.
fn is_scalar(comp: &Computation, id: InstrId) -> bool {
    let instr = comp.instr(id);
    let rank = instr.shape.as_array().map_or(1, |shape| shape.rank());
    match instr.op {
        _ if rank == 0 => true,
        Opcode::Broadcast | Opcode::Convert | Opcode::Copy | Opcode::Reshape => {
            instr.operands.first().is_some_and(|&operand| is_scalar(comp, operand))
        }
        Opcode::Constant => literal::splat(instr).is_some(),
        _ => false,
    }
}
