//! Results as lines of JSON: what was cut off goes on behind the last whole line, and parts are joined.

use phzc_io::{Failure, files};
use phzc_ir::Diagnostic;
use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};

/// No file of results is larger.
const MAX_BYTES: u64 = 1 << 30;

/// Which of the things to be done: every `n`-th from the `first`.
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

    /// Its share.
    pub fn of<'t, T>(&self, all: &'t [T]) -> impl Iterator<Item = &'t T> {
        all.iter().skip(self.first - 1).step_by(self.n)
    }
}

/// Sixteen digits of what results are of: two inputs that a person confuses differ (FNV-1a, 64 bits).
pub fn digest(bytes: impl Iterator<Item = u8>) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, fold))
}

/// What a file of results is of: its first line, other inputs have another; and the same in words.
#[derive(Clone, Debug)]
pub struct Header {
    /// The line.
    pub line: String,
    /// What files with other lines are of.
    pub words: &'static str,
}

/// Results as they are found, written down line by line if there is a file.
#[derive(Debug)]
pub struct Stream<T> {
    path: Option<PathBuf>,
    /// Those that the file has, and those found since.
    pub results: Vec<T>,
}

impl<T: Serialize + DeserializeOwned> Stream<T> {
    /// Opens a file of results, or goes on with what it has.
    ///
    /// # Errors
    /// When it is one of other inputs, or cannot be written.
    pub fn open(path: Option<&Path>, header: &Header) -> Result<Stream<T>, Failure> {
        let Some(path) = path else { return Ok(Stream { path: None, results: Vec::new() }) };
        let has_any = path.exists() && !files::first(path, 1)?.is_empty();
        let results = if has_any { read(path, header)? } else { Vec::new() };
        // A line that was cut off goes.
        let kept: String = results.iter().map(line).collect();
        files::write(path, &format!("{}\n{kept}", header.line))?;
        Ok(Stream { path: Some(path.to_owned()), results })
    }

    /// Opens the file of the results of one part, which are those of `own` things, called `what`, in order.
    ///
    /// # Errors
    /// As [`Stream::open`], and when results are of another part: of other things, or of more than it has.
    pub fn of_part<O>(
        path: Option<&Path>,
        header: &Header,
        (own, what): (impl IntoIterator<Item = O>, &str),
        is_of: impl Fn(&T, &O) -> bool,
    ) -> Result<Stream<T>, Failure> {
        let stream = Stream::open(path, header)?;
        let mut own = own.into_iter();
        let is_own = |result: &T| own.next().is_some_and(|it| is_of(result, &it));
        if !stream.results.iter().all(is_own) {
            let error = Diagnostic::error(format!("the results are of another part of the {what}"));
            return Err(error.help("name another file, or the part that it is of").into());
        }
        Ok(stream)
    }

    /// One result more.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(&mut self, result: T) -> phzc_ir::Result<()> {
        if let Some(path) = &self.path {
            files::append(path, &line(&result))?;
        }
        self.results.push(result);
        Ok(())
    }
}

fn line<T: Serialize>(result: &T) -> String {
    serde_json::to_string(result).expect("its numbers are finite") + "\n"
}

/// The whole lines of a file of results.
///
/// # Errors
/// When it is of other inputs, or a line is no result.
pub fn read<T: DeserializeOwned>(path: &Path, header: &Header) -> Result<Vec<T>, Failure> {
    let text = files::read(path, MAX_BYTES)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    match lines.next() {
        // Cut off within the first line.
        None if header.line.starts_with(&*text) => return Ok(Vec::new()),
        Some(first) if first == header.line => {}
        _ => {
            let message = format!("`{}` has the results of {}", path.display(), header.words);
            return Err(Diagnostic::error(message).help("name another file, or remove this one").into());
        }
    }
    let result = |line: &str| {
        serde_json::from_str(line).map_err(|error| {
            Diagnostic::error(format!("`{}` has a line that is no result: {error}", path.display())).into()
        })
    };
    lines.map(result).collect()
}

/// The results of several files, in the order of their keys, each once.
///
/// # Errors
/// When a file is of other inputs, or some of so many are missing.
pub fn merged<T: DeserializeOwned, K: Ord>(
    paths: &[PathBuf],
    header: &Header,
    (n_results, what): (usize, &str),
    key: impl Fn(&T) -> K,
) -> Result<Vec<T>, Failure> {
    let mut results = Vec::new();
    for path in paths {
        results.extend(read::<T>(path, header)?);
    }
    results.sort_by_key(&key);
    results.dedup_by(|a, b| key(a) == key(b));
    if results.len() < n_results {
        let message = format!("{} of {n_results} {what} are in these files", results.len());
        return Err(Diagnostic::error(message).help("name the files of all parts").into());
    }
    Ok(results)
}
