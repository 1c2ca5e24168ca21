//! Plans over unlike devices: `--plans DIR` has the files that rows name, which say what each copy of each
//! stage runs on.
//!
//! JSON: `pipeline_list[0]` has `layers_per_stage`, lists of layer numbers (embedding and head among them),
//! and `tmp_per_stage`, per stage and copy `[[[device, count, zone], ...], tensor-parallel degree]`. A row
//! names its file by the remark `file <path>`.

use phzc_cost::Accelerator;
use phzc_ir::{Diagnostic, Result};
use serde::Deserialize;

/// Devices of a copy of a stage: name, count, zone; and how many share each product.
type CopyText = (Vec<(String, usize, String)>, usize);

#[derive(Deserialize)]
struct PlanText {
    pipeline_list: Vec<PipelineText>,
}

#[derive(Deserialize)]
struct PipelineText {
    layers_per_stage: Vec<Vec<usize>>,
    tmp_per_stage: Vec<Vec<CopyText>>,
}

/// A plan: its stages in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub stages: Vec<Stage>,
}

/// Some consecutive layers, and the copies of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub first_layer: usize,
    pub n_layers: usize,
    pub copies: Vec<Copy>,
}

/// The devices of one copy, all of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    pub device: String,
    pub zone: String,
    pub tensor: usize,
}

impl Plan {
    /// Reads one file.
    ///
    /// # Errors
    /// When it has not the form above: one pipeline, stages of consecutive layers, copies of one kind of
    /// device each.
    pub fn parse(text: &str) -> Result<Plan> {
        let error = |why: &str| Diagnostic::error(format!("expected a plan: {why}"));
        let file: PlanText = serde_json::from_str(text).map_err(|cause| error(&cause.to_string()))?;
        let [pipeline] = &file.pipeline_list[..] else {
            return Err(error("one pipeline in `pipeline_list`"));
        };
        if pipeline.layers_per_stage.len() != pipeline.tmp_per_stage.len() {
            return Err(error("as many stages in `tmp_per_stage` as in `layers_per_stage`"));
        }
        let both = pipeline.layers_per_stage.iter().zip(&pipeline.tmp_per_stage);
        let stages: Option<Vec<Stage>> = both.map(|(layers, copies)| stage(layers, copies)).collect();
        stages.map(|stages| Plan { stages }).ok_or_else(|| {
            error("consecutive layers in each stage, and one kind of device in each copy of one")
        })
    }

    /// The device with the least memory, if all are known.
    pub fn smallest(&self) -> Option<String> {
        let known: Option<Vec<&Accelerator>> =
            self.devices().into_iter().map(|name| Accelerator::named(name).ok()).collect();
        let least = known?.into_iter().min_by(|a, b| a.hbm_bytes.total_cmp(&b.hbm_bytes))?;
        Some(least.name.clone())
    }

    /// The kinds of devices, each once, in the order of stages.
    fn devices(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for copy in self.stages.iter().flat_map(|stage| &stage.copies) {
            if !found.contains(&copy.device.as_str()) {
                found.push(&copy.device);
            }
        }
        found
    }
}

fn stage(layers: &[usize], copies: &[CopyText]) -> Option<Stage> {
    let first_layer = *layers.first()?;
    let is_consecutive = layers.windows(2).all(|pair| Some(pair[1]) == pair[0].checked_add(1));
    let copies: Option<Vec<Copy>> = copies.iter().map(copy).collect();
    let copies = copies.filter(|copies| is_consecutive && !copies.is_empty())?;
    Some(Stage { first_layer, n_layers: layers.len(), copies })
}

fn copy((devices, tensor): &CopyText) -> Option<Copy> {
    let (device, _, zone) = devices.first()?;
    let is_one_kind = devices.iter().all(|(other, ..)| other == device);
    is_one_kind.then(|| Copy { device: device.clone(), zone: zone.clone(), tensor: *tensor })
}

/// The file that a row's remarks name: `file mit/N2/plan.json; …`.
pub(crate) fn named(notes: &str) -> Option<&str> {
    let (_, rest) = notes.split_once("file ")?;
    let name = rest.split([';', ' ']).next()?;
    // A name that leaves the folder is none of its files.
    let is_inside = !name.starts_with('/') && name.split('/').all(|part| part != "..");
    (name.ends_with(".json") && is_inside).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"pipeline_list": [{"layers_per_stage": [[0, 1], [2]],
        "tmp_per_stage": [[[[["A", 2, "z"]], 2], [[["B", 2, "z"]], 2]], [[[["A", 4, "z"]], 4]]]}]}"#;

    #[test]
    fn a_plan_has_copies_of_unlike_devices() {
        let plan = Plan::parse(TEXT).unwrap();
        assert_eq!(plan.devices(), ["A", "B"]);
        assert_eq!((plan.stages[0].copies.len(), plan.stages[1].first_layer), (2, 2));
    }

    #[test]
    fn what_is_no_plan_is_an_error() {
        for text in [&TEXT.replace("[0, 1]", "[0, 2]"), &TEXT.replace("[2]]", "]"), "{}", &TEXT[..40]] {
            assert!(Plan::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_is_named_by_the_remarks() {
        assert_eq!(named("UNLIKE; file mit/N2/plan.json; x"), Some("mit/N2/plan.json"));
        assert_eq!((named("file ../plan.json"), named("file /x.json"), named("no plan")), (None, None, None));
    }
}
