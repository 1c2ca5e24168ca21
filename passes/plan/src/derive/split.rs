//! Which loop each mesh axis splits, read off a layout: an axis on a dimension splits its major-most factors.

use phzc_ir::{FactorId, Layout, MAX_AXES, Mesh, Rule, TensorMap};

/// What a mesh axis does to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nothing: every device along it holds the same.
    Whole,
    /// It splits a loop.
    Loop(FactorId),
    /// It splits a dimension in a way that is no split of a loop: its size does not fit the factors.
    Misfit,
}

/// Per axis what it does to a tensor with the factors `map`.
///
/// A dimension with factors `[f1 f2]` is covered from `f1` on; `f2` may be split only when `f1` is covered.
pub fn splits(layout: Layout, map: &TensorMap, rule: &Rule, mesh: &Mesh) -> [Split; MAX_AXES] {
    let mut splits = [Split::Whole; MAX_AXES];
    for (dim, factors) in map.iter().enumerate() {
        let mut factors =
            factors.iter().map(|&id| (id, rule.factors[id as usize].size)).filter(|&(_, size)| size > 1);
        let mut open = factors.next();
        for axis in layout.axes_of(dim).filter(|&axis| axis < mesh.n_axes()) {
            let size = mesh.sizes[axis];
            splits[axis] = match open {
                Some((id, rest)) if rest % size == 0 => {
                    open = if rest == size { factors.next() } else { Some((id, rest / size)) };
                    Split::Loop(id)
                }
                // A lone factor may be split unevenly: the layout itself was judged before.
                Some((id, _)) if map[dim].len() == 1 => Split::Loop(id),
                _ => Split::Misfit,
            };
        }
    }
    splits
}
