//! Regions of one device's part (`shard_map`) in a program of whole arrays: what goes in is seen as tiles
//! inside, what comes out is the whole array that the tiles are of.

use super::given::tiled;
use super::tile::{Dim, Tile, global};
use super::view::whole;
use super::walk::{Stop, Val, Walk, unsummed};
use phzc_ir::annotations::{CONSTRAINT, is_border, is_constraint, open_dims};
use phzc_ir::border::{Lying, goes_in, lying};
use phzc_ir::device_groups::is_collective;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{Attr, CompId, InstrId, Key, Module, Opcode, Shape, Tiling, Value, View};

/// Per computation and instruction: whether its value is whole because everything around it is.
pub type Outside = Vec<Vec<bool>>;

/// What is outside of all regions, in the entry and in what runs there; or a region inside of another one.
/// What follows from constants alone is not outside: the text does not say where it belongs.
pub fn outside(module: &Module) -> Result<Outside, (CompId, InstrId)> {
    let mut found: Outside = module.comps.iter().map(|comp| vec![false; comp.instrs.len()]).collect();
    let mut todo: Vec<(CompId, bool)> = vec![(module.entry, true)];
    while let Some((id, is_called_outside)) = todo.pop() {
        let comp = module.comp(id);
        let mut is_inside = vec![false; comp.instrs.len()];
        for (at, instr) in comp.iter() {
            let own = &mut found[id.index()];
            let reads = |of: &[bool]| instr.operands.iter().any(|operand| of[operand.index()]);
            let is_param = instr.op == Opcode::Parameter;
            if is_border(instr) {
                if goes_in(instr) && (reads(&is_inside) || !is_called_outside) {
                    return Err((id, at));
                }
                (is_inside[at.index()], own[at.index()]) = (goes_in(instr), !goes_in(instr));
            } else {
                is_inside[at.index()] = reads(&is_inside) || is_param && !is_called_outside;
                own[at.index()] = reads(own) || is_param && is_called_outside;
            }
            let is_outside = own[at.index()];
            if is_outside || is_inside[at.index()] {
                todo.extend(control_comps(instr).into_iter().map(|comp| (comp, is_outside)));
            }
        }
    }
    Ok(found)
}

impl<'a> Walk<'_, 'a> {
    /// Whether a value is whole.
    pub fn is_outside(&self, id: InstrId) -> bool {
        self.program.outside.get(self.comp.index()).is_some_and(|comp| comp[id.index()])
    }

    /// Whether an instruction is one on whole arrays, without a region in what it runs.
    pub fn is_as_it_is(&self, id: InstrId) -> bool {
        let has_border = |comp: CompId| has_border(self.program.local, comp);
        self.is_outside(id) && !control_comps(self.local().instr(id)).into_iter().any(has_border)
    }

    /// Whether an instruction only says how its operand is laid out, where the whole program has no such
    /// value: inside of a region, and of what one region hands to another.
    pub fn is_passed(&self, view: &View) -> bool {
        let is_inside = |id: &InstrId| !self.is_outside(*id) || matches!(self.val(*id), Val::Handed(..));
        is_constraint(view.instr) && view.instr.operands.iter().all(is_inside)
    }

    /// An instruction on whole arrays, as it is.
    pub fn as_it_is(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let asks = matches!(view.instr.op, Opcode::PartitionId | Opcode::ReplicaId);
        if asks || is_collective(view.instr.op) {
            return Err(Stop::Cause("is about devices, and outside of all regions".to_owned()));
        }
        let mut made = view.instr.clone();
        for (&id, operand) in view.instr.operands.iter().zip(&mut made.operands) {
            *operand = self.all_of(id)?;
        }
        let lie = wholes(&view.instr.shape);
        let base = self.build.push(made);
        if is_constraint(view.instr)
            && let Val::Tile(tile) = self.val(view.instr.operands[0])
            && let Some(left) = self.left.get(&tile.base).cloned()
        {
            self.left.insert(base, left);
        }
        Ok(self.unpack(base, &mut lie.into_iter()))
    }

    /// Why a value is none that the whole program has: only another region could take it as it lies.
    pub fn unwhole(&self, id: InstrId, why: &str) -> String {
        let name = &self.local().instr(id).name;
        format!("reads `{name}`, which is no whole array: what comes out of the region {why}")
    }

    /// A value written as a whole one.
    fn all_of(&mut self, id: InstrId) -> Result<InstrId, Stop> {
        let shape = &self.local().instr(id).shape;
        let mut made = Vec::new();
        for (tile, dims) in self.leaves(id)?.iter().zip(wholes(shape)) {
            made.push(self.placed(tile, Some(&dims))?.0);
        }
        Ok(self.pack(shape, &mut made.into_iter()))
    }

    /// What goes into a region, or comes out of it. The layout there is given.
    pub fn border(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let (is_in, n) = (goes_in(view.instr), view.n_operands());
        let shape = &view.instr.shape;
        let leaves = shape.leaves();
        let Some(lying) = lying(self.program.local, view).filter(|it| it.len() == n && leaves.len() == n)
        else {
            return Err(Stop::Cause(
                "is a border of which the text does not say how its values lie".to_owned(),
            ));
        };
        let mut vals = Vec::new();
        for (index, (lying, leaf)) in lying.into_iter().zip(leaves).enumerate() {
            vals.push(match is_in {
                true => self.enter(view, index, &lying, leaf)?,
                false => self.leave(view, index, &lying)?,
            });
        }
        match (shape, vals.pop()) {
            (Shape::Tuple(_), Some(last)) => Ok(Val::Tuple(vals.into_iter().chain([last]).collect())),
            (_, last) => last.ok_or(Stop::Lost),
        }
    }

    /// The tiles of a whole array.
    fn enter(&mut self, view: &View, index: usize, lying: &Lying, leaf: &Shape) -> Result<Val, Stop> {
        let (id, dims) = (view.instr.operands[index], self.split(&lying.tiling(), leaf)?);
        let handed = match self.val(id) {
            Val::Handed(tile, lay, _) => Some((tile, lay)),
            Val::Tile(tile) => self.left.get(&tile.base).cloned(),
            _ => None,
        };
        if let Some((tile, _)) = handed.filter(|(_, lay)| *lay == dims) {
            return Ok(Val::Tile(tile));
        }
        let base = self.all_of(id)?;
        let base = self.constrained(base, lying);
        let is_all = self.build.dims(base).iter().zip(&dims).all(|(&size, dim)| global(dim) == size);
        let uneven = || Stop::Cause("takes tiles that are not all of one size".to_owned());
        is_all.then(|| Val::Tile(Tile::new(base, &dims))).ok_or_else(uneven)
    }

    /// The whole array of tiles. What they are not tiles of may go into another region: JAX hands what
    /// backward needs from one to the next like this.
    fn leave(&mut self, view: &View, index: usize, lying: &Lying) -> Result<Val, Stop> {
        let tile = self.tile(view, index)?;
        let local = &view.instrs[view.instr.operands[index].index()].shape;
        let dims = self.split(&lying.tiling(), local)?;
        let placed = match unsummed(&tile) {
            None => self.placed(&tile, Some(&dims)),
            Some(why) => Err(Stop::Cause(why)),
        };
        let base = match placed {
            Ok((base, _)) => self.constrained(base, lying),
            Err(Stop::Cause(why)) => return Ok(Val::Handed(tile, dims, why)),
            Err(stop) => return Err(stop),
        };
        self.left.insert(base, (tile, dims));
        Ok(Val::Tile(Tile::new(base, &wholes(&self.build.instrs[base.index()].shape.clone())[0])))
    }

    /// The parts of a device's array.
    fn split(&self, tiling: &Tiling, leaf: &Shape) -> Result<Vec<Dim>, Stop> {
        let sizes: &[i64] = leaf.as_array().map_or(&[], |array| &array.dims);
        let dims = tiled(sizes, tiling, &self.program.axes);
        let dims = dims.map_err(|why| Stop::Cause(format!("lies as `{tiling}`, {why}")))?;
        dims.ok_or_else(|| Stop::Cause("lies as the partitioner likes".to_owned()))
    }

    /// A value that a constraint says how to lay out.
    fn constrained(&mut self, base: InstrId, lying: &Lying) -> InstrId {
        let shape = self.build.instrs[base.index()].shape.clone();
        let is_scalar = shape.as_array().is_some_and(|array| array.dims.is_empty());
        let said = &self.build.instrs[base.index()];
        let is_said = is_constraint(said)
            && said.sharding() == Some(&lying.sharding)
            && open_dims(said).to_vec() == lying.open;
        match is_scalar || is_said {
            true => base,
            false => self.build.add(Opcode::CustomCall, &[base], shape, constraint(lying)),
        }
    }
}

/// All dimensions of all leaves, whole.
pub fn wholes(shape: &Shape) -> Vec<Vec<Dim>> {
    let leaves = shape.leaves();
    let dims = |leaf: &&Shape| leaf.as_array().map(|array| array.dims.clone()).unwrap_or_default();
    leaves.iter().map(|leaf| dims(leaf).into_iter().map(whole).collect()).collect()
}

fn has_border(module: &Module, comp: CompId) -> bool {
    let instrs = &module.comp(comp).instrs;
    instrs.iter().any(|it| is_border(it) || control_comps(it).into_iter().any(|it| has_border(module, it)))
}

/// The attributes of a call that constrains a value to lie like that.
fn constraint(lying: &Lying) -> Vec<Attr> {
    let open: Vec<String> = lying.open.iter().map(ToString::to_string).collect();
    let config = format!("\"unspecified_dims=[{}]\"", open.join(","));
    let target = Attr { key: Key::CustomCallTarget, value: Value::Str(CONSTRAINT.into()) };
    let sharding = Attr { key: Key::Sharding, value: Value::Sharding(Box::new(lying.sharding.clone())) };
    let config = Attr { key: Key::BackendConfig, value: Value::Raw(config.into()) };
    [target, sharding].into_iter().chain(Some(config).filter(|_| !open.is_empty())).collect()
}
