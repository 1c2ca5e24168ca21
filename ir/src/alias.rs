//! Which outputs reuse which parameters' buffers, by the header's `input_output_alias`.

use crate::module::{InstrId, Module};
use crate::shape::Shape;

/// An output leaf that reuses the buffer of a leaf of an entry parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aliased {
    /// Leaf of the entry's result.
    pub output: usize,
    /// The parameter.
    pub param: InstrId,
    /// Its leaf.
    pub leaf: usize,
}

/// The header's `input_output_alias={ {0}: (1, {}, may-alias), … }`, as leaves.
pub fn aliased(module: &Module) -> Vec<Aliased> {
    let (params, root) = (module.entry().params(), &module.entry().root().shape);
    let starts = root.part_starts();
    let text = module.attr("input_output_alias").unwrap_or_default();
    let pair = |piece: &str| {
        let (output, rest) = piece.split_once("}:")?;
        let (number, rest) = rest.trim_start().strip_prefix('(')?.split_once(',')?;
        let index = rest.split_once('{')?.1.split_once('}')?.0;
        let param = *params.get(number.trim().parse::<usize>().ok()?)?;
        let shape = &module.entry().instr(param).shape;
        let leaf = leaf_at(shape, &shape.part_starts(), index)?;
        Some(Aliased { output: leaf_at(root, &starts, output.rsplit_once('{')?.1)?, param, leaf })
    };
    text.split(')').filter_map(pair).collect()
}

/// The leaf at a tuple index such as `1, 0`, given where the shape's parts start.
fn leaf_at(shape: &Shape, starts: &[usize], index: &str) -> Option<usize> {
    let parts = index.split(',').map(str::trim).filter(|part| !part.is_empty());
    let index: Vec<usize> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (leaf, found) = shape.leaf_at(starts, &index)?;
    Some(leaf).filter(|_| !matches!(found, Shape::Tuple(_)))
}
