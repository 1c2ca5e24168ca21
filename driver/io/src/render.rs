//! Diagnostics as a person reads them: file, line, column, the source line with a caret, notes, help.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use phzc_ir::{Diagnostic, Severity, Span};
use std::ops::Range;

/// More errors than this are counted, not shown.
const MAX_SHOWN: usize = 20;

/// Of a longer span only so many bytes are marked: the root tuple of a real program has megabytes on one
/// line.
const MAX_MARK: usize = 100;

/// A text that spans point into.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages call it: its path, or the option that it stood in.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// The diagnostics as text, a blank line after each.
pub fn render(source: Option<&Source>, found: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii).term_width(110);
    let shown = found.iter().take(MAX_SHOWN);
    let mut out: String = shown.map(|one| renderer.render(&[group(source, one)]) + "\n\n").collect();
    if found.len() > MAX_SHOWN {
        out += &format!("and {} more\n\n", found.len() - MAX_SHOWN);
    }
    out
}

fn group<'a>(source: Option<&'a Source>, found: &'a Diagnostic) -> Group<'a> {
    let level = match found.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&*found.message));
    if let Some(source) = source {
        let marks = if source.text.is_empty() { Vec::new() } else { marks(&source.text, found) };
        let snippet = Snippet::source(&*source.text).path(&*source.name);
        group = if marks.is_empty() { group } else { group.element(snippet.annotations(marks)) };
    }
    let remarks = found.notes.iter().filter(|(span, _)| source.is_none() || span.is_none());
    group = group.elements(remarks.map(|(_, note)| Level::NOTE.message(&**note)));
    group.elements(found.help.iter().map(|help| Level::HELP.message(&**help)))
}

/// The diagnostic's own place and those of its notes.
fn marks<'a>(text: &str, found: &'a Diagnostic) -> Vec<Annotation<'a>> {
    let own = found.span.and_then(|span| range(text, span)).map(|range| AnnotationKind::Primary.span(range));
    let noted = found
        .notes
        .iter()
        .filter_map(|(span, note)| Some(AnnotationKind::Context.span(range(text, (*span)?)?).label(&**note)));
    own.into_iter().chain(noted).collect()
}

/// The part of a span on its first line, up to [`MAX_MARK`] bytes of it; `None` for the empty span at 0 that
/// instructions made by passes have, and all of a binary format.
fn range(text: &str, span: Span) -> Option<Range<usize>> {
    if span.end == 0 {
        return None;
    }
    let start = text.floor_char_boundary(span.start as usize);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = (span.end as usize).min(start + MAX_MARK);
    Some(start..text.floor_char_boundary(end).clamp(start, line_end))
}

#[cfg(test)]
mod tests;
