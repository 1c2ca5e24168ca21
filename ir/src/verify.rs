//! The verifier: every broken rule, each tied to its instruction. After it passes, no pass panics on the
//! module.
//!
//! Structure (if one of these is broken, types are not looked at):
//! - a module has computations, its entry is one of them, and nothing calls the entry;
//! - a computation has instructions, and its root is one of them;
//! - names are unique: computations in the module, instructions in their computation;
//! - operands come before their instruction, called computations before their caller, at most
//!   [`MAX_NESTING`] deep;
//! - parameters, and only they, have parameter numbers, constants literals;
//! - parameter numbers are 0, 1, …, each once; no attribute is given twice;
//! - arrays have at most 32 dimensions of known, non-negative sizes and at most 2^62 elements, and a
//!   physical layout names each dimension once.
//!
//! Types:
//! - the number of operands is legal;
//! - attributes are there, in range and consistent with the operands, and the shape is the one that follows
//!   from them, up to physical layout and dynamic marks;
//! - a called computation takes what it is given and returns what is made of it; a computation that an op
//!   applies to scalars has at most [`MAX_APPLIED`] instructions, those it calls included;
//! - a sharding has a layout per leaf, tile counts for each dimension and names each device once.

mod sharding;

use crate::diag::{Diagnostic, counted};
use crate::module::{CompId, Computation, Instr, Module, Payload};
use crate::opcode::{Arity, Opcode};
use crate::ops::describe;
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Computations call each other at most this deep.
pub const MAX_NESTING: u32 = 256;
/// Instructions of a computation that an op applies to scalars.
pub const MAX_APPLIED: u64 = 4096;
/// Elements of an array.
pub const MAX_ELEMENTS: i64 = 1 << 62;

/// Every broken rule of the module, in program order; none when it is well-formed.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    let mut found = Found { diagnostics: Vec::new() };
    structure(module, &mut found);
    if found.diagnostics.is_empty() {
        module.comps.iter().for_each(|comp| types(module, comp, &mut found));
    }
    found.diagnostics
}

/// The diagnostics so far.
struct Found {
    diagnostics: Vec<Diagnostic>,
}

impl Found {
    fn module(&mut self, message: String) {
        self.diagnostics.push(Diagnostic::error(message));
    }

    fn comp(&mut self, comp: &Computation, message: String) {
        let note = format!("in computation `{}`", comp.name);
        self.diagnostics.push(Diagnostic::error(message).note(None, note));
    }

    fn instr(&mut self, comp: &Computation, instr: &Instr, message: String) {
        let note = format!("in `{}` of computation `{}`", instr.name, comp.name);
        self.diagnostics.push(Diagnostic::error(message).at(instr.span).note(None, note));
    }
}

type Names<'a> = IndexSet<&'a str, FxBuildHasher>;

fn structure(module: &Module, found: &mut Found) {
    if module.entry.index() >= module.comps.len() {
        found.module("a module needs an entry computation".to_owned());
    }
    let mut names = Names::default();
    let mut nesting = Nesting::default();
    for (index, comp) in module.comps.iter().enumerate() {
        if !names.insert(&comp.name) {
            found.comp(comp, format!("computation `{}` is defined twice", comp.name));
        }
        computation(module, CompId::new(index), comp, found);
        nesting.push(comp, found);
    }
}

fn computation(module: &Module, id: CompId, comp: &Computation, found: &mut Found) {
    if comp.root.index() >= comp.instrs.len() {
        found.comp(comp, "a computation needs a root instruction".to_owned());
    }
    let mut names = Names::with_capacity_and_hasher(comp.instrs.len(), FxBuildHasher);
    let mut n_params = 0;
    for (index, instr) in comp.instrs.iter().enumerate() {
        if !names.insert(&instr.name) {
            found.instr(comp, instr, format!("`{}` is defined twice", instr.name));
        }
        if instr.operands.iter().any(|operand| operand.index() >= index) {
            found.instr(comp, instr, "an operand is not defined before its use".to_owned());
        }
        for callee in instr.called() {
            if callee == module.entry {
                found.instr(comp, instr, "the entry computation cannot be called".to_owned());
            } else if callee >= id {
                found.instr(comp, instr, "a computation must come before its caller".to_owned());
            }
        }
        n_params += usize::from(instr.op == Opcode::Parameter);
        match form(instr).and_then(|()| shape(&instr.shape)) {
            Ok(()) => {}
            Err(message) => found.instr(comp, instr, message),
        }
    }
    params(comp, n_params, found);
}

/// Payload and attributes, apart from their meaning.
fn form(instr: &Instr) -> Result<(), String> {
    let fits = match instr.payload {
        Payload::Parameter(_) => instr.op == Opcode::Parameter,
        Payload::Literal(_) => instr.op == Opcode::Constant,
        _ => !matches!(instr.op, Opcode::Parameter | Opcode::Constant),
    };
    if !fits {
        return Err(format!("`{}` lacks its number or literal, or has one too many", instr.op.as_str()));
    }
    for (index, attr) in instr.attrs.iter().enumerate() {
        if instr.attrs[..index].iter().any(|earlier| earlier.key == attr.key) {
            return Err(format!("`{}` is given twice", attr.key.as_str()));
        }
    }
    Ok(())
}

fn shape(shape: &Shape) -> Result<(), String> {
    match shape {
        Shape::Array(array) => array_shape(array),
        Shape::Tuple(parts) => parts.iter().try_for_each(self::shape),
        Shape::Buffer(inner) => self::shape(inner),
        Shape::Token | Shape::Opaque => Ok(()),
    }
}

fn array_shape(array: &ArrayShape) -> Result<(), String> {
    if array.dims.len() > 32 {
        return Err(format!("an array has at most 32 dimensions, got {}", array.dims.len()));
    }
    let mut n_elements = 1i64;
    for &size in &array.dims {
        if size < 0 {
            return Err(format!("the sizes of `{}` must be known", describe(&Shape::Array(array.clone()))));
        }
        n_elements = match n_elements.checked_mul(size.max(1)) {
            Some(product) if product <= MAX_ELEMENTS => product,
            _ => return Err(format!("`{}` has too many elements", describe(&Shape::Array(array.clone())))),
        };
    }
    let Some(layout) = &array.layout else { return Ok(()) };
    let named = layout.minor_to_major.iter().fold(0u64, |seen, &dim| seen | 1 << (dim & 63));
    if layout.minor_to_major.len() != array.dims.len() || named != (1u64 << array.dims.len()) - 1 {
        return Err(format!("a layout of rank {} must name every dimension once", array.dims.len()));
    }
    Ok(())
}

/// Numbers 0, 1, …, each once.
fn params(comp: &Computation, n_params: usize, found: &mut Found) {
    let mut seen = smallvec::SmallVec::<[bool; 32]>::from_elem(false, n_params);
    for instr in comp.instrs.iter().filter(|instr| instr.op == Opcode::Parameter) {
        let number = instr.param_number().unwrap_or(u32::MAX) as usize;
        match seen.get_mut(number) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => found.instr(comp, instr, format!("parameter {number} is defined twice")),
            None => {
                let known = counted(n_params, "parameter");
                let message = format!("the computation has {known}, numbered from 0, got parameter {number}");
                found.instr(comp, instr, message);
            }
        }
    }
}

/// Depth and unfolded size of every computation so far.
#[derive(Default)]
struct Nesting {
    depths: Vec<u32>,
    sizes: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, comp: &Computation, found: &mut Found) {
        let (mut depth, mut size) = (0, comp.instrs.len() as u64);
        for instr in &comp.instrs {
            for callee in instr.called() {
                let below = self.depths.get(callee.index()).copied().unwrap_or(0);
                let inside = self.sizes.get(callee.index()).copied().unwrap_or(0);
                if below + 1 == MAX_NESTING {
                    found.instr(
                        comp,
                        instr,
                        format!("computations call each other more than {MAX_NESTING} deep"),
                    );
                }
                if inside > MAX_APPLIED && is_applied(instr.op) {
                    let message =
                        format!("`{}` applies a computation of {inside} instructions", instr.op.as_str());
                    found.instr(comp, instr, format!("{message}, the most is {MAX_APPLIED}"));
                }
                depth = depth.max(below + 1);
                size = size.saturating_add(inside);
            }
        }
        self.depths.push(depth);
        self.sizes.push(size);
    }
}

/// Whether the op runs its computations on scalars, as part of its own work.
fn is_applied(op: Opcode) -> bool {
    use Opcode::{AsyncDone, AsyncStart, AsyncUpdate, Call, Conditional, CustomCall, Fusion, Scan, While};
    !matches!(
        op,
        AsyncDone | AsyncStart | AsyncUpdate | Call | Conditional | CustomCall | Fusion | Scan | While
    )
}

fn types(module: &Module, comp: &Computation, found: &mut Found) {
    for instr in &comp.instrs {
        let view = View { comps: &module.comps, instrs: &comp.instrs, instr };
        if let Err(message) = arity(instr).and_then(|()| inferred(&view)) {
            found.instr(comp, instr, message);
        } else if let Some(Err(message)) =
            instr.sharding().map(|sharding| sharding::check(sharding, &instr.shape))
        {
            found.instr(comp, instr, message);
        }
    }
}

fn arity(instr: &Instr) -> Result<(), String> {
    let (op, found) = (instr.op.as_str(), instr.operands.len());
    match instr.op.def().arity {
        Arity::Exactly(count) if count != found => {
            Err(format!("`{op}` takes {}, got {found}", counted(count, "operand")))
        }
        Arity::AtLeast(count) if count > found => {
            Err(format!("`{op}` takes at least {}, got {found}", counted(count, "operand")))
        }
        _ => Ok(()),
    }
}

fn inferred(view: &View) -> Result<(), String> {
    let (op, stated) = (view.instr.op, &view.instr.shape);
    match (op.def().infer)(view)? {
        Some(shape) if shape.same_type(stated) => Ok(()),
        Some(shape) => Err(format!("`{}` makes {}, not {}", op.as_str(), describe(&shape), describe(stated))),
        None if stated.parts().is_empty() && matches!(stated, Shape::Tuple(_)) && !may_be_empty(op) => {
            Err(format!("`{}` does not make an empty tuple", op.as_str()))
        }
        None => Ok(()),
    }
}

/// Ops without inference whose value may be `()`.
fn may_be_empty(op: Opcode) -> bool {
    use Opcode::{AsyncDone, Constant, CustomCall, Infeed, Parameter, RecvDone, Scan};
    matches!(op, AsyncDone | Constant | CustomCall | Infeed | Parameter | RecvDone | Scan)
}

#[cfg(test)]
mod tests;
