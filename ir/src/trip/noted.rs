//! Trip counts that a loop's text carries.

use crate::attr::{Key, Value};
use crate::module::Instr;
use crate::notes;

/// What the user says, for prices alone.
pub fn given_trips(instr: &Instr) -> Option<u64> {
    instr.note(notes::TRIPS).and_then(|text| text.parse().ok())
}

/// What XLA says: `{"known_trip_count":{"n":"12"}}`, bare or in a quoted string.
pub fn noted_trips(instr: &Instr) -> Option<u64> {
    let (Value::Raw(text) | Value::Str(text)) = instr.attr(Key::BackendConfig)? else { return None };
    let (_, rest) = text.split_once("known_trip_count")?;
    let (_, rest) = rest.split_once('{')?;
    let (_, rest) = rest.split_once('n')?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '}');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}
