//! Scores as a table for people and as JSON.

use super::Outcome;
use super::pick;
use super::score::{Score, Scored, relative};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use phzc_io::units::secs;
use std::collections::BTreeSet;

/// Rows that are named of those that are not expressed for one reason.
const N_NAMED: usize = 12;
/// Rows that are listed as the worst of a file.
const N_WORST: usize = 3;

/// One JSON object per file and line.
pub(crate) fn json(outcomes: &[Outcome]) -> String {
    let line =
        |one: &Outcome| serde_json::to_string(&one.score).expect("a score has string keys only") + "\n";
    outcomes.iter().map(line).collect()
}

/// The table of all files, then each file's worst rows and reasons.
pub(crate) fn text(outcomes: &[Outcome], is_long: bool) -> String {
    let mut out = scores(outcomes);
    for one in outcomes {
        out += &details(one);
        if is_long {
            out += &one.rows.iter().map(long).collect::<String>();
        }
    }
    out
}

fn scores(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let names = [
        "file",
        "rows",
        "scored",
        "MAPE",
        "bias",
        "median",
        "p90",
        "tau",
        "spearman",
        "in 80 %",
        "constant",
        "peer",
        "memory",
        "fits/not",
        "OOM fits/not",
    ];
    table.set_header(names);
    outcomes.iter().for_each(|one| {
        table.add_row(cells(&one.score));
    });
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{table}\n(errors in per cent of the measured value)\n")
}

fn cells(score: &Score) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    vec![
        score.file.clone(),
        score.rows.to_string(),
        score.scored.to_string(),
        number(score.mape),
        score.bias.map_or("-".to_owned(), |value| format!("{value:+.1}")),
        number(score.median),
        number(score.p90),
        score.kendall_tau.map_or("-".to_owned(), |value| format!("{value:.2}")),
        score.spearman.map_or("-".to_owned(), |value| format!("{value:.3}")),
        number(score.coverage80),
        number(score.constant_mape),
        number(score.peer_mape),
        number(score.memory_mape),
        format!("{}/{}", score.fitted[0], score.fitted[1]),
        format!("{}/{}", score.out_of_memory[0], score.out_of_memory[1]),
    ]
}

fn details(one: &Outcome) -> String {
    let mut rows: Vec<&Scored> = one.rows.iter().filter(|row| row.secs.is_some()).collect();
    let error = |row: &Scored| row.secs.map_or(0.0, |pair| relative(pair).abs());
    rows.sort_by(|a, b| error(b).total_cmp(&error(a)));
    let mut out = format!("\n{}\n", one.score.file);
    for row in rows.iter().take(N_WORST) {
        let named = row.terms.named();
        let largest = named.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied().unwrap_or(("nothing", 0.0));
        let term =
            if largest.1 > 0.0 { format!(" ({} is the largest term)", largest.0) } else { String::new() };
        out += &format!("  worst: {}{term}\n", line(row));
    }
    if let (Some(mape), Some(rank)) = (one.score.peer_mape, one.score.peer_spearman) {
        out += &format!("  peer's own predictions: MAPE {mape:.1} %, Spearman {rank:.3}\n");
    }
    let unfitted: BTreeSet<&str> =
        one.rows.iter().filter(|row| !row.is_fitted).map(|row| row.device.as_str()).collect();
    for device in unfitted {
        out += &format!(
            "  no training run was fitted on {device}: data sheet, benchmarks and a wider interval\n"
        );
    }
    for (device, tau) in &one.score.kendall_tau_by_device {
        out += &format!("  tau on {device}: {tau:.2}\n");
    }
    out += &pick::text(&one.score.picks);
    for (reason, count, rows) in &one.score.unexpressed {
        out += &format!("  not expressed: {count}, {reason} ({})\n", numbered(rows));
    }
    out
}

/// `rows 3, 7`, the first few of them.
fn numbered(rows: &[usize]) -> String {
    let shown: Vec<String> = rows.iter().take(N_NAMED).map(usize::to_string).collect();
    let more = if rows.len() > N_NAMED { ", …" } else { "" };
    format!("row{} {}{more}", if rows.len() == 1 { "" } else { "s" }, shown.join(", "))
}

fn named(row: &Scored) -> String {
    if row.name.is_empty() { row.device.clone() } else { row.name.clone() }
}

fn line(row: &Scored) -> String {
    let Some([measured, predicted]) = row.secs else { return format!("{} no time measured", named(row)) };
    let error = relative([measured, predicted]);
    format!("{} measured {}, predicted {}, {error:+.1} %", named(row), secs(measured), secs(predicted))
}

fn long(row: &Scored) -> String {
    let terms: Vec<String> =
        row.terms.named().iter().map(|(name, secs)| format!("{name} {secs:.4}")).collect();
    let gib = f64::from(1 << 30);
    let memory = row.bytes.map_or(String::new(), |[m, p]| {
        format!("; memory {:.2} {:.2} GiB {:+.1} %", m / gib, p / gib, relative([m, p]))
    });
    let source = row.source.map_or(String::new(), |source| format!("; {source}"));
    let assumed = if row.assumed.is_empty() { String::new() } else { format!("; assumed: {}", row.assumed) };
    format!("  {}; {}{memory}{source}{assumed}\n", line(row), terms.join(", "))
}
