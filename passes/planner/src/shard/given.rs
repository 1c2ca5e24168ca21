//! Layouts that came with the program, on the meshes where they can be read.

use super::pins;
use phzc_analysis::graph::Graph;
use phzc_ir::{Diagnostic, Layout, Mesh, Module, Result, Sharding, TilingKind, counted, notes};
use phzc_plan::derive::planned_comps;

/// Layouts that the program has, and the meshes on which they can be read.
pub(super) struct Given {
    pub(super) meshes: Vec<Mesh>,
    /// Per mesh: per computation and instruction, the layouts of its leaves.
    layouts: Vec<Vec<Vec<Option<Vec<Layout>>>>>,
}

impl Given {
    pub(super) fn read(module: &Module, meshes: &[Mesh], n_devices: i64) -> Result<Given> {
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

    pub(super) fn pinned(&self, mesh: usize, graph: &Graph) -> Vec<Option<Layout>> {
        let of = |tensor: &phzc_analysis::graph::Tensor| {
            let (comp, instr, leaf) = tensor.home;
            self.layouts[mesh][comp.index()][instr.index()].as_ref()?.get(leaf as usize).copied()
        };
        graph.tensors.iter().map(of).collect()
    }
}

pub(super) fn has_shardings(module: &Module) -> bool {
    module.comps.iter().flat_map(|comp| &comp.instrs).any(|instr| instr.sharding().is_some())
}

/// The layouts of every sharding in the module, or an error at the first that `mesh` cannot express.
fn read_layouts(module: &Module, mesh: &Mesh) -> Result<Vec<Vec<Option<Vec<Layout>>>>> {
    let planned = planned_comps(module);
    let mut layouts: Vec<Vec<Option<Vec<Layout>>>> =
        module.comps.iter().map(|comp| vec![None; comp.instrs.len()]).collect();
    for comp in planned {
        for (id, instr) in module.comp(comp).iter() {
            let Some(sharding) = instr.sharding() else { continue };
            if is_unknown(sharding) {
                continue;
            }
            let leaves = instr.shape.leaves();
            let read = sharding.leaves(leaves.len()).into_iter().zip(&leaves).map(|(tiling, leaf)| {
                Layout::from_tiling(tiling, leaf.as_array().map_or(0, |array| array.rank()), mesh)
            });
            let read: Option<Vec<Layout>> = read.collect();
            if read.is_none() {
                let error = Diagnostic::error(format!(
                    "`{sharding}` is no layout on a cluster of {}",
                    counted(mesh.n_devices() as usize, "device")
                ));
                return Err(error.at(instr.span).help(
                    "plan for the device count that the program was sharded for, or remove its shardings",
                ));
            }
            layouts[comp.index()][id.index()] = read;
        }
    }
    Ok(layouts)
}

fn is_unknown(sharding: &Sharding) -> bool {
    matches!(sharding, Sharding::Single(tiling) if tiling.kind == TilingKind::Unknown)
}

/// Meshes with more axes, on which more given shardings can be read.
pub(super) fn finer_meshes(n: i64) -> Vec<Mesh> {
    let three = |a: i64| {
        (2..n)
            .filter(move |b| n % (a * b) == 0 && n / (a * b) > 1)
            .map(move |b| Mesh::new(&[a, b, n / (a * b)]))
    };
    (2..n).filter(|a| n % a == 0).flat_map(three).collect()
}
