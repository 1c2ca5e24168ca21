//! What every pass' unit tests share: programs, random ones too, clusters, text in and text out.

pub mod ops;
pub mod perceptron;
pub mod program;

use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::eval::{Array, Value};
use phzc_ir::{Module, parse};

/// The smaller programs of `examples/`, with their names.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("mlp", include_str!("../../../examples/mlp.ir")),
    ("gpt", include_str!("../../../examples/gpt.ir")),
    ("llama", include_str!("../../../examples/llama.ir")),
    ("moe", include_str!("../../../examples/moe.ir")),
    ("gpt_scan", include_str!("../../../examples/gpt_scan.ir")),
];

/// What `phzc` plans for unless told otherwise.
pub fn default_cluster() -> Cluster {
    Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster")
}

/// Eight devices that compute slowly and talk fast, so that small programs are split.
pub fn slow_8() -> Cluster {
    Cluster::from_toml(include_str!("../../../tests/clusters/slow-8.toml")).expect("a legal cluster")
}

/// Eight devices, two per node, that read and write one byte a second, start a kernel in half a second and a
/// message in a quarter.
pub fn one_byte_a_second() -> Cluster {
    let level = |name: &str, rate: f64| {
        format!(
            "[[levels]]\nname = \"{name}\"\nbytes_per_sec = {rate}\nefficiency = 1.0\nlatency_secs = 1e-9\n\
             topology = \"switch\"\nsource = \"made up for tests\"\n"
        )
    };
    let device = "name = \"test\"\nper_node = 2\nnodes = 4\n[accelerator]\nname = \"slow\"\n\
        description = \"made up for tests\"\nsource = \"made up for tests\"\n\
        peak_flops_per_sec = { f32 = 1e6, tf32 = 1e6 }\nmatmul_efficiency = 1.0\n\
        vector_efficiency = 1.0\nhbm_bytes = 4096.0\nusable = 0.5\nhbm_bytes_per_sec = 1.0\nhbm_efficiency = 1.0\nlaunch_secs = 0.5\n\
        collective_launch_secs = 0.25\n";
    let text = format!("{device}{}{}", level("near", 2.0), level("far", 1.0));
    Cluster::from_toml(&text).expect("a legal cluster")
}

/// A placed program: its aliases, its stages, what its plan says, and its instructions, each with phase and
/// stage. One without a layout is whole.
pub fn staged(aliases: &str, stages: &str, plan: &str, lines: &[(&str, &str, usize)]) -> Module {
    staged_with("", aliases, stages, plan, lines)
}

/// The same with computations besides `add`, which sums up.
pub fn staged_with(
    comps: &str,
    aliases: &str,
    stages: &str,
    plan: &str,
    lines: &[(&str, &str, usize)],
) -> Module {
    let line = |(text, phase, stage): &(&str, &str, usize)| {
        let whole = if text.contains("sharding=") { "" } else { ", sharding={replicated}" };
        format!("  {text}{whole}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.stage=\"{stage}\"}}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    let plan = plan.replace('"', "\\\"");
    let notes = format!("phzc.stages=\"{stages}\",phzc.plan=\"{plan}\"");
    let add = "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }";
    parse(&format!(
        "HloModule m, input_output_alias={{{aliases}}}, frontend_attributes={{{notes}}}\n{add}\n{comps}\nENTRY e {{\n{lines}}}\n"
    ))
    .unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

/// Declares what a crate's unit tests run passes with: `pipeline`, `passed`, `check` and `artifact`, for the
/// passes given.
#[macro_export]
macro_rules! runs_passes {
    ($($pass:expr),* $(,)?) => {
        static REGISTRY: phzc_pass::pipeline::Registry =
            phzc_pass::pipeline::Registry { passes: &[$(&$pass),*], aliases: &[] };

        /// A pipeline of this crate's tests.
        pub(crate) fn pipeline(text: &str) -> Result<phzc_pass::pipeline::Pipeline, Vec<phzc_ir::Diagnostic>> {
            REGISTRY.pipeline(text)
        }

        /// The program after the passes of a pipeline, notes and all.
        #[allow(dead_code)]
        pub(crate) fn passed(
            text: &str,
            pipeline: &str,
            cluster: &phzc_cost::Cluster,
        ) -> Result<phzc_ir::Module, phzc_ir::Diagnostic> {
            let mut module = phzc_ir::parse(text).expect("a legal program");
            let mut cx = phzc_pass::pass::Context::new(cluster);
            for step in &REGISTRY.pipeline(pipeline).expect("a legal pipeline").steps {
                step.run(&mut module, &mut cx)?;
            }
            Ok(module)
        }

        /// The program after the pipeline, without the notes that say what ran; or the errors, one per line.
        #[allow(dead_code)]
        pub(crate) fn check(pipeline: &str, text: &str) -> String {
            let lines = |errors: Vec<phzc_ir::Diagnostic>| {
                errors.iter().map(|error| format!("error: {error}\n")).collect()
            };
            let cluster = $crate::default_cluster();
            let mut cx = phzc_pass::pass::Context::new(&cluster);
            run(pipeline, text, &mut cx).map(|module| phzc_ir::print(&module)).unwrap_or_else(lines)
        }

        /// A text file that the pipeline writes besides the program.
        #[allow(dead_code)]
        pub(crate) fn artifact(pipeline: &str, text: &str, name: &str) -> String {
            let cluster = $crate::default_cluster();
            let mut cx = phzc_pass::pass::Context::new(&cluster);
            run(pipeline, text, &mut cx).unwrap_or_else(|errors| panic!("{errors:?}"));
            cx.artifacts.get(name).cloned().unwrap_or_default()
        }

        #[allow(dead_code)]
        fn run(
            pipeline: &str,
            text: &str,
            cx: &mut phzc_pass::pass::Context,
        ) -> Result<phzc_ir::Module, Vec<phzc_ir::Diagnostic>> {
            let mut module = phzc_ir::parse(text).map_err(|error| vec![error])?;
            let mut hooks = phzc_pass::manager::Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
            phzc_pass::manager::run(&mut module, &REGISTRY.pipeline(pipeline)?, cx, &mut hooks)?;
            module.remove_note(phzc_ir::notes::PASSES);
            module.remove_note(phzc_ir::notes::CLUSTER);
            Ok(module)
        }
    };
}

/// The largest difference over the largest value of its array, of any of the arrays.
pub fn largest_error(wanted: &Value, made: &[Value]) -> f64 {
    let wanted = wanted.leaves();
    assert_eq!(wanted.len(), made.len());
    let off = |(wanted, made): (&&Array, &Value)| {
        let (wanted, made) = (wanted.to_f64_vec(), made.leaves()[0].to_f64_vec());
        assert_eq!(wanted.len(), made.len());
        let scale = wanted.iter().fold(0.0_f64, |most, x| most.max(x.abs())).max(1e-30);
        wanted.iter().zip(&made).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max)
    };
    wanted.iter().zip(made).map(off).fold(0.0, f64::max)
}

/// splitmix64: the same numbers on every machine.
pub struct Random(pub u64);

impl Random {
    /// Any number.
    #[allow(clippy::should_implement_trait, reason = "numbers do not end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % (n as u64).max(1)) as usize
    }

    /// One of the items.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
