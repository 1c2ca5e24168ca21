//! Layouts of the plan on the modules: each stage's devices are the partitions of its modules.
//!
//! A value of a module has the layout of the instruction of its name in the placed program. Layouts change
//! only how a module runs: what the split into microbatches has added, and changes of layout, are left to the
//! partitioner.

use phzc_ir::{Instr, Key, Mesh, Module, Shape, Sharding, Tiling, TilingKind, Value, notes};
use std::collections::BTreeMap;

/// The layouts of the placed program.
pub struct Layouts<'a> {
    /// By computation and instruction.
    shardings: BTreeMap<(&'a str, &'a str), &'a Sharding>,
    entry: &'a str,
    /// The mesh of each stage.
    meshes: &'a [Mesh],
}

impl<'a> Layouts<'a> {
    /// Those of a placed module.
    pub fn new(placed: &'a Module, meshes: &'a [Mesh]) -> Layouts<'a> {
        let of_comp = |comp: &'a phzc_ir::Computation| {
            comp.instrs.iter().filter_map(|instr| Some(((&*comp.name, &*instr.name), instr.sharding()?)))
        };
        let shardings = placed.comps.iter().flat_map(of_comp).collect();
        Layouts { shardings, entry: &placed.entry().name, meshes }
    }

    /// The devices of a stage.
    pub fn n_devices(&self, stage: usize) -> i64 {
        self.meshes.get(stage).map_or(1, Mesh::n_devices)
    }

    /// The layout of a leaf of the entry's instruction of this name.
    pub fn leaf(&self, name: &str, leaf: usize) -> Option<Tiling> {
        match self.shardings.get(&(self.entry, name))? {
            Sharding::Single(tiling) => Some(tiling.clone()),
            Sharding::Tuple(tilings) => tilings.get(leaf).cloned(),
        }
    }

    /// The same where a stage takes it from its own; whole where that has another number of devices.
    pub fn received(&self, maker: &Instr, leaf: usize, stage: usize) -> Option<Tiling> {
        let home = maker.note(notes::OF_STAGE).and_then(|stage| stage.parse().ok()).unwrap_or(stage);
        match self.n_devices(home) == self.n_devices(stage) {
            true => self.leaf(&maker.name, leaf),
            false => Some(Tiling { kind: TilingKind::Replicated, suffix: None }),
        }
    }

    /// Puts the layouts of the program's arrays on the instructions of a module that have their names.
    pub fn write(&self, module: &mut Module) {
        for comp in &mut module.comps {
            for instr in comp.instrs.iter_mut().filter(|instr| instr.sharding().is_none()) {
                if let Some(Sharding::Single(tiling)) = self.shardings.get(&(&*comp.name, &*instr.name)) {
                    set(instr, tiling.clone());
                }
            }
        }
    }
}

/// Gives an array a layout.
pub fn set(instr: &mut Instr, tiling: Tiling) {
    if matches!(instr.shape, Shape::Array(_)) {
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling))));
    }
}

/// Takes a layout away: one device has all.
pub fn remove(instr: &mut Instr) {
    instr.attrs.retain(|attr| attr.key != Key::Sharding);
}
