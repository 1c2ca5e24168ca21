//! Collectives: each changes which parts of a whole array a device has, or adds up summands.

use super::tile::{Kind, Part, Tile};
use super::view::{cut, gather, local_dims, ungathered};
use super::walk::{Stop, Val, Walk};
use phzc_ir::{FactorKind, InstrId, Key, Opcode, Reducer, View};

fn cause<T>(why: &str) -> Result<T, Stop> {
    Err(Stop::Cause(why.to_owned()))
}

impl<'a> Walk<'_, 'a> {
    /// The value of a collective, or of its start.
    pub fn collective(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let made = match view.instr.op {
            Opcode::AllReduce | Opcode::AllReduceStart => self.each(view, Self::all_reduce)?,
            Opcode::ReduceScatter => self.each(view, Self::reduce_scatter)?,
            Opcode::AllGather | Opcode::AllGatherStart => self.each(view, Self::all_gather)?,
            Opcode::AllToAll => self.each(view, Self::all_to_all)?,
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart => self.each(view, Self::permute)?,
            _ => return cause("is a collective that is not folded"),
        };
        match view.instr.op {
            Opcode::AllGatherStart | Opcode::CollectivePermuteStart => {
                Ok(Val::Tuple(vec![self.val(view.instr.operands[0]), made]))
            }
            _ => Ok(made),
        }
    }

    /// What each operand becomes; a tuple of several.
    fn each(&mut self, view: &View, of: fn(&Self, &View, Tile) -> Result<Tile, Stop>) -> Result<Val, Stop> {
        let tiles =
            (0..view.n_operands()).map(|index| of(self, view, self.tile(view, index)?).map(Val::Tile));
        let mut made: Vec<Val> = tiles.collect::<Result<_, _>>()?;
        Ok(if made.len() == 1 { made.swap_remove(0) } else { Val::Tuple(made) })
    }

    /// The axes along which devices meet, in the groups' order.
    fn met(&self, view: &View, is_ordered: bool) -> Result<Vec<usize>, Stop> {
        let groups = self.program.devices.groups(view.instr);
        let mut groups = groups.map_err(|error| Stop::Cause(error.message))?;
        if !is_ordered {
            groups.iter_mut().for_each(|group| group.sort_unstable());
        }
        let axes = self.program.axes.of_groups(&groups);
        axes.map_or_else(|| cause("has groups that lie along no axes of a mesh"), Ok)
    }

    fn summed(&self, view: &View, mut tile: Tile, axes: &[usize]) -> Result<Tile, Stop> {
        let Some(reducer) = phzc_ir::ops::reducer(view, Key::ToApply, 0) else {
            return cause("combines values in a way that is not known");
        };
        for axis in axes {
            match tile.partial.remove(axis) {
                Some(own) if own == reducer => {}
                Some(_) => return cause("combines summands otherwise than they were made"),
                None if tile.is_split_by(*axis) => {
                    return cause("adds up tiles of which each is another part");
                }
                // Equal values are their own maximum.
                None if !matches!(reducer, Reducer::Add | Reducer::Mul | Reducer::Xor) => {}
                None => return Err(self.unsplit(view.instr.operands[0], axes)),
            }
        }
        Ok(tile)
    }

    /// Why there are no summands to add up: the loop that makes a sum of what is added up is not split, as
    /// far as is known.
    fn unsplit(&self, mut id: InstrId, axes: &[usize]) -> Stop {
        while matches!(
            self.local().instr(id).op,
            Opcode::Convert | Opcode::Copy | Opcode::Reshape | Opcode::Transpose
        ) {
            id = self.local().instr(id).operands[0];
        }
        let view = View::new(self.program.local, self.comp, id);
        let rule = (view.instr.op.def().rule)(&view);
        for (&operand, map) in view.instr.operands.iter().zip(&rule.operands) {
            let Val::Tile(tile) = &self.vals[operand.index()] else { continue };
            for (dim, factors) in map.iter().enumerate() {
                let sums =
                    |factor: &u32| matches!(rule.factors[*factor as usize].kind, FactorKind::Reduce(_));
                if factors.iter().any(sums) && matches!(tile.dim(dim)[..], [Part { kind: Kind::Open(_), .. }])
                {
                    return ungathered(&tile.dim(dim), axes, &self.program.axes);
                }
            }
        }
        Stop::Cause("adds up what each of its devices has already".to_owned())
    }

    fn all_reduce(&self, view: &View, tile: Tile) -> Result<Tile, Stop> {
        self.summed(view, tile, &self.met(view, false)?)
    }

    fn reduce_scatter(&self, view: &View, tile: Tile) -> Result<Tile, Stop> {
        let axes = self.met(view, true)?;
        let mut tile = self.summed(view, tile, &axes)?;
        cut(&mut tile, dim(view), &axes, &self.program.axes)?;
        Ok(tile)
    }

    fn all_gather(&self, view: &View, mut tile: Tile) -> Result<Tile, Stop> {
        gather(&mut tile, dim(view), &self.met(view, true)?, &self.program.axes)?;
        Ok(tile)
    }

    /// The tiles of what is sent become those of what is received.
    fn all_to_all(&self, view: &View, mut tile: Tile) -> Result<Tile, Stop> {
        if view.n_operands() > 1 {
            return cause("exchanges several values at once");
        }
        let (dim, axes) = (dim(view), self.met(view, true)?);
        let is_one_each = local_dims(view, 0)[dim] == self.program.axes.n_along(&axes);
        let n_before = tile.parts.len();
        let old: Vec<usize> = (0..n_before)
            .filter(|&id| tile.parts[id].axis().is_some_and(|axis| axes.contains(&axis)))
            .collect();
        let sent =
            axes.iter().map(|&axis| old.iter().copied().find(|&id| tile.parts[id].axis() == Some(axis)));
        let Some(sent) = sent.collect::<Option<Vec<usize>>>() else {
            return cause("exchanges what each of its devices has already");
        };
        // While the old tiles are none, the new ones can be cut.
        sent.iter().for_each(|&id| tile.parts[id].kind = Kind::Whole);
        tile.dims.iter_mut().for_each(|dim| dim.retain(|id| !sent.contains(id)));
        cut(&mut tile, dim, &axes, &self.program.axes)?;
        if is_one_each && dim + 1 < tile.dims.len() {
            let tiles = std::mem::take(&mut tile.dims[dim]);
            tile.dims[dim + 1].splice(0..0, tiles);
        }
        tile.dims[dim].splice(0..0, sent);
        Ok(tile)
    }

    /// Tiles that change places so that they lie along other axes.
    fn permute(&self, view: &View, mut tile: Tile) -> Result<Tile, Stop> {
        let pairs = self.program.devices.pairs(view.instr).map_err(|error| Stop::Cause(error.message))?;
        let axes = &self.program.axes;
        let mut source = vec![None; axes.n_devices()];
        pairs.iter().for_each(|pair| source[pair[1]] = Some(pair[0]));
        let Some(source) = source.into_iter().collect::<Option<Vec<usize>>>() else {
            return cause("sends to some devices only, as a halo or a shift does");
        };
        let moved = |axis: usize| {
            let tiles: Vec<i64> = source.iter().map(|&device| axes.coordinate(device, axis)).collect();
            match axes.read(&tiles).as_deref() {
                Some(&[to]) => Ok(to),
                _ => cause("rotates tiles"),
            }
        };
        for part in &mut tile.parts {
            if let Some(axis) = part.axis() {
                part.kind = Kind::Axis(moved(axis)?);
            }
        }
        tile.partial =
            tile.partial.iter().map(|(&axis, &by)| Ok((moved(axis)?, by))).collect::<Result<_, Stop>>()?;
        Ok(tile)
    }
}

fn dim(view: &View) -> usize {
    view.instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize)
}
