//! Why a program has no legal layout: what leaves no choice.

use super::forbid::Forbid;
use phzc_ir::{Diagnostic, Instr, Module, Span, counted, notes};

/// The error that no layout is legal `on` some devices: without given layouts and prohibitions every value
/// may be whole on every device, so these are what to change.
pub fn illegal(module: &Module, on: &str, forbid: Forbid) -> Diagnostic {
    let error = Diagnostic::error(format!("no layout of this program is legal on {on}"));
    let instrs = || module.comps.iter().flat_map(|comp| &comp.instrs);
    let is_given = |instr: &&Instr| instr.note(notes::GIVEN).is_some();
    let error = match instrs().find(is_given) {
        None => error,
        Some(first) => {
            let (n, name) = (instrs().filter(is_given).count(), &first.name);
            let span = (first.span != Span::default()).then_some(first.span);
            error.note(span, format!("it has {}, the first of `{name}`", counted(n, "given layout")))
        }
    };
    match forbid == Forbid::default() {
        true => {
            error.help("leave out or change a layout that is given: a pin, or `sharding={…}` of the program")
        }
        false => error.help(format!("forbid less than `{}`", forbid.text())),
    }
}
