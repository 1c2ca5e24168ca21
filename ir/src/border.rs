//! Borders of regions of one device's part (`shard_map`): which values go in and out, and how they lie there.

use crate::annotations::{is_border, n_devices as n_sharded_over};
use crate::attr::{Key, Value};
use crate::device_groups::{is_collective, listed};
use crate::module::{Instr, InstrId, Module};
use crate::sharding::{Sharding, Tiling};
use crate::shardy;
use crate::view::View;

/// More devices than this are in no program.
const MAX_DEVICES: usize = 1 << 20;

/// How a value lies at a border.
#[derive(Clone, Debug)]
pub struct Lying {
    /// Tiles and devices.
    pub sharding: Sharding,
    /// Dimensions that the partitioner may split further.
    pub open: Vec<usize>,
}

impl Lying {
    /// Of the one value.
    pub fn tiling(&self) -> Tiling {
        self.sharding.all().first().cloned().unwrap_or_else(Tiling::replicated)
    }
}

/// Whether a border is one into a region.
pub fn goes_in(instr: &Instr) -> bool {
    let target = instr.word(Key::CustomCallTarget).unwrap_or_default();
    is_border(instr) && matches!(target, "SPMDFullToShardShape" | "xla.sdy.GlobalToLocalShape")
}

/// How the operands of a border lie in the whole arrays: Shardy says it at the border, GSPMD of what goes in
/// before. `None` where the text does not say it, or says what HLO cannot.
pub fn lying(module: &Module, view: &View) -> Option<Vec<Lying>> {
    let instr = view.instr;
    let note = if goes_in(instr) { "xla.sdy.in_shardings" } else { "xla.sdy.out_shardings" };
    if instr.note(note).is_some() {
        let rank = |id: &InstrId| view.instrs[id.index()].shape.as_array().map_or(0, |it| it.dims.len());
        let ranks: Vec<usize> = instr.operands.iter().map(rank).collect();
        let all = shardy::per_value(module, instr, note, &ranks)?;
        return Some(all.into_iter().map(|it| Lying { sharding: it.sharding, open: it.open }).collect());
    }
    let said = if goes_in(instr) { &view.instrs[instr.operands.first()?.index()] } else { instr };
    match said.sharding() {
        Some(sharding) => Some(vec![Lying { sharding: sharding.clone(), open: open(said) }]),
        None if goes_in(instr) => {
            Some(vec![Lying { sharding: Sharding::Single(Tiling::replicated()), open: Vec::new() }])
        }
        None => None,
    }
}

/// GSPMD's `backend_config="unspecified_dims=[0,1]"`.
fn open(instr: &Instr) -> Vec<usize> {
    let Some(Value::Raw(config)) = instr.attr(Key::BackendConfig) else { return Vec::new() };
    let list = config.split_once("unspecified_dims=[").and_then(|(_, rest)| rest.split_once(']'));
    let dims = list.map_or("", |(dims, _)| dims).split(',');
    dims.filter_map(|dim| dim.trim().parse().ok()).collect()
}

/// Whether some of a program is one device's part, and some is not.
pub fn has_regions(module: &Module) -> bool {
    module.comps.iter().flat_map(|comp| &comp.instrs).any(is_border)
}

/// The devices of a program's regions: those of its meshes and tiles, those that the header counts, those
/// that collectives name. One where all is whole and nothing communicates.
pub fn n_devices(module: &Module) -> usize {
    let of_meshes = shardy::noted_meshes(module).into_iter().map(|mesh| mesh.n_devices() as usize);
    let of_tiles = n_sharded_over(module).map(|n| n as usize);
    let counted = module.attr("num_partitions").and_then(|text| text.trim().parse().ok());
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| is_collective(it.op));
    let named = instrs.flat_map(|it| listed(it).into_iter().flatten()).map(|device| device + 1);
    let all = of_meshes.chain(of_tiles).chain(counted).chain(named);
    all.filter(|n| *n <= MAX_DEVICES).fold(1, usize::max)
}
