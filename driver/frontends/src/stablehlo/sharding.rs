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
            // An argument of which nothing is said may lie as it is read.
            Ok(meant) => Ok((meant.filter(|it| !it.is_open(rank)).map(|it| it.sharding), None)),
            Err(_) => Ok((None, Some(format!("#sdy.sharding<{}>", text.replace('"', "\\\""))))),
        },
        _ => Ok((None, None)),
    }
}

/// What Shardy's text says of an array.
pub(super) struct Meant {
    /// Tiles and devices.
    pub sharding: Sharding,
    /// Dimensions that may be split further: `{?}`.
    pub open: Vec<usize>,
}

impl Meant {
    /// Whether nothing is asked of any dimension.
    pub fn is_open(&self, rank: usize) -> bool {
        let is_whole = self.sharding == Sharding::Single(Tiling::replicated());
        is_whole && rank > 0 && self.open.len() == rank
    }
}

/// `@mesh, [{}, {"model"}]` on a mesh of the file: the tiles of each dimension and the devices that hold
/// them; nothing on a mesh without devices.
///
/// # Errors
/// Says what HLO has no counterpart for: parts of axes that do not fit together, partial values.
pub(super) fn from_shardy(
    file: &File,
    text: &str,
    rank: usize,
) -> std::result::Result<Option<Meant>, String> {
    let unknown =
        || format!("the sharding `<{}>` has no counterpart in HLO", phzc_ir::text::cursor::clip(text));
    let (name, rest) =
        text.trim().strip_prefix('@').and_then(|rest| rest.split_once(',')).ok_or_else(unknown)?;
    let mesh = mesh(file, name.trim()).ok_or_else(unknown)?;
    let (dims, after) = dimensions(rest).ok_or_else(unknown)?;
    // What follows names replicated axes, which all others are too, or partial values.
    if dims.len() != rank || after.contains("unreduced") {
        return Err(unknown());
    }
    if mesh.axes.is_empty() {
        return Ok(None);
    }
    let parts = parts(&mesh.axes, &dims).ok_or_else(unknown)?;
    let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
    let places = |dim: &Dimension| -> Option<Vec<usize>> {
        dim.axes
            .iter()
            .map(|axis| within(&mesh.axes, axis, &parts))
            .collect::<Option<Vec<_>>>()
            .map(|it| it.concat())
    };
    let places: Option<Vec<Vec<usize>>> = dims.iter().map(places).collect();
    let mut tiling = tiling(&sizes, &places.ok_or_else(unknown)?).ok_or_else(unknown)?;
    if let (TilingKind::Tiled(tiles), Some(ids)) = (&mut tiling.kind, &mesh.ids) {
        let order = tiles.device_ids().into_iter().map(|at| ids.get(at as usize).copied());
        tiles.devices = Devices::List(order.collect::<Option<_>>().ok_or_else(unknown)?);
    }
    let open = (0..rank).filter(|&dim| dims[dim].is_open).collect();
    Ok(Some(Meant { sharding: Sharding::Single(tiling), open }))
}

/// A part of an axis: `"x":(2)4` is the four steps of which each is a half of `x`.
struct Part {
    axis: usize,
    /// Devices of the axis' parts before it.
    before: i64,
    size: i64,
}

/// The axes, cut where the dimensions name parts of them.
fn parts(axes: &[(&str, i64)], dims: &[Dimension]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for (axis, &(name, size)) in axes.iter().enumerate() {
        let named = dims.iter().flat_map(|dim| &dim.axes).filter(|it| it.name == name);
        let mut cuts: Vec<i64> = named
            .filter_map(|it| it.part)
            .flat_map(|(before, size)| [before, before.saturating_mul(size)])
            .collect();
        cuts.extend([1, size]);
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            if pair[0] < 1 || pair[1] % pair[0] != 0 || pair[1] > size {
                return None;
            }
            parts.push(Part { axis, before: pair[0], size: pair[1] / pair[0] });
        }
        if size == 1 {
            parts.push(Part { axis, before: 1, size });
        }
    }
    Some(parts)
}

/// The parts that an axis' name, with or without a part, stands for.
fn within(axes: &[(&str, i64)], axis: &Axis, parts: &[Part]) -> Option<Vec<usize>> {
    let index = axes.iter().position(|(name, _)| *name == axis.name)?;
    let (before, size) = axis.part.unwrap_or((1, axes[index].1));
    let is_in =
        |part: &Part| part.axis == index && part.before >= before && part.before * part.size <= before * size;
    Some((0..parts.len()).filter(|&at| is_in(&parts[at])).collect())
}

/// Tiles over the axes of each dimension; axes that split nothing are replicated.
fn tiling(axes: &[i64], places: &[Vec<usize>]) -> Option<Tiling> {
    let mut order: Vec<usize> = places.concat();
    if order.iter().any(|axis| order.iter().filter(|other| *other == axis).count() > 1) {
        return None;
    }
    let size = |axis: &usize| axes[*axis];
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
fn devices(axes: &[i64], order: &[usize]) -> Devices {
    let order: Vec<usize> = order.iter().copied().filter(|&axis| axes[axis] > 1).collect();
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for axis in order {
        let goes_on = |run: &Vec<usize>| {
            let last = run[run.len() - 1];
            last < axis && axes[last + 1..axis].iter().all(|size| *size == 1)
        };
        match runs.last_mut() {
            Some(run) if goes_on(run) => run.push(axis),
            _ => runs.push(vec![axis]),
        }
    }
    let mut sorted: Vec<usize> = (0..runs.len()).collect();
    sorted.sort_by_key(|&run| runs[run][0]);
    let reshape = sorted.iter().map(|&run| runs[run].iter().map(|&axis| axes[axis]).product()).collect();
    let perm = (0..runs.len()).map(|run| sorted.iter().position(|&other| other == run).unwrap_or(0) as u8);
    Devices::Iota { reshape, perm: perm.collect() }
}

/// A mesh of the file.
struct Mesh<'a> {
    /// Names and sizes.
    axes: Vec<(&'a str, i64)>,
    /// The devices in its order, where that is one of its own.
    ids: Option<Vec<i64>>,
}

/// `["x"=2, "y"=4], device_ids=[…]` of the mesh of this name.
fn mesh<'a>(file: &File<'a>, name: &str) -> Option<Mesh<'a>> {
    let ops: &[Op<'a>] = &file.module.regions.first()?.ops;
    let mesh = ops.iter().find(|op| op.name == "sdy.mesh" && op.symbol == Some(name))?;
    let Some(Attr::Text(text)) = mesh.attr(&["mesh"]) else { return None };
    let (inside, after) = text.trim().strip_prefix('[')?.split_once(']')?;
    let axes: Option<Vec<(&str, i64)>> = inside
        .split(',')
        .filter(|axis| !axis.trim().is_empty())
        .map(|axis| {
            let (name, size) = axis.split_once('=')?;
            let size = size.trim().parse().ok().filter(|size| (1..1 << 20).contains(size))?;
            Some((name.trim().trim_matches('"'), size))
        })
        .collect();
    let n_devices = axes.iter().flatten().try_fold(1i64, |n, (_, size)| n.checked_mul(*size))?;
    let ids = match after.split_once("device_ids=[") {
        None => None,
        Some((_, list)) => {
            let ids = list.split(']').next()?.split(',').map(|id| id.trim().parse().ok());
            Some(ids.collect::<Option<Vec<i64>>>()?)
        }
    };
    axes.filter(|_| n_devices <= 1 << 20).map(|axes| Mesh { axes, ids })
}

/// What is said of one dimension.
struct Dimension<'a> {
    axes: Vec<Axis<'a>>,
    is_open: bool,
}

/// An axis, or a part of it: what is before the part, and its size.
struct Axis<'a> {
    name: &'a str,
    part: Option<(i64, i64)>,
}

/// `[{"x", "y":(2)2}, {?}p1], …`: what is said of each dimension, and the text after them. A priority says
/// in which order a partitioner propagates, which a plan does not.
fn dimensions(text: &str) -> Option<(Vec<Dimension<'_>>, &str)> {
    let (inside, after) = text.trim().strip_prefix('[')?.split_once(']')?;
    let mut dims = Vec::new();
    for part in inside.split('{').skip(1) {
        let entries: Vec<&str> = part.split('}').next()?.split(',').map(str::trim).collect();
        let named = entries.iter().filter(|entry| entry.starts_with('"'));
        let axes: Option<Vec<Axis>> = named.map(|entry| axis(entry)).collect();
        dims.push(Dimension { axes: axes?, is_open: entries.contains(&"?") });
    }
    Some((dims, after))
}

/// `"x"` or `"x":(2)4`.
fn axis(text: &str) -> Option<Axis<'_>> {
    let (name, part) = text.strip_prefix('"')?.split_once('"')?;
    if part.is_empty() {
        return Some(Axis { name, part: None });
    }
    let (before, size) = part.strip_prefix(":(")?.split_once(')')?;
    Some(Axis { name, part: Some((before.trim().parse().ok()?, size.trim().parse().ok()?)) })
}

#[cfg(test)]
mod tests {
    /// The sharding of a parameter of a program with this mesh, or the note of what HLO cannot say.
    fn read(mesh: &str, sharding: &str) -> String {
        let text = format!(
            "module @m {{ sdy.mesh @m = <{mesh}>
              func.func public @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, {sharding}>}})
                -> tensor<8x8xf32> {{
                return %a : tensor<8x8xf32> }} }}"
        );
        let module = crate::stablehlo::read(&text).expect("legal");
        let instr = &module.entry().instrs[0];
        let kept = instr.note("xla.sdy.sharding").map(|_| "kept".to_owned());
        instr.sharding().map(ToString::to_string).or(kept).unwrap_or_default()
    }

    #[test]
    fn axes_and_their_parts_are_devices() {
        let on = |sharding: &str| read("[\"x\"=2, \"y\"=4]", sharding);
        assert_eq!(on("[{\"x\"}, {\"y\"}]"), "{devices=[2,4]<=[8]}");
        assert_eq!(on("[{\"y\"}p1, {}]"), "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
        assert_eq!(on("[{\"y\":(1)2}, {}]"), "{devices=[2,1,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}");
        assert_eq!(
            on("[{\"y\":(2)2}, {\"y\":(1)2}]"),
            "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}"
        );
        assert_eq!([on("[{\"y\":(3)2}, {}]"), on("[{\"z\"}, {}]")], ["kept", "kept"]);
        assert_eq!([on("[{}, {}]"), on("[{?}, {?}]"), on("[{?}, {}]")], ["{replicated}", "", "{replicated}"]);
    }

    #[test]
    fn a_mesh_may_have_no_devices_or_an_order_of_its_own() {
        assert_eq!(read("[]", "[{}, {}]"), "");
        assert_eq!(read("[], device_ids=[0]", "[{}, {}]"), "");
        let order = "[\"x\"=2, \"y\"=2], device_ids=[0, 2, 1, 3]";
        assert_eq!(read(order, "[{\"x\"}, {\"y\"}]"), "{devices=[2,2]0,2,1,3}");
    }
}
