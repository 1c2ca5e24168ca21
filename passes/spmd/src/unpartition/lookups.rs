//! Values that depend on the device and what becomes of them: tiles that start where the device's do,
//! look-ups that count from there and the masks of those, shares that one device of several contributes.

use super::control::done;
use super::tile::{Part, Tile, local};
use super::view::{broadcast, cut, gather, local_dims};
use super::walk::{Stop, Val, Walk, tiled};
use phzc_ir::ops::{linear, literal};
use phzc_ir::{Instr, InstrId, Key, Opcode, Reducer, View};

/// Whether the elements of a whole array of integers lie between bounds, which differ from device to device.
#[derive(Clone, Debug)]
pub struct Mask {
    /// The integers.
    pub tile: Tile,
    /// The least inside, by device.
    low: Vec<i64>,
    /// The least above, by device.
    high: Vec<i64>,
    /// Whether they lie outside.
    is_outside: bool,
}

impl Mask {
    /// The same, as elements inside or outside, if that can be said.
    fn said(self, is_outside: bool) -> Option<Mask> {
        let (low, high) = match (is_outside == self.is_outside, self.side()) {
            (true, _) => (self.low, self.high),
            (false, Some(true)) => (self.high, vec![i64::MAX; self.low.len()]),
            (false, Some(false)) => (vec![i64::MIN; self.low.len()], self.low),
            (false, None) => return None,
        };
        Some(Mask { tile: self.tile, low, high, is_outside })
    }

    /// Whether all below, or all above, is inside; `None` for bounds on both sides.
    fn side(&self) -> Option<bool> {
        let is_open = |bounds: &[i64], end: i64| bounds.iter().all(|&bound| bound == end);
        match (is_open(&self.low, i64::MIN), is_open(&self.high, i64::MAX)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Those inside of both.
    fn within(self, other: &Mask) -> Option<Mask> {
        let pick = |a: &[i64], b: &[i64], of: fn(i64, i64) -> i64| {
            a.iter().zip(b).map(|(&a, &b)| of(a, b)).collect()
        };
        let (low, high) = (pick(&self.low, &other.low, i64::max), pick(&self.high, &other.high, i64::min));
        let is_same = self.is_outside == other.is_outside && is_same(&self.tile, &other.tile);
        is_same.then_some(Mask { low, high, ..self })
    }

    fn is(&self, other: &Mask) -> bool {
        let bounds = |mask: &Mask| (mask.low.clone(), mask.high.clone());
        bounds(self) == bounds(other) && is_same(&self.tile, &other.tile)
    }
}

/// Whether two tiles are the same elements, leaving out along what they are equal.
fn is_same(a: &Tile, b: &Tile) -> bool {
    let seen = |tile: &Tile| -> Vec<Vec<(usize, usize, Part)>> {
        tile.dims.iter().map(|dim| dim.iter().filter_map(|&id| place(tile, id)).collect()).collect()
    };
    a.base == b.base && seen(a) == seen(b)
}

/// Where a part is in the whole array: its dimension, and the place in that.
fn place(tile: &Tile, id: usize) -> Option<(usize, usize, Part)> {
    let find = |(dim, ids): (usize, &Vec<usize>)| {
        ids.iter().position(|&it| it == id).map(|at| (dim, at, tile.parts[id]))
    };
    tile.order.iter().enumerate().find_map(find)
}

impl<'a> Walk<'_, 'a> {
    /// The value of an op that reads what depends on the device; `None` if it reads nothing such.
    pub fn by_device(&mut self, view: &View<'a>) -> Result<Option<Val>, Stop> {
        if let Some(val) = self.moved_by_device(view)? {
            return Ok(Some(val));
        }
        let operands: Vec<Val> = view.instr.operands.iter().map(|&id| self.val(id)).collect();
        let found = match (view.instr.op, &operands[..]) {
            (Opcode::Add, [Val::Tile(tile), Val::Device(by)] | [Val::Device(by), Val::Tile(tile)]) => {
                Some(self.shifted(view, tile, by.clone()))
            }
            (Opcode::Subtract, [Val::Tile(tile), Val::Device(by)]) => {
                Some(self.shifted(view, tile, by.iter().map(|by| -by).collect()))
            }
            (Opcode::Compare, [Val::Shifted(tile, by), _]) => self.compared(view, tile, by),
            (Opcode::Compare, [Val::Tile(tile), Val::Device(_)]) => {
                self.compared(view, tile, &vec![0; self.program.axes.n_devices()])
            }
            (Opcode::And | Opcode::Or, [Val::Mask(a), Val::Mask(b)]) => {
                let is_outside = view.instr.op == Opcode::Or;
                let both = a.clone().said(is_outside).zip(b.clone().said(is_outside));
                both.and_then(|(a, b)| a.within(&b)).map(Val::Mask)
            }
            (Opcode::Not, [Val::Mask(mask)]) => {
                Some(Val::Mask(Mask { is_outside: !mask.is_outside, ..mask.clone() }))
            }
            (Opcode::Gather, [Val::Tile(_), Val::Shifted(tile, by)]) => {
                return self.looked_up(view, tile, by).map(Some);
            }
            (Opcode::Scatter, [Val::Tile(_), Val::Shifted(tile, by), Val::Tile(_)]) => {
                return self.scattered(view, tile, by).map(Some);
            }
            (Opcode::Select, _) => self.selected(view, &operands)?,
            (Opcode::DynamicSlice, [Val::Tile(_), ..]) => self.sliced(view)?,
            (Opcode::DynamicUpdateSlice, [Val::Tile(_), Val::Tile(_), ..]) => self.updated(view)?,
            _ => None,
        };
        Ok(found)
    }

    /// What moves elements moves those that depend on the device too.
    fn moved_by_device(&mut self, view: &View<'a>) -> Result<Option<Val>, Stop> {
        let Some(&first) = view.instr.operands.first() else { return Ok(None) };
        let val = self.val(first);
        if let Some(part) = done(view.instr.op) {
            return Ok(if let Val::Tuple(parts) = val { parts.into_iter().nth(part) } else { Some(val) });
        }
        use Opcode::{AllReduceDone, Broadcast, Convert, Copy, CopyStart, Reduce, Reshape, Transpose};
        match (view.instr.op, val) {
            (AllReduceDone, val) => Ok(Some(val)),
            (CopyStart, val) => Ok(Some(Val::Tuple(vec![val.clone(), val]))),
            (Copy, val @ Val::Tuple(_)) => Ok(Some(val)),
            (Broadcast | Convert | Copy | Reshape | Transpose, Val::Device(by)) => Ok(Some(Val::Device(by))),
            (Broadcast | Copy | Reshape | Transpose, Val::Shifted(tile, by)) => {
                Ok(self.with(view, first, tile)?.map(|tile| Val::Shifted(tile, by)))
            }
            (Broadcast | Copy | Reshape | Transpose, Val::Mask(mask)) => {
                Ok(self.with(view, first, mask.tile.clone())?.map(|tile| Val::Mask(Mask { tile, ..mask })))
            }
            (Reduce, Val::Mask(mut mask)) if is_of_ones(view) => {
                let reduced = view.instr.ints(Key::Dimensions);
                let mut at = 0..;
                mask.tile.dims.retain(|_| !reduced.contains(&at.next().unwrap_or(0)));
                Ok(Some(Val::Mask(mask)))
            }
            _ => Ok(None),
        }
    }

    /// The op with another first operand.
    fn with(&mut self, view: &View<'a>, id: InstrId, tile: Tile) -> Result<Option<Tile>, Stop> {
        let old = std::mem::replace(&mut self.vals[id.index()], Val::Tile(tile));
        let made = self.seen(view);
        self.vals[id.index()] = old;
        made
    }

    /// An array of integers plus one that depends on the device. Counting from where the tile starts is
    /// counting through.
    fn shifted(&mut self, view: &View, tile: &Tile, by: Vec<i64>) -> Val {
        let counted = self.counting(tile).and_then(|dim| {
            let n = local(&tile.dim(dim));
            Some((dim, self.tiles(&by, n)?))
        });
        match (counted, view.instr.shape.as_array()) {
            (Some((dim, axes)), Some(array)) if !axes.is_empty() => {
                let of = self.program.axes.clone();
                Val::Tile(self.counted(array.dtype, &array.dims, dim, &axes, &of))
            }
            _ => Val::Shifted(tile.clone(), by),
        }
    }

    /// The dimension along which a tile counts from 0.
    fn counting(&self, tile: &Tile) -> Option<usize> {
        let is_iota = self.build.instrs[tile.base.index()].op == Opcode::Iota && tile.order.len() == 1;
        let dim = tile.dims.iter().position(|ids| !ids.is_empty() && *ids == tile.order[0]);
        dim.filter(|&dim| is_iota && tiled(&tile.dim(dim)).is_empty())
    }

    /// The axes along which these are where tiles of `n` elements start.
    fn tiles(&self, starts: &[i64], n: i64) -> Option<Vec<usize>> {
        let is_multiple = n > 0 && starts.iter().all(|start| start % n == 0);
        is_multiple
            .then(|| self.program.axes.read(&starts.iter().map(|start| start / n).collect::<Vec<_>>()))
            .flatten()
    }

    /// An integer by device: one that depends on it, or a constant.
    fn integers(&self, id: InstrId) -> Option<Vec<i64>> {
        if let Val::Device(by) = self.val(id) {
            return Some(by);
        }
        let mut instr: &Instr = self.local().instr(id);
        while matches!(instr.op, Opcode::Broadcast | Opcode::Reshape | Opcode::Copy | Opcode::Convert) {
            instr = self.local().instr(instr.operands[0]);
        }
        let constant = literal::splat(instr)?.parse::<i64>().ok()?;
        Some(vec![constant; self.program.axes.n_devices()])
    }

    fn compared(&self, view: &View, tile: &Tile, by: &[i64]) -> Option<Val> {
        let bounds: Vec<i64> =
            self.integers(view.instr.operands[1])?.iter().zip(by).map(|(bound, by)| bound - by).collect();
        let next: Vec<i64> = bounds.iter().map(|bound| bound + 1).collect();
        let open = |end: i64| vec![end; by.len()];
        let (low, high) = match view.instr.word(Key::Direction)? {
            "GE" => (bounds, open(i64::MAX)),
            "GT" => (next, open(i64::MAX)),
            "LT" => (open(i64::MIN), bounds),
            "LE" => (open(i64::MIN), next),
            "EQ" => (bounds, next),
            _ => return None,
        };
        Some(Val::Mask(Mask { tile: tile.clone(), low, high, is_outside: false }))
    }

    /// The dimension that indices are about, and how many rows of it a device has, if they count from where
    /// its tile starts.
    fn looks_up(&self, view: &View, by: &[i64], map: Key) -> Result<i64, Stop> {
        let no =
            || Stop::Cause("looks up places that do not count from where a device's tile starts".to_owned());
        let table = self.tile(view, 0)?;
        let &[dim] = view.instr.ints(map) else { return Err(no()) };
        let n = local_dims(view, 0)[dim as usize];
        let starts: Vec<i64> = by.iter().map(|by| -by).collect();
        let axes = self.tiles(&starts, n).ok_or_else(no)?;
        if tiled(&table.dim(dim as usize)) == axes { Ok(n) } else { Err(no()) }
    }

    /// Look-ups, of which those in the device's tile are right.
    fn looked_up(&mut self, view: &View<'a>, tile: &Tile, by: &[i64]) -> Result<Val, Stop> {
        let n = self.looks_up(view, by, Key::StartIndexMap)?;
        let made = self.op_on(view, tile)?;
        let low: Vec<i64> = by.iter().map(|by| -by).collect();
        let high = low.iter().map(|low| low + n).collect();
        let windows = view.instr.ints(Key::OffsetDims);
        let dims = view.instr.shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
        let at: Vec<i64> = (0..dims.len() as i64).filter(|dim| !windows.contains(dim)).collect();
        let mut indices = tile.clone();
        let vector = view.instr.int(Key::IndexVectorDim).unwrap_or(0) as usize;
        if vector < indices.dims.len() {
            indices.dims.remove(vector);
        }
        let mask = Mask { tile: broadcast(indices, &at, &dims), low, high, is_outside: false };
        match made {
            Val::Tile(made) => Ok(Val::Guarded(made, mask)),
            _ => Err(Stop::Lost),
        }
    }

    /// A scatter leaves out what does not fall into the device's tile.
    fn scattered(&mut self, view: &View<'a>, tile: &Tile, by: &[i64]) -> Result<Val, Stop> {
        self.looks_up(view, by, Key::ScatterDimsToOperandDims)?;
        self.op_on(view, tile)
    }

    /// The op with the whole program's indices for its second operand.
    fn op_on(&mut self, view: &View<'a>, indices: &Tile) -> Result<Val, Stop> {
        let id = view.instr.operands[1];
        let old = std::mem::replace(&mut self.vals[id.index()], Val::Tile(indices.clone()));
        let made = self.op_by(view, true);
        self.vals[id.index()] = old;
        made
    }

    /// Zeros outside a mask, or on all devices but one: what is left are summands.
    fn selected(&self, view: &View, operands: &[Val]) -> Result<Option<Val>, Stop> {
        let is_zero = |index: usize| linear::is_zero(view.instrs, view.instr.operands[index]);
        match operands {
            [Val::Mask(mask), on, off] => {
                let (kept, zero) = if mask.is_outside { (off, 1) } else { (on, 2) };
                let Val::Guarded(tile, own) = kept else { return Ok(None) };
                Ok((own.is(mask) && is_zero(zero)).then(|| Val::Tile(tile.clone())))
            }
            [Val::Device(is_on), Val::Tile(on), Val::Tile(off)] => {
                let negated: Vec<i64> = is_on.iter().map(|on| 1 - on).collect();
                let kept = match (is_zero(2), is_zero(1)) {
                    (true, _) => self.contributed(on.clone(), is_on),
                    (_, true) => self.contributed(off.clone(), &negated),
                    _ => None,
                };
                Ok(kept.map(Val::Tile))
            }
            _ => Ok(None),
        }
    }

    /// What only the first devices along some axes contribute to a sum.
    fn contributed(&self, mut tile: Tile, is_on: &[i64]) -> Option<Tile> {
        let axes = &self.program.axes;
        let all: Vec<usize> = (0..axes.n_axes()).collect();
        let off = |axis: usize| {
            (0..is_on.len()).any(|device| is_on[device] != 0 && axes.coordinate(device, axis) != 0)
        };
        let by: Vec<usize> = all.into_iter().filter(|&axis| !off(axis)).collect();
        let is_first = axes.tiles(&by).iter().map(|&tile| i64::from(tile == 0)).eq(is_on.iter().copied());
        let is_new = by.iter().all(|&axis| !tile.is_split_by(axis) && !tile.partial.contains_key(&axis));
        if !is_first || !is_new || by.is_empty() {
            return None;
        }
        tile.partial.extend(by.into_iter().map(|axis| (axis, Reducer::Add)));
        Some(tile)
    }

    /// A device's tile of what it has whole.
    fn sliced(&mut self, view: &View) -> Result<Option<Val>, Stop> {
        let (mut tile, made) = (self.tile(view, 0)?, view.instr.shape.as_array());
        let (from, to) = (local_dims(view, 0), made.map(|array| array.dims.clone()).unwrap_or_default());
        let is_cut: Vec<usize> = (0..from.len()).filter(|&dim| from[dim] != to[dim]).collect();
        let start = |dim: usize| match self.val(view.instr.operands[1 + dim]) {
            Val::Device(by) => Some(by),
            _ => None,
        };
        if is_cut.iter().all(|&dim| start(dim).is_none()) {
            return Ok(None);
        }
        for dim in is_cut {
            let axes = start(dim).and_then(|by| self.tiles(&by, to[dim]));
            let axes = axes.filter(|axes| self.program.axes.n_along(axes) * to[dim] == from[dim]);
            let is_uniform = tile.dim(dim).iter().all(|part| part.is_free());
            match axes {
                Some(axes) => cut(&mut tile, dim, &axes, &self.program.axes)?,
                None if is_uniform => {
                    let id = tile.add(Part { size: to[dim], kind: super::tile::Kind::Free });
                    tile.dims[dim] = vec![id];
                }
                None => {
                    return Err(Stop::Cause(
                        "slices where no tile of the device starts, as a halo does".to_owned(),
                    ));
                }
            }
        }
        Ok(Some(Val::Tile(tile)))
    }

    /// A device's tile written into zeros: a summand of the array that all tiles make.
    fn updated(&mut self, view: &View) -> Result<Option<Val>, Stop> {
        let (all, own) = (local_dims(view, 0), local_dims(view, 1));
        let is_put: Vec<usize> = (0..all.len()).filter(|&dim| all[dim] != own[dim]).collect();
        let start = |dim: usize| match self.val(view.instr.operands[2 + dim]) {
            Val::Device(by) => Some(by),
            _ => None,
        };
        if is_put.iter().all(|&dim| start(dim).is_none()) {
            return Ok(None);
        }
        let mut tile = self.tile(view, 1)?;
        for dim in is_put {
            let axes = start(dim).and_then(|by| self.tiles(&by, own[dim]));
            let axes = axes.filter(|axes| self.program.axes.n_along(axes) * own[dim] == all[dim]);
            let Some(axes) = axes.filter(|_| linear::is_zero(view.instrs, view.instr.operands[0])) else {
                return Err(Stop::Cause(
                    "writes where a device's tile starts into what is not zero".to_owned(),
                ));
            };
            gather(&mut tile, dim, &axes, &self.program.axes)?;
            tile.partial.extend(axes.into_iter().map(|axis| (axis, Reducer::Add)));
        }
        Ok(Some(Val::Tile(tile)))
    }
}

/// Whether a reduction is over dimensions of one element.
fn is_of_ones(view: &View) -> bool {
    let dims = local_dims(view, 0);
    view.n_operands() == 2 && view.instr.ints(Key::Dimensions).iter().all(|&dim| dims[dim as usize] == 1)
}
