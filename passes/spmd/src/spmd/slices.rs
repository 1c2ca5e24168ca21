//! Cutting a device's part out of a value: along dimensions, or along the factors that a dimension merges.

use super::build::Builder;
use phzc_ir::{Dims, InstrId};
use smallvec::SmallVec;

/// A part of a dimension that is cut on its own: so many elements, by the tiles along these axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Elements before.
    pub size: i64,
    /// Axes whose devices take a tile each, major to minor.
    pub axes: Vec<usize>,
}

/// Per dimension its pieces, major to minor.
pub type Pieces = Vec<SmallVec<[Piece; 2]>>;

impl Piece {
    fn local(&self, build: &Builder) -> i64 {
        self.size / self.axes.iter().map(|&axis| build.mesh.sizes[axis]).product::<i64>()
    }
}

/// A dimension that is one piece.
pub fn whole(size: i64, axes: Vec<usize>) -> SmallVec<[Piece; 2]> {
    SmallVec::from_iter([Piece { size, axes }])
}

/// The part of `value` that is this device's.
pub fn cut(build: &mut Builder, value: InstrId, pieces: &Pieces) -> InstrId {
    if pieces.iter().flatten().all(|piece| piece.axes.is_empty()) {
        return value;
    }
    let joined: Pieces = pieces.iter().map(|dim| join(build, dim)).collect();
    let flat: Vec<&Piece> = joined.iter().flatten().collect();
    let before: Dims = flat.iter().map(|piece| piece.size).collect();
    let sizes: Dims = flat.iter().map(|piece| piece.local(build)).collect();
    let merged: Dims =
        joined.iter().map(|dim| dim.iter().map(|piece| piece.local(build)).product()).collect();
    let starts: Vec<InstrId> =
        flat.iter().zip(&sizes).map(|(piece, &size)| build.offset(&piece.axes, size)).collect();
    let value = build.reshape(value, &before);
    let value = build.dynamic_slice(value, &starts, &sizes);
    build.reshape(value, &merged)
}

/// Joins pieces whose cut is one cut of the dimension: a piece is cut whole, or what follows is not cut.
fn join(build: &Builder, pieces: &[Piece]) -> SmallVec<[Piece; 2]> {
    let mut joined: SmallVec<[Piece; 2]> = SmallVec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.axes.is_empty() || last.local(build) == 1 => {
                last.size *= piece.size;
                last.axes.extend(&piece.axes);
            }
            _ => joined.push(piece.clone()),
        }
    }
    if joined.is_empty() { whole(1, Vec::new()) } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::Mesh;

    #[test]
    fn pieces_are_joined_where_one_cut_is_that_of_both() {
        let text = "ENTRY e { ROOT x = f32[8] parameter(0) }";
        let (module, mesh) = (phzc_ir::parse(text).expect("legal"), Mesh::new(&[2, 4]));
        let build = Builder::new(module.entry(), &mesh);
        let piece = |size, axes: &[usize]| Piece { size, axes: axes.to_vec() };
        let joined = |pieces: &[Piece]| join(&build, pieces).to_vec();
        // What follows is not cut.
        assert_eq!(joined(&[piece(4, &[0]), piece(3, &[])]), [piece(12, &[0])]);
        // The first is cut whole.
        assert_eq!(joined(&[piece(2, &[0]), piece(8, &[1])]), [piece(16, &[0, 1])]);
        let apart = [piece(4, &[0]), piece(8, &[1])];
        assert_eq!(joined(&apart), apart);
        assert_eq!(joined(&[]), [piece(1, &[])]);
    }
}
