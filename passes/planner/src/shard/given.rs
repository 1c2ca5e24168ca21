//! Layouts that came with the program, on the meshes where they can be read.

use super::pinned::Pinned;
use super::pins;
use indexmap::IndexMap;
use phzc_analysis::graph::Graph;
use phzc_ir::annotations::{is_border, is_manual, is_unknown, open_dims};
use phzc_ir::sharding::{Devices, LastDims};
use phzc_ir::{
    Diagnostic, Instr, Key, Layout, MAX_AXES, Mesh, Module, Result, Shape, Sharding, Tiles, Tiling,
    TilingKind, counted, notes,
};
use phzc_plan::derive::planned_comps;

/// Per computation and instruction, the layouts of its leaves.
type Layouts = Vec<Vec<Option<Vec<Pinned>>>>;

/// Layouts that the program has, and the meshes on which they can be read.
pub(super) struct Given {
    pub(super) meshes: Vec<Mesh>,
    /// Per mesh.
    layouts: Vec<Layouts>,
}

impl Given {
    pub(super) fn read(module: &Module, meshes: &[Mesh], n_devices: i64) -> Result<Given> {
        refuse_regions(module)?;
        let mut given = Given { meshes: Vec::new(), layouts: Vec::new() };
        let mut candidates = meshes.to_vec();
        if let Some(noted) = module.note(notes::MESH) {
            candidates.insert(0, Mesh::parse(&noted)?);
        } else if has_shardings(module) {
            candidates.extend(finer_meshes(n_devices));
        }
        let mut failure = None;
        for mesh in candidates {
            match read_layouts(module, &mesh) {
                Ok(layouts) if !given.meshes.contains(&mesh) => {
                    given.meshes.push(mesh);
                    given.layouts.push(layouts);
                    if has_shardings(module) {
                        break;
                    }
                }
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if given.meshes.is_empty() => Err(error),
            _ => Ok(given),
        }
    }

    /// Keeps the meshes on which the pins can be; what they fix there.
    pub(super) fn pin(&mut self, module: &Module, pins: &[pins::Pin]) -> Result<Vec<pins::Fixed>> {
        let resolved: Vec<_> = self.meshes.iter().map(|mesh| pins::resolve(pins, module, mesh)).collect();
        let is_open: Vec<bool> = resolved.iter().map(Result::is_ok).collect();
        let (mut meshes, mut layouts) = (is_open.iter(), is_open.iter());
        self.meshes.retain(|_| meshes.next() == Some(&true));
        self.layouts.retain(|_| layouts.next() == Some(&true));
        // Pins mean the same on all meshes left; the last one has the most axes to explain a refusal with.
        let none = || Err(Diagnostic::error("no mesh is possible"));
        resolved
            .into_iter()
            .reduce(|first, next| if first.is_ok() { first } else { next })
            .unwrap_or_else(none)
    }

    /// Marks what is given in a program: [`PIN`], or which dimensions a sharding of its own leaves open.
    pub(super) fn mark(&self, module: &mut Module, fixed: &[pins::Fixed]) {
        for it in fixed {
            module.comps[it.comp.index()].instrs[it.instr.index()].set_note(notes::GIVEN, PIN);
        }
        for (comp, layouts) in module.comps.iter_mut().zip(&self.layouts[0]) {
            for (instr, layouts) in comp.instrs.iter_mut().zip(layouts) {
                let Some(given) = layouts else { continue };
                let open = given.first().map_or(0, |given| given.open);
                let note = if open == 0 { CLOSED.to_owned() } else { format!("{OPEN}{open:x}") };
                instr.set_note(notes::GIVEN, &note);
            }
        }
    }

    pub(super) fn pinned(&self, mesh: usize, graph: &Graph) -> Vec<Option<Pinned>> {
        let of = |tensor: &phzc_analysis::graph::Tensor| {
            let (comp, instr, leaf) = tensor.home;
            self.layouts[mesh][comp.index()][instr.index()].as_ref()?.get(leaf as usize).copied()
        };
        graph.tensors.iter().map(of).collect()
    }
}

/// The note of what a pin gives.
pub const PIN: &str = "pin";
/// The note of what a sharding of the program's own gives.
const CLOSED: &str = "1";
/// The same where it leaves dimensions open, with the set of these in hexadecimal.
const OPEN: &str = "open:";

/// Given layouts as a planned text has them, per tensor.
pub(super) struct Reread {
    /// Those of the program's own shardings.
    pub own: Vec<Option<Pinned>>,
    /// These and those of pins.
    pub all: Vec<Option<Pinned>>,
    /// Whether the program has shardings of its own: they can be read on one mesh only.
    pub has_own: bool,
}

impl Reread {
    /// Whether a mesh has the axes of all layouts, and these split into equal parts on it.
    pub(super) fn fits(&self, graph: &Graph, mesh: &Mesh) -> bool {
        let mut given = graph.tensors.iter().zip(&self.all).filter_map(|(tensor, it)| Some((tensor, (*it)?)));
        given.all(|(tensor, given)| {
            let dims = &tensor.dims;
            let has_axes = (mesh.n_axes()..MAX_AXES).all(|axis| given.layout.dim_of(axis).is_none());
            has_axes && (0..dims.len()).all(|dim| dims[dim] % given.layout.tiles(dim, mesh) == 0)
        })
    }
}

/// Reads again what was given: where the program has [`notes::GIVEN`], what the text says on its mesh.
///
/// # Errors
/// A sharding that the mesh does not express.
pub(super) fn reread(sharded: &Module, program: &Module, graph: &Graph, mesh: &Mesh) -> Result<Reread> {
    let mut text = program.clone();
    for (comp, planned) in text.comps.iter_mut().zip(&sharded.comps) {
        let named: IndexMap<&str, &Instr> =
            planned.instrs.iter().map(|instr| (&*instr.name, instr)).collect();
        for instr in &mut comp.instrs {
            instr.attrs.retain(|attr| attr.key != Key::Sharding);
            let given = instr.note(notes::GIVEN).and_then(|_| named.get(&*instr.name));
            let sharding = given.and_then(|it| it.attrs.iter().find(|attr| attr.key == Key::Sharding));
            instr.attrs.extend(sharding.cloned());
        }
    }
    let layouts = Given { meshes: vec![mesh.clone()], layouts: vec![read_layouts(&text, mesh)?] };
    let mut all = layouts.pinned(0, graph);
    let mut own = all.clone();
    for ((tensor, all), own) in graph.tensors.iter().zip(&mut all).zip(&mut own) {
        let (comp, instr, _) = tensor.home;
        let note = text.comp(comp).instr(instr).note(notes::GIVEN).unwrap_or(PIN);
        if note == PIN {
            *own = None;
            continue;
        }
        let open = note.strip_prefix(OPEN).and_then(|open| u32::from_str_radix(open, 16).ok()).unwrap_or(0);
        *all = all.map(|given| given.reopened(open));
        *own = *all;
    }
    let has_own = own.iter().any(Option::is_some);
    Ok(Reread { own, all, has_own })
}

/// The first mesh on which a program's own shardings can be read, and what they give each tensor.
///
/// # Errors
/// At a sharding that no mesh expresses.
pub fn given_layouts(module: &Module, graph: &Graph, n_devices: i64) -> Result<(Mesh, Vec<Option<Layout>>)> {
    let given = Given::read(module, &super::meshes(n_devices), n_devices)?;
    let pinned = given.pinned(0, graph).into_iter().map(|pinned| Some(pinned?.layout)).collect();
    Ok((given.meshes[0].clone(), pinned))
}

fn has_shardings(module: &Module) -> bool {
    let mut shardings = module.comps.iter().flat_map(|comp| &comp.instrs).filter_map(Instr::sharding);
    shardings.any(|sharding| !is_unknown(sharding))
}

/// What to do about a region that is one device's part.
const REGION_HELP: &str = "plan the program without its `shard_map`, or run `unmap` first: it writes regions as \
                           the whole arrays that they compute";

/// Errors at the border of a region that is one device's part already: nothing around it says how it lies.
fn refuse_regions(module: &Module) -> Result<()> {
    let instrs = planned_comps(module).into_iter().flat_map(|comp| &module.comp(comp).instrs);
    let Some(border) = instrs.into_iter().find(|instr| is_border(instr)) else { return Ok(()) };
    let message = format!(
        "`{}` is the border of one device's part (`shard_map`), which no plan can change",
        border.name
    );
    Err(Diagnostic::error(message).at(border.span).help(REGION_HELP))
}

/// The layouts of every sharding in the module, or an error at the first that `mesh` cannot express.
fn read_layouts(module: &Module, mesh: &Mesh) -> Result<Layouts> {
    let (planned, mut reader) = (planned_comps(module), Reader { mesh, seen: Vec::new() });
    let mut layouts: Layouts = module.comps.iter().map(|comp| vec![None; comp.instrs.len()]).collect();
    for comp in planned {
        for (id, instr) in module.comp(comp).iter() {
            let Some(sharding) = instr.sharding() else { continue };
            if is_unknown(sharding) {
                continue;
            }
            let leaves = instr.shape.leaves();
            let read = sharding.leaves(leaves.len()).into_iter().zip(&leaves);
            let open = open_dims(instr);
            let read = read
                .map(|(tiling, leaf)| Ok(Pinned::leaving(reader.read(tiling, leaf)?, open.iter().copied())));
            let read: Result<Vec<Pinned>> = read.collect();
            layouts[comp.index()][id.index()] = Some(read.map_err(|error| error.at(instr.span))?);
        }
    }
    Ok(layouts)
}

/// Reads tilings; programs have few different ones, so those seen are kept.
struct Reader<'m> {
    mesh: &'m Mesh,
    seen: Vec<(&'m TilingKind, usize, Option<Layout>)>,
}

impl<'m> Reader<'m> {
    /// The layout of one array.
    ///
    /// # Errors
    /// The mesh cannot express it, or it splits a dimension into unequal parts.
    fn read(&mut self, tiling: &'m Tiling, leaf: &Shape) -> Result<Layout> {
        let (mesh, dims) = (self.mesh, leaf.as_array().map(|array| array.dims.clone()).unwrap_or_default());
        let layout = self.layout(tiling, dims.len()).ok_or_else(|| unreadable(tiling, mesh))?;
        match (0..dims.len()).find(|&dim| dims[dim] % layout.tiles(dim, mesh) != 0) {
            None => Ok(layout),
            Some(dim) => {
                let (size, tiles) = (dims[dim], layout.tiles(dim, mesh));
                let message =
                    format!("`{tiling}` splits dimension {dim}, of size {size}, into {tiles} parts");
                let help = "pad the dimension to a multiple, or drop the sharding: `--ignore-shardings=NAME`";
                Err(Diagnostic::error(message).help(help))
            }
        }
    }

    fn layout(&mut self, tiling: &'m Tiling, rank: usize) -> Option<Layout> {
        let same = |it: &&(&TilingKind, usize, Option<Layout>)| it.1 == rank && *it.0 == tiling.kind;
        if let Some((.., layout)) = self.seen.iter().find(same) {
            return *layout;
        }
        let extended = extended(tiling, self.mesh.n_devices());
        let whole = extended.as_ref().unwrap_or(tiling);
        let layout = if is_whole(tiling) { Layout::from_tiling(whole, rank, self.mesh) } else { None };
        self.seen.push((&tiling.kind, rank, layout));
        layout
    }
}

/// Whether the devices beside a tile hold copies of it, and neither parts nor summands.
fn is_whole(tiling: &Tiling) -> bool {
    match &tiling.kind {
        TilingKind::Tiled(Tiles { last: LastDims::Types(types), .. }) => {
            types.iter().all(|it| &**it == "replicated")
        }
        _ => true,
    }
}

/// A tiling over a divisor of the devices, on all of them: groups of as many devices hold copies.
fn extended(tiling: &Tiling, n_devices: i64) -> Option<Tiling> {
    let TilingKind::Tiled(tiles) = &tiling.kind else { return None };
    let n_given = tiles.n_devices()?;
    if n_given >= n_devices || n_devices % n_given != 0 || matches!(tiles.last, LastDims::Types(_)) {
        return None;
    }
    let n_groups = n_devices / n_given;
    let n_last = tiles.n_last();
    let mut dims = tiles.dims.clone();
    let n_copies = if n_last == 0 { 1 } else { dims.pop()? };
    dims.push(n_copies * n_groups);
    let ids = tiles.device_ids();
    // Which of the devices they are does not matter, for all are equal, if they lie side by side.
    let (first, last) = (ids.iter().copied().min()?, ids.iter().copied().max()?);
    if last - first + 1 != n_given {
        return None;
    }
    let copies = |ids: &[i64]| -> Vec<i64> {
        (0..n_groups).flat_map(|group| ids.iter().map(move |id| group * n_given + id - first)).collect()
    };
    let ids = ids.chunks(n_copies as usize).flat_map(copies).collect();
    let tiles = Tiles { dims, devices: Devices::List(ids), last: LastDims::Replicate };
    Some(Tiling { kind: TilingKind::Tiled(tiles), suffix: tiling.suffix.clone() })
}

/// Why a sharding is no layout, and what to do about it.
fn unreadable(tiling: &Tiling, mesh: &Mesh) -> Diagnostic {
    let there = counted(mesh.n_devices() as usize, "device");
    let drop = "drop it with `--ignore-shardings=NAME`";
    let (why, help) = match &tiling.kind {
        _ if is_manual(&Sharding::Single(tiling.clone())) => {
            ("is one device's part, which no plan can change".to_owned(), REGION_HELP.to_owned())
        }
        TilingKind::Tiled(tiles) if tiles.n_devices().is_some_and(|n| mesh.n_devices() % n.max(1) == 0) => (
            "is no layout on a mesh of up to four axes in the order of the devices".to_owned(),
            format!("number the devices in the order of the mesh, or {drop}"),
        ),
        TilingKind::Tiled(_) => (
            format!("is no layout on a cluster of {there}"),
            format!("plan for a multiple of the devices that the program was sharded for, or {drop}"),
        ),
        _ => ("is no layout that a plan can keep".to_owned(), drop.to_owned()),
    };
    Diagnostic::error(format!("`{tiling}` {why}")).help(help)
}

/// Meshes with three and four axes, on which more given shardings can be read.
pub(super) fn finer_meshes(n: i64) -> Vec<Mesh> {
    let divisors = |n: i64| (2..n).filter(move |size| n % size == 0);
    let three: Vec<[i64; 3]> =
        divisors(n).flat_map(|a| divisors(n / a).map(move |b| [a, b, n / a / b])).collect();
    let four =
        three.iter().flat_map(|&[a, b, rest]| divisors(rest).map(move |c| Mesh::new(&[a, b, c, rest / c])));
    three.iter().map(|sizes| Mesh::new(sizes)).chain(four).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    fn tiling(text: &str) -> Tiling {
        phzc_ir::text::sharding(text).expect("legal").all()[0].clone()
    }

    #[test]
    fn a_tiling_over_fewer_devices_is_copied_to_the_others() {
        let mesh = Mesh::new(&[2, 2, 2]);
        let on = |text: &str| Layout::from_tiling(&extended(&tiling(text), 8).expect("fewer"), 1, &mesh);
        assert_eq!(on("{devices=[4]<=[4]}"), Some(Layout::REPLICATED.with(1, Some(0)).with(2, Some(0))));
        assert_eq!(
            on("{devices=[2,2]<=[4] last_tile_dim_replicate}"),
            Some(Layout::REPLICATED.with(1, Some(0)))
        );
        assert_eq!(on("{devices=[2]6,7}"), Some(Layout::REPLICATED.with(2, Some(0))));
        for other in ["{devices=[8]<=[8]}", "{devices=[3]<=[3]}", "{devices=[2]0,4}", "{replicated}"] {
            assert_eq!(extended(&tiling(other), 8), None, "{other}");
        }
    }

    #[test]
    fn finer_meshes_have_three_and_four_axes() {
        let of = |n| finer_meshes(n).iter().map(|mesh| mesh.sizes.to_vec()).collect::<Vec<_>>();
        assert_eq!(of(8), [[2, 2, 2]]);
        assert_eq!(of(16).len(), 4);
        assert_eq!(of(16)[3], [2, 2, 2, 2]);
    }

    /// What a plan on eight devices says of `x`, or why there is none.
    fn planned(sharding: &str) -> String {
        let program = format!(
            "ENTRY e {{ x = f32[64,36] parameter(0), sharding={sharding} ROOT y = f32[64,36] tanh(x) }}"
        );
        let out = check("shard", &program);
        let line = out.lines().find(|line| line.trim_start().starts_with("x ="));
        let kept = line.and_then(|line| line.split_once("sharding={")).and_then(|(_, it)| it.split_once('}'));
        kept.map_or(out.clone(), |(kept, _)| kept.to_owned())
    }

    #[test]
    fn what_is_given_is_kept_or_refused_with_a_remedy() {
        assert_eq!(planned("{devices=[4,1]<=[4]}"), "devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate");
        let said = planned("{devices=[1,8]<=[8]}");
        assert!(said.contains("splits dimension 1, of size 36, into 8 parts"), "{said}");
        let said = planned("{devices=[8,1]1,0,2,3,4,5,6,7}");
        assert!(
            said.contains("in the order of the devices") && said.contains("--ignore-shardings"),
            "{said}"
        );
        let said = planned("{manual}");
        assert!(said.contains("one device's part") && said.contains("shard_map"), "{said}");
        let said = planned("{devices=[2,1,4]<=[8] last_tile_dims={manual}}");
        assert!(said.contains("one device's part"), "{said}");
        let said = planned("{devices=[16,1]<=[16]}");
        assert!(said.contains("a multiple of the devices"), "{said}");
        assert!(planned("{maximal device=1}").contains("no layout that a plan can keep"));
    }

    #[test]
    fn an_open_dimension_stays_split_and_a_closed_one_is_gathered() {
        let program = |config: &str| {
            format!(
                "ENTRY e {{
                  x = f32[64,64] parameter(0), sharding={{devices=[2,4]<=[8]}}
                  y = f32[64,64] tanh(x)
                  c = f32[64,64] custom-call(y), custom_call_target=\"Sharding\", \
                    sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}{config}
                  ROOT z = f32[64,64] negate(c), sharding={{devices=[2,4]<=[8]}}
                }}"
            )
        };
        let gathers = |config: &str| {
            let out = check("shard", &program(config));
            let c = out.lines().find(|line| line.trim_start().starts_with("c =")).unwrap_or(&out).to_owned();
            !c.contains("devices=[2,4]")
        };
        assert_eq!([gathers(""), gathers(", backend_config=\"unspecified_dims=[1]\"")], [true, false]);
    }
}
