//! What changes how a device sees a whole array, and not the array: reshapes, transposes, repetition, and
//! tiles that come, go and change places.

use super::axes::Axes;
use super::tile::{Dim, Kind, Part, Tile};
use super::walk::{Stop, Walk};
use phzc_ir::{DType, Instr, Key, Opcode, Shape, View};

impl<'a> Walk<'_, 'a> {
    /// The value of an op that moves elements in order, or makes equal or counted ones.
    pub fn seen(&mut self, view: &View<'a>) -> Result<Option<Tile>, Stop> {
        let Some(array) = view.instr.shape.as_array() else { return Ok(None) };
        let tile = match view.instr.op {
            Opcode::Copy => self.tile(view, 0)?,
            Opcode::Reshape => reshape(self.tile(view, 0)?, local_dims(view, 0), &array.dims)?,
            Opcode::Bitcast if is_reshape(view) => {
                reshape(self.tile(view, 0)?, local_dims(view, 0), &array.dims)?
            }
            Opcode::Transpose => transpose(self.tile(view, 0)?, view.instr.ints(Key::Dimensions)),
            Opcode::Broadcast => {
                broadcast(self.tile(view, 0)?, view.instr.ints(Key::Dimensions), &array.dims)
            }
            Opcode::Iota => self.iota(view.instr, array.dtype, &array.dims),
            Opcode::Constant => self.constant(view, array.dtype, &array.dims),
            _ => return Ok(None),
        };
        Ok(Some(tile))
    }

    /// Counts along one dimension, the same along all others.
    fn iota(&mut self, instr: &Instr, dtype: DType, dims: &[i64]) -> Tile {
        let dim = instr.int(Key::IotaDimension).unwrap_or(0) as usize;
        self.counted(dtype, dims, dim, &[], &Axes::of(&phzc_ir::Mesh::default()))
    }

    /// `0, 1, …` along `dim`, of which devices have tiles along these axes.
    pub fn counted(&mut self, dtype: DType, dims: &[i64], dim: usize, by: &[usize], axes: &Axes) -> Tile {
        let at = phzc_ir::Attr { key: Key::IotaDimension, value: phzc_ir::Value::Int(0) };
        let n = dims[dim] * axes.n_along(by);
        let base = self.build.array(Opcode::Iota, &[], (dtype, &[n]), vec![at]);
        let split = by.iter().map(|&axis| Part { size: axes.size(axis), kind: Kind::Axis(axis) });
        let own = split
            .chain([Part { size: dims[dim], kind: Kind::Whole }].into_iter().filter(|part| part.size != 1));
        broadcast(Tile::new(base, &[own.collect()]), &[dim as i64], dims)
    }

    fn constant(&mut self, view: &View, dtype: DType, dims: &[i64]) -> Tile {
        if let Some(element) = phzc_ir::ops::literal::splat(view.instr) {
            let base = self.build.array(Opcode::Constant, &[], (dtype, &[]), Vec::new());
            self.build.instrs[base.index()].payload = phzc_ir::Payload::Literal(element.into());
            return broadcast(Tile::new(base, &[]), &[], dims);
        }
        let base = self.emit(view, &[], Shape::array(dtype, dims), view.instr.attrs.clone());
        Tile::new(base, &dims.iter().map(|&size| whole(size)).collect::<Vec<_>>())
    }
}

/// A dimension of which every device has all.
pub fn whole(size: i64) -> Dim {
    if size == 1 { Vec::new() } else { vec![Part { size, kind: Kind::Whole }] }
}

/// Sizes of an operand on one device.
pub fn local_dims<'v>(view: &View<'v>, index: usize) -> &'v [i64] {
    view.operand_shape(index).and_then(Shape::as_array).map_or(&[], |array| &array.dims)
}

/// Whether a bitcast reads elements in order as the same type.
fn is_reshape(view: &View) -> bool {
    let is_plain = |shape: Option<&Shape>| {
        let layout = shape.and_then(Shape::as_array).and_then(|array| array.layout.as_ref());
        layout.is_none_or(|layout| layout.minor_to_major.is_sorted_by(|a, b| a > b))
    };
    let dtype = |shape: Option<&Shape>| shape.and_then(Shape::as_array).map(|array| array.dtype);
    let (from, to) = (view.operand_shape(0), Some(&view.instr.shape));
    is_plain(from) && is_plain(to) && dtype(from) == dtype(to)
}

fn transpose(mut tile: Tile, order: &[i64]) -> Tile {
    tile.dims = order.iter().map(|&dim| tile.dims[dim as usize].clone()).collect();
    tile
}

/// Operand dimension `d` becomes dimension `at[d]`; the others are free.
pub fn broadcast(mut tile: Tile, at: &[i64], dims: &[i64]) -> Tile {
    let old = std::mem::take(&mut tile.dims);
    for (dim, &size) in dims.iter().enumerate() {
        let source = at.iter().position(|&to| to == dim as i64);
        let own = match source {
            Some(source) => old[source].clone(),
            None if size == 1 => Vec::new(),
            None => vec![tile.add(Part { size, kind: Kind::Free })],
        };
        tile.dims.push(own);
    }
    tile
}

/// The same elements, on one device, in other dimensions.
fn reshape(mut tile: Tile, from: &[i64], to: &[i64]) -> Result<Tile, Stop> {
    if from.contains(&0) {
        tile.dims = to.iter().map(|&size| vec![tile.add(Part { size, kind: Kind::Free })]).collect();
        return Ok(tile);
    }
    let old = tile.dims.clone();
    let (mut i, mut made): (usize, Vec<Vec<usize>>) = (0, Vec::new());
    while made.len() < to.len() {
        let first = made.len();
        let (mut a, mut b, mut n) = (from.get(i).copied().unwrap_or(1), to[first], 1);
        let mut ids = old.get(i).cloned().unwrap_or_default();
        i += 1;
        while a != b {
            if a < b {
                ids.extend(&old[i]);
                a *= from[i];
                i += 1;
            } else {
                b *= to[first + n];
                n += 1;
            }
        }
        distribute(&mut tile, ids, &to[first..first + n], &mut made)?;
    }
    let left: Vec<usize> = old[i.min(old.len())..].iter().flatten().copied().collect();
    // Without a dimension, axes are hidden: a reader's dimensions may have them.
    if let Some(last) = made.last_mut() {
        last.extend(left);
    }
    tile.dims = made;
    Ok(tile)
}

/// Gives each of some dimensions its parts, an axis to the dimension of the part that follows it.
fn distribute(
    tile: &mut Tile,
    mut ids: Vec<usize>,
    sizes: &[i64],
    made: &mut Vec<Vec<usize>>,
) -> Result<(), Stop> {
    let first = made.len();
    // The parts of `ids` that are cut are known by the tile alone: it is asked for their other halves.
    for &size in sizes {
        let (mut own, mut missing) = (Vec::new(), size);
        while missing > 1 {
            let id = ids.remove(0);
            let local = tile.parts[id].local();
            if missing % local == 0 {
                missing /= local;
            } else if local % missing == 0 {
                let rest = tile.halve(id, missing);
                ids.insert(0, rest);
                missing = 1;
            } else {
                return Err(Stop::Cause("cuts dimensions other than at their parts".to_owned()));
            }
            own.push(id);
        }
        made.push(own);
    }
    let last = sizes.iter().rposition(|&size| size > 1).unwrap_or(0);
    made[first + last].extend(ids);
    Ok(())
}

/// Each device gets its tile of a dimension, the tiles being along these axes.
pub fn cut(tile: &mut Tile, dim: usize, by: &[usize], axes: &Axes) -> Result<(), Stop> {
    let no = |why: &str| Err(Stop::Cause(why.to_owned()));
    if by.iter().any(|&axis| tile.is_split_by(axis) || tile.partial.contains_key(&axis)) {
        return no("takes a tile of what devices have tiles or shares of");
    }
    for &axis in by {
        let size = axes.size(axis);
        let Some(id) = tile.dims[dim].iter().copied().find(|&id| tile.parts[id].axis().is_none()) else {
            return no("takes a tile of nothing");
        };
        if tile.parts[id].size % size != 0 {
            return no("takes tiles across parts of a dimension");
        }
        if tile.parts[id].size != size {
            tile.halve(id, size);
        }
        match tile.parts[id].is_free() {
            true => tile.dims[dim].retain(|&other| other != id),
            false => tile.parts[id] = Part { size, kind: Kind::Axis(axis) },
        }
    }
    Ok(())
}

/// Every device gets all tiles along these axes; they become the major parts of a dimension.
pub fn gather(tile: &mut Tile, dim: usize, by: &[usize], axes: &Axes) -> Result<(), Stop> {
    let mut ids = Vec::new();
    for &axis in by {
        match tile.parts.iter().position(|part| part.axis() == Some(axis)) {
            Some(id) => ids.push(id),
            None => return Err(ungathered(&tile.dim(dim), by, axes)),
        }
    }
    let own = &tile.dims[dim];
    let lead: Vec<usize> = own.iter().copied().take_while(|&id| tile.parts[id].axis().is_some()).collect();
    let led: Vec<usize> = lead.iter().copied().filter(|id| ids.contains(id)).collect();
    if led != ids {
        tile.dims.iter_mut().for_each(|dim| dim.retain(|id| !ids.contains(id)));
        tile.dims[dim].splice(0..0, ids.iter().copied());
    }
    ids.into_iter().for_each(|id| tile.parts[id].kind = Kind::Whole);
    Ok(())
}

/// Why tiles cannot be gathered: there are none, as far as is known.
pub fn ungathered(dim: &[Part], by: &[usize], axes: &Axes) -> Stop {
    match dim {
        [part @ Part { kind: Kind::Open(origin), .. }] => {
            let split = by.iter().map(|&axis| Part { size: axes.size(axis), kind: Kind::Axis(axis) });
            let rest = Part { kind: Kind::Whole, ..*part };
            Stop::Open(*origin, split.chain([rest]).collect())
        }
        _ => Stop::Cause("gathers what each of its devices has already".to_owned()),
    }
}
