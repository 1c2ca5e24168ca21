//! Shardy's text of shardings, `<@mesh, [{"data"}, {?}]>`: named axes as HLO's devices.

use crate::module::{Instr, Module};
use crate::sharding::{Devices, LastDims, Sharding, Tiles, Tiling, TilingKind};
use smallvec::SmallVec;

/// The note of the program's meshes.
const MESHES: &str = "xla.sdy.meshes";

/// A mesh of named axes.
pub struct NamedMesh {
    /// Names and sizes.
    axes: Vec<(String, i64)>,
    /// The devices in its order, where that is one of its own.
    ids: Option<Vec<i64>>,
}

impl NamedMesh {
    /// `["x"=2, "y"=4], device_ids=[…]`.
    pub fn parse(text: &str) -> Option<NamedMesh> {
        let (inside, after) = text.trim().strip_prefix('[')?.split_once(']')?;
        let axes: Option<Vec<(String, i64)>> = inside
            .split(',')
            .filter(|axis| !axis.trim().is_empty())
            .map(|axis| {
                let (name, size) = axis.split_once('=')?;
                let size = size.trim().parse().ok().filter(|size| (1..1 << 20).contains(size))?;
                Some((name.trim().trim_matches('"').to_owned(), size))
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
        axes.filter(|_| n_devices <= 1 << 20).map(|axes| NamedMesh { axes, ids })
    }

    /// The mesh of this name in the header's note, `{mesh = #sdy.mesh<["x"=2]>, …}`.
    fn noted(module: &Module, name: &str) -> Option<NamedMesh> {
        let (text, wanted) = (unescaped(&module.note(MESHES)?), format!("{name} = #sdy.mesh<"));
        let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let (at, _) = text.match_indices(&wanted).find(|(at, _)| begins(*at))?;
        NamedMesh::parse(&text[at + wanted.len()..])
    }

    /// Its number of devices.
    pub fn n_devices(&self) -> i64 {
        self.axes.iter().map(|(_, size)| size).product()
    }
}

/// What Shardy's text says of an array.
pub struct Meant {
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

/// `@mesh, [{}, {"model"}]` on a mesh that is looked up by name: the tiles of each dimension and the devices
/// that hold them; nothing on a mesh without devices.
///
/// # Errors
/// Says what HLO has no counterpart for: parts of axes that do not fit together, partial values.
pub fn read(
    text: &str,
    rank: usize,
    mesh: impl Fn(&str) -> Option<NamedMesh>,
) -> std::result::Result<Option<Meant>, String> {
    let unknown =
        || format!("the sharding `<{}>` has no counterpart in HLO", crate::text::cursor::clip(text));
    let (name, rest) =
        text.trim().strip_prefix('@').and_then(|rest| rest.split_once(',')).ok_or_else(unknown)?;
    let mesh = mesh(name.trim()).ok_or_else(unknown)?;
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

/// The shardings of the values of a call, `#sdy.sharding_per_value<[<@mesh, […]>, …]>` in one of its notes;
/// `None` where one of them has no counterpart in HLO.
pub fn per_value(module: &Module, instr: &Instr, note: &str, ranks: &[usize]) -> Option<Vec<Meant>> {
    let text = unescaped(instr.note(note)?);
    let values: Vec<&str> = text.split('<').filter(|part| part.starts_with('@')).collect();
    let value = |(value, &rank): (&&str, &usize)| {
        let value = value.split('>').next().unwrap_or_default();
        read(value, rank, |name| NamedMesh::noted(module, name)).ok().flatten()
    };
    Some(values.iter().zip(ranks).map(value).collect::<Option<Vec<_>>>()?)
        .filter(|it| it.len() == ranks.len())
}

/// All meshes of the header's note.
pub fn noted_meshes(module: &Module) -> Vec<NamedMesh> {
    let text = unescaped(&module.note(MESHES).unwrap_or_default());
    text.split("#sdy.mesh<").skip(1).filter_map(NamedMesh::parse).collect()
}

/// A note's text without the escapes of its quotes.
fn unescaped(text: &str) -> String {
    text.replace("\\\"", "\"")
}

/// A part of an axis: `"x":(2)4` is the four steps of which each is a half of `x`.
struct Part {
    axis: usize,
    /// Devices of the axis' parts before it.
    before: i64,
    size: i64,
}

/// The axes, cut where the dimensions name parts of them.
fn parts(axes: &[(String, i64)], dims: &[Dimension]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for (axis, (name, size)) in axes.iter().enumerate() {
        let size = *size;
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
fn within(axes: &[(String, i64)], axis: &Axis, parts: &[Part]) -> Option<Vec<usize>> {
    let index = axes.iter().position(|(name, _)| name == axis.name)?;
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
