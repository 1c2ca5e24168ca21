//! Measured layers over the analytic model: `--profile FILE` gives the times of single layers, in JSON.
//!
//! `model -> device -> sequences of a microbatch -> tensor-parallel degree -> layer -> [forward, backward,
//! update]`, in seconds; layers are numbered from 0, embedding and head among them. A row takes part when its
//! `model` begins like one of the profile and its `device` ends like one. The other form, `name -> [forward
//! seconds of each layer]` for one sequence, is for trials (`trials.rs`). Microbatches between two measured
//! ones are interpolated, beyond them the time goes on with the same fixed and linear part.

use super::csv::Record;
use super::plan::Plan;
use phzc_cost::training::Layout;
use phzc_io::json;
use phzc_ir::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Forward, backward and update, in seconds.
pub(crate) type LayerSecs = [f64; 3];

/// Seconds from 0 up.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Secs(f64);

impl TryFrom<f64> for Secs {
    type Error = String;

    fn try_from(secs: f64) -> std::result::Result<Secs, String> {
        let is_legal = secs.is_finite() && secs >= 0.0;
        is_legal.then_some(Secs(secs)).ok_or_else(|| format!("expected seconds from 0 up, found `{secs}`"))
    }
}

/// Layers by number, as text.
type Layers = BTreeMap<String, [Secs; 3]>;
/// Layers by tensor-parallel degree.
type Degrees = BTreeMap<String, Layers>;
/// These by sequences of a microbatch.
type Sizes = BTreeMap<String, Degrees>;

/// A file of measured layers.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    models: BTreeMap<String, BTreeMap<String, Sizes>>,
    /// Forward seconds of each layer for one sequence, by a name that says model, device and degree.
    lists: BTreeMap<String, Vec<Secs>>,
}

/// How a time came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// It was measured.
    Exact,
    /// It lies between two that were measured.
    Interpolated,
    /// It lies beyond all that were measured.
    Extrapolated,
}

impl Source {
    /// For tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Exact => "measured layers",
            Source::Interpolated => "interpolated layers",
            Source::Extrapolated => "extrapolated layers",
        }
    }
}

impl Profile {
    /// Reads one file.
    ///
    /// # Errors
    /// When it has neither form, at the place where the one that goes further ends; or a time that is none.
    pub fn parse(text: &str) -> Result<Profile> {
        let as_models = match serde_json::from_str(text) {
            Ok(models) => return Ok(Profile { models, lists: BTreeMap::new() }),
            Err(error) => error,
        };
        let as_lists = match serde_json::from_str(text) {
            Ok(lists) => return Ok(Profile { models: BTreeMap::new(), lists }),
            Err(error) => error,
        };
        let place = |error: &serde_json::Error| (error.line(), error.column());
        let further = if place(&as_lists) > place(&as_models) { as_lists } else { as_models };
        let help = "`{\"model\": {\"device\": {\"microbatch\": {\"degree\": {\"layer\": [forward, backward, update]}}}}}` \
                    or `{\"name\": [forward, ...]}`, in seconds; see docs/validation.md";
        Err(json::diagnostic(text, "the measured layers", help, &further))
    }

    /// Whether it has lists of the trials' model.
    pub fn is_of_trials(&self) -> bool {
        self.lists.keys().any(|name| name.starts_with("gpt2_"))
    }

    /// Forward seconds of one layer of a list, for one sequence.
    pub fn forward_secs(&self, list: &str, layer: usize) -> Option<f64> {
        self.lists.get(list)?.get(layer).map(|secs| secs.0)
    }

    /// The stages of a row: the sums of their layers, and where these come from.
    pub fn stages(&self, row: Record, layout: &Layout) -> Option<(Vec<LayerSecs>, Source)> {
        let (model, device) = (row.text("model"), row.text("device"));
        let (layers, source) = self.layers(model, device, layout.micro_batch, layout.tensor)?;
        Some((cut(&layers, &stated(row.text("notes"), layout.stages, layers.len())), source))
    }

    /// The stages of a plan over unlike devices: of the copies of a stage the slowest counts, since all have
    /// as many microbatches and none goes on before gradients are summed.
    pub fn plan_stages(
        &self,
        model: &str,
        plan: &Plan,
        micro_batch: usize,
    ) -> Option<(Vec<LayerSecs>, Source)> {
        let mut worst = Source::Exact;
        let mut stages = Vec::new();
        for stage in &plan.stages {
            let mut slowest = [0.0; 3];
            for copy in &stage.copies {
                let (layers, source) = self.layers(model, &copy.device, micro_batch, copy.tensor)?;
                worst = worst.max(source);
                let own = layers.get(stage.first_layer..stage.first_layer + stage.n_layers)?;
                let secs = cut(own, &[own.len()])[0];
                let is_slower = secs[0] + secs[1] > slowest[0] + slowest[1];
                slowest = if is_slower { secs } else { slowest };
            }
            stages.push(slowest);
        }
        Some((stages, worst))
    }

    /// The layers of a model on one device.
    fn layers(
        &self,
        model: &str,
        device: &str,
        micro_batch: usize,
        tensor: usize,
    ) -> Option<(Vec<LayerSecs>, Source)> {
        let of_model = self.models.iter().find(|(known, _)| model.starts_with(*known))?.1;
        let of_device = of_model.iter().find(|(known, _)| device.ends_with(known.as_str()))?.1;
        let mut measured: Vec<(usize, &Layers)> = of_device
            .iter()
            .filter_map(|(size, degrees)| Some((size.parse().ok()?, degrees.get(&tensor.to_string())?)))
            .collect();
        measured.sort_by_key(|(size, _)| *size);
        at(&measured, micro_batch)
    }
}

/// The layers' times at a size, from the nearest two that were measured.
fn at(measured: &[(usize, &Layers)], size: usize) -> Option<(Vec<LayerSecs>, Source)> {
    let ordered = |layers: &Layers| -> Vec<LayerSecs> {
        let mut numbered: Vec<(usize, LayerSecs)> = layers
            .iter()
            .filter_map(|(number, secs)| Some((number.parse().ok()?, secs.map(|it| it.0))))
            .collect();
        numbered.sort_by_key(|(number, _)| *number);
        numbered.into_iter().map(|(_, secs)| secs).collect()
    };
    if let Some((_, layers)) = measured.iter().find(|(known, _)| *known == size) {
        return Some((ordered(layers), Source::Exact));
    }
    let above = measured.iter().position(|(known, _)| *known > size).unwrap_or(measured.len());
    let first = above.saturating_sub(1).min(measured.len().checked_sub(2)?);
    let [(low, low_layers), (high, high_layers)] = [measured[first], measured[first + 1]];
    let part = (size as f64 - low as f64) / (high as f64 - low as f64);
    let between = ordered(low_layers).into_iter().zip(ordered(high_layers));
    let layers = between.map(|(a, b)| [0, 1, 2].map(|i| (a[i] + part * (b[i] - a[i])).max(0.0))).collect();
    let is_inside = (0.0..=1.0).contains(&part);
    Some((layers, if is_inside { Source::Interpolated } else { Source::Extrapolated }))
}

/// `layers_per_stage=[7, 9, 9, 9]` of a row's remarks, embedding and head among them.
fn listed(notes: &str) -> Option<Vec<usize>> {
    let list = notes.split("layers_per_stage=[").nth(1).and_then(|rest| rest.split(']').next())?;
    list.split(',').map(|n| n.trim().parse().ok()).collect()
}

/// Layers of each stage as a row's remarks have them, embedding and head apart; empty where they say nothing
/// that fits.
pub(crate) fn stage_layers(notes: &str, n_stages: usize, n_layers: usize) -> Vec<usize> {
    let fits = |counts: &Vec<usize>| {
        counts.len() == n_stages && n_stages > 1 && counts.iter().sum::<usize>() == n_layers + 2
    };
    let mut counts = listed(notes).filter(fits).unwrap_or_default();
    for end in [0, n_stages - 1] {
        if let Some(count) = counts.get_mut(end) {
            *count = count.saturating_sub(1);
        }
    }
    counts
}

/// The same counts where they fit, embedding and head among them; else as even as can be.
fn stated(notes: &str, n_stages: usize, n_layers: usize) -> Vec<usize> {
    let even = || (0..n_stages).map(|stage| (n_layers + stage) / n_stages).collect();
    listed(notes)
        .filter(|counts| counts.len() == n_stages && counts.iter().sum::<usize>() == n_layers)
        .unwrap_or_else(even)
}

fn cut(layers: &[LayerSecs], counts: &[usize]) -> Vec<LayerSecs> {
    let mut rest = layers.iter();
    let stage =
        |&n: &usize| rest.by_ref().take(n).fold([0.0; 3], |sum, layer| [0, 1, 2].map(|i| sum[i] + layer[i]));
    counts.iter().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_between_and_beyond_are_told_from_measured_ones() {
        let layers = |secs: f64| Layers::from([("0".to_owned(), [secs, 2.0 * secs, 0.5].map(Secs))]);
        let (one, two, four) = (layers(1.5), layers(2.0), layers(3.0));
        let measured = [(1, &one), (2, &two), (4, &four)];
        assert_eq!(at(&measured, 2), Some((vec![[2.0, 4.0, 0.5]], Source::Exact)));
        assert_eq!(at(&measured, 3), Some((vec![[2.5, 5.0, 0.5]], Source::Interpolated)));
        assert_eq!(at(&measured, 8), Some((vec![[5.0, 10.0, 0.5]], Source::Extrapolated)));
        assert_eq!(at(&measured[..1], 3), None);
    }

    #[test]
    fn stages_are_cut_as_stated_or_evenly() {
        assert_eq!(stated("layers_per_stage=[1, 3] x", 2, 4), [1, 3]);
        assert_eq!(stated("layers_per_stage=[1, 3] x", 2, 5), [2, 3]);
        assert_eq!(stage_layers("layers_per_stage=[2, 4]", 2, 4), [1, 3]);
        assert!(stage_layers("layers_per_stage=[2, 4]", 2, 5).is_empty());
        assert_eq!(cut(&[[1.0, 2.0, 0.0]; 3], &[1, 2]), [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]);
    }
}
