//! Cells that hold one of a few words: what is none of them is said with its place, and how it is read.

use super::csv::{Record, Table};
use super::device::device;
use super::{choice, job, network, operators, software};
use phzc_cost::Accelerator;
use phzc_ir::{Diagnostic, counted, nearest};

/// A column of words.
struct Column {
    name: &'static str,
    is_known: fn(&str) -> bool,
    /// The words, for the remedy and for guesses.
    words: &'static [&'static str],
    /// What becomes of a row with another word.
    read_as: &'static str,
}

/// The columns of tables of runs.
static OF_RUNS: [Column; 7] = [
    Column {
        name: "recompute",
        is_known: choice::is_recompute,
        words: &["full", "selective", "selective(attn)", "selective(mlp act-func + norm)", "none"],
        read_as: "read as not stated",
    },
    Column {
        name: "status",
        is_known: job::is_status,
        words: &["ok", "oom", "partial-config"],
        read_as: "not predicted",
    },
    Column {
        name: "dtype",
        is_known: software::is_dtype,
        words: &["fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4", "int8"],
        read_as: "not predicted",
    },
    Column {
        name: "framework",
        is_known: software::is_known,
        words: &software::NAMES,
        read_as: "read as PyTorch FSDP",
    },
    Column {
        name: "dp_kind",
        is_known: |text| text.is_empty() || job::sharding(text).is_some(),
        words: &["ddp", "zero1", "zero2", "zero3", "fsdp"],
        read_as: "read as what the framework does",
    },
    Column {
        name: "interconnect",
        is_known: network::is_known,
        words: &network::WORDS,
        read_as: "read as the device's usual network",
    },
    Column {
        name: "offload",
        is_known: |text| choice::offloaded(text).is_some(),
        words: &["activation offload alpha=0.40", "none"],
        read_as: "read as nothing offloaded",
    },
];

/// Those of tables of operators and collectives.
static OF_OPERATORS: [Column; 2] = [
    Column {
        name: "dtype",
        is_known: |text| operators::dtype(text).is_some(),
        words: &["bf16", "bfloat16", "fp16", "float16", "fp8", "float8", "fp32", "float32"],
        read_as: "not predicted",
    },
    Column {
        name: "status",
        is_known: |text| ["", "ok", "noisy"].contains(&text),
        words: &["ok", "noisy"],
        read_as: "read as `ok`",
    },
];

/// Warnings about the words of a table of runs, each word once.
pub(super) fn of_runs(table: &Table) -> Vec<Diagnostic> {
    warnings(table, &OF_RUNS)
}

/// The same of a table of operators or collectives.
pub(super) fn of_operators(table: &Table) -> Vec<Diagnostic> {
    warnings(table, &OF_OPERATORS)
}

fn warnings(table: &Table, columns: &[Column]) -> Vec<Diagnostic> {
    let words = columns.iter().flat_map(|column| unknown_words(table, column));
    unknown_devices(table).into_iter().chain(words).collect()
}

/// Devices that nobody knows; `a+b` are several.
fn unknown_devices(table: &Table) -> Vec<Diagnostic> {
    let is_unknown = |text: &str| !text.is_empty() && !text.contains('+') && device(text).is_err();
    let warning = |(row, text, count): (Record, &str, usize)| {
        let message = format!("unknown device `{text}`: {} not predicted", rows_are(count));
        let known = Accelerator::named(text).err().and_then(|error| error.help);
        known.into_iter().fold(row.warning("device", &message), Diagnostic::help)
    };
    distinct(table, "device", is_unknown).into_iter().map(warning).collect()
}

fn unknown_words(table: &Table, column: &Column) -> Vec<Diagnostic> {
    let warning = |(row, text, count): (Record, &str, usize)| {
        let (name, read_as) = (column.name, column.read_as);
        let message = format!("unknown word `{text}` in `{name}`: {} {read_as}", rows_are(count));
        let guess = nearest(text, column.words.iter().copied());
        let guess = guess.map(|word| format!("did you mean `{word}`? ")).unwrap_or_default();
        row.warning(name, &message).help(format!("{guess}known: {}, or blank", column.words.join(", ")))
    };
    distinct(table, column.name, |text| !(column.is_known)(text)).into_iter().map(warning).collect()
}

fn rows_are(count: usize) -> String {
    format!("{} {}", counted(count, "row"), if count == 1 { "is" } else { "are" })
}

/// The texts of a column that are meant, each with its first row and the number of rows that have it.
fn distinct<'a>(
    table: &'a Table,
    column: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<(Record<'a>, &'a str, usize)> {
    let mut found: Vec<(Record, &str, usize)> = Vec::new();
    for row in table.records() {
        let text = row.text(column);
        match found.iter_mut().find(|(_, known, _)| *known == text) {
            Some((.., count)) => *count += 1,
            None => found.push((row, text, 1)),
        }
    }
    found.retain(|(_, text, _)| is_meant(text));
    found
}
