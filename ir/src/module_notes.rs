//! phzc's notes on the whole module: `frontend_attributes={phzc.passes="fuse"}` of the `HloModule` line.

use crate::module::Module;

const HEADER_KEY: &str = "frontend_attributes";

impl Module {
    /// The text of a note of the header, its escapes taken away.
    pub fn note(&self, key: &str) -> Option<String> {
        let text = self.attr(HEADER_KEY)?;
        let (_, value) = entries(text).into_iter().find(|(name, _)| *name == key)?;
        let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Some(inside.map_or_else(|| value.to_owned(), unescape))
    }

    /// Writes a note into the header, in place if it is there, else at the end.
    pub fn set_note(&mut self, key: &str, value: &str) {
        let quoted = format!("\"{}\"", escape(value));
        let mut notes = self.owned_notes();
        match notes.iter_mut().find(|(name, _)| name == key) {
            Some((_, text)) => *text = quoted,
            None => notes.push((key.to_owned(), quoted)),
        }
        self.write_notes(&notes);
    }

    /// Removes a note from the header; empty `frontend_attributes` go with it.
    pub fn remove_note(&mut self, key: &str) {
        let mut notes = self.owned_notes();
        let n_before = notes.len();
        notes.retain(|(name, _)| name != key);
        if notes.is_empty() && n_before > 0 {
            self.attrs.retain(|attr| &*attr.key != HEADER_KEY);
        } else if notes.len() < n_before {
            self.write_notes(&notes);
        }
    }

    fn owned_notes(&self) -> Vec<(String, String)> {
        let entries = self.attr(HEADER_KEY).map(entries).unwrap_or_default();
        entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn write_notes(&mut self, notes: &[(String, String)]) {
        let entries: Vec<String> = notes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.set_attr(HEADER_KEY, format!("{{{}}}", entries.join(",")));
    }
}

/// `{key=value,…}` as pairs of texts, quotes and braces of the values included.
fn entries(text: &str) -> Vec<(&str, &str)> {
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("");
    let pairs = split_top_level(inside).into_iter().filter_map(|entry| entry.trim().split_once('='));
    pairs.map(|(key, value)| (key.trim(), value.trim())).collect()
}

/// Splits at the commas that stand in no bracket and no string.
fn split_top_level(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut in_string, mut escaped) = (Vec::new(), 0, 0i32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn unescape(text: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(next) = chars.next() {
        match (next, next == '\\') {
            (_, true) => out.extend(chars.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped })),
            (plain, false) => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::{parse, print};

    #[test]
    fn notes_survive_printing_and_parsing() {
        let mut module = parse("ENTRY e { ROOT x = f32[] parameter(0) }").expect("legal");
        let values = ["fuse,shard{mesh={x=2,y=4}}", "{\"gap\":0.1}", "a\\\"b\\\\n", "two\nlines", ""];
        for (index, value) in values.iter().enumerate() {
            module.set_note(&format!("phzc.n{index}"), value);
        }
        let again = parse(&print(&module)).expect("what is printed parses");
        for (index, value) in values.iter().enumerate() {
            assert_eq!(again.note(&format!("phzc.n{index}")).as_deref(), Some(*value));
        }
    }

    #[test]
    fn other_notes_stay_as_they_were() {
        let text = "HloModule m, frontend_attributes={a={b=\"c,d\"},e=\"f\"}\nENTRY e { ROOT x = f32[] parameter(0) }";
        let mut module = parse(text).expect("legal");
        module.set_note("phzc.x", "1");
        assert_eq!(module.attr("frontend_attributes"), Some("{a={b=\"c,d\"},e=\"f\",phzc.x=\"1\"}"));
        assert_eq!(module.note("a").as_deref(), Some("{b=\"c,d\"}"));
        for key in ["phzc.x", "a", "e"] {
            module.remove_note(key);
        }
        assert_eq!(module.attr("frontend_attributes"), None);
    }

    #[test]
    fn brackets_and_strings_hold_commas_and_a_note_that_is_not_there_changes_nothing() {
        let text = "HloModule m, frontend_attributes={a={b,[c,d],(e)},f=\"x{,y\\\",z\",g=1}\nENTRY e { ROOT x = f32[] parameter(0) }";
        let mut module = parse(text).expect("legal");
        assert_eq!(module.note("a").as_deref(), Some("{b,[c,d],(e)}"));
        assert_eq!((module.note("f").as_deref(), module.note("g").as_deref()), (Some("x{,y\",z"), Some("1")));
        let before = module.attr("frontend_attributes").map(str::to_owned);
        module.remove_note("h");
        assert_eq!(module.attr("frontend_attributes").map(str::to_owned), before);
        module.remove_note("f");
        assert_eq!(module.attr("frontend_attributes"), Some("{a={b,[c,d],(e)},g=1}"));
        module.set_note("g", "2");
        assert_eq!(module.attr("frontend_attributes"), Some("{a={b,[c,d],(e)},g=\"2\"}"));
    }
}
