//! What a region reads from outside: HLO's computations see their parameters only.

use super::ast::{Op, Region, Use};
use super::lower::{Lowerer, undefined};
use super::parse::Names;
use indexmap::IndexMap;
use phzc_ir::text::cursor::clip;
use phzc_ir::{Diagnostic, Instr, Opcode, Result};
use rustc_hash::FxBuildHasher;

/// The values that a region and those within it read and do not define, each once, in order of their first
/// use.
pub(super) fn free<'a>(regions: &[&Region<'a>]) -> Vec<Use<'a>> {
    let mut found = Found::default();
    for region in regions {
        collect(region, &mut Vec::new(), &mut found);
    }
    found.into_values().collect()
}

type Found<'a> = IndexMap<(&'a str, u32), Use<'a>, FxBuildHasher>;

fn collect<'a>(region: &Region<'a>, defined: &mut Vec<Names<'a, ()>>, found: &mut Found<'a>) {
    let mut own = Names::default();
    own.extend(region.args.iter().map(|arg| (arg.name, ())));
    defined.push(own);
    for op in &region.ops {
        for used in &op.operands {
            let is_inside = defined.iter().any(|names| names.contains_key(used.name));
            if !is_inside {
                found.entry((used.name, used.index)).or_insert(*used);
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

/// The constants that a region without operands of its own reads, to be repeated inside; anything else is an
/// error.
pub(super) fn constants<'a>(
    cx: &mut Lowerer<'a, '_>,
    region: &Region<'a>,
    op: &Op<'a>,
) -> Result<Vec<(&'a str, u32, Instr)>> {
    let mut constants = Vec::new();
    for used in free(&[region]) {
        if !cx.knows(&used) {
            return Err(undefined(&used));
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
