//! Running computations: instruction by instruction, all devices together, values dropped after their last
//! use.

use super::plan::Plan;
use super::value::sizes;
use super::{Call, Evaluation, Lanes, Options, Value, literal};
use crate::attr::Key;
use crate::device_groups::Devices;
use crate::diag::{Diagnostic, Result};
use crate::dtype::Class;
use crate::module::{CompId, Instr, InstrId, Module, Payload};
use crate::opcode::Opcode;
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use std::sync::OnceLock;

/// A module being run.
pub(crate) struct Machine<'a> {
    pub module: &'a Module,
    pub devices: Devices,
    pub options: &'a Options,
    plans: Vec<OnceLock<Plan>>,
}

/// An instruction that is evaluated on all devices together.
pub(crate) struct Joint<'a> {
    /// The instruction.
    pub view: View<'a>,
    /// The run that it belongs to.
    pub machine: &'a Machine<'a>,
    /// Number of lanes.
    pub n_lanes: usize,
}

impl<'a> Joint<'a> {
    /// The same instruction on one lane.
    pub fn call(&self) -> Call<'a> {
        Call { view: self.view, machine: self.machine }
    }
}

impl<'a> Machine<'a> {
    pub fn new(module: &'a Module, n_devices: usize, options: &'a Options) -> Result<Machine<'a>> {
        let devices = Devices::of(module, n_devices, options.first_device)?;
        let plans = module.comps.iter().map(|_| OnceLock::new()).collect();
        Ok(Machine { module, devices, options, plans })
    }

    /// Errors unless every device has a value of the right shape for each parameter of the entry.
    pub fn check_inputs(&self, inputs: &[Vec<Value>]) -> Result<()> {
        let entry = self.module.entry();
        let params = entry.params();
        for own in inputs {
            if own.len() != params.len() {
                let (wanted, found) = (params.len(), own.len());
                return Err(Diagnostic::error(format!("the program takes {wanted} inputs, got {found}")));
            }
            for (&id, value) in params.iter().zip(own) {
                let instr = entry.instr(id);
                if !value.has_shape(&instr.shape) {
                    let wanted = crate::ops::describe(&instr.shape);
                    let found = value.type_text();
                    let message = format!("the input for `{}` should be {wanted}, got {found}", instr.name);
                    return Err(Diagnostic::error(message).at(instr.span));
                }
            }
        }
        Ok(())
    }

    fn plan(&self, comp: CompId) -> &Plan {
        self.plans[comp.index()].get_or_init(|| Plan::new(self.module.comp(comp)))
    }

    /// The computation's result on `n_lanes` lanes; `args` is per parameter.
    pub fn run(&self, comp: CompId, n_lanes: usize, args: Vec<Lanes>) -> Result<Lanes> {
        let (body, plan) = (self.module.comp(comp), self.plan(comp));
        let mut args: Vec<Option<Lanes>> = args.into_iter().map(Some).collect();
        let mut values: Vec<Option<Lanes>> = vec![None; body.instrs.len()];
        for (id, instr) in body.iter().filter(|(id, _)| plan.is_needed(*id)) {
            let made = match instr.param_number() {
                Some(number) => Ok(args.get_mut(number as usize).and_then(Option::take)),
                None => self.step(comp, id, n_lanes, &mut values).map(Some),
            };
            values[id.index()] = made.map_err(|error| located(error, instr, &body.name))?;
        }
        let root = values[body.root.index()].take();
        root.ok_or_else(|| Diagnostic::error(format!("`{}` lacks an argument", body.name)))
    }

    fn step(&self, comp: CompId, id: InstrId, n_lanes: usize, values: &mut [Option<Lanes>]) -> Result<Lanes> {
        let (view, plan) = (View::new(self.module, comp, id), self.plan(comp));
        let instr = view.instr;
        if instr.op == Opcode::GetTupleElement && plan.may_take_element(id) {
            return element(instr, values);
        }
        let operands = instr.operands.iter().enumerate().map(|(at, operand)| {
            let slot = &mut values[operand.index()];
            let value = if plan.is_last_use(id, at) { slot.take() } else { slot.clone() };
            value.ok_or_else(|| Diagnostic::error("an operand has no value"))
        });
        let operands: Vec<Lanes> = operands.collect::<Result<_>>()?;
        check_size(&instr.shape, self.options)?;
        check_room(&instr.shape, n_lanes)?;
        if let Payload::Literal(text) = &instr.payload {
            let constant =
                plan.constant(id, || literal::parse(text, &instr.shape, self.options.fill_elided))?;
            return Ok(vec![constant; n_lanes]);
        }
        match instr.op.def().evaluation {
            Evaluation::Undefined => Err(not_evaluated(instr)),
            Evaluation::Joint(eval) => eval(&Joint { view, machine: self, n_lanes }, operands),
            Evaluation::Local(eval) | Evaluation::Elementwise(eval) => {
                let call = Call { view, machine: self };
                by_lane(operands, n_lanes).into_iter().map(|args| eval(&call, args)).collect()
            }
        }
    }

    /// Whether the computation of scalars means the same on arrays.
    pub fn is_elementwise(&self, comp: CompId) -> bool {
        self.plan(comp).is_elementwise(|| {
            self.module.comp(comp).instrs.iter().all(|instr| {
                let nested = matches!(instr.op, Opcode::Call | Opcode::Fusion);
                if nested { instr.called().all(|comp| self.is_elementwise(comp)) } else { is_liftable(instr) }
            })
        })
    }
}

/// Ops on scalars whose evaluation reads sizes off their operands and not off the text.
fn is_liftable(instr: &Instr) -> bool {
    use Opcode::{Broadcast, Constant, GetTupleElement, Parameter, Reshape, Tuple};
    let is_scalar =
        instr.shape.leaves().iter().all(|leaf| leaf.as_array().is_some_and(|shape| shape.rank() == 0));
    let is_elementwise = matches!(instr.op.def().evaluation, Evaluation::Elementwise(_));
    let passes = matches!(instr.op, Broadcast | Constant | GetTupleElement | Parameter | Reshape | Tuple);
    is_scalar && (is_elementwise || passes)
}

/// Errors on arrays above the limit, before anything is allocated for them.
pub(crate) fn check_size(shape: &Shape, options: &Options) -> Result<()> {
    let mut largest = 0f64;
    shape.for_each_leaf(&mut |leaf| largest = largest.max(leaf.as_array().map_or(0.0, stored_bytes)));
    if largest <= options.max_array_bytes {
        return Ok(());
    }
    let (gigabytes, limit) = (largest / 1e9, options.max_array_bytes / 1e9);
    Err(Diagnostic::error(format!("an array of {gigabytes:.1} GB is above the limit of {limit:.1} GB")))
}

/// Errors where the system would not give the memory for a value on all lanes, and as much again to make it
/// in: what fails within an operation ends the process.
pub(crate) fn check_room(shape: &Shape, n_lanes: usize) -> Result<()> {
    let mut bytes = 0f64;
    shape.for_each_leaf(&mut |leaf| bytes += leaf.as_array().map_or(0.0, stored_bytes));
    let wanted = 2.0 * bytes * n_lanes as f64;
    if wanted < LARGE_BYTES {
        return Ok(());
    }
    let mut probe = Vec::<u8>::new();
    probe.try_reserve_exact((wanted + LARGE_BYTES) as usize).map_err(|_| {
        let message = format!("there is no memory for {:.1} GB", bytes * n_lanes as f64 / 1e9);
        Diagnostic::error(message).help("run on smaller sizes (`phzc convert --shrink`) or on fewer devices")
    })
}

/// Values of fewer bytes are made without asking for memory first.
const LARGE_BYTES: f64 = 16e6;

/// Bytes of the array in the evaluator's storage; infinite where a size is not fixed.
fn stored_bytes(shape: &ArrayShape) -> f64 {
    let width = match shape.dtype.class() {
        Class::Bool => 1.0,
        Class::Signed | Class::Unsigned => 8.0,
        Class::Float | Class::Complex => f64::from(shape.dtype.bits().max(32)) / 8.0,
    };
    if sizes(&shape.dims).is_ok() { shape.n_elements() * width } else { f64::INFINITY }
}

/// Takes one part out of a tuple whose other parts alone are read later.
fn element(instr: &Instr, values: &mut [Option<Lanes>]) -> Result<Lanes> {
    let lanes = values[instr.operands[0].index()].as_mut();
    let lanes = lanes.ok_or_else(|| Diagnostic::error("an operand has no value"))?;
    let index = instr.int(Key::Index).map_or(0, |index| index as usize);
    let taken = lanes.iter_mut().map(|value| match value {
        Value::Tuple(parts) => parts.get_mut(index).map(|part| std::mem::replace(part, Value::Token)),
        _ => None,
    });
    taken.collect::<Option<_>>().ok_or_else(|| Diagnostic::error("`get-tuple-element` needs a tuple"))
}

/// Operands per lane, of lanes per operand.
fn by_lane(operands: Vec<Lanes>, n_lanes: usize) -> Vec<Vec<Value>> {
    let mut lanes: Vec<Vec<Value>> = (0..n_lanes).map(|_| Vec::with_capacity(operands.len())).collect();
    for operand in operands {
        lanes.iter_mut().zip(operand).for_each(|(lane, value)| lane.push(value));
    }
    lanes
}

fn not_evaluated(instr: &Instr) -> Diagnostic {
    Diagnostic::error(format!("`{}` is not evaluated", instr.op.as_str()))
}

/// The innermost instruction is the place of an error.
fn located(error: Diagnostic, instr: &Instr, comp: &str) -> Diagnostic {
    if error.span.is_some() {
        return error;
    }
    error.at(instr.span).note(None, format!("in `{}` of computation `{comp}`", instr.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn what_no_memory_is_for_is_an_error() {
        let room = |n_elements: i64| check_room(&Shape::array(DType::F32, &[n_elements]), 8);
        assert!(room(1 << 20).is_ok());
        let error = room(1 << 60).expect_err("no machine has it");
        assert!(error.message.starts_with("there is no memory for 36893488147.4 GB"), "{error}");
    }
}
