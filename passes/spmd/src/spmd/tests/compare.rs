//! Runs a program whole and in parts and compares: results, and collectives with those that were priced.

use super::Random;
use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Options, Value, eval, join, run, split};
use phzc_ir::flops::{Runs, multiplicities};
use phzc_ir::{CompId, Instr, InstrId, Layout, Module, Opcode, Shape};
use phzc_passes::derive::{Facts, derive, planned_comps};
use std::collections::BTreeMap;

/// What differs between `whole` and its program for one device, of which `facts` are of the planned text.
pub fn difference(
    whole: &Module,
    (planned, facts): (&Module, &Facts),
    local: &Module,
    random: &mut Random,
) -> Option<String> {
    let errors = phzc_ir::verify(local);
    if !errors.is_empty() {
        return Some(format!("{errors:?}"));
    }
    let (priced, found) = (priced(facts, planned), counted(local));
    if priced != found {
        return Some(format!("priced {priced:?}, found {found:?}"));
    }
    // The device's program, priced, costs the same.
    let again = derive(local).map(|facts| self::priced(&facts, local)).unwrap_or_default();
    if priced != again {
        return Some(format!("priced {priced:?}, and as instructions {again:?}"));
    }
    values(whole, (planned, facts), local, random).unwrap_or_else(|error| Some(error.to_string()))
}

/// Which results differ.
pub fn values(
    whole: &Module,
    (planned, facts): (&Module, &Facts),
    local: &Module,
    random: &mut Random,
) -> phzc_ir::Result<Option<String>> {
    let mesh = &facts.header.meshes[0];
    let layouts = |id: InstrId| -> Vec<Layout> {
        let leaves = &facts.comps[planned.entry.index()][id.index()].leaves;
        leaves.iter().map(|leaf| leaf.layout).collect()
    };
    let inputs: Vec<Value> = whole
        .entry()
        .params()
        .iter()
        .map(|&id| Value::Array(integers(&whole.entry().instr(id).shape, random)))
        .collect();
    let wanted = run(whole, &inputs, &Options::default())?;
    let mut parts: Vec<Vec<Value>> = vec![Vec::new(); mesh.n_devices() as usize];
    for (value, &id) in inputs.iter().zip(&planned.entry().params()) {
        let cut = split(value, &layouts(id), mesh)?;
        parts.iter_mut().zip(cut).for_each(|(own, part)| own.push(part));
    }
    let made = eval(local, &parts, &Options::default())?;
    let made = join(&made, &layouts(planned.entry().root), mesh)?;
    let pairs = wanted.leaves().into_iter().zip(made.leaves()).enumerate();
    let differs = pairs.filter(|(_, (wanted, made))| wanted != made).map(|(index, _)| index);
    let differs: Vec<usize> = differs.collect();
    Ok((!differs.is_empty()).then(|| format!("outputs {differs:?} differ: {wanted:?} and {made:?}")))
}

/// Small integers, of whatever type.
pub fn integers(shape: &Shape, random: &mut Random) -> Array {
    let array = shape.as_array().expect("programs take arrays");
    let dims: Vec<usize> = array.dims.iter().map(|&size| size as usize).collect();
    let n: usize = dims.iter().product();
    let made = match array.dtype.class() {
        Class::Float => {
            Array::from_vec(array.dtype, &dims, (0..n).map(|_| random.below(7) as f32 - 3.0).collect())
        }
        // Some are below, some above what they index.
        _ => Array::from_vec(array.dtype, &dims, (0..n).map(|_| random.below(20) as i64 - 2).collect()),
    };
    made.expect("as many elements as the sizes say")
}

/// Executions and bytes by kind.
type Totals = BTreeMap<String, (f64, f64)>;

fn priced(facts: &Facts, module: &Module) -> Totals {
    let mut totals = Totals::new();
    for comp in planned_comps(module) {
        let times = facts.executions[comp.index()];
        for step in facts.comps[comp.index()].iter().flat_map(|own| &own.steps) {
            let total = totals.entry(step.kind.to_string()).or_default();
            *total = (total.0 + times, total.1 + times * step.bytes);
        }
    }
    totals
}

/// Bytes are those of the operand, of an all-gather those of the result.
fn counted(module: &Module) -> Totals {
    let mut totals = Totals::new();
    let times = multiplicities(module, Runs::Trips);
    for (index, comp) in module.comps.iter().enumerate() {
        for instr in comp.instrs.iter().filter(|instr| is_collective(instr)) {
            let source = match instr.op {
                Opcode::AllGather => &instr.shape,
                _ => &comp.instr(instr.operands[0]).shape,
            };
            let times = times[CompId::new(index).index()];
            let total = totals.entry(instr.op.as_str().to_owned()).or_default();
            *total = (total.0 + times, total.1 + times * source.bytes());
        }
    }
    totals
}

fn is_collective(instr: &Instr) -> bool {
    use Opcode::{AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter};
    matches!(instr.op, AllGather | AllReduce | AllToAll | CollectivePermute | ReduceScatter)
}
