//! What is worth its money: points of time and price, and how far a better one may have been missed.

use super::search::{Best, Plan};
use phzc_io::units::secs;
use serde::{Deserialize, Serialize};

/// The best plan of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    /// Nodes of each kind.
    pub counts: Vec<usize>,
    /// Seconds that no plan on all of them beats, of those that are searched; none where nothing fits.
    pub bound_secs: Option<f64>,
    /// The plan, if one fits.
    pub plan: Option<Told>,
}

/// A plan as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub step_secs: f64,
    pub usd: f64,
    /// Per node in the order of ranks, its kind.
    pub order: Vec<usize>,
    pub tensor: usize,
    pub data: usize,
    pub stages: usize,
    pub micro_batch: usize,
    /// Layers of each stage, embedding and head counted.
    pub cut: Vec<usize>,
    pub memory_gib: f64,
}

impl Point {
    pub(super) fn new(counts: &[usize], best: &Best) -> Point {
        let told = |plan: &Plan| Told {
            step_secs: plan.cost.step_secs,
            usd: plan.cost.usd,
            order: plan.order.clone(),
            tensor: plan.degrees.tensor,
            data: plan.degrees.data,
            stages: plan.degrees.stages,
            micro_batch: plan.degrees.micro_batch,
            cut: plan.cut.clone(),
            memory_gib: plan.cost.memory_gib,
        };
        Point {
            counts: counts.to_vec(),
            bound_secs: Some(best.bound_secs).filter(|secs| secs.is_finite()),
            plan: best.plan.as_ref().map(told),
        }
    }
}

/// The point, or points, that are asked for, the fastest first.
pub(super) fn wanted<'p>(
    points: &'p [Point],
    objective: &str,
    [max_secs, max_usd]: [Option<f64>; 2],
) -> Vec<(&'p Point, &'p Told)> {
    let is_within = |plan: &Told| {
        max_secs.is_none_or(|most| plan.step_secs <= most) && max_usd.is_none_or(|most| plan.usd <= most)
    };
    let planned = points.iter().filter_map(|point| Some((point, point.plan.as_ref()?)));
    let mut planned: Vec<(&Point, &Told)> = planned.filter(|(_, plan)| is_within(plan)).collect();
    planned.sort_by(|a, b| a.1.step_secs.total_cmp(&b.1.step_secs).then(a.1.usd.total_cmp(&b.1.usd)));
    match objective {
        "time" => planned.truncate(1),
        "price" => {
            let least = planned.iter().copied().min_by(|a, b| a.1.usd.total_cmp(&b.1.usd));
            planned = least.into_iter().collect();
        }
        _ => {
            let mut least = f64::INFINITY;
            planned.retain(|(_, plan)| {
                let is_cheaper = plan.usd < least;
                least = least.min(plan.usd);
                is_cheaper
            });
        }
    }
    planned
}

/// By which part of its time a plan that was not found may be better than all that were, at most: of every
/// cluster, how much longer than its bound a plan has to take until some point is as fast and as cheap.
pub(super) fn may_be_missed(points: &[Point]) -> f64 {
    let plans: Vec<&Told> = points.iter().filter_map(|point| point.plan.as_ref()).collect();
    points.iter().filter_map(|point| missed(point, &plans)).fold(0.0, f64::max)
}

/// The same of one cluster; none where nothing fits.
fn missed(point: &Point, plans: &[&Told]) -> Option<f64> {
    let (bound, own) = (point.bound_secs?, point.plan.as_ref()?);
    let bound_usd = bound * own.usd / own.step_secs;
    let longer = |plan: &&Told| (plan.step_secs / bound).max(plan.usd / bound_usd) - 1.0;
    plans.iter().map(longer).reduce(f64::min)
}

/// One object per line.
pub(super) fn json(wanted: &[(&Point, &Told)]) -> String {
    let line =
        |(point, _): &(&Point, &Told)| serde_json::to_string(point).expect("its numbers are finite") + "\n";
    wanted.iter().map(line).collect()
}

/// A line per point, then what may have been missed.
pub(super) fn text(wanted: &[(&Point, &Told)], kinds: &[&str], missed: f64) -> String {
    let mut text = format!(
        "{:>10}{:>11}{:>9}  {:16}{:24}{}\n",
        "step", "USD", "gap %", "nodes", "tensor/data/stages/size", "layers"
    );
    for (point, plan) in wanted {
        let bound_secs = point.bound_secs.unwrap_or(plan.step_secs);
        let gap = 100.0 * (plan.step_secs - bound_secs) / plan.step_secs;
        let nodes: Vec<String> = point
            .counts
            .iter()
            .zip(kinds)
            .filter(|(n, _)| **n > 0)
            .map(|(n, kind)| format!("{n} {kind}"))
            .collect();
        let degrees = format!("{}/{}/{}/{}", plan.tensor, plan.data, plan.stages, plan.micro_batch);
        text += &format!(
            "{:>10}{:>11.6}{gap:>9.2}  {:15} {degrees:24}{}\n",
            secs(plan.step_secs),
            plan.usd,
            nodes.join(" + "),
            shown(&plan.cut)
        );
    }
    text + &format!(
        "no plan that is searched is more than {:.2} % faster and cheaper than a point above\n",
        100.0 * missed
    )
}

/// `3 2 2 2 5` as `3 3x2 5`.
fn shown(cut: &[usize]) -> String {
    let runs = cut.chunk_by(|a, b| a == b);
    let run =
        |run: &[usize]| if run.len() > 1 { format!("{}x{}", run.len(), run[0]) } else { run[0].to_string() };
    runs.map(run).collect::<Vec<String>>().join(" ")
}
