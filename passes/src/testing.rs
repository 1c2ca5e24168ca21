//! What every pass' unit tests share: text in, passes run, text out.

use crate::manager::{self, CLUSTER_NOTE, Hooks, PASSES_NOTE};
use crate::pass::Context;
use crate::pipeline::Pipeline;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Diagnostic, parse, print};

/// The program after the pipeline, without the notes that say what ran; or the errors, one per line.
pub(crate) fn check(pipeline: &str, text: &str) -> String {
    let lines = |errors: Vec<Diagnostic>| errors.iter().map(|error| format!("error: {error}\n")).collect();
    run(pipeline, text).unwrap_or_else(lines)
}

fn run(pipeline: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let cluster = Cluster::named(DEFAULT_CLUSTER).map_err(|error| vec![error])?;
    let mut module = parse(text).map_err(|error| vec![error])?;
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    let mut cx = Context::new(&cluster);
    manager::run(&mut module, &Pipeline::parse(pipeline)?, &mut cx, &mut hooks)?;
    module.remove_note(PASSES_NOTE);
    module.remove_note(CLUSTER_NOTE);
    Ok(print(&module))
}
