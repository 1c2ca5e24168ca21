//! Proves a plan piece by piece: each instruction, on inputs of its own, computes what the program's does.
//!
//! ```text
//! h = dot(x, w)      // one piece: the dot and the movement that alone reads it, of any x and w in their layouts
//! h.gather = custom-call(h), custom_call_target="Sharding"
//! y = tanh(h.gather) // another: tanh of any h in the layout of h.gather
//! ```
//!
//! What a value of the plan has to be follows from its text (`claims`). Each piece is a program and a plan of
//! its own (`cut`), whose sizes shrink whatever the others need, and which runs as a whole program would
//! (`run`); pieces of the same text are proven once, so a hundred layers cost as much as one. A plan is right
//! if all its pieces are. Microbatches are a mesh axis as everywhere; in which order stages run them is
//! judged by `check`'s rules.

mod claims;
mod compared;
mod cut;
mod draft;
mod of_plan;
mod of_program;
mod run;
mod tamed;
#[cfg(test)]
mod tests;
mod text;
mod values;

use super::one_mesh::on_one_mesh;
use super::{Failed, Settings};
use crate::check::untimely;
use claims::{Claims, Piece};
use cut::{Whole, cut};
use phzc_ir::flops::{Runs, multiplicities, work};
use phzc_ir::{CompId, Diagnostic, InstrId, Module, Result, View};
use phzc_plan::derive::{Problem, derive, is_planned, listed};
use phzc_plan::microbatch::{after_all, on_time_axis};
use phzc_spmd::spmd;
use run::{DRAWS_OF_OTHERS, Judge, Outcome};
use std::collections::BTreeSet;
use values::Values;

/// How many instructions back what a piece reads is computed, where it differs from the program's without.
const LEVELS: [usize; 5] = [0, 1, 2, 4, 8];

/// What the pieces of a plan showed.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// All of them.
    pub n_pieces: usize,
    /// Those unlike all others, that were run.
    pub n_unlike: usize,
    /// Pieces that compute something else.
    pub differing: Vec<Different>,
    /// Pieces that were not proven, and why.
    pub open: Vec<Open>,
    /// The part of the program's instructions that is proven.
    pub share_of_instrs: f64,
    /// The part of its operations that is proven.
    pub share_of_flops: f64,
}

/// An instruction of a program.
type At = (CompId, InstrId);

/// A piece that computes something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Different {
    /// The instruction of the plan that makes its result.
    pub name: String,
    /// The largest difference over the largest value.
    pub error: f64,
    /// The largest that rounding explains.
    pub tolerance: f64,
}

/// A piece that was not proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The instruction of the plan that makes its result.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Proves a plan piece by piece. Calls are inlined in both.
///
/// # Errors
/// When the plan breaks its own rules or cannot be lowered.
pub fn prove(
    original: &Module,
    planned: &Module,
    settings: &Settings,
) -> std::result::Result<Pieces, Failed> {
    let timed = lowerable(planned)?;
    let facts = derive(&timed)?;
    let program = Values::of(original);
    let claims = Claims::of(&timed, &program);
    let whole = Whole { plan: &timed, facts: &facts, program: &program, claims: &claims };
    let mut judge = Judge::new(settings);
    let mut found = Pieces { n_pieces: claims.pieces.len(), ..Pieces::default() };
    let mut unproven = BTreeSet::new();
    for piece in &claims.pieces {
        let name = || {
            let comp = timed.comp(claims.pairs[piece.pair].plan);
            comp.instr(piece.made[0].0).name.to_string()
        };
        match proven(whole, piece, &mut judge) {
            Outcome::Equal | Outcome::Zero => continue,
            Outcome::Differs { error, tolerance } => {
                found.differing.push(Different { name: name(), error, tolerance });
            }
            Outcome::Open(why) => found.open.push(Open { name: name(), why }),
        }
        let comp = claims.pairs[piece.pair].program;
        unproven.extend(piece.wanted.iter().map(|&(id, _)| (comp, id)));
    }
    found.n_unlike = judge.n_unlike();
    (found.share_of_instrs, found.share_of_flops) = match unproven.is_empty() {
        true => (1.0, 1.0),
        false => shares(&program, &claims, &unproven),
    };
    Ok(found)
}

/// The plan as one of one stage with the microbatches as a mesh axis, if it keeps its rules.
fn lowerable(planned: &Module) -> Result<Module> {
    let facts = derive(planned)?;
    let untimely = if is_planned(planned) { untimely(planned, &facts) } else { Vec::new() };
    let fatal = facts.problems.iter().filter(|problem| problem.is_fatal);
    let refused: Vec<&Problem> = fatal.chain(&untimely).collect();
    if let Some(error) = listed(planned, &refused, Diagnostic::error) {
        return Err(error);
    }
    let timed = on_time_axis(&on_one_mesh(planned)?)?;
    let timed_facts = derive(&timed)?;
    if facts.header.n_microbatches > 1 {
        after_all(&timed, &timed_facts)?;
    }
    spmd::program(&timed, &timed_facts)?;
    Ok(timed)
}

/// Proves a piece as it is, or with more of what it reads where it is no piece of the program's alone.
fn proven(whole: Whole, piece: &Piece, judge: &mut Judge) -> Outcome {
    let mut last = Outcome::Open("it cannot be cut out of the plan".to_owned());
    for levels in LEVELS {
        let Some(both) = cut(whole, piece, levels) else { break };
        let n_draws = if piece.is_by_name || levels > 0 { DRAWS_OF_OTHERS } else { 1 };
        last = match (judge.judge(&both, n_draws), last) {
            (Outcome::Equal, _) => return Outcome::Equal,
            // A larger piece that says nothing takes nothing back.
            (Outcome::Zero | Outcome::Open(_), last @ Outcome::Differs { .. }) => last,
            (Outcome::Zero, _) => return Outcome::Equal,
            (last @ Outcome::Differs { .. }, _) if !piece.is_by_name => return last,
            (outcome, _) => outcome,
        };
    }
    last
}

/// The parts of the program's instructions and operations that are proven, loops counted as often as they
/// run.
///
/// What no piece is about is not proven: it may be what the plan should have computed.
fn shares(program: &Values, claims: &Claims, unproven: &BTreeSet<At>) -> (f64, f64) {
    let runs = multiplicities(program.module, Runs::Trips);
    let flops = |&(comp, id): &At| runs[comp.index()] * work(&View::new(program.module, comp, id)).flops;
    let all = program.made();
    let wanted = claims.pieces.iter().flat_map(|piece| {
        let comp = claims.pairs[piece.pair].program;
        piece.wanted.iter().map(move |&(id, _)| (comp, id))
    });
    let wanted: BTreeSet<At> = wanted.collect();
    let proven = all.iter().filter(|at| wanted.contains(at) && !unproven.contains(at));
    let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 1.0 };
    let n_proven = proven.clone().count() as f64;
    (share(n_proven, all.len() as f64), share(proven.map(flops).sum(), all.iter().map(flops).sum()))
}
