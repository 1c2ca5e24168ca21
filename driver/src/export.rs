//! Plans as the configurations of training stacks: `--emit megatron|torchtitan|deepspeed|fsdp|maxtext|jax`.
//!
//! Every stack is a file of its own and a line of `STACKS`. It is written from what the final text says
//! (`run.rs`); what the plan has and the stack cannot say is named, in the file and on stderr.

mod deepspeed;
mod fsdp;
mod jax;
mod legal;
mod maxtext;
mod megatron;
mod run;
mod torchtitan;

use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result};
use phzc_passes::derive::Facts;
use phzc_passes::report::Plan;
use run::Run;

/// A stack that a plan can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Megatron-LM: a script of its arguments.
    Megatron,
    /// torchtitan: TOML.
    Torchtitan,
    /// `DeepSpeed`: JSON.
    Deepspeed,
    /// PyTorch's FSDP2: `DTensor` placements per parameter, JSON.
    Fsdp,
    /// `MaxText`: YAML.
    Maxtext,
    /// JAX: a module of meshes and `PartitionSpec`s.
    Jax,
}

/// A configuration, and what the plan has that it does not say.
pub struct Export {
    /// The file.
    pub text: String,
    /// One sentence each.
    pub lost: Vec<String>,
    /// What the stack leaves to the model's code, or has in one way alone, whatever the plan.
    pub elsewhere: Vec<String>,
}

/// How a stack is written.
type Write = fn(&Run) -> Export;

/// The stacks: what people call them, and how they are written.
const STACKS: [(Stack, &str, Write); 6] = [
    (Stack::Megatron, "Megatron-LM", megatron::write),
    (Stack::Torchtitan, "torchtitan", torchtitan::write),
    (Stack::Deepspeed, "DeepSpeed", deepspeed::write),
    (Stack::Fsdp, "FSDP2", fsdp::write),
    (Stack::Maxtext, "MaxText", maxtext::write),
    (Stack::Jax, "a module of JAX layouts", jax::write),
];

/// The configuration of a stack for a planned program, and a warning for each thing that it cannot say.
///
/// # Errors
/// When the program has no products to be parallel in.
pub(crate) fn export(
    stack: Stack,
    (module, facts): (&Module, &Facts),
    plan: &Plan,
    cluster: &Cluster,
) -> Result<(String, Vec<Diagnostic>)> {
    let Some((_, name, write)) = STACKS.iter().find(|(own, ..)| *own == stack) else {
        return Err(Diagnostic::error("this stack has no writer"));
    };
    let export = write(&Run::new(module, facts, cluster, plan)?);
    let warning = |lost: &String| Diagnostic::warning(format!("{name} cannot say this: {lost}"));
    Ok((export.text, export.lost.iter().chain(&export.elsewhere).map(warning).collect()))
}

/// What a stack cannot say of a plan, but for what it leaves to the model's code.
///
/// # Errors
/// As [`export`].
pub(crate) fn lost(
    stack: Stack,
    (module, facts): (&Module, &Facts),
    plan: &Plan,
    cluster: &Cluster,
) -> Result<Vec<String>> {
    let writer = STACKS.iter().find(|(own, ..)| *own == stack);
    let run = Run::new(module, facts, cluster, plan)?;
    Ok(writer.map_or(Vec::new(), |(_, _, write)| write(&run).lost))
}

/// Lines of a comment: what the file is, and what it does not say.
fn comment(run: &Run, what: &str, lost: &[String]) -> String {
    let mut lines = vec![format!("{what}, written by phzc from a plan of {}", run.program)];
    lines.push(run.headline());
    match lost {
        [] => lines.push("It says all that the plan has.".to_owned()),
        _ => {
            lines.push("What the plan has and this file cannot say:".to_owned());
            lines.extend(lost.iter().map(|lost| format!("- {lost}")));
        }
    }
    lines.iter().map(|line| format!("# {line}\n")).collect()
}
