//! Results as lines of JSON: a sweep that was cut off goes on behind the last whole line, and parts are
//! joined.

use phzc_io::{Failure, files};
use phzc_ir::Diagnostic;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// No file of results is larger.
const MAX_BYTES: u64 = 1 << 30;

/// Which clusters: every `n`-th from the `first`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    first: usize,
    n: usize,
}

impl Default for Part {
    fn default() -> Part {
        Part { first: 1, n: 1 }
    }
}

impl Part {
    /// `2/4`.
    pub fn parse(text: &str) -> Result<Part, String> {
        let pair = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match pair {
            Some((first, n)) if (1..=n).contains(&first) => Ok(Part { first, n }),
            _ => Err("expected a part such as 2/4".to_owned()),
        }
    }

    /// Its share of all that is swept.
    pub fn of<'c, T>(&self, all: &'c [T]) -> impl Iterator<Item = &'c T> {
        all.iter().skip(self.first - 1).step_by(self.n)
    }
}

/// The first line of a file of results: what it is of. Other inputs have another.
pub fn header(input: &str, cost: &str) -> String {
    // FNV-1a, 64 bits: two inputs that a person confuses differ.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let digest = input.bytes().chain(cost.bytes()).fold(0xcbf2_9ce4_8422_2325, fold);
    format!("{{\"sweep\":1,\"cost\":\"{cost}\",\"input\":\"{digest:016x}\"}}")
}

/// Points as they are found, written down line by line if there is a file.
#[derive(Debug)]
pub struct Stream<P> {
    path: Option<PathBuf>,
    /// Those that the file has, and those found since.
    pub points: Vec<P>,
}

impl<P: Serialize + DeserializeOwned> Stream<P> {
    /// Opens a file of results, or goes on with what it has.
    ///
    /// # Errors
    /// When it is one of another sweep, or cannot be written.
    pub fn open(path: Option<&Path>, header: &str) -> Result<Stream<P>, Failure> {
        let Some(path) = path else { return Ok(Stream { path: None, points: Vec::new() }) };
        let has_any = path.exists() && !files::first(path, 1)?.is_empty();
        let points: Vec<P> = if has_any { read(path, header)? } else { Vec::new() };
        // A line that was cut off goes.
        let kept: String = points.iter().map(line).collect();
        files::write(path, &format!("{header}\n{kept}"))?;
        Ok(Stream { path: Some(path.to_owned()), points })
    }

    /// One point more.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(&mut self, point: P) -> Result<(), Failure> {
        if let Some(path) = &self.path {
            files::append(path, &line(&point))?;
        }
        self.points.push(point);
        Ok(())
    }
}

fn line<P: Serialize>(point: &P) -> String {
    serde_json::to_string(point).expect("its numbers are finite") + "\n"
}

/// The whole lines of a file of results.
///
/// # Errors
/// When it is of other inputs, or a line is no point.
pub fn read<P: DeserializeOwned>(path: &Path, header: &str) -> Result<Vec<P>, Failure> {
    let text = files::read(path, MAX_BYTES)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    match lines.next() {
        // Cut off within the first line.
        None if header.starts_with(&*text) => return Ok(Vec::new()),
        Some(first) if first == header => {}
        _ => {
            let message = format!("`{}` has the results of other inputs", path.display());
            return Err(Diagnostic::error(message).help("name another file, or remove this one").into());
        }
    }
    let point = |line: &str| {
        serde_json::from_str(line).map_err(|error| {
            Diagnostic::error(format!("`{}` has a line that is no result: {error}", path.display())).into()
        })
    };
    lines.map(point).collect()
}

/// The points of several files, in the order of their keys, each once.
///
/// # Errors
/// When a file is of other inputs, or points are missing.
pub fn merged<P: DeserializeOwned, K: Ord>(
    paths: &[PathBuf],
    header: &str,
    n_points: usize,
    key: impl Fn(&P) -> K,
) -> Result<Vec<P>, Failure> {
    let mut points = Vec::new();
    for path in paths {
        points.extend(read::<P>(path, header)?);
    }
    points.sort_by_key(&key);
    points.dedup_by(|a, b| key(a) == key(b));
    if points.len() < n_points {
        let message = format!("{} of {n_points} clusters are in these files", points.len());
        return Err(Diagnostic::error(message).help("name the files of all parts").into());
    }
    Ok(points)
}
