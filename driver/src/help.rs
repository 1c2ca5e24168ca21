//! `--help-passes`: the registry as text.

use phzc_ir::{Diagnostic, Result, nearest};
use phzc_passes::Alias;
use phzc_passes::registry::{ALIASES, PASSES, REGISTRY};
use phzc_passes::stop::STOPS;
use phzc_passes::{OptionInfo, Pass};

/// All passes and pipelines, one line each; or everything about the one of that name.
pub(crate) fn text(name: &str) -> Result<String> {
    if name.is_empty() {
        return Ok(overview());
    }
    match (REGISTRY.find(name), REGISTRY.alias(name)) {
        (Some(pass), _) => Ok(one_pass(pass)),
        (_, Some(alias)) => Ok(one_alias(alias)),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Diagnostic {
    let known = REGISTRY.names();
    let guess = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`? "));
    let help = format!("{}known: {}", guess.unwrap_or_default(), known.join(", "));
    Diagnostic::error(format!("unknown pass `{name}`")).help(help)
}

fn overview() -> String {
    let mut out = String::from("Passes:\n");
    let width = REGISTRY.names().iter().map(|name| name.len()).max().unwrap_or_default() + 1;
    for pass in PASSES {
        out += &format!("  {:<width$} {}\n", pass.name, pass.summary);
    }
    out += "\nPipelines:\n";
    for alias in ALIASES {
        out += &format!("  {:<width$} {}\n  {:width$} {}\n", alias.name, alias.pipeline, "", alias.summary);
    }
    out += "\n`stop`, why the planner's search ended (all in its cost model, over the meshes and stage counts that it tries):\n";
    for stop in STOPS {
        out += &format!("  {:<13} {}\n", stop.name, stop.meaning);
    }
    out + "\nOptions stand in braces: --passes 'name{key=value,key={a,b}},name'; --help-passes NAME lists them.\n"
}

fn one_alias(alias: &Alias) -> String {
    format!("{}: {}\n\n  --passes {}\n", alias.name, alias.summary, alias.pipeline)
}

fn one_pass(pass: &Pass) -> String {
    let mut out = format!("{}: {}\n", pass.name, pass.summary);
    for OptionInfo { name, kind, default, help } in pass.options {
        out += &format!(
            "\n  {name}={}\n      {help}\n      {kind}\n",
            if default.is_empty() { "''" } else { default }
        );
    }
    if pass.options.is_empty() { out + "\n  no options\n" } else { out }
}
