//! Reads a folder of measured tables in the format of Aceso's profiler (`reference/aceso.md`, section 2).

use super::names;
use crate::validate::csv::Table;
use phzc_cost::profile::{OpProfile, OpSplit, OpTables};
use phzc_io::Failure;
use phzc_io::files;
use phzc_io::render::Source;
use phzc_ir::{Diagnostic, Result, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// The columns of a table of operators.
const COLUMNS: [&str; 9] = [
    "op_name",
    "forward-compute",
    "backward-compute",
    "input_size",
    "output_size",
    "weights",
    "activations",
    "fwd_reserved",
    "bwd_reserved",
];
/// No table is larger.
const MAX_BYTES: u64 = 64 << 20;

/// The tables of one size of a model; what else lies there and seems to be meant is in the warnings.
pub(crate) fn tables(
    dir: &Path,
    model: &str,
    size: &str,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<OpTables, Failure> {
    let mut tables = OpTables::default();
    for path in files::listed(dir, "csv")? {
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let Some(add) = addition(stem, model, size) else {
            let cause = names::mistaken(stem, model, size);
            warnings.extend(cause.map(|cause| names::not_read(&path, &cause)));
            continue;
        };
        let text = files::read(&path, MAX_BYTES)?;
        let parsed = Table::parse(&text).and_then(|table| add(&table, &mut tables));
        parsed
            .map_err(|error| Failure::new(Some(Source { name: path.display().to_string(), text }), error))?;
    }
    for path in files::beside_listed(dir, "csv")? {
        if names::is_table(path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(), model, size) {
            warnings.push(names::not_read(&path, "its name does not end in `.csv`"));
        }
    }
    if tables.far_gib_per_s.is_empty() {
        tables.far_gib_per_s = tables.near_gib_per_s.clone();
    }
    needed(&tables, dir, &format!("{model}_{size}_mbs"))?;
    Ok(tables)
}

/// What a table of some name adds to the others; `None` where it is not read.
type Add = Box<dyn Fn(&Table, &mut OpTables) -> Result<()>>;

fn addition(stem: &str, model: &str, size: &str) -> Option<Add> {
    let of_devices = |kind: &str| {
        let rest = stem.strip_prefix(&format!("prim_{model}_{size}_{kind}_"))?;
        rest.strip_suffix("gpus")?.parse::<u32>().ok()
    };
    if let Some(split) = stem.strip_prefix(&format!("{model}_{size}_mbs")).and_then(split) {
        return Some(Box::new(move |table, tables| add_operators(table, split, tables)));
    }
    if let Some(n) = of_devices("all_gather") {
        return Some(Box::new(move |table, tables| add_collective(table, n, &mut tables.all_gather_ms)));
    }
    if let Some(n) = of_devices("all_to_all") {
        return Some(Box::new(move |table, tables| add_collective(table, n, &mut tables.all_to_all_ms)));
    }
    if let Some(n) = of_devices("all_reduce") {
        return Some(Box::new(move |table, tables| add_collective(table, n, &mut tables.all_reduce_ms)));
    }
    let is_near = stem == names::LINKS[0];
    names::LINKS.contains(&stem).then(|| -> Add {
        Box::new(move |table, tables| {
            let rates = if is_near { &mut tables.near_gib_per_s } else { &mut tables.far_gib_per_s };
            links(table).map(|found| *rates = found)
        })
    })
}

/// Fails where there is no table of operators, or none of links within a node.
fn needed(tables: &OpTables, dir: &Path, prefix: &str) -> std::result::Result<(), Failure> {
    if tables.rows.is_empty() {
        let message = format!("no table `{prefix}B_tpT_algoA.csv` in `{}`", dir.display());
        return Err(Diagnostic::error(message).help("name model and size as the tables do").into());
    }
    if tables.near_gib_per_s.is_empty() {
        let message = format!("no table `p2p_intra_node.csv` in `{}`", dir.display());
        return Err(Diagnostic::error(message)
            .help("without it transfers between stages have no price")
            .into());
    }
    Ok(())
}

/// `4_tp2_algo1` of a table's name.
pub(super) fn split(rest: &str) -> Option<OpSplit> {
    let (batch, rest) = rest.split_once("_tp")?;
    let (tensor, algo) = rest.split_once("_algo")?;
    Some(OpSplit { batch: batch.parse().ok()?, tensor: tensor.parse().ok()?, algo: algo.parse().ok()? })
}

fn add_operators(table: &Table, split: OpSplit, tables: &mut OpTables) -> Result<()> {
    table.expect(&COLUMNS).map_err(|error| error.help("docs/profile-plan.md says what each column is"))?;
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for record in table.records() {
        let number = |column: &str| match record.number(column)? {
            Some(value) => Ok(value),
            None => Err(record
                .error(column, &format!("expected a number in `{column}`"))
                .help("no cell may be blank")),
        };
        rows.push(OpProfile {
            forward_ms: number("forward-compute")? / 1e3,
            backward_ms: number("backward-compute")? / 1e3,
            input_mib: number("input_size")?,
            output_mib: number("output_size")?,
            weight_mib: number("weights")?,
            activation_mib: number("activations")?,
            forward_reserved_mib: number("fwd_reserved")?,
            backward_reserved_mib: number("bwd_reserved")?,
            ..OpProfile::default()
        });
        names.push(record.text("op_name").to_owned());
    }
    let whole = Span::new(0, 1);
    if names.is_empty() {
        return Err(Diagnostic::error("expected a row per operator below the header").at(whole));
    }
    if !tables.names.is_empty() && tables.names != names {
        let same = names.iter().zip(&tables.names).take_while(|(own, other)| own == other).count();
        let message = format!("operator {} is not that of the folder's other tables", same + 1);
        return Err(Diagnostic::error(message).at(whole).help("all tables of a model have the same rows"));
    }
    tables.names = names;
    tables.rows.insert(split, rows);
    Ok(())
}

fn add_collective(
    table: &Table,
    n_devices: u32,
    tables: &mut BTreeMap<u32, BTreeMap<i64, f64>>,
) -> Result<()> {
    table.expect(&["data_size(MB)", "time(ms)"])?;
    let mut sizes = BTreeMap::new();
    for record in table.records() {
        let (size, ms) = (record.number("data_size(MB)")?, record.number("time(ms)")?);
        sizes.extend(size.zip(ms).map(|(size, ms)| (size as i64, ms)));
    }
    tables.insert(n_devices, sizes);
    Ok(())
}

/// GiB/s of messages of 1, 2, 4, ... MiB: the row below the sizes.
fn links(table: &Table) -> Result<Vec<f64>> {
    let Some(record) = table.records().next() else {
        return Err(Diagnostic::error("expected a row of bandwidths below the sizes").at(Span::new(0, 1)));
    };
    let sizes = std::iter::successors(Some(1u64), |size| Some(size * 2));
    let names = sizes.map(|size| size.to_string()).take_while(|size| table.has(size));
    names.map(|size| record.positive(&size)).collect()
}
