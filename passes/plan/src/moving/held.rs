//! Where the parts of a parameter or an optimizer's state lie.

use super::Side;
use crate::derive::{Leaf, Nature};
use phzc_ir::{ArrayShape, Mesh};

/// Per dimension, the first element and the one behind the last.
pub(super) type Tile = Vec<[i64; 2]>;

/// A state as a plan lays it out.
#[derive(Clone)]
pub(super) struct Held {
    dims: Vec<i64>,
    pub bytes_per_element: f64,
    leaf: Leaf,
    mesh: Mesh,
    /// The first device of each replica.
    firsts: Vec<usize>,
}

impl Held {
    /// Per state of the new plan, where it was in the old one, if it was there, and where it is to be.
    pub fn pairs(old: Side, new: Side) -> Vec<(Option<Held>, Held)> {
        let (before, after) = (Held::all(old), Held::all(new));
        let known = |key: &(u32, usize), held: &Held| {
            let found = before.iter().find(|(other, it)| other == key && it.dims == held.dims);
            found.map(|(_, it)| it.clone())
        };
        after.into_iter().map(|(key, held)| (known(&key, &held), held)).collect()
    }

    /// All states, by number of the parameter and leaf.
    fn all(Side { module, facts }: Side) -> Vec<((u32, usize), Held)> {
        let entry = module.entry();
        let own = &facts.comps[module.entry.index()];
        let mut found = Vec::new();
        for id in entry.params() {
            let (instr, facts_of) = (entry.instr(id), &own[id.index()]);
            let leaves = instr.shape.leaves();
            for (at, (shape, leaf)) in leaves.iter().zip(&facts_of.leaves).enumerate() {
                let is_state = facts_of.natures.get(at) == Some(&Nature::State);
                if let Some(array) = shape.as_array().filter(|_| is_state) {
                    let key = (instr.param_number().unwrap_or(u32::MAX), at);
                    found.push((key, Held::of(array, *leaf, Side { module, facts })));
                }
            }
        }
        found
    }

    fn of(array: &ArrayShape, leaf: Leaf, Side { facts, .. }: Side) -> Held {
        let header = &facts.header;
        Held {
            dims: array.dims.to_vec(),
            bytes_per_element: array.dtype.bits() as f64 / 8.0,
            leaf,
            mesh: header.meshes[leaf.stage].clone(),
            firsts: header.each_devices(header.group(leaf.stage)).into_iter().map(|it| it[0]).collect(),
        }
    }

    /// The devices that hold it.
    pub fn devices(&self) -> impl Iterator<Item = usize> {
        self.firsts.iter().flat_map(|&first| first..first + self.mesh.n_devices() as usize)
    }

    /// The part that a device holds, if it holds one.
    pub fn tile(&self, device: usize) -> Option<Tile> {
        let own = self.firsts.iter().filter_map(|first| device.checked_sub(*first));
        let own = own.map(|own| own as i64).find(|&own| own < self.mesh.n_devices())?;
        let span = |(dim, &size): (usize, &i64)| {
            let each = (size + self.leaf.layout.tiles(dim, &self.mesh) - 1)
                / self.leaf.layout.tiles(dim, &self.mesh);
            let start = (self.leaf.layout.tile_of(own, dim, &self.mesh) * each).min(size);
            [start, (start + each).min(size)]
        };
        Some(self.dims.iter().enumerate().map(span).collect())
    }
}

/// Elements of a part.
pub(super) fn n_elements(tile: &Tile) -> f64 {
    tile.iter().map(|[start, end]| (end - start) as f64).product()
}

/// Elements that two parts share.
pub(super) fn common(a: &Tile, b: &Tile) -> f64 {
    let shared = |(a, b): (&[i64; 2], &[i64; 2])| (a[1].min(b[1]) - a[0].max(b[0])).max(0) as f64;
    a.iter().zip(b).map(shared).product()
}
