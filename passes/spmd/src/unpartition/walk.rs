//! One computation, instruction by instruction: what each value is of a whole one.

use super::axes::Axes;
use super::border::Outside;
use super::device::{PerDevice, per_device};
use super::lookups::Mask;
use super::place::{joint, place, sizes};
use super::tile::{Clash, Dim, Kind, Origin, Part, Tile};
use crate::spmd::build::Builder;
use phzc_ir::annotations::is_border;
use phzc_ir::device_groups::Devices;
use phzc_ir::{
    ArrayShape, Attr, CompId, Computation, Instr, InstrId, Key, Mesh, Module, Opcode, Payload, Shape, Value,
    View,
};
use std::collections::BTreeMap;

/// What a device's value is.
#[derive(Clone, Debug)]
pub enum Val {
    /// A part of a whole array; a token is one of no dimensions.
    Tile(Tile),
    /// Several values.
    Tuple(Vec<Val>),
    /// Integers, all elements equal, by device.
    Device(Vec<i64>),
    /// A part of a whole array of integers, plus an integer by device.
    Shifted(Tile, Vec<i64>),
    /// Whether the elements of an array lie between bounds by device.
    Mask(Mask),
    /// A part of a whole array where a mask holds, anything elsewhere.
    Guarded(Tile, Mask),
    /// What devices hand from a region to another one, lying there as it lay here; and why it is no whole
    /// array.
    Handed(Tile, Vec<Dim>, String),
    /// Not known, for a reason that was given.
    Lost,
}

/// Why an instruction has no value.
#[derive(Debug)]
pub enum Stop {
    /// This one.
    Cause(String),
    /// That of one of its operands.
    Lost,
    /// A parameter's dimension is split otherwise than supposed.
    Open(Origin, Dim),
}

/// The parts of each dimension of each leaf.
pub type Signature = Vec<Vec<Dim>>;

/// The same, of those leaves that are to lie in a certain way.
pub type Wanted = [Option<Vec<Dim>>];

/// What all computations share.
pub struct Program<'a> {
    /// What each device runs, calls inlined.
    pub local: &'a Module,
    /// The whole program in the making.
    pub whole: Module,
    /// The devices.
    pub devices: Devices,
    /// Their mesh.
    pub mesh: &'a Mesh,
    /// Its axes, as fine as they go.
    pub axes: Axes,
    /// What is in the way.
    pub causes: Vec<(CompId, InstrId, String)>,
    /// Dimensions of parameters of which readers showed how they are split.
    pub opened: BTreeMap<Origin, Dim>,
    /// Per instruction: whether its value is whole already, in a program with regions of one device's part.
    pub outside: Outside,
}

/// A computation being read.
pub struct Walk<'p, 'a> {
    pub program: &'p mut Program<'a>,
    pub comp: CompId,
    pub build: Builder<'a>,
    pub vals: Vec<Val>,
    pub known: PerDevice,
    /// By whole array: the tiles that came out of a region as it, and how they lay at the border.
    pub left: BTreeMap<InstrId, (Tile, Vec<Dim>)>,
}

impl<'a> Program<'a> {
    /// Reads a computation whose parameters' leaves lie like this and writes the whole one; how its root's
    /// leaves lie. They are brought to what is wanted of them.
    pub fn lower(&mut self, comp: CompId, params: &Signature, wanted: &Wanted) -> Result<Signature, Stop> {
        let local: &'a Module = self.local;
        let known = per_device(local, comp, self.axes.n_devices());
        let build = Builder::new(local.comp(comp), self.mesh);
        let mut walk = Walk { program: self, comp, build, vals: Vec::new(), known, left: BTreeMap::new() };
        walk.parameters(params);
        walk.instrs()?;
        walk.root(wanted)
    }
}

impl<'a> Walk<'_, 'a> {
    pub fn local(&self) -> &'a Computation {
        self.program.local.comp(self.comp)
    }

    /// Writes the parameters first: their leaves are numbered together.
    fn parameters(&mut self, params: &Signature) {
        let comp = self.local();
        self.vals = vec![Val::Lost; comp.instrs.len()];
        let mut leaves = params.iter();
        for id in comp.params() {
            let instr = comp.instr(id);
            self.build.start(instr);
            let own: Vec<Vec<Dim>> = leaves.by_ref().take(instr.shape.n_leaves()).cloned().collect();
            let shape = match self.is_outside(id) {
                true => instr.shape.clone(),
                false => whole_shape(&instr.shape, &mut own.iter().cloned()),
            };
            let mut made = Instr { shape, operands: smallvec::SmallVec::new(), ..instr.clone() };
            if !self.is_outside(id) {
                made.attrs.retain(|attr| attr.key != Key::Sharding);
                made.remove_note(phzc_ir::notes::GLOBAL);
            }
            let base = self.build.push(made);
            self.vals[id.index()] = self.unpack(base, &mut own.into_iter());
        }
    }

    /// The leaves of a value that is written.
    pub fn unpack(&mut self, base: InstrId, leaves: &mut dyn Iterator<Item = Vec<Dim>>) -> Val {
        let shape = self.build.instrs[base.index()].shape.clone();
        let Shape::Tuple(parts) = &shape else {
            return Val::Tile(Tile::new(base, &leaves.next().unwrap_or_default()));
        };
        let part = |(index, part): (usize, &Shape)| {
            let at = Attr { key: Key::Index, value: Value::Int(index as i64) };
            let leaf = self.build.add(Opcode::GetTupleElement, &[base], part.clone(), vec![at]);
            self.unpack(leaf, leaves)
        };
        Val::Tuple(parts.iter().enumerate().map(part).collect())
    }

    fn instrs(&mut self) -> Result<(), Stop> {
        let comp = self.local();
        for (id, instr) in comp.iter().filter(|(_, instr)| instr.op != Opcode::Parameter) {
            let first = self.build.instrs.len();
            self.build.start(instr);
            self.vals[id.index()] = match self.instr(id) {
                Ok(val) => val,
                Err(Stop::Lost) => Val::Lost,
                Err(Stop::Cause(why)) => {
                    self.program.causes.push((self.comp, id, why));
                    Val::Lost
                }
                Err(open @ Stop::Open(..)) => return Err(open),
            };
            if let Val::Tile(tile) = &self.vals[id.index()] {
                self.build.finish(tile.base, first);
            }
        }
        Ok(())
    }

    fn instr(&mut self, id: InstrId) -> Result<Val, Stop> {
        if let Some(known) = &self.known[id.index()] {
            let is_one = |own: &Vec<i64>| own.iter().all(|element| *element == own[0]);
            if known.iter().all(|own| !own.is_empty() && is_one(own)) {
                return Ok(Val::Device(known.iter().map(|own| own[0]).collect()));
            }
        }
        let view = View::new(self.program.local, self.comp, id);
        match view.instr.op {
            Opcode::Tuple => Ok(Val::Tuple(view.instr.operands.iter().map(|&id| self.val(id)).collect())),
            Opcode::GetTupleElement => {
                let index = view.instr.int(Key::Index).unwrap_or(0) as usize;
                match self.val(view.instr.operands[0]) {
                    Val::Tuple(mut parts) => Ok(parts.swap_remove(index)),
                    _ => Err(Stop::Lost),
                }
            }
            _ if is_border(view.instr) => self.border(&view),
            _ if self.is_passed(&view) => Ok(self.val(view.instr.operands[0])),
            _ if self.is_as_it_is(id) => self.as_it_is(&view),
            Opcode::While => self.while_loop(&view),
            Opcode::Conditional => self.conditional(&view),
            Opcode::OptBarrier => self.barrier(&view),
            op if phzc_ir::device_groups::is_collective(op) => self.collective(&view),
            _ => self.by_device(&view)?.map_or_else(|| self.array(&view), Ok),
        }
    }

    /// What only changes how a device sees a whole array, or what an op makes of whole arrays.
    fn array(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        match self.seen(view)? {
            Some(tile) => Ok(Val::Tile(tile)),
            None => self.op(view),
        }
    }

    pub fn val(&self, id: InstrId) -> Val {
        self.vals[id.index()].clone()
    }

    /// An operand that is a part of a whole array.
    pub fn tile(&self, view: &View, index: usize) -> Result<Tile, Stop> {
        self.part(view.instr.operands[index])
    }

    /// A value that is a part of a whole array.
    pub fn part(&self, id: InstrId) -> Result<Tile, Stop> {
        self.as_part(id, &self.vals[id.index()])
    }

    fn as_part(&self, id: InstrId, val: &Val) -> Result<Tile, Stop> {
        let what = match val {
            Val::Tile(tile) => return Ok(tile.clone()),
            Val::Device(_) => "differs from device to device",
            Val::Shifted(..) => "counts from where a device's tile starts",
            Val::Mask(_) => "says what falls into a device's tile",
            Val::Handed(.., why) => return Err(Stop::Cause(self.unwhole(id, why))),
            Val::Guarded(..) => "is looked up in a device's tile, and not masked",
            Val::Tuple(_) => "is a tuple",
            Val::Lost if self.known[id.index()].is_some() => "differs from device to device",
            Val::Lost => return Err(Stop::Lost),
        };
        let name = &self.local().instr(id).name;
        Err(Stop::Cause(format!("reads `{name}`, which {what}")))
    }

    /// The leaves of a value, in order.
    pub fn leaves(&self, id: InstrId) -> Result<Vec<Tile>, Stop> {
        let mut found = Vec::new();
        let mut todo = vec![&self.vals[id.index()]];
        while let Some(val) = todo.pop() {
            match val {
                Val::Tuple(parts) => todo.extend(parts.iter().rev()),
                val => found.push(self.as_part(id, val)?),
            }
        }
        Ok(found)
    }

    /// Writes leaves as a value of the shape that has these leaves on one device.
    pub fn pack(&mut self, local: &Shape, leaves: &mut dyn Iterator<Item = InstrId>) -> InstrId {
        let Shape::Tuple(parts) = local else { return leaves.next().unwrap_or(InstrId::new(0)) };
        let made: Vec<InstrId> = parts.iter().map(|part| self.pack(part, leaves)).collect();
        let shapes = made.iter().map(|id| self.build.instrs[id.index()].shape.clone()).collect();
        self.build.add(Opcode::Tuple, &made, Shape::Tuple(shapes), Vec::new())
    }

    /// The whole array of a tile, with these parts: its own where none are wanted.
    pub fn placed(&mut self, tile: &Tile, wanted: Option<&Vec<Dim>>) -> Result<(InstrId, Vec<Dim>), Stop> {
        let own: Vec<Dim> = tile.all().into_iter().map(settled).collect();
        let wanted = wanted.unwrap_or(&own);
        let tile = &tile.with_axes_as(wanted);
        let joint = joint(tile, wanted).map_err(|clash| stop(clash, "has another layout than is needed"))?;
        let axes = |dims: &[Dim]| dims.iter().map(|dim| tiled(dim)).collect::<Vec<_>>();
        if axes(&joint) != axes(wanted) {
            return Err(Stop::Cause("is split where it should be whole".to_owned()));
        }
        if !tile.is_found_in(&joint) {
            return Err(Stop::Cause(HIDDEN.to_owned()));
        }
        let joint: Vec<Dim> = joint.into_iter().map(settled).collect();
        Ok((place(&mut self.build, tile, &joint), joint))
    }

    /// Finishes the computation.
    fn root(mut self, wanted: &Wanted) -> Result<Signature, Stop> {
        let old = self.local();
        self.build.start(old.root());
        let first = self.build.instrs.len();
        let fail = |walk: &mut Self, why: String| walk.program.causes.push((walk.comp, old.root, why));
        let leaves = match self.leaves(old.root) {
            Ok(leaves) => leaves,
            Err(Stop::Cause(why)) => {
                fail(&mut self, why);
                return Err(Stop::Lost);
            }
            Err(stop) => return Err(stop),
        };
        let (mut made, mut found) = (Vec::new(), Signature::new());
        for (at, leaf) in leaves.iter().enumerate() {
            if let Some(why) = unsummed(leaf) {
                fail(&mut self, format!("result {at} {why}"));
            }
            match self.placed(leaf, wanted.get(at).and_then(Option::as_ref)) {
                Ok((id, dims)) => (made.push(id), found.push(dims)),
                Err(Stop::Cause(why)) => {
                    fail(&mut self, format!("result {at} {why}"));
                    return Err(Stop::Lost);
                }
                Err(stop) => return Err(stop),
            };
        }
        let root = self.pack(&old.root().shape, &mut made.into_iter());
        self.build.finish(root, first);
        if self.is_outside(old.root) && root.index() >= first {
            self.build.instrs[root.index()].attrs.clone_from(&old.root().attrs);
        }
        let thread = old.thread.clone();
        self.program.whole.comps[self.comp.index()] =
            Computation { name: old.name.clone(), instrs: self.build.instrs, root, thread };
        Ok(found)
    }

    /// Writes an op on whole arrays.
    pub fn emit(&mut self, view: &View, operands: &[InstrId], shape: Shape, attrs: Vec<Attr>) -> InstrId {
        let made = self.build.add(view.instr.op, operands, shape, attrs);
        let instr = &mut self.build.instrs[made.index()];
        instr.payload = view.instr.payload.clone();
        instr.attrs.retain(|attr| !matches!(attr.key, Key::Sharding | Key::ControlPredecessors));
        if matches!(instr.payload, Payload::Parameter(_)) {
            instr.payload = Payload::None;
        }
        made
    }
}

/// Why a value with hidden axes cannot be read.
pub const HIDDEN: &str =
    "reads a number of which each device has its own, and nothing else that is split like it";

/// What a value is that devices have summands of.
pub fn unsummed(tile: &Tile) -> Option<String> {
    let is_undone = !tile.partial.is_empty();
    is_undone.then(|| "is one device's share of a sum that nothing adds up".to_owned())
}

/// The axes that split a dimension, major to minor.
pub fn tiled(dim: &[Part]) -> Vec<usize> {
    dim.iter().filter_map(|part| part.axis()).collect()
}

/// A dimension in which nothing is free any more.
pub fn settled(dim: Dim) -> Dim {
    let settle = |part: Part| if part.is_free() { Part { kind: Kind::Whole, ..part } } else { part };
    dim.into_iter().map(settle).filter(|part| part.local() != 1 || part.axis().is_some()).collect()
}

/// A clash as a reason.
pub fn stop(clash: Clash, why: &str) -> Stop {
    match clash {
        Clash::Open(origin, dim) => Stop::Open(origin, dim),
        Clash::Layouts => Stop::Cause(why.to_owned()),
    }
}

/// A shape with the sizes of whole arrays.
pub fn whole_shape(shape: &Shape, leaves: &mut dyn Iterator<Item = Vec<Dim>>) -> Shape {
    match shape {
        Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(|part| whole_shape(part, leaves)).collect()),
        Shape::Array(array) => {
            let dims = leaves.next().unwrap_or_default();
            Shape::Array(ArrayShape::new(array.dtype, &sizes(&dims)))
        }
        other => {
            leaves.next();
            other.clone()
        }
    }
}
