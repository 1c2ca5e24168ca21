//! Plans from Aceso's own tables under Aceso's own cost, against what its search finds, what it published and
//! the uniform grid; and what the full space brings under phzc's own cost.
//!
//! The figures to beat are those of reference/aceso.md, section 13: the lowest of each row, seconds; of T5-6B
//! to 22B what Aceso's search finds in 40 CPU s.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{phzc, root, scratch};
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
    Row("t5-6B", "eurosys", "t5", "6B", 24, 8, 167.270, 241.59),
    Row("t5-11B", "eurosys", "t5", "11B", 24, 16, 169.540, 267.98),
    Row("t5-22B", "eurosys", "t5", "22B", 48, 32, 185.270, 273.87),
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

/// Seconds of a plan that is there, under a cost.
fn priced(dir: &Path, (plan, db, model, size, _): &(&str, &str, &str, &str, f64), cost: &str) -> Option<f64> {
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
    let outcome = phzc(&[&args[..], &["--global-batch", batch, "--cost", cost]].concat(), b"");
    outcome.stdout.split(' ').nth(1)?.parse::<f64>().ok().map(|ms| ms / 1e3)
}

/// What all runs of a row have in common.
fn arguments(dir: &Path, Row(_, db, model, size, layers, ..): &Row) -> Vec<String> {
    let (limit, batch) = match (*db, *model) {
        ("miniset", "resnet") => ("12000", "768"),
        ("miniset", _) => ("12000", "512"),
        (_, "resnet") => ("28000", "1536"),
        _ => ("28000", "1024"),
    };
    let db = dir.join(db).to_string_lossy().into_owned();
    let mut args = vec!["profile-plan", "--db", &db, "--model", model, "--size", size];
    args.extend(["--memory-limit-mb", limit, "--global-batch", batch]);
    let layers = layers.to_string();
    if layers != "0" {
        args.extend(["--layers", &layers]);
    }
    args.into_iter().map(str::to_owned).collect()
}

/// The numbers of a summary's first line, milliseconds, MiB, limit and bound; what went wrong else. Seconds
/// that it took.
fn run(args: &[String], more: &[&str]) -> (Result<Vec<f64>, String>, f64) {
    let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let begun = Instant::now();
    let outcome = phzc(&args, b"");
    let seconds = begun.elapsed().as_secs_f64();
    if outcome.code != 0 {
        return (Err(outcome.stderr), seconds);
    }
    let text = if outcome.stdout.is_empty() { outcome.stderr } else { outcome.stdout };
    let first = text.lines().next().unwrap_or_default();
    (Ok(first.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()), seconds)
}

/// One row under Aceso's cost, and whether it is no slower than the lowest figure.
fn print_row(dir: &Path, row: &Row, plan: &str) -> bool {
    let Row(name, _, _, _, _, gpus, lowest, grid) = row;
    let (found, seconds) =
        run(&arguments(dir, row), &["--gpus", &gpus.to_string(), "--emit", "aceso", "-o", plan]);
    let found = match found {
        Ok(found) if found.len() >= 4 => found,
        Ok(found) => {
            println!("{name:16} {found:?}");
            return false;
        }
        Err(error) => {
            println!("{name:16} {error}");
            return false;
        }
    };
    let better = 100.0 * (1.0 - found[0] / 1e3 / lowest);
    println!(
        "{name:16} {gpus:>4} {lowest:9.3} {grid:10.3} {:9.3} {better:10.2} {:10.3} {:7.2} {:6.0} {seconds:11.2}",
        found[0] / 1e3,
        found[3] / 1e3,
        100.0 * (1.0 - found[3] / found[0]),
        found[1],
    );
    better >= 0.0
}

/// One row under phzc's own cost: the plan of Aceso's space, and that of the full one.
fn print_own(dir: &Path, row: &Row, plan: &str) -> Option<f64> {
    let Row(name, _, _, _, _, gpus, ..) = row;
    let args = arguments(dir, row);
    let (priced, _) = run(&args, &["--cost", "own", "--price", plan]);
    let (full, seconds) = run(&args, &["--cost", "own", "--gpus", &gpus.to_string()]);
    let (priced, full) = match (priced, full) {
        (Ok(priced), Ok(full)) if full.len() >= 4 => (priced, full),
        (priced, full) => {
            println!("{name:16} {gpus:>4} {priced:?} {full:?}");
            return None;
        }
    };
    let better = 100.0 * (1.0 - full[0] / priced[0]);
    println!(
        "{name:16} {gpus:>4} {:14.3} {:12.3} {better:10.2} {:10.3} {:7.2} {:6.0} {seconds:11.2}",
        priced[0] / 1e3,
        full[0] / 1e3,
        full[3] / 1e3,
        100.0 * (1.0 - full[3] / full[0]).max(0.0),
        full[1],
    );
    Some(better)
}

fn main() {
    let dir = root().join("../shared/data/aceso");
    if !dir.is_dir() {
        println!("SKIPPED: no tables at ../shared/data/aceso");
        return;
    }
    let scratch = scratch("bench_aceso");
    let plan = |row: &Row| scratch.join(format!("{}.json", row.0)).to_string_lossy().into_owned();
    println!(
        "row              GPUs  lowest s     grid s    phzc s   better %    bound s   gap %   MiB     seconds"
    );
    let n_missed = ROWS.iter().filter(|row| !print_row(&dir, row, &plan(row))).count();
    println!("{n_missed} rows are slower than the lowest figure");
    println!("\nUnder phzc's own cost, the plans above and those of the full space:");
    println!(
        "row              GPUs  Aceso's space s  full space s   better %    bound s   gap %    MiB     seconds"
    );
    let better: Vec<f64> = ROWS.iter().filter_map(|row| print_own(&dir, row, &plan(row))).collect();
    println!("mean {:.2} % better", better.iter().sum::<f64>() / better.len().max(1) as f64);
    print_measured(&dir);
}

/// Both costs of plans that were run, against what was measured.
fn print_measured(dir: &Path) {
    println!("\nplan of Aceso's    measured s   Aceso's cost s   error %   own cost s   error %");
    let mut errors = [Vec::new(), Vec::new()];
    for row in &MEASURED {
        let [Some(aceso), Some(own)] = ["aceso", "own"].map(|cost| priced(dir, row, cost)) else { continue };
        let error = [aceso, own].map(|secs| 100.0 * (secs / row.4 - 1.0));
        println!("{:16} {:12.3} {aceso:16.3} {:+9.1} {own:12.3} {:+9.1}", row.0, row.4, error[0], error[1]);
        errors.iter_mut().zip(error).for_each(|(all, error)| all.push(error.abs()));
    }
    let mean = errors.map(|all| all.iter().sum::<f64>() / all.len().max(1) as f64);
    println!("mean absolute error {:.1} % and {:.1} %", mean[0], mean[1]);
}
