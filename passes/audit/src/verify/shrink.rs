//! The same programs with smaller sizes: same instructions, names, notes and layouts, so that they can be
//! run.
//!
//! Dimensions that have to be of one size, in one program or in several that take the same inputs, are one
//! class (`ties`). A class whose size nothing but shapes depend on gets the smallest size that the layouts
//! divide (`sizes`), dimensions that differ by an element or two at an end (`ends`) by the same number;
//! shapes, window sizes and literals follow (`rewrite`). What the verifier or the plan's rules then object to
//! keeps its size, and the sizes are computed again.

mod cuts;
mod ends;
mod rewrite;
mod sizes;
#[cfg(test)]
mod tests;
mod tie;
mod ties;

pub use cuts::{Cut, Cuts};
pub use ties::Place;

use phzc_ir::{CompId, InstrId, Module, Result, Shape, View, verify};
use phzc_plan::derive::{derive, is_planned};
use sizes::Sizes;
use std::collections::BTreeSet;
use ties::Ties;

/// How often sizes are computed anew, at most, before the programs stay as they are.
const MAX_ROUNDS: usize = 32;

/// A program and its plan with smaller sizes, the same in both; sizes below `least` stay.
///
/// # Errors
/// When the plan's notes cannot be read.
pub fn shrink_plan(original: &Module, planned: &Module, least: i64) -> Result<[Module; 2]> {
    let cuts = Cuts::of(planned)?;
    let cut = |place: Place| if place.program == 1 { cuts.at(place) } else { Cut::default() };
    let mut both = shrink(&[original, planned], cut, least).into_iter();
    let (original, planned) = (both.next().expect("the first"), both.next().expect("the second"));
    Ok([original, planned])
}

/// Verified programs that take the same inputs, with smaller sizes; `cut` says by what a dimension must
/// divide.
///
/// No size grows, none falls below `least` or what it was. Programs of which nothing legal is found stay as
/// they are, all of them.
pub fn shrink(programs: &[&Module], cut: impl Fn(Place) -> Cut, least: i64) -> Vec<Module> {
    let ties = Ties::of(programs);
    let mut sizes = Sizes::new(&ties, cut, least);
    let judge = Judge::new(programs);
    for _ in 0..MAX_ROUNDS {
        let settled = sizes.settle(&ties);
        let shrunk: Vec<Module> = (0..programs.len()).map(|index| settled.apply(&ties, index)).collect();
        match judge.objections(&shrunk) {
            Verdict::Legal => return shrunk,
            Verdict::Illegal => break,
            Verdict::Objections(found) => {
                if !found.into_iter().fold(false, |any, (program, at)| sizes.keep(&ties, program, at) || any)
                {
                    break;
                }
            }
        }
    }
    programs.iter().map(|&program| program.clone()).collect()
}

/// An instruction of one program.
type At = (CompId, InstrId);

enum Verdict {
    Legal,
    /// Instructions whose sizes must stay.
    Objections(Vec<(usize, At)>),
    /// Something that no instruction is to blame for.
    Illegal,
}

/// What is wrong with the programs before they shrink, if they are plans.
struct Judge {
    known: Vec<Option<BTreeSet<At>>>,
}

impl Judge {
    fn new(programs: &[&Module]) -> Judge {
        Judge { known: programs.iter().map(|program| problems(program)).collect() }
    }

    fn objections(&self, shrunk: &[Module]) -> Verdict {
        let ill_typed = |(index, module)| misfits(module).into_iter().map(move |at| (index, at));
        let found: Vec<(usize, At)> = shrunk.iter().enumerate().flat_map(ill_typed).collect();
        if !found.is_empty() {
            return Verdict::Objections(found);
        }
        if shrunk.iter().any(|module| !verify(module).is_empty()) {
            return Verdict::Illegal;
        }
        let mut found = Vec::new();
        for (index, (module, known)) in shrunk.iter().zip(&self.known).enumerate() {
            let Some(known) = known else { continue };
            let Some(now) = problems(module) else { return Verdict::Illegal };
            found.extend(now.difference(known).map(|&at| (index, at)));
        }
        if found.is_empty() { Verdict::Legal } else { Verdict::Objections(found) }
    }
}

/// Instructions at which a plan breaks its rules; none for a program that is no plan.
fn problems(module: &Module) -> Option<BTreeSet<At>> {
    let facts = is_planned(module).then(|| derive(module))?.ok()?;
    Some(facts.problems.iter().map(|problem| (problem.comp, problem.instr)).collect())
}

/// Instructions whose shape is not the one that follows from their operands.
fn misfits(module: &Module) -> Vec<At> {
    let mut found = Vec::new();
    for index in 0..module.comps.len() {
        let comp = CompId::new(index);
        for (id, instr) in module.comp(comp).iter() {
            let inferred = (instr.op.def().infer)(&View::new(module, comp, id));
            if !inferred.is_ok_and(|shape| shape.is_none_or(|shape: Shape| shape.same_type(&instr.shape))) {
                found.push((comp, id));
            }
        }
    }
    found
}
