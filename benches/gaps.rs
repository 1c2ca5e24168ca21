//! How far plans are from their lower bounds: every program of the corpus and of XLA's benchmarks that is not
//! partitioned, on 8, 64 and 512 devices.
//!
//! `cargo bench --bench gaps -- 8` plans for 8 devices only, `-- 8 cpu__` only programs with that in their
//! names.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{corpus, plan, program as text, xla_bench};
use phzc_cost::Cluster;
use phzc_ir::Module;
use phzc_ir::text::parse;
use phzc_passes::{plan_note, report};
use std::path::{Path, PathBuf};

const CLUSTERS: [(usize, &str); 3] = [(8, "a100-8"), (64, "a100-8x8"), (512, "a100-8x64")];

fn main() {
    let wanted: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| is_word(arg)).collect();
    let is_wanted =
        |path: &&PathBuf| words.is_empty() || words.iter().any(|word| path.to_string_lossy().contains(word));
    let files = [corpus(), xla_bench()].concat();
    let programs: Vec<(String, Module)> =
        files.iter().filter(is_wanted).filter_map(|path| program(path)).collect();
    println!(
        "{:48}{:>8}{:>12}{:>12}{:>8}{:>12}",
        "program", "devices", "planned ms", "bound ms", "gap %", "report %"
    );
    for (n_devices, name) in CLUSTERS.iter().filter(|(n, _)| wanted.is_empty() || wanted.contains(n)) {
        let cluster = Cluster::named(name).expect("it is built in");
        let mut gaps: Vec<f64> =
            programs.iter().filter_map(|(name, module)| line(name, module, *n_devices, &cluster)).collect();
        gaps.sort_by(f64::total_cmp);
        if let (Some(median), Some(worst)) = (gaps.get(gaps.len() / 2), gaps.last()) {
            println!(
                "{:48}{n_devices:8}{:>32}{:>12}",
                "all",
                format!("median {median:.1}"),
                format!("worst {worst:.1}")
            );
        }
    }
}

/// Whether an argument is neither a number nor an option.
fn is_word(arg: &str) -> bool {
    !arg.starts_with('-') && arg.parse::<usize>().is_err()
}

/// A program without layouts of its own, with its name.
fn program(path: &Path) -> Option<(String, Module)> {
    let is_form = path.components().any(|part| part.as_os_str() == "forms");
    let module = parse(&text(&PathBuf::from(path))).ok().filter(|_| !is_form)?;
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    let is_free = module.attr("num_partitions").is_none_or(|n| n == "1")
        && instrs.into_iter().all(|instr| instr.sharding().is_none());
    let name = path.file_name()?.to_string_lossy().into_owned();
    is_free.then_some((name, module))
}

/// Prints a program's figures; its gap in percent.
fn line(name: &str, module: &Module, n_devices: usize, cluster: &Cluster) -> Option<f64> {
    let planned = plan(module, "fuse,shard,place", cluster).ok()?;
    let note = plan_note::read(&planned);
    let of = |key: &str| note.get(key).and_then(serde_json::Value::as_f64).expect("a plan's note has it");
    let (planned_secs, bound_secs, gap) = (of("planned_secs"), of("lower_bound_secs"), 100.0 * of("gap"));
    let reported = report::plan(&planned, cluster).ok()?.time_secs;
    let off = 100.0 * (reported / planned_secs - 1.0);
    let (planned_ms, bound_ms) = (1e3 * planned_secs, 1e3 * bound_secs);
    println!("{name:48}{n_devices:8}{planned_ms:12.3}{bound_ms:12.3}{gap:8.1}{off:12.2}");
    Some(gap)
}
