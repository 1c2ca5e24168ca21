//! Better hardware never makes a plan slower: every plan that takes over 0.1 % longer than one for less
//! memory, a slower link or a slower device, for ten programs.
//!
//! `cargo bench --bench monotone -- mlp` plans only programs with that in their names.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{phzc, plan};
use phzc_cost::Cluster;
use phzc_ir::{Module, parse};
use phzc_passes::report;
use phzc_testing::EXAMPLES;

/// A plan may take this much longer, relatively.
const TOLERANCE: f64 = 1e-3;
/// How many limits of memory, each this share of the next, up to this multiple of what the plan without a
/// limit needs.
const LIMITS: (i32, f64, f64) = (20, 0.9, 1.3);
/// By how much links and devices are faster than the slowest.
const SPEEDS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 5.0, 8.0];
/// Small models of `phzc gen`.
const MODELS: [&str; 5] = [
    "mlp --layers 6 --global-batch 64",
    "gpt --size gpt2-small --layers 2 --seq 128 --global-batch 8",
    "bert --size base --layers 2 --seq 128 --global-batch 16",
    "llama --size 7b --layers 2 --seq 128 --global-batch 8",
    "opt --size 125m --layers 2 --seq 128 --global-batch 8",
];

/// What plans of one program on better and better hardware take.
#[derive(Default)]
struct Sweep {
    n_plans: usize,
    n_slower: usize,
    /// The best so far, in seconds, and on what hardware.
    best: Option<(f64, String)>,
    /// The most that a plan takes longer, relatively.
    worst: f64,
}

impl Sweep {
    /// Adds the plan for the next hardware; prints it where it is slower than the best before.
    fn add(&mut self, program: &str, hardware: String, secs: Option<f64>) {
        self.n_plans += usize::from(secs.is_some());
        let Some((best_secs, before)) = &self.best else {
            self.best = secs.map(|secs| (secs, hardware));
            return;
        };
        let slower = secs.map_or(f64::INFINITY, |secs| secs / best_secs - 1.0);
        if slower > TOLERANCE {
            let [best_ms, ms] = [*best_secs, secs.unwrap_or(f64::INFINITY)].map(|secs| 1e3 * secs);
            println!(
                "{program:10} {hardware:24} {ms:10.4} ms, {best_ms:.4} with {before}: {:.1} %",
                100.0 * slower
            );
            self.n_slower += 1;
            self.worst = self.worst.max(slower);
        }
        if let Some(secs) = secs.filter(|_| slower < 0.0) {
            self.best = Some((secs, hardware));
        }
    }

    fn print(&self, program: &str, what: &str) {
        let worst = 100.0 * self.worst;
        let (n_slower, n_plans) = (self.n_slower, self.n_plans);
        println!("{program:10} {what:8} {n_slower:3} of {n_plans:3} slower, {worst:.1} % at most");
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    for (name, program) in programs().iter().filter(|(name, _)| is_wanted(name)) {
        memory(name, program);
        let link = |speed: f64| cluster(speed);
        speeds(name, program, "link", link);
        speeds(name, program, "device", device);
    }
}

fn programs() -> Vec<(String, Module)> {
    let own = EXAMPLES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let made = MODELS.iter().map(|model| {
        let args: Vec<&str> = ["gen"].into_iter().chain(model.split(' ')).collect();
        let outcome = phzc(&args, b"");
        assert_eq!(outcome.code, 0, "{model}: {}", outcome.stderr);
        (format!("gen_{}", args[1]), outcome.stdout)
    });
    let texts = own.chain(made);
    texts.map(|(name, text)| (name, parse(&text).expect("a legal program"))).collect()
}

/// Eight A100 with links of so many times 30 GB/s.
fn cluster(speed: f64) -> Cluster {
    let toml = format!(
        "name = \"eight\"\naccelerator = \"a100\"\nper_node = 8\n[[levels]]\nname = \"link\"\n\
         bytes_per_sec = {}\nlatency_secs = 1e-6\nsource = \"made up\"\n",
        3e10 * speed
    );
    Cluster::from_toml(&toml).expect("a legal cluster")
}

/// Eight devices with everything so many times as fast as an eighth of an A100, links apart.
fn device(speed: f64) -> Cluster {
    let mut cluster = cluster(8.0);
    let device = &mut cluster.accelerator;
    device.sustained *= speed / 8.0;
    device.hbm_bytes_per_sec *= speed / 8.0;
    device.launch_secs *= 8.0 / speed;
    cluster
}

/// Seconds of a plan and the bytes of its largest stage.
fn planned(program: &Module, cluster: &Cluster) -> Option<(f64, f64)> {
    let placed = plan(program, "fuse,shard,place", cluster).ok()?;
    let found = report::plan(&placed, cluster).expect("the planner's own text");
    let bytes = found.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max);
    Some((found.time_secs, bytes))
}

fn memory(name: &str, program: &Module) {
    let mut cluster = cluster(8.0);
    let (n_limits, share, most) = LIMITS;
    let (_, free_bytes) = planned(program, &cluster).expect("there is memory enough");
    let mut sweep = Sweep::default();
    for at in (0..n_limits).rev() {
        let part = most * share.powi(at);
        cluster.accelerator.hbm_bytes = part * free_bytes / cluster.accelerator.usable;
        sweep.add(name, format!("{part:.3} of its memory"), planned(program, &cluster).map(|it| it.0));
    }
    sweep.print(name, "memory");
}

fn speeds(name: &str, program: &Module, what: &str, hardware: impl Fn(f64) -> Cluster) {
    let mut sweep = Sweep::default();
    for speed in SPEEDS {
        let secs = planned(program, &hardware(speed)).map(|it| it.0);
        sweep.add(name, format!("{what} {speed} times as fast"), secs);
    }
    sweep.print(name, what);
}
