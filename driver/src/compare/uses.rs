//! Communication of two plans, by kind and mesh axes.

use super::{MAX_ROWS, rest, signed};
use crate::summary::table;
use phzc_io::units::{bytes, secs};
use phzc_passes::report::{CollectiveUse, Plan};
use std::collections::BTreeMap;

/// What one kind takes in one plan.
#[derive(Clone, Copy, Default, PartialEq)]
struct Total {
    count: u64,
    bytes: f64,
    secs: f64,
}

/// The kinds of communication that differ, dearest difference first.
pub(super) fn text(a: &Plan, b: &Plan) -> String {
    let mut all: BTreeMap<(String, String), [Total; 2]> = BTreeMap::new();
    for (side, plan) in [a, b].into_iter().enumerate() {
        for used in &plan.collectives {
            all.entry((used.kind.clone(), axes(plan, used))).or_default()[side].add(used);
        }
    }
    let mut found: Vec<_> = all.into_iter().filter(|(_, [a, b])| a != b).collect();
    found.sort_by(|(_, x), (_, y)| more(y).abs().total_cmp(&more(x).abs()));
    let left_out = found.iter().skip(MAX_ROWS).map(|(_, it)| more(it)).sum();
    let rows = found.iter().take(MAX_ROWS).map(|((kind, axes), it)| row(kind, axes, it)).collect();
    let header = ["communication", "axes", "A", "B", "bytes in A", "bytes in B", "B - A"];
    table(&header, 2..7, rows) + &rest(found.len(), left_out, secs)
}

impl Total {
    fn add(&mut self, used: &CollectiveUse) {
        self.count += used.count;
        self.bytes += used.bytes;
        self.secs += used.time_secs - used.hidden_secs;
    }
}

fn more([a, b]: &[Total; 2]) -> f64 {
    b.secs - a.secs
}

fn row(kind: &str, axes: &str, it: &[Total; 2]) -> Vec<String> {
    let [a, b] = it;
    vec![
        kind.to_owned(),
        axes.to_owned(),
        a.count.to_string(),
        b.count.to_string(),
        bytes(a.bytes),
        bytes(b.bytes),
        signed(more(it), secs),
    ]
}

/// Axes with their sizes, `x=4`: two plans may call different axes alike.
fn axes(plan: &Plan, used: &CollectiveUse) -> String {
    let mesh = plan.stages.get(used.stage).map_or("", |stage| &*stage.mesh);
    let sized = |name: &String| {
        let is_own = |axis: &&str| axis.split_once('=').is_some_and(|(own, _)| own == name);
        mesh.split(',').find(is_own).unwrap_or(name).to_owned()
    };
    used.axes.iter().map(sized).collect::<Vec<_>>().join("+")
}
