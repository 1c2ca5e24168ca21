//! Inputs that follow from a seed, for one step of a program and for the next.

use super::draw::{Drawing, Stream};
use super::machine::{check_room, check_size};
use super::role::{Role, role};
use super::trace::Trace;
use super::value::{Array, Value, sizes};
use super::{Options, run};
use crate::alias::aliased;
use crate::diag::{Diagnostic, Result, Span};
use crate::flops::totals;
use crate::module::Module;
use crate::opcode::Opcode;
use crate::shape::{ArrayShape, Shape};

/// Tables may be split into so many parts where nothing else is known.
const USUAL_PARTS: &[i64] = &[2, 4, 8];
/// How often an array is drawn, at most, until it is neither constant nor like another one.
const MAX_DRAWS: u64 = 64;
/// Programs with more operations than this are not run for the size of their states.
const MAX_FLOPS: f64 = 1e12;
/// No state is smaller than this part of the largest: what is added to it may be zero but for rounding.
const LEAST_STATE: f64 = 1e-6;

/// Values for the parameters of the entry that follow from `seed`.
///
/// As [`Inputs::draw`], for tables in 2, 4 or 8 parts.
///
/// # Errors
/// A parameter without a fixed shape.
pub fn inputs(module: &Module, seed: u64) -> Result<Vec<Value>> {
    inputs_within(module, seed, &Options::default())
}

/// As [`inputs`], with other limits than the usual ones.
///
/// # Errors
/// A parameter without a fixed shape or above the limit.
pub fn inputs_within(module: &Module, seed: u64, options: &Options) -> Result<Vec<Value>> {
    Inputs::of(module, USUAL_PARTS).draw(seed, options)
}

/// What is known of a program's inputs: what each is for, and which results it gets back in the next step.
pub struct Inputs<'a> {
    module: &'a Module,
    parts: Vec<i64>,
    leaves: Vec<Leaf<'a>>,
}

/// An array that the program takes.
struct Leaf<'a> {
    shape: &'a ArrayShape,
    span: Span,
    role: Role,
    /// The array of the result that takes its place in the next step.
    next: Option<usize>,
}

/// The inputs of a second step, but for those that the first returned.
pub struct Second<'a> {
    module: &'a Module,
    fresh: Vec<Array>,
    /// Per array: the array of the first step's result that it is.
    next: Vec<Option<usize>>,
}

impl<'a> Inputs<'a> {
    /// Finds out about a verified module; `parts` are the numbers of parts that tables may be split into.
    pub fn of(module: &'a Module, parts: &[i64]) -> Inputs<'a> {
        let (entry, trace) = (module.entry(), Trace::of(module));
        let mut leaves = Vec::new();
        for id in entry.params() {
            for (leaf, shape) in entry.instr(id).shape.leaves().into_iter().enumerate() {
                let Some(shape) = shape.as_array() else { continue };
                let (role, span) = (role(&trace, id, leaf), entry.instr(id).span);
                leaves.push(Leaf { shape, span, role, next: None });
            }
        }
        match aliased(module).is_empty() {
            true => match_in_order(module, &mut leaves),
            false => match_aliases(module, &mut leaves),
        }
        Inputs { module, parts: parts.to_vec(), leaves }
    }

    /// Values for the parameters that follow from `seed`.
    ///
    /// Floats are uniform in ±1/2; those of rank 2 or more in ±1/√n for n rows (the last dimension but one),
    /// so that products keep their scale; no roots are taken of negative ones. A state that is added to and
    /// handed back, as moments are, is random and has the size of what is added to it, of which the program
    /// is run once. Places in tables reach from the first row to the last, the borders of `parts` included,
    /// and count from the end where the program has a branch for it; an array that is too small for all
    /// borders has others by another seed. What is compared with a number lies on both sides of it; scalar
    /// integers count steps: 1 to 3. No array of several elements is constant, and no two are alike unless
    /// their type has too few values.
    ///
    /// # Errors
    /// A parameter without a fixed shape or above the limit.
    pub fn draw(&self, seed: u64, options: &Options) -> Result<Vec<Value>> {
        let scales = vec![None; self.leaves.len()];
        let mut drawn = self.drawn(seed, &scales, options)?;
        let has_states = self.leaves.iter().any(Leaf::is_carried_state);
        if has_states && totals(self.module).with_trips.flops <= MAX_FLOPS {
            let scales = self.scales(&drawn, options);
            drawn = self.drawn(seed, &scales, options)?;
        }
        Ok(assemble(self.module, drawn))
    }

    /// The inputs of the step after one that made `made` of `given`.
    ///
    /// A result takes a parameter's place by `input_output_alias`; in a program without any, the n-th array
    /// of a type among the results that of the n-th parameter of this type, unless it is a place in a table.
    /// What is not finite, did not change or lies outside of its table is drawn anew, as is all else, from
    /// the next seed.
    ///
    /// # Errors
    /// As [`Inputs::draw`].
    pub fn after(&self, given: &[Value], made: &Value, seed: u64, options: &Options) -> Result<Second<'a>> {
        let scales = vec![None; self.leaves.len()];
        let fresh = self.drawn(seed.wrapping_add(1), &scales, options)?;
        let (given, made): (Vec<&Array>, _) = (given.iter().flat_map(Value::leaves).collect(), made.leaves());
        let next = self.leaves.iter().zip(given).map(|(leaf, given)| {
            leaf.next.filter(|&at| made.get(at).is_some_and(|made| *made != given && leaf.may_be(made)))
        });
        Ok(Second { module: self.module, next: next.collect(), fresh })
    }

    fn drawn(&self, seed: u64, scales: &[Option<f64>], options: &Options) -> Result<Vec<Array>> {
        let mut params = self.module.entry().instrs.iter().filter(|instr| instr.op == Opcode::Parameter);
        if let Some(opaque) = params.find(|param| param.shape.leaves().contains(&&Shape::Opaque)) {
            return Err(Diagnostic::error("an opaque input cannot be made up").at(opaque.span));
        }
        let mut drawn: Vec<Array> = Vec::new();
        for (index, (leaf, &scale)) in self.leaves.iter().zip(scales).enumerate() {
            let shape = Shape::Array(leaf.shape.clone());
            let checked = check_size(&shape, options).and_then(|()| check_room(&shape, 1));
            let dims = checked.and_then(|()| sizes(&leaf.shape.dims)).map_err(|error| error.at(leaf.span))?;
            let state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(index as u64);
            let draw = |attempt: u64| {
                let mut stream = Stream::new(state.wrapping_add(attempt << 32));
                let drawing = Drawing { seed, attempt, parts: &self.parts, role: &leaf.role, scale };
                drawing.array(&mut stream, leaf.shape.dtype, &dims)
            };
            let is_new = |array: &Array| !is_constant(array) && !drawn.contains(array);
            let found = (0..MAX_DRAWS).map(draw).find(is_new);
            drawn.push(found.unwrap_or_else(|| draw(0)));
        }
        Ok(drawn)
    }

    /// The size of what is added to each state: its next value if it is zero.
    fn scales(&self, drawn: &[Array], options: &Options) -> Vec<Option<f64>> {
        let zeroed = self.leaves.iter().zip(drawn).map(|(leaf, array)| match leaf.is_carried_state() {
            true => Array::zeros(array.dtype(), array.dims()),
            false => array.clone(),
        });
        let Ok(made) = run(self.module, &assemble(self.module, zeroed.collect()), options) else {
            return vec![None; drawn.len()];
        };
        let made = made.leaves();
        let next = self.leaves.iter().map(|leaf| made.get(leaf.next.filter(|_| leaf.is_carried_state())?));
        let found: Vec<Option<f64>> = next.map(|made| Some(root_mean_square(&made?.to_f64_vec()))).collect();
        let largest = |is_positive: bool| {
            let alike =
                self.leaves.iter().zip(&found).filter(|(leaf, _)| leaf.role.is_positive == is_positive);
            alike.filter_map(|(_, size)| *size).fold(0.0, f64::max)
        };
        let least = [largest(false), largest(true)].map(|largest| largest * LEAST_STATE);
        let raised = |(leaf, size): (&Leaf, &Option<f64>)| {
            size.map(|size| size.max(least[usize::from(leaf.role.is_positive)])).filter(|&size| size > 0.0)
        };
        self.leaves.iter().zip(&found).map(raised).collect()
    }
}

impl Leaf<'_> {
    fn is_carried_state(&self) -> bool {
        self.role.is_state && self.next.is_some()
    }

    /// Whether a next step can take it.
    fn may_be(&self, array: &Array) -> bool {
        let values = array.to_f64_vec();
        let is_place =
            |x: f64| self.role.places.is_none_or(|it| (it.low as f64..it.high as f64).contains(&x));
        values.into_iter().all(|x| x.is_finite() && is_place(x))
    }
}

impl Second<'_> {
    /// The inputs after a first step that returned this.
    pub fn inputs(&self, made: &Value) -> Vec<Value> {
        let made = made.leaves();
        let arrays = self.next.iter().zip(&self.fresh).map(|(next, fresh)| {
            let array = next.and_then(|at| made.get(at).copied()).unwrap_or(fresh);
            array.clone()
        });
        assemble(self.module, arrays.collect())
    }
}

/// The results that reuse parameters' buffers.
fn match_aliases(module: &Module, leaves: &mut [Leaf]) {
    let (entry, aliases) = (module.entry(), aliased(module));
    let results = entry.root().shape.leaves();
    let mut index = 0;
    for id in entry.params() {
        let arrays = entry.instr(id).shape.leaves().into_iter().enumerate();
        for (own, _) in arrays.filter(|(_, leaf)| leaf.as_array().is_some()) {
            let alias = aliases.iter().find(|alias| alias.param == id && alias.leaf == own);
            let is_like = |output: &usize| {
                let shape = results.get(*output).and_then(|leaf| leaf.as_array());
                shape.is_some_and(|shape| shape.same_type(leaves[index].shape))
            };
            let output = alias.map(|alias| alias.output).filter(is_like);
            // Tokens are no arrays.
            let n_arrays = |output| results[..output].iter().filter(|leaf| leaf.as_array().is_some()).count();
            leaves[index].next = output.map(n_arrays);
            index += 1;
        }
    }
}

/// The results of the same type, in order.
fn match_in_order(module: &Module, leaves: &mut [Leaf]) {
    let results = module.entry().root().shape.leaves();
    let mut results: Vec<(usize, &ArrayShape)> =
        results.into_iter().filter_map(|leaf| leaf.as_array()).enumerate().collect();
    for leaf in leaves.iter_mut().filter(|leaf| leaf.role.places.is_none()) {
        let first = results.iter().position(|(_, shape)| shape.same_type(leaf.shape));
        leaf.next = first.map(|at| results.remove(at).0);
    }
}

/// Values of the parameters' shapes, of their arrays.
fn assemble(module: &Module, arrays: Vec<Array>) -> Vec<Value> {
    let (entry, mut arrays) = (module.entry(), arrays.into_iter());
    entry.params().into_iter().map(|id| filled(&entry.instr(id).shape, &mut arrays)).collect()
}

/// A value of this shape, of the next arrays.
pub fn filled(shape: &Shape, arrays: &mut impl Iterator<Item = Array>) -> Value {
    match shape {
        Shape::Tuple(parts) => Value::Tuple(parts.iter().map(|part| filled(part, arrays)).collect()),
        Shape::Buffer(inner) => filled(inner, arrays),
        Shape::Array(_) => arrays.next().map_or(Value::Token, Value::Array),
        Shape::Token | Shape::Opaque => Value::Token,
    }
}

/// Whether several elements are all equal.
fn is_constant(array: &Array) -> bool {
    let values = array.to_f64_vec();
    values.len() > 1 && values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Of the finite numbers; zero of none.
fn root_mean_square(values: &[f64]) -> f64 {
    let finite = values.iter().filter(|x| x.is_finite());
    let n = finite.clone().count().max(1);
    (finite.map(|x| x * x).sum::<f64>() / n as f64).sqrt()
}

#[cfg(test)]
mod tests;
