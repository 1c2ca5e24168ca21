//! Elements that change tiles in `slice` and `pad` as GSPMD partitions them: every device gets the edges of
//! its neighbours that its tile of the result needs, by one permute per neighbour.

use super::Step;
use super::read::local_bytes;
use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::{ArrayShape, Instr, Key, Layout, Mesh, Opcode, Value};

/// Whether an op moves elements between tiles of equal layout.
pub fn is_shift(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Slice | Opcode::Pad)
}

/// The permutes of an op that reads an array, in the same layout as its result.
pub fn shifts(instr: &Instr, operand: &ArrayShape, layout: Layout, mesh: &Mesh) -> Vec<Step> {
    let Some(result) = instr.shape.as_array() else { return Vec::new() };
    let mut found = Vec::new();
    for (dim, (&size, &made)) in operand.dims.iter().zip(&result.dims).enumerate() {
        let n_tiles = layout.tiles(dim, mesh);
        let Some((start, stride)) = mapping(instr, dim).filter(|_| n_tiles > 1) else { continue };
        let own = size / n_tiles;
        let tile = Tile { n_tiles, own, made: made / n_tiles, start, stride };
        let axes: AxisMask = layout.axes_of(dim).fold(0, |mask, axis| mask | 1 << axis);
        let bytes = local_bytes(operand, layout, mesh);
        let step = |n: i64| Step {
            kind: Collective::Permute,
            axes,
            dtype: operand.dtype,
            bytes: bytes * n as f64 / own as f64,
            is_implicit: false,
        };
        found.extend([tile.low(), tile.high()].into_iter().flat_map(|n| parts(n, own)).map(step));
    }
    found
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
    /// The most elements that a tile needs of those before it.
    fn low(&self) -> i64 {
        let lacks = |tile: i64| tile * self.own - (self.start + self.stride * tile * self.made);
        (1..self.n_tiles).map(lacks).max().unwrap_or(0)
    }

    /// The most elements that a tile needs of those behind it.
    fn high(&self) -> i64 {
        let end = |tile: i64| self.start + self.stride * ((tile + 1) * self.made - 1) + 1;
        (0..self.n_tiles - 1).map(|tile| end(tile) - (tile + 1) * self.own).max().unwrap_or(0)
    }
}

/// So many elements as whole tiles of neighbours, and the rest of the furthest.
fn parts(n: i64, own: i64) -> impl Iterator<Item = i64> {
    let n = n.max(0);
    (0..n / own).map(move |_| own).chain(Some(n % own).filter(|&rest| rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the permutes of an op on an array of 16 floats in tiles of `16 / n`.
    fn moved(op: &str, n: i64) -> Vec<f64> {
        let text = format!("e {{ x = f32[16] parameter(0) z = f32[] constant(0) ROOT y = {op} }}");
        let module = phzc_ir::parse(&text).expect("legal");
        let operand = module.entry().instrs[0].shape.as_array().expect("an array").clone();
        let layout = Layout::REPLICATED.with(0, Some(0));
        let steps = shifts(module.entry().root(), &operand, layout, &Mesh::new(&[n]));
        steps.iter().map(|step| step.bytes).collect()
    }

    #[test]
    fn neighbours_send_what_the_other_half_needs() {
        assert_eq!(moved("f32[8] slice(x), slice={[0:8]}", 2), [16.0]);
        assert_eq!(moved("f32[8] slice(x), slice={[8:16]}", 2), [16.0]);
        assert_eq!(moved("f32[8] slice(x), slice={[0:16:2]}", 2), [0.0; 0]);
        assert_eq!(moved("f32[32] pad(x, z), padding=0_16", 2), [32.0]);
        assert_eq!(moved("f32[32] pad(x, z), padding=16_0", 2), [32.0]);
    }

    #[test]
    fn what_lies_further_away_comes_in_whole_tiles() {
        // Four tiles of four: the last of the two that are made needs elements six places before its own.
        assert_eq!(moved("f32[8] slice(x), slice={[0:8]}", 4), [16.0, 8.0]);
    }
}
