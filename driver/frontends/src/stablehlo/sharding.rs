//! Shardings: HLO's text, and Shardy's named axes as HLO's devices.

use super::ast::{Attr, Op};
use super::parse::File;
use phzc_ir::sharding::{Devices, LastDims, Tiles};
use phzc_ir::{Diagnostic, Result, Sharding, Span, Tiling, TilingKind};
use smallvec::SmallVec;

/// `"{devices=[2,1]<=[2]}"`.
pub(super) fn from_text(text: &str, span: Span) -> Result<Sharding> {
    phzc_ir::text::sharding(text).map_err(|error| {
        let note = format!("in the sharding `{}`", phzc_ir::text::cursor::clip(text));
        Diagnostic::error(error.message).at(span).note(None, note)
    })
}

/// The sharding that an argument, result or operation notes, and Shardy's text where HLO cannot say it.
pub(super) fn noted(
    file: &File,
    notes: &Attr,
    rank: usize,
    span: Span,
) -> Result<(Option<Sharding>, Option<String>)> {
    if let Some(Attr::Str(text)) = notes.field("mhlo.sharding") {
        return from_text(text, span).map(|sharding| (Some(sharding), None));
    }
    match notes.field("sdy.sharding") {
        Some(Attr::Text(text)) => match from_shardy(file, text, rank) {
            Ok(sharding) => Ok((Some(sharding), None)),
            Err(_) => Ok((None, Some(format!("#sdy.sharding<{}>", text.replace('"', "\\\""))))),
        },
        _ => Ok((None, None)),
    }
}

/// `@mesh, [{}, {"model"}]` on a mesh of the file: the tiles of each dimension and the devices that hold
/// them.
///
/// # Errors
/// Says what HLO has no counterpart for: parts of axes, devices in an order of their own, partial values.
pub(super) fn from_shardy(file: &File, text: &str, rank: usize) -> std::result::Result<Sharding, String> {
    let unknown =
        || format!("the sharding `<{}>` has no counterpart in HLO", phzc_ir::text::cursor::clip(text));
    let (name, rest) =
        text.trim().strip_prefix('@').and_then(|rest| rest.split_once(',')).ok_or_else(unknown)?;
    let axes = mesh(file, name.trim()).ok_or_else(unknown)?;
    let (dims, after) = dimensions(rest).ok_or_else(unknown)?;
    // What follows names replicated axes, which all others are too, or partial values.
    if dims.len() != rank || after.contains("unreduced") || text.contains(":(") {
        return Err(unknown());
    }
    let place = |axis: &&str| axes.iter().position(|(name, _)| name == axis);
    let places: Option<Vec<Vec<usize>>> = dims.iter().map(|dim| dim.iter().map(place).collect()).collect();
    tiling(&axes, &places.ok_or_else(unknown)?).map(Sharding::Single).ok_or_else(unknown)
}

/// Tiles over the axes of each dimension; axes that split nothing are replicated.
fn tiling(axes: &[(&str, i64)], places: &[Vec<usize>]) -> Option<Tiling> {
    let mut order: Vec<usize> = places.concat();
    if order.iter().any(|axis| order.iter().filter(|other| *other == axis).count() > 1) {
        return None;
    }
    let size = |axis: &usize| axes[*axis].1;
    let mut dims: SmallVec<[i64; 6]> = places.iter().map(|dim| dim.iter().map(size).product()).collect();
    if dims.iter().all(|&tiles| tiles == 1) {
        return Some(Tiling::replicated());
    }
    let unused: Vec<usize> = (0..axes.len()).filter(|axis| !order.contains(axis)).collect();
    let n_unused: i64 = unused.iter().map(size).product();
    order.extend(unused);
    let last = if n_unused > 1 { LastDims::Replicate } else { LastDims::None };
    dims.extend((n_unused > 1).then_some(n_unused));
    Some(Tiling {
        kind: TilingKind::Tiled(Tiles { dims, devices: devices(axes, &order), last }),
        suffix: None,
    })
}

/// Devices `0..n` in the order of the axes, neighbouring axes joined: `<=[2,4]T(1,0)`.
fn devices(axes: &[(&str, i64)], order: &[usize]) -> Devices {
    let order: Vec<usize> = order.iter().copied().filter(|&axis| axes[axis].1 > 1).collect();
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for axis in order {
        let goes_on = |run: &Vec<usize>| {
            let last = run[run.len() - 1];
            last < axis && axes[last + 1..axis].iter().all(|(_, size)| *size == 1)
        };
        match runs.last_mut() {
            Some(run) if goes_on(run) => run.push(axis),
            _ => runs.push(vec![axis]),
        }
    }
    let mut sorted: Vec<usize> = (0..runs.len()).collect();
    sorted.sort_by_key(|&run| runs[run][0]);
    let reshape = sorted.iter().map(|&run| runs[run].iter().map(|&axis| axes[axis].1).product()).collect();
    let perm = (0..runs.len()).map(|run| sorted.iter().position(|&other| other == run).unwrap_or(0) as u8);
    Devices::Iota { reshape, perm: perm.collect() }
}

/// Names and sizes of a mesh's axes; `None` where it lists devices in an order of its own.
fn mesh<'a>(file: &File<'a>, name: &str) -> Option<Vec<(&'a str, i64)>> {
    let ops: &[Op<'a>] = &file.module.regions.first()?.ops;
    let mesh = ops.iter().find(|op| op.name == "sdy.mesh" && op.symbol == Some(name))?;
    let Some(Attr::Text(text)) = mesh.attr(&["mesh"]) else { return None };
    let inside = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let axes: Option<Vec<(&str, i64)>> = inside
        .split(',')
        .map(|axis| {
            let (name, size) = axis.split_once('=')?;
            let size = size.trim().parse().ok().filter(|size| (1..1 << 20).contains(size))?;
            Some((name.trim().trim_matches('"'), size))
        })
        .collect();
    let n_devices = axes.iter().flatten().try_fold(1i64, |n, (_, size)| n.checked_mul(*size))?;
    axes.filter(|_| n_devices <= 1 << 20)
}

/// `[{"x", "y"}, {?}], …`: the axes of each dimension, and the text after them.
fn dimensions(text: &str) -> Option<(Vec<Vec<&str>>, &str)> {
    let (inside, after) = text.trim().strip_prefix('[')?.split_once(']')?;
    let mut dims = Vec::new();
    for part in inside.split('{').skip(1) {
        let axes = part.split('}').next()?.split(',').map(str::trim);
        dims.push(axes.filter(|axis| axis.starts_with('"')).map(|axis| axis.trim_matches('"')).collect());
    }
    Some((dims, after))
}
