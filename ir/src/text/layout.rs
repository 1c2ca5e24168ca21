//! Reading `sharding={…}`.

use super::cursor::Cursor;
use crate::diag::{Diagnostic, Result, Span};
use crate::sharding::{Devices, LastDims, Sharding, Tiles, Tiling, TilingKind};
use smallvec::SmallVec;

/// The layout that a text such as `{devices=[2,4]<=[8]}` means; spans are offsets into it.
///
/// # Errors
/// The text is no layout.
pub fn sharding(text: &str) -> Result<Sharding> {
    let mut cursor = Cursor::new(text);
    let sharding = parse_sharding(&mut cursor)?;
    cursor.skip_space();
    if cursor.at_end() { Ok(sharding) } else { Err(cursor.expected("the end of the sharding")) }
}

pub(super) fn parse_sharding(cursor: &mut Cursor) -> Result<Sharding> {
    cursor.skip_space();
    let mut ahead = cursor.clone();
    ahead.expect(b'{')?;
    if ahead.eat(b'}') {
        *cursor = ahead;
        return Ok(Sharding::Tuple(Vec::new()));
    }
    if ahead.peek() != b'{' {
        return parse_tiling(cursor).map(Sharding::Single);
    }
    let mut tilings = Vec::new();
    loop {
        tilings.push(parse_tiling(&mut ahead)?);
        if ahead.eat(b'}') {
            break;
        }
        ahead.expect(b',')?;
    }
    *cursor = ahead;
    Ok(Sharding::Tuple(tilings))
}

fn parse_tiling(cursor: &mut Cursor) -> Result<Tiling> {
    cursor.expect(b'{')?;
    cursor.skip_space();
    let start = cursor.at;
    let kind = match cursor.word() {
        "replicated" => TilingKind::Replicated,
        "manual" => TilingKind::Manual,
        "unknown" => TilingKind::Unknown,
        "unreduced" => TilingKind::Unreduced,
        "maximal" => parse_maximal(cursor)?,
        "devices" => TilingKind::Tiled(parse_tiles(cursor)?),
        "mesh" | "maximal_mesh" => {
            cursor.at = start;
            return parse_named(cursor);
        }
        _ => {
            cursor.at = start;
            return Err(
                cursor.expected("`replicated`, `devices=[…]`, `maximal device=n`, `manual` or `mesh[…]`")
            );
        }
    };
    let suffix = parse_suffix(cursor)?;
    Ok(Tiling { kind, suffix })
}

fn parse_maximal(cursor: &mut Cursor) -> Result<TilingKind> {
    if !cursor.eat_word("device") {
        return Err(cursor.expected("`device=n`"));
    }
    cursor.expect(b'=')?;
    cursor.int().map(TilingKind::Maximal)
}

/// The named form runs to the closing brace; it is kept as text.
fn parse_named(cursor: &mut Cursor) -> Result<Tiling> {
    let start = cursor.at;
    loop {
        cursor.balanced()?;
        let end = cursor.at;
        if cursor.eat(b'}') {
            let text = cursor.text[start..end].into();
            return Ok(Tiling { kind: TilingKind::Named(text), suffix: None });
        }
        cursor.eat(b',');
    }
}

/// Everything up to the closing brace: `shard_as 1`, `metadata={…}`.
fn parse_suffix(cursor: &mut Cursor) -> Result<Option<Box<str>>> {
    cursor.skip_space();
    let start = cursor.at;
    let mut end = start;
    while !cursor.eat(b'}') {
        cursor.balanced()?;
        end = cursor.at;
    }
    Ok((end > start).then(|| cursor.text[start..end].into()))
}

fn parse_tiles(cursor: &mut Cursor) -> Result<Tiles> {
    cursor.expect(b'=')?;
    let dims = parse_list(cursor, b'[', b']')?;
    let devices = if cursor.eat(b'<') { parse_iota(cursor)? } else { parse_device_list(cursor)? };
    let last = parse_last(cursor)?;
    Ok(Tiles { dims: SmallVec::from_vec(dims), devices, last })
}

fn parse_iota(cursor: &mut Cursor) -> Result<Devices> {
    cursor.expect(b'=')?;
    let start = cursor.at;
    let reshape: SmallVec<[i64; 4]> = SmallVec::from_vec(parse_list(cursor, b'[', b']')?);
    let rank = reshape.len();
    if rank > 32 {
        let error = Diagnostic::error("a device list may have 32 dimensions");
        return Err(error.at(Span::new(start, cursor.at)));
    }
    if !cursor.eat_word("T") {
        if rank > 1 {
            let error = Diagnostic::error("a device list of several dimensions needs its transposition");
            let help =
                format!("write `T({})`", (0..rank).map(|d| d.to_string()).collect::<Vec<_>>().join(","));
            return Err(error.at(Span::new(start, cursor.at)).help(help));
        }
        return Ok(Devices::Iota { reshape, perm: SmallVec::from_slice(&[0]) });
    }
    if rank == 1 {
        let error = Diagnostic::error("a device list of one dimension has no transposition");
        return Err(error.at(Span::new(start, cursor.at)).help("leave `T(0)` out"));
    }
    let perm = parse_list(cursor, b'(', b')')?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank as i64) {
        let error = Diagnostic::error(format!("`T(…)` must name each dimension of rank {rank} once"));
        return Err(error.at(Span::new(start, cursor.at)));
    }
    Ok(Devices::Iota { reshape, perm: perm.into_iter().map(|dim| dim as u8).collect() })
}

fn parse_device_list(cursor: &mut Cursor) -> Result<Devices> {
    let mut list = vec![cursor.int()?];
    while cursor.eat(b',') {
        list.push(cursor.int()?);
    }
    Ok(Devices::List(list))
}

fn parse_last(cursor: &mut Cursor) -> Result<LastDims> {
    if cursor.eat_word("last_tile_dim_replicate") {
        return Ok(LastDims::Replicate);
    }
    if !cursor.eat_word("last_tile_dims") {
        return Ok(LastDims::None);
    }
    cursor.expect(b'=')?;
    cursor.expect(b'{')?;
    let mut types = Vec::new();
    loop {
        types.push(cursor.name("a subgroup type such as `replicated`")?.into());
        if cursor.eat(b'}') {
            return Ok(LastDims::Types(types));
        }
        cursor.expect(b',')?;
    }
}

fn parse_list(cursor: &mut Cursor, open: u8, close: u8) -> Result<Vec<i64>> {
    cursor.expect(open)?;
    let mut list = vec![cursor.int()?];
    while !cursor.eat(close) {
        cursor.expect(b',')?;
        list.push(cursor.int()?);
    }
    Ok(list)
}
