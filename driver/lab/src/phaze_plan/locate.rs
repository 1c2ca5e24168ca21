//! Where in a JSON text a value lies.

use phzc_cost::phaze::read::Step;
use phzc_ir::Span;
use serde::de::IgnoredAny;

/// The bytes of the value that a path leads to; `None` where it leads nowhere.
pub(super) fn span(text: &str, path: &[Step]) -> Option<Span> {
    let mut at = skip(text, 0);
    for step in path {
        at = child(text, at, step)?;
    }
    let end = value_end(text, at)?;
    // A list over many lines would be drawn whole; its first line says enough.
    let line_end = text[at..end].find('\n').map_or(end, |length| at + length);
    Some(Span::new(at, line_end))
}

/// The first byte of a value within the object or list at `at`.
fn child(text: &str, at: usize, step: &Step) -> Option<usize> {
    let mut at = skip(text, at + 1);
    let mut n_seen = 0;
    while !text[at..].starts_with(['}', ']']) {
        let is_it = match step {
            Step::Key(key) => {
                let end = value_end(text, at)?;
                let own: String = serde_json::from_str(&text[at..end]).ok()?;
                at = skip(text, end);
                own == *key
            }
            Step::At(index) => n_seen == *index,
        };
        if is_it {
            return Some(at);
        }
        at = skip(text, value_end(text, at)?);
        n_seen += 1;
    }
    None
}

/// The byte after the value at `at`.
fn value_end(text: &str, at: usize) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(at + values.byte_offset())
}

/// The first byte from `at` on that is neither space nor between values.
fn skip(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches([' ', '\t', '\r', '\n', ',', ':']).len()
}

#[cfg(test)]
mod tests {
    use super::{Step, span};

    #[test]
    fn a_value_within_objects_and_lists_is_found() {
        let text = r#"{"a": [1, {"b\n": 2}], "c": {"d": [3, 45]}}"#;
        let key = |key: &str| Step::Key(key.to_owned());
        let found = span(text, &[key("c"), key("d"), Step::At(1)]).map(|it| (it.start, it.end));
        assert_eq!(found, text.find("45").map(|at| (at as u32, at as u32 + 2)));
    }

    #[test]
    fn a_path_that_leads_nowhere_has_no_place() {
        assert_eq!(span(r#"{"a": [1]}"#, &[Step::Key("a".to_owned()), Step::At(1)]), None);
    }
}
