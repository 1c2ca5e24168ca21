//! The operators behind a value of [`Boxes`]: the best stage of one box, memory at a price.

use super::super::Span;
use super::boxes::{Box, Boxes, MAX_MOVE_MS, N_STATES, Price, is_allowed, most_reserved_mib, own_values};
use super::mixed::{Mixed, Way};
use std::ops::Range;

/// How an operator runs: twice its way, plus one where it is recomputed.
pub type Code = usize;

/// A sweep of one box with all that it passed.
struct Trace<'a> {
    of: &'a Mixed<'a>,
    span: &'a Span,
    row: Box,
    price: Price,
    boxes: Boxes,
    /// Per operator, from the end, class and state: the least value.
    values: Vec<Vec<f64>>,
}

/// What was chosen for an operator.
#[derive(Clone, Copy)]
struct Choice {
    class: usize,
    state: usize,
    way: usize,
}

/// The best operators of a stage in one box; `None` where there are none.
pub fn in_box(of: &Mixed, span: &Span, row: Box, ms_per_mib: f64) -> Option<Vec<Code>> {
    let price = Price { ms_per_mib, is_by_weight: false };
    let mut boxes = Boxes::one(of, span, row, price);
    let mut values = Vec::new();
    while boxes.start > span.start {
        boxes.advance(of, span);
        let least = |values: &Vec<f64>| values.first().copied().unwrap_or(f64::INFINITY);
        values.push(boxes.values.iter().map(least).collect());
    }
    let trace = Trace { of, span, row, price, boxes, values };
    let (mut codes, mut before) = (Vec::new(), None);
    for op in span.start..span.end {
        let choice = trace.choice(op, before)?;
        codes.push(2 * choice.way + usize::from(choice.state > 0));
        before = Some(choice);
    }
    Some(codes)
}

impl Trace<'_> {
    fn ways(&self) -> &[Way] {
        self.of.ways(self.span.n_devices)
    }

    /// The best choice for an operator after one for that before it.
    fn choice(&self, op: usize, before: Option<Choice>) -> Option<Choice> {
        let states: Range<usize> =
            before.map_or(0..N_STATES, |before| Boxes::next_states(self.of, op - 1, before.state));
        let mut best = (f64::INFINITY, None);
        for class in 0..self.boxes.classes.len() {
            let move_ms =
                before.map_or(0.0, |before| self.boxes.move_ms(self.ways(), before.class, class, op));
            for state in if move_ms > MAX_MOVE_MS { 0..0 } else { states.clone() } {
                let value = self.values[self.span.end - 1 - op][class * N_STATES + state] + move_ms;
                if value < best.0
                    && let Some(way) = self.way(op, before, class, state)
                {
                    best = (value, Some(Choice { class, state, way }));
                }
            }
        }
        best.1
    }

    /// The best way of a class for an operator in a state.
    fn way(&self, op: usize, before: Option<Choice>, class: usize, state: usize) -> Option<usize> {
        let (span, most_mib) = (self.span, most_reserved_mib(self.of, self.row));
        let ways = self.ways();
        let enter = |way: &Way| match before {
            Some(before) => way.moves_ms[before.way][op],
            None => {
                let mib = way.profiles[op].input_mib * span.in_flight as f64;
                way.send_before_ms(op, span) + self.price.ms_per_mib * mib
            }
        };
        let value =
            |way: usize| own_values(&ways[way], span, op, &self.price)[state.min(2)] + enter(&ways[way]);
        let allowed = self.boxes.classes[class].iter().copied();
        let allowed = allowed.filter(|&way| is_allowed(&ways[way], span, op, most_mib));
        allowed.min_by(|&a, &b| value(a).total_cmp(&value(b)))
    }
}
