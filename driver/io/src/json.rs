//! Reading JSON: what cannot be read is a diagnostic with its place and cause.

use phzc_ir::{Diagnostic, Result, Span, nearest};
use serde::de::DeserializeOwned;

/// The value of a text that messages call `what`; `help` says what form it has.
///
/// # Errors
/// Where the text is no JSON, or not of this form.
pub fn read<T: DeserializeOwned>(text: &str, what: &str, help: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| diagnostic(text, what, help, &error))
}

/// The error of a text, at its place.
pub fn diagnostic(text: &str, what: &str, help: &str, error: &serde_json::Error) -> Diagnostic {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = text.floor_char_boundary((before + error.column().saturating_sub(1)).min(text.len()));
    let message = error.to_string();
    // The place is said by the span.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(cause, _)| cause);
    let end = text.ceil_char_boundary((at + 1).min(text.len()));
    unknown_key(&text[..end], message).unwrap_or_else(|| {
        Diagnostic::error(format!("{what} cannot be read: {message}")).at(Span::new(at, end)).help(help)
    })
}

/// The error for a key that is not known, if the message says so; the key is the last one of the text.
fn unknown_key(text: &str, message: &str) -> Option<Diagnostic> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = names.next()?;
    let known: Vec<&str> = names.collect();
    let guess = nearest(key, known.iter().copied());
    let guess = guess.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
    let error =
        Diagnostic::error(format!("unknown key `{key}`")).help(format!("{guess}known: {}", known.join(", ")));
    Some(match text.rfind(&format!("\"{key}\"")) {
        Some(start) => error.at(Span::new(start, start + key.len() + 2)),
        None => error.at(Span::new(text.len() - 1, text.len())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stands_where_reading_stopped() {
        let text = "{\n  \"a\": [1,\n  x]}";
        let error = read::<serde_json::Value>(text, "the text", "").expect_err("`x` is no value");
        assert_eq!(error.span, Some(Span::new(text.len() - 3, text.len() - 2)));
        assert_eq!(error.message, "the text cannot be read: expected value");
    }

    #[test]
    fn a_text_that_ends_early_is_an_error_at_its_end() {
        let error = read::<Vec<u8>>("[1, 2", "the text", "").expect_err("it is not closed");
        assert_eq!(error.span.map(|span| span.start), Some(4));
    }
}
