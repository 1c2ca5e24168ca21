//! What a person may have meant by an argument that is no program.

use crate::args::Args;
use clap::CommandFactory;
use phzc_cost::known_accelerators;
use phzc_ir::{Diagnostic, Result, nearest};
use phzc_passes::registry::REGISTRY;
use std::path::Path;

/// Refuses a model that cannot be one, with what to do instead.
///
/// # Errors
/// A word that no file is called, which may be a subcommand or a pass; a program that is not lowered yet.
pub(crate) fn check_model(model: &Path) -> Result<()> {
    let name = model.to_string_lossy();
    if model.extension().is_some_and(|it| it == "py" || it == "ipynb") {
        let help = "lower it first: `phzc.plan(step, …)` of tools/python does so (docs/python.md), or write \
                    `jax.jit(step).lower(…).as_text()` to a file";
        return Err(Diagnostic::error(format!("`{name}` is Python, no lowered program")).help(help));
    }
    if let Some(device) = device_in(&name).filter(|_| !model.exists()) {
        let message = format!("`{name}` is hardware, no program");
        let help = format!(
            "`phzc MODEL --cluster {device}-8x2` plans for two nodes of 8; `phzc devices` lists names"
        );
        return Err(Diagnostic::error(message).help(help));
    }
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && name != "-";
    if !is_word || model.exists() {
        return Ok(());
    }
    let message = format!("cannot read `{name}`: no such file or directory");
    Err(Diagnostic::error(message).help(of_word(&name)))
}

/// The device that a word begins with, as `h100` in `h100x8`.
fn device_in(word: &str) -> Option<&'static str> {
    let names = known_accelerators().iter().flat_map(|it| it.aliases.iter().chain([&it.name]));
    let is_first = |name: &&str| {
        let rest = word.strip_prefix(name);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || b"x-_".contains(&byte)))
    };
    names.map(String::as_str).filter(is_first).max_by_key(|name| name.len())
}

fn of_word(word: &str) -> String {
    let subcommands: Vec<String> =
        Args::command().get_subcommands().map(|it| it.get_name().to_owned()).collect();
    if REGISTRY.find(word).is_some() {
        return format!("`{word}` is a pass: `phzc MODEL --passes {word}`");
    }
    // Planning has no subcommand; who looks for one looks for this.
    match nearest(word, subcommands.iter().map(String::as_str).chain(["plan"])) {
        Some("plan") => "`phzc MODEL` plans a program".to_owned(),
        Some(near) => format!("did you mean `phzc {near}`?"),
        None => format!("subcommands: {}", subcommands.join(", ")),
    }
}

/// The same of a plan that is to be run.
///
/// # Errors
/// The plan's figures, which cannot be run.
pub(crate) fn check_plan(plan: &Path) -> Result<()> {
    if plan.extension().is_none_or(|it| it != "json") {
        return Ok(());
    }
    let message = format!("`{}` has a plan's figures, not the planned program", plan.display());
    Err(Diagnostic::error(message).help("`phzc MODEL -o plan.ir` writes the planned program"))
}
