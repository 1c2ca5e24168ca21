//! `--emit`: what a run writes: the planned program, its schedule as a trace, a page about it, the modules of
//! its stages, or the configuration of a training stack.

use crate::args::Args;
use crate::export::{Stack, export};
use crate::page::{self, View};
use crate::remarks;
use clap::ValueEnum;
use phzc_cost::Cluster;
use phzc_io::{Failure, Io, deliver, files};
use phzc_ir::{Diagnostic, Module, notes, print};
use phzc_passes::alternative::Alternative;
use phzc_passes::derive::Facts;
use phzc_passes::report::{self, Plan};
use phzc_passes::stages;
use serde::Deserialize;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What says how modules fit together.
const MANIFEST: &str = "stages.json";
/// No manifest is larger.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// What a run writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// The program with its plan, as HLO text.
    #[default]
    Program,
    /// A directory: an HLO module per stage and phase, and stages.json, which says how they fit together.
    Stages,
    /// The same, each module as the program of one device of its stage, with the plan's collectives.
    DeviceStages,
    /// The schedule in Chrome's trace format, for Perfetto or chrome://tracing.
    Trace,
    /// One HTML page about the plan, pictures included, that needs no network.
    Report,
    /// A directory of the page's pictures as SVG files.
    Pictures,
    /// Megatron-LM's arguments, as a script for torchrun or sbatch.
    Megatron,
    /// torchtitan's TOML.
    Torchtitan,
    /// `DeepSpeed`'s JSON.
    Deepspeed,
    /// `DTensor` placements per parameter for FSDP2, JSON.
    Fsdp,
    /// `MaxText`'s YAML.
    Maxtext,
    /// A Python module for JAX: meshes, and `PartitionSpec`s by key path and by source line.
    Jax,
}

impl Emit {
    /// Whether what is written says what the plan costs.
    pub(crate) fn needs_figures(self) -> bool {
        matches!(self, Emit::Trace | Emit::Report | Emit::Pictures) || self.stack().is_some()
    }

    /// Why it needs a directory, if it is several files.
    fn needs_directory(self) -> Option<&'static str> {
        match self {
            Emit::Stages => Some("`--emit stages` writes several files, but there is no directory for them"),
            Emit::DeviceStages => {
                Some("`--emit device-stages` writes several files, but there is no directory for them")
            }
            Emit::Pictures => {
                Some("`--emit pictures` writes several files, but there is no directory for them")
            }
            _ => None,
        }
    }

    /// The training stack whose configuration it is.
    fn stack(self) -> Option<Stack> {
        match self {
            Emit::Program
            | Emit::Stages
            | Emit::DeviceStages
            | Emit::Trace
            | Emit::Report
            | Emit::Pictures => None,
            Emit::Megatron => Some(Stack::Megatron),
            Emit::Torchtitan => Some(Stack::Torchtitan),
            Emit::Deepspeed => Some(Stack::Deepspeed),
            Emit::Fsdp => Some(Stack::Fsdp),
            Emit::Maxtext => Some(Stack::Maxtext),
            Emit::Jax => Some(Stack::Jax),
        }
    }
}

/// What is to be written.
pub(crate) enum Emitted {
    /// One text.
    Text(String),
    /// Files of a directory.
    Files(Vec<(String, String)>),
}

/// What is to be written, and warnings about what it cannot say.
pub(crate) type Made = (Emitted, Vec<Diagnostic>);

/// What is known of a program at the end of a run.
pub(crate) struct Known<'a> {
    /// Its facts, the program as it is priced and what it costs, if it is planned or figures are asked for.
    pub priced: Option<(&'a Facts, &'a Cow<'a, Module>, &'a Plan)>,
    /// The best plans, if several were asked for.
    pub alternatives: &'a [Alternative],
}

/// Makes what the command line asks for.
pub(crate) fn emit(args: &Args, module: &Module, known: &Known, cluster: &Cluster) -> Result<Made, Failure> {
    match (args.emit.stack(), known.priced) {
        (Some(_), Some((_, priced, _))) if priced.note(notes::MESH).is_none() => {
            let help = "plan it: leave `--passes` out, or name `fuse,shard,place`";
            Err(Diagnostic::error("the program has no plan whose degrees could be written").help(help).into())
        }
        (Some(stack), Some((facts, priced, plan))) => {
            let (text, said) = export(stack, (priced, facts), plan, cluster)?;
            Ok((Emitted::Text(text), said))
        }
        _ => Ok((own(args, module, known, cluster)?, Vec::new())),
    }
}

/// What is phzc's own.
fn own<'a>(args: &Args, module: &Module, known: &Known<'a>, cluster: &Cluster) -> Result<Emitted, Failure> {
    let view =
        |facts, priced: &'a Cow<Module>, plan| View::new((priced, facts), cluster, plan, known.alternatives);
    match (args.emit, known.priced) {
        (Emit::Stages | Emit::DeviceStages, _) => {
            let is_whole = args.emit == Emit::Stages;
            let cut = if is_whole { stages::stages(module)? } else { stages::of_devices(module)? };
            let text = |(name, module): &(String, Module)| (format!("{name}.hlo"), print(module));
            let modules = cut.modules.iter().map(text);
            let manifest = (MANIFEST.to_owned(), stages::to_json(&cut.manifest));
            Ok(Emitted::Files(modules.chain([manifest]).collect()))
        }
        (Emit::Report, Some((facts, priced, plan))) => {
            Ok(Emitted::Text(page::html(&view(facts, priced, plan))))
        }
        (Emit::Pictures, Some((facts, priced, plan))) => {
            Ok(Emitted::Files(page::pictures(&view(facts, priced, plan))))
        }
        (Emit::Trace, Some((facts, priced, _))) => Ok(Emitted::Text(report::trace(priced, facts, cluster))),
        // What was completed to be priced has facts of its own.
        (_, Some((facts, Cow::Borrowed(_), _))) if remarks::is_priced(module) => {
            Ok(Emitted::Text(remarks::with_facts(module, facts, cluster)))
        }
        _ => Ok(Emitted::Text(remarks::text(module, cluster)?)),
    }
}

/// Errors, before any work is done, if there is nowhere to write to.
pub(crate) fn check(args: &Args) -> Result<(), Failure> {
    check_figures(args)?;
    match (args.emit.needs_directory(), directory(args)) {
        (Some(message), None) => {
            Err(Failure { code: 2, ..Diagnostic::error(message).help("add `-o DIR`").into() })
        }
        (Some(_), Some(path)) => files::check_dir(path).map_err(Failure::from),
        (_, None) => Ok(()),
        (_, Some(path)) => files::check_parent(path).map_err(Failure::from),
    }
}

/// The plan's figures have a file of their own.
fn check_figures(args: &Args) -> Result<(), Failure> {
    let Some(plan) = &args.plan else { return Ok(()) };
    let is_other = |path: &Option<PathBuf>| path.as_deref() == Some(plan);
    if !is_other(&args.output) && !is_other(&args.model) && plan != Path::new("-") {
        return files::check_parent(plan).map_err(Failure::from);
    }
    let message = format!("`--plan {}` would write over the program", plan.display());
    let error = Diagnostic::error(message).help("name a file of its own for the plan's figures");
    Err(Failure { code: 2, ..error.into() })
}

fn directory(args: &Args) -> Option<&Path> {
    args.output.as_deref().filter(|path| *path != Path::new("-"))
}

/// Writes what was made.
pub(crate) fn write(args: &Args, emitted: &Emitted, io: &mut Io) -> Result<(), Failure> {
    match (emitted, directory(args)) {
        (Emitted::Text(text), _) => deliver(args.output.as_deref(), text, io),
        (Emitted::Files(all), Some(dir)) => {
            files::make_dir(dir)?;
            let are_modules = matches!(args.emit, Emit::Stages | Emit::DeviceStages);
            let before = if are_modules { modules_of(dir) } else { Vec::new() };
            all.iter().try_for_each(|(name, text)| files::write(&dir.join(name), text))?;
            let is_left = |name: &&String| !all.iter().any(|(written, _)| written == *name);
            Ok(before.iter().filter(is_left).try_for_each(|name| files::remove(&dir.join(name)))?)
        }
        (Emitted::Files(_), None) => check(args),
    }
}

/// What of an earlier run's manifest is read.
#[derive(Deserialize)]
struct ManifestText {
    modules: Vec<ModuleText>,
}

#[derive(Deserialize)]
struct ModuleText {
    file: String,
}

/// The files of modules that an earlier run wrote into a directory: those that its manifest lists, by names
/// that phzc gives.
fn modules_of(dir: &Path) -> Vec<String> {
    let text = files::read(&dir.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
    let manifest: Option<ManifestText> = serde_json::from_str(&text).ok();
    let names = manifest.into_iter().flat_map(|it| it.modules).map(|module| module.file);
    names.filter(|name| is_module(name)).collect()
}

/// `stage12.forward.hlo`, `stage0.update2.hlo`.
fn is_module(name: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('.').collect();
    let [stage, phase, "hlo"] = parts[..] else { return false };
    let is_phase = |phase: &str| {
        ["forward", "backward", "weight_gradient"].contains(&phase)
            || phase.strip_prefix("update").is_some_and(is_number)
    };
    stage.strip_prefix("stage").is_some_and(is_number) && is_phase(phase)
}

#[cfg(test)]
mod tests {
    use super::is_module;

    #[test]
    fn names_of_modules_are_told_from_others() {
        for name in
            ["stage0.forward.hlo", "stage12.update2.hlo", "stage1.update.hlo", "stage0.weight_gradient.hlo"]
        {
            assert!(is_module(name), "{name}");
        }
        for name in [
            "stage0.hlo",
            "../stage0.forward.hlo",
            "stage0.forward.hlo.bak",
            "notes.update.hlo",
            "stages.json",
        ] {
            assert!(!is_module(name), "{name}");
        }
    }
}
