//! Whole programs that were run on one device against what the report says of them: seconds of a step and
//! bytes of memory.
//!
//! `cargo bench --bench measured -- gpt` compares only programs with that in their names.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{phzc, program as text, root};
use phzc_cost::Cluster;
use phzc_ir::Module;
use phzc_ir::text::parse;
use phzc_passes::{estimate, report};

/// A row of `tests/measured/DEVICE/programs.tsv`.
struct Row {
    program: String,
    source: String,
    secs: f64,
    peak_bytes: f64,
}

/// A prediction over its measurement.
#[derive(Clone, Copy)]
struct Ratios {
    time: f64,
    memory: f64,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |row: &Row| wanted.is_empty() || wanted.iter().any(|name| row.program.contains(name));
    for device in devices() {
        let mut cluster = Cluster::named(&format!("{device}-1")).expect("it is built in");
        // A step of milliseconds on a fresh machine runs at the full clock.
        cluster.accelerator.sustained = 1.0;
        println!(
            "{device:24}{:>12}{:>12}{:>8}{:>14}{:>14}{:>8}",
            "measured ms", "report ms", "ratio", "measured MiB", "report MiB", "ratio"
        );
        let rows = rows(&device);
        let ratios: Vec<Ratios> =
            rows.iter().filter(|row| is_wanted(row)).filter_map(|row| line(row, &cluster)).collect();
        if !ratios.is_empty() {
            summary(&ratios);
        }
    }
}

/// The folders of `tests/measured`, named as devices.
fn devices() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("tests/measured")).expect("it is part of the checkout");
    let paths = folders.map(|entry| entry.expect("it can be read").path()).filter(|path| path.is_dir());
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

fn summary(ratios: &[Ratios]) {
    let mean = |off: &dyn Fn(&Ratios) -> f64| {
        100.0 * ratios.iter().map(|it| (off(it) - 1.0).abs()).sum::<f64>() / ratios.len() as f64
    };
    println!(
        "mean error of {}: time {:.1} %, memory {:.1} %",
        ratios.len(),
        mean(&|it| it.time),
        mean(&|it| it.memory)
    );
}

fn rows(device: &str) -> Vec<Row> {
    let path = root().join("tests/measured").join(device).join("programs.tsv");
    let table = std::fs::read_to_string(path).expect("the table is part of the checkout");
    let mut lines = table.lines().map(|line| line.split('\t').collect::<Vec<&str>>());
    let names = lines.next().expect("a table has a head");
    let place = |name: &str| names.iter().position(|it| *it == name).expect("the table has the column");
    let (program, source, secs, peak) =
        (place("program"), place("source"), place("secs_least"), place("peak_bytes"));
    let number = |word: &str| word.parse().expect("measurements are numbers");
    let row = |line: Vec<&str>| Row {
        program: line[program].to_owned(),
        source: line[source].to_owned(),
        secs: number(line[secs]),
        peak_bytes: number(line[peak]),
    };
    lines.map(row).collect()
}

/// The program of a row, if its file is beside the checkout.
fn program(source: &str) -> Option<Module> {
    let written = match source.strip_prefix("gen ") {
        Some(_) => phzc(&source.split(' ').collect::<Vec<&str>>(), b"").stdout,
        None => {
            let path = root().join("../shared").join(source);
            path.exists().then(|| text(&path))?
        }
    };
    Some(parse(&written).expect("it has been compiled by XLA"))
}

fn line(row: &Row, cluster: &Cluster) -> Option<Ratios> {
    let Some(module) = program(&row.source) else {
        println!("{:24}SKIPPED: no ../shared/{}", row.program, row.source);
        return None;
    };
    let (priced, _) = estimate::priced(&module, cluster).unwrap_or_else(|error| panic!("{error}"));
    let report = report::plan(&priced, cluster).unwrap_or_else(|error| panic!("{error}"));
    let bytes = report.stages[0].memory_bytes;
    let ratios = Ratios { time: report.time_secs / row.secs, memory: bytes / row.peak_bytes };
    println!(
        "{:24}{:12.3}{:12.3}{:8.2}{:14.0}{:14.0}{:8.2}",
        row.program,
        1e3 * row.secs,
        1e3 * report.time_secs,
        ratios.time,
        row.peak_bytes / f64::from(1 << 20),
        bytes / f64::from(1 << 20),
        ratios.memory
    );
    Some(ratios)
}
