//! Device tables that begin with another device's (`base = "a100-80"`), and what tables lack.

use crate::library;
use crate::read::{from_table, parse};
use phzc_ir::{Diagnostic, Result, Span};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Keys that a device table needs, unless its base has them.
const REQUIRED: [&str; 11] = [
    "name",
    "description",
    "peak_flops_per_sec",
    "matmul_efficiency",
    "hbm_bytes",
    "usable",
    "hbm_bytes_per_sec",
    "hbm_efficiency",
    "launch_secs",
    "collective_launch_secs",
    "source",
];

/// Keys that a cluster file needs.
const REQUIRED_OF_CLUSTER: [&str; 3] = ["name", "accelerator", "per_node"];

/// What a cluster file says once its device's table, if that has a base, is complete; `None` where it has
/// none.
pub(crate) fn of_cluster<T: DeserializeOwned>(text: &str) -> Option<Result<T>> {
    let mut file: Table = text.parse().ok()?;
    let name = file.get("accelerator")?.get("base")?.as_str()?.to_owned();
    let completed = complete(&mut file).map_err(|error| match text.find(&format!("\"{name}\"")) {
        Some(at) => error.at(Span::new(at, at + name.len() + 2)),
        None => error,
    });
    Some(completed.and_then(|()| from_table(file)).map_err(|error| in_place(error, parse::<T>(text).err())))
}

/// Completes the device's table of a cluster, if that has a base.
pub(crate) fn complete(cluster: &mut Table) -> Result<()> {
    let device = cluster.get_mut("accelerator").and_then(Value::as_table_mut);
    let Some(device) = device else { return Ok(()) };
    let Some(name) = device.get("base").and_then(Value::as_str).map(str::to_owned) else { return Ok(()) };
    let base = base(&name)?;
    // Whatever it was called: an alias is the same device.
    device.insert("base".to_owned(), base["name"].clone());
    *device = over(base, std::mem::take(device));
    Ok(())
}

/// The error with the place that it has in the file alone: a wrong key or value is met before what the base
/// would add is missed.
fn in_place(error: Diagnostic, alone: Option<Diagnostic>) -> Diagnostic {
    alone.filter(|alone| alone.message == error.message).unwrap_or(error)
}

/// The table of a built-in device, without its other names.
fn base(name: &str) -> Result<Table> {
    let text = library::accelerator_text(&library::accelerator(name)?.name);
    let mut table: Table = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    table.remove("aliases");
    Ok(table)
}

/// One table over another: its keys win, tables in both are laid over each other in turn.
fn over(mut base: Table, own: Table) -> Table {
    for (key, value) in own {
        let value = match (base.remove(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => Value::Table(over(below, above)),
            (_, value) => value,
        };
        base.insert(key, value);
    }
    base
}

/// The error with all keys that a cluster file lacks, where it is about one of them.
pub(crate) fn with_all_missing(text: &str, error: Diagnostic) -> Diagnostic {
    let Some(file) = text.parse::<Table>().ok().filter(|_| error.message.starts_with("missing field")) else {
        return error;
    };
    let device = file.get("accelerator").and_then(Value::as_table);
    let device = device.filter(|table| !table.contains_key("base"));
    let lacking = |table: Option<&Table>, keys: &[&str]| -> Vec<String> {
        let lacks = |key: &&&str| table.is_some_and(|table| !table.contains_key(**key));
        keys.iter().filter(lacks).map(|key| format!("`{key}`")).collect()
    };
    let [own, of_device] = [lacking(Some(&file), &REQUIRED_OF_CLUSTER), lacking(device, &REQUIRED)];
    if own.len() + of_device.len() < 2 {
        return error;
    }
    let parts =
        [("", own), ("of `[accelerator]` ", of_device)].into_iter().filter(|(_, keys)| !keys.is_empty());
    let missing: Vec<String> = parts.map(|(of, keys)| format!("{of}{}", keys.join(", "))).collect();
    let message = format!("missing fields: {}", missing.join("; "));
    let all = Diagnostic { message, ..error };
    if device.is_some() { all.help("`base = \"a100-80\"` takes them from a built-in device") } else { all }
}
