//! The program of a plan, planned anew.

use crate::planned::{Planned, Unpriced, Watch, legal_program, type_text};
use crate::{compare, controls};
use phzc_cost::Cluster;
use phzc_frontends::ReadArgs;
use phzc_io::{Failure, Io};
use phzc_ir::{Diagnostic, Module, counted, notes};
use phzc_passes::unplanned::unplanned;
use phzc_passes::unroll::unrolled;
use phzc_passes::{Pipeline, fuse, place, plan_note};
use std::path::{Path, PathBuf};

/// What is planned, and by which passes.
#[derive(Debug, clap::Args)]
pub struct AnewArgs {
    /// The program that PLAN is a plan of [default: PLAN without its layouts, loops as PLAN has them]
    #[arg(long, value_name = "MODEL")]
    pub program: Option<PathBuf>,

    /// Passes that plan anew [default: `dce,fuse,shard,place`, `fuse` with the options that it had,
    /// and the stragglers that the plan expects]
    #[arg(long, value_name = "PIPELINE")]
    pub passes: Option<String>,

    /// How programs are read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// A plan on some hardware, or why there is none.
pub(crate) type Outcome = phzc_ir::Result<Planned>;

/// A program, ready to be planned anew.
pub(crate) struct Anew {
    module: Module,
    pub pipeline: Pipeline,
}

impl Anew {
    /// The program of a plan.
    ///
    /// # Errors
    /// What is wrong with files and options.
    pub fn new(args: &AnewArgs, plan: &Unpriced, io: &mut Io) -> Result<Anew, Failure> {
        let pipeline = pipeline(args, &plan.module)?;
        let Some(path) = &args.program else {
            return Ok(Anew { module: unplanned(&plan.module, &plan.facts), pipeline });
        };
        let (module, _) = legal_program(path, &args.read, io)?;
        let is_of_plan = |module: &Module| of_plan(path, module, &plan.module, args.passes.is_some());
        let Err(error) = is_of_plan(&module) else { return Ok(Anew { module, pipeline }) };
        // Planning may have unrolled its loops over layers.
        let unrolled = unrolled(&module).ok().flatten().filter(|module| is_of_plan(module).is_ok());
        Ok(Anew { module: unrolled.ok_or(error)?, pipeline })
    }

    /// The plan on a cluster. What keeps it from being planned is an outcome.
    pub fn on(&self, cluster: &Cluster, pipeline: &Pipeline, watch: &Watch) -> Outcome {
        Planned::anew(self.module.clone(), pipeline, cluster.clone(), watch)
    }
}

/// An error unless a program can be the one that was planned: it has most instructions of the plan, and the
/// same inputs, unless passes that the user names make them.
fn of_plan(path: &Path, module: &Module, plan: &Module, has_passes: bool) -> phzc_ir::Result<()> {
    let inputs = |module: &Module| -> Vec<String> {
        module.entry().params().into_iter().map(|id| type_text(module.entry().instr(id))).collect()
    };
    let (own, planned) = (inputs(module), inputs(plan));
    let n_alike = own.iter().zip(&planned).filter(|(a, b)| a == b).count();
    let why = match compare::few_shared(module, plan) {
        Some(few) => format!("{few} match by name, op and type"),
        None if !has_passes && n_alike < own.len().max(planned.len()) => {
            format!("{n_alike} of its {} are the plan's {}", counted(own.len(), "input"), planned.len())
        }
        None => return Ok(()),
    };
    let error = Diagnostic::error(format!("`{}` is not the program of this plan: {why}", path.display()));
    Err(error.help("give the program that was planned, or leave `--program` out"))
}

/// The passes that plan anew.
fn pipeline(args: &AnewArgs, plan: &Module) -> Result<Pipeline, Failure> {
    let read =
        |text: &str| phzc_passes::pipeline(text).map_err(|errors| Failure { code: 2, source: None, errors });
    let mut pipeline = read(args.passes.as_deref().unwrap_or("dce,fuse,shard,place"))?;
    let history = plan.note(notes::PASSES).and_then(|text| phzc_passes::pipeline(&text).ok());
    let fused = history.into_iter().flat_map(|it| it.steps).find(|step| step.pass.name == fuse::PASS.name);
    if let (None, Some(fused)) = (&args.passes, fused) {
        pipeline.steps[1] = fused;
    }
    let plan = plan_note::read(plan);
    let straggler = plan.get(plan_note::STRAGGLER).and_then(|it| it.as_str());
    if let (None, Some(straggler)) = (&args.passes, straggler) {
        controls::steps(&mut pipeline, place::PASS.name)
            .for_each(|step| controls::set(step, plan_note::STRAGGLER, straggler));
    }
    Ok(pipeline)
}
