//! Progress on a terminal: one line that is written over and over.

use std::io::{Write, stderr};

/// Shows a phrase; an empty one clears the line.
pub fn on_terminal(phrase: &str) {
    let short: String = phrase.chars().filter(|c| !c.is_control()).take(78).collect();
    let mut out = stderr().lock();
    // Progress that cannot be shown is not worth an error.
    let _ = write!(out, "\r\x1b[K{short}").and_then(|()| out.flush());
}
