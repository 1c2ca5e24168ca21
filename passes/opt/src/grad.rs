//! `grad`: appends the gradient of a scalar output with respect to parameters, by reverse-mode
//! differentiation.
//!
//! ```text
//! ENTRY e {                                  ENTRY e {
//!   w = f32[3] parameter(0)                    w = f32[3] parameter(0)
//!   x = f32[3] parameter(1)                    x = f32[3] parameter(1)
//!   ROOT loss = f32[] dot(w, x), …       →     loss = f32[] dot(w, x), …
//! }                                            grad.w = f32[3] …, frontend_attributes={phzc.grad="0"}
//!                                              ROOT r = (f32[], f32[3]) tuple(loss, grad.w)
//!                                            }
//! ```
//!
//! The results are the program's and then a gradient per parameter, in the order of the parameters. A
//! gradient's note names its parameter, which is what `optimizer` goes by. `grad/table.rs` has a rule per
//! opcode; a gradient that reaches an op without one is an error, and one that reaches an op which changes by
//! steps (`compare`, `floor`) is zero. An instruction with the note `phzc.grad="stop"` is taken as a
//! constant, and so is a maximum that cancels in a softmax. A loop needs a known number of trips; what its
//! derivative reads, and cannot compute again cheaply, it stacks. Calls are inlined first.

mod activity;
mod branches;
mod choice;
mod contract;
mod convolution;
mod elementwise;
mod indexing;
mod loops;
mod movement;
mod order;
mod outputs;
mod pieces;
mod reduce;
mod residuals;
mod scope;
mod shifts;
mod table;
mod trips;
mod windows;

#[cfg(test)]
mod tests;

use crate::{dce, inline};
use activity::{Activity, Leaves};
use phzc_ir::build::Builder;
use phzc_ir::{InstrId, Module, Result};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use scope::{Scope, leaf_shape};
use std::rc::Rc;
use trips::Loops;

/// The pass.
pub static PASS: Pass = Pass {
    name: "grad",
    summary: "appends the gradient of a scalar output with respect to the parameters (reverse mode)",
    options: &[
        OptionInfo {
            name: "loss",
            kind: OptionKind::Text("an output's number, or an instruction's name"),
            default: "auto",
            help: "the scalar to differentiate; auto: the only scalar float output",
        },
        OptionInfo {
            name: "wrt",
            kind: OptionKind::Text("`params`, `all`, or names such as `{w*,b}`"),
            default: "params",
            help: "the parameters to differentiate by; `*` stands for any text. \
                   params: those called `params…`; if there are none, all float ones but those called as data is (x, y, \
                   batch, inputs, images, labels, targets, tokens, mask, …); all: all float ones",
        },
    ],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    inline::flatten(module)?;
    module.put_entry_last();
    // Before the loss is looked up: instructions get other numbers.
    outputs::expose_loops(module);
    let loss = choice::loss(module, options.text("loss"))?;
    let wrt = choice::wrt(module, options.text("wrt"), &mut cx.warnings)?;
    let loops = Rc::new(Loops::of(module));
    let (comp, root, n) = (module.entry, module.entry().root, module.entry().instrs.len());
    let is_wanted = |number: u32| wrt.iter().any(|param| param.number == number);
    let leaves = params(module);
    let mut b = Builder::resume(std::mem::replace(module, Module::empty()));
    let active = Activity::of(b.comps(), b.instrs(), loss.id, |number| {
        Leaves::from_elem(is_wanted(number), leaves[number as usize])
    });
    let mut scope = Scope::new(comp, n, None, active, loops);
    let dtype = leaf_shape(&b.instr(loss.id).shape, loss.leaf).dtype;
    let one = b.scalar(dtype, 1.0);
    scope.give(&mut b, (loss.id, loss.leaf), one);
    scope.sweep(&mut b)?;
    let gradients: Vec<(u32, InstrId)> =
        wrt.iter().map(|param| (param.number, outputs::gradient(&mut b, &mut scope, param))).collect();
    let root = outputs::root(&mut b, root, &gradients);
    *module = b.finish(root);
    outputs::header(module);
    dce::remove_dead(module);
    Ok(Changed::Yes)
}

/// The number of leaves of each parameter of the entry.
fn params(module: &Module) -> Vec<usize> {
    module.entry().params().iter().map(|&id| module.entry().instr(id).shape.n_leaves()).collect()
}
