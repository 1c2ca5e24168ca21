//! Plans from Aceso's own tables under Aceso's own cost, against what its search finds, what it published and the uniform grid.
//!
//! The figures to beat are those of reference/aceso.md, section 13: the lowest of each row, seconds.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{phzc, root};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// One row: name, tables, model and size, layers, devices, the lowest figure, the uniform grid's.
struct Row(&'static str, &'static str, &'static str, &'static str, usize, usize, f64, f64);

const ROWS: [Row; 24] = [
    Row("small-gpt-1.3B", "miniset", "gpt", "1_3B", 24, 4, 58.76092, 73.65),
    Row("small-t5-770M", "miniset", "t5", "770M", 24, 4, 33.65950, 52.17),
    Row("small-wrn-1B", "miniset", "resnet", "1B", 0, 4, 17.67205, 20.92),
    Row("gpt-1.3B", "eurosys", "gpt", "1_3B", 24, 4, 101.180, 126.04),
    Row("gpt-2.6B", "eurosys", "gpt", "2_6B", 32, 8, 87.13379, 111.01),
    Row("gpt-6.7B", "eurosys", "gpt", "6_7B", 32, 16, 85.48362, 112.16),
    Row("gpt-13B", "eurosys", "gpt", "13B", 40, 32, 84.610, 119.07),
    Row("wrn-2B", "eurosys", "resnet", "2B", 0, 4, 49.32410, 73.19),
    Row("wrn-4B", "eurosys", "resnet", "4B", 0, 8, 56.520, 90.49),
    Row("wrn-6.8B", "eurosys", "resnet", "6_8B", 0, 16, 45.670, 83.81),
    Row("wrn-13B", "eurosys", "resnet", "13B", 0, 32, 47.600, 81.82),
    Row("t5-3B", "eurosys", "t5", "3B", 24, 4, 161.91914, 237.93),
    Row("t5-6B", "eurosys", "t5", "6B", 24, 8, 241.58727, 241.59),
    Row("t5-11B", "eurosys", "t5", "11B", 24, 16, 267.97815, 267.98),
    Row("t5-22B", "eurosys", "t5", "22B", 48, 32, 273.87049, 273.87),
    Row("8 layers", "eurosys", "gpt", "scale-layer", 8, 8, 4.35199, 5.03),
    Row("16 layers", "eurosys", "gpt", "scale-layer", 16, 8, 6.85484, 8.44),
    Row("32 layers", "eurosys", "gpt", "scale-layer", 32, 8, 12.680, 14.11),
    Row("64 layers", "eurosys", "gpt", "scale-layer", 64, 8, 24.750, 28.92),
    Row("128 layers", "eurosys", "gpt", "scale-layer", 128, 8, 50.820, 62.65),
    Row("256 layers", "eurosys", "gpt", "scale-layer", 256, 8, 106.220, 119.79),
    Row("512 layers", "eurosys", "gpt", "scale-layer", 512, 8, 223.10374, 234.05),
    Row("1024 layers", "eurosys", "gpt", "scale-layer", 1024, 8, 458.98664, 462.59),
    Row("gpt-350M", "eurosys", "gpt", "350M", 24, 1, 200.710, f64::INFINITY),
];

/// Plans of Aceso's search as priced here, and seconds that were measured with such plans (section 12).
const MEASURED: [(&str, &str, &str, &str, f64); 8] = [
    ("small-gpt-1.3B", "miniset", "gpt", "1_3B", 59.01161),
    ("small-t5-770M", "miniset", "t5", "770M", 33.82379),
    ("small-resnet-1B", "miniset", "resnet", "1B", 18.66283),
    ("gpt-1_3B", "eurosys", "gpt", "1_3B", 100.28),
    ("gpt-2_6B", "eurosys", "gpt", "2_6B", 84.60),
    ("gpt-6_7B", "eurosys", "gpt", "6_7B", 85.82),
    ("gpt-13B", "eurosys", "gpt", "13B", 86.57),
    ("resnet-2B", "eurosys", "resnet", "2B", 53.15),
];

/// Seconds of a plan that is there.
fn priced(dir: &Path, (plan, db, model, size, _): &(&str, &str, &str, &str, f64)) -> Option<f64> {
    let name = |path: PathBuf| path.to_string_lossy().into_owned();
    let (db, small) = (name(dir.join(db)), plan.starts_with("small"));
    let batch = match (small, *model) {
        (true, "resnet") => "768",
        (true, _) => "512",
        (false, "resnet") => "1536",
        (false, _) => "1024",
    };
    let plan = name(dir.join(format!("plans/aceso_{plan}.json")));
    let args = ["profile-plan", "--db", &db, "--model", model, "--size", size, "--price", &plan];
    let outcome = phzc(&[&args[..], &["--global-batch", batch]].concat(), b"");
    outcome.stdout.split(' ').nth(1)?.parse::<f64>().ok().map(|ms| ms / 1e3)
}

fn main() {
    let dir = root().join("../shared/data/aceso");
    if !dir.is_dir() {
        println!("SKIPPED: no tables at ../shared/data/aceso");
        return;
    }
    println!(
        "row              GPUs  lowest s     grid s    phzc s   better %    bound s   gap %   MiB     seconds"
    );
    let mut n_missed = 0;
    for Row(name, db, model, size, layers, gpus, lowest, grid) in &ROWS {
        let (limit, batch) = match (*db, *model) {
            ("miniset", "resnet") => ("12000", "768"),
            ("miniset", _) => ("12000", "512"),
            (_, "resnet") => ("28000", "1536"),
            _ => ("28000", "1024"),
        };
        let (db, gpus, layers) =
            (dir.join(db).to_string_lossy().into_owned(), gpus.to_string(), layers.to_string());
        let mut args =
            vec!["phzc", "profile-plan", "--db", &db, "--model", model, "--size", size, "--gpus", &gpus];
        args.extend(["--memory-limit-mb", limit, "--global-batch", batch]);
        if layers != "0" {
            args.extend(["--layers", &layers]);
        }
        let begun = Instant::now();
        let outcome = phzc(&args[1..], b"");
        let seconds = begun.elapsed().as_secs_f64();
        let first = outcome.stdout.lines().next().unwrap_or_default();
        let found: Vec<f64> = first.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let &[ms, mib, _, bound, ..] = &found[..] else {
            println!("{name:16} {}", outcome.stderr);
            n_missed += 1;
            continue;
        };
        let better = 100.0 * (1.0 - ms / 1e3 / lowest);
        n_missed += usize::from(better < 0.0);
        println!(
            "{name:16} {gpus:>4} {lowest:9.3} {grid:10.3} {:9.3} {better:10.2} {:10.3} {:7.2} {mib:6.0} {seconds:11.2}",
            ms / 1e3,
            bound / 1e3,
            100.0 * (1.0 - bound / ms),
        );
    }
    println!("{n_missed} rows are slower than the lowest figure");
    println!("\nplan of Aceso's    priced s  measured s   error %");
    let mut errors = Vec::new();
    for row in &MEASURED {
        let Some(secs) = priced(&dir, row) else { continue };
        errors.push(100.0 * (secs / row.4 - 1.0));
        println!("{:16} {secs:10.3} {:11.3} {:+9.1}", row.0, row.4, errors[errors.len() - 1]);
    }
    println!(
        "mean absolute error {:.1} %",
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
    );
}
