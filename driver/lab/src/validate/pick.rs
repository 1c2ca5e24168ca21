//! Which of the measured plans of one workload the predictions pick, and how much time that loses.

use super::csv::Record;
use super::score::{Scored, relative};
use serde::Serialize;

/// A pick that loses no more per cent than this is as good as the best.
const NEAR_PERCENT: f64 = 2.0;

/// The plan that is predicted to be the fastest of those that were measured with one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Pick {
    /// What all of them run, and on which devices.
    pub workload: String,
    /// Plans with a measured and a predicted time.
    pub plans: usize,
    /// Name and measured seconds of the picked one.
    pub picked: String,
    /// Seconds.
    pub picked_secs: f64,
    /// Name and measured seconds of the fastest.
    pub best: String,
    /// Seconds.
    pub best_secs: f64,
}

impl Pick {
    /// How much longer the picked plan takes than the fastest, in per cent.
    pub fn lost_percent(&self) -> f64 {
        relative([self.best_secs, self.picked_secs])
    }

    /// Whether it is the fastest, or as good.
    pub fn is_near(&self) -> bool {
        self.lost_percent() <= NEAR_PERCENT
    }
}

/// What rows have in common that compete with each other; empty where a row does not say it all.
pub(crate) fn workload(row: Record) -> String {
    let cells = ["model", "device", "gpus", "seq", "gbs", "dtype"].map(|column| row.text(column));
    let is_told = cells[..5].iter().all(|cell| !cell.is_empty());
    if is_told { cells.join(" ").trim_end().to_owned() } else { String::new() }
}

/// The picks of all workloads with two timed plans or more, in the order of the rows.
pub(crate) fn picks(rows: &[&Scored]) -> Vec<Pick> {
    let mut workloads: Vec<&str> = Vec::new();
    for row in rows {
        if !row.workload.is_empty() && !workloads.contains(&row.workload.as_str()) {
            workloads.push(&row.workload);
        }
    }
    workloads.into_iter().filter_map(|workload| pick(workload, rows)).collect()
}

fn pick(workload: &str, rows: &[&Scored]) -> Option<Pick> {
    let own = rows.iter().filter(|row| row.workload == workload);
    let timed: Vec<(&str, [f64; 2])> = own.filter_map(|row| Some((&*row.name, row.secs?))).collect();
    let least = |side: usize| timed.iter().min_by(|a, b| a.1[side].total_cmp(&b.1[side]));
    let ((best, [best_secs, _]), (picked, [picked_secs, _])) = (*least(0)?, *least(1)?);
    (timed.len() > 1).then(|| Pick {
        workload: workload.to_owned(),
        plans: timed.len(),
        picked: picked.to_owned(),
        picked_secs,
        best: best.to_owned(),
        best_secs,
    })
}

/// How many picks are as good as the best, then those that are not.
pub(crate) fn text(picks: &[Pick]) -> String {
    if picks.is_empty() {
        return String::new();
    }
    let n_near = picks.iter().filter(|pick| pick.is_near()).count();
    let mut out = format!(
        "  picks: {n_near} of {} within {NEAR_PERCENT} % of the fastest measured plan of their workload\n",
        picks.len()
    );
    for pick in picks.iter().filter(|pick| !pick.is_near()) {
        out += &format!(
            "  pick of {} plans, {}: {} took {:.2} s, {} {:.2} s, {:+.1} %\n",
            pick.plans,
            pick.workload,
            pick.picked,
            pick.picked_secs,
            pick.best,
            pick.best_secs,
            pick.lost_percent()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::training::Terms;

    fn row(name: &str, workload: &str, secs: Option<[f64; 2]>) -> Scored {
        Scored {
            name: name.to_owned(),
            device: String::new(),
            workload: workload.to_owned(),
            is_fitted: true,
            secs,
            bytes: None,
            peer_secs: None,
            interval_secs: None,
            flops: None,
            terms: Terms::default(),
            source: None,
            assumed: String::new(),
            fits: None,
        }
    }

    #[test]
    fn the_pick_is_the_fastest_by_prediction_and_its_loss_by_measurement() {
        let rows = [
            row("a", "x", Some([1.0, 2.0])),
            row("b", "x", Some([1.01, 1.5])),
            row("c", "y", Some([1.0, 1.0])),
            row("d", "", Some([0.5, 0.5])),
            row("e", "z", Some([1.0, 3.0])),
            row("f", "z", Some([1.5, 2.0])),
            row("g", "z", None),
        ];
        let picks = picks(&rows.iter().collect::<Vec<&Scored>>());
        let told: Vec<(&str, &str, bool)> =
            picks.iter().map(|it| (&*it.picked, &*it.best, it.is_near())).collect();
        assert_eq!(told, [("b", "a", true), ("f", "e", false)], "one plan alone is no choice");
        assert!(text(&picks).contains("picks: 1 of 2 within"), "{}", text(&picks));
        assert!(text(&picks).contains("f took 1.50 s, e 1.00 s, +50.0 %"), "{}", text(&picks));
    }
}
