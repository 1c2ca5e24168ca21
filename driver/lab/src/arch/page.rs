//! What a search found, as a page shows it: accelerators, and the operators of the best.

use super::report;
use super::solve::{Chosen, Found, ModeFound};
use phzc_arch::estimate::Operator;

/// What is shown of a search.
#[derive(Clone, Debug)]
pub struct ArchPage {
    /// Names of the models.
    pub models: Vec<String>,
    /// By cost mode.
    pub modes: Vec<ModePage>,
}

/// What a cost mode found.
#[derive(Clone, Debug)]
pub struct ModePage {
    /// As on the command line.
    pub name: &'static str,
    /// How many accelerators were looked at.
    pub heading: String,
    /// The best of each model, the common one, then the front or the list by area.
    pub accelerators: Vec<Shown>,
    /// By model: the operators of its layers on its best accelerator.
    pub operators: Vec<Vec<LayerOperators>>,
}

/// An accelerator.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Why it is shown.
    pub label: String,
    /// Its name.
    pub name: String,
    /// Its area.
    pub area_mm2: f64,
    /// Its power at most.
    pub watts: f64,
    /// By model: seconds of a step; `None` where no plan fits.
    pub step_secs: Vec<Option<f64>>,
}

/// A kind of layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerOperators {
    /// As the chain names it.
    pub name: String,
    /// How often it occurs.
    pub n_layers: usize,
    /// What it runs.
    pub operators: Vec<Operator>,
}

/// What is shown of what was found.
pub(super) fn page(found: &Found) -> ArchPage {
    ArchPage { models: found.models.clone(), modes: found.modes.iter().map(|it| mode(found, it)).collect() }
}

fn mode(found: &Found, mode: &ModeFound) -> ModePage {
    let best = mode.best.iter().zip(&found.models);
    let best = best.filter_map(|(it, model)| Some((format!("best of {model}"), it.as_ref()?)));
    let common = mode.common.iter().filter(|_| found.models.len() > 1).map(|it| ("common".to_owned(), it));
    let label = if found.is_list { "listed" } else { "front" };
    let others = mode.shown.iter().map(|it| (label.to_owned(), it));
    let all = best.chain(common).chain(others);
    ModePage {
        name: report::name(mode.mode),
        heading: report::heading(mode),
        accelerators: all.map(|(label, it)| shown(found, label, it)).collect(),
        operators: mode.operators.clone(),
    }
}

fn shown(found: &Found, label: String, chosen: &Chosen) -> Shown {
    let point = &chosen.candidate.point;
    Shown {
        label,
        name: found.space.template(point.cores).name,
        area_mm2: point.um2 / 1e6,
        watts: point.watts,
        step_secs: chosen.plans.iter().map(|plan| Some(plan.as_ref()?.1)).collect(),
    }
}
