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

impl Offer for Point {
    fn cost(&self) -> Option<[f64; 2]> {
        self.plan.as_ref().map(|plan| [plan.step_secs, plan.usd])
    }

    fn bound_secs(&self) -> Option<f64> {
        self.bound_secs
    }
}

/// One object per line.
pub(super) fn json(wanted: &[&Point]) -> String {
    let line = |point: &&Point| serde_json::to_string(point).expect("its numbers are finite") + "\n";
    wanted.iter().map(line).collect()
}

/// A line per point, then what may have been missed.
pub(super) fn text(wanted: &[&Point], kinds: &[&str], missed: f64) -> String {
    let mut text = format!(
        "{:>10}{:>11}{:>9}  {:16}{:24}{}\n",
        "step", "USD", "gap %", "nodes", "tensor/data/stages/size", "layers"
    );
    for (point, plan) in wanted.iter().filter_map(|point| Some((point, point.plan.as_ref()?))) {
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
