//! `unroll`: writes the trips of loops over layers one after another, and the stacks that they read as one
//! value per layer.
//!
//! ```text
//! ENTRY e {                                             ENTRY e {
//!   w = f32[2,8,8] parameter(0)                           w.0 = f32[1,8,8] parameter(0)
//!   x = f32[4,8] parameter(1)                             w.1 = f32[1,8,8] parameter(1)
//!   t = (…) while((0, x, w)), body=…                 →    x = f32[4,8] parameter(2)
//!   // trip i: x = tanh(dot(x, w[i]))                     h.t0 = f32[4,8] tanh(…w.0…)
//! }                                                       h.t1 = f32[4,8] tanh(…w.1…)
//!                                                       }
//! ```
//!
//! A loop over layers (`lax.scan`) counts its trips, hands an array on from trip to trip through a
//! contraction, and reads its weights from stacks, a part per trip (`loops.rs`). A stack that is read and
//! written by such parts, and else only by ops that treat all parts alike, becomes its parts (`stacks.rs`),
//! parameters and results of the program too; the header's note `phzc.unstacked` says which. Calls are
//! inlined first. `place` plans this form of a program beside the one that is given, since a loop cannot be
//! cut into stages.

mod late;
mod loops;
mod parts;
mod stacks;
#[cfg(test)]
mod tests;
mod trips;

use crate::{dce, inline};
use phzc_ir::{Module, Opcode, Result, Shape, notes};
use phzc_pass::pass::{Changed, Context, Options, Pass};

/// The pass.
pub static PASS: Pass = Pass {
    name: "unroll",
    summary: "writes loops over layers trip by trip, and the stacks that they read as one value per layer",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, _: &mut Context) -> Result<Changed> {
    let Some(unrolled) = unrolled(module)? else { return Ok(Changed::No) };
    *module = unrolled;
    Ok(Changed::Yes)
}

/// The program with its loops over layers unrolled; none where it has none.
///
/// # Errors
/// When it grows too long as its calls are inlined.
pub fn unrolled(module: &Module) -> Result<Option<Module>> {
    if module.note(notes::UNSTACKED).is_some() {
        return Ok(None);
    }
    let mut flat = module.clone();
    inline::flatten(&mut flat)?;
    dce::remove_dead(&mut flat);
    let loops = loops::over_layers(&flat);
    if loops.is_empty() || !is_flat(&flat) {
        return Ok(None);
    }
    let by_trip = trips::written(&mut flat, &loops);
    let is_stack = stacks::stacks(&flat, &by_trip);
    parts::write(&mut flat, &is_stack);
    dce::remove_dead(&mut flat);
    // Loops inside of a layer have had one body for all trips.
    inline::flatten(&mut flat)?;
    late::put_backward_late(&mut flat);
    Ok(Some(flat))
}

/// Whether the program takes arrays, and returns a tuple of arrays in no given layout.
fn is_flat(module: &Module) -> bool {
    let entry = module.entry();
    let root = entry.root();
    let is_array = |shape: &Shape| shape.as_array().is_some_and(|array| array.dynamic == 0);
    root.op == Opcode::Tuple
        && root.sharding().is_none()
        && root.shape.parts().iter().all(is_array)
        && entry.params().iter().all(|&id| is_array(&entry.instr(id).shape))
        && entry.instrs.iter().all(|instr| entry.control_predecessors(instr).next().is_none())
}
