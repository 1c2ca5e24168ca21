//! What every subcommand reads from and writes to: standard streams, files in any compression, errors with
//! their place.

pub mod files;
pub mod interrupt;
pub mod json;
pub mod process;
pub mod progress;
pub mod render;
pub mod units;

use interrupt::Interrupt;
use phzc_ir::Diagnostic;
use render::Source;
use std::io::{Read, Write};
use std::path::Path;

/// What the program reads and writes besides files.
pub struct Io<'a> {
    /// Read when the program is called `-`.
    pub stdin: &'a mut dyn Read,
    /// Gets the result when there is no `-o`.
    pub stdout: &'a mut dyn Write,
    /// Gets errors, warnings and the summary.
    pub stderr: &'a mut dyn Write,
    /// Whether to colour errors.
    pub color: bool,
    /// Called with a phrase when long work advances.
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// Whether the user wants the search to end.
    pub interrupt: &'a Interrupt,
    /// Seconds since some fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// Why a run ended early.
pub struct Failure {
    /// The exit code: 1, or 2 when the command line itself is wrong.
    pub code: u8,
    /// The text that the errors' spans point into.
    pub source: Option<Source>,
    /// At least one.
    pub errors: Vec<Diagnostic>,
}

impl Failure {
    /// A failure with exit code 1 and one error.
    pub fn new(source: Option<Source>, error: Diagnostic) -> Failure {
        Failure { code: 1, source, errors: vec![error] }
    }
}

impl From<Diagnostic> for Failure {
    fn from(error: Diagnostic) -> Failure {
        Failure::new(None, error)
    }
}

/// Writes a program to a file, or to stdout when there is none or it is called `-`.
pub fn deliver(output: Option<&Path>, text: &str, io: &mut Io) -> Result<(), Failure> {
    match output {
        Some(path) if path != Path::new("-") => Ok(files::write(path, text)?),
        _ => write_stdout(io, text),
    }
}

/// Writes to stdout; a reader that has had enough (`| head`) is no error.
pub fn write_stdout(io: &mut Io, text: &str) -> Result<(), Failure> {
    let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let plain =
                Diagnostic::error(format!("cannot write to standard output: {}", files::reason(&error)));
            let is_full = error.kind() == std::io::ErrorKind::StorageFull;
            Err(if is_full { plain.help(files::FULL) } else { plain }.into())
        }
        _ => Ok(()),
    }
}
