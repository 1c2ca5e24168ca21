//! A planned program that was read back: its text, its facts, its cluster and its figures.

use crate::cluster;
use phzc_cost::Cluster;
use phzc_frontends::{Program, ReadArgs, load};
use phzc_io::{Failure, Io};
use phzc_ir::{Instr, Module};
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::estimate;
use phzc_passes::partitioned::partitioned;
use phzc_passes::report::{Plan, plan_of};
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

impl Planned {
    /// Reads a program and prices it on its own cluster, or on the one that is asked for.
    ///
    /// # Errors
    /// A file that is no legal program, notes that cannot be read, a cluster that is too small.
    pub fn load(path: &Path, asked: Option<&str>, read: &ReadArgs, io: &mut Io) -> Result<Planned, Failure> {
        let Program { module, source, .. } = load(path, read, io)?;
        let errors = phzc_ir::verify(&module);
        if !errors.is_empty() {
            return Err(Failure { code: 1, source: Some(source), errors });
        }
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
        let facts = derive(&module)?;
        facts.header.fits(&cluster)?;
        let plan = plan_of(&module, &facts, &cluster);
        Ok(Planned { module, facts, cluster, plan })
    }
}
