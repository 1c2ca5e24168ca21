//! The hull of one run, point by point: what to save and what to compute again, as minimum cuts.
//!
//! At a price per byte, a value that is needed is saved (its bytes) or computed again (its seconds), which
//! needs its operands. With `a` "is needed" and `r` "is computed again" on the source's side, that is a cut:
//! `source → a` where the backward part reads it, `a → r` its bytes, `r → sink` its seconds, `r → a'` for
//! each operand. Prices between two points are tried until there is nothing between them.

use super::Point;
use petgraph::Direction;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use phzc_ir::InstrId;

/// A value of a run.
#[derive(Clone, Debug)]
pub struct Value {
    pub id: InstrId,
    /// Seconds to compute it again; `None` if that cannot be.
    pub secs: Option<f64>,
    /// Bytes of the whole batch to save it; `None` if it has no memory of its own, so that its operands are
    /// saved instead.
    pub bytes: Option<f64>,
    /// Whether the backward part reads it.
    pub is_wanted: bool,
    /// Values that it is made of.
    pub operands: Vec<usize>,
}

/// The most points of a run.
const MAX_POINTS: usize = 8;
/// A point must lie so far below the line between its neighbours, relative to the seconds between them.
const BEND: f64 = 0.02;
/// Capacities of a graph add up to less than this, so that sums are exact.
const TOTAL: f64 = 1e15;

/// The corners of the lower hull, from none again to the least bytes.
pub fn hull(values: &[Value]) -> Vec<Point> {
    let none = Point::default();
    let bytes: f64 = values.iter().filter_map(|value| value.bytes).sum();
    let secs: f64 = values.iter().filter_map(|value| value.secs).sum();
    if bytes <= 0.0 || !values.iter().any(|value| value.is_wanted) {
        return vec![none];
    }
    // So dear that a thousandth of all bytes is worth all seconds.
    let least = point(values, 1e3 * secs.max(1e-9) / bytes);
    let mut corners = vec![none.clone()];
    if least.saved_bytes > 0.0 {
        between(values, &none, &least, &mut corners);
        corners.push(least);
    }
    corners
}

/// Adds the corners between two points.
fn between(values: &[Value], low: &Point, high: &Point, corners: &mut Vec<Point>) {
    let (secs, bytes) = (high.secs - low.secs, high.saved_bytes - low.saved_bytes);
    if corners.len() + 2 >= MAX_POINTS || secs <= 0.0 || bytes <= 0.0 {
        return;
    }
    let price = secs / bytes;
    let middle = point(values, price);
    let gain = |point: &Point| price * point.saved_bytes - point.secs;
    if gain(&middle) > gain(low) + BEND * secs {
        between(values, low, &middle, corners);
        corners.push(middle.clone());
        between(values, &middle, high, corners);
    }
}

/// The best choice at a price, in seconds per byte.
fn point(values: &[Value], price: f64) -> Point {
    let graph = Network::new(values, price);
    let is_again = copied(values, graph.is_again(values));
    let is_needed = needed(values, &is_again);
    let chosen = || values.iter().zip(&is_again).filter(|(_, again)| **again).map(|(value, _)| value);
    let wanted = || values.iter().filter(|value| value.is_wanted);
    let saved = (0..values.len()).filter(|&at| is_needed[at] && !is_again[at]);
    let saved: f64 = saved.filter_map(|at| values[at].bytes).sum();
    Point {
        again: chosen().map(|value| value.id).collect(),
        secs: chosen().filter(|value| value.bytes.is_some()).filter_map(|value| value.secs).sum(),
        saved_bytes: wanted().filter_map(|value| value.bytes).sum::<f64>() - saved,
        again_bytes: chosen().filter(|value| value.is_wanted).filter_map(|value| value.bytes).sum(),
    }
}

/// What has no memory of its own is copied only for what it is made of.
fn copied(values: &[Value], mut is_again: Vec<bool>) -> Vec<bool> {
    for at in 0..values.len() {
        let is_free = values[at].bytes.is_none();
        is_again[at] &= !is_free || values[at].operands.iter().any(|&operand| is_again[operand]);
    }
    is_again
}

/// What the backward part reads, and what is read to compute it again.
fn needed(values: &[Value], is_again: &[bool]) -> Vec<bool> {
    let mut found: Vec<bool> = values.iter().map(|value| value.is_wanted).collect();
    for (at, value) in values.iter().enumerate().rev() {
        if found[at] && (is_again[at] || value.bytes.is_none()) {
            value.operands.iter().for_each(|&operand| found[operand] = true);
        }
    }
    found
}

/// The graph whose cuts are choices: nodes `0` source, `1` sink, `2 + 2 i` and `3 + 2 i` "needed" and "again"
/// of value `i`.
struct Network {
    graph: DiGraph<(), u64>,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Network {
    fn new(values: &[Value], price: f64) -> Network {
        let worth = values.iter().map(|it| it.secs.unwrap_or(0.0) + price * it.bytes.unwrap_or(0.0));
        let all: f64 = worth.sum();
        let capacity = |secs: f64| (secs * TOTAL / all.max(1e-30)) as u64;
        let (never, mut graph) = (2 * TOTAL as u64, DiGraph::new());
        (0..2 + 2 * values.len()).for_each(|_| _ = graph.add_node(()));
        let mut edge = |from: usize, to: usize, weight: u64| {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), weight);
        };
        for (at, value) in values.iter().enumerate() {
            let (needed, again) = (2 + 2 * at, 3 + 2 * at);
            if value.is_wanted {
                edge(SOURCE, needed, never);
            }
            let saved = value.bytes.map_or(never, |bytes| capacity(price * bytes));
            let Some(secs) = value.secs else {
                edge(needed, SINK, saved);
                continue;
            };
            edge(needed, again, saved);
            edge(again, SINK, if value.bytes.is_some() { capacity(secs) } else { 0 });
            value.operands.iter().for_each(|&operand| edge(again, 2 + 2 * operand, never));
        }
        Network { graph }
    }

    /// Which values the least cut computes again.
    fn is_again(&self, values: &[Value]) -> Vec<bool> {
        let (_, flows) = dinics(&self.graph, NodeIndex::new(SOURCE), NodeIndex::new(SINK));
        let reached = self.reached(&flows);
        (0..values.len()).map(|at| values[at].secs.is_some() && reached[3 + 2 * at]).collect()
    }

    /// The nodes that the source still reaches, past a flow.
    fn reached(&self, flows: &[u64]) -> Vec<bool> {
        let mut reached = vec![false; self.graph.node_count()];
        let mut todo = vec![NodeIndex::new(SOURCE)];
        reached[SOURCE] = true;
        while let Some(node) = todo.pop() {
            let on = self.graph.edges(node).filter(|edge| flows[edge.id().index()] < *edge.weight());
            let back = self.graph.edges_directed(node, Direction::Incoming);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.source());
            for next in on.map(|edge| edge.target()).chain(back) {
                if !std::mem::replace(&mut reached[next.index()], true) {
                    todo.push(next);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of values: seconds, bytes, whether the backward part reads it.
    fn chain(values: &[(f64, f64, bool)]) -> Vec<Value> {
        let value = |(at, &(secs, bytes, is_wanted)): (usize, &(f64, f64, bool))| Value {
            id: InstrId::new(at),
            secs: Some(secs),
            bytes: Some(bytes),
            is_wanted,
            operands: at.checked_sub(1).into_iter().collect(),
        };
        values.iter().enumerate().map(value).collect()
    }

    /// Every choice, by brute force: the least seconds plus price times bytes.
    fn brute(values: &[Value], price: f64) -> f64 {
        let cost = |mask: u32| {
            let is_again: Vec<bool> =
                (0..values.len()).map(|at| mask >> at & 1 == 1 && values[at].secs.is_some()).collect();
            let is_needed = needed(values, &is_again);
            let one = |at: usize| match (is_needed[at], is_again[at]) {
                (_, true) if values[at].bytes.is_some() => values[at].secs.unwrap_or(0.0),
                (_, true) => 0.0,
                (true, false) => price * values[at].bytes.unwrap_or(0.0),
                (false, false) => 0.0,
            };
            (0..values.len()).map(one).sum::<f64>()
        };
        (0..1 << values.len()).map(cost).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn cheap_values_go_first() {
        // A product, then an elementwise op on it, both read by the backward part.
        let points = hull(&chain(&[(10.0, 100.0, true), (1.0, 100.0, true)]));
        let figures: Vec<(f64, f64)> = points.iter().map(|point| (point.secs, point.saved_bytes)).collect();
        assert_eq!(figures, [(0.0, 0.0), (1.0, 100.0), (11.0, 200.0)]);
    }

    #[test]
    fn an_operand_that_would_be_saved_for_it_is_no_gain() {
        let mut values = chain(&[(10.0, 100.0, false), (1.0, 100.0, true)]);
        values[0].secs = None;
        assert_eq!(hull(&values).len(), 1);
    }

    #[test]
    fn cuts_are_the_best_of_all_choices() {
        let mut state = 11u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..300 {
            let n = 2 + random(7) as usize;
            let mut values: Vec<Value> = Vec::new();
            for at in 0..n {
                let operands = (0..at).filter(|_| random(3) == 0).collect();
                let secs = (random(5) > 0).then_some(random(20) as f64);
                let bytes = (secs.is_none() || random(4) > 0).then_some(random(30) as f64);
                let is_wanted = random(2) == 0;
                values.push(Value { id: InstrId::new(at), secs, bytes, is_wanted, operands });
            }
            let price = 0.1 * (1 + random(20)) as f64;
            let base: f64 =
                values.iter().filter(|value| value.is_wanted).filter_map(|value| value.bytes).sum();
            let found = point(&values, price);
            let cost = found.secs + price * (base - found.saved_bytes);
            assert!((cost - brute(&values, price)).abs() < 1e-6, "{cost} {values:?}");
        }
    }
}
