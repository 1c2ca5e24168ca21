//! `pad`: lengthens the dimensions of products that the devices do not divide, so that they can be split.
//!
//! ```text
//! x = f32[8,197] parameter(0)           x = f32[8,197] parameter(0)
//! w = f32[64,197] parameter(1)          x.pad = f32[8,200] pad(x, 0), padding=0_0x0_3
//!                                  →    w.pad = f32[64,200] pad(w, 0), padding=0_0x0_3
//! ROOT y = f32[8,64] dot(x, w), …       ROOT y = f32[8,64] dot(x.pad, w.pad), …
//! ```
//!
//! The last shard is then short, as in GSPMD's programs (Xu et al. 2021, section 3.3): what is added to it is
//! computed and dropped. Where a loop reduces, it is masked first. Parameters and results keep their size.
//! Precondition: none; calls are inlined. What loops, branches and calls of other code read stays as it is.

mod dims;
pub(crate) mod mask;
mod write;

use dims::Longer;
use phzc_ir::{Diagnostic, Module, Result, counted};
use phzc_opt::{dce, inline};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};

/// The pass.
pub static PASS: Pass = Pass {
    name: "pad",
    summary: "lengthens dimensions of products that the devices do not divide, so that they can be split",
    options: &[OptionInfo {
        name: "waste",
        kind: OptionKind::Int { min: 1, max: 100 },
        default: "5",
        help: "by how many percent a dimension may become longer",
    }],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    if module.note(phzc_ir::notes::PLAN).is_some() {
        let error = Diagnostic::error("the program has a plan, which says how its dimensions are split");
        return Err(error.help("pad the original program"));
    }
    let mut flat = module.clone();
    inline::flatten(&mut flat)?;
    let longer = Longer::of(&flat, cx.cluster.n_devices() as i64, options.int("waste"));
    if longer.is_empty() {
        cx.warnings.push(Diagnostic::warning("no dimension of a product is worth padding"));
        return Ok(Changed::No);
    }
    (cx.progress)(&format!("pad: {}", counted(longer.sizes().len(), "size")));
    *module = write::written(&flat, &longer);
    dce::remove_dead(module);
    Ok(Changed::Yes)
}

#[cfg(test)]
mod tests;
