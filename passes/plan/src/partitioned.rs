//! Programs that a partitioner has partitioned already: the text is what each device runs.
//!
//! What XLA's SPMD partitioner leaves are local shapes, collectives, and the shardings of global values on
//! the entry's parameters and root. How many devices run it follows from `num_partitions` and
//! `replica_count`, the devices that collectives name and those shardings; their mesh from how the groups
//! step through them (`partitioned/mesh.rs`).

mod mesh;

use crate::collectives::{groups, kind, message_bytes};
use mesh::mesh_of;
use phzc_cost::Cluster;
use phzc_ir::device_groups::{Devices, is_collective, listed};
use phzc_ir::{
    CompId, Diagnostic, Instr, InstrId, Key, Mesh, Module, Opcode, Result, Sharding, Span, TilingKind, View,
    counted, notes,
};
use std::collections::BTreeMap;

/// More devices than this are in no program.
const MAX_DEVICES: usize = 1 << 20;

/// How custom calls begin of programs whose values are global, at least in part.
const OF_GLOBAL_PROGRAMS: [&str; 4] =
    ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy."];

/// What is known of a partitioned program.
#[derive(Clone, Debug)]
pub struct Partitioned {
    /// The devices that run it.
    pub devices: Devices,
    /// The mesh that its groups lie on.
    pub mesh: Mesh,
    /// What shows that it is partitioned.
    shown_by: (CompId, InstrId),
}

/// Whether a program is partitioned already, and over what. phzc's own programs say so in their notes.
pub fn partitioned(module: &Module) -> Option<Partitioned> {
    let notes = [notes::SPMD, notes::MESH, notes::STAGES, notes::REPLICAS, notes::PLAN];
    if notes.iter().any(|key| module.note(key).is_some()) || has_global_values(module) {
        return None;
    }
    let devices = devices(module)?;
    let shown_by = communicates(module, devices).or_else(|| is_manual(module))?;
    Some(Partitioned { devices, mesh: mesh_of(&met(module, devices), devices.n_devices()), shown_by })
}

impl Partitioned {
    /// The warning of a pass that plans global programs: it leaves this one as it is.
    ///
    /// # Errors
    /// When the cluster is too small for it.
    pub fn left_alone(&self, module: &Module, cluster: &Cluster) -> Result<Diagnostic> {
        let idle = self.fits(module, cluster)?;
        let warning = Diagnostic::warning(format!(
            "the program is partitioned already, for {}: it is priced as it stands, and not planned",
            counted(self.devices.n_devices(), "device")
        ));
        let warning =
            idle.into_iter().fold(self.shown(module, warning), |it, idle| it.note(None, idle.message));
        Ok(warning.help("give the program as it was before XLA's partitioner, to plan it"))
    }

    /// A warning where a cluster has more devices than the program runs on.
    ///
    /// # Errors
    /// When it has fewer.
    pub fn fits(&self, module: &Module, cluster: &Cluster) -> Result<Option<Diagnostic>> {
        let (n_needed, n_there) = (self.devices.n_devices(), cluster.n_devices());
        let said = format!(
            "the program is partitioned for {}, `{}` has {n_there}",
            counted(n_needed, "device"),
            cluster.name
        );
        match n_needed.cmp(&n_there) {
            std::cmp::Ordering::Equal => Ok(None),
            std::cmp::Ordering::Less => Ok(Some(Diagnostic::warning(said + ": the others idle"))),
            std::cmp::Ordering::Greater => {
                let error = self.shown(module, Diagnostic::error(said));
                Err(error.help(format!("say `--cluster` with {n_needed} devices")))
            }
        }
    }

    /// Points at what shows that the program is partitioned.
    pub fn shown(&self, module: &Module, diagnostic: Diagnostic) -> Diagnostic {
        let (comp, id) = self.shown_by;
        let instr = module.comp(comp).instr(id);
        let what = match instr.op {
            Opcode::Parameter => format!("`{}` is manual: one device's part", instr.name),
            Opcode::PartitionId | Opcode::ReplicaId => format!("`{}` asks which device runs it", instr.name),
            _ => format!("`{}` is a collective over several devices", instr.name),
        };
        let is_placed = instr.span != Span::default();
        diagnostic.note(is_placed.then_some(instr.span), what)
    }
}

fn instrs(module: &Module) -> impl Iterator<Item = (CompId, InstrId, &Instr)> {
    let comps = (0..module.comps.len()).map(CompId::new);
    comps.flat_map(|comp| module.comp(comp).iter().map(move |(id, instr)| (comp, id, instr)))
}

/// Whether some value is global: inside, partitioned programs have no shardings but manual ones.
fn has_global_values(module: &Module) -> bool {
    let is_tiled = |instr: &Instr| {
        let tilings = instr.sharding().map(|sharding| sharding.leaves(1)).unwrap_or_default();
        tilings.iter().any(|tiling| matches!(tiling.kind, TilingKind::Tiled(_) | TilingKind::Named(_)))
    };
    instrs(module).any(|(comp, id, instr)| {
        let is_border = instr.op == Opcode::Parameter || id == module.comp(comp).root;
        let target = instr.word(Key::CustomCallTarget).unwrap_or_default();
        let is_global_call = OF_GLOBAL_PROGRAMS.iter().any(|begin| target.starts_with(begin));
        is_global_call || (!is_border && is_tiled(instr))
    })
}

/// The devices, if there are several.
fn devices(module: &Module) -> Option<Devices> {
    let number = |key: &str| module.attr(key).and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(1);
    let noted = number("num_partitions").saturating_mul(number("replica_count"));
    let entry = module.entry();
    let shardings = entry.params().into_iter().filter_map(|id| entry.instr(id).sharding());
    let n = shardings.map(n_sharded_over).max().unwrap_or(0).max(noted).max(n_named(module));
    if !(2..=MAX_DEVICES).contains(&n) {
        return None;
    }
    let flat = Devices { n_replicas: 1, n_partitions: n, first: None };
    Some(Devices::of(module, n, None).unwrap_or(flat))
}

/// One more than the largest number of a device that a collective names.
fn n_named(module: &Module) -> usize {
    let mut seen = BTreeMap::new();
    for (.., instr) in instrs(module).filter(|(.., instr)| is_collective(instr.op)) {
        let text = [Key::ReplicaGroups, Key::SourceTargetPairs]
            .map(|key| instr.attr(key).map(|it| format!("{it:?}")));
        seen.entry(text)
            .or_insert_with(|| listed(instr).into_iter().flatten().max().map_or(0, |most| most + 1));
    }
    seen.into_values().max().unwrap_or(0)
}

/// The most devices that a sharding is over; 0 where it is tiled over none.
pub fn n_sharded_over(sharding: &Sharding) -> usize {
    let tiles = sharding.leaves(1).into_iter().filter_map(|tiling| match &tiling.kind {
        TilingKind::Tiled(tiles) => tiles.n_devices(),
        _ => None,
    });
    tiles.max().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

/// The first instruction in which devices talk, or that asks for the device.
fn communicates(module: &Module, devices: Devices) -> Option<(CompId, InstrId)> {
    let is_one = |instr: &Instr| match instr.op {
        Opcode::PartitionId | Opcode::ReplicaId => true,
        op if is_collective(op) => groups(devices, instr).iter().any(|group| group.len() > 1),
        _ => false,
    };
    instrs(module).find(|(.., instr)| is_one(instr)).map(|(comp, id, _)| (comp, id))
}

/// The entry's first parameter, if all of them are manual.
fn is_manual(module: &Module) -> Option<(CompId, InstrId)> {
    let (entry, params) = (module.entry(), module.entry().params());
    let is_manual = |id: &InstrId| {
        let sharding = entry.instr(*id).sharding();
        sharding.is_some_and(|it| it.leaves(1).iter().all(|tiling| tiling.kind == TilingKind::Manual))
    };
    params.iter().all(is_manual).then(|| Some((module.entry, *params.first()?))).flatten()
}

/// The groups of all collectives, pairs left out: those over which most bytes go first.
fn met(module: &Module, devices: Devices) -> Vec<Vec<Vec<usize>>> {
    let mut found: BTreeMap<Vec<Vec<usize>>, f64> = BTreeMap::new();
    let mut seen: BTreeMap<String, Vec<Vec<usize>>> = BTreeMap::new();
    for (comp, id, instr) in instrs(module).filter(|(.., instr)| kind(instr.op).is_some()) {
        let Some(text) = instr.attr(Key::ReplicaGroups) else { continue };
        let text = format!(
            "{text:?}{:?}{:?}",
            instr.int(Key::ChannelId).is_some(),
            instr.attr(Key::UseGlobalDeviceIds)
        );
        let own = seen.entry(text).or_insert_with(|| groups(devices, instr)).clone();
        *found.entry(own).or_default() += message_bytes(&View::new(module, comp, id));
    }
    let mut all: Vec<_> = found.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.into_iter().map(|(groups, _)| groups).collect()
}
