//! `simplify`: smaller programs of the same values, so that generated and imported ones come out alike.
//!
//! ```text
//! z = f32[] constant(0)                                →    // gone
//! b = f32[8,4] broadcast(z), dimensions={}             →    // gone
//! t = f32[8,4] transpose(w), dimensions={1,0}          →    // gone
//! s = f32[8,4] add(t, b)                               →    // gone
//! y = f32[2,4] dot(x, s), lhs_contracting_dims={1}, …  →    y = f32[2,4] dot(x, w), …, rhs_contracting_dims={1}
//! ```
//!
//! Calls and fusions are spliced in first ([`inline`]). Then every computation is rebuilt in program order:
//! the rules of `simplify/rules.rs` rewrite an instruction whose operands are simplified already, and of
//! equal ones the first stays. What nothing needs goes (`dce`), and all is done again until nothing changes.
//!
//! * Results are the same bits, but for the sign of zero and the payload of NaN: `x + 0` is `x`, also for -0
//!   (as in XLA), but `x * 0` stays, for `x` may be infinite. No sum is reordered, no rounding dropped: `f32`
//!   to `bf16` and back stays. Constants are folded where IEEE 754 fixes the result, so `exp(1)` is left to
//!   the device.
//! * An instruction with a layout, notes or an order (`sharding`, `frontend_attributes`,
//!   `control-predecessors`) keeps its name and is not looked through; it is merged only with one that says
//!   the same. So `simplify` goes before `fuse`: later there is little left to do.
//! * Parameters, the order and types of the outputs, effects and random numbers stay. Names of what stays do
//!   too.

mod arithmetic;
mod broadcasts;
mod converts;
mod draft;
mod equal;
mod fold;
mod logic;
mod order;
mod parts;
mod products;
mod reshapes;
mod rules;
mod tuples;

use crate::dce::remove_dead;
use crate::inline;
use draft::Draft;
pub(crate) use equal::Known;
use phzc_ir::effects::effects;
use phzc_ir::{Module, Result};
use phzc_pass::pass::{Changed, Context, Options, Pass};
use rules::{Counts, RULES};
use std::fmt::Write;

/// The pass.
pub static PASS: Pass = Pass {
    name: "simplify",
    summary: "folds constants, merges equal instructions, removes no-ops; fuses chains of ops that move elements",
    options: &[],
    run,
};

/// Rounds after which the rest stays as it is; real programs take two to four.
const MAX_ROUNDS: usize = 16;

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    let flattened = inline::flatten(module)?;
    let mut counts = Counts::default();
    let simplified = simplify(module, &mut counts);
    cx.artifacts.insert("simplify.txt".into(), describe(&counts));
    Ok(if flattened == Changed::Yes { flattened } else { simplified })
}

/// Simplifies all computations as they are, calls included, and counts what was done.
pub(crate) fn simplify(module: &mut Module, counts: &mut Counts) -> Changed {
    let mut changed = remove_dead(module);
    for _ in 0..MAX_ROUNDS {
        if round(module, counts) == Changed::No {
            break;
        }
        remove_dead(module);
        changed = Changed::Yes;
    }
    changed
}

/// Rebuilds every computation once.
fn round(module: &mut Module, counts: &mut Counts) -> Changed {
    let (acts, before) = (effects(module), counts.total());
    for index in 0..module.comps.len() {
        let (callees, rest) = module.comps.split_at_mut(index);
        Draft::rebuild(callees, &mut rest[0], &acts, counts);
    }
    if counts.total() == before { Changed::No } else { Changed::Yes }
}

/// The file that says how often each rule was of use.
fn describe(counts: &Counts) -> String {
    let mut out = format!("{:6} equal instructions merged\n", counts.n_merged);
    for (rule, n) in RULES.iter().zip(&counts.fired).filter(|(_, n)| **n > 0) {
        let _ = writeln!(out, "{n:6} {}", rule.name);
    }
    out
}

#[cfg(test)]
mod tests;
