//! Choices on coarser meshes: two axes as one. What is chosen there can be had on the finer mesh too, so a
//! search that is cut off on many axes need not end worse than one on few.
//!
//! It costs the same there, with one exception: two axes that move from one dimension to another together are
//! one all-to-all on the coarser mesh, and several movements on the finer.

use super::menu::{Menu, PARTIAL, Strategy};
use phzc_ir::{MAX_AXES, Mesh};

/// A mesh with neighbouring axes joined into one.
pub(super) struct Coarse {
    /// The mesh.
    pub mesh: Mesh,
    /// The first of the two axes that are joined.
    joined: usize,
}

impl Coarse {
    /// The meshes of one axis less, of two at least.
    pub(super) fn of(mesh: &Mesh) -> Vec<Coarse> {
        let join = |joined: usize| {
            let mut sizes = mesh.sizes.to_vec();
            sizes[joined] *= sizes.remove(joined + 1);
            Coarse { mesh: Mesh::new(&sizes), joined }
        };
        let n_coarse = if mesh.n_axes() > 2 { mesh.n_axes() - 1 } else { 0 };
        (0..n_coarse).map(join).collect()
    }

    /// A strategy per block of this mesh as one of the finer mesh: both axes split the loop that their joint does.
    pub(super) fn refine(&self, coarse: &[Menu], option: &[u32], fine: &[Menu]) -> Option<Vec<u32>> {
        let refine = |((coarse, &option), fine): ((&Menu, &u32), &Menu)| {
            let strategy = self.strategy(&coarse.strategies[option as usize], coarse, fine);
            fine.strategies.iter().position(|other| *other == strategy).map(|position| position as u32)
        };
        coarse.iter().zip(option).zip(fine).map(refine).collect()
    }

    fn strategy(&self, strategy: &Strategy, coarse: &Menu, fine: &Menu) -> Strategy {
        let mut refined = Strategy::default();
        for (axis, choice) in refined.iter_mut().enumerate().take(MAX_AXES) {
            let from = strategy[axis - usize::from(axis > self.joined)];
            if from == PARTIAL {
                *choice = PARTIAL;
                continue;
            }
            let split = (from as usize).checked_sub(1).map(|position| coarse.loops[position]);
            let position = fine.loops.iter().position(|class| Some(*class) == split);
            *choice = position.map_or(0, |position| position as u8 + 1);
        }
        refined
    }
}
