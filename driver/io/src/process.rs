//! Runs another program, which prints to this one's standard error.

use phzc_ir::{Diagnostic, Result};
use std::process::{Command, Stdio};

/// Runs a command of words, with one more argument.
///
/// # Errors
/// When it cannot be started, or ends with another code than 0.
pub fn run(command: &str, argument: &str) -> Result<()> {
    let mut words = command.split_whitespace();
    let name = words.next().ok_or_else(|| Diagnostic::error("the command is empty"))?;
    let status =
        Command::new(name).args(words).arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Diagnostic::error(format!("`{command} {argument}` has failed: {status}"))),
        Err(error) => Err(Diagnostic::error(format!("cannot run `{name}`: {error}"))),
    }
}
