//! What each rewrite that changes a layout is worth: the plan of every program of the corpus and of
//! `examples/` without it; and how far the planner's price of a plan is from what the report says of its
//! text.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{corpus, examples, plan, program as text};
use phzc_cost::Cluster;
use phzc_ir::{Module, text::parse};
use phzc_passes::{plan_note, report};
use std::path::{Path, PathBuf};

/// What `shard{forbid=…}` takes away: movements (reference/cfp-alpa.md 7.4, M3 and M4), and copies that are
/// made again in other layouts (P1 of these ops).
const REWRITES: [&str; 4] = ["all-to-all", "reduce-scatter", "collective-permute", "remake"];

/// Plans that take longer by less are no evidence: the solver's tolerance.
const NOTICED: f64 = 1e-6;

fn main() {
    let cluster = Cluster::named("a100-8").expect("it is built in");
    print!("{:26}{:>12}{:>12}{:>8}", "program", "planned ms", "report ms", "off %");
    REWRITES.iter().for_each(|name| print!("{name:>20}"));
    println!("   (% slower without)");
    let (mut n_needed, mut farthest) = ([0; REWRITES.len()], 0.0_f64);
    let is_form = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "forms");
    for path in examples().into_iter().chain(corpus()).filter(|path| !is_form(path)) {
        let Ok(module) = parse(&text(&path)) else { continue };
        let Some(own) = priced(&module, "", &cluster) else { continue };
        farthest = farthest.max((own[1] / own[0] - 1.0).abs());
        let slower = REWRITES.map(|name| {
            let without = priced(&module, &format!("{{forbid={name}}}"), &cluster);
            without.map_or(f64::INFINITY, |without| without[0] / own[0] - 1.0)
        });
        n_needed.iter_mut().zip(slower).for_each(|(n, slower)| *n += usize::from(slower > NOTICED));
        print_line(&path, own, slower);
    }
    print!("{:58}", "programs that need it");
    n_needed.iter().for_each(|n| print!("{n:>20}"));
    println!("\nthe planner's price is the report's within {:.2} %", 100.0 * farthest);
}

/// Seconds of a step in the shardings that are chosen: as the planner has them, and as the report has them.
fn priced(module: &Module, options: &str, cluster: &Cluster) -> Option<[f64; 2]> {
    let planned = plan(module, &format!("fuse,shard{options}"), cluster).ok()?;
    let own = plan_note::read(&planned).get("planned_secs")?.as_f64()?;
    Some([own, report::plan(&planned, cluster).ok()?.time_secs])
}

fn print_line(path: &Path, own: [f64; 2], slower: [f64; REWRITES.len()]) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    print!("{name:26}{:12.4}{:12.4}{:8.2}", 1e3 * own[0], 1e3 * own[1], 100.0 * (own[1] / own[0] - 1.0));
    slower.iter().for_each(|slower| print!("{:20.3}", 100.0 * slower));
    println!();
}
