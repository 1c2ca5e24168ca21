//! A planned program that was read back: its text, its facts, its cluster and its figures.

use crate::{cluster, given};
use phzc_cost::Cluster;
use phzc_frontends::{Program, ReadArgs, load};
use phzc_io::interrupt::Interrupt;
use phzc_io::render::Source;
use phzc_io::{Failure, Io};
use phzc_ir::{Instr, Module};
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::manager::{self, Hooks};
use phzc_passes::partitioned::partitioned;
use phzc_passes::pass;
use phzc_passes::report::{Plan, crossings, plan_of};
use phzc_passes::{Context, Done, Pipeline, estimate};
use std::path::Path;

/// The type of an instruction's value: `bf16[1024,4096]`; of a tuple that of its first array.
pub(crate) fn type_text(instr: &Instr) -> String {
    let Some(array) = instr.shape.leaves().first().and_then(|leaf| leaf.as_array()) else {
        return "-".to_owned();
    };
    let dims: Vec<String> = array.dims.iter().map(i64::to_string).collect();
    format!("{}[{}]", array.dtype.as_str(), dims.join(","))
}

/// A program as it is priced.
pub(crate) struct Planned {
    /// The program; of one that only carries shardings, completed as a partitioner would.
    pub module: Module,
    /// What its text says.
    pub facts: Facts,
    /// The hardware.
    pub cluster: Cluster,
    /// What it costs there.
    pub plan: Plan,
}

/// A program read and found legal, with its text for messages about it.
///
/// # Errors
/// A file that is no program, or none that is legal.
pub(crate) fn legal_program(path: &Path, read: &ReadArgs, io: &mut Io) -> Result<(Module, Source), Failure> {
    let Program { module, source, .. } = load(path, read, io)?;
    let errors = phzc_ir::verify(&module);
    match errors.is_empty() {
        true => Ok((module, source)),
        false => Err(Failure { code: 1, source: Some(source), errors }),
    }
}

/// A plan that was read, not yet priced.
pub(crate) struct Unpriced {
    /// The program.
    pub module: Module,
    /// What its text says.
    pub facts: Facts,
    /// The hardware.
    pub cluster: Cluster,
}

impl Unpriced {
    /// What the text of a plan says, for a cluster that has its devices.
    ///
    /// # Errors
    /// Notes that cannot be read, a cluster that is too small.
    pub fn new(module: Module, cluster: Cluster) -> phzc_ir::Result<Unpriced> {
        let facts = derive(&module)?;
        facts.header.fits(&cluster)?;
        Ok(Unpriced { module, facts, cluster })
    }

    /// What it costs.
    pub fn plan(&self) -> Plan {
        plan_of(&self.module, &self.facts, &self.cluster)
    }

    /// The same, priced.
    pub fn priced(self) -> Planned {
        let plan = self.plan();
        let Unpriced { module, facts, cluster } = self;
        Planned { module, facts, cluster, plan }
    }
}

/// Who watches a search, and may end it.
pub(crate) struct Watch<'a> {
    /// Called with a phrase when it advances.
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// Whether the user wants it to end.
    pub interrupt: &'a Interrupt,
    /// Seconds since some fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

impl<'a> Watch<'a> {
    /// The user.
    pub fn of(io: &Io<'a>) -> Watch<'a> {
        Watch { progress: io.progress, interrupt: io.interrupt, clock: io.clock }
    }
}

/// Dollars of a step for the bytes that go from one zone to another.
pub(crate) fn egress_usd(module: &Module, facts: &Facts, cluster: &Cluster) -> f64 {
    if !cluster.has_egress() {
        return 0.0;
    }
    let all = crossings(module, facts, cluster).into_iter();
    all.map(|(ends, bytes)| cluster.egress_usd(ends, bytes)).sum()
}

impl Planned {
    /// Reads a program and prices it on its own cluster, or on the one that is asked for.
    ///
    /// # Errors
    /// A file that is no legal program, notes that cannot be read, a cluster that is too small.
    pub fn load(path: &Path, asked: Option<&str>, read: &ReadArgs, io: &mut Io) -> Result<Planned, Failure> {
        let (module, source) = legal_program(path, read, io)?;
        let cluster = cluster::choose(asked, &module)?;
        Planned::new(module, cluster).map_err(|error| Failure::new(Some(source), error))
    }

    /// Prices a program on a cluster.
    ///
    /// # Errors
    /// Notes that cannot be read, a cluster that is too small.
    pub fn new(module: Module, cluster: Cluster) -> phzc_ir::Result<Planned> {
        let module = match is_planned(&module) {
            true => module,
            false => {
                partitioned(&module).map(|it| it.fits(&module, &cluster)).transpose()?;
                estimate::priced(&module, &cluster)?.0
            }
        };
        Ok(Unpriced::new(module, cluster)?.priced())
    }
    /// Runs passes over a program on a cluster, and prices it there.
    ///
    /// # Errors
    /// What keeps it from being planned.
    pub fn anew(
        mut module: Module,
        pipeline: &Pipeline,
        cluster: Cluster,
        watch: &Watch,
    ) -> phzc_ir::Result<Planned> {
        let pipeline = given::unmapped(pipeline, &module);
        let (progress, requests) = (watch.progress, watch.interrupt);
        let (is_requested, has_plan) = (|| requests.is_requested(), || requests.has_result());
        let interrupt = pass::Interrupt { is_requested: &is_requested, has_plan: &has_plan };
        let mut cx = Context { progress, interrupt, ..Context::new(&cluster) };
        let mut observer = |_: Done| Ok(());
        let mut hooks = Hooks { observer: &mut observer, clock: watch.clock };
        let ran = manager::run(&mut module, &pipeline, &mut cx, &mut hooks);
        progress("");
        match ran {
            Ok(()) => Planned::new(module, cluster.clone()),
            Err(mut errors) => Err(errors.swap_remove(0)),
        }
    }
}
