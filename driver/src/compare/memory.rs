//! What fills the fullest device of two plans.

use super::figures::most_bytes;
use super::{MAX_ROWS, rest, signed};
use crate::planned::{Planned, type_text};
use crate::summary::table;
use phzc_io::units::bytes;
use phzc_ir::loops;
use phzc_passes::memory::at_peak;
use std::collections::BTreeMap;

/// Values of one source line and type in both plans' peaks.
#[derive(Default)]
struct Held {
    name: String,
    n: [usize; 2],
    bytes: [f64; 2],
}

impl Held {
    /// Bytes that the second plan has more of.
    fn more(&self) -> f64 {
        self.bytes[1] - self.bytes[0]
    }

    /// `64.0 MiB in 2`.
    fn in_plan(&self, side: usize) -> String {
        format!("{} in {}", bytes(self.bytes[side]), self.n[side])
    }
}

/// The values at the peak that take more or less, largest difference first; nothing where peaks are alike.
pub(super) fn text(a: &Planned, b: &Planned) -> String {
    if bytes(most_bytes(&a.plan)) == bytes(most_bytes(&b.plan)) {
        return String::new();
    }
    let mut all: BTreeMap<(Option<String>, String), Held> = BTreeMap::new();
    for (side, planned) in [a, b].into_iter().enumerate() {
        add(&mut all, side, planned);
    }
    let mut found: Vec<_> = all.into_iter().filter(|(_, held)| held.more() != 0.0).collect();
    found.sort_by(|(_, x), (_, y)| y.more().abs().total_cmp(&x.more().abs()));
    let left_out = found.iter().skip(MAX_ROWS).map(|(_, held)| held.more()).sum();
    let row = |((source, shape), held): &((Option<String>, String), Held)| {
        let place = source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        let name = format!("{}{place}", held.name);
        vec![signed(held.more(), bytes), name, shape.clone(), held.in_plan(0), held.in_plan(1)]
    };
    let rows = found.iter().take(MAX_ROWS).map(row).collect();
    table(&["B - A", "values at the peak", "shape", "in A", "in B"], [0, 3, 4], rows)
        + &rest(found.len(), left_out, bytes)
}

/// Adds what is there at the peak of the fullest stage.
fn add(all: &mut BTreeMap<(Option<String>, String), Held>, side: usize, planned: &Planned) {
    let stages = planned.plan.stages.iter().enumerate();
    let fullest = stages.reduce(|a, b| if b.1.memory_bytes > a.1.memory_bytes { b } else { a });
    let Some((stage, _)) = fullest else { return };
    for (id, held_bytes) in at_peak(&planned.module, &planned.facts, stage) {
        let instr = planned.module.entry().instr(id);
        let held = all.entry((loops::source_line(instr), type_text(instr))).or_default();
        if held.name.is_empty() {
            held.name = instr.name.to_string();
        }
        held.n[side] += 1;
        held.bytes[side] += held_bytes;
    }
}
