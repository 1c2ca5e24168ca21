//! The hull of one run, point by point: what to save and what to compute again, as minimum cuts.
//!
//! At a price per byte, a value that is needed is saved (its bytes, the seconds to write and read it) or
//! computed again (its seconds), which needs its operands and reads those that are saved. With `a` "is
//! needed" and `r` "is computed again" on the source's side, that is a cut: `source → a` where the backward
//! part reads it, `a → r` what saving takes, `r → sink` what computing takes, and for each operand `r → a'`
//! without limit and `r → r'` the seconds to read it. At no price it is the fastest choice, saved bytes being
//! free. Prices between two points are tried until there is nothing between them.

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
    /// Whether it can be computed again.
    pub can_run_again: bool,
    /// What it takes in either case, of one microbatch.
    pub secs: Seconds,
    /// Bytes of the whole batch to save it; `None` if it has no memory of its own, so that its operands are
    /// saved instead.
    pub bytes: Option<f64>,
    /// Whether the backward part reads it.
    pub is_wanted: bool,
    /// Values that it is made of.
    pub operands: Vec<usize>,
}

/// Seconds of what may be done with a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// To write it for the backward part, and there to read it.
    pub save: f64,
    /// To compute it again, saved operands that might be computed again left out.
    pub again: f64,
    /// To read it once, where something is computed again of it.
    pub read: f64,
}

/// The most points of a run.
const MAX_POINTS: usize = 8;
/// A point must lie so far below the line between its neighbours, relative to the seconds between them.
const BEND: f64 = 0.02;
/// Capacities of a graph add up to less than this, so that sums are exact.
const TOTAL: f64 = 1e15;

/// The corners of the lower hull: none again, the fastest, and on to the least bytes.
pub fn hull(values: &[Value]) -> Vec<Point> {
    let none = Point::default();
    let bytes: f64 = values.iter().filter_map(|value| value.bytes).sum();
    let secs: f64 = values.iter().map(|it| it.secs.save + it.secs.again + it.secs.read).sum();
    if bytes <= 0.0 || !values.iter().any(|value| value.is_wanted) {
        return vec![none];
    }
    // So cheap, and so dear, that a thousandth of all seconds, and of all bytes, is worth all of the others.
    let [fast, least] = [1e-3, 1e3].map(|price| point(values, price * secs.max(1e-9) / bytes));
    let mut corners = vec![none];
    if fast.secs < 0.0 && fast.saved_bytes > 0.0 {
        corners.push(fast);
    }
    let low = corners[corners.len() - 1].clone();
    if least.saved_bytes > low.saved_bytes {
        between(values, &low, &least, &mut corners);
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
        secs: secs(values, &is_again) - secs(values, &vec![false; values.len()]),
        saved_bytes: wanted().filter_map(|value| value.bytes).sum::<f64>() - saved,
        again_bytes: chosen().filter(|value| value.is_wanted).filter_map(|value| value.bytes).sum(),
    }
}

/// What a choice takes: every value that is needed is saved, or computed again of its operands.
fn secs(values: &[Value], is_again: &[bool]) -> f64 {
    let is_made: Vec<bool> =
        values.iter().zip(is_again).map(|(value, again)| *again || value.bytes.is_none()).collect();
    let read = |&operand: &usize| if is_made[operand] { 0.0 } else { values[operand].secs.read };
    let one = |(value, at): (&Value, usize)| match is_made[at] {
        true => value.secs.again + value.operands.iter().map(read).sum::<f64>(),
        false => value.secs.save,
    };
    let is_needed = needed(values, is_again);
    values.iter().zip(0..).filter(|(_, at)| is_needed[*at]).map(one).sum()
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
        let worth = values.iter().map(|it| {
            let reads = 1.0 + it.operands.len() as f64;
            it.secs.save + it.secs.again + reads * it.secs.read + price * it.bytes.unwrap_or(0.0)
        });
        let all: f64 = worth.sum::<f64>() * (1.0 + values.len() as f64);
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
            let saved = value.bytes.map_or(never, |bytes| capacity(price * bytes + value.secs.save));
            if !value.can_run_again {
                edge(needed, SINK, saved);
                continue;
            }
            edge(needed, again, saved);
            // What is always saved is read in any case.
            let given = value.operands.iter().map(|&it| &values[it]).filter(|it| !it.can_run_again);
            edge(again, SINK, capacity(value.secs.again + given.map(|it| it.secs.read).sum::<f64>()));
            for &operand in &value.operands {
                let is_open = values[operand].can_run_again && values[operand].bytes.is_some();
                edge(again, 2 + 2 * operand, never);
                edge(again, 3 + 2 * operand, if is_open { capacity(values[operand].secs.read) } else { 0 });
            }
        }
        Network { graph }
    }

    /// Which values the least cut computes again.
    fn is_again(&self, values: &[Value]) -> Vec<bool> {
        let (_, flows) = dinics(&self.graph, NodeIndex::new(SOURCE), NodeIndex::new(SINK));
        let reached = self.reached(&flows);
        (0..values.len()).map(|at| values[at].can_run_again && reached[3 + 2 * at]).collect()
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

    /// A chain of values: seconds to compute again, bytes, whether the backward part reads it.
    fn chain(values: &[(f64, f64, bool)]) -> Vec<Value> {
        let value = |(at, &(again, bytes, is_wanted)): (usize, &(f64, f64, bool))| Value {
            id: InstrId::new(at),
            can_run_again: true,
            secs: Seconds { again, ..Seconds::default() },
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
                (0..values.len()).map(|at| mask >> at & 1 == 1 && values[at].can_run_again).collect();
            let is_needed = needed(values, &is_again);
            let saved = (0..values.len()).filter(|&at| is_needed[at] && !is_again[at]);
            secs(values, &is_again) + price * saved.filter_map(|at| values[at].bytes).sum::<f64>()
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
        values[0].can_run_again = false;
        assert_eq!(hull(&values).len(), 1);
    }

    #[test]
    fn what_is_faster_made_than_read_is_a_corner_of_its_own() {
        // A product, and a long chain's end: written and read in 6 seconds, or made of the product, which is
        // read in 2.
        let mut values = chain(&[(10.0, 100.0, true), (1.0, 50.0, true)]);
        (values[0].secs.save, values[0].secs.read, values[1].secs.save) = (2.0, 2.0, 6.0);
        let points = hull(&values);
        let figures: Vec<(f64, f64)> = points.iter().map(|point| (point.secs, point.saved_bytes)).collect();
        assert_eq!(figures, [(0.0, 0.0), (-3.0, 50.0), (3.0, 150.0)]);
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
                let can_run_again = random(5) > 0;
                let [save, again, read] = [20, 20, 10].map(|most| random(most) as f64);
                let secs = Seconds { save, again, read };
                let bytes = (!can_run_again || random(4) > 0).then_some(random(30) as f64);
                let is_wanted = random(2) == 0;
                values.push(Value { id: InstrId::new(at), can_run_again, secs, bytes, is_wanted, operands });
            }
            let price = 0.1 * (1 + random(20)) as f64;
            let base: f64 =
                values.iter().filter(|value| value.is_wanted).filter_map(|value| value.bytes).sum();
            let found = point(&values, price);
            let none_secs = secs(&values, &vec![false; n]);
            let cost = none_secs + found.secs + price * (base - found.saved_bytes);
            assert!((cost - brute(&values, price)).abs() < 1e-6, "{cost} {values:?}");
        }
    }

    /// Independent values, each saved with so many bytes or made again in so many seconds.
    fn apart(values: &[(f64, f64)]) -> Vec<Value> {
        let mut found = chain(&values.iter().map(|&(secs, bytes)| (secs, bytes, true)).collect::<Vec<_>>());
        found.iter_mut().for_each(|value| value.operands.clear());
        found
    }

    #[test]
    fn the_corners_are_the_same_whatever_unit_seconds_and_bytes_have() {
        for (second, byte) in [(1.0, 1.0), (1e5, 1.0), (1e-5, 1.0), (1.0, 1e6), (1e-5, 1e6)] {
            let points = hull(&apart(&[(second, 100.0 * byte), (10.0 * second, 100.0 * byte)]));
            let figures: Vec<(f64, f64)> = points
                .iter()
                .map(|point| ((point.secs / second).round(), point.saved_bytes / byte))
                .collect();
            assert_eq!(figures, [(0.0, 0.0), (1.0, 100.0), (11.0, 200.0)], "{second} {byte}");
        }
    }

    #[test]
    fn a_run_has_eight_points_at_most() {
        let values: Vec<(f64, f64)> = (1..=14).map(|at| (f64::from(at * at), 10.0)).collect();
        assert_eq!(hull(&apart(&values)).len(), 8);
    }

    #[test]
    fn a_point_near_the_line_between_others_is_left_out() {
        // A second more than the line from none to both would have, and a hundredth more.
        assert_eq!(hull(&apart(&[(9.0, 100.0), (11.0, 100.0)])).len(), 3);
        assert_eq!(hull(&apart(&[(9.99, 100.0), (10.01, 100.0)])).len(), 2);
    }
}
