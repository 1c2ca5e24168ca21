//! Which operators of a layer to recompute: the patterns that are not worse than others in both time and
//! bytes.

/// What recomputing an operator costs and brings.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Milliseconds of its forward part.
    pub ms: f64,
    /// MiB that it keeps.
    pub mib: f64,
    /// Whether it may be recomputed.
    pub is_free: bool,
}

/// Recomputed operators of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pattern {
    /// MiB that are not kept.
    pub saved_mib: f64,
    /// Milliseconds that they take again.
    pub ms: f64,
    /// Bit `i`: operator `i` is recomputed.
    pub ops: u64,
}

/// The patterns of a layer by bytes and time, and those on their lower hull.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patterns {
    /// None is worse than another one in both; more bytes saved take more time.
    pub points: Vec<Pattern>,
    /// Positions of those that no mixture of others beats.
    pub hull: Vec<usize>,
}

/// What follows some operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The end of the stage: the last operator keeps its result.
    Stage,
    /// A layer that ends runs: the last operator keeps its result, but a run up to it holds that too if the
    /// next layer's begins.
    Cut,
    /// A layer on into which a run goes.
    Open,
}

/// What patterns are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To be recomputed: no run goes on into the next layer.
    Plan,
    /// To prove: whatever the next layer does.
    Bound,
}

/// The patterns of some operators in which no run holds more than `cap_mib` while it is made again.
///
/// A run of recomputed operators keeps the result of its last one: it saves what the others keep, and needs
/// two operators at least.
pub fn patterns(ops: &[Candidate], cap_mib: f64, edge: Edge, purpose: Use) -> Patterns {
    made(ops, cap_mib, edge, purpose, undominated)
}

/// Those of them on the lower hull: far fewer are looked at, as the hull of sets that are moved and put
/// together is that of their hulls.
pub fn hull_patterns(ops: &[Candidate], cap_mib: f64, edge: Edge, purpose: Use) -> Patterns {
    made(ops, cap_mib, edge, purpose, on_hull)
}

/// The patterns; `needed` says which of those of the first operators matter.
fn made(
    ops: &[Candidate],
    cap_mib: f64,
    edge: Edge,
    purpose: Use,
    needed: fn(Vec<Pattern>) -> Vec<Pattern>,
) -> Patterns {
    let n_ops = ops.len();
    let mut upto: Vec<Vec<Pattern>> = vec![Vec::new(); n_ops + 2];
    upto[0].push(Pattern::default());
    for first in 0..n_ops {
        let here = needed(std::mem::take(&mut upto[first]));
        for (end, run) in runs(ops, first, cap_mib, edge, purpose) {
            let with = |pattern: &Pattern| Pattern {
                saved_mib: pattern.saved_mib + run.saved_mib,
                ms: pattern.ms + run.ms,
                ops: pattern.ops | run.ops,
            };
            // An operator stays between two runs, or they were one.
            upto[(end + 1).min(n_ops + 1)].extend(here.iter().map(with));
        }
        upto[first + 1].extend(here);
    }
    let all = upto.split_off(n_ops).concat();
    let points = needed(all);
    let hull = hull(&points);
    Patterns { points, hull }
}

/// The runs that begin at an operator: the operator after the last, and the run.
fn runs(ops: &[Candidate], first: usize, cap_mib: f64, edge: Edge, purpose: Use) -> Vec<(usize, Pattern)> {
    let mut run = Pattern::default();
    let mut found = Vec::new();
    for end in first + 1..=ops.len() {
        let last = end - 1;
        if !ops[last].is_free {
            break;
        }
        run.ms += ops[last].ms;
        run.ops |= 1 << last;
        run.saved_mib += if last > first { ops[last - 1].mib } else { 0.0 };
        let (mut saved_mib, mut held_mib) = (run.saved_mib, run.saved_mib);
        match (edge, purpose) {
            _ if end < ops.len() => {}
            (Edge::Stage, _) | (Edge::Cut, Use::Bound) => {}
            (Edge::Cut, Use::Plan) => held_mib += ops[last].mib,
            (Edge::Open, Use::Plan) => break,
            (Edge::Open, Use::Bound) => saved_mib += ops[last].mib,
        }
        if saved_mib > 0.0 && held_mib <= cap_mib {
            found.push((end, Pattern { saved_mib, ..run }));
        }
    }
    found
}

fn undominated(mut all: Vec<Pattern>) -> Vec<Pattern> {
    all.sort_by(|a, b| a.saved_mib.total_cmp(&b.saved_mib).then(b.ms.total_cmp(&a.ms)));
    let mut kept: Vec<Pattern> = Vec::new();
    for pattern in all {
        while kept.last().is_some_and(|last| last.ms >= pattern.ms && last.ops != 0) {
            kept.pop();
        }
        kept.push(pattern);
    }
    kept
}

fn on_hull(all: Vec<Pattern>) -> Vec<Pattern> {
    let points = undominated(all);
    hull(&points).into_iter().map(|at| points[at]).collect()
}

fn hull(points: &[Pattern]) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        while let [.., a, b] = hull[..] {
            let (a, b) = (&points[a], &points[b]);
            let is_above = (b.ms - a.ms) * (point.saved_mib - b.saved_mib)
                >= (point.ms - b.ms) * (b.saved_mib - a.saved_mib);
            if !is_above {
                break;
            }
            hull.pop();
        }
        hull.push(at);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn op(ms: f64, mib: f64) -> Candidate {
        Candidate { ms, mib, is_free: true }
    }

    #[test]
    fn a_run_keeps_its_last_result_and_takes_all_its_operators_again() {
        let found = patterns(&[op(1.0, 10.0), op(2.0, 20.0), op(4.0, 40.0)], 1e9, Edge::Cut, Use::Plan);
        let points: Vec<(f64, f64)> = found.points.iter().map(|point| (point.saved_mib, point.ms)).collect();
        assert_eq!(points, [(0.0, 0.0), (10.0, 3.0), (20.0, 6.0), (30.0, 7.0)]);
        assert_eq!(found.hull, [0, 3]);
    }

    #[test]
    fn no_run_holds_more_than_the_cap() {
        let found = patterns(&[op(1.0, 10.0), op(2.0, 20.0), op(4.0, 5.0)], 26.0, Edge::Cut, Use::Plan);
        let most = found.points.iter().map(|point| point.saved_mib).fold(0.0, f64::max);
        assert_eq!(most, 20.0);
    }

    #[test]
    fn a_run_into_the_next_layer_saves_the_last_result_in_a_bound_and_is_in_no_plan() {
        let most = |edge, purpose| {
            let found = patterns(&[op(1.0, 10.0), op(2.0, 20.0)], 1e9, edge, purpose);
            found.points.last().map(|point| point.saved_mib)
        };
        assert_eq!(most(Edge::Cut, Use::Plan), Some(10.0));
        assert_eq!(most(Edge::Open, Use::Bound), Some(30.0));
        assert_eq!(most(Edge::Open, Use::Plan), Some(0.0));
    }

    /// (saved, ms) of one set of operators, `None` where a run holds too much.
    fn value(ops: &[Candidate], set: u64, cap_mib: f64) -> Option<(f64, f64)> {
        let is_in = |at: usize| at < ops.len() && set >> at & 1 == 1;
        let (mut saved_mib, mut ms, mut run_mib) = (0.0, 0.0, 0.0);
        for (at, own) in ops.iter().enumerate().filter(|(at, _)| is_in(*at)) {
            ms += own.ms;
            run_mib = if at > 0 && is_in(at - 1) { run_mib } else { 0.0 };
            if is_in(at + 1) || at + 1 == ops.len() {
                run_mib += own.mib;
            }
            saved_mib += if is_in(at + 1) { own.mib } else { 0.0 };
            if run_mib > cap_mib {
                return None;
            }
        }
        Some((saved_mib, ms))
    }

    fn ops_of(drawn: &[(u8, u8)]) -> Vec<Candidate> {
        drawn.iter().map(|&(ms, mib)| op(f64::from(ms), f64::from(mib))).collect()
    }

    proptest! {
        #[test]
        fn the_hull_is_that_of_all_patterns(
            drawn in prop::collection::vec((1u8..9, 0u8..9), 1..9), cap in 0u8..40, is_plan in any::<bool>(),
        ) {
            let purpose = if is_plan { Use::Plan } else { Use::Bound };
            for edge in [Edge::Stage, Edge::Cut, Edge::Open] {
                let corners = |found: &Patterns| -> Vec<(f64, f64)> {
                    found.hull.iter().map(|&at| (found.points[at].saved_mib, found.points[at].ms)).collect()
                };
                let all = patterns(&ops_of(&drawn), f64::from(cap), edge, purpose);
                let few = hull_patterns(&ops_of(&drawn), f64::from(cap), edge, purpose);
                prop_assert_eq!(few.points.len(), few.hull.len());
                prop_assert_eq!(corners(&few), corners(&all));
            }
        }

        #[test]
        fn every_set_of_operators_is_dominated(
            ops in prop::collection::vec((1u8..9, 0u8..9), 1..7), cap in 0u8..30,
        ) {
            let ops = ops_of(&ops);
            let found = patterns(&ops, f64::from(cap), Edge::Cut, Use::Plan);
            for set in 0..1u64 << ops.len() {
                if let Some((saved_mib, ms)) = value(&ops, set, f64::from(cap)) {
                    prop_assert!(found.points.iter().any(|point| point.saved_mib >= saved_mib && point.ms <= ms));
                }
            }
            for point in &found.points {
                prop_assert_eq!(value(&ops, point.ops, f64::from(cap)), Some((point.saved_mib, point.ms)));
            }
        }
    }
}
