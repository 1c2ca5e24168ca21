//! A step of a run from the reports of planned programs.

use super::degrees::{self, Reason};
use crate::generate;
use phzc_cost::training::Job;
use phzc_cost::{Cluster, Pipeline};
use phzc_io::Io;
use phzc_ir::Diagnostic;
use phzc_lab::validate::MeasuredJob;
use phzc_passes::derive::derive;
use phzc_passes::manager::{self, Hooks};
use phzc_passes::{Context, Done, report};

/// What reports say of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub secs: f64,
    /// Bytes on the fullest device; of several stages no report has them.
    pub memory_bytes: Option<f64>,
}

/// One microbatch on the devices of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Micro {
    forward_secs: f64,
    backward_secs: f64,
    /// What comes once per step: sums of gradients, the update.
    once_secs: f64,
    memory_bytes: f64,
}

/// A program of some layers and one of twice as many: what one layer more takes, and what is not of layers.
struct Line {
    one: Micro,
    two: Micro,
    n_layers: f64,
}

impl Line {
    /// A figure of each part of a pipeline; what is not of layers counts with the last, where the head is.
    fn of_parts(&self, parts: &[usize], of: fn(&Micro) -> f64) -> Vec<f64> {
        let layer = (of(&self.two) - of(&self.one)) / self.n_layers;
        let ends = of(&self.one) - self.n_layers * layer;
        let mut figures: Vec<f64> = parts.iter().map(|n| *n as f64 * layer).collect();
        figures.iter_mut().last().into_iter().for_each(|last| *last += ends);
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
    Asked { job: &run.job }.step(&run.cluster, io)
}

impl Asked<'_> {
    fn step(&self, cluster: &Cluster, io: &mut Io) -> Result<Step, Reason> {
        let job = self.job;
        if job.layout.stages > 1 {
            return self.pipeline(cluster, io);
        }
        let all = self.micro(job.model.layers, cluster, io)?;
        let secs = job.layout.n_microbatches as f64 * (all.forward_secs + all.backward_secs) + all.once_secs;
        Ok(Step { secs, memory_bytes: Some(all.memory_bytes) })
    }

    /// The replay of a schedule over stages, whose times two programs tell: one with the layers of a part,
    /// and one with twice as many.
    fn pipeline(&self, cluster: &Cluster, io: &mut Io) -> Result<Step, Reason> {
        let (job, n_stages) = (self.job, self.job.layout.stages);
        let stage = cluster.submesh(cluster.n_devices() / n_stages);
        let parts = job.layers_of_parts();
        let n_layers = parts.iter().copied().max().unwrap_or(1).max(1);
        let line = Line {
            one: self.micro(n_layers, &stage, io)?,
            two: self.micro(2 * n_layers, &stage, io)?,
            n_layers: n_layers as f64,
        };
        let replay = Pipeline {
            forward_secs: line.of_parts(&parts, |it| it.forward_secs),
            backward_secs: line.of_parts(&parts, |it| it.backward_secs),
            send_secs: vec![job.send_secs(cluster); parts.len() - 1],
            n_microbatches: job.layout.n_microbatches,
            ..Pipeline::default()
        };
        let once = line.of_parts(&parts, |it| it.once_secs);
        let of_device = |device: usize| once.iter().skip(device).step_by(n_stages).sum::<f64>();
        let once_secs = (0..n_stages).map(of_device).fold(0.0, f64::max);
        let secs = replay.simulate_interleaved(n_stages).step_secs() + once_secs;
        Ok(Step { secs, memory_bytes: None })
    }

    /// The report of a program with so many layers, planned in the degrees of the run.
    fn micro(&self, n_layers: usize, cluster: &Cluster, io: &mut Io) -> Result<Micro, Reason> {
        let job = self.job;
        let program = degrees::program(job, n_layers)?;
        let mut module = generate::step(&program, io).map_err(|failure| reason(&failure.errors))?;
        let pipeline = phzc_passes::pipeline(&degrees::passes(job)).map_err(|errors| reason(&errors))?;
        let mut cx = Context::new(cluster);
        let mut hooks = Hooks { observer: &mut |_: Done| Ok(()), clock: io.clock };
        manager::run(&mut module, &pipeline, &mut cx, &mut hooks).map_err(|errors| reason(&errors))?;
        let facts = derive(&module).map_err(|error| error.message.to_string())?;
        let plan = report::plan_of(&module, &facts, cluster);
        let Some(stage) = plan.stages.first() else { return Err("its plan has no stage".to_owned()) };
        Ok(Micro {
            forward_secs: stage.forward_secs,
            backward_secs: stage.backward_secs,
            once_secs: plan.time_secs
                - self.job.layout.n_microbatches as f64 * (stage.forward_secs + stage.backward_secs),
            memory_bytes: stage.memory_bytes,
        })
    }
}

/// The reason why a program is not planned, without figures that differ from row to row.
fn reason(errors: &[Diagnostic]) -> Reason {
    let message = errors.first().map_or("", |error| &*error.message);
    match message {
        it if it.starts_with("the program needs ") => {
            "its program needs more memory than there is".to_owned()
        }
        it if it.contains("cannot be cut into") => "its layouts leave no two microbatches".to_owned(),
        it => it.to_owned(),
    }
}
