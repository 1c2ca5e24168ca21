//! A step of a run from the reports of planned programs.

use super::degrees::{self, Reason};
use crate::generate;
use phzc_cost::training::{Job, Recompute, Sharding};
use phzc_cost::{AxisGroup, Cluster, Collective, Pipeline};
use phzc_io::Io;
use phzc_ir::{Diagnostic, Module};
use phzc_lab::validate::MeasuredJob;
use phzc_passes::derive::derive;
use phzc_passes::manager::{self, Hooks};
use phzc_passes::report::{self, CollectiveUse, Plan};
use phzc_passes::{Context, Done};

/// What reports say of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub secs: f64,
    /// Bytes on the fullest device, with what the software holds beside; of several stages no report has
    /// them.
    pub memory_bytes: Option<f64>,
}

/// One microbatch on the devices of a stage, and what comes once per step.
#[derive(Clone, Copy, Debug, Default)]
struct Micro {
    /// Forward and backward; of FSDP with the collectives of every microbatch, as far as nothing overlaps.
    phase_secs: [f64; 2],
    /// Parameters that copies hand out before the first forward part, and sums of gradients after the last
    /// backward part; of FSDP none.
    copies_secs: [f64; 2],
    /// The update.
    update_secs: f64,
    memory_bytes: f64,
}

/// Programs with fewer and with more layers: what one layer more takes, and what is not of layers.
struct Line {
    programs: [Micro; 2],
    n_layers: [usize; 2],
}

impl Line {
    /// A figure of each part of a pipeline, of a layer and of the rest at least so much; the rest counts with
    /// the last part, where the head is.
    fn of_parts(
        &self,
        parts: &[usize],
        of: impl Fn(&Micro) -> f64,
        [of_layer, of_rest]: [f64; 2],
    ) -> Vec<f64> {
        let [few, more] = self.n_layers.map(|n| n as f64);
        let [of_few, of_more] = self.programs.each_ref().map(of);
        let layer = (of_more - of_few) / (more - few);
        let rest = (of_few - few * layer).max(of_rest);
        let mut figures: Vec<f64> = parts.iter().map(|n| *n as f64 * layer.max(of_layer)).collect();
        figures.iter_mut().last().into_iter().for_each(|last| *last += rest);
        figures
    }
}

/// What is planned: a run, in its degrees.
struct Asked<'a> {
    job: &'a Job,
}

/// The step of a run.
///
/// # Errors
/// The reason why no program of it can be planned.
pub(super) fn step(run: &MeasuredJob, io: &mut Io) -> Result<Step, Reason> {
    let (mut cluster, stack) = (run.cluster.clone(), &run.job.stack);
    cluster.software.memory_passes *= stack.n_passes;
    cluster.software.portable_attention |= stack.has_portable_attention;
    cluster.software.unpadded_products = true;
    // Beside experts, attention that is not fused has products of several matrices.
    cluster.software.separate_products |=
        run.job.model.experts > 1.0 && !stack.fuses_experts && stack.fuses_attention;
    let step = Asked { job: &run.job }.step(&cluster, io)?;
    // A report has the memory of a run if `place` has an option for what the run computes again.
    let is_kept = matches!(run.job.recompute, Recompute::Nothing | Recompute::Layers(1.0));
    let memory_bytes = step.memory_bytes.filter(|_| is_kept).map(|bytes| bytes + run.beside_bytes);
    Ok(Step { memory_bytes, ..step })
}

impl Asked<'_> {
    fn step(&self, cluster: &Cluster, io: &mut Io) -> Result<Step, Reason> {
        let job = self.job;
        if job.layout.stages > 1 {
            return self.pipeline(cluster, io);
        }
        let all = self.micro(job.model.layers, cluster, io)?;
        let [layer, head] = job.issue_secs(cluster);
        let phase = |at: usize| all.phase_secs[at].max(job.model.layers as f64 * layer[at] + head[at]);
        let phases = [phase(0), phase(1)];
        let secs = job.layout.n_microbatches as f64 * phases.iter().sum::<f64>()
            + self.once_secs(cluster, phases, all.copies_secs)
            + all.update_secs;
        Ok(Step { secs, memory_bytes: Some(all.memory_bytes) })
    }

    /// What copies exchange once per step and nothing hides.
    fn once_secs(&self, cluster: &Cluster, phase_secs: [f64; 2], copies_secs: [f64; 2]) -> f64 {
        let both = copies_secs.into_iter().zip(phase_secs);
        both.map(|(secs, beside)| self.job.exposed_secs(cluster, secs, beside)).sum()
    }

    /// The replay of a schedule over stages, whose times two programs tell: one with the layers of a stage,
    /// and one with half of them.
    fn pipeline(&self, cluster: &Cluster, io: &mut Io) -> Result<Step, Reason> {
        let (job, n_stages) = (self.job, self.job.layout.stages);
        let stage = cluster.submesh(cluster.n_devices() / n_stages);
        let parts = job.layers_of_parts();
        let most = job.model.layers.div_ceil(n_stages).max(2);
        let n_layers = [most / 2, most];
        let programs = [self.micro(n_layers[0], &stage, io)?, self.micro(n_layers[1], &stage, io)?];
        let line = Line { programs, n_layers };
        let [layer, head] = job.issue_secs(cluster);
        let phases = [0, 1].map(|at| line.of_parts(&parts, |it| it.phase_secs[at], [layer[at], head[at]]));
        let copies = [0, 1].map(|at| line.of_parts(&parts, |it| it.copies_secs[at], [0.0; 2]));
        let update = line.of_parts(&parts, |it| it.update_secs, [0.0; 2]);
        let of_device = |of: &[f64], device: usize| of.iter().skip(device).step_by(n_stages).sum::<f64>();
        let once_secs = |device: usize| {
            let [phases, copies] =
                [&phases, &copies].map(|both| [0, 1].map(|at| of_device(&both[at], device)));
            self.once_secs(cluster, phases, copies) + of_device(&update, device)
        };
        let once_secs = (0..n_stages).map(once_secs).fold(0.0, f64::max);
        let [forward_secs, backward_secs] = phases.clone();
        let replay = Pipeline {
            forward_secs,
            backward_secs,
            send_secs: vec![job.send_secs(cluster); parts.len() - 1],
            n_microbatches: job.layout.n_microbatches,
            ..Pipeline::default()
        };
        let secs = replay.simulate_interleaved(n_stages).step_secs() + once_secs;
        Ok(Step { secs, memory_bytes: None })
    }

    /// The report of a program with so many layers, planned in the degrees of the run.
    fn micro(&self, n_layers: usize, cluster: &Cluster, io: &mut Io) -> Result<Micro, Reason> {
        let program = degrees::program(self.job, n_layers)?;
        let module = generate::step(&program, io).map_err(|failure| reason(&failure.errors))?;
        self.planned(module, cluster, io)
    }

    fn planned(&self, mut module: Module, cluster: &Cluster, io: &mut Io) -> Result<Micro, Reason> {
        let passes = degrees::passes(self.job, &module);
        let pipeline = phzc_passes::pipeline(&passes).map_err(|errors| reason(&errors))?;
        let mut cx = Context::new(cluster);
        let mut hooks = Hooks { observer: &mut |_: Done| Ok(()), clock: io.clock };
        manager::run(&mut module, &pipeline, &mut cx, &mut hooks).map_err(|errors| reason(&errors))?;
        let facts = derive(&module).map_err(|error| error.message.to_string())?;
        let plan = report::plan_of(&module, &facts, cluster);
        self.read(&plan, cluster)
    }

    /// What a report says of a microbatch, and of what is done once.
    fn read(&self, plan: &Plan, cluster: &Cluster) -> Result<Micro, Reason> {
        let Some(stage) = plan.stages.first() else { return Err("its plan has no stage".to_owned()) };
        let n_microbatches = self.job.layout.n_microbatches as f64;
        let mut phase_secs = [stage.forward_secs, stage.backward_secs];
        let once_secs = plan.time_secs - n_microbatches * phase_secs.iter().sum::<f64>();
        let hidden = self.hidden_shares(cluster).map(|share| share * self.inside_secs(plan) / n_microbatches);
        phase_secs = [0, 1].map(|at| (phase_secs[at] - hidden[at]).max(0.0));
        let moved = [false, true].map(|is_sum| self.of_copies(plan, is_sum));
        let is_shared = self.job.layout.sharding == Sharding::Parameters;
        if self.job.recompute == Recompute::Products {
            // No option of `place` keeps every other product: half of the forward part, as the list has it.
            let gather_secs = if is_shared { 0.5 * moved[0][0] / n_microbatches } else { 0.0 };
            phase_secs[1] += 0.5 * (phase_secs[0] - gather_secs).max(0.0);
        }
        if is_shared {
            // Each microbatch gathers parameters twice, beside computation, and scatters their gradients.
            let [gathered, summed] = moved.map(|it| it.map(|figure| figure / n_microbatches));
            let half = gathered.map(|figure| 0.5 * figure);
            let beside = |all_secs: f64, [moved_secs, bytes]: [f64; 2]| {
                cluster.beside_secs((all_secs - moved_secs).max(0.0), moved_secs, bytes)
            };
            let back = [half[0] + summed[0], half[1] + summed[1]];
            phase_secs = [beside(phase_secs[0], half), beside(phase_secs[1], back)];
            return Ok(Micro {
                phase_secs,
                copies_secs: [0.0; 2],
                update_secs: once_secs,
                memory_bytes: stage.memory_bytes,
            });
        }
        // What moves in every microbatch is part of the phases already.
        let all_secs: f64 = moved.iter().map(|[secs, _]| secs).sum();
        let share = if all_secs > once_secs { once_secs / all_secs } else { 1.0 };
        let copies_secs = [false, true].map(|is_sum| share * self.bucketed_secs(plan, is_sum, cluster));
        let update_secs = once_secs - share * all_secs;
        Ok(Micro { phase_secs, copies_secs, update_secs, memory_bytes: stage.memory_bytes })
    }

    /// The parts of the collectives inside of layers that the software hides, forward and backward, of all.
    fn hidden_shares(&self, cluster: &Cluster) -> [f64; 2] {
        let listed = self.job.layer_collectives(cluster);
        let share = |secs: f64| if listed.all_secs > 0.0 { secs / listed.all_secs } else { 0.0 };
        listed.hidden_secs.map(share)
    }

    /// Seconds of a step's collectives inside of layers: over devices that share products, what devices
    /// that share sequences or experts exchange, sums of gradients over these apart.
    fn inside_secs(&self, plan: &Plan) -> f64 {
        let is_inside = |it: &&CollectiveUse| match &*it.kind {
            _ if it.axes.iter().any(|own| own == "tensor") => true,
            "all-to-all" | "collective-permute" => it.axes.iter().any(|own| own != "data"),
            "all-gather" => it.axes.iter().all(|own| own == "context"),
            _ => false,
        };
        plan.collectives.iter().filter(is_inside).map(|it| it.time_secs).sum()
    }

    /// Seconds and bytes of a step's collectives over copies of the model: sums, or gathers of parameters.
    /// Where there is one copy, ranks that share a sequence sum up gradients too.
    fn of_copies(&self, plan: &Plan, is_sum: bool) -> [f64; 2] {
        let own = self.uses_of_copies(plan, is_sum);
        own.fold([0.0; 2], |[secs, bytes], it| [secs + it.time_secs, bytes + it.bytes])
    }

    /// Seconds of the same in buckets of many tensors, as training software sends them: what every tensor
    /// would wait for by itself is waited for once.
    fn bucketed_secs(&self, plan: &Plan, is_sum: bool, cluster: &Cluster) -> f64 {
        let secs = |it: &CollectiveUse| {
            let kind = Collective::ALL.into_iter().find(|kind| kind.as_str() == it.kind);
            let at_once = kind.map(|kind| cluster.collective_over_secs(kind, it.bytes, &self.groups(it)));
            at_once.map_or(it.time_secs, |secs| secs.min(it.time_secs))
        };
        self.uses_of_copies(plan, is_sum).map(secs).sum()
    }

    fn uses_of_copies<'p>(
        &'p self,
        plan: &'p Plan,
        is_sum: bool,
    ) -> impl Iterator<Item = &'p CollectiveUse> + 'p {
        let kinds: &[&str] = if is_sum { &["all-reduce", "reduce-scatter"] } else { &["all-gather"] };
        let has_copies = self.job.layout.data > 1;
        plan.collectives.iter().filter(move |it| {
            self.is_of_copies(it) && kinds.contains(&it.kind.as_str()) && (is_sum || has_copies)
        })
    }

    /// The devices of the mesh's axes that a collective runs over.
    fn groups(&self, it: &CollectiveUse) -> Vec<AxisGroup> {
        let axes = degrees::axes(&self.job.layout);
        let group = |at: usize| AxisGroup {
            size: axes[at].1,
            stride: axes[at + 1..].iter().map(|(_, size)| size).product(),
        };
        (0..axes.len()).filter(|&at| it.axes.iter().any(|own| own == axes[at].0)).map(group).collect()
    }

    /// Whether devices that hold the same weights take part, and none that shares products.
    fn is_of_copies(&self, it: &CollectiveUse) -> bool {
        let axes: &[&str] = if self.job.layout.data > 1 { &["data", "expert"] } else { &["context"] };
        let is_over = |own: &String| axes.contains(&own.as_str());
        it.axes.iter().any(is_over) && !it.axes.iter().any(|own| own == "tensor")
    }
}

/// The reason of a run whose program fits on no device.
const TOO_LARGE: &str = "its program needs more memory than there is";

/// The reason why a program is not planned, without figures that differ from row to row.
fn reason(errors: &[Diagnostic]) -> Reason {
    let message = errors.first().map_or("", |error| &*error.message);
    match message {
        it if it.starts_with("the program needs ") => TOO_LARGE.to_owned(),
        it if it.contains("cannot be cut into") => {
            "its layouts do not allow its number of microbatches".to_owned()
        }
        it => it.to_owned(),
    }
}
