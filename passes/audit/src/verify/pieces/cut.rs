//! Cuts a piece out of a plan and out of its program, as two programs of their own that take the same inputs.
//!
//! ```text
//! plan                                        the piece of y, on the mesh x=2
//! h = f32[8,8] dot(…), partial over x         p0 = f32[2,8,8] parameter(0), split over x in dimension 0
//!                                             p0.sum = f32[8,8] reduce(p0, 0), dimensions={0}, partial over x
//! y = f32[8,8] negate(h), partial over x      n0 = f32[8,8] negate(p0.sum), partial over x
//!                                             n0.whole = f32[8,8] custom-call(n0), whole    // what is compared
//! ```
//!
//! Values that are made outside of the piece are parameters, in the layouts that their makers have in the
//! plan. One that is still a sum there is the sum of as many summands, each an input. Free values are made
//! anew.

use super::claims::{Claims, Piece};
use super::of_plan::PlanCut;
use super::of_program::ProgramCut;
use super::text::Made;
use super::values::Values;
use phzc_ir::effects::has_side_effect;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{ArrayShape, Computation, Instr, InstrId, Mesh, Module, Opcode};
use phzc_plan::derive::Facts;
use phzc_plan::pricing::{AxisMask, axes_of};

/// More instructions than this are in no piece.
pub const MAX_INSTRS: usize = 400;
/// As many instructions more than its plan a program's piece may have for each level.
const MIN_BUDGET: usize = 16;

/// A plan, its program and what the one claims about the other.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    /// The plan, of one stage.
    pub plan: &'a Module,
    /// What its text says.
    pub facts: &'a Facts,
    /// The program.
    pub program: &'a Values<'a>,
    /// The claims.
    pub claims: &'a Claims,
}

/// A value that a piece reads.
pub struct Border {
    /// Which.
    pub value: Made,
    /// Its shape.
    pub shape: ArrayShape,
    /// The axes over which the plan has summands of it.
    pub partial: AxisMask,
}

/// The piece of the program and that of the plan; `None` where it cannot be cut out. The plan's has what it
/// reads up to `levels` instructions further back.
pub fn cut(whole: Whole, piece: &Piece, levels: usize) -> Option<[Module; 2]> {
    let mut of_plan = PlanCut::new(whole, piece.pair, levels);
    let mut made = Vec::new();
    for &leaf in &piece.made {
        let id = of_plan.leaf(leaf, 0, true)?;
        made.push(of_plan.whole(leaf, id));
    }
    let budget = match piece.is_by_name || levels > 0 {
        true => MIN_BUDGET * (levels + 1) + 2 * of_plan.n_makers(),
        false => 0,
    };
    let (borders, names) = of_plan.borders();
    let n_read = borders.len();
    let mut of_program = ProgramCut::new(whole, piece.pair, (borders, names), budget);
    let wanted = piece.wanted.iter().map(|&value| of_program.value(value, true));
    let wanted: Vec<InstrId> = wanted.collect::<Option<_>>()?;
    let (borders, program) = of_program.finish(&wanted)?;
    let plan = of_plan.finish(&made, borders, n_read)?;
    Some([program, plan])
}

/// Whether an instruction can stand in a piece: control flow, and what takes tuples or has effects, cannot.
pub fn is_copied(comp: &Computation, instr: &Instr) -> bool {
    let is_array = |id: &InstrId| comp.instr(*id).shape.as_array().is_some();
    let is_made = instr.shape.leaves().iter().all(|leaf| leaf.as_array().is_some());
    instr.op != Opcode::Parameter
        && control_comps(instr).is_empty()
        // Custom calls that are evaluated at all mark layouts, with an effect or without.
        && (instr.op == Opcode::CustomCall || !has_side_effect(instr))
        && is_made
        && instr.operands.iter().all(is_array)
}

/// Whether no piece makes an instruction's value: the caller does, or pieces of other computations.
pub fn is_given(instr: &Instr) -> bool {
    instr.op == Opcode::Parameter || !control_comps(instr).is_empty()
}

/// The parameter of a border: of its shape, or its summands side by side.
pub fn param_shape(border: &Border, mesh: &Mesh) -> ArrayShape {
    let mut shape = ArrayShape::new(border.shape.dtype, &border.shape.dims);
    shape.dynamic = border.shape.dynamic;
    if border.partial != 0 {
        shape.dims.insert(0, axes_of(border.partial).map(|axis| mesh.sizes[axis]).product());
    }
    shape
}
