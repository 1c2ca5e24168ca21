//! The measured trials of AMP (Li et al., NeurIPS 2022): GPT-2 345M on 16 devices in nodes of 4, of one kind
//! or of two.
//!
//! A row says how the model was cut; the dimensions, the nodes and their networks are those of the artifact
//! and stand here. A layer's time grows from the one that was measured for one sequence (`--profile`,
//! `gpt2_<instance>_<tensor degree>`: forward seconds of each layer) by what the formulas say of more
//! sequences: what is measured beyond them is fixed, host and launches, forward and backward.

use super::csv::{Record, Table};
use super::profile::Profile;
use super::score::Scored;
use super::{Made, Outcome, choice, collected, software};
use phzc_cost::training::{Job, Layout, MeasuredStages, Model, Recompute};
use phzc_cost::{AxisGroup, Cluster, Collective};
use phzc_ir::Result;

/// Columns that tell such a table from others.
pub(crate) const COLUMNS: [&str; 7] = ["experiment", "mbs", "tp", "dp", "pp", "cuts", "measured_s"];

/// Devices of one node.
const PER_NODE: usize = 4;
/// Nodes.
const N_NODES: usize = 4;
/// Sequences of a step.
const BATCH: usize = 32;
/// The profile's layers: embedding, an empty one, 24 of the transformer, two empty ones, logits, an empty
/// one.
const N_ENTRIES: usize = 30;
const FIRST_LAYER: usize = 2;
const HEAD: usize = 28;

/// An instance type: its name in the profile, its device, the bandwidths of its node's network and of a
/// device inside it in bits per second, as the artifact measured them.
#[derive(Clone, Copy, PartialEq)]
struct Instance {
    name: &'static str,
    device: &'static str,
    bits_per_sec: f64,
    inner_bits_per_sec: f64,
}

/// G4dn.12xlarge: 4 T4.
const G4: Instance = Instance { name: "G4", device: "t4", bits_per_sec: 50e9, inner_bits_per_sec: 50e9 };
/// P3.8xlarge: 4 V100.
const P3: Instance =
    Instance { name: "P3", device: "v100-16", bits_per_sec: 10e9, inner_bits_per_sec: 170e9 };

/// The nodes of an experiment; `None`: its model is another one.
fn nodes(experiment: &str) -> Option<[Instance; N_NODES]> {
    match experiment {
        "homogeneous" => Some([G4; N_NODES]),
        "het_cluster" => Some([P3, P3, P3, G4]),
        _ => None,
    }
}

/// One outcome per experiment, in the table's order.
///
/// # Errors
/// When a cell is not what its column holds.
pub(crate) fn outcomes(name: &str, table: &Table, profile: &Profile) -> Result<Vec<Outcome>> {
    let mut experiments: Vec<&str> = Vec::new();
    for row in table.records() {
        if !experiments.contains(&row.text("experiment")) {
            experiments.push(row.text("experiment"));
        }
    }
    let outcome = |experiment: &str| {
        let rows: Vec<Record> = table.records().filter(|row| row.text("experiment") == experiment).collect();
        let made: Result<Vec<Made>> = rows.iter().map(|row| made(*row, &rows, profile)).collect();
        Ok(collected(&format!("{name} {experiment}"), "trials", rows.len(), made?))
    };
    experiments.into_iter().map(outcome).collect()
}

fn made(row: Record, all: &[Record], profile: &Profile) -> Result<Made> {
    let degrees = ["mbs", "tp", "dp", "pp"].map(|column| row.positive(column));
    let [micro_batch, tensor, data, stages] = degrees;
    let degrees = [micro_batch?, tensor?, data?, stages?].map(|degree| degree as usize);
    let Some(nodes) = nodes(row.text("experiment")) else {
        return Ok(Made::Not("its model is no stack of one kind of layer".to_owned()));
    };
    let cuts = cuts(row)?;
    let [micro_batch, tensor, data, stages] = degrees;
    let n_devices = tensor.saturating_mul(data).saturating_mul(stages);
    if n_devices != PER_NODE * N_NODES || cuts.len() != stages + 1 {
        return Ok(Made::Not("its degrees or cuts are not those of 16 devices".to_owned()));
    }
    let is_failed = row.text("measured_s") == "inf";
    if is_failed && fits_larger(row, all, micro_batch) {
        return Ok(Made::Not("it failed, and not for want of memory: a larger microbatch ran".to_owned()));
    }
    let measured = if is_failed { None } else { Some(row.positive("measured_s")?) };
    let trial = Trial { nodes, cuts, job: job([micro_batch, tensor, data, stages]), profile };
    Ok(Made::Scored(Box::new(trial.scored(row, measured)?)))
}

/// Where the layers are cut: `0-15-30`.
fn cuts(row: Record) -> Result<Vec<usize>> {
    let cuts: Option<Vec<usize>> = row.text("cuts").split('-').map(|cut| cut.parse().ok()).collect();
    let is_legal = |cuts: &Vec<usize>| {
        cuts.windows(2).all(|pair| pair[0] < pair[1]) && cuts[0] == 0 && cuts[cuts.len() - 1] == N_ENTRIES
    };
    cuts.filter(is_legal).ok_or_else(|| {
        row.error("cuts", &format!("expected rising cuts from 0 to {N_ENTRIES}, as `0-15-{N_ENTRIES}`"))
    })
}

/// Whether the same degrees ran with more sequences at once.
fn fits_larger(row: Record, all: &[Record], micro_batch: usize) -> bool {
    let is_same = |other: &&Record| ["tp", "dp", "pp"].iter().all(|one| other.text(one) == row.text(one));
    let is_larger = |other: &&Record| other.text("mbs").parse().is_ok_and(|size: usize| size > micro_batch);
    all.iter().filter(is_same).filter(is_larger).any(|other| other.text("measured_s") != "inf")
}

/// GPT-2 345M by DeepSpeed's pipeline of Megatron, every elementwise operation a kernel, in 16 bits.
fn job([micro_batch, tensor, data, stages]: [usize; 4]) -> Job {
    let model = Model::gpt(24, 1024.0, 16.0, 1024.0, 52256.0);
    let n_microbatches = (BATCH / data / micro_batch).max(1);
    let layout = Layout { tensor, stages, data, micro_batch, n_microbatches, ..Layout::single() };
    let software = software::eager("Megatron-DeepSpeed");
    let stack = software.stack("fp16", "", &layout).expect("a known precision");
    Job { model, layout, recompute: Recompute::Nothing, stack }
}

/// One trial.
struct Trial<'a> {
    nodes: [Instance; N_NODES],
    cuts: Vec<usize>,
    job: Job,
    profile: &'a Profile,
}

impl Trial<'_> {
    fn scored(mut self, row: Record, measured: Option<f64>) -> Result<Scored> {
        let is_layer = |index: &usize| (FIRST_LAYER..FIRST_LAYER + self.job.model.layers).contains(index);
        let counts = self.cuts.windows(2).map(|cut| (cut[0]..cut[1]).filter(is_layer).count());
        self.job.layout.stage_layers = counts.collect();
        let slowest = self.slowest(&self.nodes);
        let cluster = cluster(slowest);
        let prediction = self.job.predict_measured(&cluster, &self.stages());
        let name = ["mbs", "tp", "dp", "pp"].map(|column| format!("{column}{}", row.text(column)));
        Ok(Scored {
            name: name.join(" "),
            device: cluster.accelerator.name.clone(),
            workload: row.text("experiment").to_owned(),
            is_fitted: cluster.accelerator.is_fitted(),
            secs: measured.map(|secs| [secs, prediction.step_secs]),
            bytes: None,
            peer_secs: row.number("predicted_s")?,
            interval_secs: Some(prediction.interval_secs(&cluster)),
            flops: None,
            terms: prediction.terms,
            source: None,
            assumed: String::new(),
            fits: Some([choice::runs(&self.job, &cluster), measured.is_some()]),
        })
    }

    /// The instances that a stage's devices sit in: tensor ranks are next to each other, then copies, then
    /// stages.
    fn instances(&self, stage: usize) -> &[Instance] {
        let size = self.job.layout.tensor * self.job.layout.data;
        &self.nodes[stage * size / PER_NODE..((stage + 1) * size).div_ceil(PER_NODE)]
    }

    /// The instance with the slowest network.
    fn slowest(&self, instances: &[Instance]) -> Instance {
        let by_rate = |a: &&Instance, b: &&Instance| a.bits_per_sec.total_cmp(&b.bits_per_sec);
        *instances.iter().min_by(by_rate).expect("a stage has devices")
    }

    fn stages(&self) -> MeasuredStages {
        let n_stages = self.job.layout.stages;
        let sync = |stage| self.sync_secs(stage);
        MeasuredStages {
            stage_secs: (0..n_stages).map(|stage| self.stage_secs(stage)).collect(),
            send_secs: Some((1..n_stages).map(|stage| self.send_secs(stage - 1)).collect()),
            sync_secs: Some((0..n_stages).map(sync).fold(0.0, f64::max)),
        }
    }

    /// A stage goes as fast as its slowest copy.
    fn stage_secs(&self, stage: usize) -> [f64; 3] {
        let on = |instance: &Instance| {
            let entries =
                (self.cuts[stage]..self.cuts[stage + 1]).map(|entry| self.entry_secs(entry, *instance));
            let update_secs = self.job.update_secs(&cluster(*instance), stage);
            entries.fold([0.0, 0.0, update_secs], |sum, [forward, backward]| {
                [sum[0] + forward, sum[1] + backward, sum[2]]
            })
        };
        let copies = self.instances(stage).iter().map(on);
        copies.max_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1]))).unwrap_or_default()
    }

    /// One entry of the profile for one microbatch.
    fn entry_secs(&self, entry: usize, instance: Instance) -> [f64; 2] {
        let cluster = cluster(instance);
        let layers = FIRST_LAYER..FIRST_LAYER + self.job.model.layers;
        let computed = |micro_batch: usize| {
            let layout = Layout { micro_batch, ..self.job.layout.clone() };
            let job = Job { layout, ..self.job.clone() };
            match entry {
                HEAD => job.head_secs(&cluster),
                entry if layers.contains(&entry) => job.layer_secs(&cluster),
                _ => [0.0; 2],
            }
        };
        let name = format!("gpt2_{}_{}", instance.name, self.job.layout.tensor);
        grown(self.profile.forward_secs(&name, entry), computed(1), computed(self.job.layout.micro_batch))
    }

    fn sync_secs(&self, stage: usize) -> f64 {
        let (layout, stack) = (&self.job.layout, &self.job.stack);
        let group = AxisGroup { size: layout.data, stride: layout.tensor };
        let bytes = self.job.stage_gradient_bytes(stage) / layout.tensor as f64;
        let cluster = cluster(self.slowest(self.instances(stage)));
        cluster.collective_over_secs(Collective::AllReduce, bytes, &[group]) / stack.data_efficiency
    }

    fn send_secs(&self, stage: usize) -> f64 {
        let layout = &self.job.layout;
        let size = layout.tensor * layout.data;
        let is_crossing = stage * size / PER_NODE != (stage + 1) * size / PER_NODE;
        let ends = [self.instances(stage)[0], self.instances(stage + 1)[0]];
        cluster(self.slowest(&ends)).send_secs(self.job.message_bytes() / layout.tensor as f64, is_crossing)
    }
}

/// What was measured of one sequence, and what the formulas add for more; where they say more than was
/// measured, in proportion.
fn grown(measured: Option<f64>, one: [f64; 2], many: [f64; 2]) -> [f64; 2] {
    match measured {
        None => many,
        Some(secs) if secs >= one[0] => many.map(|more| secs - one[0] + more),
        Some(secs) => many.map(|more| secs / one[0] * more),
    }
}

fn cluster(instance: Instance) -> Cluster {
    let name = format!("{}-{PER_NODE}x{N_NODES}", instance.device);
    let cluster = Cluster::named(&name).expect("a known device");
    // The devices of a node share its network.
    cluster
        .with_inner_bytes_per_sec(instance.inner_bits_per_sec / 8.0)
        .with_outer_bytes_per_sec(instance.bits_per_sec / 8.0 / PER_NODE as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fixed_does_not_grow_with_the_microbatch() {
        assert_eq!(grown(Some(5.0), [2.0, 4.0], [4.0, 8.0]), [7.0, 11.0]);
        assert_eq!(grown(Some(1.0), [2.0, 4.0], [4.0, 8.0]), [2.0, 4.0]);
        assert_eq!(grown(None, [2.0, 4.0], [4.0, 8.0]), [4.0, 8.0]);
    }

    #[test]
    fn the_devices_of_a_stage_sit_in_consecutive_nodes() {
        let profile = Profile::default();
        let nodes = nodes("het_cluster").unwrap();
        let trial = Trial { nodes, cuts: vec![0, 15, 30], job: job([1, 2, 4, 2]), profile: &profile };
        assert_eq!(trial.instances(1).iter().map(|one| one.name).collect::<Vec<&str>>(), ["P3", "G4"]);
        let trial = Trial { nodes, cuts: vec![0, 15, 30], job: job([1, 1, 1, 16]), profile: &profile };
        assert_eq!(trial.instances(12).iter().map(|one| one.name).collect::<Vec<&str>>(), ["G4"]);
    }
}
