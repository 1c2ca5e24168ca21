//! Trip counts of `while` loops: noted by XLA or the user, or read off a counter with constant start, step
//! and bound.

mod noted;
mod reader;

use crate::attr::Key;
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use noted::{given_trips, noted_trips};
use reader::{Frame, Reader};

/// How often the loop's body runs, if that can be told: what the program says, or else the user
/// (`--trips`). For prices: what changes a program goes by [`own_trip_count`].
pub fn trip_count(module: &Module, comp: CompId, id: InstrId) -> Option<u64> {
    let given = || given_trips(module.comp(comp).instr(id));
    said_trip_count(module, comp, id).or_else(given).or_else(|| own_trip_count(module, comp, id))
}

/// The same where nothing is assumed: XLA's `known_trip_count`, or a counter that starts at a constant.
pub fn said_trip_count(module: &Module, comp: CompId, id: InstrId) -> Option<u64> {
    let instr = module.comp(comp).instr(id);
    let is_loop = instr.op == Opcode::While;
    let counted = || counter(module, comp, id).map(|it| it.n_trips);
    is_loop.then(|| noted_trips(instr).or_else(counted)).flatten()
}

/// How often the loop's body runs, by the program alone.
///
/// `backend_config`'s `known_trip_count` is taken at its word. Otherwise the condition must compare an
/// element of the loop's state, to which the body adds a constant, with a constant (or with an element that
/// the body leaves alone). A start that the enclosing computation is passed from outside is taken as 0, which
/// is what loops over a range start from.
pub fn own_trip_count(module: &Module, comp: CompId, id: InstrId) -> Option<u64> {
    let comp = module.comp(comp);
    let instr = comp.instr(id);
    if instr.op != Opcode::While {
        return None;
    }
    noted_trips(instr).or_else(|| counted(module, comp, instr).map(|(counter, _)| counter.n_trips))
}

/// What a loop counts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Element of the loop's state.
    pub element: usize,
    /// Its value in the first trip.
    pub start: i128,
    /// What a trip adds to it.
    pub step: i128,
    /// How often the body runs.
    pub n_trips: u64,
}

/// The loop's counter, if it starts, steps and ends at constants.
pub fn counter(module: &Module, comp: CompId, id: InstrId) -> Option<Counter> {
    let comp = module.comp(comp);
    let (counter, is_exact) = counted(module, comp, comp.instr(id))?;
    is_exact.then_some(counter)
}

/// The counter, and whether its start is a constant rather than taken as one.
fn counted(module: &Module, comp: &Computation, instr: &Instr) -> Option<(Counter, bool)> {
    let body = module.comp(instr.comp(Key::Body)?);
    let mut reader = Reader::new(module);
    let condition = Frame::Loop(module.comp(instr.comp(Key::Condition)?));
    let (left, right, direction) = reader.comparison(&condition)?;
    let (counter, bound, direction) = match (left.element, right.element) {
        (Some(_), None) => (left, right, direction),
        (None, Some(_)) => (right, left, mirrored(direction)),
        (Some(a), Some(b)) => match (reader.is_kept(body, a), reader.is_kept(body, b)) {
            (false, true) => (left, right, direction),
            (true, false) => (right, left, mirrored(direction)),
            _ => return None,
        },
        (None, None) => return None,
    };
    let bound = match bound.element {
        Some(element) => bound.offset + reader.start(comp, instr, element)?,
        None => bound.offset,
    };
    let element = counter.element?;
    let stepped = reader.returned(body, element)?;
    if stepped.element != Some(element) {
        return None;
    }
    let start = reader.start(comp, instr, element)?;
    let is_exact = !reader.met_outside;
    let n_trips = count(start + counter.offset, stepped.offset, bound, direction)?;
    Some((Counter { element, start, step: stepped.offset, n_trips }, is_exact))
}

fn mirrored(direction: &str) -> &str {
    match direction {
        "LT" => "GT",
        "GT" => "LT",
        "LE" => "GE",
        "GE" => "LE",
        same => same,
    }
}

/// How many of `start, start+step, …` come before the comparison fails.
fn count(start: i128, step: i128, bound: i128, direction: &str) -> Option<u64> {
    let (distance, step) = match direction {
        "LT" | "NE" if step > 0 => (bound - start, step),
        "GT" | "NE" => (start - bound, -step),
        "LT" => (bound - start, step),
        "LE" => (bound - start + 1, step),
        "GE" => (start - bound + 1, -step),
        _ => return None,
    };
    if direction == "NE" && (distance < 0 || step == 0 || distance % step != 0) {
        return if distance == 0 { Some(0) } else { None };
    }
    if distance <= 0 {
        return Some(0);
    }
    if step <= 0 {
        return None;
    }
    u64::try_from((distance + step - 1) / step).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trip count of a loop over `(s32[], s32[], f32[])` from `start` with this body and condition.
    ///
    /// `i`, `n` and `x` are the elements of the state; `a` and `b` are the first two's next values.
    fn check(start: &str, a: &str, b: &str, condition: &str) -> Option<u64> {
        let elements = "t = (s32[], s32[], f32[]) parameter(0)
            i = s32[] get-tuple-element(t), index=0
            n = s32[] get-tuple-element(t), index=1
            x = f32[] get-tuple-element(t), index=2
            one = s32[] constant(1) three = s32[] constant(3) ten = s32[] constant(10)";
        let text = format!(
            "inc {{ p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(q, p) }}
            less {{ p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = pred[] compare(q, p), direction=LT }}
            body {{ {elements} a = s32[] {a} b = s32[] {b} ROOT r = (s32[], s32[], f32[]) tuple(a, b, x) }}
            cond {{ {elements} ROOT r = pred[] {condition} }}
            ENTRY e {{
                x = f32[] parameter(0) m = s32[] parameter(1) zero = s32[] constant(0) seven = s32[] constant(7)
                u = (s32[], s32[], f32[]) tuple({start}, x)
                ROOT w = (s32[], s32[], f32[]) while(u), condition=cond, body=body
            }}"
        );
        let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let errors = crate::verify::verify(&module);
        assert!(errors.is_empty(), "{}", errors[0]);
        trip_count(&module, module.entry, module.entry().root)
    }

    #[test]
    fn counts_from_a_constant_to_a_constant() {
        let count = |condition: &str| check("zero, seven", "add(i, one)", "copy(n)", condition);
        assert_eq!(count("compare(i, ten), direction=LT"), Some(10));
        assert_eq!(count("compare(i, ten), direction=LE"), Some(11));
        assert_eq!(count("compare(i, ten), direction=NE"), Some(10));
        assert_eq!(count("compare(ten, i), direction=GT"), Some(10));
        assert_eq!(count("compare(i, ten), direction=GT"), Some(0));
        assert_eq!(count("compare(i, ten), direction=GE"), Some(0));
        assert_eq!(count("compare(i, ten), direction=EQ"), None);
    }

    #[test]
    fn steps_need_not_be_one() {
        let count = |start: &str, step: &str, condition: &str| check(start, step, "copy(n)", condition);
        assert_eq!(count("zero, seven", "add(three, i)", "compare(i, ten), direction=LT"), Some(4));
        assert_eq!(count("zero, seven", "add(three, i)", "compare(i, ten), direction=NE"), None);
        assert_eq!(count("seven, zero", "subtract(i, three)", "compare(i, one), direction=GE"), Some(3));
        assert_eq!(count("zero, seven", "multiply(i, three)", "compare(i, ten), direction=LT"), None);
        assert_eq!(count("zero, seven", "copy(i)", "compare(i, ten), direction=LT"), None);
    }

    #[test]
    fn the_bound_may_be_an_element_that_stays() {
        let count = |start: &str, b: &str| check(start, "add(i, one)", b, "compare(i, n), direction=LT");
        assert_eq!(count("zero, seven", "copy(n)"), Some(7));
        assert_eq!(count("zero, seven", "add(n, one)"), None);
    }

    #[test]
    fn comparison_and_step_may_be_in_calls() {
        let body = "call(i, one), to_apply=inc";
        assert_eq!(check("zero, seven", body, "copy(n)", "call(ten, i), to_apply=less"), Some(10));
        assert_eq!(check("zero, seven", body, "copy(n)", "fusion(ten, i), kind=kLoop, calls=less"), Some(10));
    }

    #[test]
    fn a_start_from_outside_is_taken_as_zero() {
        assert_eq!(check("m, seven", "add(i, one)", "copy(n)", "compare(i, ten), direction=LT"), Some(10));
    }

    #[test]
    fn a_counter_with_a_start_or_a_bound_from_outside_is_none() {
        let counter_of = |start: &str, n: &str| {
            let state = "t = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(t), index=0
                n = s32[] get-tuple-element(t), index=1";
            let text = format!(
                "body {{ {state} one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], s32[]) tuple(j, n) }}
                cond {{ {state} ROOT r = pred[] compare(i, n), direction=LT }}
                ENTRY e {{ m = s32[] parameter(0) zero = s32[] constant(0) seven = s32[] constant(7)
                    u = (s32[], s32[]) tuple({start}, {n}) ROOT w = (s32[], s32[]) while(u), condition=cond, body=body }}"
            );
            let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            counter(&module, module.entry, module.entry().root).map(|counter| counter.n_trips)
        };
        assert_eq!(["zero", "m"].map(|start| counter_of(start, "seven")), [Some(7), None]);
        assert_eq!(counter_of("zero", "m"), None);
    }

    #[test]
    fn xla_notes_are_taken_at_their_word() {
        for note in
            [r#"{"known_trip_count":{"n":"12"},"x":{"n":"3"}}"#, r#""{\"known_trip_count\":{\"n\":\"12\"}}""#]
        {
            let text = format!(
                "f {{ ROOT t = (s32[]) parameter(0) }} g {{ t = (s32[]) parameter(0) ROOT c = pred[] constant(false) }}
                ENTRY e {{ t = (s32[]) parameter(0) ROOT w = (s32[]) while(t), condition=g, body=f, backend_config={note} }}"
            );
            let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(trip_count(&module, module.entry, module.entry().root), Some(12));
        }
    }

    #[test]
    fn trips_are_counted_in_every_direction() {
        let of = |start, step, bound, direction| count(start, step, bound, direction);
        assert_eq!(
            [of(0, 1, 5, "LT"), of(0, 2, 5, "LT"), of(5, 1, 5, "LT"), of(9, 1, 5, "LT")],
            [Some(5), Some(3), Some(0), Some(0)]
        );
        assert_eq!([of(0, 0, 5, "LT"), of(0, -1, 5, "LT"), of(0, 1, 5, "EQ")], [None; 3]);
        assert_eq!(
            [of(5, -1, 0, "GT"), of(5, -2, 0, "GT"), of(0, -1, 0, "GT"), of(5, 1, 0, "GT")],
            [Some(5), Some(3), Some(0), None]
        );
        assert_eq!(
            [of(0, 1, 5, "LE"), of(0, 2, 5, "LE"), of(5, 1, 5, "LE"), of(6, 1, 5, "LE")],
            [Some(6), Some(3), Some(1), Some(0)]
        );
        assert_eq!(
            [of(5, -1, 0, "GE"), of(5, -2, 1, "GE"), of(0, -1, 1, "GE"), of(5, 1, 0, "GE")],
            [Some(6), Some(3), Some(0), None]
        );
        assert_eq!(
            [of(0, 1, 5, "NE"), of(0, 2, 6, "NE"), of(5, -1, 0, "NE"), of(5, 1, 5, "NE")],
            [Some(5), Some(3), Some(5), Some(0)]
        );
        assert_eq!(
            [of(0, 2, 5, "NE"), of(5, -2, 0, "NE"), of(6, 1, 5, "NE"), of(4, -1, 5, "NE"), of(0, 0, 5, "NE")],
            [None; 5]
        );
    }
}
