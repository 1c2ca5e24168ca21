//! Points of time and price as they are written down and shown.

use super::pareto::Offer;
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
    /// The same of all orders of the nodes, those too that are not searched.
    pub any_order_secs: Option<f64>,
    /// The plan, if one fits.
    pub plan: Option<Told>,
}

/// A plan as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    pub step_secs: f64,
    /// With those in which nodes are waited for that are not always there.
    pub expected_secs: f64,
    pub usd: f64,
    /// Of these, for bytes between zones.
    pub egress_usd: f64,
    pub kwh: f64,
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
            expected_secs: plan.cost.expected_secs,
            usd: plan.cost.usd,
            egress_usd: plan.cost.egress_usd,
            kwh: plan.cost.kwh,
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
            any_order_secs: Some(best.any_order_secs).filter(|secs| secs.is_finite()),
            plan: best.plan.as_ref().map(told),
        }
    }
}

impl Offer for Point {
    fn cost(&self) -> Option<[f64; 2]> {
        self.plan.as_ref().map(|plan| [plan.expected_secs, plan.usd])
    }

    fn kwh(&self) -> Option<f64> {
        self.plan.as_ref().map(|plan| plan.kwh)
    }

    fn least_cost(&self) -> Option<[f64; 2]> {
        let (bound_secs, own) = (self.bound_secs?, self.plan.as_ref()?);
        // Nodes are paid by the second, and bytes between zones cost nothing at the least.
        let scale = bound_secs / own.step_secs;
        Some([own.expected_secs * scale, (own.usd - own.egress_usd) * scale])
    }
}

/// By which part of its time a plan of an order that was not searched may be faster than the plan of its
/// cluster, at most; none where all orders were.
fn order_missed(wanted: &[&Point]) -> f64 {
    let of = |point: &&Point| {
        let Some(plan) = &point.plan else { return 0.0 };
        let least = point.any_order_secs.unwrap_or(plan.step_secs).min(plan.step_secs);
        let is_left = point.any_order_secs != point.bound_secs;
        if is_left { plan.step_secs / least - 1.0 } else { 0.0 }
    };
    wanted.iter().map(of).fold(0.0, f64::max)
}

/// One object per line.
pub(super) fn json(wanted: &[&Point]) -> String {
    let line = |point: &&Point| serde_json::to_string(point).expect("its numbers are finite") + "\n";
    wanted.iter().map(line).collect()
}

/// A line per point, then what may have been missed.
pub(super) fn text(wanted: &[&Point], kinds: &[&str], (missed, better): (Option<f64>, &str)) -> String {
    let mut text = format!(
        "{:>10}{:>11}{:>9}  {:16}{:24}{}\n",
        "step", "USD", "gap %", "nodes", "tensor/data/stages/size", "layers"
    );
    for (point, plan) in wanted.iter().filter_map(|point| Some((point, point.plan.as_ref()?))) {
        let bound_secs = point.bound_secs.unwrap_or(plan.step_secs);
        let gap = 100.0 * (plan.step_secs - bound_secs) / plan.step_secs;
        let degrees = format!("{}/{}/{}/{}", plan.tensor, plan.data, plan.stages, plan.micro_batch);
        text += &format!(
            "{:>10}{:>11.6}{gap:>9.2}  {:15} {degrees:24}{}\n",
            secs(plan.expected_secs),
            plan.usd,
            nodes(&point.counts, kinds),
            shown(&plan.cut)
        );
    }
    if let Some(missed) = missed {
        text += &format!(
            "no plan that is searched is more than {:.2} % {better} than a point above\n",
            100.0 * missed
        );
    }
    let order_missed = 100.0 * order_missed(wanted);
    if order_missed > 0.0 {
        text += &format!("no order of nodes that is not makes one more than {order_missed:.2} % faster\n");
    }
    text
}

/// `2 A100 + 4 A10`.
pub(super) fn nodes(counts: &[usize], kinds: &[&str]) -> String {
    let used = counts.iter().zip(kinds).filter(|(n, _)| **n > 0);
    used.map(|(n, kind)| format!("{n} {kind}")).collect::<Vec<String>>().join(" + ")
}

/// `3 2 2 2 5` as `3 3x2 5`.
pub(super) fn shown(cut: &[usize]) -> String {
    let runs = cut.chunk_by(|a, b| a == b);
    let run =
        |run: &[usize]| if run.len() > 1 { format!("{}x{}", run.len(), run[0]) } else { run[0].to_string() };
    runs.map(run).collect::<Vec<String>>().join(" ")
}
