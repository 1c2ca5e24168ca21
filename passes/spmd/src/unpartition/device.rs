//! Small integers that differ from device to device: where a device's tiles start, worked out by running what
//! computes them.

use phzc_ir::dtype::Class;
use phzc_ir::eval::{Options, eval};
use phzc_ir::{CompId, Computation, Instr, InstrId, Module, Opcode, Shape};

/// Longer arrays are no tables of offsets.
const MAX_ELEMENTS: f64 = 4096.0;

/// Per instruction its elements on each device, where these follow from the device's number.
pub type PerDevice = Vec<Option<Vec<Vec<i64>>>>;

/// What a computation works out of the device's number.
pub fn per_device(module: &Module, comp: CompId, n_devices: usize) -> PerDevice {
    let old = module.comp(comp);
    let mut found = vec![None; old.instrs.len()];
    let (is_known, differs) = known(old);
    if !differs.iter().any(|&differs| differs) {
        return found;
    }
    let kept: Vec<InstrId> = old.iter().map(|(id, _)| id).filter(|id| is_known[id.index()]).collect();
    let module = cut_out(module, old, &kept);
    let Ok(values) = eval(&module, &vec![Vec::new(); n_devices], &Options::default()) else { return found };
    let leaves: Vec<_> = values.iter().map(|value| value.leaves()).collect();
    for (at, id) in kept.iter().enumerate().filter(|(_, id)| differs[id.index()]) {
        let of_device = |leaves: &Vec<&phzc_ir::eval::Array>| {
            leaves[at].to_f64_vec().into_iter().map(|element| element as i64).collect()
        };
        found[id.index()] = Some(leaves.iter().map(of_device).collect());
    }
    found
}

/// What follows from constants and the device's number, and what of it from the latter.
fn known(comp: &Computation) -> (Vec<bool>, Vec<bool>) {
    let (mut is_known, mut differs): (Vec<bool>, Vec<bool>) = (Vec::new(), Vec::new());
    for instr in &comp.instrs {
        let is_source = matches!(instr.op, Opcode::PartitionId | Opcode::ReplicaId);
        let follows = instr.operands.iter().all(|id| is_known[id.index()]);
        is_known.push(follows && is_small(instr) && (is_source || is_plain(instr)));
        let reads = instr.operands.iter().any(|id| differs[id.index()]);
        differs.push(is_known[is_known.len() - 1] && (is_source || reads));
    }
    (is_known, differs)
}

fn is_small(instr: &Instr) -> bool {
    let is_integer = |class| matches!(class, Class::Signed | Class::Unsigned | Class::Bool);
    let array = instr.shape.as_array();
    array.is_some_and(|array| array.n_elements() <= MAX_ELEMENTS && is_integer(array.dtype.class()))
}

fn is_plain(instr: &Instr) -> bool {
    use Opcode::{
        Bitcast, Broadcast, Concatenate, Constant, Copy, DynamicSlice, Iota, Pad, Reshape, Slice, Transpose,
    };
    let moves = matches!(instr.op, Bitcast | Broadcast | Concatenate | Copy | DynamicSlice | Pad);
    moves
        || matches!(instr.op, Constant | Iota | Reshape | Slice | Transpose)
        || phzc_ir::eval::is_elementwise(instr.op)
}

/// The program that makes these values and no others.
fn cut_out(module: &Module, old: &Computation, kept: &[InstrId]) -> Module {
    let mut place = vec![InstrId::new(0); old.instrs.len()];
    let mut instrs: Vec<Instr> = Vec::new();
    for &id in kept {
        place[id.index()] = InstrId::new(instrs.len());
        let mut instr = old.instr(id).clone();
        instr.operands.iter_mut().for_each(|operand| *operand = place[operand.index()]);
        instrs.push(instr);
    }
    let root = Instr {
        name: "unpartition.root".into(),
        operands: (0..instrs.len()).map(InstrId::new).collect(),
        shape: Shape::Tuple(instrs.iter().map(|instr| instr.shape.clone()).collect()),
        ..Instr::nothing(phzc_ir::Span::default())
    };
    instrs.push(root);
    let root = InstrId::new(instrs.len() - 1);
    let comp = Computation { name: "unpartition".into(), instrs, root, thread: None };
    Module { comps: vec![comp], attrs: module.attrs.clone(), ..Module::empty() }
}
