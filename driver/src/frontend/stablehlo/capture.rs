//! What a region reads from outside: HLO's computations see their parameters only.

use super::ast::{Op, Region, Use};
use super::lower::Lowerer;
use super::parse::Names;
use phzc_ir::text::cursor::clip;
use phzc_ir::{Diagnostic, Instr, Opcode, Result};

/// The values that a region and those within it read and do not define, each once, in order of their first use.
pub(super) fn free<'a>(regions: &[&Region<'a>]) -> Vec<Use<'a>> {
    let mut found = Vec::new();
    for region in regions {
        collect(region, &mut vec![Names::default()], &mut found);
    }
    found
}

fn collect<'a>(region: &Region<'a>, defined: &mut Vec<Names<'a, ()>>, found: &mut Vec<Use<'a>>) {
    let mut own = Names::default();
    own.extend(region.args.iter().map(|arg| (arg.name, ())));
    defined.push(own);
    for op in &region.ops {
        for used in &op.operands {
            let is_inside = defined.iter().any(|names| names.contains_key(used.name));
            let is_known = found.iter().any(|known| (known.name, known.index) == (used.name, used.index));
            if !is_inside && !is_known {
                found.push(*used);
            }
        }
        for inner in &op.regions {
            collect(inner, defined, found);
        }
        if let Some(own) = defined.last_mut() {
            own.extend(op.results.iter().map(|&(name, _)| (name, ())));
        }
    }
    defined.pop();
}

/// The captured values apart from constants, which are repeated where they are read.
pub(super) fn split<'a>(
    cx: &mut Lowerer<'a, '_>,
    regions: &[&Region<'a>],
) -> Result<Vec<Use<'a>>> {
    let captured = free(regions);
    for used in &captured {
        cx.operand(used)?;
    }
    Ok(captured)
}

/// The constants that a region without operands of its own reads, to be repeated inside; anything else is an error.
pub(super) fn constants<'a>(
    cx: &mut Lowerer<'a, '_>,
    region: &Region<'a>,
    op: &Op<'a>,
) -> Result<Vec<(&'a str, u32, Instr)>> {
    let mut constants = Vec::new();
    for used in free(&[region]) {
        if !cx.knows(&used) {
            let message = format!("`%{}` is not defined before its use", clip(used.name));
            return Err(Diagnostic::error(message).at(used.span));
        }
        let id = cx.operand(&used)?;
        let instr = cx.b.instr(id).clone();
        if instr.op != Opcode::Constant {
            let message = format!("a region of `{}` reads `%{}` from outside", op.name, clip(used.name));
            let help = "HLO's computations see their parameters only";
            return Err(Diagnostic::error(message).at(used.span).help(help));
        }
        constants.push((used.name, used.index, instr));
    }
    Ok(constants)
}
