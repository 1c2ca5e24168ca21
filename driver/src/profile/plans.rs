//! The plans whose costs are to be measured: the best one, and the best on other meshes that may beat it.

use super::ProfileArgs;
use super::entries::{Collected, Collector};
use crate::{cluster, given, hints};
use phzc_cost::{Cluster, Measured};
use phzc_frontends::{Program, load};
use phzc_io::{Failure, Io};
use phzc_ir::{Diagnostic, Module};
use phzc_passes::derive::{Facts, derive};
use phzc_passes::manager::{self, Hooks};
use phzc_passes::pass::Interrupt;
use phzc_passes::report::{self, Plan};
use phzc_passes::{Context, Done, Pipeline, shard};
use std::sync::Arc;

/// A program and how it is planned.
pub(super) struct Planning {
    module: Module,
    pipeline: Pipeline,
    /// The hardware, without measurements.
    pub cluster: Cluster,
}

/// A plan, read back.
pub(super) struct Planned {
    pub module: Module,
    pub facts: Facts,
    pub plan: Plan,
}

impl Planning {
    /// Reads the program.
    pub fn load(args: &ProfileArgs, io: &mut Io) -> Result<Planning, Failure> {
        let pipeline = phzc_passes::pipeline(&args.passes).map_err(|errors| Failure {
            code: 2,
            source: None,
            errors,
        })?;
        hints::check_model(&args.model)?;
        let Program { module, source, .. } = load(&args.model, &args.read, io)?;
        let errors = phzc_ir::verify(&module);
        if !errors.is_empty() {
            return Err(Failure { code: 1, source: Some(source), errors });
        }
        let cluster = cluster::choose_equal(args.cluster.as_deref(), &module)?;
        let pipeline = given::unmapped(&pipeline, &module);
        if !pipeline.steps.iter().any(|step| step.pass.name == shard::PASS.name) {
            let error = Diagnostic::error("`--passes` plans nothing: it lacks the pass `shard`");
            return Err(error.help("leave it out, or name `fuse,shard,place`").into());
        }
        Ok(Planning { module, pipeline, cluster })
    }

    /// Plans with what is measured, and collects what the plan asks for, and what others do that may take
    /// less than it and than `best_secs`.
    pub fn collect(
        &self,
        measured: Option<Arc<Measured>>,
        best_secs: f64,
        io: &Io,
    ) -> Result<Collected, Failure> {
        let cluster = self.cluster.clone().with_measured(measured);
        let best = self.plan(&self.pipeline, &cluster, io)?;
        let mut collector = Collector::new(&cluster, &best, best_secs);
        for mesh in shard::meshes(cluster.n_devices() as i64) {
            let mut pipeline = self.pipeline.clone();
            let mut steps = pipeline.steps.iter_mut().filter(|step| step.pass.name == shard::PASS.name);
            let Some(step) = steps.find(|step| step.options.text("mesh").is_empty()) else { break };
            step.options.values.insert("mesh", mesh.to_string());
            // A mesh on which nothing is legal has nothing to measure.
            if let Ok(rival) = self.plan(&pipeline, &cluster, io) {
                collector.rival(&rival);
            }
        }
        Ok(collector.finish(best.module))
    }

    fn plan(&self, pipeline: &Pipeline, cluster: &Cluster, io: &Io) -> Result<Planned, Failure> {
        let mut module = self.module.clone();
        let (progress, requests) = (io.progress, io.interrupt);
        let (is_requested, has_plan) = (|| requests.is_requested(), || requests.has_result());
        let interrupt = Interrupt { is_requested: &is_requested, has_plan: &has_plan };
        let mut cx = Context { progress, interrupt, wants_artifacts: false, ..Context::new(cluster) };
        let mut observer = |_: Done| Ok(());
        let mut hooks = Hooks { observer: &mut observer, clock: io.clock };
        manager::run(&mut module, pipeline, &mut cx, &mut hooks).map_err(|errors| Failure {
            code: 1,
            source: None,
            errors,
        })?;
        progress("");
        let facts = derive(&module)?;
        facts.header.fits(cluster)?;
        let plan = report::plan_of(&module, &facts, cluster);
        Ok(Planned { module, facts, plan })
    }
}
