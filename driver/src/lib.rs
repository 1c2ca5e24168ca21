//! The `phzc` command: arguments in, files read, passes run, files and tables written.
//!
//! [`run`] is the whole program but for the process around it, so that tests run it in process.
//! It reads no environment variable; files are touched in [`files`] alone.

mod alternatives;
pub mod args;
pub mod calibrate;
mod cluster;
mod controls;
mod convert;
mod dumps;
pub mod emit;
mod eval;
mod explain;
pub mod files;
pub mod frontend;
mod generate;
mod help;
mod json;
mod npz;
pub mod phaze_plan;
pub mod profile_plan;
mod progress;
mod remarks;
mod render;
mod session;
mod summary;
mod units;
pub mod validate;
mod verify;

pub use progress::on_terminal;
pub use render::Source;

use args::Args;
use phzc_ir::Diagnostic;
use std::ffi::OsString;
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
    /// Seconds since some fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// Why a run ended early.
pub(crate) struct Failure {
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

/// Runs the program; `args` starts with its name. Returns the exit code: 0, 1, or 2 for a wrong command line.
pub fn run(args: impl IntoIterator<Item = OsString>, io: &mut Io) -> u8 {
    match Args::read(args) {
        Ok(args) => finish(session::run(&args, io), io),
        Err(error) => {
            let text = error.render();
            let text = if io.color { text.ansi().to_string() } else { text.to_string() };
            if error.use_stderr() {
                let _ = io.stderr.write_all(text.as_bytes());
                2
            } else {
                finish(write_stdout(io, &text), io)
            }
        }
    }
}

/// Reports a failure, if it is one.
fn finish(result: Result<(), Failure>, io: &mut Io) -> u8 {
    let Err(failure) = result else { return 0 };
    let text = render::render(failure.source.as_ref(), &failure.errors, io.color);
    // Nothing is left to be done when stderr does not take the message.
    let _ = io.stderr.write_all(text.as_bytes());
    failure.code
}

/// Writes a program to a file, or to stdout when there is none or it is called `-`.
pub(crate) fn deliver(output: Option<&Path>, text: &str, io: &mut Io) -> Result<(), Failure> {
    match output {
        Some(path) if path != Path::new("-") => Ok(files::write(path, text)?),
        _ => write_stdout(io, text),
    }
}

/// Writes to stdout; a reader that has had enough (`| head`) is no error.
pub(crate) fn write_stdout(io: &mut Io, text: &str) -> Result<(), Failure> {
    let written = io.stdout.write_all(text.as_bytes()).and_then(|()| io.stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(format!("cannot write to standard output: {error}")).into())
        }
        _ => Ok(()),
    }
}
