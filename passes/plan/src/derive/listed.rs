//! What is wrong about a plan, as one diagnostic.

use super::Problem;
use phzc_ir::{Diagnostic, Module, Span};

/// Problems that one message lists.
const MAX_LISTED: usize = 10;

/// One diagnostic for all problems: the first one's message, the others as notes.
pub fn listed(module: &Module, problems: &[&Problem], new: fn(String) -> Diagnostic) -> Option<Diagnostic> {
    let (first, others) = problems.split_first()?;
    let span = |problem: &Problem| known(module.comp(problem.comp).instr(problem.instr).span);
    let mut all = new(first.message.clone());
    all.span = span(first);
    for problem in others.iter().take(MAX_LISTED - 1) {
        all = all.note(span(problem), problem.message.clone());
    }
    match others.len().saturating_sub(MAX_LISTED - 1) {
        0 => Some(all),
        n_more => Some(all.note(None, format!("and {n_more} more"))),
    }
}

/// Instructions that passes made stand nowhere in the input.
pub fn known(span: Span) -> Option<Span> {
    (span != Span::default()).then_some(span)
}
