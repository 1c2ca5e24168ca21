//! Reading attribute values, each by the form that its key has.

use super::cursor::{Cursor, clip};
use super::layout::parse_sharding;
use super::parser::Parser;
use crate::attr::{
    Attr, DimLabels, Form, Key, LabelledDims, PadDim, SliceDim, Value, Window, WindowDim, WindowKey,
};
use crate::diag::{Diagnostic, Result, Span};
use smallvec::SmallVec;

impl<'a> Parser<'a> {
    /// Reads `key=value`.
    pub(super) fn attr(&mut self, depth: usize) -> Result<Attr> {
        let name = self.cursor.name("an attribute such as `dimensions={0}`")?;
        let key = Key::parse(name);
        if self.cursor.peek() != b'=' {
            return Err(self.cursor.expected("`=` right after the attribute's name"));
        }
        self.cursor.at += 1;
        let value = self.value(&key, depth)?;
        Ok(Attr { key, value })
    }

    fn value(&mut self, key: &Key, depth: usize) -> Result<Value> {
        let cursor = &mut self.cursor;
        Ok(match key.form() {
            Form::Ints => Value::Ints(ints(cursor)?),
            Form::Int => Value::Int(cursor.int()?),
            Form::Bool => Value::Bool(boolean(cursor)?),
            Form::Word => Value::Word(cursor.balanced()?.into()),
            Form::Str => Value::Str(cursor.string()?.into()),
            Form::Comp => Value::Comp(self.comp_ref(depth)?),
            Form::Comps => Value::Comps(self.comp_refs(depth)?),
            Form::Slices => Value::Slices(slices(cursor)?),
            Form::Padding => Value::Padding(padding(cursor)?),
            Form::Window => Value::Window(Box::new(window(cursor)?)),
            Form::DimLabels => Value::DimLabels(Box::new(dim_labels(cursor)?)),
            Form::Sharding => Value::Sharding(Box::new(parse_sharding(cursor)?)),
            Form::Notes => notes(cursor)?,
            Form::Raw => Value::Raw(raw(cursor)?.into()),
        })
    }
}

fn ints(cursor: &mut Cursor) -> Result<SmallVec<[i64; 4]>> {
    let mut list = SmallVec::new();
    cursor.expect(b'{')?;
    while !cursor.eat(b'}') {
        if !list.is_empty() {
            cursor.expect(b',')?;
        }
        list.push(cursor.int()?);
    }
    Ok(list)
}

fn boolean(cursor: &mut Cursor) -> Result<bool> {
    cursor.skip_space();
    let start = cursor.at;
    match cursor.word() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => {
            cursor.at = start;
            Err(cursor.expected("`true` or `false`"))
        }
    }
}

fn slices(cursor: &mut Cursor) -> Result<Vec<SliceDim>> {
    let mut dims = Vec::new();
    cursor.expect(b'{')?;
    while !cursor.eat(b'}') {
        if !dims.is_empty() {
            cursor.expect(b',')?;
        }
        cursor.expect(b'[')?;
        let start = cursor.int()?;
        cursor.expect(b':')?;
        let limit = cursor.int()?;
        let stride = if cursor.eat(b':') { cursor.int()? } else { 1 };
        cursor.expect(b']')?;
        dims.push(SliceDim { start, limit, stride });
    }
    Ok(dims)
}

fn padding(cursor: &mut Cursor) -> Result<SmallVec<[PadDim; 4]>> {
    cursor.skip_space();
    let start = cursor.at;
    let text = cursor.word();
    let dims: Option<SmallVec<[PadDim; 4]>> = text.split('x').map(pad_dim).collect();
    dims.ok_or_else(|| malformed(cursor, start, text, "padding such as `0_1x2_2_1`"))
}

fn pad_dim(text: &str) -> Option<PadDim> {
    let mut parts = text.split('_').map(|part| part.parse::<i64>());
    let (low, high) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let interior = parts.next().map_or(Some(0), |part| part.ok())?;
    parts.next().is_none().then_some(PadDim { low, high, interior })
}

fn malformed(cursor: &Cursor, start: usize, text: &str, what: &str) -> Diagnostic {
    Diagnostic::error(format!("expected {what}, found `{}`", clip(text))).at(Span::new(start, cursor.at))
}

fn window(cursor: &mut Cursor) -> Result<Window> {
    let mut window = Window::default();
    cursor.expect(b'{')?;
    while !cursor.eat(b'}') {
        let start = cursor.at;
        let Some(key) = WindowKey::parse(cursor.word()) else {
            cursor.at = start;
            return Err(cursor.expected("a window key such as `size=`"));
        };
        cursor.expect(b'=')?;
        let (start, text) = (cursor.at, cursor.word());
        if set_window(&mut window, key, text).is_none() {
            return Err(malformed(cursor, start, text, "one number per window dimension, joined by `x`"));
        }
        window.keys.push(key);
        cursor.skip_space();
    }
    Ok(window)
}

/// Sets one key of all dimensions; `None` when the text does not fit.
fn set_window(window: &mut Window, key: WindowKey, text: &str) -> Option<()> {
    let parts: SmallVec<[&str; 4]> = text.split('x').collect();
    if window.keys.is_empty() {
        window.dims.resize(parts.len(), WindowDim::default());
    }
    if parts.len() != window.dims.len() || window.keys.contains(&key) {
        return None;
    }
    for (dim, part) in window.dims.iter_mut().zip(parts) {
        match key {
            WindowKey::Size => dim.size = part.parse().ok()?,
            WindowKey::Stride => dim.stride = part.parse().ok()?,
            WindowKey::LhsDilate => dim.lhs_dilate = part.parse().ok()?,
            WindowKey::RhsDilate => dim.rhs_dilate = part.parse().ok()?,
            WindowKey::RhsReversal => dim.reversed = part.parse::<u8>().ok()? != 0,
            WindowKey::Pad => {
                let (low, high) = part.split_once('_')?;
                (dim.pad_low, dim.pad_high) = (low.parse().ok()?, high.parse().ok()?);
            }
        }
    }
    Some(())
}

fn dim_labels(cursor: &mut Cursor) -> Result<DimLabels> {
    cursor.skip_space();
    let start = cursor.at;
    cursor.word();
    if cursor.peek() == b'>' {
        cursor.at += 1;
        cursor.word();
    }
    let text = &cursor.text[start..cursor.at];
    labels(text).ok_or_else(|| malformed(cursor, start, text, "labels such as `b01f_01io->b01f`"))
}

fn labels(text: &str) -> Option<DimLabels> {
    let (inputs, out) = text.split_once("->")?;
    let (lhs, rhs) = inputs.split_once('_')?;
    let (lhs, rhs, out) = (labelled(lhs, 'b', 'f')?, labelled(rhs, 'o', 'i')?, labelled(out, 'b', 'f')?);
    let n_spatial = lhs.spatial.len();
    let same = rhs.spatial.len() == n_spatial && out.spatial.len() == n_spatial;
    same.then(|| DimLabels { lhs, rhs, out, text: text.into() })
}

/// Positions of `major`, `minor` and the digits `0..n`, each exactly once.
fn labelled(text: &str, major: char, minor: char) -> Option<LabelledDims> {
    let n_spatial = text.len().checked_sub(2).filter(|&n| n <= 10)?;
    let position = |label: char| text.find(label).filter(|_| text.matches(label).count() == 1);
    let spatial =
        (0..n_spatial as u8).map(|digit| position(char::from(b'0' + digit))).collect::<Option<_>>()?;
    Some(LabelledDims { major: position(major)?, minor: position(minor)?, spatial })
}

/// `{key="text",key={…}}`.
fn notes(cursor: &mut Cursor) -> Result<Value> {
    let mut notes = Vec::new();
    cursor.expect(b'{')?;
    while !cursor.eat(b'}') {
        if !notes.is_empty() {
            cursor.expect(b',')?;
        }
        let key = cursor.name("a key")?;
        cursor.expect(b'=')?;
        notes.push((key.into(), cursor.balanced()?.into()));
    }
    Ok(Value::Notes(notes))
}

/// Balanced text; the mesh form of replica groups has a comma of its own.
fn raw<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str> {
    cursor.skip_space();
    let start = cursor.at;
    let is_mesh = cursor.text[start..].starts_with("mesh[");
    cursor.balanced()?;
    if is_mesh {
        if cursor.eat(b',') {
            cursor.skip_space();
            cursor.balanced()?;
        }
        cursor.skip_space();
        if cursor.peek() == b'{' {
            cursor.balanced()?;
        }
    }
    Ok(&cursor.text[start..cursor.at])
}

impl WindowKey {
    /// The name in HLO text.
    pub fn as_str(self) -> &'static str {
        match self {
            WindowKey::Size => "size",
            WindowKey::Stride => "stride",
            WindowKey::Pad => "pad",
            WindowKey::LhsDilate => "lhs_dilate",
            WindowKey::RhsDilate => "rhs_dilate",
            WindowKey::RhsReversal => "rhs_reversal",
        }
    }

    fn parse(text: &str) -> Option<WindowKey> {
        use WindowKey::{LhsDilate, Pad, RhsDilate, RhsReversal, Size, Stride};
        [Size, Stride, Pad, LhsDilate, RhsDilate, RhsReversal].into_iter().find(|key| key.as_str() == text)
    }
}
