//! Elements that change tiles in `slice` and `pad` as GSPMD partitions them: every device gets the edges of
//! its neighbours that its tile of the result needs, by one permute per neighbour.

use super::Step;
use super::read::local_bytes;
use crate::pricing::{AxisMask, axes_of};
use phzc_cost::Collective;
use phzc_ir::{ArrayShape, Instr, Key, Layout, Mesh, Opcode, Value};

/// Whether an op moves elements between tiles of equal layout.
pub fn is_shift(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Slice | Opcode::Pad)
}

/// The collectives of an op that reads an array in one layout and makes its result in another; none where
/// they differ in more than axes whose tiles outnumber the elements that are left, which the result is then
/// without.
pub fn shifts(
    instr: &Instr,
    operand: &ArrayShape,
    (held, made): (Layout, Layout),
    mesh: &Mesh,
) -> Option<Vec<Step>> {
    let result = instr.shape.as_array()?;
    let dropped: AxisMask = (0..mesh.n_axes())
        .filter(|&axis| held.dim_of(axis) != made.dim_of(axis))
        .fold(0, |mask, axis| mask | 1 << axis);
    if !axes_of(dropped).all(|axis| made.dim_of(axis).is_none() && is_few(result, held, axis, mesh)) {
        return None;
    }
    let step = |kind, axes, bytes| Step { kind, axes, dtype: operand.dtype, bytes, is_implicit: false };
    let mut found = Vec::new();
    for (dim, (&size, &left)) in operand.dims.iter().zip(&result.dims).enumerate() {
        let n_tiles = made.tiles(dim, mesh);
        let Some((start, stride)) = mapping(instr, dim).filter(|_| n_tiles > 1) else { continue };
        let own = size / n_tiles;
        let tile = Tile { n_tiles, own, made: left / n_tiles, start, stride };
        let axes: AxisMask = made.axes_of(dim).fold(0, |mask, axis| mask | 1 << axis);
        let bytes = local_bytes(operand, held, mesh);
        let shares = tile.moved().into_iter().map(|n| bytes * n as f64 / own as f64);
        found.extend(shares.map(|bytes| step(Collective::Permute, axes, bytes)));
    }
    // One device has what is left, or nobody has all of it: zeros are added.
    if dropped != 0 {
        found.push(step(Collective::AllReduce, dropped, local_bytes(result, made, mesh)));
    }
    Some(found)
}

/// Whether an axis of a layout has more tiles along its dimension than an array has elements there.
fn is_few(array: &ArrayShape, layout: Layout, axis: usize, mesh: &Mesh) -> bool {
    layout.dim_of(axis).is_some_and(|dim| array.dims[dim] < layout.tiles(dim, mesh))
}

/// The operand's place of the first element of the result along a dimension, and the distance to the next.
fn mapping(instr: &Instr, dim: usize) -> Option<(i64, i64)> {
    match (instr.attr(Key::Slice), instr.attr(Key::Padding)) {
        (Some(Value::Slices(slices)), _) => slices.get(dim).map(|it| (it.start, it.stride)),
        (_, Some(Value::Padding(padding))) => {
            padding.get(dim).filter(|it| it.interior == 0).map(|it| (-it.low, 1))
        }
        _ => None,
    }
}

/// The tiles of operand and result along one dimension.
struct Tile {
    n_tiles: i64,
    own: i64,
    made: i64,
    start: i64,
    stride: i64,
}

impl Tile {
    /// The elements that each permute moves: the edges of the next tiles, or what each tile has of another
    /// where that lies further away.
    fn moved(&self) -> Vec<i64> {
        let edges = [self.low(), self.high()];
        if edges.iter().all(|&n| n <= self.own) {
            return edges.into_iter().filter(|&n| n > 0).collect();
        }
        let tiles = || 0..self.n_tiles;
        let pairs = tiles().flat_map(|tile| tiles().map(move |source| (tile, source)));
        let shared = |(tile, source): (i64, i64)| {
            let (first, end) = (self.first(tile), self.end(tile));
            end.min((source + 1) * self.own) - first.max(source * self.own)
        };
        pairs.filter(|(tile, source)| tile != source).map(shared).filter(|&n| n > 0).collect()
    }

    /// The operand's elements that a tile of the result needs: the first, and one past the last.
    fn first(&self, tile: i64) -> i64 {
        self.start + self.stride * tile * self.made
    }

    fn end(&self, tile: i64) -> i64 {
        self.start + self.stride * ((tile + 1) * self.made - 1) + 1
    }

    /// The most elements that a tile needs of those before it.
    fn low(&self) -> i64 {
        (1..self.n_tiles).map(|tile| tile * self.own - self.first(tile)).max().unwrap_or(0)
    }

    /// The most elements that a tile needs of those behind it.
    fn high(&self) -> i64 {
        (0..self.n_tiles - 1).map(|tile| self.end(tile) - (tile + 1) * self.own).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the collectives of an op on an array of 16 floats in `n` tiles, whose result has so many too,
    /// or is whole.
    fn moved(op: &str, n: i64, is_split: bool) -> Option<Vec<f64>> {
        let text = format!("e {{ x = f32[16] parameter(0) z = f32[] constant(0) ROOT y = {op} }}");
        let module = phzc_ir::parse(&text).expect("legal");
        let operand = module.entry().instrs[0].shape.as_array().expect("an array").clone();
        let split = Layout::REPLICATED.with(0, Some(0));
        let layouts = (split, if is_split { split } else { Layout::REPLICATED });
        let steps = shifts(module.entry().root(), &operand, layouts, &Mesh::new(&[n]));
        Some(steps?.iter().map(|step| step.bytes).collect())
    }

    #[test]
    fn neighbours_send_what_the_other_half_needs() {
        assert_eq!(moved("f32[8] slice(x), slice={[0:8]}", 2, true), Some(vec![16.0]));
        assert_eq!(moved("f32[8] slice(x), slice={[8:16]}", 2, true), Some(vec![16.0]));
        assert_eq!(moved("f32[8] slice(x), slice={[0:16:2]}", 2, true), Some(vec![]));
        assert_eq!(moved("f32[32] pad(x, z), padding=0_16", 2, true), Some(vec![32.0]));
        assert_eq!(moved("f32[32] pad(x, z), padding=16_0", 2, true), Some(vec![32.0]));
    }

    #[test]
    fn what_lies_further_away_comes_tile_by_tile() {
        // Four tiles of four: three of those of two that are made lie in another tile.
        assert_eq!(moved("f32[8] slice(x), slice={[0:8]}", 4, true), Some(vec![8.0; 3]));
    }

    #[test]
    fn fewer_elements_than_tiles_are_summed_up() {
        assert_eq!(moved("f32[1] slice(x), slice={[3:4]}", 4, false), Some(vec![4.0]));
        assert_eq!(moved("f32[8] slice(x), slice={[0:8]}", 4, false), None);
    }
}
