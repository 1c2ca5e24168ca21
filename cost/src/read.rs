//! Reading TOML: every syntax error, unknown key, missing key and senseless number is a diagnostic with its
//! place.

use phzc_ir::{Diagnostic, Result, Span};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};

/// Parses `text`; the diagnostic points into `text`.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| diagnostic(&error))
}

/// The same of a table that was put together.
pub(crate) fn from_table<T: DeserializeOwned>(table: toml::Table) -> Result<T> {
    table.try_into().map_err(|error| diagnostic(&error))
}

/// The same of a part of a file: as it has no place of its own, the diagnostic names the key.
pub(crate) fn of_table<T: DeserializeOwned>(table: toml::Table) -> Result<T> {
    table.try_into().map_err(|error: toml::de::Error| {
        let (found, shown) = (diagnostic(&error), error.to_string());
        match shown.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`')) {
            Some(key) => Diagnostic { message: format!("`{key}`: {}", found.message), ..found },
            None => found,
        }
    })
}

fn diagnostic(error: &toml::de::Error) -> Diagnostic {
    let message = error.message().trim_end_matches('.').to_owned();
    let is_number = message.starts_with("expected a positive finite number");
    let plain = Diagnostic::error(message);
    let plain =
        if is_number { plain.help("write a number above 0, in the unit that its key names") } else { plain };
    match error.span() {
        Some(range) => plain.at(Span::new(range.start, range.end)),
        None => plain,
    }
}

/// A number above zero, and finite.
pub(crate) fn positive<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    let fine = value.is_finite() && value > 0.0;
    fine.then_some(value)
        .ok_or_else(|| D::Error::custom(format!("expected a positive finite number, found `{value}`")))
}

/// An optional key with a positive finite number.
pub(crate) fn some_positive<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<f64>, D::Error> {
    positive(from).map(Some)
}

/// A number above zero, at most one.
pub(crate) fn fraction<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    let value = positive(from)?;
    let fine = value <= 1.0;
    fine.then_some(value)
        .ok_or_else(|| D::Error::custom(format!("expected a fraction in (0, 1], found `{value}`")))
}

/// An optional key with a fraction.
pub(crate) fn some_fraction<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<f64>, D::Error> {
    fraction(from).map(Some)
}

/// An optional key with a count.
pub(crate) fn some_count<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<usize>, D::Error> {
    count(from).map(Some)
}

/// The default of a fraction.
pub(crate) fn whole() -> f64 {
    1.0
}

/// A whole number from one to [`MAX_COUNT`].
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<usize, D::Error> {
    let value = i64::deserialize(from)?;
    let fine = (1..=MAX_COUNT as i64).contains(&value);
    fine.then_some(value as usize)
        .ok_or_else(|| D::Error::custom(format!("expected a count from 1 to {MAX_COUNT}, found `{value}`")))
}

/// The most devices that a cluster may have.
pub(crate) const MAX_COUNT: usize = 1 << 20;

/// A text that says something.
pub(crate) fn citation<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    let text = String::deserialize(from)?;
    let blank = text.trim().is_empty();
    if blank {
        Err(D::Error::custom("expected where the numbers come from, found an empty text"))
    } else {
        Ok(text)
    }
}
