//! Faults planted in one instruction of a plan: its opcode, a constant, an operand, a slice, a dimension, its
//! layout, a sum, its stage.

use phzc_ir::layout::AXIS_NAMES;
use phzc_ir::{Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Sharding, Value};

/// An instruction with a fault; `None` where it cannot have it.
pub type Plant = fn(&Module, InstrId) -> Option<Instr>;

pub fn opcode(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    instr.op = match instr.op {
        Opcode::Add => Opcode::Subtract,
        Opcode::Multiply => Opcode::Add,
        Opcode::Exponential => Opcode::Tanh,
        Opcode::Maximum => Opcode::Minimum,
        _ => return None,
    };
    Some(instr)
}

pub fn constant(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    let Payload::Literal(text) = &instr.payload else { return None };
    let number: f64 = text.parse().ok().filter(|x: &f64| x.is_finite())?;
    instr.payload = Payload::Literal(format!("{}", number + 1.0).into());
    Some(instr)
}

/// Reads another value of the same type and layout.
pub fn operand(module: &Module, id: InstrId) -> Option<Instr> {
    let (entry, mut instr) = (module.entry(), module.entry().instr(id).clone());
    let wanted = entry.instr(*instr.operands.first()?);
    let is_like = |(other, found): &(InstrId, &Instr)| {
        found.shape.same_type(&wanted.shape)
            && found.sharding() == wanted.sharding()
            && found.note("phzc.partial") == wanted.note("phzc.partial")
            && found.shape.as_array().is_some_and(|array| array.rank() > 0)
            && *other != instr.operands[0]
            && found.op != wanted.op
    };
    let (other, _) = entry.iter().take(id.index()).filter(is_like).last()?;
    instr.operands[0] = other;
    Some(instr)
}

pub fn slice(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    let size = module.entry().instr(*instr.operands.first()?).shape.as_array()?.dims.clone();
    let attr = instr.attrs.iter_mut().find(|attr| attr.key == Key::Slice)?;
    let Value::Slices(slices) = &mut attr.value else { return None };
    let (slice, size) =
        slices.iter_mut().zip(size).find(|(slice, size)| slice.limit - slice.start < *size)?;
    let by = if slice.limit < size { 1 } else { -1 };
    (slice.start, slice.limit) = (slice.start + by, slice.limit + by);
    Some(instr)
}

/// Swaps two dimensions of one size.
pub fn dimension(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    if !matches!(instr.op, Opcode::Transpose | Opcode::Broadcast | Opcode::Reduce) {
        return None;
    }
    let source = module.entry().instr(*instr.operands.first()?).shape.as_array()?;
    let array = if instr.op == Opcode::Broadcast { instr.shape.as_array()? } else { source };
    let dims = array.dims.clone();
    let attr = instr.attrs.iter_mut().find(|attr| attr.key == Key::Dimensions)?;
    let Value::Ints(ints) = &mut attr.value else { return None };
    let first = *ints.first()?;
    let like = |dim: &i64| *dim != first && dims[*dim as usize] == dims[first as usize];
    let other = (0..dims.len() as i64).find(like)?;
    ints.iter_mut().for_each(|dim| {
        *dim = if *dim == first {
            other
        } else if *dim == other {
            first
        } else {
            *dim
        }
    });
    if instr.op == Opcode::Reduce || instr.op == Opcode::Broadcast {
        ints.sort_unstable();
    }
    Some(instr)
}

/// Moves a mesh axis to another dimension.
pub fn layout(module: &Module, id: InstrId) -> Option<Instr> {
    let mesh = Mesh::parse(&module.note("phzc.mesh")?).ok()?;
    let mut instr = module.entry().instr(id).clone();
    let rank = instr.shape.as_array()?.rank();
    let Sharding::Single(tiling) = instr.sharding()? else { return None };
    let layout = Layout::from_tiling(tiling, rank, &mesh)?;
    let (axis, dim) = (0..mesh.n_axes()).find_map(|axis| Some((axis, layout.dim_of(axis)?)))?;
    let moved = layout.with(axis, Some((dim + 1) % rank));
    let dims = &instr.shape.as_array()?.dims;
    let tiling = (moved != layout && moved.divides(dims, &mesh)).then(|| moved.to_tiling(rank, &mesh))?;
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling))));
    Some(instr)
}

/// A sum over devices that is not to be done any more.
pub fn sum(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    instr.note("phzc.partial")?;
    instr.remove_note("phzc.partial");
    Some(instr)
}

/// A sum over other groups of devices.
pub fn group(module: &Module, id: InstrId) -> Option<Instr> {
    let mesh = Mesh::parse(&module.note("phzc.mesh")?).ok()?;
    let mut instr = module.entry().instr(id).clone();
    let partial = instr.note("phzc.partial")?;
    let is_other = |name: &&&str| !partial.contains(**name);
    // Of several axes all but the first; of one another.
    let other = match partial.get(1..).filter(|rest| !rest.is_empty()) {
        Some(rest) => rest.to_owned(),
        None => AXIS_NAMES[..mesh.n_axes()].iter().find(is_other)?.to_string(),
    };
    instr.set_note("phzc.partial", &other);
    Some(instr)
}

/// The next stage, or the one before.
pub fn cut(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    let stage: usize = instr.note("phzc.stage")?.parse().ok()?;
    instr.set_note("phzc.stage", &(stage ^ 1).to_string());
    Some(instr)
}

/// The plan with the fault in one instruction of the entry, if it can have it and the program is legal then.
pub fn planted(plan: &Module, fault: Plant, id: InstrId) -> Option<Module> {
    let mut faulty = plan.clone();
    let entry = faulty.entry.index();
    faulty.comps[entry].instrs[id.index()] = fault(plan, id)?;
    phzc_ir::verify(&faulty).is_empty().then_some(faulty)
}
