//! `unshard`: drops shardings that the program brings, so that a plan is free to choose others.
//!
//! ```text
//! w = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}     →     w = f32[8,8] parameter(0)
//! ```
//!
//! A `Sharding` call goes with its sharding: it does nothing else. Regions that are one device's part already
//! (`{manual}`, the calls at their borders) stay. Precondition: none.

use phzc_ir::annotations::drop_shardings;
use phzc_ir::{Diagnostic, Module, Result, Span, counted, notes};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use regex::Regex;

/// The pass.
pub static PASS: Pass = Pass {
    name: "unshard",
    summary: "drops the shardings that the program brings: all, or those of the instructions that a pattern matches",
    options: &[OptionInfo {
        name: "match",
        kind: OptionKind::Checked("a regular expression", |text| pattern(text).map(drop)),
        default: "",
        help: "pattern searched for in the names of instructions; all if empty",
    }],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    if module.note(notes::PLAN).is_some() {
        let error = Diagnostic::error("the program has a plan, whose shardings cannot be ignored");
        return Err(error.help("plan the original program"));
    }
    let text = options.text("match");
    let pattern = pattern(text)?;
    let n_dropped = drop_shardings(module, |instr| pattern.is_match(&instr.name));
    if n_dropped == 0 {
        let whose = if text.is_empty() {
            "no instruction".to_owned()
        } else {
            format!("nothing that `{text}` matches")
        };
        cx.warnings.push(Diagnostic::warning(format!("{whose} has a sharding to ignore")));
        return Ok(Changed::No);
    }
    (cx.progress)(&format!("unshard: {}", counted(n_dropped, "sharding")));
    Ok(Changed::Yes)
}

/// Reads the pattern.
///
/// # Errors
/// It is no regular expression.
pub fn pattern(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|error| {
        let last =
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let error = Diagnostic::error(format!("`{text}` is no regular expression: {last}"));
        error
            .at(Span::new(0, text.len()))
            .help("a `.`, `+`, `(` or `[` that stands for itself needs a backslash before it")
    })
}
