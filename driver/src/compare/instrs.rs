//! Instructions that two plans treat differently, by the program's names and source lines.

use super::{MAX_ROWS, rest, signed};
use crate::planned::Planned;
use crate::summary::table;
use phzc_io::units::secs;
use phzc_passes::report::{Entry, Plan, ledger};
use std::collections::BTreeMap;

/// The column of source lines, which not every program has.
const SOURCE: usize = 3;

/// Instructions that change in the same way.
struct Change {
    name: String,
    n: usize,
    secs: [f64; 2],
}

/// What makes changes one: op, source line, type, and what each plan does.
type Key = (&'static str, Option<String>, String, [String; 2]);

impl Change {
    fn more_secs(&self) -> f64 {
        self.secs[1] - self.secs[0]
    }
}

/// The instructions that lie, move or cost differently, dearest difference first.
pub(super) fn text(a: &Planned, b: &Planned) -> String {
    let [of_a, of_b] = [a, b].map(|it| ledger(&it.module, &it.facts, &it.cluster));
    let are_staged = a.plan.stages.len() == b.plan.stages.len() && a.plan.stages.len() > 1;
    let mut found: Vec<(Key, Change)> = changes(&of_a, &of_b, are_staged).into_iter().collect();
    found.sort_by(|(_, x), (_, y)| y.more_secs().abs().total_cmp(&x.more_secs().abs()));
    let left_out = found.iter().skip(MAX_ROWS).map(|(_, change)| change.more_secs()).sum();
    let mut header = vec!["B - A", "instruction", "n", "source", "in A", "in B"];
    let mut rows: Vec<Vec<String>> =
        found.iter().take(MAX_ROWS).map(|(key, change)| row(key, change)).collect();
    if found.iter().all(|((_, source, ..), _)| source.is_none()) {
        header.remove(SOURCE);
        rows.iter_mut().for_each(|row| drop(row.remove(SOURCE)));
    }
    table(&header, [0, 2], rows) + &rest(found.len(), left_out, secs)
}

fn row((op, source, shape, [in_a, in_b]): &Key, change: &Change) -> Vec<String> {
    vec![
        signed(change.more_secs(), secs),
        format!("{} {op} {shape}", change.name),
        change.n.to_string(),
        source.clone().unwrap_or_else(|| "-".to_owned()),
        in_a.clone(),
        if in_a == in_b { "the same".to_owned() } else { in_b.clone() },
    ]
}

/// Changes of instructions that differ in what is done to them or in time, those that are alike together.
fn changes(a: &[Entry], b: &[Entry], are_staged: bool) -> BTreeMap<Key, Change> {
    let mut pairs: BTreeMap<&str, [Option<&Entry>; 2]> = BTreeMap::new();
    for (side, entries) in [a, b].into_iter().enumerate() {
        entries.iter().for_each(|entry| pairs.entry(&entry.name).or_default()[side] = Some(entry));
    }
    // In the order of the program, so that the first of alike ones gives them its name.
    let only_b = b.iter().filter(|entry| pairs[&*entry.name][0].is_none());
    let mut found: BTreeMap<Key, Change> = BTreeMap::new();
    for entry in a.iter().chain(only_b) {
        let pair = pairs[&*entry.name];
        let takes = pair.map(|it| it.map_or(0.0, Entry::secs));
        let does = pair.map(|it| it.map_or_else(|| "absent".to_owned(), |it| treatment(it, are_staged)));
        let is_same_time = (takes[1] - takes[0]).abs() <= 1e-9 * takes[0].max(takes[1]);
        if takes == [0.0, 0.0] || does[0] == does[1] && is_same_time {
            continue;
        }
        let key = (entry.op, entry.source.clone(), entry.shape.clone(), does);
        let change =
            found.entry(key).or_insert_with(|| Change { name: entry.name.clone(), n: 0, secs: [0.0; 2] });
        change.n += 1;
        (0..2).for_each(|side| change.secs[side] += takes[side]);
    }
    found
}

/// `[x=8,-], all-gather over x=8, 2 copies`.
fn treatment(entry: &Entry, is_staged: bool) -> String {
    let mut out = entry.layout.clone();
    if is_staged {
        out += &format!(" stage {}", entry.stage);
    }
    for it in &entry.moves {
        out += &format!(", {} over {}", it.kind, it.axes);
    }
    if entry.is_again {
        out += ", recomputed";
    }
    match entry.n_copies {
        0 => out,
        1 => out + ", 1 copy",
        n => out + &format!(", {n} copies"),
    }
}

/// The largest tensors that lie differently, of plans of which no more is known.
pub(super) fn of_tensors(a: &Plan, b: &Plan) -> String {
    let find = |name: &str| b.tensors.iter().find(|other| other.name == name);
    let pairs = a.tensors.iter().filter_map(|one| Some((one, find(&one.name)?)));
    let differ = pairs.filter(|(one, other)| one.layout != other.layout || one.bytes != other.bytes);
    let rows = differ.map(|(one, other)| {
        let bytes = phzc_io::units::bytes;
        vec![
            one.name.clone(),
            one.shape.clone(),
            one.layout.clone(),
            other.layout.clone(),
            signed(other.bytes - one.bytes, bytes),
        ]
    });
    table(&["tensor", "shape", "in A", "in B", "per device"], [4], rows.collect())
}
