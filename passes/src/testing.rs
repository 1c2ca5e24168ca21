//! What every pass' unit tests share: text in, passes run, text out.

use crate::manager::{self, CLUSTER_NOTE, Hooks, PASSES_NOTE};
use crate::pass::Context;
use crate::pipeline::Pipeline;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Diagnostic, Module, parse, print};

/// The smaller programs of `examples/`, with their names.
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("mlp", include_str!("../../examples/mlp.ir")),
    ("gpt", include_str!("../../examples/gpt.ir")),
    ("llama", include_str!("../../examples/llama.ir")),
    ("moe", include_str!("../../examples/moe.ir")),
    ("gpt_scan", include_str!("../../examples/gpt_scan.ir")),
];

/// Eight devices that compute slowly and talk fast, so that small programs are split.
pub(crate) fn slow_8() -> Cluster {
    Cluster::from_toml(include_str!("../../tests/clusters/slow-8.toml")).expect("a legal cluster")
}

/// The program after the passes of a pipeline, notes and all.
///
/// # Errors
/// The first that a pass finds.
pub(crate) fn passed(text: &str, pipeline: &str, cluster: &Cluster) -> Result<Module, Diagnostic> {
    let mut module = parse(text).expect("a legal program");
    let pipeline = Pipeline::parse(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(cluster);
    for step in &pipeline.steps {
        (step.pass.run)(&mut module, &step.options, &mut cx)?;
    }
    Ok(module)
}

/// The program after the pipeline, without the notes that say what ran; or the errors, one per line.
pub(crate) fn check(pipeline: &str, text: &str) -> String {
    let lines = |errors: Vec<Diagnostic>| errors.iter().map(|error| format!("error: {error}\n")).collect();
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    run(pipeline, text, &mut Context::new(&cluster)).map(|module| print(&module)).unwrap_or_else(lines)
}

/// A text file that the pipeline writes besides the program.
pub(crate) fn artifact(pipeline: &str, text: &str, name: &str) -> String {
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let mut cx = Context::new(&cluster);
    run(pipeline, text, &mut cx).unwrap_or_else(|errors| panic!("{errors:?}"));
    cx.artifacts.get(name).cloned().unwrap_or_default()
}

fn run(pipeline: &str, text: &str, cx: &mut Context) -> Result<Module, Vec<Diagnostic>> {
    let mut module = parse(text).map_err(|error| vec![error])?;
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    manager::run(&mut module, &Pipeline::parse(pipeline)?, cx, &mut hooks)?;
    module.remove_note(PASSES_NOTE);
    module.remove_note(CLUSTER_NOTE);
    Ok(module)
}

/// splitmix64: the same numbers on every machine.
pub(crate) struct Random(pub u64);

impl Random {
    /// A number from 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// One of the items.
    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
