//! The tables that the command line means, and what of it went unused.

use super::csv::Table;
use super::profile::Profile;
use super::{Outcome, is_meant};
use phzc_io::{Failure, files};
use phzc_ir::{Diagnostic, Result};
use std::path::{Path, PathBuf};

/// Bytes of a file within which the first line of a table ends.
const MAX_HEADER_BYTES: u64 = 1 << 16;

/// The tables that a path means: itself, or those of the folder.
///
/// # Errors
/// When it is a folder without tables.
pub(super) fn tables(
    path: &Path,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Vec<PathBuf>, Failure> {
    let found = files::listed(path, "csv")?;
    let others = files::beside_listed(path, "csv")?;
    let misnamed: Vec<PathBuf> = others.into_iter().filter(|path| is_table(path)).collect();
    for path in &misnamed {
        let message = format!("`{}` is not read: its name does not end in `.csv`", path.display());
        warnings.push(Diagnostic::warning(message).help("rename it, or name it on the command line"));
    }
    if found.is_empty() {
        let error = Diagnostic::error(format!("no table in `{}`", path.display()));
        return Err(error.help("name a folder with files that end in `.csv`").into());
    }
    Ok(found)
}

/// Whether the first line of a file names the columns of a table that is predicted.
fn is_table(path: &Path) -> bool {
    let start = files::read_part(path, 0, Some(MAX_HEADER_BYTES)).unwrap_or_default();
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header: Result<Table> = Table::parse(&String::from_utf8_lossy(line));
    header.is_ok_and(|header| is_meant(&header))
}

/// A warning if no row took anything of the profile.
pub(super) fn unused(path: Option<&Path>, profile: &Profile, outcomes: &[Outcome]) -> Option<Diagnostic> {
    let path = path?;
    let is_used = outcomes.iter().flat_map(|one| &one.rows).any(|row| row.source.is_some());
    let has_trials = outcomes.iter().any(|one| one.score.kind == "trials");
    if is_used || has_trials && profile.is_of_trials() {
        return None;
    }
    let message = format!("no row takes a time from `{}`: all are computed", path.display());
    let help = "a row's `model` begins like one of the file, its `device` ends like one, and its `tp` is one that was measured";
    Some(Diagnostic::warning(message).help(help))
}
