//! Plans of unrolled loops ([`phzc_opt::unroll`]): the unrolled program computes what the program does, and
//! the plan what the unrolled program does.

use super::restack::restacked;
use super::{Failed, Settings, Verdict, Verified, verify_alike};
use phzc_ir::border::has_regions;
use phzc_ir::unstacked::Unstacked;
use phzc_ir::{Diagnostic, Key, Module};
use phzc_opt::{inline, unroll};

/// As [`super::verify`].
pub(super) fn verify(original: &Module, planned: &Module, settings: &Settings) -> Result<Verified, Failed> {
    let unrolled = unroll::unrolled(original).map_err(Failed::of_program)?;
    let mut original = original.clone();
    inline::flatten(&mut original).map_err(Failed::of_program)?;
    let Some(unrolled) = unrolled else {
        if has_regions(&original) {
            // Its loops are of whole arrays only once `unmap` has run.
            return verify_alike(&restacked(&original, planned)?, planned, settings);
        }
        let error = Diagnostic::error("the plan is of unrolled loops, and the program has none over layers");
        return Err(error.help("give a program and the plan that phzc made of it").into());
    };
    if Unstacked::of(&unrolled) != Unstacked::of(planned) {
        // Passes before have changed what reads the stacks.
        return verify_alike(&restacked(&original, planned)?, planned, settings);
    }
    // A trip's instructions have no counterparts in the loop, so this is no matter of pieces.
    let whole = Settings { by_pieces: false, ..settings.clone() };
    let both = [restacked(&original, &unrolled)?, unrolled.clone()].map(without_layouts);
    let joined = verify_alike(&both[0], &both[1], &whole)?;
    match joined.verdict() {
        Verdict::Equal => verify_alike(&unrolled, planned, settings),
        _ => Ok(joined),
    }
}

/// A program that says nothing of layouts.
fn without_layouts(mut module: Module) -> Module {
    let instrs = module.comps.iter_mut().flat_map(|comp| &mut comp.instrs);
    instrs.for_each(|instr| instr.attrs.retain(|attr| attr.key != Key::Sharding));
    module
}
