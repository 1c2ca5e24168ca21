//! Diagnostics: the one error type for everything that a user's input can get wrong.

/// A half-open byte range of the source text that a diagnostic points at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of `start..end`; offsets past 4 GiB saturate.
    pub fn new(start: usize, end: usize) -> Span {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { start: clamp(start), end: clamp(end) }
    }
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The run stops with exit code 1.
    Error,
    /// The run goes on; something was assumed.
    Warning,
}

/// One message about a user's input: what is wrong, where, and what to do about it.
///
/// Messages are lower case, without a final dot, with backticks around what the user typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong: expected and found.
    pub message: String,
    /// Where in the input, if it is one place.
    pub span: Option<Span>,
    /// Further places and remarks.
    pub notes: Vec<(Option<Span>, String)>,
    /// What the user can do, if something can be said.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            span: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(message) }
    }

    /// The same diagnostic, pointing at `span`.
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// The same diagnostic with a remark, at a place of its own or at none.
    pub fn note(mut self, span: Option<Span>, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span, text.into()));
        self
    }

    /// The same diagnostic with a remedy.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.notes.iter().try_for_each(|(_, note)| write!(f, "; {note}"))?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

/// `1 device`, `2 devices`, `2 microbatches`.
pub fn counted(count: usize, noun: &str) -> String {
    let plural = match count {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

/// A result whose error is one diagnostic.
pub type Result<T> = std::result::Result<T, Diagnostic>;

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_of_a_kind_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "device")), ["0 devices", "1 device", "2 devices"]);
        assert_eq!([1, 2].map(|count| counted(count, "microbatch")), ["1 microbatch", "2 microbatches"]);
    }
}
