//! The reference evaluator: what a module computes, on one device or on several in lock-step.
//!
//! It is the meaning of the IR in code: slow beside a compiler, simple beside one too. Overflow wraps
//! around, integer division by zero is -1 (all ones), comparisons with NaN are false, starts of dynamic
//! slices are clamped, as XLA's operation semantics document. Floats narrower than `f32` are computed in
//! `f32` and rounded after every op; products of them add up in `f32`. Sums are taken in a fixed tree, so
//! results do not depend on the number of threads; they may depend on the processor's instructions.
//!
//! How an opcode is evaluated is a part of its [`OpDef`](crate::opcode::OpDef), one file per family here.
//! Several devices run instruction by instruction: a value then has one *lane* per device, and
//! collectives combine lanes. A computation of scalars (of `reduce`, `map`, `sort`, …) is run on whole
//! arrays at once where all its ops are elementwise.

pub(crate) mod batch_norm;
pub(crate) mod binary;
mod bits;
pub(crate) mod border;
pub(crate) mod collective;
mod combine;
pub(crate) mod contract;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod convolution;
mod describe;
mod digest;
mod draw;
pub(crate) mod gather;
mod inputs;
pub(crate) mod linalg;
mod literal;
mod machine;
mod map;
pub(crate) mod movement;
mod number;
mod plan;
pub(crate) mod random;
pub(crate) mod reduce;
mod role;
mod round;
pub(crate) mod select;
mod shards;
pub(crate) mod sort;
pub(crate) mod source;
mod trace;
pub(crate) mod unary;
mod value;
pub(crate) mod window;

#[cfg(test)]
pub(crate) mod check;

pub use inputs::{Inputs, Second, filled, inputs, inputs_within};
pub use literal::{literal, n_elided};
pub use shards::{join, split};
pub use value::{Array, Buf, Data, Element, Sizes, Value};

pub(crate) use machine::{Joint, Machine};

use crate::border as regions;
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::module::{CompId, Module};
use crate::opcode::Opcode;
use crate::shape::Shape;
use crate::view::View;

/// How an opcode is evaluated.
#[derive(Clone, Copy)]
pub(crate) enum Evaluation {
    /// Not at all: it has no meaning of its own, or none here yet.
    Undefined,
    /// On each device alone.
    Local(Local),
    /// On each device alone, element by element: it means the same of scalars and of arrays.
    Elementwise(Local),
    /// On all devices together.
    Joint(AllDevices),
}

/// One device's result from its operands.
pub(crate) type Local = fn(&Call, Vec<Value>) -> Result<Value>;
/// All devices' results from their operands: per operand, per device.
pub(crate) type AllDevices = fn(&Joint, Vec<Lanes>) -> Result<Lanes>;
/// One value per device.
pub(crate) type Lanes = Vec<Value>;

/// An instruction that is evaluated on one device.
pub(crate) struct Call<'a> {
    /// The instruction.
    pub view: View<'a>,
    machine: &'a Machine<'a>,
}

impl Call<'_> {
    /// The result of a computation.
    pub fn apply(&self, comp: CompId, args: Vec<Value>) -> Result<Value> {
        let mut lanes = self.machine.run(comp, 1, args.into_iter().map(|arg| vec![arg]).collect())?;
        lanes.pop().ok_or_else(|| Diagnostic::error("a computation made nothing"))
    }

    /// Errors on an array of intermediate results above the limit.
    pub fn check_size(&self, dtype: DType, dims: &[i64]) -> Result<()> {
        machine::check_size(&Shape::array(dtype, dims), self.machine.options)
    }

    /// Whether a computation of scalars means the same on arrays.
    pub fn is_elementwise(&self, comp: CompId) -> bool {
        self.machine.is_elementwise(comp)
    }
}

/// What a run may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fills constants whose elements were left out of the text (`{...}`) with numbers that follow from
    /// this seed; without it they are an error.
    pub fill_elided: Option<u64>,
    /// The largest array (bytes as stored).
    pub max_array_bytes: f64,
    /// Trips after which a loop counts as endless.
    pub max_trips: u64,
    /// Runs a part of the partitions that the program is for: those from this one on, as many as there are
    /// inputs for. They may only communicate among themselves.
    pub first_device: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { fill_elided: None, max_array_bytes: 8e9, max_trips: 10_000_000, first_device: None }
    }
}

/// Runs the entry computation of a verified module on one device.
///
/// # Errors
/// As [`eval`].
pub fn run(module: &Module, inputs: &[Value], options: &Options) -> Result<Value> {
    // What regions of one device's part compute, their devices do together.
    let n_devices = if regions::has_regions(module) { regions::n_devices(module) } else { 1 };
    let mut results = eval(module, &vec![inputs.to_vec(); n_devices], options)?;
    results.pop().ok_or_else(|| Diagnostic::error("the program made nothing"))
}

/// Runs the entry computation of a verified module on as many devices as there are lists of inputs.
///
/// `inputs[device][parameter]`; the answer has one value per device. Devices are numbered as in XLA: with
/// `replica_count=r` in the header, device `d` of `n` is partition `d % (n/r)` of replica `d / (n/r)`.
///
/// # Errors
/// An opcode that is not evaluated, inputs that do not fit the parameters, elided constants, arrays above
/// the limit, devices that take different branches; the span is the instruction's.
pub fn eval(module: &Module, inputs: &[Vec<Value>], options: &Options) -> Result<Vec<Value>> {
    let machine = Machine::new(module, inputs.len(), options)?;
    machine.check_inputs(inputs)?;
    let n_params = module.entry().params().len();
    let lanes = |param: usize| inputs.iter().map(|own| own[param].clone()).collect();
    machine.run(module.entry, inputs.len(), (0..n_params).map(lanes).collect())
}

/// Whether the evaluator knows the opcode.
pub fn is_evaluated(op: Opcode) -> bool {
    let is_given = matches!(op, Opcode::Parameter | Opcode::Constant);
    is_given || !matches!(op.def().evaluation, Evaluation::Undefined)
}

/// Whether the opcode works element by element: what it makes of arrays, it makes of their elements.
pub fn is_elementwise(op: Opcode) -> bool {
    matches!(op.def().evaluation, Evaluation::Elementwise(_))
}

/// The error for an op on elements that it has no meaning for.
pub(crate) fn undefined(op: Opcode, dtype: DType) -> Diagnostic {
    Diagnostic::error(format!("`{}` of {} elements is not evaluated", op.as_str(), dtype.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evaluator_says_what_it_knows() {
        assert_eq!(
            [Opcode::Parameter, Opcode::Constant, Opcode::Add, Opcode::Scan].map(is_evaluated),
            [true, true, true, false]
        );
        assert_eq!(
            [Opcode::Add, Opcode::Select, Opcode::Dot, Opcode::Parameter].map(is_elementwise),
            [true, true, false, false]
        );
    }
}
